"""The numbers of the launch file that an operator has changed in a node: what a request for it may hold."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.parameters import MOST_NUMBERS, parameters_of

TOO_LATE = "numbers of this run were changed meanwhile; ask again"


class Change(NamedTuple):
    """A request: new values by dotted key, and the numbers with which the node is to compute from then on."""

    values: dict[str, float]
    numbers: list[float]


class ChangedParameters:
    """What was changed since the start of a node. revision: how many requests have changed something."""

    def __init__(self, closed_loop: ClosedLoop, node: str) -> None:
        self.values: dict[str, float] = {}
        self.revision = 0
        self._node = node
        self._known = {each.key: each for each in parameters_of(closed_loop).values() if each.node == node}

    def as_dict(self) -> dict[str, Any]:
        return {"revision": self.revision, "values": dict(self.values)}

    def read(self, arguments: Mapping[str, Any]) -> Change | str:
        """The change that a request asks for; a text says why it is refused."""
        values, numbers, revision = (arguments.get(name) for name in ("values", "numbers", "revision"))
        if not (isinstance(values, dict) and values and isinstance(numbers, list) and len(numbers) <= MOST_NUMBERS):
            return f"give values by key, and at most {MOST_NUMBERS} numbers"
        for key, value in values.items():
            known = self._known.get(key)
            if known is None:
                return f"{str(key)[:80]!r} cannot be changed here; see servonode param list"
            if not _is_number(value):
                return f"{key}: a value is no number; give a finite one"
            if complaint := known.complaint(value):
                return f"{key}: {complaint}"
        if not all((each is None and self._node == PLANT) or _is_number(each) for each in numbers):
            return "numbers holds something else than finite numbers, or null for no limit of the plant"
        if revision != self.revision:
            return TOO_LATE
        return Change(
            {key: float(value) for key, value in values.items()},
            [math.inf if each is None else float(each) for each in numbers],
        )

    def note(self, values: Mapping[str, float]) -> None:
        """Note a change that acts."""
        self.values |= values
        self.revision += 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
