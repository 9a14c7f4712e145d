"""What tests ask of a machine and of its runs, whichever it is."""

from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from servonode.mechanics.machine import Machine
from servonode.record.run import Run


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


def assert_same_bits(one: Run, other: Run) -> None:
    """All columns of two runs are equal bit by bit."""
    assert list(one.columns) == list(other.columns)
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column.view(np.int64), other.columns[name].view(np.int64), name)
