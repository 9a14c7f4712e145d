"""A participant of ROS 2's graph beside a second one, in a process that has only the texts of the types."""

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.extras import neighbour
from tests.helpers.ros2_peer import Peer, free_domain

HEADER = {"stamp": {"sec": 12, "nanosec": 345}, "frame_id": "world"}

JOINTS = {
    "header": HEADER,
    "name": ["a", "béta"],
    "position": [0.1, -2.0],
    "velocity": [1e-300, 3.0],
    "effort": [4.0, math.inf],
}

POINT = {"header": HEADER, "point": {"x": 1.0, "y": -2.0, "z": 0.5}}


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    neighbour("cyclonedds")
    neighbour("rosbags")
    with Peer(free_domain()) as peer:
        yield peer


@pytest.fixture(scope="module")
def node(peer: Peer) -> Any:
    from servonode.wings.neighbours.ros2_graph import Ros2Node

    assert peer.popen.poll() is None
    return Ros2Node(free_domain())


def test_what_is_published_is_what_the_other_one_receives(node: Any, peer: Peer) -> None:
    peer.ask("take", "/joint_states", "sensor_msgs/msg/JointState")
    received: list[Any] = []
    listening = threading.Thread(target=lambda: received.append(peer.next("/joint_states")))
    listening.start()
    while listening.is_alive():
        node.publish("/joint_states", "sensor_msgs/msg/JointState", JOINTS)
        time.sleep(0.01)
    assert received == [JOINTS]


def test_the_newest_message_of_the_other_one_is_given_once(node: Any, peer: Peer) -> None:
    taken = node.subscription("/clicked_point", "geometry_msgs/msg/PointStamped")
    assert taken.newest() is None
    for x in (1.0, 2.0, 3.0):
        peer.ask(
            "give", "/clicked_point", "geometry_msgs/msg/PointStamped", POINT | {"point": POINT["point"] | {"x": x}}
        )
    found = _first(taken)
    while found.point.x < 3.0:
        found = _first(taken)
    assert (found.point.x, found.point.y, found.point.z, found.header.frame_id) == (3.0, -2.0, 0.5, "world")
    assert taken.newest() is None


def test_a_service_answers_each_request_with_its_number(node: Any, peer: Peer) -> None:
    answers, kind = iter([(True, "stopped: µ"), (False, "not confirmed")]), "std_srvs/srv/Trigger"
    waited: list[float] = []
    service = node.service(
        "/servonode/stop", kind, {"success": bool, "message": str}, lambda came: [waited.append(came), next(answers)][1]
    )
    threads = [
        threading.Thread(target=lambda work=work: [work(0.05) for _ in iter(answers.__length_hint__, 0)])
        for work in (service.receive, service.serve)
    ]
    for each in threads:
        each.start()
    peer.ask("call", "/servonode/stop")
    xcdr1 = [0, 1, 0, 0]
    first = {"representation": xcdr1, "number": 1, "success": True, "message": "stopped: µ"}
    assert peer.next("/servonode/stop") == first
    peer.ask("call", "/servonode/stop")
    assert peer.next("/servonode/stop") == first | {"number": 2, "success": False, "message": "not confirmed"}
    for each in threads:
        each.join()
    assert waited == [math.inf, math.inf]


def _first(taken: Any, within_s: float = 30.0) -> Any:
    limit = time.monotonic() + within_s
    while (message := taken.newest()) is None:
        assert time.monotonic() < limit, f"nothing came within {within_s:g} s"
        time.sleep(0.001)
    return message
