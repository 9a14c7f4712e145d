"""What helps where the goal leaves an unstable motion free or is missed: remedies that fit this closed loop."""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from servonode.analysis.internal_motion import NEUTRAL, Linearised
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.gains import MATRICES, PERTURBATION
from servonode.closed_loop.launch_file import LaunchError
from servonode.closed_loop.launch_keys import AUTO
from servonode.record.run import Run, default_every
from servonode.simulation.continuous_loop import ContinuousLoop
from servonode.simulation.equations_source import SIDE
from servonode.simulation.simulate import simulate_fused

REACHED = 1e-6  # least singular value of (mu 1 - A, B), relative to its largest, of a mode that the inputs reach
AT_REST = 1e-3  # m/s or rad/s
SLOWER = (1.0, 0.3, 0.1, 0.03)  # shares of the rate of "auto" that are tried, the fastest first


def remedies(loop: ContinuousLoop, at: Linearised) -> str:
    """The remedies for an unstable motion that is left free, as one text."""
    description, state = loop.machine.description, at.grows
    coordinate = state.removesuffix("_dot") if state.removesuffix("_dot") in description.coordinates else state
    found = []
    if description.rolls and np.abs(at.state[loop.velocities]).max() > AT_REST:
        found.append("turn the direction of travel")
    found.append(f"choose another output, a residual that contains {coordinate}")
    if inputs_reach(loop, at):
        found.append(f"hold {coordinate} by a fast inner loop whose set-point the present goal gives (a cascade)")
        found.append("feed all states back by inputs= of a program, such as an LQR about this state")
    if all(abs(mu.real) > NEUTRAL for mu in at.eigenvalues):  # hyperbolic
        found.append("follow a goal that is known in advance by stable inversion: add an empty [controller.inversion]")
    return ", or ".join(found)


def inputs_reach(loop: ContinuousLoop, at: Linearised) -> bool:
    """Whether the inputs can stabilise the machine about a state: each unstable mode obeys them (Hautus' test)."""
    A, B = _machine(loop, at.time, at.state)
    if not B.shape[1]:
        return False
    for mu in np.linalg.eigvals(A):
        if mu.real > NEUTRAL:
            values = np.linalg.svd(np.hstack([mu * np.eye(len(A)) - A, B]), compute_uv=False)
            if values[-1] < REACHED * values[0]:
                return False
    return True


def _machine(loop: ContinuousLoop, t: float, x: Array) -> tuple[Array, Array]:
    """A = dx'/dx and B = dx'/du of the machine alone, under the inputs that the law gives at this state."""
    machine, n = loop.machine, loop.n_x - 1
    state, u = x[: loop.n_x], loop.inputs(t, x)

    def slope(change: Array, by: Array) -> Array:
        ahead = machine.derivatives(t, state + change, u + by)[:n]
        result: Array = (ahead - machine.derivatives(t, state - change, u - by)[:n]) / (2 * SIDE)
        return result

    still, none = np.zeros(len(state)), np.zeros(len(u))
    A = np.array([slope(SIDE * row, none) for row in np.eye(n, len(state))]).T
    B = np.array([slope(still, SIDE * row) for row in np.eye(len(u))]).reshape(len(u), n).T
    return A, B


def working_rate(closed_loop: ClosedLoop, reached: Callable[[ClosedLoop, Run], bool]) -> str:
    """The remedy with the rate [1/s], the fastest of those tried, with which `reached` is true; empty: none is.

    It is empty, too, where gains are matrices, which no single rate replaces, and where the law has none.
    """
    for loop, text in _others(closed_loop):
        run = simulate_fused(loop, default_every(loop))
        if not run.fault and reached(loop, run):
            return text
    return ""


def _others(closed_loop: ClosedLoop) -> Iterator[tuple[ClosedLoop, str]]:
    """The closed loop with other rates, and how to give them."""
    control, launch = closed_loop.control, closed_loop.launch
    if control is None or launch.controller is None or control.law.description.explicit:
        return
    given = launch.controller.gains
    if launch.controller.inversion is not None or any(key in given for key in (*MATRICES, *PERTURBATION)):
        return
    kept = {key: value for key, value in given.items() if key.startswith("integral")}
    fastest: list[float] = []
    for share in SLOWER:
        rate = float(f"{share * min(fastest):.2g}") if fastest else AUTO
        controller = msgspec.structs.replace(launch.controller, gains={"lambda": rate} | kept)
        try:
            loop = resolve(msgspec.structs.replace(launch, controller=controller), strict=False)
        except LaunchError:  # an initial state for which this rate is too fast
            continue
        assert loop.control is not None
        rates = loop.control.gains.rates.tolist()
        fastest = fastest or rates
        if rates == control.gains.rates.tolist() or loop.examination.refusals:
            continue
        numbers = ", ".join(f"{each:.3g}" for each in dict.fromkeys(rates))
        shown = f'"auto" ({numbers} 1/s)' if rate == AUTO else f"{rate:g}"
        yield loop, f"give controller.gains.lambda = {shown}, which reaches the goal"
