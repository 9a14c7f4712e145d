"""Robot with trailer at one instant: against the sheet's closed forms, its printed state, its warnings."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from servonode.mechanics.machine import Machine
from servonode.plants import load_machine
from tests.helpers.machines import close, warns

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


def test_derived_rates_are_those_written_by_hand(samples: Any) -> None:
    for machine, sheet, x, u in samples:
        close(machine.derivatives(0.0, x, u), sheet.rates(x, u), 1e-12)  # about a hundred roundings


def test_derived_kinetic_energy_is_that_written_by_hand(samples: Any) -> None:
    for machine, sheet, x, _ in samples:
        assert machine.energy(0.0, x) == pytest.approx(sheet.kinetic(x), rel=1e-13)  # a few roundings


def test_multipliers_are_the_contact_forces_of_the_sheet(samples: Any) -> None:
    for machine, sheet, x, u in samples:
        close(machine.full(0.0, x, u)[1], sheet.multipliers(x, u), 1e-11)  # as above


def test_outputs_name_the_same_contact_forces(samples: Any) -> None:
    for machine, sheet, x, u in samples:
        outputs = machine.outputs(0.0, x, u)
        close([outputs[f"Lambda{i}"] for i in range(1, 5)], sheet.multipliers(x, u), 1e-11)


def test_outputs_show_the_trailer_axle_and_wheel_rates(samples: Any) -> None:
    for machine, sheet, x, u in samples:
        outputs, heading, b = machine.outputs(0.0, x, u), x[2] + x[3], sheet.p["b"]
        expected = [x[0] - b * np.cos(heading), x[1] - b * np.sin(heading), x[4] * np.cos(x[3])]
        close([outputs[name] for name in ("X2", "Y2", "V2")], expected, 1e-14)
        close([outputs["theta1_dot"], outputs["theta2_dot"]], sheet.wheel_rates(x), 1e-14)


def test_rates_of_the_printed_state(trailer: Machine, agree_in_print: Callable[..., None]) -> None:
    x = at(trailer, phi=0.6, V=0.5, Omega=0.4)
    rates = trailer.derivatives(0.0, x, np.array([0.03, -0.01]))
    agree_in_print(rates[3:6], "-0.682321236698, 0.0249270795349, -0.442029026573")


def test_energy_of_the_printed_state(trailer: Machine, agree_in_print: Callable[..., None]) -> None:
    agree_in_print(trailer.energy(0.0, at(trailer, phi=0.6, V=0.5, Omega=0.4)), "1.00743593364")


def test_contact_forces_of_the_printed_state(trailer: Machine, agree_in_print: Callable[..., None]) -> None:
    forces = trailer.full(0.0, at(trailer, phi=0.6, V=0.5, Omega=0.4), np.array([0.03, -0.01]))[1]
    agree_in_print(forces, "0.9765690735, -0.3132589078, 0.3943585408, -0.1301735034")


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


def test_a_quiet_state_raises_no_warning(trailer: Machine) -> None:
    assert trailer.warnings(0.0, at(trailer, phi=1.5, V=0.1), np.zeros(2)) == []


@pytest.mark.parametrize("side", [1, -1])
def test_the_hitch_warning_begins_at_a_right_angle(trailer: Machine, side: int) -> None:
    assert not warns(trailer, at(trailer, phi=side * (np.pi / 2 - 1e-9)), [0.0, 0.0], HITCH)
    assert warns(trailer, at(trailer, phi=side * (np.pi / 2 + 1e-9)), [0.0, 0.0], HITCH)


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


def test_a_fast_turn_slips_sideways(trailer: Machine) -> None:
    assert warns(trailer, at(trailer, V=4.0, Omega=3.0), [0.0, 0.0], WHEELS_SLIP)


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
