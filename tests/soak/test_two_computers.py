"""One run on two computers: the plant on the robot, controller and target on the desk.

The desk's monotonic clock is an hour ahead; this process has the robot's.
"""

import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from servonode.bus import Applied, Status
from tests.helpers.computers import HOUR_S, Pair, RunThere, reaction_s, two_computers
from tests.helpers.runs import SOON_S, START_S, Watch, eventually, signalled

LAUNCH = """
[run]
mode = "realtime"
speed = 1.0
duration = 600.0

[hosts]
plant = "tcp://robot.local:7400"

[plant]
machine = "diff_drive_trailer"
publish_every = 10

[plant.safety]
command_timeout = 0.5
on_fault = "wait"

[controller]
program = "pursuit"
period = 0.01

[target]
x = "6*sin(0.05*t) - sin(0.3*t) + 2"
y = "5 + cos(0.3*t) - 6*cos(0.05*t)"
"""
TIMEOUT_S, PERIOD_S = 0.5, 0.01
RETURN_S = 30.0  # from the end of a cut on, until both have found each other
BAD = {"delay": 0.02, "loss": 0.01, "reorder": 0.02}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with two_computers(tmp_path) as found:
        found.exchange_keys(robot=["plant", "observe"], desk=["controller", "operate"])
        for computer in (found.robot, found.desk):
            (computer.folder / "pursuit.toml").write_text(LAUNCH)
        yield found


def robot_part(pair: Pair, *settings: str) -> RunThere:
    return pair.start(pair.robot, "pursuit.toml", *settings, words=["--on", "robot"])


def desk_part(pair: Pair, *settings: str) -> RunThere:
    return pair.start(pair.desk, "pursuit.toml", *settings)


def active(pair: Pair, *settings: str) -> tuple[RunThere, RunThere]:
    """The parts of a run that drives the robot."""
    robot, desk = robot_part(pair, *settings), desk_part(pair, *settings)
    robot.wait_open()
    desk.wait_open()
    assert eventually(lambda: robot.ask("status")["lifecycle"] == "active", START_S), robot.ask("status")
    return robot, desk


def settled(run: RunThere, lifecycle: str, within_s: float = RETURN_S) -> bool:
    """Whether the plant, asked on this computer, comes to say that it is so; the network may be gone meanwhile."""

    def holds() -> bool:
        with suppress(TimeoutError):
            return bool(run.ask("status").get("lifecycle") == lifecycle)
        return False

    return eventually(holds, within_s)


def driven_again(asked: RunThere, watch: Watch) -> None:
    """Only a reset and an arming, asked on this computer, have the law's commands act again; before it is at rest."""
    assert settled(asked, "fault")
    assert "fault" in asked.ask("arm")["refused"]
    assert asked.ask("reset")["done"]
    reset = time.monotonic_ns()
    watch.status("inactive", reset)
    time.sleep(0.5)
    assert settled(asked, "inactive")
    assert all(each.reasons for each in watch.of(Applied, reset))
    assert eventually(lambda: asked.ask("arm").get("done"), RETURN_S), asked.ask("arm")
    watch.status("active", reset)
    watch.until(lambda each: type(each) is Applied and each.re >= 0, reset)


def safe_at(watch: Watch, began: int) -> Status:
    """The fault for which the plant takes its safe action when commands stay away, as promised."""
    fault: Status = watch.status("fault", began)
    assert fault.fault == "stale_command"
    allowed = reaction_s(TIMEOUT_S, began, fault.mono) + PERIOD_S + 2 * BAD["delay"]
    assert (fault.mono - began) / 1e9 < allowed
    return fault


def test_a_run_is_driven_from_one_computer_and_stopped_from_the_other(pair: Pair) -> None:
    robot, desk = active(pair)
    assert [len(set(each.pids().values())) for each in (robot, desk)] == [2, 3]  # nodes, and the relay for the others
    shown = pair.desk.servonode("status", desk.name).stdout
    clock = re.search(r"the other's clock is ([-+][\d.]+) s from ours", shown)
    assert clock, shown
    assert abs(float(clock[1]) + HOUR_S) < 0.1
    with robot.watch() as watch:
        asked = time.monotonic_ns()
        done = pair.desk.servonode("estop", desk.name)
        assert done.returncode == 0, done.stderr
        assert watch.status("fault", asked).fault == "estop"
        assert desk.ask("arm").get("refused")
        assert desk.order("reset_estop") == "inactive"
        assert eventually(lambda: desk.ask("arm").get("done"))
        watch.status("active", asked)
        desk.stop()
        assert watch.status("fault", asked).fault == "estop"
    robot.stop()


def test_a_run_goes_on_over_a_bad_network_while_wall_clocks_are_set_back(pair: Pair) -> None:
    pair.network.set(**BAD)
    robot, desk = active(pair)
    for computer in (pair.robot, pair.desk):
        time.sleep(2)
        computer.wall_clock.set(-HOUR_S)
    time.sleep(2)
    for run in (robot, desk):
        assert run.ask("status")["lifecycle"] == "active", run.ask("status")
    values = desk.ask("status", "relay")["values"]
    assert values["offset_s"] == pytest.approx(-HOUR_S, abs=0.05)
    assert 2 * BAD["delay"] <= values["delay_s"] < 0.2
    assert pair.network.set()["lost"] > 20
    desk.stop()
    robot.stop()


