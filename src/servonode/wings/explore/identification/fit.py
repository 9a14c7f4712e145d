"""The maximum-likelihood fit: the parameters, initial states and noise levels for which the record is likeliest.

Each measurement is the prediction plus noise of its channel, independent and normal, so that twice the negative
logarithm of the likelihood is

    sum_c  n_c log sigma_c^2 + sum_i (z_i - h_i(theta, x_s))^2 / sigma_c^2

It is minimised by turns: Gauss-Newton steps, damped after Levenberg and Marquardt, in theta and x_s under given sigma,
then sigma from the residuals (L. Ljung, System Identification, 2nd ed. 1999, 7.4 and 10.2). The initial states are
eliminated segment by segment, so that the normal equations have the size of theta.

Where an experiment is cut into segments: as few as the motion allows that the present parameters give.

A motion that runs away from the measured one within a segment has a sum of squares with many valleys, and one of an
unstable machine runs away under any parameters. So the segments are halved until what is predicted stays near what was
measured. Measured initial states are noisy, speeds that are differences of encoders' counts above all, so before a
segment is refused its initial state is fitted, from states that the fit of shorter segments has smoothed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.mechanics.description import Quantity
from servonode.mechanics.kernels import Whole
from servonode.mechanics.machine import ParameterError
from servonode.wings.explore.identification.experiment import Experiment, IdentificationError
from servonode.wings.explore.identification.trajectories import Segments, Trajectories

STEPS, TURNS = 40, 6  # Gauss-Newton steps at most under given noise, estimates of the noise at most
DAMPINGS = 12  # of one step, each ten times the one before
ENOUGH = 1e-3  # of a standard deviation: a step that moves no parameter further ends the iteration
STEADY = 1e-3  # change of every sigma by which the turns end
LEAST_NOISE = 1e-9  # of the span of a channel: below it is rounding of the simulation
NULL = 1e-6  # of the largest singular value: below it differences of motions tell nothing
NULL_START = 1e-9  # the same of a segment's initial state
WEAK = 1.0  # relative standard deviation beyond which a direction is left as it was


@dataclass(frozen=True)
class Part:
    """What is fitted to one experiment: its segments with their initial states (segments, n_state)."""

    trajectories: Trajectories
    segments: Segments
    starts: Array

    @property
    def experiment(self) -> Experiment:
        return self.trajectories.experiment

    @property
    def segment_of(self) -> Whole:
        """The number of the segment to which each measurement belongs."""
        return np.searchsorted(np.array(self.segments.rows[1:-1]), self.experiment.row, side="left")


@dataclass(frozen=True)
class Slopes:
    """Of one experiment: scaled residuals (n,), their slopes by the parameters (n, p) free of those by initial states.

    starts: for each segment its measurements, the least-squares answer of its initial state to residuals and
    parameters (n_state, 1 + p), and an orthonormal basis of what initial states change of the measurements.
    """

    residuals: Array
    free: Array  # residuals, the part that no initial state explains
    J: Array
    starts: tuple[tuple[Whole, Array, Array], ...]


@dataclass(frozen=True)
class Fit:
    """Where the iteration ended. values (p,); noise: sigma by channel of each experiment; cost: sum of squares."""

    values: Array
    parts: tuple[Part, ...]
    noise: tuple[Array, ...]
    slopes: tuple[Slopes, ...]
    sizes: Array  # of the parameters, by which they are made comparable
    converged: bool

    @property
    def n_measurements(self) -> int:
        return sum(each.experiment.n_measurements for each in self.parts)

    @property
    def n_unknowns(self) -> int:
        """Parameters and initial states that were estimated."""
        return len(self.values) + sum(each.starts.size for each in self.parts)

    @property
    def information(self) -> Array:
        """The Fisher information of the parameters (p, p), initial states being unknown."""
        return sum((each.J.T @ each.J for each in self.slopes), np.zeros((len(self.values),) * 2))


def fit(parts: Sequence[Part], values: Array, bounds: Sequence[Quantity], noise: Sequence[Array] | None = None) -> Fit:
    """The likeliest parameters from these values on. bounds: their quantities. noise: to begin with.

    Raises:
        IdentificationError: the motion cannot be followed from the initial values.
    """
    sizes = np.where(values == 0.0, 1.0, np.abs(values))
    noise = tuple(noise or (_spans(each.experiment) for each in parts))
    parts, converged = tuple(parts), False
    for _ in range(TURNS):
        values, parts, converged = _gauss_newton(parts, values, noise, sizes, bounds)
        new = tuple(_noise(each, values) for each in parts)
        steady = all(np.all(np.abs(a - b) <= STEADY * b) for a, b in zip(new, noise, strict=True))
        noise = new
        if steady:
            break
    slopes = tuple(slopes_of(each, values, sigma, sizes) for each, sigma in zip(parts, noise, strict=True))
    return Fit(values, parts, noise, slopes, sizes, converged and steady)


def with_fitted_starts(part: Part, values: Array) -> Part:
    """The part with the likeliest initial states under these values; unchanged where there is no motion."""
    known = replace(part.experiment, machine=part.trajectories.with_values(values))
    try:
        found = fit([replace(part, trajectories=Trajectories(known, ()))], np.empty(0), ())
    except IdentificationError:
        return part
    return replace(part, starts=found.parts[0].starts)


def along(part: Part, values: Array) -> Array:
    """The states (rows, n_state) along the motion of a part; those that were measured where it is not finite."""
    x = part.trajectories.states(values, part.segments, part.starts)
    return part.experiment.guess if x is None else x[:, :-1]


def refitted(found: Fit, corrections: Sequence[Array], bounds: Sequence[Quantity]) -> Fit:
    """The fit under the same noise to what was measured less these corrections (n,) of each experiment."""
    parts = []
    for part, each in zip(found.parts, corrections, strict=True):
        corrected = Trajectories(part.experiment.less(each), part.trajectories.names)
        parts.append(replace(part, trajectories=corrected))
    values, moved, converged = _gauss_newton(tuple(parts), found.values, found.noise, found.sizes, bounds)
    moved = tuple(replace(part, starts=each.starts) for part, each in zip(found.parts, moved, strict=True))
    slopes = tuple(slopes_of(a, values, sigma, found.sizes) for a, sigma in zip(moved, found.noise, strict=True))
    return replace(found, values=values, parts=moved, slopes=slopes, converged=found.converged and converged)


def _spans(experiment: Experiment) -> Array:
    """The noise of channels before it is known: their spans.

    The errors of one that does not resolve its motion are no noise: all its values tell as much as one would.
    """
    return np.array([each.span * (1 if each.resolved else len(each.values) ** 0.5) for each in experiment.channels])


def _noise(part: Part, values: Array) -> Array:
    """The standard deviation of each channel's residuals, with the number of estimated unknowns taken off."""
    experiment = part.experiment
    residuals, found = _residuals(part, values), _spans(experiment)
    share = 1 - (len(values) + part.starts.size) / max(experiment.n_measurements, 1)
    for i, channel in enumerate(experiment.channels):
        if not channel.resolved:
            continue
        mean_square = float(np.mean(residuals[experiment.channel == i] ** 2)) / max(share, 0.1)
        found[i] = np.sqrt(max(mean_square, channel.quantum**2 / 12, (LEAST_NOISE * channel.span) ** 2))
    return found


