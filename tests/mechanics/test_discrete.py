"""Sampled laws: the tables of limits, and loops simulated under hold and delay without the module's matrices."""

import itertools
import math
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_discrete_lyapunov

from servonode.mechanics.discrete import (
    Margin,
    auto_rate,
    best,
    best_period,
    held_noise,
    limit,
    longest_period,
    margin,
    margin_of,
    sampled,
    sampled_map,
    spectral_radius,
    steady_hold_residual,
)
from servonode.mechanics.integrate import INTEGRATORS, Tableau
from servonode.mechanics.stabilize import Gains, with_integral

Array = Any
RK3 = Tableau("rk3", "Kutta", 3, ((), (0.5,), (-1.0, 2.0)), (1 / 6, 2 / 3, 1 / 6))
TABLE = [  # delay; relative degree 1: limit, best, radius; relative degree 2: the same, as printed
    (0, "2, 1.000, 0", "1, 0.828, 0.560"),
    (0.25, "4, 0.444, 0.333", "1.1053, 0.618, 0.667"),
    (0.5, "2, 0.343, 0.414", "0.7085, 0.442, 0.747"),
    (1, "1, 0.250, 0.500", "0.42616, 0.298, 0.820"),
    (1.5, "0.8284, 0.180, 0.618", "0.3318, 0.223, 0.863"),
    (2, "0.6180, 0.148, 0.667", "0.2579, 0.178, 0.888"),
    (3, "0.4450, 0.105, 0.750", "0.1846, 0.127, 0.919"),
]
CASES = [(relative_degree, delay) for delay, *_ in TABLE for relative_degree in (1, 2)]


def one(relative_degree: int, rate: float) -> Gains:
    return Gains.from_rates([rate], [relative_degree])


def held_loop(
    gains: Gains, period: float, delay: float, periods: int, drift: Callable[[float], float] = lambda _: 0.0
) -> Array:
    """f at the samples (periods + 1, n_s), from f = f' = 1: pieces of constant demand, each moved in closed form.

    `drift` (t) is the part of f^(r) that the law cancels as it was when the demand was computed.
    """
    n, finite = len(gains.relative_degrees), np.array(gains.relative_degrees) == 2
    f, f_dot, s = np.ones(n), np.where(finite, 1.0, 0.0), np.zeros(n)
    demands: deque[tuple[float, Array]] = deque()  # (instant from which it acts, demand)
    in_force, path, fine = np.zeros(n), [f], 16 if np.any(drift(0.3) != drift(0.0)) else 1
    for k in range(periods):
        demands.append((k + delay, -gains.K0 @ f - gains.K1 @ f_dot - gains.KI @ s - drift(k * period)))
        s = s + period * f
        inside = [k + delay - math.floor(delay)] if delay % 1 else []
        edges = sorted({*np.linspace(k, k + 1, fine + 1), *inside})
        for start, end in itertools.pairwise(edges):
            while demands and demands[0][0] <= start + 1e-9:
                in_force = demands.popleft()[1]
            h, top = (end - start) * period, in_force + drift((start + end) / 2 * period)  # midpoint of the drift
            f = f + np.where(finite, h * f_dot + h * h / 2 * top, h * top)
            f_dot = np.where(finite, f_dot + h * top, 0.0)
        path.append(f)
    return np.array(path)


@pytest.mark.parametrize(("delay", "first", "second"), TABLE)
def test_limits_and_best_values_are_those_of_the_table(
    delay: float, first: str, second: str, agree_in_print: Callable[[Any, str], None]
) -> None:
    for relative_degree, printed in ((1, first), (2, second)):
        agree_in_print([limit(relative_degree, delay), *best(relative_degree, delay)], printed)


def test_limits_with_a_closed_form_have_it() -> None:
    for delay in range(7):
        expected = 2.0 * math.sin(math.pi / (2 * (2 * delay + 1)))
        assert limit(1, delay) == pytest.approx(expected, rel=1e-8)  # the radius may exceed 1 by its rounding
    for late in (0.05, 0.1, 0.2, 0.24, 0.25, 0.26, 0.4, 0.5, 0.7, 0.95):
        # z^2 - [1 - x (1 - d)] z + x d: the roots are inside for x d < 1 and x (1 - 2 d) < 2
        expected = min(1.0 / late, 2.0 / (1.0 - 2.0 * late) if late < 0.5 else math.inf)
        assert limit(1, late) == pytest.approx(expected, rel=1e-8)
    (root,) = (x.real for x in np.roots([1.0, -8.0, 22.0, -8.0]) if abs(x.imag) < 1e-9)
    assert limit(2, 1) == pytest.approx(root, rel=1e-8)


