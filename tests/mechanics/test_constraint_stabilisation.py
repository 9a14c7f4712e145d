"""Passive constraints in redundant coordinates: the robot with trailer by all six rates and four multipliers.

A q'' = gamma - lambda_A (A q' - b), lambda_A evaluated in every stage of the integrator (theory: stabilisation of a
simulated plant). The minimal form never needs it; this is the check that the full form is right off the constraints.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from servonode.mechanics.derive import derive
from servonode.mechanics.integrate import INTEGRATORS
from tests.helpers.packaged import model_factory

Array = Any
STEP, DURATION = 0.02, 20.0


@pytest.fixture(scope="module")
def full() -> Callable[[Array, float], Array]:
    """(q, q')' (12,) under given torques, with the passive constraints stabilised at a rate lambda_A."""
    equations = derive(model_factory("diff_drive_trailer")())
    model = equations.model
    defaults = {p: p.quantity.default for p in model.parameters}
    rates = [q.rate for q in model.coordinates]
    arguments = [*model.coordinates, *rates]
    parts = [equations.M, equations.h, equations.A, equations.gamma, equations.B]
    numeric = sympy.lambdify(arguments, [part.subs(defaults) for part in parts], "numpy", cse=True)

    def rates_of(z: Array, lambda_A: float) -> Array:
        M, h, A, gamma, B = (np.array(part, dtype=float) for part in numeric(*z))
        n, m = len(M), len(A)
        saddle = np.block([[M, -A.T], [A, np.zeros((m, m))]])
        force = (B @ [0.02, 0.03] - h.ravel(), gamma.ravel() - lambda_A * A @ z[n:])
        return np.concatenate([z[n:], np.linalg.solve(saddle, np.concatenate(force))[:n]])

    def residual(z: Array) -> float:
        return float(np.abs(np.array(numeric(*z)[2], dtype=float) @ z[6:]).max())

    rates_of.residual = residual  # type: ignore[attr-defined]
    return rates_of


def start() -> Array:
    """q and q' of phi = 0.9, V = 0.5, Omega = 0.8, on the constraints."""
    V, Omega, phi = 0.5, 0.8, 0.9
    rates = [V, 0.0, Omega, -V * np.sin(phi) - Omega, (V - 0.2 * Omega) / 0.075, (V + 0.2 * Omega) / 0.075]
    return np.array([0.0, 0.0, 0.0, phi, 0.0, 0.0, *rates])


def run(full: Any, method: str, x: float, step: float = STEP) -> tuple[float, float]:
    """Largest |A q'| in the first and in the second half of the run, at lambda_A step = x."""
    tableau, z, sizes = INTEGRATORS[method], start(), []
    with np.errstate(all="ignore"):
        for _ in range(round(DURATION / step)):
            stages: list[Array] = []
            for row in tableau.a:
                stages.append(full(z + step * sum((a * k for a, k in zip(row, stages, strict=True)), 0 * z), x / step))
            z = z + step * sum(b * k for b, k in zip(tableau.b, stages, strict=True))
            sizes.append(full.residual(z))
            if not sizes[-1] < 1e3:
                return np.inf, np.inf
    half = len(sizes) // 2
    return max(sizes[:half]), max(sizes[half:])


@pytest.mark.parametrize(("method", "stable", "unstable"), [("euler", 1.9, 2.2), ("rk2", 1.9, 2.2), ("rk4", 2.7, 2.9)])
def test_stabilisation_is_stable_up_to_the_limit_of_the_integrator(
    full: Any, method: str, stable: float, unstable: float
) -> None:
    assert run(full, method, stable)[1] < 1e-3
    assert run(full, method, unstable)[1] > 1.0


@pytest.mark.slow
def test_the_residual_has_the_trend_of_the_theory(full: Any) -> None:
    methods = ("euler", "rk2", "rk4")
    halves = {x: {m: run(full, m, x) for m in methods} for x in (0.0, 0.01, 0.1, 1.0)}
    sizes = {x: {m: second for m, (_, second) in found.items()} for x, found in halves.items()}
    assert all(second > first for first, second in halves[0.0].values())  # without stabilisation it grows
    assert sizes[1.0]["euler"] < sizes[0.1]["euler"] < sizes[0.01]["euler"] < sizes[0.0]["euler"]  # best near 1
    assert sizes[0.01]["rk4"] < sizes[0.1]["rk4"] < sizes[1.0]["rk4"]  # stable is not accurate: best near 0.01
    assert sizes[0.01]["rk4"] < sizes[0.0]["rk4"]
    for x in (0.0, 0.01):
        assert sizes[x]["rk4"] < 1e-3 * sizes[x]["rk2"] < 1e-3 * sizes[x]["euler"]


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("rk2", 2), ("rk4", 4)])
def test_at_a_fixed_rate_the_residual_falls_with_the_order_of_the_method(full: Any, method: str, order: int) -> None:
    rate, steps = 1.0, (0.04, 0.02) if method == "rk4" else (0.02, 0.01)
    sizes = [run(full, method, rate * step, step)[1] for step in steps]
    assert np.log2(sizes[0] / sizes[1]) == pytest.approx(order, abs=0.6)
