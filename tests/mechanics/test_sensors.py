"""The word `sensor`: what it refuses, and what of it reaches the description of a machine."""

from typing import Any

from servonode.mechanics import Model, coordinate, input_, parameter, sensor
from servonode.mechanics.derive import derive
from servonode.mechanics.machine_source import describe

x = coordinate("x", "position", "m")
m = parameter("m", "mass", "kg", default=2.0, above=0)
F = input_("F", "force", "N")


def machine(**more: Any) -> Model:
    stated = {"parameters": (m,), "coordinates": (x,), "kinetic": m * x.rate**2 / 2, "inputs": {F: x.rate}}
    return Model(name="cart", description="a mass", **(stated | more))


def test_rates_accelerations_and_inputs_can_be_measured_and_are_described() -> None:
    stated = machine(sensors=(sensor("force", "pull and inertia", F - m * x.acceleration, "N", noise=0.1, rate=50),))
    equations = derive(stated)
    (described,) = describe(equations.model).sensors
    assert (described.name, described.noise, described.rate, described.wraps) == ("force", 0.1, 50, False)
