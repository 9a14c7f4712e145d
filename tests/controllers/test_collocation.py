"""Collocation at Gauss points against closed forms: jumps inside intervals, order, what cannot be solved."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from servonode.controllers.inversion.bounded import NotSolved, collocate

Array = Any
W, AT = 3.0, 0.1234  # z'' = W^2 (z - step at AT)
LEFT, RIGHT = np.array([[-W, 1.0]]), np.array([[W, 1.0]])


def rates(t: Array, z: Array) -> Array:
    return np.stack([z[:, 1], W**2 * (z[:, 0] - (t > AT))], axis=1)


def exact(t: Array) -> Array:
    """The bounded solution: half of the step is done when it comes."""
    return np.where(t < AT, 0.5 * np.exp(W * (t - AT)), 1 - 0.5 * np.exp(-W * (t - AT)))


def solved(tolerance: float, F: Callable[[Array, Array], Array] = rates) -> Any:
    t = np.linspace(-8.0, 8.0, 41)
    ends = (LEFT, np.zeros(2)), (RIGHT, np.array([1.0, 0.0]))
    return collocate(F, *ends, t, np.zeros((41, 2)), tolerance)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
def test_a_jump_inside_an_interval_costs_no_accuracy(tolerance: float) -> None:
    found = solved(tolerance)
    assert found.error <= tolerance
    assert np.max(np.abs(found.z[:, 0] - exact(found.t))) < tolerance


def test_collocation_polynomials_between_the_nodes() -> None:
    found = solved(1e-10)
    h = np.diff(found.t)
    middle = found.t[:-1] + 0.4 * h
    values = [np.polyval(piece[:, 0], 0.4 * width) for piece, width in zip(found.pieces, h, strict=True)]
    rates_there = [np.polyval(piece[:, 1], 0.4 * width) for piece, width in zip(found.pieces, h, strict=True)]
    assert np.max(np.abs(values - exact(middle))) < 1e-10
    assert np.max(np.abs(rates_there - 0.5 * W * np.exp(-W * np.abs(middle - AT)))) < 1e-9


def test_what_has_no_solution_is_said() -> None:
    with pytest.raises(NotSolved, match=r"Newton's method does not converge|intervals would be needed"):
        solved(1e-8, lambda t, z: np.stack([z[:, 1], np.exp(z[:, 0] ** 2) + 1 + 0 * t], axis=1))
