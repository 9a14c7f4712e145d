"""Whether another computer reaches a participant of ROS 2's graph: only where the network is asked for."""

from pathlib import Path

import pytest

from tests.helpers.computers import HOUR_S, two_computers
from tests.helpers.extras import neighbour

PEER = (
    "<CycloneDDS><Domain><General><AllowMulticast>false</AllowMulticast></General><Discovery>"
    "<ParticipantIndex>auto</ParticipantIndex>"
    '<Peers><Peer address="{}"/></Peers></Discovery></Domain></CycloneDDS>'
)
TALK = """
import os, sys, time
os.environ["CYCLONEDDS_URI"] = sys.argv[1]
from servonode.wings.neighbours.ros2_graph import Ros2Node
node, still = Ros2Node(5, network=True), {"x": 0.0, "y": 0.0, "z": 0.0}
while True:
    node.publish("/cmd_vel", "geometry_msgs/msg/Twist", {"linear": still, "angular": still})
    time.sleep(0.05)
"""
LISTEN = """
import json, os, sys, time
os.environ["CYCLONEDDS_URI"] = sys.argv[1]
from servonode.wings.neighbours.ros2_graph import Ros2Node
node = Ros2Node(5, network=sys.argv[2] == "network")
taken = node.subscription("/cmd_vel", "geometry_msgs/msg/Twist")
limit = time.monotonic() + float(sys.argv[3])
while (found := taken.newest()) is None and time.monotonic() < limit:
    time.sleep(0.01)
print(json.dumps(found is not None))
"""


@pytest.mark.parametrize(("where", "seconds", "expected"), [("network", 60.0, True), ("here", 20.0, False)])
def test_another_computer_gives_goals_only_where_the_network_is_asked_for(
    tmp_path: Path, where: str, seconds: float, expected: bool
) -> None:
    neighbour("cyclonedds")
    neighbour("rosbags")
    with two_computers(tmp_path, 0, HOUR_S) as pair:
        peers = [PEER.format(each.address) for each in (pair.robot, pair.desk)]
        with pair.desk.started("python", "-c", TALK, peers[0]):
            assert pair.robot.python(LISTEN, peers[1], where, str(seconds)) is expected
