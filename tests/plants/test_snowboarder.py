"""Snowboarder: closed forms, warnings; printed numbers are in tests/known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.mechanics.machine import Machine
from servonode.plants import load_machine
from servonode.plants.views.snowboarder import outline
from tests.helpers.machines import close, fault_text, warns

Flow = Callable[..., Any]
Print = Callable[[Any, str], None]
X0, Y0, PHI0, THETA, SIGMA, V, OMEGA, THETA_DOT, SIGMA_DOT, WORK = range(10)
REST = np.zeros(4)


@pytest.fixture(scope="module")
def rider() -> Machine:
    return load_machine("snowboarder", {}, {"gravity": "full"})


@pytest.fixture(scope="module")
def absolute_rider() -> Machine:
    return load_machine("snowboarder", {}, {"input_set": "absolute"})


def random_state(rng: np.random.Generator) -> Any:
    """Any heading, body up to 75 degrees from upright, forward and backward."""
    return rng.uniform(-1, 1, 10) * np.array([50, 20, 3.1, 1.3, 1.3, 12, 3, 3, 3, 0])


def random_parameters(rng: np.random.Generator) -> dict[str, float]:
    p = {name: rng.uniform(*ends) for name, ends in {"m0": (3, 9), "l0": (1, 2), "m1": (40, 100)}.items()}
    p |= {"l1": rng.uniform(1.4, 2), "n1": rng.uniform(0.3, 0.7), "alpha": rng.uniform(0, 0.6), "g": rng.uniform(1, 12)}
    p["J0"] = rng.uniform(0.1, 0.9) * p["m0"] * p["l0"] ** 2 / 4
    p["J1"] = rng.uniform(0, 0.9) * p["m1"] * p["l1"] ** 2 * p["n1"] * (1 - p["n1"])
    return p | {"c1": rng.uniform(0, 5), "c2": rng.uniform(0, 2)}


def at(machine: Machine, **values: float) -> Any:
    return machine.state(values)


def test_near_upright_the_absolute_moments_are_warned_of(absolute_rider: Machine) -> None:
    for theta in (-0.06, 0.06, -0.04, 0.04):
        warned = any("upright" in text for text in absolute_rider.warnings(0.0, at(absolute_rider, theta=theta), REST))
        assert warned == (abs(theta) < 0.05)


def test_upright_display_angles_show_the_blade_s_heading(rider: Machine) -> None:
    for theta in (0.0, -0.1):
        outputs = rider.outputs(0.0, at(rider, phi0=0.7, theta=theta), REST)
        assert [outputs["phi1"], outputs["psi1"]] == pytest.approx([0.7, np.pi / 2 - theta])


def test_down_the_fall_line_an_upright_rider_gains_the_slope_s_gravity(rider: Machine) -> None:
    for speed in (-2.0, 0.0, 9.0):
        rates = rider.derivatives(0.0, at(rider, v=speed), REST)
        close(rates[V:WORK], [9.81 * np.sin(0.15), 0, 0, 0], 1e-15)


def test_upright_the_rider_falls_at_the_printed_rates(rider: Machine, agree_in_print: Print) -> None:
    def rates(i: int, step: float) -> Any:
        x = at(rider, v=5.0)
        x[i] += step
        return rider.derivatives(0.0, x, REST)[:9]

    h = 1e-3  # fourth order: errors of h**4 and of rounding over h are 1e-12
    jacobian = np.array(
        [(8 * (rates(i, h) - rates(i, -h)) - rates(i, 2 * h) + rates(i, -2 * h)) / (12 * h) for i in range(9)]
    ).T
    growth = np.sort(np.linalg.eigvals(jacobian[np.ix_([THETA, SIGMA, 7, 8], [THETA, SIGMA, 7, 8])]).real)
    agree_in_print(growth[::-1], "5.112868499, 2.843097529, -2.843097529, -5.112868499")


def test_with_the_papers_gravity_a_moment_holds_the_body(agree_in_print: Print) -> None:
    paper_rider = load_machine("snowboarder", {}, {"gravity": "paper"})
    held = np.array([0, 0, 63 * 9.81 * np.sin(0.15), 0])
    agree_in_print(held[2], "92.36")
    close(paper_rider.derivatives(0.0, at(paper_rider, v=5.0), held)[V:WORK], [9.81 * np.sin(0.15), 0, 0, 0], 1e-14)


def test_from_rest_quadratic_drag_leads_to_the_terminal_speed(rider: Machine, flow: Flow) -> None:
    machine = rider.with_parameters({"c2": 4.0})
    slope, M = 9.81 * np.sin(0.15), 76.0

    def balanced(t: float, x: Any) -> Any:
        # the pitch moment that keeps the body upright under drag, and feedback that does nothing upright
        return np.array([0, 0, -63 * 4.0 * x[V] * abs(x[V]) / M - 2000 * x[THETA] - 600 * x[THETA_DOT], 0])

    times = np.array([0.5, 2.0, 5.0, 12.0])
    x = flow(machine, at(machine), times, balanced)
    terminal = np.sqrt(M * slope / 4.0)
    assert_allclose(x[V], terminal * np.tanh(slope * times / terminal), rtol=1e-11)
    assert_allclose(x[[Y0, PHI0, THETA, SIGMA]], 0.0, atol=1e-12)


@pytest.mark.parametrize("speed", [-4.0, 0.0, 7.0])
def test_across_the_slope_a_body_standing_plumb_needs_no_moment(
    rider: Machine, agree_in_print: Print, speed: float
) -> None:
    x = at(rider, phi0=np.pi / 2, sigma=0.15, v=speed)
    assert_allclose(rider.derivatives(0.0, x, REST)[V:WORK], 0.0, atol=1e-13)
    agree_in_print(rider.outputs(0.0, x, REST)["R"], "111.4150940")
    assert rider.outputs(0.0, x, REST)["N"] == pytest.approx(76 * 9.81 * np.cos(0.15), rel=1e-13)


def test_on_level_snow_a_leaning_rider_runs_a_steady_circle(rider: Machine, flow: Flow, agree_in_print: Print) -> None:
    machine, v, omega = rider.with_parameters({"alpha": 0.0}), 8.0, 0.7
    sigma = 0.5
    for _ in range(60):
        sigma = np.arctan(v * omega / (9.81 + 1.2 * omega**2 * np.cos(sigma)))
    agree_in_print(sigma, "0.4968918093")
    x = at(machine, sigma=sigma, v=v, omega=omega)
    assert_allclose(machine.derivatives(0.0, x, REST)[V:WORK], 0.0, atol=1e-13)
    end = flow(machine, x, 2.0, REST)[:, -1]  # the lean is unstable: errors grow by e^5
    center = v / omega * np.array([np.sin(omega * 2.0), 1 - np.cos(omega * 2.0)])
    assert_allclose(end[[X0, Y0, PHI0, SIGMA, V]], [*center, 1.4, sigma, v], rtol=0, atol=1e-9)


def test_the_mirrored_rider_moves_as_the_mirror_image(rider: Machine, rng: np.random.Generator) -> None:
    mirror = np.array([1, -1, -1, 1, -1, 1, -1, 1, -1, 1])
    for _ in range(40):
        machine = rider.with_parameters(random_parameters(rng))
        x, u = random_state(rng), 50 * rng.normal(size=4)
        expected = mirror * machine.derivatives(0.0, x, u)
        close(machine.derivatives(0.0, mirror * x, u * np.array([1, -1, 1, -1])), expected, 1e-13)


@pytest.mark.parametrize("name", ["theta", "sigma"])
def test_the_fall_fault_begins_at_a_tenth(rider: Machine, name: str) -> None:
    for angle, falls in ((np.arccos(0.1 + 1e-9), False), (np.arccos(0.1 - 1e-9), True)):
        for direction in (1, -1):
            assert fault_text(rider, at(rider, **{name: direction * angle})).startswith("fallen") == falls


def test_the_lift_warning_begins_where_the_normal_force_ends(rider: Machine) -> None:
    def pitching(rate: float) -> Any:
        return at(rider, theta_dot=rate)

    # upright N = M g cos alpha - mu theta'^2 whatever the slope
    limit = np.sqrt(76 * 9.81 * np.cos(0.15) / 63)
    assert rider.warnings(0.0, at(rider, v=5.0), REST) == []
    assert not warns(rider, pitching(limit * (1 - 1e-9)), REST, "lifted")
    assert warns(rider, pitching(limit * (1 + 1e-9)), REST, "lifted")


@pytest.mark.parametrize("side", [1, -1])
def test_the_tipping_warnings_begin_at_the_board_s_edges(rider: Machine, side: int) -> None:
    N = 76 * 9.81 * np.cos(0.15)
    for moments, name, limit, text in (
        ([0, 0, 0, side * 60.0], "c_b", 60 / N, "sideways"),
        ([0, 0, side * 60.0, 0], "c_t", 60 / N, "edge's length"),
    ):
        x, u = at(rider, v=5.0), np.array(moments)
        # what pushes the body to one side presses the board down on the other
        assert rider.outputs(0.0, x, u)[name] == pytest.approx(-side * limit, rel=1e-12)
        width = "half_width" if name == "c_b" else "half_edge"
        assert not warns(rider.with_parameters({width: limit * (1 + 1e-9)}), x, u, text)
        assert warns(rider.with_parameters({width: limit * (1 - 1e-9)}), x, u, text)


def test_default_inertias_are_those_of_uniform_rods(rider: Machine) -> None:
    p = rider.parameters
    assert p["J0"] == pytest.approx(p["m0"] * p["l0"] ** 2 / 12, rel=1e-15)
    assert p["J1"] == pytest.approx(p["m1"] * p["l1"] ** 2 / 12, rel=1e-15)


def test_the_outline_shows_board_and_body_from_above(rider: Machine) -> None:
    values = {"x0": 3.0, "y0": -1.0, "phi0": 0.5, "theta": 0.2, "sigma": 0.4}
    board, body = outline(values, rider.parameters)
    forward, left = np.array([np.cos(0.5), np.sin(0.5)]), np.array([-np.sin(0.5), np.cos(0.5)])
    foot = np.array([3.0, -1.0])
    ahead, aside = (board - foot) @ forward, (board - foot) @ left
    assert (ahead.max(), ahead.min()) == pytest.approx((0.8, -0.8))
    assert (aside.max(), aside.min()) == pytest.approx((0.13, -0.13))
    assert aside[ahead.argmax()] == pytest.approx(0.0, abs=1e-15)
    head = foot + 1.8 * (np.cos(0.4) * np.sin(0.2) * forward + np.sin(0.4) * left)
    assert_allclose(body, [foot, head], rtol=0, atol=1e-15)