@pytest.mark.parametrize(
    ("cut_s", "sender", "by"), [(1, "", "robot"), (10, "", "desk"), (3, "desk", "desk"), (3, "robot", "robot")]
)
def test_a_network_that_is_cut_is_a_missing_command(pair: Pair, cut_s: float, sender: str, by: str) -> None:
    pair.network.set(**BAD)
    robot, desk = active(pair)
    with robot.watch() as watch:
        began = time.monotonic_ns()
        pair.network.set(sender, cut=True)
        fault = safe_at(watch, began)
        time.sleep(max(began / 1e9 + cut_s - time.monotonic(), 0))
        pair.network.set(cut=False)
        time.sleep(2)
        assert all(each.reasons for each in watch.of(Applied, fault.mono))  # no command has acted as it is
        driven_again(robot if by == "robot" else desk, watch)
    desk.stop()
    robot.stop()


def test_what_is_asked_while_the_network_is_cut_is_not_done_later(pair: Pair) -> None:
    robot, desk = active(pair)
    with robot.watch() as watch:
        began = time.monotonic_ns()
        pair.network.set(cut=True)
        with pytest.raises(TimeoutError):
            desk.ask("disarm", within_s=0.3)
        safe_at(watch, began)
        with suppress(TimeoutError):  # later it is told at once
            assert desk.ask("reset", within_s=0.3)["error"]
        time.sleep(2)
        assert "does not answer" in desk.ask("reset")["error"]
        pair.network.set(cut=False)
        assert settled(desk, "fault")
        time.sleep(2)
        assert robot.ask("status")["lifecycle"] == "fault"
        driven_again(desk, watch)
    desk.stop()
    robot.stop()


def test_a_desk_whose_processes_are_killed_leaves_the_plant_safe_and_may_come_back(pair: Pair) -> None:
    robot, desk = active(pair)
    with robot.watch() as watch:
        began = time.monotonic_ns()
        for pid in desk.left_over():
            signalled(pid, signal.SIGKILL)
        safe_at(watch, began)
        assert desk.popen.wait(SOON_S)
        again = desk_part(pair)
        again.wait_open()
        assert robot.ask("status")["lifecycle"] == "fault"
        driven_again(again, watch)
    again.stop()
    robot.stop()


def test_a_desk_that_is_switched_off_leaves_the_plant_safe(pair: Pair) -> None:
    robot, _ = active(pair)
    with robot.watch() as watch:
        began = time.monotonic_ns()
        pair.kill(pair.desk)
        safe_at(watch, began)
    robot.stop()


def test_a_robot_that_is_switched_off_is_told_at_the_desk(pair: Pair) -> None:
    _, desk = active(pair)
    pair.kill(pair.robot)
    assert eventually(lambda: "nothing has come from the other computer" in desk.stderr)
    assert "does not answer" in desk.ask("status")["error"]
    desk.stop()


def test_another_launch_file_is_refused_with_the_difference_and_the_right_one_is_waited_for(pair: Pair) -> None:
    robot = robot_part(pair)
    time.sleep(5)
    assert not robot.is_open()
    other = desk_part(pair, "plant.step=0.002")
    assert other.popen.wait(START_S) == 2
    assert "[plant] step is 0.002 here and 0.001 there" in other.stderr
    assert robot.popen.poll() is None
    desk = desk_part(pair)
    desk.wait_open()
    assert settled(robot, "active", START_S)
    desk.stop()
    robot.stop()


def test_a_robot_that_is_late_is_waited_for(pair: Pair) -> None:
    desk = desk_part(pair)
    time.sleep(5)
    assert not desk.is_open()
    robot = robot_part(pair)
    robot.wait_open()
    assert settled(robot, "active", START_S)
    desk.stop()
    robot.stop()


def test_a_key_has_the_rights_of_its_roles_alone(pair: Pair) -> None:
    public = pair.desk.keys.folder / "desk.key"
    pair.robot.keys.trust(public, ["operate"])
    robot, refused = robot_part(pair), desk_part(pair)
    assert refused.popen.wait(START_S) == 2
    assert "key 'desk' is not trusted as controller by the computer that refuses" in refused.stderr
    pair.robot.keys.trust(public, ["controller"])
    desk = desk_part(pair)
    desk.wait_open()
    assert settled(robot, "active", START_S)
    assert "estop is refused: key 'desk' is not trusted as operate" in str(desk.ask("estop"))
    time.sleep(0.5)
    assert robot.ask("status")["lifecycle"] == "active"
    assert robot.ask("status", "relay")["counts"]["role_of_key_desk"] >= 1
    desk.stop()
    robot.stop()


def test_a_desk_whose_key_nobody_knows_does_not_take_part(pair: Pair) -> None:
    pair.robot.keys.revoke("desk")
    robot, desk = robot_part(pair), desk_part(pair)
    assert eventually(lambda: relay_counts(robot).get("unknown_key"), START_S), relay_counts(robot)
    assert not robot.is_open()
    assert not desk.is_open()
    desk.stop()
    robot.stop()


def relay_counts(run: RunThere) -> dict[str, int]:
    with suppress(TimeoutError):
        found: dict[str, int] = run.ask("status", "relay")["counts"]
        return found
    return {}


def columns(file: Path) -> dict[str, Any]:
    """All that a run has recorded, by name, as its file has it: seventeen digits."""
    header, *rows = (line.split(",") for line in file.read_text().splitlines())
    return dict(zip(header, zip(*rows, strict=True), strict=True))
