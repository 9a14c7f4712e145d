"""ROS 2's messages as types of Cyclone DDS, with the names and the bytes of ROS 2's own middleware, rmw_cyclonedds.

A type `sensor_msgs/msg/JointState` is called `sensor_msgs::msg::dds_::JointState_`, a topic `/joint_states` is
`rt/joint_states`. A service is two topics, `rq/NAMERequest` and `rr/NAMEReply`; their samples begin with the client
and the number of its request. Bytes are XCDR1, the only representation that ROS 2 has.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cyclonedds.idl import IdlStruct, make_idl_struct
from cyclonedds.idl import types as idl
from rosbags.interfaces import Nodetype

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore

SIZED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
BASES = {"bool": bool, "string": str, "byte": idl.uint8, "char": idl.uint8} | {
    each: getattr(idl, each) for each in SIZED
}
HEADER = {"guid": idl.uint64, "seq": idl.int64}  # of a service's samples: the client, and the number of its request
EMPTY = {"structure_needs_at_least_one_member": idl.uint8}


class Ros2Types:
    """Makes the types of the messages in a typestore of rosbags, each once."""

    def __init__(self, store: "Typestore") -> None:
        self._fields = {name: dict(fields) for name, (_, fields) in store.fielddefs.items()}
        self._made: dict[str, type[IdlStruct]] = {}

    def of(self, name: str) -> type[IdlStruct]:
        """The type of a message, as sensor_msgs/msg/JointState."""
        if name not in self._made:
            self._made[name] = struct(name, {field: self._of(node) for field, node in self._fields[name].items()})
        return self._made[name]

    def sample(self, name: str, values: Mapping[str, Any]) -> IdlStruct:
        """A message with these values: all fields, messages within it as mappings, lists as sequences."""
        fields = self._fields[name]
        return self.of(name)(**{field: self._filled(node, values[field]) for field, node in fields.items()})

    def _of(self, node: Any) -> Any:
        kind, what = node
        if kind is Nodetype.NAME:
            return self.of(what)
        inner, size = what
        if kind is Nodetype.BASE:
            return idl.bounded_str[size] if size else BASES[inner]
        if kind is Nodetype.ARRAY:
            return idl.array[self._of(inner), size]
        return idl.sequence[self._of(inner), size] if size else idl.sequence[self._of(inner)]

    def _filled(self, node: Any, value: Any) -> Any:
        kind, what = node
        if kind is Nodetype.NAME:
            return self.sample(what, value)
        if kind is Nodetype.BASE:
            return value
        return [self._filled(what[0], each) for each in value]


def struct(name: str, fields: Mapping[str, Any]) -> type[IdlStruct]:
    """A type of these fields under the name that ROS 2 gives it on DDS."""
    package, kind, plain = name.split("/")
    made: type[IdlStruct] = make_idl_struct(plain, f"{package}::{kind}::dds_::{plain}_", dict(fields or EMPTY))
    return made


def service_types(name: str, request: Mapping[str, Any], reply: Mapping[str, Any]) -> tuple[type[IdlStruct], ...]:
    """The types of a service's two topics, request and reply; name: as std_srvs/srv/Trigger."""
    parts = {"Request": request, "Response": reply}
    return tuple(struct(f"{name}_{part}", {**HEADER, **(fields or EMPTY)}) for part, fields in parts.items())


def topic_name(name: str) -> str:
    """The name on DDS of a topic such as /joint_states."""
    return f"rt{name}"


def service_names(name: str) -> tuple[str, str]:
    """The names on DDS of the topics of a service such as /servonode/stop: requests, replies."""
    return f"rq{name}Request", f"rr{name}Reply"