def _residuals(part: Part, values: Array) -> Array:
    """Measured less predicted; raises where there is no motion."""
    predicted = part.trajectories.predicted(values, part.segments, part.starts)
    if predicted is None:
        text = "the simulated motion is not finite from the parameters on that are believed"
        raise IdentificationError(f"{part.experiment.name}: {text}; begin nearer, or give a shorter --segment")
    return part.experiment.difference(part.experiment.values, predicted)


def cost_of(parts: Sequence[Part], values: Array, noise: Sequence[Array]) -> float:
    """The sum of squared residuals in units of the noise; infinite where there is no motion."""
    total = 0.0
    for part, sigma in zip(parts, noise, strict=True):
        try:
            total += float(np.sum((_residuals(part, values) / sigma[part.experiment.channel]) ** 2))
        except (ParameterError, IdentificationError):
            return np.inf
    return total


def slopes_of(part: Part, values: Array, sigma: Array, sizes: Array) -> Slopes:
    experiment, segment_of = part.experiment, part.segment_of
    spans = np.maximum(np.ptp(experiment.guess, axis=0), 1e-3)
    found = part.trajectories.slopes(values, part.segments, part.starts, sizes, spans)
    if found is None:
        text = f"{experiment.name}: the motion beside the fitted one is not finite; give a shorter --segment"
        raise IdentificationError(text)
    weight = 1 / sigma[experiment.channel]
    residuals = _residuals(part, values) * weight
    by_value, by_start = (each * weight[:, None] for each in found)
    free, J, starts = residuals.copy(), by_value.copy(), []
    for i in range(len(part.starts)):
        own = np.flatnonzero(segment_of == i)
        targets = np.column_stack([residuals[own], by_value[own]])
        U, s, Vt = np.linalg.svd(by_start[own] * spans, full_matrices=False)
        seen = s > NULL_START * s.max(initial=0.0)
        basis = U[:, seen]
        shares = basis.T @ targets
        answer = spans[:, None] * (Vt[seen].T @ (shares / s[seen, None]))
        rest = targets - basis @ shares
        free[own], J[own] = rest[:, 0], rest[:, 1:]
        starts.append((own, answer, basis))
    return Slopes(residuals, free, J, tuple(starts))


