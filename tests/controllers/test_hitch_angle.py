"""Hitch angle, look-ahead point and trailer path: torques against the sheet's closed forms at random states."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers import ServoLaw, programs_of
from servonode.controllers.engine.layout import Answer
from servonode.mechanics.machine import Machine
from tests.helpers.small_machines import packaged_law

RATE, SPEED_RATE = 2.5, 1.5


def law_of(program: str, machine: Machine, **options: str) -> ServoLaw:
    first = {name: choices[0] for name, choices in programs_of("diff_drive_trailer")[program].options.items()}
    law = packaged_law(program, machine, **{**first, **options})
    rates = {each.name: SPEED_RATE for each in law.description.residuals}
    law.stabilise(rates | {"phi": RATE} if "phi" in rates else rates)
    return law


def wanted(trailer: Any, x: Any, g: Any) -> float:
    """w of sheet 3.3: the hitch angle's wanted acceleration."""
    return float(g[2] - 2 * RATE * (trailer.phi_dot(x) - g[1]) - RATE**2 * (x[3] - g[0]))


def free_acceleration(trailer: Any, x: Any) -> float:
    """phi'' at zero torque."""
    V_dot, Omega_dot = trailer.rates(x, np.zeros(2))[4:6]
    b, phi, V = trailer.p["b"], x[3], x[4]
    return float(-(V_dot * np.sin(phi) + V * trailer.phi_dot(x) * np.cos(phi)) / b - Omega_dot)


def reach(trailer: Any, x: Any) -> Any:
    """A_1, A_2 of sheet 3.3: what each torque adds to phi''."""
    p = trailer.p
    along = -p["b"] * np.sin(x[3]) / (p["r"] * trailer.Delta(x[3]))
    turn = p["l"] / (p["r"] * trailer.J1)
    return np.array([along + turn, along - turn])


@pytest.fixture
def cases(trailer: Machine, sheet: ModuleType, rng: np.random.Generator) -> Any:
    """Random machines and states, with the hand-written machine beside ours."""
    found = []
    for _ in range(20):
        machine = trailer.with_parameters({"c_w": 0.0, **sheet.random_parameters(rng, friction=False)})
        x = sheet.random_state(rng)
        x[4] = np.clip(x[4], -5, 5)
        found.append((machine, sheet.Trailer(machine.parameters), x, rng.normal(size=3)))
    return found


def same(answer: Answer, expected: Any) -> None:
    # a solve of two equations and about a hundred roundings
    assert_allclose(answer.inputs, expected, rtol=0, atol=1e-10 * max(np.abs(expected).max(), 1.0))


def test_torques_of_each_completion_are_those_of_the_closed_forms(cases: Any) -> None:
    for machine, hand, x, g in cases:
        A, missing = reach(hand, x), wanted(hand, x, g) - free_acceleration(hand, x)
        p, (phi, V, Omega) = machine.parameters, x[3:6]
        inner = hand.kd * Omega**2 * np.sin(phi) + hand.M0 * V * hand.phi_dot(x) * np.cos(phi)
        U1 = p["r"] * hand.J1 / (2 * p["l"]) * (wanted(hand, x, g) + p["b"] * inner / hand.Delta(phi))
        U1 -= p["r"] * hand.kd * V * Omega / (2 * p["l"])
        for completion, expected in (
            ("opposed", np.array([1, -1]) * missing / (A[0] - A[1])),
            ("opposed", [U1, -U1]),  # the printed formula
            ("least_norm", A * missing / (A @ A)),
            ("one_motor", [missing / A[0], 0.0]),
        ):
            same(law_of("hitch_angle", machine, completion=completion).evaluate(0.0, x, g), expected)


def test_the_speed_completion_is_the_torque_map_of_the_sheet(cases: Any) -> None:
    for machine, hand, x, g in cases:
        law = law_of("hitch_angle", machine, completion="speed")
        v, v_dot = 0.3, -0.2
        answer = law.evaluate(0.0, x, np.array([*g, v, v_dot, 0.0]))
        alpha_V = v_dot - SPEED_RATE * (x[4] - v)
        coast = (alpha_V * np.sin(x[3]) + x[4] * hand.phi_dot(x) * np.cos(x[3])) / machine.parameters["b"]
        same(answer, hand.torques(x, alpha_V, -coast - wanted(hand, x, g)))


