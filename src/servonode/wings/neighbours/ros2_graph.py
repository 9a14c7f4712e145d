"""A participant in a graph of ROS 2, by Cyclone DDS and without ROS: publishers, subscriptions, services.

Topics are reliable, volatile, keep last 1, as those of ROS 2 are unless somebody states otherwise. A reliable writer
meets readers of both kinds, so that tf2 and RViz find it; none can make it wait. Of what is received the newest wins.

Its types have the names and the bytes of ROS 2's own middleware, rmw_cyclonedds.
A type `sensor_msgs/msg/JointState` is called `sensor_msgs::msg::dds_::JointState_`, a topic `/joint_states` is
`rt/joint_states`. A service is two topics, `rq/NAMERequest` and `rr/NAMEReply`; their samples begin with the client
and the number of its request. Bytes are XCDR1, the only representation that ROS 2 has.
"""

import ctypes
import math
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from cyclonedds.core import DDSException, Policy, Qos, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, make_idl_struct
from cyclonedds.idl import types as idl
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore

from servonode.wings.neighbours.bridged import NoGraph

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
            self._made[name] = struct_type(name, {field: self._of(node) for field, node in self._fields[name].items()})
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


def struct_type(name: str, fields: Mapping[str, Any]) -> type[IdlStruct]:
    """A type of these fields under the name that ROS 2 gives it on DDS."""
    package, kind, plain = name.split("/")
    made: type[IdlStruct] = make_idl_struct(plain, f"{package}::{kind}::dds_::{plain}_", dict(fields or EMPTY))
    return made


def service_types(name: str, request: Mapping[str, Any], reply: Mapping[str, Any]) -> tuple[type[IdlStruct], ...]:
    """The types of a service's two topics, request and reply; name: as std_srvs/srv/Trigger."""
    parts = {"Request": request, "Response": reply}
    return tuple(struct_type(f"{name}_{part}", {**HEADER, **(fields or EMPTY)}) for part, fields in parts.items())


def topic_name(name: str) -> str:
    """The name on DDS of a topic such as /joint_states."""
    return f"rt{name}"


def service_names(name: str) -> tuple[str, str]:
    """The names on DDS of the topics of a service such as /servonode/stop: requests, replies."""
    return f"rq{name}Request", f"rr{name}Reply"


# what ROS 2 makes of ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST; its sockets would take what comes from elsewhere
LOCALHOST = (
    "<CycloneDDS><Domain><General><AllowMulticast>false</AllowMulticast></General><Discovery>"
    "<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>"
    '<Peers><Peer address="localhost"/></Peers></Discovery></Domain></CycloneDDS>'
)
XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
TOPIC = Qos(Policy.Reliability.Reliable(0), Policy.Durability.Volatile, Policy.History.KeepLast(1), XCDR1)
SERVED = Qos(Policy.Reliability.Reliable(0), Policy.Durability.Volatile, Policy.History.KeepLast(10), XCDR1)
# of Linux: the option that has a socket filter what it receives; load, compare, return; the number of the device
ATTACH_FILTER, LOAD, EQUAL, RETURN, DEVICE = 26, 0x20, 0x15, 0x06, 0xFFFFF008
REPLY_S, LOOK_S = 0.1, 0.005  # s for which a reply waits until its reader is known, and between two looks


class Ros2Node:
    """One participant with its writers and readers. domain: as ROS_DOMAIN_ID. network: whether others may reach it.

    Raises:
        NoGraph: Cyclone DDS refuses.
    """

    def __init__(self, domain: int, network: bool = False) -> None:
        self.types = Ros2Types(get_typestore(Stores.ROS2_HUMBLE))
        self._writers: dict[str, DataWriter[IdlStruct]] = {}
        before = set(sockets())
        try:
            self._domain = None if network else Domain(domain, LOCALHOST)
            self.participant = DomainParticipant(domain)
        except DDSException as error:
            remedy = "check CYCLONEDDS_URI and the network" if network else "at most 33 may use it on one computer"
            raise NoGraph(f"ROS 2 domain {domain} cannot be joined: {error.msg or error}; {remedy}") from None
        if not network:
            keep_to_loopback(before)

    def publish(self, topic: str, name: str, values: Mapping[str, Any]) -> None:
        """Publish a message of this type, as std_msgs/msg/Float64; it is dropped where it cannot be sent at once."""
        if topic not in self._writers:
            described = Topic(self.participant, topic_name(topic), self.types.of(name))
            self._writers[topic] = DataWriter(self.participant, described, TOPIC)
        self._write(self._writers[topic], self.types.sample(name, values))

    def subscription(self, topic: str, name: str) -> "Subscription":
        """The newest messages of this type on a topic."""
        described = Topic(self.participant, topic_name(topic), self.types.of(name))
        return Subscription(DataReader(self.participant, described, TOPIC))

    def service(
        self, name: str, kind: str, reply: Mapping[str, Any], answer: Callable[[float], tuple[Any, ...]]
    ) -> "Service":
        """A service whose requests are empty. reply: the fields of its replies, whose values `answer` gives."""
        names, kinds = service_names(name), service_types(kind, {}, reply)
        asked, told = (Topic(self.participant, *each) for each in zip(names, kinds, strict=True))
        reader, writer = DataReader(self.participant, asked, SERVED), DataWriter(self.participant, told, SERVED)
        return Service(self.participant, reader, writer, answer)

    @staticmethod
    def _write(writer: DataWriter[IdlStruct], sample: IdlStruct) -> None:
        try:
            writer.write(sample)
        except DDSException as error:
            if error.code != DDSException.DDS_RETCODE_TIMEOUT:
                raise


