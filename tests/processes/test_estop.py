"""The emergency stop of processes: by request and by signal, beside frozen ones, from any environment, and kept."""

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.bus import Applied
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from tests.helpers.runs import (
    OFTEN,
    RESTARTED,
    START_S,
    Process,
    Runs,
    Watch,
    eventually,
    operator,
    private_runs,
    signalled,
    stopped_early,
)
from tests.processes.test_nodes import WAITS, active

PATIENT = ("plant.safety.command_timeout=10", "plant.safety.lateness_limit=10")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def assert_latched(run: Process, watch: Watch) -> None:
    """Reset and arm are refused; its release leads to inactive, arm to a new run id."""
    stays = "the emergency stop stays latched; clear it with servonode reset --estop"
    if len(run.ask("status")["faults"]) > 1:  # what else was frozen meanwhile
        assert run.ask("reset")["note"] == stays
    assert run.ask("reset")["refused"] == stays
    stopped = run.ask("status")
    assert (stopped["lifecycle"], [each["name"] for each in stopped["faults"]]) == ("fault", ["estop"])
    assert stopped["safe_state"] == "damp"
    assert run.ask("arm")["refused"] == "fault estop is latched; reset it first (servonode reset --estop)"
    assert run.order("reset_estop") == "inactive"
    was = watch.latest().run
    assert run.arm(watch).run != was


def test_promises_15_23_estop_by_request_or_signal_needs_no_socket_launcher_or_file_and_is_latched(runs: Runs) -> None:
    run = active(runs, WAITS)
    plant, others = run.pids()[PLANT], (run.popen.pid, run.pids()[CONTROLLER], run.pids()[TARGET])
    asks = {
        "request": lambda: run.order("estop"),
        "SIGUSR1": lambda: run.kill(PLANT, signal.SIGUSR1),
        "SIGQUIT": lambda: signalled(run.popen.pid, signal.SIGQUIT),
    }
    with Watch(run.name) as watch:
        for ask in asks.values():
            asked = watch.status("active", within_s=START_S).mono
            ask()
            assert (status := watch.status("fault", asked, within_s=START_S)).fault == "estop"
            stop = watch.until(lambda m: type(m) is Applied and "fault:estop" in m.reasons, asked)
            assert stop.mono <= status.mono
            assert_latched(run, watch)
            watch.forget()
        for pid in others:
            signalled(pid, signal.SIGSTOP)
        folders = [run.path, run.path.parent]
        untouched = [folder.stat().st_mtime_ns for folder in folders]
        asked = watch.status().mono
        done = operator("estop", run.name, patient=True, descriptors=12)
        assert (done.returncode, done.stderr) == (0, "")  # one socket is enough, and that not for the stop itself
        watch.until(lambda m: type(m) is Applied and "fault:estop" in m.reasons, asked, START_S)
        stop = json.loads(operator("estop", run.name, "--json", patient=True).stdout)["runs"][0]
        assert (stop["run"], stop["pid"], stop["lifecycle"]) == (run.name, plant, "fault")
        assert (stop["signalled"], stop["confirmed"]) == (True, True)
        assert [folder.stat().st_mtime_ns for folder in folders] == untouched
        for pid in others:
            signalled(pid, signal.SIGCONT)
        assert_latched(run, watch)
    run.stop()


@pytest.fixture
def session_runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs made where every process of this user finds them, whatever its environment."""
    with private_runs(tmp_path) as runs, pytest.MonkeyPatch.context() as patch:
        patch.delenv("XDG_RUNTIME_DIR")
        patch.delenv("TMPDIR")
        yield runs


def test_promise_23_estop_from_a_service_or_while_nodes_start_is_kept(session_runs: Runs) -> None:
    run = session_runs.start("trailer_pursuit", "run.speed=1", "run.duration=6000", *PATIENT, *RESTARTED, OFTEN)
    assert eventually(run.registry, START_S)
    bare = {word: os.environ[word] for word in ("PATH", "HOME")}
    done = operator("estop", run.name, patient=True, env=bare, cwd="/")  # while its nodes are being started
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{run.name}: stopped (fault), confirmed; process {run.pids()[PLANT]} was signalled\n"
    run.wait_open()
    assert run.ask("status")["faults"][0]["name"] == "estop"
    run.kill(PLANT)  # its latch outlives it
    assert eventually(lambda: "plant was killed" in run.stderr and run.is_open(), START_S)
    assert [each["name"] for each in run.ask("status")["faults"]] == ["estop"]
    assert "reset --estop" in operator("arm", run.name, patient=True, env=bare).stderr
    assert operator("reset", "--estop", run.name, patient=True, env=bare).stdout == f"{run.name}: inactive\n"
    eventually(lambda: False, 0.2)  # until the launcher knows of it
    stopped_early(run, random.Random(23))
    signalled(run.popen.pid, signal.SIGUSR1)  # the launcher passes it on
    assert eventually(lambda: run.ask("status")["lifecycle"] == "fault", START_S)
    run.stop()
