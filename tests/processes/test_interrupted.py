"""A run that Python started is interrupted."""

import os
import signal
import subprocess
import sys
import time

import pytest

import servonode
from servonode.errors import ServonodeError
from tests.helpers.runs import START_S


def test_interrupted_run_stops_its_nodes() -> None:
    call = "servonode.run('trailer_pursuit', name='broken_off', run__duration=300.0, run__speed=1.0, "
    call += "plant__safety__command_timeout=10.0, plant__safety__lateness_limit=10.0)"
    command = [sys.executable, "-c", f"import servonode\n{call}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        nodes = nodes_of_run("broken_off")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=START_S)
    assert process.returncode == -signal.SIGINT
    assert said.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert len(nodes) == 3
    for pid in nodes.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def nodes_of_run(name: str) -> dict[str, int]:
    """The processes of a run's nodes, once its plant is active."""
    limit = time.monotonic() + START_S
    while time.monotonic() < limit:
        try:
            status = servonode.status(name)
        except ServonodeError:
            status = {"nodes": {}}
        if status["nodes"].get("plant", {}).get("lifecycle") == "active":
            pids: dict[str, int] = status["pids"]
            return pids
        time.sleep(0.1)
    raise AssertionError(f"{name} did not begin")
