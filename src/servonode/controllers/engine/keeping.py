"""What a law keeps at or above zero, as a launch file states it, and the numbers that it keeps it by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_ROWS, MOST_INPUTS = 40, 30  # of the solver
TOLERANCE = 1e-3  # of a keep, in its unit
KEEP_FAULT = "keep_"  # and its name: the fault of one that is violated by more


class KeepNumbers(NamedTuple):
    """The numbers of one keep, see `program.keep`; all can change during a run."""

    rate: float  # 1/s
    brake: float  # unit/s^2, infinite where nothing limits the deceleration
    margin: float
    tolerance: float


@dataclass(frozen=True)
class StatedKeep:
    """What of an entry of [controller.keep] is derived."""

    expression: str
    priority: int = 1


@dataclass(frozen=True)
class Keeping:
    """What of [controller] is derived beside program and options, for any program.

    keeps: added to the program's own. priorities: of residuals, in place of the program's. limits: the law keeps the
    limits of the inputs. yields: where not all can be kept something gives way; else that is a fault.
    """

    keeps: Mapping[str, StatedKeep] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    limits: bool = False
    yields: bool = True


NOTHING = Keeping()
