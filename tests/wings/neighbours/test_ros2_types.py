"""Types of ROS 2 on DDS: names, and bytes against the codec of rosbags."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.extras import neighbour

USED = (
    "diagnostic_msgs/msg/DiagnosticArray", "geometry_msgs/msg/PointStamped", "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/Twist", "nav_msgs/msg/Odometry", "sensor_msgs/msg/JointState", "std_msgs/msg/Float64",
    "tf2_msgs/msg/TFMessage",
)  # fmt: skip
RANDOM = {
    "string": lambda rng: "".join(rng.choice([*"abcdeµ"], rng.integers(9))),
    "bool": lambda rng: bool(rng.integers(2)),
}


def random_values(store: Any, node: Any, rng: np.random.Generator) -> Any:
    """A value of a node of a definition: messages as mappings, everything else as it is."""
    kind, what = node
    if kind.name == "NAME":
        return {field: random_values(store, each, rng) for field, each in store.fielddefs[what][1]}
    if kind.name == "BASE":
        name = what[0]
        if name.startswith("float"):
            return float(rng.choice([rng.normal(), 1e300, np.nan, -0.0]))
        return RANDOM[name](rng) if name in RANDOM else int(rng.integers(1 << 7))
    count = what[1] if kind.name == "ARRAY" else rng.integers(4)
    return [random_values(store, what[0], rng) for _ in range(count)]


def rosbags_message(store: Any, name: str, values: Any) -> Any:
    """The message of these values as rosbags has it."""

    def made(node: Any, value: Any) -> Any:
        kind, what = node
        if kind.name == "NAME":
            return rosbags_message(store, what, value)
        if kind.name == "BASE":
            return value
        inner = [made(what[0], each) for each in value]
        number = what[0][0].name == "BASE" and what[0][1][0] != "string"
        return np.array(inner, dtype=what[0][1][0]) if number else inner

    return store.types[name](**{field: made(node, values[field]) for field, node in store.fielddefs[name][1]})


@pytest.mark.parametrize("name", USED)
def test_a_message_has_the_bytes_of_ros_2(name: str, rng: np.random.Generator) -> None:
    neighbour("cyclonedds")
    neighbour("rosbags")
    from rosbags.interfaces import Nodetype
    from rosbags.typesys import Stores, get_typestore

    from servonode.wings.neighbours.ros2_graph import Ros2Types

    store = get_typestore(Stores.ROS2_HUMBLE)
    types = Ros2Types(store)
    for _ in range(50):
        values = random_values(store, (Nodetype.NAME, name), rng)
        written = types.sample(name, values).serialize(use_version_2=False)
        assert written == bytes(store.serialize_cdr(rosbags_message(store, name, values), name))
        assert types.of(name).deserialize(written).serialize(use_version_2=False) == written


def test_types_topics_and_services_have_the_names_of_ros_2() -> None:
    neighbour("cyclonedds")
    neighbour("rosbags")
    from rosbags.typesys import Stores, get_typestore

    from servonode.wings.neighbours.ros2_graph import Ros2Types, service_names, service_types, topic_name

    types = Ros2Types(get_typestore(Stores.ROS2_HUMBLE))
    assert types.of("sensor_msgs/msg/JointState").__idl_typename__ == "sensor_msgs::msg::dds_::JointState_"
    assert types.of("sensor_msgs/msg/JointState") is types.of("sensor_msgs/msg/JointState")
    assert topic_name("/joint_states") == "rt/joint_states"
    assert service_names("/servonode/stop") == ("rq/servonode/stopRequest", "rr/servonode/stopReply")
    request, reply = service_types("std_srvs/srv/Trigger", {}, {"success": bool, "message": str})
    assert request.__idl_typename__ == "std_srvs::srv::dds_::Trigger_Request_"
    assert reply.__idl_typename__ == "std_srvs::srv::dds_::Trigger_Response_"
    header = b"\0\1\0\0" + (7).to_bytes(8, "little") + (1).to_bytes(8, "little")
    assert request(7, 1, 0).serialize(use_version_2=False) == header + b"\0"
    assert reply(7, 1, True, "ok").serialize(use_version_2=False) == header + b"\1\0\0\0\3\0\0\0ok\0"
