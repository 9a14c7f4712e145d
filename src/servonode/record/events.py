"""The events of a run, from its status messages: lifecycles, faults, safe states, injected faults, restarts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from servonode.record.spool import Recorded

EVENTS = "run/events"  # their topic, which no node publishes
INJECTED = "injected_"  # begins the count of an injected fault
_WATCHED = ("lifecycle", "fault", "safe_state")


def with_events(messages: Iterator[Recorded]) -> Iterator[Recorded]:
    """The messages in their order, each event behind the message that shows it."""
    events = Events()
    for mono, topic, message in messages:
        yield mono, topic, message
        for event in events.shown_by(topic, message):
            yield mono, EVENTS, event


class Events:
    """Finds the events of a run that its messages, one after the other, show."""

    def __init__(self) -> None:
        self._stood: dict[str, dict[str, Any]] = {}  # by node: its status before
        self._starts: dict[str, int] = {}  # by node: the id of its present start

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