def test_the_map_has_the_characteristic_equations_of_the_sheet(rng: np.random.Generator) -> None:
    for _ in range(20):
        x, x1, x0, d, T = rng.uniform(0.1, 1.5, size=5) * [1, 1, 1, 0.6, 1]
        of_rate, of_gains = one(1, x / T), Gains.from_matrices([[x0 / T**2]], [[x1 / T]], [2])
        fractional = [1.0, -(1.0 - x * (1.0 - d)), x * d]
        late = np.array([1.0, -2.0, 1.0 + x0 / 2 + x1, x0 / 2 - x1])
        for gains, delay, polynomial in (
            (of_rate, d, fractional),
            (of_rate, 3, [1.0, -1.0, 0.0, 0.0, x]),
            (of_gains, 1, late),
        ):
            assert_allclose(np.poly(sampled_map(gains, T, delay)), polynomial, rtol=0, atol=1e-12)


def test_general_gains_without_delay_have_a_triangle_of_stability(rng: np.random.Generator) -> None:
    for x0, x1 in rng.uniform([-1, -1], [5, 3], size=(300, 2)):
        radius = spectral_radius(Gains.from_matrices([[x0 / 0.04]], [[x1 / 0.2]], [2]), 0.2, 0)
        assert (radius < 1.0) == (0.0 < x0 / 2 < x1 < 2.0)


@pytest.mark.parametrize("delay", [0, 0.3, 1, 1.6, 2])
@pytest.mark.parametrize("relative_degrees", [(1,), (2,), (1, 2), (2, 1), (2, 1, 2)])
def test_the_map_reproduces_a_held_loop(
    relative_degrees: tuple[int, ...], delay: float, rng: np.random.Generator
) -> None:
    n, T = len(relative_degrees), 0.1
    K0, K1 = rng.normal(size=(2, n, n)) + np.eye(n)
    gains = Gains.from_matrices(K0, K1 * (np.array(relative_degrees) == 2), relative_degrees)
    gains = with_integral(gains, [0.7, *(0.0,) * (n - 1)])
    Phi = sampled_map(gains, T, delay)
    X = np.zeros(len(Phi))
    X[: n + len(gains.above(1))] = 1.0
    path = [(X := Phi @ X)[:n] for _ in range(30)]
    assert_allclose(path, held_loop(gains, T, delay, 30)[1:], rtol=1e-11, atol=1e-11)


def test_coupled_gains_are_stable_up_to_their_longest_period(rng: np.random.Generator) -> None:
    for delay in (0, 0.4, 1, 2.5):
        mix = rng.normal(size=(2, 2)) + 2 * np.eye(2)
        a, b = rng.uniform(1, 6, size=2)
        K0, K1 = (mix @ np.diag(each) @ np.linalg.inv(mix) for each in ([a * a, b * b], [2 * a, 2 * b]))
        gains = Gains.from_matrices(K0, K1, (2, 2))
        longest = longest_period(gains, delay)
        assert longest == pytest.approx(limit(2, delay) / max(a, b), rel=1e-5)  # the faster mode leaves first
        assert spectral_radius(gains, 0.98 * longest, delay) < 1.0 < spectral_radius(gains, 1.02 * longest, delay)


def test_the_best_period_is_nowhere_beaten() -> None:
    for gains, delay in ((one(2, 3.0), 0.7), (Gains.from_rates([2.0, 5.0], [2, 1]), 1)):
        period, radius = best_period(gains, delay)
        periods = np.linspace(0.01, 1.0, 300) * longest_period(gains, delay)
        assert radius <= min(spectral_radius(gains, each, delay) for each in periods) + 1e-12
        assert spectral_radius(gains, period, delay) == pytest.approx(radius, abs=1e-9)


@pytest.mark.parametrize("relative_degree", [1, 2])
def test_a_small_integral_rate_costs_little_margin_and_a_large_one_much(relative_degree: int) -> None:
    gains = one(relative_degree, 1.0)
    without, small, large = (longest_period(with_integral(gains, [rate]), 1) for rate in (0.0, 0.1, 1.5))
    assert small == pytest.approx(without, rel=0.02)
    assert large < 0.6 * without


