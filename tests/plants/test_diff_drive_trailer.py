"""Robot with trailer: the sheet's closed forms, its printed state and runs, warnings, analytic solutions, orders."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.mechanics.integrate import INTEGRATORS
from servonode.mechanics.machine import Machine
from tests.helpers.machines import close, warns
from tests.helpers.packaged import load_machine

Flow = Callable[..., Any]
X, Y, PSI, PHI, V, OMEGA, THETA1, THETA2, WORK = range(9)
OPEN_LOOP = ({"phi": 0.3, "V": 0.4, "Omega": 0.1}, np.array([0.02, 0.03]))
TIMES = np.linspace(0.5, 4.0, 8)
REST = np.zeros(2)
HITCH, TRAILER_SLIPS, WHEELS_SLIP = (
    "hitch angle beyond pi/2",
    "trailer's wheels would slip",
    "driven wheels would",
)


def at(machine: Machine, **values: float) -> Any:
    return machine.state(values)


@pytest.fixture
def samples(trailer: Machine, sheet: ModuleType, rng: np.random.Generator) -> list[tuple[Machine, Any, Any, Any]]:
    """Machine, its sheet, state and torques: random machines, half of them with friction."""
    machines = [trailer.with_parameters(sheet.random_parameters(rng, friction=i % 2 > 0)) for i in range(40)]
    machines[:2] = [trailer, trailer.with_parameters({"c_w": 0.02})]
    return [(m, sheet.Trailer(m.parameters), sheet.random_state(rng), rng.normal(size=2)) for m in machines]


def test_rates_energy_contact_forces_and_outputs_are_those_written_by_hand(samples: Any) -> None:
    for machine, sheet, x, u in samples:
        outputs, heading, b = machine.outputs(0.0, x, u), x[2] + x[3], sheet.p["b"]
        close(machine.derivatives(0.0, x, u), sheet.rates(x, u), 1e-12)  # about a hundred roundings
        assert machine.energy(0.0, x) == pytest.approx(sheet.kinetic(x), rel=1e-13)  # a few roundings
        close(machine.full(0.0, x, u)[1], sheet.multipliers(x, u), 1e-11)  # as above
        close([outputs[f"Lambda{i}"] for i in range(1, 5)], sheet.multipliers(x, u), 1e-11)
        expected = [x[0] - b * np.cos(heading), x[1] - b * np.sin(heading), x[4] * np.cos(x[3])]
        close([outputs[name] for name in ("X2", "Y2", "V2")], expected, 1e-14)
        close([outputs["theta1_dot"], outputs["theta2_dot"]], sheet.wheel_rates(x), 1e-14)


def test_rates_energy_and_contact_forces_of_the_printed_state(
    trailer: Machine, agree_in_print: Callable[..., None]
) -> None:
    x, u = at(trailer, phi=0.6, V=0.5, Omega=0.4), np.array([0.03, -0.01])
    agree_in_print(trailer.derivatives(0.0, x, u)[3:6], "-0.682321236698, 0.0249270795349, -0.442029026573")
    agree_in_print(trailer.energy(0.0, x), "1.00743593364")
    agree_in_print(trailer.full(0.0, x, u)[1], "0.9765690735, -0.3132589078, 0.3943585408, -0.1301735034")


def test_the_sheet_by_hand_has_the_printed_constants(
    trailer: Machine, sheet: ModuleType, agree_in_print: Callable[..., None]
) -> None:
    by_hand = sheet.Trailer(trailer.parameters)
    agree_in_print([by_hand.J1, by_hand.M0, by_hand.J2], "0.784262222222, 8.09955555556, -1.7")
    agree_in_print(by_hand.Delta(0.6), "7.55755964686")
    x = at(trailer, phi=0.6, V=0.5, Omega=0.4)
    agree_in_print(by_hand.torques(x, 0.2, -0.3), "0.0587319014612, 0.0605024014612")


def test_the_mirrored_machine_moves_as_the_mirror_image(samples: Any) -> None:
    mirror = np.array([1, -1, -1, -1, 1, -1, 1, 1, 1])
    for machine, _, x, u in samples:
        mirrored = mirror * x
        mirrored[[6, 7]] = mirrored[[7, 6]]
        expected = mirror * machine.derivatives(0.0, x, u)
        expected[[6, 7]] = expected[[7, 6]]
        close(machine.derivatives(0.0, mirrored, u[::-1].copy()), expected, 1e-14)  # the order of sums changes


@pytest.mark.parametrize("side", [1, -1])
def test_the_hitch_warning_begins_at_a_right_angle(trailer: Machine, side: int) -> None:
    assert not warns(trailer, at(trailer, phi=side * (np.pi / 2 - 1e-9)), [0.0, 0.0], HITCH)
    assert warns(trailer, at(trailer, phi=side * (np.pi / 2 + 1e-9)), [0.0, 0.0], HITCH)
    assert trailer.warnings(0.0, at(trailer, phi=1.5 * side, V=0.1), np.zeros(2)) == []


@pytest.mark.parametrize("turn", [0.4, -0.4])
def test_the_trailer_slip_warning_begins_at_friction_times_load(trailer: Machine, turn: float) -> None:
    x, u = at(trailer, phi=0.6 * np.sign(turn), V=0.5, Omega=turn), [0.03, -0.01]
    limit = abs(trailer.outputs(0.0, x, np.array(u))["Lambda2"]) / 2.0
    assert not warns(trailer.with_parameters({"a_slip": limit * (1 + 1e-9)}), x, u, TRAILER_SLIPS)
    assert warns(trailer.with_parameters({"a_slip": limit * (1 - 1e-9)}), x, u, TRAILER_SLIPS)


def test_the_wheel_slip_warning_begins_at_friction_times_load(trailer: Machine) -> None:
    x, u = at(trailer, phi=0.6, V=0.5, Omega=0.4), [0.3, 0.1]
    side, _, left, right = trailer.full(0.0, x, np.array(u))[1]
    limit = np.hypot(side, left + right) / 6.0
    assert not warns(trailer.with_parameters({"a_slip": limit * (1 + 1e-9)}), x, u, WHEELS_SLIP)
    assert warns(trailer.with_parameters({"a_slip": limit * (1 - 1e-9)}), x, u, WHEELS_SLIP)
    assert warns(trailer, at(trailer, V=4.0, Omega=3.0), [0.0, 0.0], WHEELS_SLIP)  # a fast turn


def test_an_inertia_exactly_at_its_limit_is_accepted() -> None:
    assert load_machine("diff_drive_trailer", {"d1": 0.5, "I1": 1.0}, {}).parameters["I1"] == 1.0


def test_other_parameters_leave_the_first_machine_alone(trailer: Machine) -> None:
    x, u = at(trailer, phi=0.6, V=0.5, Omega=0.4), np.array([0.03, -0.01])
    before = trailer.derivatives(0.0, x, u)
    other = trailer.with_parameters({"m2": 9.0})
    assert not np.array_equal(other.derivatives(0.0, x, u), before)
    assert np.array_equal(trailer.derivatives(0.0, x, u), before)


def test_the_state_is_in_the_order_of_the_sheet(trailer: Machine) -> None:
    expected = ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")
    assert trailer.description.state_names == expected
    assert trailer.description.input_names == ("U1", "U2")


# in motion


@pytest.fixture(scope="module")
def open_loop_end(trailer: Machine, flow: Flow) -> Any:
    """The state at t = 10 of the sheet's open-loop run."""
    start, u = OPEN_LOOP
    return flow(trailer, trailer.state(start), 10.0, u)[:, -1]


