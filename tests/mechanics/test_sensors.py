"""The word `sensor`: what it refuses, and what of it reaches the description of a machine."""

from typing import Any

import pytest
from sympy import Symbol, sin

from servonode.errors import ModelError
from servonode.mechanics import Model, coordinate, input_, output, parameter, sensor
from servonode.mechanics.derive import derive
from servonode.mechanics.machine_source import describe

x = coordinate("x", "position", "m")
m = parameter("m", "mass", "kg", default=2.0, above=0)
F = input_("F", "force", "N")


def machine(**more: Any) -> Model:
    stated = {"parameters": (m,), "coordinates": (x,), "kinetic": m * x.rate**2 / 2, "inputs": {F: x.rate}}
    return Model(name="cart", description="a mass", **(stated | more))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"noise": -0.1}, "noise=-0.1 is not a number from 0 on"),
        ({"quantum": float("nan")}, "quantum=nan is not a number from 0 on"),
        ({"delay": float("inf")}, "delay=inf is not a number from 0 on"),
        ({"rate": 0.0}, "rate=0.0 is not a positive number; give it in Hz, or leave it out"),
        ({"drop": 1.0}, "drop=1.0 is not a share from 0 to below 1"),
        ({"wraps": True}, "wraps=True is for angles in rad, its unit is m"),
    ],
)
def test_a_number_out_of_range_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=f"sensor ruler: {text}"):
        sensor("ruler", "position", x, "m", **values)


def test_a_sensor_has_a_name_and_an_expression() -> None:
    with pytest.raises(ModelError, match="sensor name 'my ruler'"):
        sensor("my ruler", "position", x, "m")
    with pytest.raises(ModelError, match="sensor ruler: 'x' is not an expression"):
        sensor("ruler", "position", "x", "m")


def test_a_name_stands_for_one_thing() -> None:
    ruler = sensor("ruler", "position", x, "m")
    with pytest.raises(ModelError, match="the name 'ruler' is used twice"):
        machine(sensors=(ruler, sensor("ruler", "again", x, "m")))
    with pytest.raises(ModelError, match="the name 'ruler' is used twice"):
        machine(sensors=(ruler,), outputs=(output("ruler", "position", x, "m"),))
    with pytest.raises(ModelError, match=r"in sensors= was not made by sensor\(...\)"):
        machine(sensors=(x,))


def test_what_the_machine_does_not_know_cannot_be_measured() -> None:
    strange = machine(sensors=(sensor("ruler", "position", x + sin(Symbol("y", real=True)), "m"),))
    with pytest.raises(ModelError, match="the sensor ruler contains 'y', which the model does not list"):
        derive(strange)


def test_rates_accelerations_and_inputs_can_be_measured_and_are_described() -> None:
    stated = machine(sensors=(sensor("force", "pull and inertia", F - m * x.acceleration, "N", noise=0.1, rate=50),))
    equations = derive(stated)
    (described,) = describe(equations.model).sensors
    assert (described.name, described.noise, described.rate, described.wraps) == ("force", 0.1, 50, False)
