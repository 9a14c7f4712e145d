"""Pursuit of a target: the derived law against the sheet's closed forms, its start, guards and defaults."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers import ServoLaw, programs_of
from servonode.mechanics.machine import Machine, ParameterError
from tests.helpers.small_machines import packaged_law

VARIANTS = programs_of("diff_drive_trailer")["pursuit"].options["variant"]
STABLE = {"speed": 2.0, "heading": 2.0}
PLAIN = {"speed": 0.0, "heading": 0.0}


def pursuit(machine: Machine, variant: str = "finite", **parameters: float) -> ServoLaw:
    law = packaged_law("pursuit", machine, parameters=parameters, variant=variant)
    law.given = parameters
    return law


def begin(law: ServoLaw, x: Any, y: Any, rates: dict[str, float] = STABLE) -> ServoLaw:
    """The law as it starts there."""
    started = law.started(0.0, x, y, law.given)
    started.stabilise(rates)
    return started


def random_target(rng: np.random.Generator) -> Any:
    """Position far from the origin, with velocity and acceleration: x, x', x'', y, y', y''."""
    angle, far = rng.uniform(-np.pi, np.pi), rng.uniform(8.0, 12.0)
    y = rng.normal(size=6)
    y[[0, 3]] = far * np.cos(angle), far * np.sin(angle)
    return y


@pytest.mark.parametrize("friction", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_torques_are_those_of_the_closed_form(
    trailer: Machine, sheet: ModuleType, rng: np.random.Generator, variant: str, friction: bool
) -> None:
    for _ in range(20):
        machine = trailer.with_parameters({"c_w": 0.0, **sheet.random_parameters(rng, friction)})
        law = pursuit(machine, variant, a=1.3, rho0=2.2)
        x, y, rates = sheet.random_state(rng), random_target(rng), tuple(rng.uniform(0.5, 4.0, size=2))
        if variant == "plain":
            rates = (0.0, 0.0)
        law = begin(law, x, y, dict(zip(("speed", "heading"), rates, strict=True)))
        answer = law.evaluate(0.0, x, y)
        assert answer.status == 0
        expected = sheet.Trailer(machine.parameters).pursuit_torques(x, y, 1.3, 2.2, rates, variant)
        # a solve with condition below 100 and about a hundred roundings
        assert_allclose(answer.inputs, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("variant", VARIANTS)
def test_residuals_are_speed_and_heading_errors(
    trailer: Machine, sheet: ModuleType, rng: np.random.Generator, variant: str
) -> None:
    for _ in range(20):
        x, y = sheet.random_state(rng), random_target(rng)
        law = pursuit(trailer, variant, a=1.3, rho0=2.2)
        law = begin(law, x, y)
        answer = law.evaluate(0.0, x, y)
        measured = sheet.Trailer(trailer.parameters).pursuit(x, y, 1.3, 2.2)
        second = ["e_dot"] if variant == "differential" else ["e", "e_dot"]
        expected = [measured["f1"], measured[second[0]], 0.0, measured["e_dot"] if len(second) == 2 else 0.0]
        assert_allclose(np.append(answer.residuals, answer.rates), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_laws_agree_on_the_program(
    trailer: Machine, sheet: ModuleType, rng: np.random.Generator, variant: str
) -> None:
    for _ in range(20):
        x, y, a, rho0 = sheet.random_state(rng), random_target(rng), 0.8, 1.7
        difference = y[[0, 3]] - x[:2]
        rho, beta = np.hypot(*difference), np.arctan2(difference[1], difference[0])
        x[2], x[4] = beta, a * (rho - rho0)
        x[5] = (y[4] * np.cos(beta) - y[1] * np.sin(beta)) / rho
        law = pursuit(trailer, variant, a=a, rho0=rho0)
        law = begin(law, x, y, PLAIN if variant == "plain" else STABLE)
        answer = law.evaluate(0.0, x, y)
        by_hand = sheet.Trailer(trailer.parameters)
        expected = by_hand.pursuit_torques(x, y, a, rho0, (2.0, 2.0), "finite")
        assert_allclose(answer.inputs, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_the_distance_at_the_start_is_kept_unless_another_is_given(trailer: Machine) -> None:
    y = np.array([4.0, 0.0, 0.0, 3.0, 0.0, 0.0])
    assert begin(pursuit(trailer), trailer.state({}), y).parameters["rho0"] == 5.0
    assert begin(pursuit(trailer, rho0=2.5), trailer.state({}), y).parameters["rho0"] == 2.5
    with pytest.raises(ParameterError, match="0 m must be greater than 0") as caught:  # on the target
        begin(pursuit(trailer), trailer.state({}), np.zeros(6)).check_parameters()
    assert caught.value.name == "rho0"


@pytest.mark.parametrize(("name", "value"), [("a", -1.0), ("rho0", 0.0), ("rho_min", -0.1)])
def test_a_program_parameter_out_of_bounds_is_refused(trailer: Machine, name: str, value: float) -> None:
    with pytest.raises(ParameterError, match=f"{value:g} .* must be greater than 0") as caught:
        pursuit(trailer, **{"rho0": 2.0, name: value}).check_parameters()
    assert caught.value.name == name


@pytest.mark.parametrize("variant", VARIANTS)
def test_inside_the_guard_radius_the_law_stops_and_says_why(trailer: Machine, variant: str) -> None:
    law = pursuit(trailer, variant, rho0=1.0)
    law = begin(law, trailer.state({}), np.array([1.0, 0, 0, 0, 0, 0]))
    assert law.evaluate(0.0, trailer.state({}), np.array([0.0501, 0, 0, 0, 0, 0])).status == 0
    answer = law.evaluate(0.0, trailer.state({}), np.array([0.0499, 0, 0, 0, 0, 0]))
    assert answer.status == 1
    assert "inside the guard radius rho_min" in law.explain(answer)
    assert "start farther away or give a larger rho0" in law.explain(answer)


def test_on_the_target_and_at_what_is_not_finite_the_law_stops(trailer: Machine) -> None:
    y = np.array([1.0, 0, 0, 0, 0, 0])
    law = begin(pursuit(trailer, rho0=1.0), trailer.state({}), y)
    assert law.evaluate(0.0, trailer.state({}), np.zeros(6)).status == 1
    assert law.evaluate(0.0, trailer.state({"Omega": np.nan}), y).status < 0


def test_the_heading_error_is_taken_the_short_way_round(trailer: Machine, sheet: ModuleType, rng: Any) -> None:
    y = np.array([-1.0, 0, 0, -0.1, 0, 0])
    law = begin(pursuit(trailer, rho0=1.0), trailer.state({"psi": 3.0}), y)
    answer = law.evaluate(0.0, trailer.state({"psi": 3.0}), y)
    assert answer.residuals[1] == pytest.approx(3.0 + np.pi - np.arctan(0.1) - 2 * np.pi, abs=1e-14)
    x, y = sheet.random_state(rng), random_target(rng)  # full turns do not matter
    once = law.evaluate(0.0, x, y).inputs
    x[2] += 6 * np.pi
    assert_allclose(law.evaluate(0.0, x, y).inputs, once, rtol=0, atol=1e-12)  # rounding of an angle of 20 rad


@pytest.mark.parametrize(
    ("variant", "rate"), [("finite", 2.0), ("differential", 2.0), ("plain", 0.0), ("literal", 0.0)]
)
def test_each_variant_has_its_default_rates(trailer: Machine, variant: str, rate: float) -> None:
    description = pursuit(trailer, variant).description
    assert [each.default for each in description.residuals] == [rate, rate]
    assert description.relative_degrees == ((1, 1) if variant == "differential" else (1, 2))
    assert description.target_order == 2
