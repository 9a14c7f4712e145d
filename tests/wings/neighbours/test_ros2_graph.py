"""A participant of ROS 2's graph and the stop that it offers, without a second participant."""

import math
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.extras import neighbour


def test_requests_that_came_during_an_answer_all_have_the_next_one_with_the_time_of_the_newest() -> None:
    neighbour("cyclonedds")
    neighbour("rosbags")
    from servonode.wings.neighbours.ros2_graph import Service

    seen: list[float] = []
    written: list[tuple[Any, ...]] = []
    reader = SimpleNamespace(get_matched_publication_data=lambda _: None)
    writer = SimpleNamespace(data_type=lambda *values: values, write=written.append)
    service = Service.__new__(Service)
    service._reader, service._writer, service._came = reader, writer, SimpleQueue()  # type: ignore[assignment]
    service._answer = lambda came: (seen.append(came), len(seen))
    for number in range(5):
        request = SimpleNamespace(guid=b"", seq=number, sample_info=SimpleNamespace(publication_handle=0))
        service._came.put((float(number), request))
    for _ in range(2):
        service.serve(0.01)
    assert seen == [4.0]
    assert written == [(b"", number, None, 1) for number in range(5)]


def test_a_domain_that_cannot_be_joined_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    neighbour("cyclonedds")
    neighbour("rosbags")
    from servonode.wings.neighbours.ros2_graph import NoGraph, Ros2Node

    monkeypatch.setenv("CYCLONEDDS_URI", "<CycloneDDS><Domain><General><Nonsense/></General></Domain></CycloneDDS>")
    with pytest.raises(NoGraph, match=r"ROS 2 domain 100 cannot be joined: .*; check CYCLONEDDS_URI and the network"):
        Ros2Node(100, network=True)


def test_a_stop_that_had_certainly_come_before_the_reset_does_not_stop_the_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    neighbour("cyclonedds")
    neighbour("rosbags")
    from servonode.wings.neighbours import ros2_bridge

    bridge = ros2_bridge.Ros2Bridge.__new__(ros2_bridge.Ros2Bridge)
    bridge._source, bridge._folder = SimpleNamespace(name="teleop"), "/teleop"  # type: ignore[assignment]
    monkeypatch.setattr(ros2_bridge, "reset_since", lambda _, came: came < 5.0)
    monkeypatch.setattr(ros2_bridge, "stop_run", lambda *_: (True, "teleop: fault"))
    again = "teleop: not stopped again, since reset --estop came after this request"
    assert bridge._stopped(4.0) == (False, again)
    assert [bridge._stopped(came) for came in (6.0, math.inf)] == [(True, "teleop: fault")] * 2


def test_a_stop_after_the_end_of_its_run_says_so(tmp_path: Path) -> None:
    from servonode.wings.neighbours.bridged import stop_run

    assert stop_run(str(tmp_path / "gone"), "/stop") == (False, "the run has ended")