def _gauss_newton(
    parts: tuple[Part, ...], values: Array, noise: Sequence[Array], sizes: Array, bounds: Sequence[Quantity]
) -> tuple[Array, tuple[Part, ...], bool]:
    """Steps until no parameter moves by a share of its standard deviation; whether that was reached."""
    cost, damping = cost_of(parts, values, noise), 1e-3
    for _ in range(STEPS):
        slopes = [slopes_of(each, values, sigma, sizes) for each, sigma in zip(parts, noise, strict=True)]
        J, free = (np.concatenate(each) for each in zip(*((s.J * sizes, s.free) for s in slopes), strict=True))
        least = [each.at_least for each in bounds]
        on_bounds = np.array([a == b for a, b in zip(values.tolist(), least, strict=True)], dtype=bool)
        for _ in range(DAMPINGS):
            step = _step_within(J, free, damping, on_bounds)
            moved = within(values + sizes * step, bounds, values)
            share = 1 / (1 + damping)  # of the step to the least squares of initial states, as of the parameters
            after = tuple(_moved(part, each, moved - values, share) for part, each in zip(parts, slopes, strict=True))
            new = cost_of(after, moved, noise)
            if new <= cost * (1 + 1e-12):
                break
            damping *= 10
        else:
            return values, parts, True  # no step is better: rounding, or a bound
        change = float(np.linalg.norm(J @ ((moved - values) / sizes)))
        values, parts, damping = moved, after, max(damping / 10, 1e-12)
        gain, cost = cost - new, new
        if change < ENOUGH * np.sqrt(len(values)) or gain < 1e-10 * max(new, 1.0):
            return values, parts, True
    return values, parts, False


def _step(J: Array, residuals: Array, damping: float) -> Array:
    """The damped least-squares step in the directions of which the record tells something."""
    U, s, Vt = np.linalg.svd(J, full_matrices=False)
    known = told(s)
    return Vt[known].T @ (s[known] / (s[known] ** 2 + damping * s[known] ** 2) * (U.T @ residuals)[known])


def _step_within(J: Array, residuals: Array, damping: float, on_bound: npt.NDArray[np.bool_]) -> Array:
    """The step without those on a bound that would leave it: the others then go where they are best beside them."""
    free = np.ones(J.shape[1])
    step = _step(J, residuals, damping)
    while (outward := on_bound & (free > 0) & (step < 0)).any():
        free[np.argmin(np.where(outward, step, 0.0))] = 0.0
        step = free * _step(J * free, residuals, damping)
    return step


