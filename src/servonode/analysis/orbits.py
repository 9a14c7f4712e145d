"""Periodic motions of the closed loop, with the derivative of their Poincare map and Floquet's multipliers.

A motion that returns, x(P) = x(0) but for whole turns of angles and, without jumps, for passive states, is found by
Newton's method on the flow of the continuous loop over P. Where nothing depends on time P is unknown too, and a step
stays in the section through x(0) across the flow. A machine's jumps are located on the way, so that neighbours jump at
their own instants: differences of the flow contain what a jump does to a perturbation (saltation). M, the derivative of
the flow over P, has the multipliers as eigenvalues; of a loop that does not depend on time one of them is 1, along the
flow, and the return map of the section has the others (J. Guckenheimer, P. Holmes, Nonlinear Oscillations, 1983, 1.5).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servonode.analysis.internal_motion import period_of, turns
from servonode.analysis.linear_system import Complex, slope
from servonode.analysis.perturbations import Motion
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.static_checks import Examination, Level
from servonode.errors import StatementError, did_you_mean
from servonode.mechanics.equilibrium import nearby_states
from servonode.record.run import Run
from servonode.simulation.continuous_loop import ContinuousLoop, passive_coordinates
from servonode.simulation.event_integration import MachineJumps, SimulationError, integrated
from servonode.tables import TOGETHER, Result, Row, several, valued

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RTOL = ATOL = 1e-11
LOOKS = 4000  # times of a run at which a return is looked for
LEAVES, RETURNS = 0.5, 0.2  # shares of the largest distance that a motion must leave, and come back to
ROUNDS, CLOSED = 15, 1e-8  # of Newton's method; by how much of its amplitude an orbit may miss its beginning
LEFT_ALONE = 1e-6  # of the largest singular value: a direction below it is one of a family of orbits
SHARE = 1e-3  # of an amplitude, by which neighbours differ whose differences are M
SHOWN = 1e-5  # an imaginary part of a multiplier below this is not printed
NEUTRAL = 1e-4  # a multiplier so near to 1 in magnitude neither grows nor decays
LOST = 40.0  # growth within the run from which on an unstable orbit is refused
BY_RUN = 0.1  # of the orbit's amplitudes: how near the run must be to it at its end
MOVES = 1e-3  # what a state of the last quarter of the run must at least go through, relative to 1
STANDS = 1e-9  # what neither goal nor rates may change by, of a loop that does not depend on time


class NoOrbit(StatementError):
    """No periodic motion was found; the text says why."""


@dataclass(frozen=True, repr=False, eq=False)
class PeriodicOrbit(Result):
    """A periodic motion of the continuous closed loop: its period [s], a state on it, Floquet's multipliers.

    `state`: by name, at t = 0 of a loop that is `forced` (goal or machine depend on time), else where the section
    crosses it. `multipliers`: by what a perturbation of each kind is multiplied in a period, the largest first; of a
    loop that is not forced without the one along the orbit. `matrix`: the derivative of the return map in `names`, or
    of a loop that is not forced in `directions` (n, n - 1) of these. `jumps`: when the machine jumps in a period [s].
    `t`, `states` (n_t, n): a period, in the columns `columns`.
    """

    period: float
    forced: bool
    state: Mapping[str, float]
    units: Mapping[str, str]
    names: tuple[str, ...]
    multipliers: Complex
    matrix: Array
    directions: Array
    jumps: tuple[float, ...]
    t: Array
    states: Array
    columns: tuple[str, ...]

    @property
    def exponents(self) -> Complex:
        """The multipliers as rates: log(multiplier) / period [1/s]."""
        return np.asarray(np.log(self.multipliers + 1e-300) / self.period, dtype=complex)

    @property
    def largest(self) -> float:
        """The size of the largest multiplier; 0 without any."""
        return float(np.abs(self.multipliers).max(initial=0.0))

    @property
    def stable(self) -> bool | None:
        """Whether all perturbations decay; None where one neither grows nor decays, as beside one of a family."""
        return None if abs(self.largest - 1) <= NEUTRAL else self.largest < 1

    def table(self) -> tuple[str, list[Row]]:
        """Period, state, multipliers and what they say."""
        word = {
            True: "stable",
            False: "unstable",
            None: "neither growing nor decaying: one of a family, or at its limit",
        }
        kind = "in time with goal or machine" if self.forced else "of its own"
        rows = [("period", f"{self.period:.6g} s, {kind}")]
        rows += [("through", several((valued(*each, self.units[each[0]]) for each in self.state.items()), 8))]
        shown = (each.real if abs(each.imag) < SHOWN else each for each in self.multipliers)
        sizes = (f"{each:.3g}" for each in shown)
        rows += [("multipliers", several(sizes, 8)), ("stability", word[self.stable])]
        rows += [("jumps", f"{len(self.jumps)} in a period")] if self.jumps else []
        return "Periodic motion", rows

    def plot(self, x: str | None = None, y: str | None = None) -> "Figure":
        """The orbit in the plane of two states, and its multipliers with the unit circle, as a matplotlib Figure.

        Args:
            x, y: names of states; by default the first that moves, and its rate or the next one that moves.

        Raises:
            StatementError: there is no such state.
        """
        for name in (x, y):
            if name is not None and name not in self.columns:
                near = did_you_mean(name, self.columns)
                raise StatementError(f"{name!r} is not a state; {near}choose of {', '.join(self.columns)}")
        figure: Figure = self.by_view("views.orbit_figure.orbit_figure", x, y)
        return figure


class Flow:
    """The flow of the continuous loop, through the machine's jumps. `lively`: entries that are not passive."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.closed_loop, described = closed_loop, closed_loop.machine.description
        if described.held:
            text = f"machine {described.name} holds {described.held[0]} = 0 by its coordinates; a periodic motion is "
            raise NoOrbit(f"{text}looked for in independent coordinates, so define it in these")
        if described.jumps_compare:
            text = "its jumps depend on the states at the beginning of a plant step, which the continuous loop lacks"
            raise NoOrbit(f"machine {described.name}: {text}; look at runs from starts beside this one")
        self.loop = ContinuousLoop(closed_loop, with_jumps=True)
        passive = () if described.jumps else passive_coordinates(self.loop)  # a jump may depend on any place
        self.lively = self.loop.entries[[name not in passive for name in self.loop.names]]
        self.forced = not _stands(self.loop)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the lively entries."""
        return tuple(self.loop.names[i] for i in np.searchsorted(self.loop.entries, self.lively))

    @property
    def turning(self) -> npt.NDArray[np.bool_]:
        """Which of the lively entries are angles, in which a whole turn may be the same place."""
        return self.loop.angles[np.searchsorted(self.loop.entries, self.lively)]

    def apart(self, lively: Array, other: Array) -> Array:
        """The differences of lively entries (n_t, n), of angles the least ones."""
        apart: Array = lively - other
        apart[:, self.turning] = (apart[:, self.turning] + np.pi) % (2 * np.pi) - np.pi
        return apart

    def along(self, x: Array, times: Array) -> tuple[Array, tuple[float, ...]]:
        """The states (n_times, n) at these times of the motion that is at x at the first of them, and its jumps' times.

        Raises:
            SimulationError: the integration cannot continue.
        """
        closed_loop, equations = self.closed_loop, self.loop.equations
        jumps = MachineJumps(closed_loop.machine, closed_loop.launch.step_ns / 1e9, equations)
        found = integrated(equations, times, x, jumps, RTOL, ATOL).y
        if not np.isfinite(found).all():
            raise SimulationError("the motion has no finite state any more")
        return found, tuple(jumps.times)

    def over(self, x: Array, duration: float) -> Array:
        """The lively entries of the state that x comes to, from t = 0 on."""
        last: Array = self.along(x, np.array([0.0, duration]))[0][-1, self.lively]
        return last

    def beside(self, x: Array, lively: Array) -> Array:
        """The state x with other lively entries."""
        other = x.copy()
        other[self.lively] = lively
        return other


def _stands(loop: ContinuousLoop) -> bool:
    """Whether neither the goal, nor the rates, nor the jumps depend on time."""
    end = loop.closed_loop.launch.duration_ns / 1e9
    times = np.sqrt([2e-4, 0.083, 0.33, 0.97]) * end  # no ratio is rational, so no forcing has a period in common
    states = loop.start, *nearby_states(loop.start)  # at the first a term may vanish that changes
    found = [loop.forcing(t, x) - loop.forcing(0.0, x) for t in times for x in states]
    return bool(np.abs(found).max(initial=0.0) < STANDS)


def find_orbit(closed_loop: ClosedLoop, x: Array, period: float | None = None) -> PeriodicOrbit:
    """The periodic motion near that from x (n,) on: machine and program's own states; period [s]: a first guess.

    Raises:
        NoOrbit: none is found; the text says why.
    """
    flow = Flow(closed_loop)
    try:
        if flow.forced:
            return _forced(flow, x, _forcing(flow) if period is None else period)
        return _found(flow, *_returning(flow, x, period))
    except SimulationError as error:
        raise NoOrbit(f"no periodic motion was found: {error}") from error


def _forced(flow: Flow, x: Array, period: float) -> PeriodicOrbit:
    """The orbit near a state, or else near where the motion is after the last whole period of the run."""
    try:
        return _found(flow, x, period)
    except NoOrbit:
        whole = flow.closed_loop.launch.duration_ns / 1e9 // period * period
        if not whole:
            raise
        return _found(flow, flow.along(x, np.array([0.0, whole]))[0][-1], period)


def _forcing(flow: Flow) -> float:
    """The period [s] of goal and machine."""
    end = flow.closed_loop.launch.duration_ns / 1e9
    period = period_of(flow.loop, Motion(np.linspace(0.0, end, LOOKS).tolist(), [], []))
    if period is None:
        text = f"goal and machine have no period within {end:g} s; give one by period=, or a longer run.duration"
        raise NoOrbit(text)
    return period


def _returning(flow: Flow, x: Array, period: float | None) -> tuple[Array, float]:
    """A state of the second half of the run, and after what time [s] the motion comes back to it."""
    end = flow.closed_loop.launch.duration_ns / 1e9 if period is None else max(6 * period, 1e-9)
    times = np.linspace(0.0, end, LOOKS)
    states = flow.along(x, times)[0]
    later, since = states[LOOKS // 2 :, flow.lively], times[LOOKS // 2 :] - times[LOOKS // 2]
    apart = flow.apart(later, later[0])
    size = np.ptp(later, axis=0)
    size = np.where(flow.turning, np.minimum(size, np.pi), size)
    distance = np.linalg.norm(apart / np.where(size > 0, size, 1.0), axis=1)
    if distance.max() < STANDS or not np.isfinite(distance).all():
        raise NoOrbit("the motion comes to rest, or never moves; linearize() looks at an equilibrium")
    least = (distance[1:-1] < distance[:-2]) & (distance[1:-1] <= distance[2:])
    for i in np.flatnonzero(least) + 1:
        if distance[: i + 1].max() > LEAVES * distance.max() and distance[i] < RETURNS * distance.max():
            return states[LOOKS // 2], float(since[i])
    raise NoOrbit(f"the motion does not come back to where it was within {end / 2:g} s; give a longer run.duration")


def _found(flow: Flow, x: Array, period: float) -> PeriodicOrbit:
    """The orbit that Newton's method finds from a state and a period on."""
    lively = flow.lively
    size = _amplitudes(flow, x, period)
    for _ in range(ROUNDS):
        last = flow.over(x, period)
        missed = _missed(flow, x, last)
        if np.abs(missed / size).max() < CLOSED:
            return _told(flow, x, period, size)
        M = _derivative(flow, x, period, size)
        along, now = flow.loop.rates(period, flow.beside(x, last))[lively], flow.loop.rates(0.0, x)[lively]
        rows = np.block([[M - np.eye(len(M)), along[:, None]], [now[None, :] / np.linalg.norm(now), np.zeros((1, 1))]])
        rows = rows[:-1, :-1] if flow.forced else rows
        scale = size if flow.forced else np.append(size, period)
        heights = size if flow.forced else np.append(size, np.linalg.norm(size))
        wanted = -missed if flow.forced else np.append(-missed, 0.0)
        step = scale * np.linalg.lstsq(rows * scale / heights[:, None], wanted / heights, rcond=LEFT_ALONE)[0]
        step *= min(1.0, 0.5 / max(float(np.abs(step / scale).max()), 1e-300))
        x = flow.beside(x, x[lively] + step[: len(lively)])
        period += 0.0 if flow.forced else float(step[-1])
        if not 0 < period < np.inf:
            break
    raise NoOrbit("Newton's method found no periodic motion near this one; give a state, or a period, nearer to it")


