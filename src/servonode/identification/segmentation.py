"""Where an experiment is cut into segments: as few as the motion allows that the present parameters give.

A motion that runs away from the measured one within a segment has a sum of squares with many valleys, and one of an
unstable machine runs away under any parameters. So the segments are halved until what is predicted stays near what was
measured. Measured initial states are noisy, speeds that are differences of encoders' counts above all, so before a
segment is refused its initial state is fitted, from states that the fit of shorter segments has smoothed.
"""

import numpy as np

from servonode.arrays import Array
from servonode.identification.experiment import IdentificationError
from servonode.identification.fit import Part, along, with_fitted_starts
from servonode.identification.trajectories import Segments, Trajectories

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
