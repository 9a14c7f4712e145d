"""Recordings of processes in lockstep have the bits of the nodes in memory."""

import sys
from pathlib import Path

import pytest

from servonode.record import write
from servonode.record.bag import read_bag
from servonode.simulation.rerun import run_again
from tests.helpers.recorded import recorded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_processes_in_lockstep_give_the_recording_of_the_nodes_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording is the one that the writer makes while the run goes on."""
    file = recorded(tmp_path / "memory.mcap", "trailer_pursuit_lockstep", "run.duration=1", "run.lockstep_timeout=60")
    monkeypatch.delattr(write, "write_bag")  # with which the launcher would make it of the spool
    bag = read_bag(file)
    found = run_again(bag, bag.closed_loop())
    assert (found.compared > 3 * 101, found.differing_messages) == (True, 0)
