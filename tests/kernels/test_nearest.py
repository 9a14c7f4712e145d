"""The solver of goals with limits: the inputs nearest to those of a law that keep what must be kept."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.kernels.build import built
from servonode.kernels.library import library_text, numbers_of
from servonode.kernels.native import Kernel

Array = npt.NDArray[np.float64]
NUMBERS = numbers_of("nearest")
FREE = np.inf


@functools.cache
def kernel(n_tau: int, n_goals: int, n_rows: int) -> Any:
    text = library_text("nearest", {}, {"n_tau": n_tau, "n_goals": n_goals, "n_rows": n_rows})
    return Kernel("nearest", text, *built(text, {}.__getitem__))


def nearest(tau: Array, A: Array, b: Array, **stated: Any) -> tuple[int, Array, Array]:
    """The status, the inputs, and what each row does."""
    n, goals = len(tau), np.array(stated.get("goals", np.zeros((0, len(tau)))))
    tau, acts = np.array(tau, float), np.full(len(b), 7.0)
    given = {"lower": np.full(n, -FREE), "upper": np.full(n, FREE), "levels": np.ones(len(goals)), "shares": np.ones(n)}
    given |= {"ranks": np.ones(len(b))} | stated
    lower, upper, levels, shares, ranks = (np.array(given[name], float) for name in given if name != "goals")
    status = kernel(n, len(goals), len(b)).nearest(tau, lower, upper, goals, levels, shares, A, b, ranks, acts)
    return status, tau, acts


def test_inputs_that_keep_everything_are_left_bit_by_bit() -> None:
    status, tau, acts = nearest([0.1, -0.0], np.eye(2), np.array([0.1, -1.0]), lower=[0.1, -1.0])
    assert status == NUMBERS["KEPT_AS_IT_WAS"]
    assert tau.tobytes() == np.array([0.1, -0.0]).tobytes()
    assert acts.tolist() == [0.0, 0.0]


def test_what_is_free_is_shared_by_weight() -> None:
    status, tau, acts = nearest([1.0, 2.0], np.ones((1, 2)), np.array([4.0]), shares=[1.0, 3.0])
    assert status == NUMBERS["ACTS"]
    np.testing.assert_allclose(tau, [1.75, 2.25], rtol=1e-14)
    assert acts.tolist() == [1.0]


def test_limits_alone_need_no_rows() -> None:
    status, tau, _ = nearest([1.0, 2.0], np.zeros((0, 2)), np.zeros(0), upper=[9.0, 1.5], goals=np.ones((1, 2)))
    assert status == NUMBERS["ACTS"]
    np.testing.assert_allclose(tau, [1.5, 1.5], rtol=1e-14)


def test_what_is_not_finite_clips() -> None:
    status, tau, _ = nearest([np.nan, 2.0], np.zeros((0, 2)), np.zeros(0), lower=[0.5, 0.0], upper=[9.0, 1.5])
    assert status == NUMBERS["CLIPPED"]
    assert tau.tolist() == [0.5, 1.5]
