"""Pause, step and speed of a simulated plant: on a clock that the test moves, and on processes."""

import signal
import time

import servonode
from servonode.bus.topology import CONTROLLER, PLANT
from tests.helpers.runs import START_S, Runs, eventually, operator
from tests.processes.test_pause import ON_LINUX, ask

# on processes


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
