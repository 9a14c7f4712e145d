"""Gains of servo residuals: what they promise, and the proof that they are stable."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp
from scipy.linalg import expm, solve_continuous_lyapunov

from servonode.mechanics.stabilize import (
    Gains,
    UnstableGains,
    check,
    eigenvalues,
    is_stable,
    lyapunov,
    system_matrix,
    with_integral,
    y_order,
)

Array = Any
# the pair of theory section 7 item 1, which the law takes with the opposite sign
C1, C0 = np.array([[-2.0, 5.0], [-5.0, -2.0]]), np.array([[-1.0, 6.0], [-1.0, -1.0]])
MIXTURES = [(1,), (2,), (1, 2), (2, 1), (2, 2), (1, 1), (1, 2, 1), (2, 1, 2), (1, 2, 2, 1)]


def positive_definite(rng: np.random.Generator, n: int) -> Array:
    root = rng.normal(size=(n, n))
    return root @ root.T + 0.05 * np.eye(n)


def random_perturbation(rng: np.random.Generator, relative_degrees: Sequence[int]) -> Gains:
    n = len(relative_degrees)
    a, c, k = (positive_definite(rng, size) for size in (n, n, relative_degrees.count(2)))
    return Gains.from_perturbation(a, c, k, relative_degrees)


def random_gains(rng: np.random.Generator, relative_degrees: Sequence[int]) -> Gains:
    """Gains of any sign; about half of them are stable."""
    n = len(relative_degrees)
    K0, K1 = rng.normal(size=(2, n, n)) + 1.2 * np.eye(n)
    return Gains.from_matrices(K0, K1 * (np.array(relative_degrees) == 2), relative_degrees)


def residual_motion(gains: Gains, f: Array, f_dot: Array, t: float, disturbance: Array = 0.0) -> Array:
    """f(t) of the very law, f^(r) = -K1 f' - K0 f - KI s with f' = 0 where r = 1, integrated in program order."""
    n, finite = len(f), np.array(gains.relative_degrees) == 2

    def rates(_: float, x: Array) -> Array:
        f, f_dot, s = x[:n], x[n : 2 * n], x[2 * n :]
        top = -gains.K1 @ np.where(finite, f_dot, 0.0) - gains.K0 @ f - gains.KI @ s + disturbance
        return np.concatenate([np.where(finite, f_dot, top), np.where(finite, top, 0.0), f])

    x = np.concatenate([f, np.where(finite, f_dot, 0.0), np.zeros(n)])
    return solve_ivp(rates, (0.0, t), x, method="DOP853", rtol=1e-10, atol=1e-12).y[:n, -1]


@pytest.mark.parametrize("relative_degrees", MIXTURES)
def test_the_system_matrix_moves_residuals_as_the_law_asks(
    relative_degrees: tuple[int, ...], rng: np.random.Generator
) -> None:
    gains = with_integral(random_perturbation(rng, relative_degrees), rng.uniform(0, 0.5, size=len(relative_degrees)))
    f, f_dot = rng.normal(size=(2, len(relative_degrees)))
    z = [f[i] for i in gains.above(1)]
    y = [f_dot[i] if relative_degrees[i] == 2 else f[i] for i in y_order(relative_degrees)]
    xi = expm(0.7 * system_matrix(gains)) @ np.array([*z, *y, *np.zeros(len(relative_degrees))])
    moved = residual_motion(gains, f, f_dot, 0.7)
    assert_allclose(xi[: len(z)], moved[gains.above(1)], rtol=0, atol=1e-8)  # the integrator's tolerance, and growth
    assert_allclose(xi[2 * len(z) : len(z) + len(y)], moved[y_order(relative_degrees)[len(z) :]], rtol=0, atol=1e-8)


@pytest.mark.parametrize("rate", [0.0, 0.3, 5.0])
def test_a_rate_gives_the_closed_form_of_each_degree(rate: float, rng: np.random.Generator) -> None:
    (f1, f2), (_, f2_dot), t = *rng.normal(size=(2, 2)), 1.3
    moved = residual_motion(Gains.from_rates([rate, rate], [1, 2]), np.array([f1, f2]), np.array([0.0, f2_dot]), t)
    expected = np.array([f1, f2 + (f2_dot + rate * f2) * t]) * np.exp(-rate * t)
    assert_allclose(moved, expected, rtol=0, atol=1e-9)


def test_scalar_perturbation_matrices_are_rates(rng: np.random.Generator) -> None:
    relative_degrees, rates = (1, 2, 1, 2), rng.uniform(1, 5, size=4)
    c = np.diag([rate if r == 1 else 2 * rate for rate, r in zip(rates, relative_degrees, strict=True)])
    by_matrices = Gains.from_perturbation(np.eye(4), c, np.diag(rates[[1, 3]] ** 2), relative_degrees)
    by_rates = Gains.from_rates(rates.tolist(), relative_degrees)
    assert_allclose(by_matrices.K0, by_rates.K0, rtol=1e-14)
    assert_allclose(by_matrices.K1, by_rates.K1, rtol=1e-14)


def test_energy_of_the_perturbation_falls_by_its_dissipation(rng: np.random.Generator) -> None:
    relative_degrees, n, m = (1, 2, 2), 3, 2
    a, c, k = positive_definite(rng, n), positive_definite(rng, n), positive_definite(rng, m)
    K = system_matrix(Gains.from_perturbation(a, c, k, relative_degrees))
    order = y_order(relative_degrees)
    H = np.block([[k, np.zeros((m, n))], [np.zeros((n, m)), a[np.ix_(order, order)]]])
    Q = np.block([[np.zeros((m, m + n))], [np.zeros((n, m)), 2 * c[np.ix_(order, order)]]])
    assert_allclose(K.T @ H + H @ K, -Q, rtol=0, atol=1e-12)


@pytest.mark.parametrize("relative_degrees", MIXTURES)
def test_positive_definite_inertia_dissipation_and_stiffness_are_stable(
    relative_degrees: tuple[int, ...], rng: np.random.Generator
) -> None:
    for _ in range(30):
        certificate = check(random_perturbation(rng, relative_degrees))
        assert certificate.plain == ()
        assert certificate.eigenvalues.real.max() < 0.0
        assert np.all(certificate.minors > 0.0)


def test_the_certificate_is_positive_exactly_when_the_eigenvalues_are_stable(rng: np.random.Generator) -> None:
    verdicts = []
    for i in range(400):
        gains = random_gains(rng, MIXTURES[i % len(MIXTURES)])
        K = system_matrix(gains)
        positive = bool(np.linalg.eigvalsh(H := lyapunov(K))[0] > 0.0)
        assert positive == is_stable(gains)
        verdicts.append(positive)
        if positive:
            expected = solve_continuous_lyapunov(K.T, -np.eye(len(K)))
            assert_allclose(H, expected, rtol=1e-7, atol=1e-9 * np.abs(H).max())
    assert 50 < sum(verdicts) < 350


def test_the_leading_minors_are_those_of_the_printed_matrix() -> None:
    certificate = check(Gains.from_rates([5.0], [2]))
    assert_allclose(certificate.H, [[1.5, 0.02], [0.02, 0.052]], rtol=1e-12)  # by hand
    assert_allclose(certificate.minors, [1.5, 0.0776], rtol=1e-12)


def test_residuals_decay_at_least_at_the_proved_rate(rng: np.random.Generator) -> None:
    for i in range(60):
        gains = random_perturbation(rng, MIXTURES[i % len(MIXTURES)])
        certificate, K = check(gains), system_matrix(gains)
        eigenvalue = -certificate.eigenvalues.real.max()
        assert 0.0 < certificate.decay_rate <= eigenvalue * (1.0 + 1e-9)
        spread = np.sqrt(np.linalg.cond(certificate.H))  # the factor that V allows
        for t in (0.1, 1.0, 10.0):
            assert np.linalg.norm(expm(K * t), 2) <= spread * np.exp(-certificate.decay_rate * t) * (1.0 + 1e-9)


def test_the_letters_of_the_source_are_exchanged() -> None:
    right = Gains.from_matrices(-C0, -C1, (2, 2))
    assert check(right).eigenvalues[0].real == pytest.approx(-0.215, abs=5e-4)
    with pytest.raises(UnstableGains, match=r"eigenvalue \+0\.629.*exchange K0 \(of f\) and K1 \(of f'\)") as caught:
        check(Gains.from_matrices(-C1, -C0, (2, 2)))
    assert caught.value.eigenvalue.real == pytest.approx(0.629, abs=5e-4)
    exchanged = Gains.from_matrices([[2 * 5.0]], [[5.0**2]], [2])  # stable, at rates that were not asked for
    assert_allclose(eigenvalues(exchanged), [-0.41, -24.6], rtol=0, atol=0.01)


@pytest.mark.parametrize("relative_degree", [1, 2])
def test_a_steady_disturbance_leaves_its_share_and_integral_action_removes_it(relative_degree: int) -> None:
    rate, disturbance, start = 3.0, np.array([0.7]), (np.array([0.1]), np.array([0.2]))
    gains = Gains.from_rates([rate], [relative_degree])
    left = residual_motion(gains, *start, 20.0, disturbance)
    assert left[0] == pytest.approx(0.7 / rate**relative_degree, abs=1e-9)
    removed = residual_motion(with_integral(gains, [0.8]), *start, 40.0, disturbance)
    assert abs(removed[0]) < 1e-9


def test_integral_action_on_degree_two_is_stable_up_to_twice_the_rate() -> None:
    gains = Gains.from_rates([3.0, 2.0], [2, 1])
    assert len(check(with_integral(gains, [5.9, 0.0])).eigenvalues) == 4
    assert check(with_integral(gains, [5.9, 50.0])).decay_rate > 0.0
    with pytest.raises(UnstableGains, match=r"path: .*take lower integral rates, above 0"):
        check(with_integral(gains, [6.1, 1.0]), names=("path", "speed"))


@pytest.mark.parametrize("none", [0.0, 1e-300, 1e-12])
def test_plain_residuals_pass_only_on_request(none: float) -> None:
    gains = Gains.from_rates([2.0, none, none], [2, 1, 2])
    with pytest.raises(UnstableGains, match=r"speed has rate 0 .*give it a rate above 0") as caught:
        check(gains, names=("path", "speed", "hitch"))
    assert caught.value.eigenvalue == 0.0
    certificate = check(gains, allow_plain=True)
    assert certificate.plain == (1, 2)
    assert certificate.decay_rate == 0.0
    assert len(certificate.eigenvalues) == 5
    assert_allclose(certificate.H, check(Gains.from_rates([2.0], [2])).H)
    with pytest.raises(UnstableGains, match=r"do not stabilise hitch: eigenvalue \+2 1/s"):  # beside a plain one
        check(Gains.from_rates([0.0, -2.0], [1, 1]), allow_plain=True, names=("speed", "hitch"))
    assert check(Gains.from_rates([1e-4, 1e6], [1, 2])).plain == check(Gains.from_rates([1e-300], [1])).plain == ()
    empty = check(Gains.from_rates([0.0, 0.0], [1, 2]), allow_plain=True)
    assert empty.H.size == empty.minors.size == 0
    assert_array_equal(empty.eigenvalues, np.zeros(3))


def test_gains_cannot_be_changed_behind_their_back() -> None:
    source = np.eye(1)
    gains = Gains.from_matrices(source, np.zeros((1, 1)), [1])
    source[0, 0] = 7.0
    assert gains.K0[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        gains.K0[0, 0] = 2.0
