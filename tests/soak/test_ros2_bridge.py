"""`servonode bridge ros2` beside a run, with a second participant that knows types by their texts alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.extras import neighbour
from tests.helpers.ros2_peer import Peer, free_domain
from tests.helpers.runs import END_S, START_S, Process, Runs, eventually, operator, private_runs

TELEOP = Path(__file__).parents[2] / "examples" / "goals" / "teleop.toml"

FORGIVING = ("plant.safety.command_timeout=2", "run.duration=600")

STILL = {"x": 0.0, "y": 0.0, "z": 0.0}

DRIVE = {"linear": STILL | {"x": 0.2}, "angular": STILL | {"z": 0.1}}

AHEAD = {"header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": ""}, "point": STILL}

TWIST = "geometry_msgs/msg/Twist"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    neighbour("cyclonedds")
    neighbour("rosbags")
    with private_runs(tmp_path_factory.mktemp("runs")) as runs:
        yield runs


@pytest.fixture
def driven(runs: Runs) -> Process:
    """A run that takes a speed and a yaw rate."""
    run = runs.start(str(TELEOP), *FORGIVING)
    run.wait_open()
    assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
    return run


class Bridge:
    """The process of a bridge, and what it says."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._said = folder / "said"
        command = [sys.executable, "-m", "servonode.cli.main", "bridge", "ros2", *words]
        with self._said.open("w") as said:
            environment = {**os.environ, "ROS_DOMAIN_ID": str(free_domain())}
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=said, env=environment)

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_said(self, text: str, within_s: float = START_S) -> None:
        assert eventually(lambda: text in self.said or self.popen.poll() is not None, within_s), self.said
        assert text in self.said

    def ends_with(self, code: int) -> None:
        assert self.popen.wait(END_S) == code, self.said


@contextmanager
def bridged(folder: Path, run: Process) -> Iterator[tuple[Bridge, Peer]]:
    """A bridge on this run, and the other participant."""
    bridge = Bridge(folder, run.name)
    try:
        bridge.wait_said("is on ROS 2")
        with Peer(free_domain()) as peer:
            yield bridge, peer
    finally:
        bridge.popen.kill()
        bridge.popen.wait()


def test_a_run_is_seen_driven_and_stopped_from_ros_2(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, peer):
        said = (
            f"servonode: {driven.name} is on ROS 2; goals: /cmd_vel gives v, omega; emergency stop: /servonode/stop\n"
        )
        assert bridge.said == said
        for topic, kind in (("/joint_states", "sensor_msgs/msg/JointState"), ("/odom", "nav_msgs/msg/Odometry"),
                            ("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")):  # fmt: skip
            peer.ask("take", topic, kind)
        found = {topic: peer.next(topic) for topic in ("/joint_states", "/odom", "/diagnostics")}
        assert found["/joint_states"]["name"] == ["X", "Y", "psi", "phi", "theta1", "theta2"]
        assert abs(found["/odom"]["header"]["stamp"]["sec"] - time.time_ns() / 1e9) < START_S
        assert found["/odom"]["twist"]["twist"]["linear"]["x"] == pytest.approx(0.0, abs=1e-6)
        assert found["/diagnostics"]["status"][0]["values"][0] == {"key": "lifecycle", "value": "active"}
        assert eventually(lambda: _drives(peer), START_S), bridge.said
        _refused(bridge, peer)
        peer.ask("call", "/servonode/stop")
        reply = peer.next("/servonode/stop")
        assert (reply["success"], reply["message"]) == (True, f"{driven.name}: fault"), bridge.said
        assert driven.ask("status")["lifecycle"] == "fault"
        bridge.popen.send_signal(signal.SIGINT)
        bridge.ends_with(130)
        assert driven.popen.poll() is None


def _drives(peer: Peer) -> bool:
    """Whether the run moves ahead, once it is asked to again."""
    peer.ask("give", "/cmd_vel", TWIST, DRIVE)
    peer.forget()
    return bool(peer.next("/odom")["twist"]["twist"]["linear"]["x"] > 0.05)


def _refused(bridge: Bridge, peer: Peer) -> None:
    """What the run cannot follow is one line each; a flood of it is a line a second at most."""
    nowhere = DRIVE | {"linear": STILL | {"y": 1.0}}
    for values, said in (
        (nowhere, "no goal from /cmd_vel: linear.y = 1, for which this run has no target; give 0"),
        (DRIVE | {"linear": STILL | {"x": 9.0}}, "no goal from /cmd_vel: v = 9 is beyond its range"),
        (DRIVE | {"linear": STILL | {"x": float("nan")}}, "no goal from /cmd_vel: v = nan is not a finite number"),
    ):
        _until_said(bridge, peer, said, "/cmd_vel", TWIST, values)
    point = "no goal from /clicked_point: this run takes a place from nobody; give targets x, y of its launch file a"
    _until_said(bridge, peer, point, "/clicked_point", "geometry_msgs/msg/PointStamped", AHEAD)
    before, began = bridge.said.count("linear.y"), time.monotonic()
    peer.ask("flood", "/cmd_vel", TWIST, nowhere, 2.0)
    peer.ask("give", "/clicked_point", "geometry_msgs/msg/PointStamped", AHEAD)
    assert eventually(lambda: bridge.said.count(point) > 1, START_S)
    assert bridge.said.count("linear.y") - before <= 1 + (time.monotonic() - began)
    assert "Traceback" not in bridge.said


def _until_said(bridge: Bridge, peer: Peer, said: str, *message: Any) -> None:
    def again() -> bool:
        peer.ask("give", *message)
        time.sleep(0.1)
        return said in bridge.said

    assert eventually(again, START_S), bridge.said


def test_a_bridge_ends_with_its_run(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, _):
        driven.popen.send_signal(signal.SIGINT)
        bridge.ends_with(0)
    driven.ends_with(130)


def test_a_bridge_that_is_killed_leaves_the_run_as_it_is(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, _):
        bridge.popen.kill()
        bridge.popen.wait()
        t = driven.ask("status")["t"]
        assert eventually(lambda: driven.ask("status")["t"] > t + 1.0)
        assert driven.ask("status")["lifecycle"] == "active"


@pytest.mark.parametrize(("words", "said"), [
    (("nowhere",), "no run named 'nowhere' is in progress"),
    (("--domain", "233"), "233 is not in the range 0<=x<=232"),
])  # fmt: skip
def test_a_bridge_to_nothing_is_one_line(runs: Runs, words: Any, said: str) -> None:
    assert runs.runtime.is_dir()
    done = operator("bridge", "ros2", *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert said in done.stderr


def test_a_client_that_never_reads_holds_up_neither_bridge_nor_run(driven: Process, tmp_path: Path) -> None:
    with bridged(tmp_path, driven) as (bridge, peer):
        for each in ("/tf", "/joint_states"):
            peer.ask("take", each, {"/tf": "tf2_msgs/msg/TFMessage"}.get(each, "sensor_msgs/msg/JointState"))
            peer.next(each)
        peer.popen.send_signal(signal.SIGSTOP)
        with Peer(free_domain()) as other:
            other.ask("take", "/joint_states", "sensor_msgs/msg/JointState")
            stamps = [other.next("/joint_states")["header"]["stamp"] for _ in range(200)]
        assert stamps == sorted(stamps, key=lambda stamp: (stamp["sec"], stamp["nanosec"]))
        assert bridge.popen.poll() is None
        assert driven.ask("status")["lifecycle"] == "active"
