"""Pursuit of a target: the derived law against the sheet's closed forms, printed runs and exact decay."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers import ServoLaw, programs_of
from servonode.controllers.engine.signals import Signals, load_signals
from servonode.mechanics.machine import Machine, ParameterError
from tests.helpers.small_machines import packaged_law

VARIANTS = programs_of("diff_drive_trailer")["pursuit"].options["variant"]
STABLE = {"speed": 2.0, "heading": 2.0}
PLAIN = {"speed": 0.0, "heading": 0.0}
Y, Motion = Any, Callable[[float], Any]
HERE_THERE = {"x": "2 + 0.3*t", "y": "0"}


def pursuit(machine: Machine, variant: str = "finite", **parameters: float) -> ServoLaw:
    law = packaged_law("pursuit", machine, parameters=parameters, variant=variant)
    law.given = parameters
    return law


def begin(law: ServoLaw, x: Any, y: Any, rates: dict[str, float] = STABLE) -> ServoLaw:
    """The law as it starts there."""
    started = law.started(0.0, x, y, law.given)
    started.stabilise(rates)
    return started


def motion(signals: Signals) -> Motion:
    """y(t) of a target."""

    def at(t: float) -> Any:
        y = np.zeros(6)
        signals.evaluate(t, y)
        return y

    return at


@pytest.fixture(scope="module")
def epicycloid(sheet: ModuleType) -> Motion:
    """The target of figure 2."""
    return motion(load_signals(sheet.FIGURE_2, 2))


@pytest.fixture(scope="module")
def straight() -> Motion:
    return motion(load_signals(HERE_THERE, 2))


@pytest.fixture
def run(flow: Callable[..., Any]) -> Callable[..., Any]:
    """States (9, n) of the closed loop, the law evaluated continuously."""

    def run(law: ServoLaw, x: Any, times: Any, target: Motion, rates: dict[str, float] = STABLE) -> Any:
        law = begin(law, x, target(0.0), rates)

        def inputs(t: float, x: Any) -> Any:
            answer = law.evaluate(t, x, target(t))
            assert answer.status == 0
            return answer.inputs

        return flow(law.machine, x, times, inputs, rtol=1e-12, atol=1e-12)

    return run


def residuals(law: ServoLaw, x: Any, times: Any, target: Motion) -> Any:
    """f and f' (4, n) along a run."""
    columns = []
    for t, state in zip(times, x.T, strict=True):
        answer = law.evaluate(t, state, target(t))
        columns.append(np.append(answer.residuals, answer.rates))
    return np.array(columns).T


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


OFF = {"X": -1.0, "psi": 0.9, "phi": 0.4, "V": 0.5, "Omega": -0.3}
TIMES = np.array([0.3, 1.0, 2.0, 4.0, 8.0])


def first_residuals(law: ServoLaw, target: Motion) -> Any:
    answer = law.evaluate(0.0, law.machine.state(OFF), target(0.0))
    return np.append(answer.residuals, answer.rates)


@pytest.mark.parametrize("friction", [0.0, 0.02])
def test_residuals_of_the_finite_law_decay_exactly(
    trailer: Machine, epicycloid: Motion, run: Any, friction: float
) -> None:
    law = pursuit(trailer.with_parameters({"c_w": friction}), rho0=2.0)
    x = run(law, trailer.state(OFF), TIMES, epicycloid, {"speed": 1.5, "heading": 3.0})
    f1, e, _, e_dot = first_residuals(law, epicycloid)
    got = residuals(law, x, TIMES, epicycloid)
    assert_allclose(got[0], f1 * np.exp(-1.5 * TIMES), rtol=0, atol=1e-10)  # the solver's error
    assert_allclose(got[1], (e + (e_dot + 3 * e) * TIMES) * np.exp(-3 * TIMES), rtol=0, atol=1e-10)


def test_residuals_of_the_plain_law_are_constant_and_linear(trailer: Machine, epicycloid: Motion, run: Any) -> None:
    law = pursuit(trailer, "plain", rho0=2.0)
    times = TIMES[:-1]  # later the growing error turns the robot away from the target
    x = run(law, trailer.state(OFF), times, epicycloid, PLAIN)
    f1, e, _, e_dot = first_residuals(law, epicycloid)
    got = residuals(law, x, times, epicycloid)
    assert_allclose(got[0], f1, rtol=0, atol=1e-10)
    assert_allclose(got[1], e + e_dot * times, rtol=0, atol=1e-10)


