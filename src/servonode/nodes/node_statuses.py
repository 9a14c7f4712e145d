"""The newest status of each node, and the numbers changed in it, as the launcher has received them."""

import time
from collections.abc import Iterable

from servonode.bus import Message, Parameters, Status
from servonode.bus.topology import PLANT
from servonode.nodes.fault_ladder import ESTOP


class NodeStatuses:
    """Keeps in `newest` the newest status of each node that has published one, in `changed` its changed numbers."""

    def __init__(self) -> None:
        self.newest: dict[str, Status] = {}
        self.changed: dict[str, Parameters] = {}
        self._plant_ns = 0  # time of the plant's newest status

    def watch(self) -> None:
        """Measure the plant's silence from now on."""
        self._plant_ns = time.monotonic_ns()

    def take(self, messages: Iterable[tuple[str, Message]]) -> None:
        """Keep what has come."""
        for _, message in messages:
            if isinstance(message, Parameters):
                self.changed[message.node] = message
                continue
            assert isinstance(message, Status)
            self.newest[message.node] = message
            if message.node == PLANT:
                self._plant_ns = time.monotonic_ns()

    def lifecycle(self, node: str) -> str:
        """The lifecycle state of a node; empty before its first status."""
        return self.newest[node].lifecycle if node in self.newest else ""

    def plant_time(self) -> float:
        """The plant time [s] of the plant's newest status; 0 before the first."""
        return self.newest[PLANT].t if PLANT in self.newest else 0.0

    def silence_s(self) -> float:
        """The time since the plant's newest status [s]."""
        return (time.monotonic_ns() - self._plant_ns) / 1e9

    def is_stopped(self) -> bool:
        """Whether the plant's newest status says that it is in an emergency stop: only a reset clears that."""
        return PLANT in self.newest and bool(self.newest[PLANT].values.get(ESTOP))