def root_of_Delta(sheet: ModuleType, machine: Machine, phi: Any) -> Any:
    return np.sqrt(sheet.Trailer(machine.parameters).Delta(phi))


def test_equal_torques_drive_straight_with_constant_acceleration(
    trailer: Machine, sheet: ModuleType, flow: Flow
) -> None:
    x = flow(trailer, trailer.state({"V": 0.3}), TIMES, np.array([0.05, 0.05]))
    M0 = sheet.Trailer(trailer.parameters).M0
    assert_allclose(x[V], 0.3 + 2 * 0.05 * TIMES / (0.075 * M0), rtol=1e-12)
    assert_allclose(x[[PSI, PHI, OMEGA, Y]], 0.0, atol=1e-12)


def test_with_the_mass_on_the_axle_the_yaw_acceleration_is_constant(
    trailer: Machine, sheet: ModuleType, flow: Flow
) -> None:
    machine = trailer.with_parameters({"d1": 0.0})
    x = flow(machine, machine.state({"phi": 0.9, "V": 0.5, "Omega": -0.3}), TIMES, np.array([-0.02, 0.03]))
    J1 = sheet.Trailer(machine.parameters).J1
    assert_allclose(x[OMEGA], -0.3 + 0.2 * 0.05 / (0.075 * J1) * TIMES, rtol=1e-12)


@pytest.mark.parametrize("speed", [0.5, -0.5])
def test_coasting_straight_the_hitch_angle_decays_with_the_distance(
    trailer: Machine, sheet: ModuleType, flow: Flow, speed: float
) -> None:
    x = flow(trailer, trailer.state({"phi": 0.7, "V": speed}), TIMES, REST)
    assert_allclose(np.tan(x[PHI] / 2), np.tan(0.35) * np.exp(-x[X] / 1.0), rtol=1e-12)
    expected = speed * root_of_Delta(sheet, trailer, 0.7)
    assert_allclose(x[V] * root_of_Delta(sheet, trailer, x[PHI]), expected, rtol=1e-12)
    assert_allclose(x[OMEGA], 0.0, atol=1e-15)


def test_coasting_with_the_mass_on_the_axle_keeps_two_integrals(
    trailer: Machine, sheet: ModuleType, flow: Flow
) -> None:
    machine = trailer.with_parameters({"d1": 0.0})
    x = flow(machine, machine.state({"phi": 0.7, "V": 0.6, "Omega": 0.8}), TIMES, REST)
    assert_allclose(x[OMEGA], 0.8, rtol=1e-12)
    expected = 0.6 * root_of_Delta(sheet, machine, 0.7)
    assert_allclose(x[V] * root_of_Delta(sheet, machine, x[PHI]), expected, rtol=1e-12)


