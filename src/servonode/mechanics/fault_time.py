"""When a machine's fault condition was first violated, to within rounding of the plant's own motion."""

from servonode.arrays import Array
from servonode.mechanics.description import Requirement
from servonode.mechanics.machine import Machine

HALVINGS = 60  # of a step: beyond the last bit of its fraction


def located(
    machine: Machine, integrator: str, step_ns: int, k: int, x: Array, u: Array
) -> tuple[float, Requirement | None]:
    """Time [s] of the fault that the step from state x at step k ends with, the input u held, and its condition.

    Within the step the motion is that of a shorter step of the same integrator.
    """
    step, c, t = machine.stepper(integrator), machine.c, k * step_ns / 1e9

    def fault(h: float) -> Requirement | None:
        moved = x.copy()
        step(t, moved, u, c, h)
        return machine.fault(t + h, moved)

    low, high = 0.0, step_ns / 1e9
    violated = fault(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = fault(middle)
        low, high, violated = (low, middle, found) if found else (middle, high, violated)
    return t + high, violated