def test_the_differential_law_leaves_a_heading_error(
    trailer: Machine, sheet: ModuleType, epicycloid: Motion, run: Any
) -> None:
    law = pursuit(trailer, "differential", rho0=2.0)
    x = run(law, trailer.state(OFF), TIMES, epicycloid)
    f1, e_dot, *_ = first_residuals(law, epicycloid)
    got = residuals(law, x, TIMES, epicycloid)
    assert_allclose(got[0], f1 * np.exp(-2 * TIMES), rtol=0, atol=1e-10)
    assert_allclose(got[1], e_dot * np.exp(-2 * TIMES), rtol=0, atol=1e-10)
    by_hand = sheet.Trailer(trailer.parameters)
    e = [by_hand.pursuit(s, epicycloid(t), 1.0, 2.0)["e"] for t, s in zip(TIMES, x.T, strict=True)]
    e0 = by_hand.pursuit(trailer.state(OFF), epicycloid(0.0), 1.0, 2.0)["e"]
    assert_allclose(e, e0 + e_dot * (1 - np.exp(-2 * TIMES)) / 2, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("variant", "yaw_rate", "printed"),
    [
        ("literal", 0.02, "0.629, 1.121"),
        ("plain", 0.02, "0.5, 1.3"),
        ("differential", 0.02, "0.11, 0.11"),
        ("literal", 0.0, "0.336, 0.717"),
        ("plain", 0.0, "0.1, 0.1"),
        ("differential", 0.0, "0.1, 0.1"),
    ],
)
def test_derivative_laws_keep_the_printed_heading_error(
    trailer: Machine,
    sheet: ModuleType,
    straight: Motion,
    run: Any,
    agree_in_print: Any,
    variant: str,
    yaw_rate: float,
    printed: str,
) -> None:
    law = pursuit(trailer, variant, a=1.0, rho0=2.0)
    rates = STABLE if variant == "differential" else PLAIN
    x = run(law, trailer.state({"psi": 0.1, "Omega": yaw_rate}), [20.0, 60.0], straight, rates)
    by_hand = sheet.Trailer(trailer.parameters)
    times = (20.0, 60.0)
    errors = [by_hand.pursuit(s, straight(t), 1.0, 2.0)["e"] for t, s in zip(times, x.T, strict=True)]
    agree_in_print(errors, printed)


@pytest.mark.parametrize("yaw_rate", [0.02, 0.0])
def test_the_finite_law_removes_the_heading_error(
    trailer: Machine, straight: Motion, run: Any, yaw_rate: float
) -> None:
    law = pursuit(trailer, a=1.0, rho0=2.0)
    x = run(law, trailer.state({"psi": 0.1, "Omega": yaw_rate}), [20.0, 60.0], straight)
    assert_allclose(residuals(law, x, [20.0, 60.0], straight)[1], 0.0, atol=1e-12)


def test_the_distance_at_the_start_is_kept_unless_another_is_given(trailer: Machine) -> None:
    y = np.array([4.0, 0.0, 0.0, 3.0, 0.0, 0.0])
    law, other = pursuit(trailer), pursuit(trailer, rho0=2.5)
    law = begin(law, trailer.state({}), y)
    other = begin(other, trailer.state({}), y)
    assert law.parameters["rho0"] == 5.0
    assert other.parameters["rho0"] == 2.5


def test_a_start_on_the_target_is_refused(trailer: Machine) -> None:
    law = pursuit(trailer)
    law = begin(law, trailer.state({}), np.zeros(6))
    with pytest.raises(ParameterError, match="0 m must be greater than 0") as caught:
        law.check_parameters()
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


def test_the_guard_stops_even_on_the_target_itself(trailer: Machine) -> None:
    law = pursuit(trailer, rho0=1.0)
    law = begin(law, trailer.state({}), np.array([1.0, 0, 0, 0, 0, 0]))
    assert law.evaluate(0.0, trailer.state({}), np.zeros(6)).status == 1


def test_a_measurement_that_is_not_finite_is_reported(trailer: Machine) -> None:
    law = pursuit(trailer, rho0=1.0)
    y = np.array([1.0, 0, 0, 0, 0, 0])
    law = begin(law, trailer.state({}), y)
    assert law.evaluate(0.0, trailer.state({"Omega": np.nan}), y).status < 0


def test_the_heading_error_is_taken_the_short_way_round(trailer: Machine) -> None:
    law = pursuit(trailer, rho0=1.0)
    y = np.array([-1.0, 0, 0, -0.1, 0, 0])
    law = begin(law, trailer.state({"psi": 3.0}), y)
    answer = law.evaluate(0.0, trailer.state({"psi": 3.0}), y)
    assert answer.residuals[1] == pytest.approx(3.0 + np.pi - np.arctan(0.1) - 2 * np.pi, abs=1e-14)


def test_full_turns_of_the_heading_do_not_matter(trailer: Machine, sheet: ModuleType, rng: Any) -> None:
    law, x, y = pursuit(trailer, rho0=1.0), sheet.random_state(rng), random_target(rng)
    law = begin(law, x, y)
    answer = law.evaluate(0.0, x, y)
    once = answer.inputs
    x[2] += 6 * np.pi
    answer = law.evaluate(0.0, x, y)
    assert_allclose(answer.inputs, once, rtol=0, atol=1e-12)  # rounding of an angle of 20 rad


@pytest.mark.parametrize(
    ("variant", "rate"), [("finite", 2.0), ("differential", 2.0), ("plain", 0.0), ("literal", 0.0)]
)
def test_each_variant_has_its_default_rates(trailer: Machine, variant: str, rate: float) -> None:
    description = pursuit(trailer, variant).description
    assert [each.default for each in description.residuals] == [rate, rate]
    assert description.relative_degrees == ((1, 1) if variant == "differential" else (1, 2))
    assert description.target_order == 2