@pytest.mark.parametrize(
    ("x", "verdict"), [(0.0, "good"), (0.14, "good"), (0.29, "good"), (0.31, "warn"), (0.34, "warn"), (0.35, "refuse")]
)
def test_rates_above_the_best_are_warned_of_and_near_the_limit_refused(x: float, verdict: str) -> None:
    assert margin(2, x / 0.01, 0.01, 1).verdict == verdict


def test_a_margin_names_its_numbers() -> None:
    found = margin(1, 50.0, 0.01, 1)
    assert_allclose([found.value, found.limit, found.best], [0.5, 1.0, 0.25], rtol=1e-6)
    assert found.radius == pytest.approx(math.sqrt(0.5))  # z^2 - z + x has a complex pair of magnitude sqrt(x)
    assert found.ratio == pytest.approx(0.5)
    assert Margin(0.81, 1.0, 0.9, 0.5).verdict == "refuse"


def test_the_margin_of_matrices_is_that_of_the_rate_they_contain() -> None:
    alone, coupled = margin(2, 12.0, 0.01, 1.5), margin_of(one(2, 12.0), 0.01, 1.5)
    assert_allclose([coupled.value, coupled.ratio, coupled.best], [alone.value, alone.ratio, alone.best], rtol=1e-6)


@pytest.mark.parametrize(("relative_degree", "expected"), [(1, 0.25), (2, 0.142)])
def test_the_automatic_rate_is_a_third_of_the_limit_or_the_best(relative_degree: int, expected: float) -> None:
    rate = auto_rate(relative_degree, 0.01, 1)
    assert rate * 0.01 == pytest.approx(expected, abs=5e-4)
    assert margin(relative_degree, rate, 0.01, 1).verdict == "good"


@pytest.mark.parametrize(("relative_degree", "delay"), CASES)
def test_white_noise_leaves_what_the_lyapunov_equation_says(relative_degree: int, delay: float) -> None:
    T, gains = 0.02, one(relative_degree, 0.5 * limit(relative_degree, delay) / 0.02)
    A, B, L = sampled(gains, T, delay)
    G = B @ L[:, :relative_degree] @ np.diag([0.3, 0.7][:relative_degree])
    P = solve_discrete_lyapunov(A - B @ L, G @ G.T)
    assert held_noise(gains, T, delay, 0.3, 0.7)[0] == pytest.approx(math.sqrt(P[0, 0]), rel=1e-8)
    for x in (0.01, 0.3, 1.0, 1.9) if (relative_degree, delay) == (1, 0) else ():
        assert held_noise(one(1, x / T), T, 0, 0.2)[0] == pytest.approx(0.2 * math.sqrt(x / (2 - x)), rel=1e-12)


def test_noise_in_a_simulated_loop_of_coupled_residuals_has_the_computed_size(rng: np.random.Generator) -> None:
    gains, T = Gains.from_matrices([[4.0, 1.0], [0.5, 3.0]], [[4.0, 0.0], [0.3, 0.0]], (2, 1)), 0.1
    A, B, L = sampled(gains, T, 1.3)
    X, noise, squares = np.zeros(len(A)), np.zeros(len(A)), np.zeros(2)
    for draw in rng.normal(size=(60_000, 3)) * [0.1, 0.2, 0.3]:  # f of both, f' of the first
        noise[:3] = draw
        X = A @ X - B @ (L @ (X + noise))
        squares += X[:2] ** 2
    assert_allclose(np.sqrt(squares / 60_000), held_noise(gains, T, 1.3, [0.1, 0.2], [0.3, 0.0]), rtol=0.03)


@pytest.mark.parametrize(("relative_degree", "delay"), CASES)
def test_a_steadily_changing_feed_forward_leaves_the_computed_residual(relative_degree: int, delay: float) -> None:
    T, w, rate = 0.05, 0.8, 0.4 * limit(relative_degree, delay) / 0.05
    last = held_loop(one(relative_degree, rate), T, delay, 600, lambda t: w * t)[-1, 0]
    found = steady_hold_residual(one(relative_degree, rate), T, delay, w)[0]
    # the simulated drift has 16 pieces a period, each with the right mean but a flat course
    assert last == pytest.approx(found, rel=2e-3)
    inner = 1 / 6 - delay % 1 * (1 - delay % 1) if relative_degree == 2 else 0.0
    expected = w * T * (delay + 0.5 - inner * rate * T) / rate**relative_degree
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("delay", [0, 0.5, 1, 2])
def test_a_varying_feed_forward_stays_below_the_residual_of_its_fastest_change(delay: float) -> None:
    gains = one(1, best(1, delay)[0] / 0.05)
    bound = steady_hold_residual(gains, 0.05, delay, 3.0)[0]
    path = held_loop(gains, 0.05, delay, 800, lambda t: math.sin(3.0 * t))[400:]
    assert 0.5 * bound < np.abs(path).max() <= bound