def test_a_trailer_without_back_action_leaves_a_Chaplygin_sleigh(
    trailer: Machine, sheet: ModuleType, flow: Flow
) -> None:
    machine = trailer.with_parameters({"I2": 2.0})  # = m2 b^2
    by_hand = sheet.Trailer(machine.parameters)
    V0, Omega0, psi0 = -0.2, 0.8, 0.4
    x = flow(machine, machine.state({"phi": 0.3, "V": V0, "Omega": Omega0, "psi": psi0}), TIMES, REST)
    v = np.sqrt(V0**2 + by_hand.J1 * Omega0**2 / by_hand.M0)
    c = np.arctanh(V0 / v)
    xi = by_hand.kd * v * TIMES / by_hand.J1 + c
    assert_allclose(x[V], v * np.tanh(xi), rtol=0, atol=1e-12)
    assert_allclose(x[OMEGA], Omega0 * np.cosh(c) / np.cosh(xi), rtol=0, atol=1e-12)
    swing = 2 * by_hand.J1 * Omega0 * np.cosh(c) / (by_hand.kd * v)
    expected = psi0 + swing * (np.arctan(np.tanh(xi / 2)) - np.arctan(np.tanh(c / 2)))
    assert_allclose(x[PSI], expected, rtol=0, atol=1e-12)


def test_on_a_steady_circle_hitch_speed_and_yaw_rate_stay(trailer: Machine, sheet: ModuleType, flow: Flow) -> None:
    phi, speed = -0.5, 0.6
    turn = -speed * np.sin(phi)
    kd = sheet.Trailer(trailer.parameters).kd
    total, difference = -0.075 * kd * turn**2, 0.075 / 0.2 * kd * speed * turn
    u = np.array([total - difference, total + difference]) / 2
    x = flow(trailer, trailer.state({"phi": phi, "V": speed, "Omega": turn}), TIMES, u)
    expected = np.tile([[phi], [speed], [turn]], len(TIMES))
    assert_allclose(x[[PHI, V, OMEGA]], expected, rtol=0, atol=1e-12)


def test_the_work_under_held_torques_is_torque_times_wheel_angle(trailer: Machine, rng: np.random.Generator) -> None:
    x = trailer.state({"phi": 0.3, "V": 0.4, "Omega": 0.1})
    advance = trailer.advancer("rk4")
    for k in range(100):
        u, before, energy = 0.05 * rng.normal(size=2), x.copy(), trailer.energy(0.0, x)
        advance(20 * k, 20, 1_000_000, x, u, trailer.c)
        work = u @ (x - before)[[THETA1, THETA2]]
        assert trailer.energy(0.0, x) - energy == pytest.approx(work, abs=1e-13)  # rk4 at 1 ms: 1e-14


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_heading_belongs_to_the_wheel_angles(trailer: Machine, rng: np.random.Generator, integrator: str) -> None:
    x = trailer.state({"psi": 0.3, "phi": 0.3, "V": 0.4, "Omega": 0.1, "theta2": 2.0})
    before = x[PSI] - 0.075 / 0.4 * (x[THETA2] - x[THETA1])
    for k in range(100):
        trailer.advancer(integrator)(10 * k, 10, 10_000_000, x, 0.1 * rng.normal(size=2), trailer.c)
    # a linear invariant, kept by every integrator; wheel angles near 100 rad, a thousand roundings
    assert x[PSI] - 0.075 / 0.4 * (x[THETA2] - x[THETA1]) == pytest.approx(before, abs=1e-12)


def errors_in_open_loop(machine: Machine, integrator: str, end: Any, steps: list[int]) -> Any:
    """Largest error of the eight states at t = 10."""
    start, u = OPEN_LOOP
    errors = []
    for n in steps:
        x = machine.state(start)
        machine.advancer(integrator)(0, n, 10_000_000_000 // n, x, u, machine.c)
        errors.append(np.abs(x - end)[:8].max())
    return np.array(errors)


@pytest.mark.parametrize(
    ("integrator", "printed"),
    [("euler", "2.25, 0.281"), ("rk2", "0.0046, 0.000066"), ("rk4", "0.000022, 0.0000000041")],
)
def test_errors_are_the_printed_ones(
    trailer: Machine, open_loop_end: Any, agree_in_print: Callable[..., None], integrator: str, printed: str
) -> None:
    for error, text in zip(
        errors_in_open_loop(trailer, integrator, open_loop_end, [25, 200]), printed.split(","), strict=True
    ):
        agree_in_print(error, text)


def test_advancing_equals_stepping(trailer: Machine) -> None:
    start, u = OPEN_LOOP
    stepped, advanced = trailer.state(start), trailer.state(start)
    step = trailer.stepper("rk4")
    for k in range(50):
        step(k * 3_000_000 / 1e9, stepped, u, trailer.c, 0.003)
    trailer.advancer("rk4")(0, 50, 3_000_000, advanced, u, trailer.c)
    assert np.array_equal(stepped, advanced)