def test_beyond_the_speed_limit_the_hitch_law_stops_and_says_why(trailer: Machine) -> None:
    law = law_of("hitch_angle", trailer, completion="opposed")
    answer = law.evaluate(0.0, trailer.state({"V": 10.1}), np.zeros(3))
    assert answer.status == 1
    assert "escapes in finite time" in law.explain(answer)


def test_the_look_ahead_law_is_the_torque_map_of_the_sheet(cases: Any, rng: np.random.Generator) -> None:
    for machine, hand, x, _ in cases:
        law, y = law_of("look_ahead", machine), rng.normal(size=6)
        answer = law.evaluate(0.0, x, y)
        L, psi, V, Omega = 0.3, x[2], x[4], x[5]
        e, n = np.array([np.cos(psi), np.sin(psi)]), np.array([-np.sin(psi), np.cos(psi)])
        position, velocity, acceleration = y.reshape(2, 3).T
        error, rate = x[:2] + L * e - position, V * e + L * Omega * n - velocity
        w = acceleration - 2 * SPEED_RATE * rate - SPEED_RATE**2 * error
        same(answer, hand.torques(x, w @ e + L * Omega**2, (w @ n - V * Omega) / L))


@pytest.mark.parametrize("travel", ["forward", "backward"])
@pytest.mark.parametrize("path", ["line", "circle"])
def test_the_residual_of_the_path_is_the_sheet_s(
    trailer: Machine, rng: np.random.Generator, path: str, travel: str
) -> None:
    law = law_of("trailer_path", trailer, path=path, travel=travel)
    sign = 1 if travel == "forward" else -1
    for _ in range(20):
        x = np.array([*rng.uniform(-4, 4, size=3), *rng.uniform(-1, 1, size=6)])
        answer = law.evaluate(0.0, x, np.zeros(law.goal_layout.size))
        heading = x[2] + x[3]
        O2 = x[:2] - np.array([np.cos(heading), np.sin(heading)])
        if path == "line":
            offset, eta, kappa, nu = O2[1], heading, 0.0, 1.0
        else:
            distance = np.hypot(*O2)
            eta = heading - np.arctan2(O2[1], O2[0]) - np.pi / 2
            offset, kappa, nu = 3.0 - distance, 1 / 3.0, distance / 3.0
        F = 2 * sign * np.sin(eta) + offset - kappa * np.cos(eta) / nu
        assert answer.residuals[1] == pytest.approx(x[3] - np.arctan(F), abs=1e-13)  # some twenty roundings


def test_damping_keeps_inputs_finite_where_the_goal_is_singular(trailer: Machine) -> None:
    law = packaged_law("hitch_angle", trailer, 1e-3, completion="yaw_rate")
    law.stabilise({"phi": RATE, "yaw_rate": SPEED_RATE})
    straight, y = trailer.state({"V": 0.4}), np.zeros(law.goal_layout.size)
    y[0] = 0.1  # a hitch angle is wanted that the yaw rate forbids
    answer = law.evaluate(0.0, straight, y)
    assert answer.status == 0
    W, z = law.terms(0.0, straight, y)["W"], RATE**2 * np.array([0.1, 0.0]) - law.terms(0.0, straight, y)["b"]
    z -= [2 * RATE * answer.rates[0], 0.0]
    eps = 1e-3 * np.linalg.norm(W)
    expected = W.T @ np.linalg.solve(W @ W.T + eps**2 * np.eye(2), z)
    assert_allclose(answer.inputs, expected, rtol=1e-6)  # the damped system's condition is 1e6


def test_damping_leaves_a_regular_law_to_the_bit(trailer: Machine) -> None:
    plain, damped = (packaged_law("hitch_angle", trailer, damping, completion="yaw_rate") for damping in (0.0, 1e-3))
    x = trailer.state({"V": 0.4, "phi": 0.5})
    inputs = []
    for law in (plain, damped):
        law.stabilise({"phi": RATE, "yaw_rate": SPEED_RATE})
        inputs.append(law.evaluate(0.0, x, np.zeros(law.goal_layout.size)).inputs.tolist())
    assert inputs[0] == inputs[1]
