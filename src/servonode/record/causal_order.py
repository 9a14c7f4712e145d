"""The messages of two computers in one order, in which nothing stands before what it answers.

The clocks of two computers are known to each other within some error. So near times say nothing about the order, but a
command says which state and which goal it answers.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.record.spool import Recorded

LOOK_AHEAD_NS = 1_000_000_000  # more than any error of a clock that is of use
_COMMAND, _STATE, _GOAL = f"{CONTROLLER}/command", f"{PLANT}/state", f"{TARGET}/target"
Cause = tuple[str, int, int]  # topic, the plant's start, number: of a state or a goal that a command answers


def in_order(plant: Iterator[Recorded], other: Iterator[Recorded]) -> Iterator[Recorded]:
    """All messages in the order of their times, each command behind the state and the goal that it answers.

    The times of the plant's computer stay. Those of the other are moved where that order asks for it.
    """
    here, there, last = _Ahead(plant), _Ahead(other), 0
    while here.first or there.first:
        if there.first is None or (here.first and not here.waits_for(there) and _precedes(here, there)):
            last, topic, message = here.take()
        else:
            at, topic, message = there.take()
            last = max(min(at, here.first[0]) if here.first else at, last)
        yield last, topic, message


def _precedes(here: "_Ahead", there: "_Ahead") -> bool:
    assert here.first is not None
    assert there.first is not None
    return here.first[0] <= there.first[0] or there.waits_for(here)


class _Ahead:
    """Messages that are read some time ahead, to know which states and goals are still to come."""

    def __init__(self, messages: Iterator[Recorded]) -> None:
        self._messages, self._ahead = messages, deque[Recorded]()
        self._coming = set[Cause]()
        self._newest: dict[tuple[str, int], int] = {}  # number of the newest one, by topic and its sender's start
        self._read()

    @property
    def first(self) -> Recorded | None:
        """The next message; None at the end."""
        return self._ahead[0] if self._ahead else None

    def take(self) -> Recorded:
        """The next message, which is then behind."""
        taken = self._ahead.popleft()
        self._coming.discard(_itself(taken[1], taken[2]))
        self._read()
        return taken

    def waits_for(self, others: "_Ahead") -> bool:
        """Whether the next message is a command that answers something which is still to come from others."""
        if self.first is None or self.first[1] != _COMMAND:
            return False
        run, message = self.first[2]["run"], self.first[2]
        causes = {(_STATE, run, message["re"]), (_GOAL, run, message["target_seq"])}
        return not causes.isdisjoint(others._coming)

    def _read(self) -> None:
        """Read on until what is known reaches far enough ahead."""
        while not self._ahead or self._ahead[-1][0] <= self._ahead[0][0] + LOOK_AHEAD_NS:
            found = next(self._messages, None)
            if found is None:
                return
            self._ahead.append(found)
            _, topic, message = found
            if topic in (_STATE, _GOAL) and message["seq"] > self._newest.get((topic, message["src"]), -1):
                self._newest[topic, message["src"]] = message["seq"]  # one that is sent again is no new one
                self._coming.add(_itself(topic, message))


def _itself(topic: str, message: dict[str, Any]) -> Cause:
    return topic, message.get("run", 0), message.get("seq", -1)  # events have neither
