"""When a machine's fault condition was first violated, to within rounding of the plant's own motion."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from servonode.mechanics.machine import Machine

Array = npt.NDArray[np.float64]
HALVINGS = 60  # of a step: beyond the last bit of its fraction


def located(
    machine: Machine, integrator: str, step_ns: int, k: int, x: Array, u: Array, steps: int
) -> tuple[float, str]:  # fmt: skip
    """Time [s] and text of the first fault within `steps` steps from state x at step k, the input u held.

    The state at the last of these steps must violate a condition. Between steps the motion is that of a shorter step of
    the same integrator.
    """
    text = machine.fault(k * step_ns / 1e9, x)
    if text:
        return k * step_ns / 1e9, text
    advance, step, c = machine.advancer(integrator), machine.stepper(integrator), machine.c

    def after(n: int) -> Array:
        moved = x.copy()
        advance(k, n, step_ns, moved, u, c)
        return moved

    def within(h: float) -> Array:
        moved = x.copy()
        step(k * step_ns / 1e9, moved, u, c, h)
        return moved

    while steps > 1:
        middle = steps // 2
        moved = after(middle)
        if machine.fault((k + middle) * step_ns / 1e9, moved):
            steps = middle
        else:
            k, x, steps = k + middle, moved, steps - middle
    t = k * step_ns / 1e9
    return _bisected(lambda h: machine.fault(t + h, within(h)), t, step_ns / 1e9)


def _bisected(fault: Callable[[float], str | None], t: float, h: float) -> tuple[float, str]:
    """Time and text of the violation within a step from t that ends with one."""
    low, high = 0.0, h
    text = fault(high) or ""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = fault(middle)
        low, high, text = (low, middle, found) if found else (middle, high, text)
    return t + high, text
