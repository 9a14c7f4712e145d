"""Where a system rests, and which of its states nothing else depends on."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.mechanics.equilibrium import passive, zero_near

Array = Any


def pendulum(x: Array) -> tuple[Array, Any]:
    """Of a place s that is carried along, an angle and its rate under a torque of 0.3 of the weight's."""
    _, q, w = x
    slope = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, -np.cos(q), -0.1]])
    return np.array([w, w, 0.3 - np.sin(q) - 0.1 * w]), lambda: slope


@pytest.mark.parametrize("longest", [np.inf, 0.05])
def test_the_rest_of_a_pendulum_is_found_in_the_entries_that_may_move(longest: float) -> None:
    def active(x: Array) -> tuple[Array, Any]:
        values, slope = pendulum(x)
        return values[1:], lambda: slope()[1:, 1:]

    start = np.array([2.0, 0.0, 0.5])
    found = zero_near(active, start, [1, 2], longest)
    assert_allclose(found, [2.0, np.arcsin(0.3), 0.0], atol=1e-11)
    assert start.tolist() == [2.0, 0.0, 0.5]


def test_what_never_rests_has_no_equilibrium() -> None:
    assert zero_near(lambda x: (x**2 + 1.0, lambda: np.diag(2 * x)), np.array([0.4]), [0]) is None
    assert zero_near(lambda _: None, np.array([0.4]), [0]) is None


def test_a_place_that_nothing_depends_on_is_passive() -> None:
    def linearised(x: Array) -> tuple[Array, Array]:
        values, slope = pendulum(x)
        return values, slope()

    assert passive(linearised, np.zeros(3), range(3)) == [0]
    assert passive(linearised, np.zeros(3), [1, 2]) == []
