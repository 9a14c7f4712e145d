"""Joystick and open loop: torques against the torque map, signals."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.controllers import ServoLaw
from servonode.controllers.engine.signals import ExpressionError, load_signals
from servonode.mechanics.machine import Machine
from tests.helpers.small_machines import packaged_law


def law_of(name: str, machine: Machine, **rates: float) -> ServoLaw:
    law = packaged_law(name, machine)
    law = law.started(0.0, machine.state({}), np.zeros(law.goal_layout.size), {})
    law.stabilise(rates)
    return law


def test_torques_of_the_printed_state(trailer: Machine, agree_in_print: Any) -> None:
    law = law_of("rates", trailer, speed=0.0, yaw_rate=0.0)
    x = trailer.state({"phi": 0.6, "V": 0.5, "Omega": 0.4})
    answer = law.evaluate(0.0, x, np.array([0.0, 0.2, 0.0, -0.3]))
    assert answer.status == 0
    agree_in_print(answer.inputs, "0.0587319014612, 0.0605024014612")


@pytest.mark.parametrize("friction", [False, True])
def test_torques_are_those_of_the_torque_map(
    trailer: Machine, sheet: ModuleType, rng: np.random.Generator, friction: bool
) -> None:
    for _ in range(20):
        machine = trailer.with_parameters(sheet.random_parameters(rng, friction))
        law, x, y = (
            law_of("rates", machine, speed=3.0, yaw_rate=1.5),
            sheet.random_state(rng),
            rng.normal(size=4),
        )
        answer = law.evaluate(0.0, x, y)
        alpha = y[1] - 3.0 * (x[4] - y[0]), y[3] - 1.5 * (x[5] - y[2])
        expected = sheet.Trailer(machine.parameters).torques(x, *alpha)
        assert_allclose(answer.inputs, expected, rtol=0, atol=1e-12 * np.abs(expected).max())  # a few roundings


def test_the_joystick_has_the_defaults_of_the_sheet(trailer: Machine) -> None:
    description = law_of("rates", trailer, speed=2.0, yaw_rate=2.0).description
    assert description.signal_defaults == ("0.4", "0")
    assert [each.default for each in description.residuals] == [2.0, 2.0]


def test_open_loop_gives_the_stated_inputs_or_reports_nan(trailer: Machine, sheet: ModuleType, rng: Any) -> None:
    law = law_of("open_loop", trailer)
    answer = law.evaluate(1.0, sheet.random_state(rng), np.array([0.3, -0.7]))
    assert answer.status == 0
    assert_allclose(answer.inputs, [0.3, -0.7], rtol=0)
    assert answer.condition == 1.0
    for bad in (np.nan, np.inf):
        answer = law.evaluate(0.0, trailer.state({}), np.array([0.0, bad]))
        assert answer.status == -2
        assert "not finite; check the parameters and the initial state" in law.explain(answer)


def test_signals_have_their_value_and_derivatives() -> None:
    signals = load_signals({"x": "6*sin(0.05*t) - sin(0.3*t) + 2", "y": 3}, 2)
    out, t = np.zeros(6), 7.0
    signals.evaluate(t, out)
    expected = [
        6 * np.sin(0.35) - np.sin(2.1) + 2,
        0.3 * np.cos(0.35) - 0.3 * np.cos(2.1),
        -0.015 * np.sin(0.35) + 0.09 * np.sin(2.1),
    ]
    assert_allclose(out, [*expected, 3.0, 0.0, 0.0], rtol=0, atol=1e-15)  # a few roundings


def test_a_kink_is_refused_only_where_a_derivative_is_needed() -> None:
    with pytest.raises(ExpressionError) as caught:
        load_signals({"x": "2 + abs(sin(t))", "y": "0"}, 2)
    assert "x: abs has no derivative at 0 and the program needs 2" in str(caught.value)
    assert "sqrt(u**2 + 0.01**2) for abs(u)" in str(caught.value)
    out = np.zeros(1)
    load_signals({"x": "2 + abs(t - 5)"}, 0).evaluate(3.0, out)
    assert out[0] == 4.0
