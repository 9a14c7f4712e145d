"""A machine on one computer and its run on another: what each does by its own clock when the network fails.

The robot's monotonic clock is an hour ahead; this process has the desk's.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servonode.bus import Applied
from tests.helpers.computers import HOUR_S, Pair, RunThere, reaction_s, two_computers
from tests.helpers.runs import SOON_S, START_S, Watch, eventually

LAUNCH = "trailer_pursuit_external"
EXAMPLE = Path(__file__).parents[2] / "examples" / "external_plant.py"
TIMEOUT_S = 0.5  # of the run for states, and of the machine for inputs
RETURN_S = 30.0  # from the end of a cut on, until both have found each other
BAD = {"delay": 0.02, "loss": 0.01, "reorder": 0.02}
SETTINGS = (
    'plant.device.state="tcp://robot.local:9873"', 'plant.device.applied="tcp://0.0.0.0:9874"',
    'plant.device.key="robot"', f"plant.device.timeout={TIMEOUT_S}", f"plant.safety.command_timeout={TIMEOUT_S}",
    "run.duration=600", "plant.safety.on_fault=wait",
)  # fmt: skip
# the example, which prints when its inputs become zero or other ones, and for how long it has had no fresh input then
MACHINE = """
import json, sys, time
from external_plant import Robot

class Noted(Robot):
    fresh = acts = 0

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "u" and any(value) != self.acts:
            self.acts, now = any(value), time.monotonic()
            print(json.dumps({"acts": self.acts, "at": now, "silent": now - self.fresh}), flush=True)

Noted(*sys.argv[1:3], keys=sys.argv[3:]).serve()
"""


class Robot:
    """The machine in progress."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._notes.read_text().splitlines()]

    def acts(self) -> bool:
        found = self.notes()
        return bool(found) and found[-1]["acts"]

    def stopped(self, before: int) -> dict[str, Any]:
        """How its inputs became zero after so many notes."""
        assert eventually(lambda: len(self.notes()) > before)
        found = self.notes()[before]
        assert not found["acts"]
        return found


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with two_computers(tmp_path, robot_ahead_s=HOUR_S, desk_ahead_s=0) as found:
        found.exchange_keys()
        yield found


@contextmanager
def machine(pair: Pair) -> Iterator[Robot]:
    notes, keys = pair.robot.folder / "notes", pair.robot.keys.folder
    addresses = ("tcp://0.0.0.0:9873", "tcp://desk.local:9874")
    words = (sys.executable, "-c", MACHINE, *addresses, str(keys / "robot.key_secret"), str(keys / "trusted/desk.key"))
    pair.robot.environment["PYTHONPATH"] = str(EXAMPLE.parent)
    with notes.open("w") as out, pair.robot.started(*words, stdout=out):
        yield Robot(notes)


def active(pair: Pair, robot: Robot) -> RunThere:
    """A run that moves the robot."""
    run = pair.start(pair.desk, LAUNCH, *SETTINGS, words=["--arm"])
    run.wait_open()
    assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S), run.ask("status")
    assert eventually(robot.acts)
    return run


def moves_again(run: RunThere, watch: Watch) -> None:
    """Only a reset and an arming have the law's commands act again; until then it is the safe action that does."""
    assert run.ask("status")["lifecycle"] == "fault"
    assert "fault" in run.ask("arm")["refused"]
    assert eventually(lambda: run.ask("reset").get("done"), RETURN_S), run.ask("reset")
    reset = time.monotonic_ns()
    watch.status("inactive", reset, within_s=RETURN_S)
    time.sleep(0.5)
    assert run.ask("status")["lifecycle"] == "inactive"
    assert all(each.reasons for each in watch.of(Applied, reset))  # no command has acted as it is
    assert eventually(lambda: run.ask("arm").get("done"), RETURN_S), run.ask("arm")
    watch.status("active", reset)
    assert watch.until(lambda each: type(each) is Applied and not each.reasons, reset)


def test_a_run_goes_on_over_a_bad_network_while_wall_clocks_are_set_back(pair: Pair) -> None:
    pair.network.set(**BAD)
    with machine(pair) as robot:
        run = active(pair, robot)
        for computer in (pair.robot, pair.desk):
            time.sleep(2)
            computer.wall_clock.set(-HOUR_S)
        time.sleep(2)
        assert run.ask("status")["lifecycle"] == "active"
        assert len(robot.notes()) == 1  # its inputs have never been zero
        assert pair.network.set()["lost"] > 20
        run.stop()
        robot.stopped(1)


@pytest.mark.parametrize(("cut_s", "sender"), [(1, ""), (10, ""), (2, "robot"), (2, "desk")])
def test_a_network_that_is_cut_stops_both_by_their_own_clocks(pair: Pair, cut_s: int, sender: str) -> None:
    pair.network.set(**BAD)
    with machine(pair) as robot:
        run = active(pair, robot)
        with run.watch() as watch:
            began = time.monotonic_ns()
            pair.network.set(sender, cut=True)
            fault = watch.status("fault", began)
            # where only packets of the desk are lost, so are its confirmations, and those of the robot soon wait too
            assert fault.fault in (("stale_state", "stale_applied") if sender == "desk" else ("stale_state",))
            stopped = robot.stopped(1)
            allowed = reaction_s(TIMEOUT_S, began, time.monotonic_ns())
            assert (fault.mono - began) / 1e9 < allowed + 2 * BAD["delay"]
            assert stopped["silent"] < allowed  # by the robot's clock
            assert stopped["at"] - HOUR_S - began / 1e9 < allowed + 2 * BAD["delay"]
            time.sleep(max(began / 1e9 + cut_s - time.monotonic(), 0))
            pair.network.set(cut=False)
            time.sleep(2)
            assert len(robot.notes()) == 2
            moves_again(run, watch)
        run.stop()


def test_a_desk_that_is_switched_off_leaves_the_robot_at_rest(pair: Pair) -> None:
    pair.network.set(**BAD)
    with machine(pair) as robot:
        run = active(pair, robot)
        began = time.monotonic_ns()
        pair.kill(pair.desk)
        stopped = robot.stopped(1)
        allowed = reaction_s(TIMEOUT_S, began, time.monotonic_ns())
        assert stopped["silent"] < allowed
        assert stopped["at"] - HOUR_S - began / 1e9 < allowed + BAD["delay"]
        assert run.popen.wait(SOON_S)
        time.sleep(2)
        assert len(robot.notes()) == 2


def test_a_robot_that_is_switched_off_is_a_fault(pair: Pair) -> None:
    pair.network.set(**BAD)
    with machine(pair) as robot:
        run = active(pair, robot)
        with run.watch() as watch:
            began = time.monotonic_ns()
            pair.kill(pair.robot)
            fault = watch.status("fault", began)
            assert fault.fault == "stale_state"
            assert (fault.mono - began) / 1e9 < reaction_s(TIMEOUT_S, began, fault.mono) + BAD["delay"]
        assert "refused" in run.ask("arm")
        run.stop()