INTEGRATOR_TABLE = {  # limit; no sign change up to; fastest decay at; factor there
    "euler": "2, 1, 1, 0",
    "heun": "2, inf, 1, 0.5",
    "rk2": "2, inf, 1, 0.5",
    "ralston": "2, inf, 1, 0.5",
    "rk3": "2.5127, 1.5961, 1.5961, 0",
    "rk4": "2.7853, inf, 1.5961, 0.2704",
}


def stability_polynomial(tableau: Tableau) -> np.polynomial.Polynomial:
    """R of the factor R(-lambda h) per step of f' = -lambda f, a law that is evaluated in every stage."""
    b, power = np.array(tableau.b), np.ones(len(tableau.b))
    A = np.array([[*row, *(0.0,) * (len(b) - len(row))] for row in tableau.a])
    coefficients = [1.0]
    for _ in b:
        coefficients.append(float(b @ power))
        power = A @ power
    return np.polynomial.Polynomial(coefficients)


@pytest.mark.parametrize(("name", "printed"), INTEGRATOR_TABLE.items())
def test_integrators_have_the_limits_of_the_table(name: str, printed: str) -> None:
    R = stability_polynomial({**INTEGRATORS, "rk3": RK3}[name])
    x = np.linspace(0.0, 3.0, 300_001)
    factors = R(-x)
    longest = x[1:][np.abs(factors[1:]) > 1.0][0]
    changes = x[np.flatnonzero(factors < 1e-9)]  # 0 itself is within rounding of the grid
    fastest = np.argmin(np.abs(factors[x < longest]))
    limit_text, change_text, *rest = printed.split(",")
    assert longest == pytest.approx(float(limit_text), abs=6e-5)
    assert len(changes) == 0 if "inf" in change_text else changes[0] == pytest.approx(float(change_text), abs=6e-5)
    # the grid finds a root to 1e-5, where the factor is not yet 0
    assert_allclose([x[fastest], abs(factors[fastest])], [float(each) for each in rest], rtol=0, atol=6e-5)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: spectral_radius(one(1, 1.0), 0.0, 0), "period is 0 s; it must be above 0"),
        (lambda: spectral_radius(one(1, 1.0), math.nan, 0), "period is nan s"),
        (lambda: limit(1, -0.5), "delay is -0.5 periods; it must be 0 or more"),
        (lambda: limit(0, 0), "relative degree 0; it must be 1 or more"),
        (lambda: best(2, math.inf), "delay is inf periods"),
        (lambda: longest_period(one(1, -1.0), 0), r"no period is stable: eigenvalue 1\+0j 1/s; take gains that"),
        (lambda: longest_period(one(2, 0.0), 0), "no period is stable: eigenvalue 0"),
        (
            lambda: held_noise(one(1, 1.1), 1.0, 1, 0.1),
            "grow by 1.049 a period of 1 s with a delay of 1 periods; lower",
        ),
        (lambda: steady_hold_residual(one(1, 0.0), 1.0, 0, 0.1), "lower the gains"),
    ],
)
def test_what_has_no_answer_is_refused_with_a_remedy(build: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        build()


def test_a_delay_that_is_whole_but_for_rounding_is_whole() -> None:
    assert sampled_map(one(2, 1.0), 0.1, 0.1 * 3 / 0.3).shape == sampled_map(one(2, 1.0), 0.1, 1).shape
    assert limit(2, 3 * 0.1 / 0.3 + 1e-12) == pytest.approx(limit(2, 1), rel=1e-9)


def test_limits_do_not_load_scipy() -> None:
    code = (
        "import sys; from servonode.mechanics import discrete, stabilize as s; discrete.auto_rate(2, 0.01, 1.5)\n"
        "g = s.Gains.from_rates([1.0], [2]); s.check(g); discrete.held_noise(g, 0.1, 1, 0.1)\n"
        "assert 'scipy' not in sys.modules and 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
