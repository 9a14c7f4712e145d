"""The common start where the other computer of a run has ended meanwhile."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from servonode.nodes.launcher import NodeStatuses, StartGate


def test_a_start_ends_with_the_other_computers_part(tmp_path: Path) -> None:
    """It does not wait for a relay that has completed; one that is started again is waited for."""
    faults: list[str] = []
    children = {"relay": SimpleNamespace(code=0), "controller": SimpleNamespace(code=None)}
    processes: Any = SimpleNamespace(
        children=children, reap=lambda: False, dead=list, due=list, forward_output=lambda: None
    )
    gate = StartGate(tmp_path, processes, lambda: False, lambda name, text: faults.append(f"{name}: {text}"))
    silent: Any = SimpleNamespace(receive=list)
    assert not gate.open({"relay", "controller"}, silent, NodeStatuses())
    assert faults == ["not_ready: the other computer has ended its part of the run before all was ready"]
    children["relay"].code = -9
    processes.dead = processes.due = lambda: ["relay"]
    waiting = {"relay", "controller"}
    assert gate.open(waiting, silent, NodeStatuses())
    assert waiting == {"controller"}
