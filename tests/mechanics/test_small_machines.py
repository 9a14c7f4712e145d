"""Textbook machines: a bead on a hoop that is forced to turn (time in its constraint), a cart with a pole."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose

from servonode.mechanics import Model, coordinate, parameter, velocity
from servonode.mechanics.integrate import INTEGRATORS
from servonode.mechanics.machine import Machine

HERE = Path(__file__)
Flow = Callable[..., Any]
BEAD = {"m": 0.3, "R": 0.8, "I": 0.05, "g": 9.81, "k": 0.02, "w0": 3.0, "w1": 0.7}


@pytest.fixture(scope="module")
def bead(small: ModuleType) -> Machine:
    return small.machine(small.bead)


@pytest.fixture(scope="module")
def cart_pole(small: ModuleType) -> Machine:
    return small.machine(small.cart_pole)


def drive(t: float) -> tuple[float, float]:
    """Rate and acceleration of the hoop."""
    return 3.0 + 0.7 * np.sin(t), 0.7 * np.cos(t)


def test_the_bead_obeys_its_textbook_equation(bead: Machine, rng: np.random.Generator) -> None:
    for _ in range(20):
        t, (theta, alpha, q, F) = rng.uniform(0, 9), rng.normal(size=4)
        w, _ = drive(t)
        inertia = BEAD["m"] * BEAD["R"] ** 2
        expected = np.sin(theta) * (np.cos(theta) * w**2 - BEAD["g"] / BEAD["R"]) + (F - BEAD["k"] * q) / inertia
        rates = bead.derivatives(t, np.array([theta, alpha, q, 0.0]), np.array([F]))
        assert_allclose(rates[:3], [q, w, expected], rtol=0, atol=1e-13)
        torque = bead.full(t, np.array([theta, alpha, q, 0.0]), np.array([F]))[1][0]
        assert rates[3] == pytest.approx((F - BEAD["k"] * q) * q + torque * w, abs=1e-12)  # the drive works too


def test_the_drive_gives_the_hoop_its_angular_momentum(bead: Machine, rng: np.random.Generator) -> None:
    for _ in range(20):
        t, (theta, alpha, q, F) = rng.uniform(0, 9), rng.normal(size=4)
        w, w_dot = drive(t)
        inertia = BEAD["m"] * BEAD["R"] ** 2
        expected = (inertia * np.sin(theta) ** 2 + BEAD["I"]) * w_dot
        expected += 2 * inertia * np.sin(theta) * np.cos(theta) * q * w
        x, u = np.array([theta, alpha, q, 0.0]), np.array([F])
        accelerations, (torque,) = bead.full(t, x, u)
        assert torque == pytest.approx(expected, abs=1e-13)
        assert_allclose(accelerations, [bead.derivatives(t, x, u)[2], w_dot], rtol=0, atol=1e-13)


def test_an_evenly_turning_hoop_keeps_the_Jacobi_integral(bead: Machine, flow: Flow) -> None:
    even = bead.with_parameters({"w1": 0.0, "k": 0.0})
    inertia, w = BEAD["m"] * BEAD["R"] ** 2, 3.0
    x0 = np.array([1.2, 0.0, 0.3, 0.0])
    states = [x0, *flow(even, x0, [1.0, 2.0, 5.0], np.zeros(1)).T]
    jacobi = [even.energy(0.0, x) - (inertia * np.sin(x[0]) ** 2 + BEAD["I"]) * w**2 for x in states]
    assert_allclose(jacobi, jacobi[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_steps_of_a_machine_that_depends_on_time_have_the_stated_order(
    bead: Machine, flow: Flow, integrator: str
) -> None:
    x0, u, steps = np.array([0.5, 0.0, -1.0, 0.0]), np.array([0.4]), [100, 200, 400]
    end, errors = flow(bead, x0, 2.0, u)[:, -1], []
    for n in steps:
        x = x0.copy()
        bead.advancer(integrator)(0, n, 2_000_000_000 // n, x, u, bead.c)
        errors.append(np.abs(x - end).max())
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(INTEGRATORS[integrator].order, abs=0.2)


def test_the_cart_with_pole_obeys_its_textbook_equations(cart_pole: Machine, rng: np.random.Generator) -> None:
    M, m, L, g = 1.3, 0.4, 0.6, 9.81
    for _ in range(20):
        place, theta, v, w, F = rng.normal(size=5)
        matrix = [[M + m, m * L * np.cos(theta)], [np.cos(theta), L]]
        expected = np.linalg.solve(matrix, [F + m * L * w**2 * np.sin(theta), -g * np.sin(theta)])
        rates = cart_pole.derivatives(0.0, np.array([place, theta, v, w, 0.0]), np.array([F]))
        assert_allclose(rates, [v, w, *expected, F * v], rtol=0, atol=1e-12)  # condition about 10


def test_a_potential_with_rates_is_that_of_a_charge_and_of_Weber(small: ModuleType, flow: Flow) -> None:
    """U = -B (x y' - y x')/2 + k (1 + r'^2/4)/r in quasi-velocities along and across r, against its equations there."""
    x, y = coordinate("x", "place", "m", start=1.0), coordinate("y", "place", "m")
    m, B, k = (parameter(name, name, default=value) for name, value in (("m", 2.0), ("B", 3.0), ("k", 0.7)))
    r = sympy.sqrt(x**2 + y**2)
    along, area = (x * x.rate + y * y.rate) / r, x * y.rate - y * x.rate
    model = Model(
        "charge",
        "a charge in a field",
        m * (x.rate**2 + y.rate**2) / 2,
        coordinates=(x, y),
        parameters=(m, B, k),
        potential=-B * area / 2 + k * (1 + along**2 / 4) / r,
        independent={velocity("radial", "along r"): along, velocity("turning", "across r"): area / r},
    )
    machine = small.machine(lambda: model, {}, HERE)
    start = np.array([0.6, 0.8, 0.5, -1.2, 0.0])
    radial, turning = start[2:4]  # r = 1
    outward = (3.0 * turning + 0.7 + 2.0 * turning**2 - 0.7 * radial**2 / 4) / (2.0 - 0.7 / 2)
    expected = [outward, -radial * turning - 3.0 * radial / 2.0]
    assert_allclose(machine.derivatives(0.0, start, np.zeros(0))[2:4], expected, rtol=1e-13)
    end = flow(machine, start, 2.0, np.zeros(0))[:, -1]
    kept = 2.0 * (0.5**2 + 1.2**2) / 2 - 0.7 * 0.5**2 / 4 + 0.7
    assert_allclose([machine.energy(0.0, start), machine.energy(2.0, end)], kept, rtol=1e-11)
