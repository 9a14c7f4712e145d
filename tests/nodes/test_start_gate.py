"""The common start where the other computer of a run has ended meanwhile, and where a plant takes its time."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servonode.bus import Bus
from servonode.bus.zmq_io import HANDSHAKE_MS
from servonode.nodes import launcher
from servonode.nodes.launcher import NodeStatuses, StartGate

READY: Any = {"reap": lambda: False, "dead": list, "due": list, "forward_output": lambda: None}


def test_a_start_ends_with_the_other_computers_part(tmp_path: Path) -> None:
    """It does not wait for a relay that has completed; one that is started again is waited for."""
    faults: list[str] = []
    children = {"relay": SimpleNamespace(code=0), "controller": SimpleNamespace(code=None)}
    processes: Any = SimpleNamespace(children=children, **READY)
    gate = StartGate(tmp_path, processes, lambda: False, lambda name, text: faults.append(f"{name}: {text}"))
    silent: Any = SimpleNamespace(receive=list)
    assert not gate.open({"relay", "controller"}, silent, NodeStatuses())
    assert faults == ["not_ready: the other computer has ended its part of the run before all was ready"]
    children["relay"].code = -9
    processes.dead = processes.due = lambda: ["relay"]
    waiting = {"relay", "controller"}
    assert gate.open(waiting, silent, NodeStatuses())
    assert waiting == {"controller"}


def test_a_plant_that_takes_longer_than_a_handshake_to_be_made_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []
    with Bus(folder, "plant") as plant, Bus(folder, "launcher") as bus:
        publisher, inbox = plant.publisher(1), bus.subscriber({"plant": ["status"]})
        time.sleep(1.2e-3 * HANDSHAKE_MS)
        monkeypatch.setattr(launcher, "_says", lambda *_: publisher.ready())
        monkeypatch.setattr(StartGate, "_start", lambda *_: True)
        gate = StartGate(folder, SimpleNamespace(**READY), lambda: False, lambda *told: faults.extend(told))
        assert gate.open({"plant"}, inbox, NodeStatuses())
    assert faults == []