def _missed(flow: Flow, x: Array, last: Array) -> Array:
    """By how much a motion misses its beginning, but for whole turns of its angles."""
    moved = last - x[flow.lively]
    turned = turns(flow.loop, x, moved, flow.lively, flow.turning)
    return moved if turned is None else moved - turned


def _amplitudes(flow: Flow, x: Array, period: float) -> Array:
    """How far each lively entry goes in a period; of one that hardly moves a share of the largest; at rest 1."""
    size = np.ptp(flow.along(x, np.linspace(0.0, period, 200))[0][:, flow.lively], axis=0)
    if size.max(initial=0.0) < STANDS:
        if flow.forced:
            return np.ones(len(size))
        raise NoOrbit("the motion rests here; linearize() looks at an equilibrium")
    least: Array = np.maximum(size, SHARE * size.max())
    return least


def _derivative(flow: Flow, x: Array, period: float, size: Array) -> Array:
    """M, the derivative of the flow over a period in the lively entries."""
    return slope(lambda each: flow.over(flow.beside(x, each), period), x[flow.lively], SHARE * size)


def _told(flow: Flow, x: Array, period: float, size: Array) -> PeriodicOrbit:
    matrix, directions = _derivative(flow, x, period, size), np.eye(len(flow.lively))
    if not flow.forced:
        along = flow.loop.rates(0.0, x)[flow.lively]
        directions = np.linalg.svd(along[None, :])[2][1:].T
        matrix = directions.T @ matrix @ directions
    multipliers = np.linalg.eigvals(matrix).astype(complex)
    times = np.linspace(0.0, period, 400)
    states, jumps = flow.along(x, times)
    loop = flow.loop
    return PeriodicOrbit(
        period=period,
        forced=flow.forced,
        state=dict(zip(loop.names, x[loop.entries].tolist(), strict=True)),
        units=dict(zip(loop.names, loop.units, strict=True)),
        names=flow.names,
        multipliers=multipliers[np.argsort(-np.abs(multipliers), kind="stable")],
        matrix=matrix,
        directions=directions,
        jumps=jumps,
        t=times,
        states=states[:, loop.entries],
        columns=loop.names,
    )


