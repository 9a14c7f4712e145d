"""The ranges over which keys of a launch file are varied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.variation import Variation, stated_number
from servonode.errors import StatementError, end_of_range
from servonode.mechanics.description import Quantity


@dataclass(frozen=True)
class Range:
    """A key of a launch file and the ends between which its value varies."""

    key: str
    low: float
    high: float

    def checked(self) -> Self:
        """The range itself, where it has ends between which a value can vary.

        Raises:
            StatementError: it has none.
        """
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            text = f"{self.key}={self.low:g}:{self.high:g} is an empty range"
            raise StatementError(f"{text}; give two finite numbers LOW:HIGH, the lower one first")
        return self

    def at(self, share: Array) -> Array:
        """The values at these shares of the way from low to high."""
        result: Array = self.low + (self.high - self.low) * share
        return result


def ranges_of(over: Mapping[str, Any]) -> list[Range]:
    """The ranges of a mapping from keys to (low, high).

    Raises:
        StatementError: nothing is varied, or a range is empty.
    """
    if not over:
        raise StatementError("nothing is varied; give a key and its range, such as plant.initial.phi=-1:1")
    found = []
    for key, ends in over.items():
        if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
            raise StatementError(f"{key}: {ends!r} is not a range; give (low, high)")
        found.append(Range(key, end_of_range(key, ends[0]), end_of_range(key, ends[1])).checked())
    return found


def quantities_of(variation: Variation) -> tuple[Quantity, ...]:
    """What each key of a variation is: its name, description and unit, of machine or program where it is theirs."""
    loop = variation.base
    description, control = loop.machine.description, loop.control
    known = {f"plant.initial.{each.name}": (each, "initial ") for each in description.state}
    for section in ("plant", "controller"):
        known |= {f"{section}.parameters.{each.name}": (each, "") for each in description.parameters}
    if control is not None:
        known |= {f"controller.settings.{each.name}": (each, "") for each in control.law.description.parameters}
    found = []
    for key, unit in zip(variation.keys, variation.units, strict=True):
        of, word = known.get(key, (Quantity(key, key, unit), ""))
        found.append(Quantity(of.name, f"{word}{of.description}", of.unit))
    return tuple(found)


def numbers_at(closed_loop: ClosedLoop, keys: Sequence[str]) -> list[float]:
    """The number that the launch file has at each key; NaN where it leaves it to a default that is not one number."""
    names = closed_loop.machine.description.state_names
    known = {f"plant.initial.{name}": float(x) for name, x in zip(names, closed_loop.start, strict=False)}
    known |= {f"plant.parameters.{name}": float(value) for name, value in closed_loop.machine.parameters.items()}
    control = closed_loop.control
    if control is not None:
        rates = [float(each) for each in control.gains.rates]
        residuals = [each.name for each in control.law.description.residuals]
        known |= {f"controller.gains.lambda_{name}": rate for name, rate in zip(residuals, rates, strict=True)}
        known |= {"controller.gains.lambda": rates[0]} if len(set(rates)) == 1 else {}
        known |= {f"controller.settings.{name}": float(value) for name, value in control.law.parameters.items()}
    known |= {
        key: np.nan if (number := stated_number(closed_loop.launch, key)) is None else float(number)
        for key in keys
        if key not in known
    }
    return [known[key] for key in keys]
