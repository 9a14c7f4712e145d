"""Outputs of a machine in goals: their expressions are served, those that the inputs change at once are refused."""

from typing import Any

import numpy as np
import pytest
from sympy import Abs, Max

import servonode
from servonode.controllers import Program, residual
from servonode.controllers.engine.servo import derive_servo
from servonode.errors import ServonodeError
from servonode.mechanics import Model, ModelError, coordinate, input_, output, parameter
from servonode.mechanics.derive import derive
from tests.helpers.refusals import refusal

MASS, STIFF = 2.0, 300.0


def buffer() -> Model:
    """A mass pushed against a buffer, whose force grows with the square of its compression."""
    x = coordinate("x", "place", "m", start=0.2)
    m, k = parameter("m", "mass", "kg", default=MASS), parameter("k", "stiffness", "N/m^2", default=STIFF)
    F = input_("F", "push", "N")
    outputs = (
        output("load", "of the buffer", k * Max(0, x) ** 2, "N"),
        output("kinked", "of a spring that only pushes", k * Max(0, x), "N"),
        output("feeling", "of the hand", F + x, "N"),
        output("haste", "of the mass", x.acceleration, "m/s^2"),
    )
    forces = ((-k * Max(0, x) ** 2, x.rate),)
    return Model(
        "buffer", "a buffer", m * x.rate**2 / 2, (), (m, k), (x,), inputs={F: x.rate}, forces=forces, outputs=outputs
    )


def press(machine: Model) -> Program:
    return Program("press", "a load", (residual("at", machine["load"] - 1.0, "the load is 1 N", "N"),))


def stated(residuals: Any) -> Any:
    controller = residuals if isinstance(residuals, dict) else {"program": residuals}
    return {"run": {"duration": 1.0}, "plant": {"machine": buffer}, "controller": controller}


@pytest.mark.parametrize("controller", [press, {"residuals": {"at": "load - 1"}}], ids=["program", "launch file"])
def test_an_output_decays_to_its_goal_as_by_hand(controller: Any) -> None:
    loop = servonode.load(stated(controller))
    x, v = 0.3, -0.2
    u = loop.law(0.0, {"x": x, "x_dot": v})["F"]
    acceleration = (u - STIFF * x**2) / MASS
    f, f_dot, f_ddot = STIFF * x**2 - 1, 2 * STIFF * x * v, 2 * STIFF * (v**2 + x * acceleration)
    rate = 1 / (3 * 0.01)  # nobody gives one: a third of the limit 1/T at the default period
    assert f_ddot == pytest.approx(-2 * rate * f_dot - rate**2 * f, rel=1e-9)


@pytest.mark.slow
def test_a_goal_on_an_output_is_followed() -> None:
    run = servonode.simulate(stated({"residuals": {"at": "load - 1"}, "gains": {"lambda": 8.0}, "period": 0.001}))
    assert run.state["x"][-1] == pytest.approx(np.sqrt(1 / STIFF), abs=2e-3)


def refused(expression: Any) -> str:
    equations = derive(buffer())
    stated = Program("try", "", (residual("at", expression(equations.model), ""),))
    return refusal(ModelError, derive_servo, equations, stated)


def test_what_the_inputs_change_at_once_is_refused_with_the_remedy() -> None:
    text = refused(lambda machine: machine["feeling"] - 1)
    assert "residual at: it contains the input F, which the inputs change at once" in text
    assert "use only states, rates, parameters and time" in text
    assert "contains the acceleration x_ddot" in refused(lambda machine: machine["haste"])
    with pytest.raises(ServonodeError, match=r"residuals.at: it contains the input F") as caught:
        servonode.load(stated({"residuals": {"at": "feeling - 1"}}))
    assert "\n" not in str(caught.value)


def test_a_law_refuses_the_derivative_of_a_kink() -> None:
    text = refused(lambda machine: machine["kinked"] - 1)
    assert "residual at: its derivative, which the law needs, jumps where" in text
    assert "take a smooth form" in text


def test_an_output_stands_for_its_expression_in_sums_and_products() -> None:
    x = coordinate("x", "place", "m")
    load = output("load", "", 3 * x)
    assert [load + 1, 1 + load, load - 1, 1 - load] == [3 * x + 1, 3 * x + 1, 3 * x - 1, 1 - 3 * x]
    assert [2 * load, load * 2, load / 3, 1 / load] == [6 * x, 6 * x, x, 1 / (3 * x)]
    assert [-load, load**2, Abs(load)] == [-3 * x, 9 * x**2, 3 * Abs(x)]