def judge_orbit(closed_loop: ClosedLoop, run: Run, whole: float, found: Examination) -> bool:
    """Add the periodic motion that a run comes to, if there is one; whole [s]: the time over which a growth counts.

    A loop whose goal moves is left out, unless its machine has jumps: of the others `zero_dynamics` finds the orbit.
    """
    if run.fault or not _moves(run):
        return False
    try:
        flow = Flow(closed_loop)
        if flow.forced and not closed_loop.machine.description.jumps:
            return False
        end = closed_loop.launch.duration_ns / 1e9
        last = flow.along(flow.loop.start, np.array([0.0, end]))[0][-1]
        orbit = find_orbit(closed_loop, flow.loop.start)
        if _distance_to(flow, orbit, last) > BY_RUN:
            return False
    except (NoOrbit, SimulationError):
        return False
    _add_verdict(orbit, whole, found)
    return True


def _moves(run: Run) -> bool:
    late = np.array(list(run.state.values()))[:, -max(len(run.t) // 4, 2) :]
    return bool(np.ptp(late, axis=1).max(initial=0.0) > MOVES * (1 + np.abs(late).max(initial=0.0)))


def _distance_to(flow: Flow, orbit: PeriodicOrbit, x: Array) -> float:
    """How far a state is from the orbit, as a share of its amplitudes."""
    kept = np.searchsorted(flow.loop.entries, flow.lively)
    states = orbit.states[:, kept]
    apart, size = flow.apart(states, x[flow.lively]), np.ptp(states, axis=0)
    size = np.maximum(size, MOVES * size.max(initial=0.0))
    return float((np.abs(apart) / size).max(axis=1).min())


def _add_verdict(orbit: PeriodicOrbit, whole: float, found: Examination) -> None:
    multipliers = [[float(each.real), float(each.imag)] for each in orbit.multipliers]
    found.numbers["periodic_motion"] = {
        "period": orbit.period, "multipliers": multipliers, "state": dict(orbit.state), "jumps": list(orbit.jumps),
    }  # fmt: skip
    through = several(
        (valued(*each, orbit.units[each[0]]) for each in orbit.state.items() if each[0] in orbit.names), 6
    )
    text = f"of {orbit.period:.4g} s through {through}: largest Floquet multiplier {orbit.largest:.4g}"
    level, words = _judged(orbit, whole)
    found.add(level, "periodic motion", f"{text}; {words}".replace(TOGETHER, " "))


def _judged(orbit: PeriodicOrbit, whole: float) -> tuple[Level, str]:
    if orbit.stable is None:
        return "good", "beside it perturbations neither grow nor decay, as in a family of such motions"
    if orbit.stable:
        return "good", "perturbations decay"
    with np.errstate(over="ignore"):
        grown = float(np.float64(orbit.largest) ** int(whole / orbit.period))
    if grown > LOST:
        return "refuse", "unstable: feed back what the goal leaves free, or choose another motion"
    longest = orbit.period * float(np.log(LOST) / np.log(orbit.largest))
    return "warn", f"unstable, {grown:.2g}-fold in this run of {whole:g} s: one of more than {longest:.3g} s is refused"
