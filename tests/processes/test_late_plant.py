"""A start waits for a plant that takes its time, and reads the launcher's own sockets meanwhile."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servonode.bus import Bus
from servonode.bus.zmq_io import HANDSHAKE_MS
from servonode.nodes import launcher
from servonode.nodes.launcher import NodeStatuses, StartGate


def test_a_plant_that_takes_longer_than_a_handshake_to_be_made_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []
    processes: Any = SimpleNamespace(reap=lambda: False, dead=list, due=list, forward_output=lambda: None)
    with Bus(folder, "plant") as plant, Bus(folder, "launcher") as bus:
        publisher, inbox = plant.publisher(1), bus.subscriber({"plant": ["status"]})
        time.sleep(1.2e-3 * HANDSHAKE_MS)
        monkeypatch.setattr(launcher, "_says", lambda *_: publisher.ready())
        monkeypatch.setattr(StartGate, "_start", lambda *_: True)
        gate = StartGate(folder, processes, lambda: False, lambda *told: faults.extend(told))
        assert gate.open({"plant"}, inbox, NodeStatuses())
    assert faults == []
