"""What helps where the goal leaves an unstable motion free: remedies that fit the machine at hand."""

import numpy as np
import numpy.typing as npt

from servonode.analysis.internal_motion import NEUTRAL, Linearised
from servonode.simulation.continuous_loop import SIDE, ContinuousLoop

Array = npt.NDArray[np.float64]
REACHED = 1e-6  # least singular value of (mu 1 - A, B), relative to its largest, of a mode that the inputs reach
AT_REST = 1e-3  # m/s or rad/s


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
