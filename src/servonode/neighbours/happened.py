"""Lifecycle, fault and log lines of a run, followed event by event."""

from collections.abc import Mapping
from typing import Any

from servonode.bus.topology import PLANT
from servonode.neighbours.moments import Event

LEVELS = {"fault": "error", "safe_state": "warning", "restart": "warning", "injected": "warning"}  # else info


class Happened:
    """How a run stands by the events so far: lifecycle of its plant, its first fault, log lines not yet taken."""

    def __init__(self) -> None:
        self.lifecycle = self.fault = ""
        self._lines: list[Event] = []

    def take(self, event: Mapping[str, Any]) -> None:
        """Take one event of a recording, see `record.events`."""
        word, text = event["event"], event["text"]
        cleared = text in ("none", "nominal")
        if word == "lifecycle" and event["node"] == PLANT:
            self.lifecycle = text
        if word == "fault":
            self.fault = "" if cleared else self.fault or text
        level = "info" if cleared else LEVELS.get(word, "info")
        self._lines.append(Event(level, f"{event['node']}: {word.replace('_', ' ')} {text}"))

    def lines(self) -> list[Event]:
        """The log lines since the last call."""
        found, self._lines = self._lines, []
        return found
