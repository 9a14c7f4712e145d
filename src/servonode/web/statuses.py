"""What the nodes of a run say of themselves, as tables for a page."""

import time
from typing import Any

from servonode.bus import Message, Status
from servonode.bus.durations import gathered
from servonode.bus.topology import GOAL_HELD, NODES, PLANT
from servonode.nodes.fault_ladder import ESTOP
from servonode.nodes.pause import PAUSED
from servonode.nodes.readonly import WOULD_SEND

IN_LIFE = tuple(reversed(NODES))  # the plant first


class Statuses:
    """The newest status of each node of a run."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[Status, float]] = {}  # with the time it came [monotonic s]

    def take(self, message: Message) -> None:
        """Take a message; only statuses count."""
        if isinstance(message, Status) and message.node in NODES:
            self._newest[message.node] = (message, time.monotonic())

    def clear(self) -> None:
        """Drop all: another run begins."""
        self._newest.clear()

    def summary(self) -> dict[str, Any]:
        """Whether the plant is armed, stopped or paused, what arming would send; its safe state, nodes and counts."""
        plant, _ = self._newest.get(PLANT, (None, 0.0))
        values = plant.values if plant else {}
        return {
            "armed": bool(values.get("armed")),
            "stopped": bool(values.get(ESTOP)),
            "paused": bool(values.get(PAUSED)),
            "readonly": bool(values.get("readonly")),
            "insecure": bool(values.get("insecure")),
            "would_send": {
                key.removeprefix(WOULD_SEND): value for key, value in values.items() if key.startswith(WOULD_SEND)
            },
            "goal_held": any(status.values.get(GOAL_HELD) for status, _ in self._newest.values()),
            "safe_state": plant.safe_state if plant else "",
            "nodes": [self._node(node) for node in self._present()],
            "timing": [row for node in self._present() for row in self._timing(node)],
            "counts": [row for node in self._present() for row in self._counts(node)],
        }

    def _present(self) -> list[str]:
        return [node for node in IN_LIFE if node in self._newest]

    def _node(self, node: str) -> dict[str, Any]:
        status, came = self._newest[node]
        age = round(time.monotonic() - came, 1)
        return {"node": node, "lifecycle": str(status.lifecycle), "fault": status.fault, "age": age}

    def _timing(self, node: str) -> list[dict[str, Any]]:
        status, _ = self._newest[node]
        rows = gathered(status.values).items()
        return [{"node": node, "name": name.replace("_", " ")} | _milliseconds(each) for name, each in rows]

    def _counts(self, node: str) -> list[dict[str, Any]]:
        status, _ = self._newest[node]
        return [
            {"node": node, "name": name.replace("_", " "), "count": n} for name, n in sorted(status.counts.items()) if n
        ]


def _milliseconds(times: dict[str, float]) -> dict[str, float]:
    return {name: 1e3 * seconds for name, seconds in times.items()}
