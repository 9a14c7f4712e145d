"""A recording as ROS 2 keeps them: MCAP with messages in CDR, and the definitions of their types."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from servonode.neighbours.libraries import library
from servonode.neighbours.moments import Layout, Moment
from servonode.neighbours.ros2_messages import messages
from servonode.record.files import new_file
from servonode.version import VERSION

ARRAYS = {"float64": np.float64}


class Types:
    """The types of ROS 2, as the library rosbags has their definitions."""

    def __init__(self) -> None:
        typesys = library("rosbags.typesys")
        self._store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
        self._kinds = library("rosbags.interfaces").Nodetype

    def definition(self, name: str) -> bytes:
        """The .msg text of a type, with those of the types in it."""
        text: str = self._store.generate_msgdef(name, ros_version=2)[0]
        return text.encode()

    def serialized(self, name: str, values: dict[str, Any]) -> bytes:
        """A message in CDR."""
        return bytes(self._store.serialize_cdr(self._made(name, values), name))

    def _made(self, name: str, values: dict[str, Any]) -> Any:
        """The message of nested values, which give each of its fields."""
        fields = {field: self._field(kind, values[field]) for field, kind in self._store.fielddefs[name][1]}
        return self._store.types[name](**fields)

    def _field(self, kind: Any, value: Any) -> Any:
        word, inner = kind
        if word == self._kinds.NAME:
            return self._made(inner, value)
        if word == self._kinds.BASE:
            return value
        each = inner[0]
        if each[0] == self._kinds.BASE and each[1][0] in ARRAYS:
            return np.array(value, ARRAYS[each[1][0]])
        return [self._field(each, one) for one in value]


def write_ros2_bag(layout: Layout, moments: Iterable[Moment], file: Path) -> int:
    """Write the messages of moments to a new file; how many there are.

    Raises:
        NotInstalled: rosbags is missing; OSError: the file cannot be written.
    """
    from mcap.writer import Writer

    types, channels, count = Types(), dict[str, int](), 0
    with new_file(file) as stream:
        writer = Writer(stream)
        writer.start(profile="ros2", library=f"servonode {VERSION}")
        before = None
        for moment in moments:
            for topic, name, values in messages(layout, moment, before):
                if topic not in channels:
                    schema = writer.register_schema(name, "ros2msg", types.definition(name))
                    channels[topic] = writer.register_channel(topic, "cdr", schema)
                data = types.serialized(name, values)
                writer.add_message(channels[topic], moment.stamp_ns, data, moment.stamp_ns)
                count += 1
            before = moment
        writer.finish()
    return count
