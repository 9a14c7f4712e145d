"""What tests ask of a machine, whichever it is."""

from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from servonode.mechanics.machine import Machine


def close(got: Any, want: Any, relative: float) -> None:
    """Entries agree relative to the largest of them: sums of such entries cancel."""
    assert_allclose(got, want, rtol=0, atol=relative * np.abs(want).max())


def warns(machine: Machine, x: Any, u: Any, text: str) -> bool:
    """Whether a warning with this text holds at a state."""
    return any(text in warning for warning in machine.warnings(0.0, x, np.array(u, dtype=float)))


def fault_text(machine: Machine, x: Any) -> str:
    """The text of the fault condition that a state violates; empty without one."""
    violated = machine.fault(0.0, x)
    return violated.text if violated else ""
