"""Whether a run stays near a periodic motion of its own, or of a machine with jumps, and what its multipliers say."""

import numpy as np

from servonode.analysis.orbits import Flow, NoOrbit, PeriodicOrbit, find_orbit
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.static_checks import Examination, Level
from servonode.record.run import Run
from servonode.simulation.event_integration import SimulationError
from servonode.tables import TOGETHER, several, valued

LOST = 40.0  # growth within the run from which on an unstable orbit is refused
NEAR = 0.1  # of the orbit's amplitudes: how near the run must be to it at its end
MOVES = 1e-3  # what a state of the last quarter of the run must at least go through, relative to 1


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
        if _distance(flow, orbit, last) > NEAR:
            return False
    except (NoOrbit, SimulationError):
        return False
    _add(orbit, whole, found)
    return True


def _moves(run: Run) -> bool:
    late = np.array(list(run.state.values()))[:, -max(len(run.t) // 4, 2) :]
    return bool(np.ptp(late, axis=1).max(initial=0.0) > MOVES * (1 + np.abs(late).max(initial=0.0)))


def _distance(flow: Flow, orbit: PeriodicOrbit, x: Array) -> float:
    """How far a state is from the orbit, as a share of its amplitudes."""
    kept = np.searchsorted(flow.loop.entries, flow.lively)
    states = orbit.states[:, kept]
    apart, size = states - x[flow.lively], np.ptp(states, axis=0)
    turning = flow.turning
    apart[:, turning] = (apart[:, turning] + np.pi) % (2 * np.pi) - np.pi
    size = np.maximum(size, MOVES * size.max(initial=0.0))
    return float((np.abs(apart) / size).max(axis=1).min())


def _add(orbit: PeriodicOrbit, whole: float, found: Examination) -> None:
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