class Subscription:
    """What has come on a topic."""

    def __init__(self, reader: DataReader[IdlStruct]) -> None:
        self._reader = reader

    def newest(self) -> Any:
        """The newest message that was not given before, None without one.

        Raises:
            UnicodeDecodeError: a text in it is not UTF-8.
        """
        taken = [each for each in self._reader.take(1) if each.sample_info.valid_data]
        return taken[-1] if taken else None


class Service:
    """Answers the requests of a service: those that come during an answer all have the next one.

    answer: gets the monotonic time [s] at which the newest of them came where they have waited, else infinity.
    """

    def __init__(
        self,
        participant: DomainParticipant,
        reader: DataReader[IdlStruct],
        writer: DataWriter[IdlStruct],
        answer: Callable[[float], tuple[Any, ...]],
    ) -> None:
        self._came: SimpleQueue[tuple[float, Any]] = SimpleQueue()
        self._reader, self._writer, self._answer = reader, writer, answer
        self._waiting = WaitSet(participant)
        self._waiting.attach(ReadCondition(reader, ViewState.Any | SampleState.NotRead))

    def receive(self, timeout_s: float) -> None:
        """Wait for requests for so long, and note when each has come, also while another one is answered."""
        self._waiting.wait(duration(seconds=timeout_s))
        for request in self._reader.take(10):
            if request.sample_info.valid_data:
                self._came.put((time.monotonic(), request))

    def serve(self, timeout_s: float) -> None:
        """Wait for requests for so long, and answer those that have come."""
        waited = not self._came.empty()
        with suppress(Empty):
            came = [self._came.get(timeout=timeout_s)]
            while not self._came.empty():
                came.append(self._came.get())
            values, limit = self._answer(came[-1][0] if waited else math.inf), time.monotonic() + REPLY_S
            for _, request in came:
                self._wait_for_reader(request.sample_info.publication_handle, limit)
                Ros2Node._write(self._writer, self._writer.data_type(request.guid, request.seq, *values))

    def _wait_for_reader(self, publication: int, limit: float) -> None:
        """Wait a little until the reader of whoever has asked is known: a reply before that would not reach it."""
        asking = self._reader.get_matched_publication_data(publication)
        while asking is not None and time.monotonic() < limit:
            matched = map(self._writer.get_matched_subscription_data, self._writer.get_matched_subscriptions())
            if any(each is not None and each.participant_key == asking.participant_key for each in matched):
                return
            time.sleep(LOOK_S)


def sockets() -> dict[str, int]:
    """The descriptors of this process's sockets, by what tells one socket from all others."""
    found = {}
    for each in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the descriptor by which the list was read
            if stat.S_ISSOCK((status := os.fstat(int(each.name))).st_mode):
                found[f"{status.st_dev}:{status.st_ino}"] = int(each.name)
    return found


def keep_to_loopback(before: Collection[str]) -> None:
    """Have the sockets that are new drop what has not come by the loopback: those of Cyclone DDS take anything.

    Raises:
        NoGraph: the system does not do that.
    """
    loopback = socket.if_nametoindex("lo") if sys.platform == "linux" else 0
    steps = ((LOAD, 0, 0, DEVICE), (EQUAL, 0, 1, loopback), (RETURN, 0, 0, 0xFFFFFFFF), (RETURN, 0, 0, 0))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps), ctypes.addressof(code))
    for number in [number for name, number in sockets().items() if name not in before]:
        with socket.socket(fileno=os.dup(number)) as each:
            if each.family in (socket.AF_INET, socket.AF_INET6):
                try:
                    each.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)
                except OSError as error:
                    text = f"this system does not keep ROS 2 on this computer ({error}); use Linux, or --network"
                    raise NoGraph(text) from None
