"""Recordings of processes: a run that is killed leaves one, and one in lockstep has the bits of the nodes in memory."""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import servonode
from tests.bags.test_bags import messages
from tests.helpers.recorded import recorded
from tests.helpers.refusals import command as servo
from tests.helpers.runs import START_S, Runs, eventually, operator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
QUIET = ("plant.safety.command_timeout=10", "plant.safety.lateness_limit=10")  # a busy host is not tested


def test_when_all_is_killed_the_spool_is_read_and_made_a_bag(runs: Runs, tmp_path: Path) -> None:
    file = tmp_path / "killed.mcap"
    spool = tmp_path / "killed.mcap.spool"
    run = runs.start("trailer_pursuit", "run.speed=1", "run.duration=600", *QUIET, words=("--record", str(file)))
    run.wait_open()
    assert eventually(lambda: spool.stat().st_size > 30_000, START_S)
    for pid in (run.popen.pid, run.writer(), *run.pids().values()):
        os.kill(pid, signal.SIGKILL)
    run.popen.wait(START_S)
    result = servo("bag", "recover", str(spool))
    assert result.exit_code == 0, result.stderr
    assert len(messages(file)) > 20
    assert servo("replay", str(file)).exit_code == 0
    assert json.loads(servo("bag", "info", str(file), "--json").stdout)["ended"] == "killed"


def test_processes_in_lockstep_give_the_recording_of_the_nodes_in_memory_and_overwrite_none(tmp_path: Path) -> None:
    file = recorded(tmp_path / "memory.mcap", "trailer_pursuit_lockstep", "run.duration=1")
    result = operator("replay", str(file), "--again", "--json")
    found = json.loads(result.stdout)
    assert (result.returncode, found["differing"]) == (0, 0), (result.stdout, result.stderr)
    assert found["compared"] > 3 * 101
    words = [
        "run",
        "trailer_pursuit_lockstep",
        "--set",
        "run.duration=0.2",
        "--set",
        "run.lockstep_timeout=60",
        "--no-report",
        "--record",
        "--name",
        "r",
    ]
    for number in (1, 2):
        assert operator(*words, cwd=tmp_path).returncode == 0
        assert sorted(each.name for each in tmp_path.glob("r*.mcap")) == ["r.2.mcap", "r.mcap"][-number:]


def test_a_run_from_python_has_the_bits_of_the_simulation() -> None:
    settings = {"run__mode": "lockstep", "run__duration": 2.0, "run__lockstep_timeout": 60.0}
    done = servonode.run("trailer_pursuit", name="from_python", **settings)
    simulated = servonode.simulate("trailer_pursuit", run__duration=2.0)
    assert done.control == "lockstep"
    assert done.stats["rate"] > 0
    for name, values in simulated.state.items():
        assert np.array_equal(values, done.state[name]), name