def told(singular: Array) -> npt.NDArray[np.bool_]:
    """Which singular directions of the scaled slopes the record tells: not null, nor weaker than the value itself."""
    found: npt.NDArray[np.bool_] = (singular > NULL * singular.max(initial=1e-300)) & (singular > 1 / WEAK)
    return found


def _moved(part: Part, slopes: Slopes, change: Array, share: float) -> Part:
    """The part after a change of the parameters, its initial states with it, and a share of their own step."""
    starts = part.starts.copy()
    for i, (_, answer, _) in enumerate(slopes.starts):
        starts[i] += share * answer[:, 0] - answer[:, 1:] @ change
    return replace(part, starts=starts)


def within(values: Array, bounds: Sequence[Quantity], before: Array) -> Array:
    """The values within the bounds of their quantities; towards one that may not be reached half of the way."""
    found = values.copy()
    for i, each in enumerate(bounds):
        if each.at_least is not None:
            found[i] = max(found[i], each.at_least)
        if each.above is not None and found[i] <= each.above:
            found[i] = (before[i] + each.above) / 2
    return found


LEAST_ROWS = 10  # of a segment
MOVES = 4.0  # times the variance of its noise, that of a channel in which a motion is seen
NEAR = 0.1  # mean share of the channels' variance that the prediction may miss


def cut(trajectories: Trajectories, values: Array, seconds: float | None = None, before: Part | None = None) -> Part:
    """The experiment in segments of this length [s], or of the largest that serve. before: fitted with these values.

    Raises:
        IdentificationError: `seconds` is shorter than LEAST_ROWS rows.
    """
    experiment = trajectories.experiment
    most = max((len(experiment.k) - 1) // LEAST_ROWS, 1)
    guess = along(before, values) if before else experiment.guess
    if seconds is not None:
        number = max(round(experiment.duration / seconds), 1)
        if number > most:
            least = experiment.duration / most
            text = f"a segment of {seconds:g} s has fewer than {LEAST_ROWS} rows; give at least {least:.2g} s"
            raise IdentificationError(f"{experiment.name}: {text}")
        return _part(trajectories, number, guess)
    part = _part(trajectories, 1, guess)
    if missed(part, values) <= NEAR:
        return part
    if before is None and experiment.observer is None:  # that of an observer is smooth
        guess = along(with_fitted_starts(_part(trajectories, most, guess), values), values)
    number = 1
    while missed(part := with_fitted_starts(_part(trajectories, number, guess), values), values) > NEAR:
        if 2 * number > most:
            break
        number *= 2
    return part


def uncut(part: Part, values: Array) -> Part:
    """The whole experiment of a part, from the state where this begins."""
    return _part(part.trajectories, 1, along(part, values))


def _part(trajectories: Trajectories, number: int, guess: Array) -> Part:
    rows = np.unique(np.linspace(0, len(guess) - 1, number + 1).round().astype(int))
    return Part(trajectories, Segments(tuple(rows.tolist())), guess[rows[:-1]].copy())


def missed(part: Part, values: Array) -> float:
    """The mean over the channels of the share of the variance that the prediction misses, at most 1 of each.

    Channels in which nothing but noise is seen, or that do not resolve their motion, do not count. The noise is read
    from the differences of neighbouring values, and from their rounding.
    """
    experiment = part.experiment
    predicted = part.trajectories.predicted(values, part.segments, part.starts)
    if predicted is None:
        return 1.0
    residuals = experiment.difference(experiment.values, predicted)
    shares = []
    for i, channel in enumerate(experiment.channels):
        variance, noise = float(np.var(channel.values)), channel.noise
        mean_square = float(np.mean(residuals[experiment.channel == i] ** 2))
        if channel.resolved and variance > MOVES * noise:
            unexplained = mean_square - max(noise, channel.quantum**2 / 12)
            shares.append(min(max(unexplained, 0.0) / variance, 1.0))
    return float(np.mean(shares)) if shares else 0.0
