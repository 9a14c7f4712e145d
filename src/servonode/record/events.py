"""The events of a run, from its status messages: lifecycles, faults, safe states, restarts."""

from collections.abc import Iterator
from typing import Any

from servonode.record.spool import Recorded

EVENTS = "run/events"  # their topic, which no node publishes
_WATCHED = ("lifecycle", "fault", "safe_state")


class Events:
    """Finds the events of a run in its messages, given in their order."""

    def __init__(self) -> None:
        self._stood: dict[str, dict[str, Any]] = {}  # by node: its status before
        self._starts: dict[str, int] = {}  # by node: the id of its present start

    def shown_by(self, topic: str, message: dict[str, Any]) -> list[dict[str, Any]]:
        """What this message shows that those before it did not."""
        node, _, word = topic.partition("/")
        found = []
        before = self._starts.get(node)
        self._starts[node] = message["src"]
        if before not in (None, message["src"]):
            found.append(_event(message, "restart", f"the {node} was restarted"))
        if word == "status":
            stood = self._stood.get(node, {})
            for name in _WATCHED:
                if message[name] != stood.get(name, ""):
                    found.append(_event(message, name, message[name] or "none"))
            self._stood[node] = message
        return found


def with_events(messages: Iterator[Recorded]) -> Iterator[Recorded]:
    """The messages, each event behind the message that shows it."""
    events = Events()
    for mono, topic, message in messages:
        yield mono, topic, message
        for event in events.shown_by(topic, message):
            yield mono, EVENTS, event


def _event(message: dict[str, Any], event: str, text: str) -> dict[str, Any]:
    return {"t": message["t"], "node": message["node"], "event": event, "text": text}
