"""The events of a run, from its status messages: lifecycles, faults, safe states, injected faults, restarts.

And the faults that were injected into it, each with the one that was found after it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from servonode.record.spool import Recorded
from servonode.record.typed import EVENTS

INJECTED = "injected_"  # begins the count of an injected fault
_WATCHED = ("lifecycle", "fault", "safe_state")


class Events:
    """Finds the events of a run that its messages, one after the other, show."""

    def __init__(self) -> None:
        self._stood: dict[str, dict[str, Any]] = {}  # by node: its status before
        self._starts: dict[str, int] = {}  # by node: the id of its present start

    def among(self, messages: Iterable[Recorded]) -> Iterator[Recorded]:
        """The next messages in their order, each event behind the message that shows it."""
        for mono, topic, message in messages:
            yield mono, topic, message
            for event in self.shown_by(topic, message):
                yield mono, EVENTS, event

    def shown_by(self, topic: str, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events that the next message shows."""
        node, _, word = topic.partition("/")
        if self._starts.setdefault(node, message["src"]) != message["src"]:
            self._starts[node] = message["src"]
            yield _event(message, "restart", f"the {node} was restarted")
        if word != "status":
            return
        before, self._stood[node] = self._stood.get(node, {}), message
        known = before.get("counts", {})
        for name, count in message["counts"].items():
            if name.startswith(INJECTED) and count > known.get(name, 0):
                yield _event(message, "injected", name.removeprefix(INJECTED).replace("_", " ", 1))
        for name in _WATCHED:
            if message[name] != before.get(name, ""):
                yield _event(message, name, message[name] or "none")


def _event(message: dict[str, Any], event: str, text: str) -> dict[str, Any]:
    return {"t": message["t"], "node": message["node"], "event": event, "text": text}


def merged_faults(*told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The faults that several nodes tell, each once: as often as the node that tells a text most often does."""
    found, known = list[dict[str, Any]](), Counter[str]()
    for faults in told:
        own = Counter[str]()
        for fault in faults:
            own[fault["text"]] += 1
            found += [fault] if own[fault["text"]] > known[fault["text"]] else []
        known |= own
    return found


def with_found(injected: Iterable[Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The injected faults, each with `found`, the name of the first fault after it, and `after`, how long [s]; or None.

    A fault that comes after another one was injected counts for that one.

    What the plant finds goes before what the launcher sees, which knows plant time by the newest status alone.
    """
    told = [dict(each) for each in injected]
    begins = [each["t"] for each in told]
    return [each | _found(each, min((t for t in begins if t > each["t"]), default=inf), faults) for each in told]


def _found(injected: Mapping[str, Any], until: float, faults: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = [each for each in faults if injected["t"] <= each["t"] < until or each["node"] in injected["names"]]
    if not found:
        return {"found": None, "after": None}
    first = min(found, key=lambda each: (each["node"] in injected["names"], each["t"]))
    return {"found": first["name"], "after": max(first["t"] - injected["t"], 0.0)}


def injected_text(each: Mapping[str, Any]) -> str:
    """One of them in a line."""
    size = f" {each['size']:g}" if each["size"] else ""
    lasts = "" if each["duration"] is None else f" for {each['duration']:g} s"
    found = f"found {each['found']} {each['after']:.3f} s later" if each["found"] else "no fault was found"
    return f"{each['on']} {each['kind']}{size} ({', '.join(each['names'])}) at t = {each['t']:.3f} s{lasts}: {found}"
