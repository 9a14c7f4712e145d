"""The preparation of a machine before a run: its initial state, its parameters, and the integrator step.

A machine file that has `PREPARE = Preparation(function, ...)` beside its function is asked once, before anything moves.
No symbolic work here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from servonode.errors import ModelError

Numbers = Mapping[str, float]


class Unprepared(ModelError):
    """An entry of a launch file that the machine cannot use, named by `section` and `key`; the text has the remedy."""

    def __init__(self, section: str, key: str | None, text: str) -> None:
        super().__init__(text)
        self.section, self.key = section, key


@dataclass(frozen=True)
class Wanted:
    """The request of a launch file to the preparation of its machine.

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


def number(initial: Mapping[str, Any], name: str) -> float:
    """An entry of [plant.initial], 0 where it is absent.

    Raises:
        Unprepared: it is no number.
    """
    value = initial.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unprepared("plant.initial", name, f"{value!r} is not a number; give one")
    return float(value)


def boundary(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Two neighbouring numbers from `low`, where it holds, to `high`, of which only the first one lets it hold."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return low, high
        low, high = (middle, high) if holds(middle) else (low, middle)


def require_fixed(wanted: Wanted, names: Iterable[str], undisturbed: str, constant: str) -> None:
    """Refuse disturbances, and functions of time for these parameters, each with its text.

    Raises:
        Unprepared: there is one.
    """
    if wanted.disturbed:
        raise Unprepared("plant.disturbance", min(wanted.disturbed), undisturbed)
    for name in names:
        if name in wanted.varying:
            raise Unprepared("plant.parameters", name, constant)


@dataclass(frozen=True)
class Prepared:
    """The result of a preparation: states (vectors by entry), parameters, step [s] (None: as requested), remarks."""

    initial: Numbers
    parameters: Numbers = field(default_factory=dict)
    step: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preparation:
    """A machine's own preparation.

    start: names that [plant.initial] may have beside the states; they may be texts. auto: parameters that it finds
    where the launch file defines none or "auto". settles_step: whether it understands `step = "auto"`.
    """

    prepare: Callable[[Wanted], Prepared]
    start: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    settles_step: bool = False
