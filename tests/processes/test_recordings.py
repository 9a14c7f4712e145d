"""Recordings of processes in lockstep have the bits of the nodes in memory."""

import json
import sys
from pathlib import Path

import pytest

from tests.helpers.recorded import recorded
from tests.helpers.runs import operator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_processes_in_lockstep_give_the_recording_of_the_nodes_in_memory(tmp_path: Path) -> None:
    file = recorded(tmp_path / "memory.mcap", "trailer_pursuit_lockstep", "run.duration=1", "run.lockstep_timeout=60")
    result = operator("replay", str(file), "--again", "--json")
    found = json.loads(result.stdout)
    assert (result.returncode, found["differing"]) == (0, 0), (result.stdout, result.stderr)
    assert found["compared"] > 3 * 101
