"""What a machine's sensors measure: expressions of its motion, with the errors of the devices."""

import math
from dataclasses import dataclass, field
from typing import Any

import sympy

from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError
from servonode.mechanics.description import Quantity, SensorDescription
from servonode.mechanics.stated import Stated
from servonode.mechanics.symbols import quantity_of, refuse_uncompilable

Expr = Any


@dataclass(frozen=True)
class Sensor(Stated):
    """A measured value: an expression of states, rates, accelerations and inputs, and how it is measured."""

    description: SensorDescription
    expression: Expr
    place: Place = field(default_factory=here)

    @property
    def quantity(self) -> Quantity:
        return self.description.quantity


def sensor(
    name: str,
    description: str,
    expression: Expr,
    unit: str = "1",
    *,
    noise: float = 0.0,
    quantum: float = 0.0,
    rate: float | None = None,
    delay: float = 0.0,
    drop: float = 0.0,
    wraps: bool = False,
) -> Sensor:
    """A sensor of the machine: what it measures, and with what errors; a launch file may state others.

    `expression` holds coordinates, velocities, their rates (`V.rate` is the acceleration that the equations of motion
    give, for accelerometers), inputs and parameters. noise: standard deviation [unit]; quantum: step to which it is
    rounded [unit]; rate: readings per second [Hz] (absent: one each control instant); delay: from measuring to the
    state message [s]; drop: the share of readings that are lost; wraps: an angle that is read from -pi to pi.

    Raises:
        ModelError: the name is not valid, the expression cannot be compiled, or a number is out of its range.

    >>> from servonode.mechanics import coordinate, sensor
    >>> theta = coordinate("theta", "angle", "rad")
    >>> encoder = sensor("encoder", "angle of the shaft", theta, "rad", quantum=0.001)
    >>> encoder.expression, encoder.description.quantum
    (theta, 0.001)
    """
    quantity = quantity_of("sensor", name, description, unit)
    refuse_uncompilable(f"sensor {name}", expression, here())
    for word, value, least in (("noise", noise, 0.0), ("quantum", quantum, 0.0), ("delay", delay, 0.0)):
        if not least <= value < math.inf:
            raise ModelError(f"sensor {name}: {word}={value} is not a number from 0 on; correct it", here())
    if rate is not None and not 0.0 < rate < math.inf:
        raise ModelError(f"sensor {name}: rate={rate} is not a positive number; give it in Hz, or leave it out", here())
    if not 0.0 <= drop < 1.0:
        raise ModelError(f"sensor {name}: drop={drop} is not a share from 0 to below 1; correct it", here())
    if wraps and unit != "rad":
        raise ModelError(f"sensor {name}: wraps=True is for angles in rad, its unit is {unit}; leave it out", here())
    stated = SensorDescription(quantity, noise, quantum, rate, delay, drop, wraps)
    return Sensor(stated, sympy.sympify(expression))
