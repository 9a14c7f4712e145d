"""What a machine may find out itself before a run: its initial condition, parameters, and the integrator's step.

A machine file that has `PREPARE = Preparation(function, ...)` beside its function is asked once, before anything moves.
No symbolic work here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from servonode.mechanics.description import ModelError

Numbers = Mapping[str, float]


class Unprepared(ModelError):
    """A launch file that the machine cannot begin with; `section` and `key` of it say where, the text how to fix."""

    def __init__(self, section: str, key: str | None, text: str) -> None:
        super().__init__(text)
        self.section, self.key = section, key


@dataclass(frozen=True)
class Wanted:
    """What the launch file asks for.

    settings: all options. parameters: every parameter's value, at t = 0 where it varies. given: those that the launch
    file states, of which `varying` are functions of time. disturbed: the names in [plant.disturbance]. initial:
    [plant.initial] as it stands. step [s]: None for "auto". duration [s].
    """

    settings: Mapping[str, Any]
    parameters: Numbers
    given: frozenset[str]
    varying: frozenset[str]
    disturbed: frozenset[str]
    initial: Mapping[str, float | list[float] | str]
    step: float | None
    integrator: str
    duration: float


@dataclass(frozen=True)
class Prepared:
    """What the machine makes of it: states (vectors by entry), parameters, the step [s] (None: as wanted), remarks."""

    initial: Numbers
    parameters: Numbers = field(default_factory=dict)
    step: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preparation:
    """A machine's own preparation.

    start: names that [plant.initial] may have beside the states; they may be texts. auto: parameters that it finds
    where the launch file states none or "auto". settles_step: whether it understands `step = "auto"`.
    """

    prepare: Callable[[Wanted], Prepared]
    start: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    settles_step: bool = False
