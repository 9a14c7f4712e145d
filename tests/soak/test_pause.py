"""Pause, step and speed of a simulated plant: on a clock that the test moves, and on processes."""

import signal
import sys
import time
from typing import Any

import pytest

import servonode
from servonode.api import override_texts
from servonode.bus import Requester
from servonode.bus.topology import CONTROLLER, PLANT
from tests.helpers.runs import START_S, Process, Runs, eventually, operator

PATIENT = ("plant.safety.command_timeout=10", "plant.safety.lateness_limit=10")
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def ask(run: Process, verb: str, **arguments: Any) -> dict[str, Any]:
    with Requester(run.path, PLANT) as requester:
        return requester.ask({"ask": verb, **arguments}, START_S)


@ON_LINUX
def test_in_real_time_a_pause_clears_nothing_of_the_law_and_replays(runs: Runs) -> None:
    bag = runs.folder / "paused.mcap"
    settings = ("run.duration=3", "run.speed=1", "plant.safety.command_timeout_floor=0.5")
    process = runs.start("trailer_pursuit", *settings, words=("--record", str(bag)))
    process.wait_open()
    assert eventually(lambda: ask(process, "status").get("t", 0.0) > 0.2)
    t = servonode.pause(process.name)
    time.sleep(0.8)  # longer than any timeout of commands
    status = servonode.status(process.name)["nodes"]
    assert (status[PLANT]["t"], status[PLANT]["paused"], status[PLANT]["fault"]) == (t, True, "")
    assert "plant_silent" not in status[CONTROLLER]["counts"]
    servonode.speed(0.1, process.name)  # a period of 0.1 s
    servonode.resume(process.name)
    time.sleep(0.5)
    servonode.speed(2.0, process.name)
    process.ends_with(0, START_S)
    assert process.printed["faults"] == []
    assert process.printed["residual_max"]["heading"] < 1e-3
    replayed = operator("replay", str(bag), "--json")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


@ON_LINUX
def test_a_paused_run_is_broken_off_by_ctrl_c(runs: Runs) -> None:
    process = runs.start("trailer_pursuit", "run.duration=600", "run.speed=1")
    process.wait_open()
    assert eventually(lambda: ask(process, "pause").get("done"))
    assert eventually(lambda: ask(process, "status")["paused"])
    process.popen.send_signal(signal.SIGINT)
    process.ends_with(130)


@ON_LINUX
@pytest.mark.parametrize("mode", ["realtime", "lockstep"])
def test_a_paused_run_whose_controller_is_killed_ends_with_that_fault(runs: Runs, mode: str) -> None:
    process = runs.start("trailer_pursuit", "run.duration=600", f"run.mode={mode}", "run.speed=1", *PATIENT)
    process.wait_open()
    assert eventually(lambda: ask(process, "pause").get("done"))
    process.kill(CONTROLLER)
    process.ends_with(1, START_S)
    assert any("controller" in each["text"] for each in process.printed["faults"])


@ON_LINUX
def test_a_paused_run_in_lockstep_ends_in_the_bits_of_the_simulation_and_replays(runs: Runs) -> None:
    options: dict[str, Any] = {"run__duration": 40.0, "controller__delay": 1, "plant__actuator__limit": 0.01,
                               "run__lockstep_timeout": 60.0}  # fmt: skip
    bag = runs.folder / "paused.mcap"
    process = runs.start("trailer_pursuit_lockstep", *override_texts(options), words=("--record", str(bag)))
    process.wait_open()
    assert eventually(lambda: ask(process, "pause").get("done"))
    times = [servonode.step(3, process.name), servonode.step(5, process.name)]
    assert times[1] - times[0] == pytest.approx(0.05)
    assert servonode.speed(2.0, process.name) == "active"
    assert servonode.resume(process.name) == "active"
    assert eventually(lambda: servonode.status(process.name)["nodes"][PLANT]["values"]["speed"] == 2.0)
    assert servonode.pause(process.name) > times[1]
    servonode.speed(None, process.name)
    servonode.resume(process.name)
    process.ends_with(0, START_S)
    printed, final = process.printed, servonode.simulate("trailer_pursuit_lockstep", **options).final()
    for key in ("t", "state", "input", "residual", "output", "energy", "steps"):
        assert printed[key] == final[key]
    assert (printed["pauses"], printed["speed_changes"], printed["faults"]) == (4, [2.0, None], [])
    assert "paused            4x, " in process.stderr
    replayed = operator("replay", str(bag), "--json")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
