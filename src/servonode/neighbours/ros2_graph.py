"""A participant in a graph of ROS 2, by Cyclone DDS and without ROS: publishers, subscriptions, services.

Everything that is sent is reliable, volatile, keep last 1: a reliable writer meets readers of both kinds, so that tf2
and RViz find it with their usual settings, and no reader can make it wait. What is received is best effort, keep last
1: it meets writers of both kinds, and the newest wins.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from cyclonedds.core import DDSException, Policy, Qos, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from rosbags.typesys import Stores, get_typestore

from servonode.errors import ServonodeError
from servonode.neighbours.ros2_types import Ros2Types, service_names, service_types, topic_name

# what ROS 2 makes of ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, and no other interface than the loopback
LOOPBACK = (
    '<CycloneDDS><Domain><General><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces></General>'
    "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>"
    '<Peers><Peer address="localhost"/></Peers></Discovery></Domain></CycloneDDS>'
)
XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
SENT = Qos(Policy.Reliability.Reliable(0), Policy.Durability.Volatile, Policy.History.KeepLast(1), XCDR1)
TAKEN = Qos(Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.History.KeepLast(1), XCDR1)
SERVED = Qos(Policy.Reliability.Reliable(0), Policy.Durability.Volatile, Policy.History.KeepLast(10), XCDR1)
REPLY_S, LOOK_S = 0.1, 0.005  # s for which a reply waits until its reader is known, and between two looks


class NoGraph(ServonodeError):
    """Cyclone DDS cannot take part in the domain; the text says what it needs."""


class Ros2Node:
    """One participant with its writers and readers. domain: as ROS_DOMAIN_ID. network: whether others may reach it.

    Raises:
        NoGraph: Cyclone DDS refuses.
    """

    def __init__(self, domain: int, network: bool = False) -> None:
        self.types = Ros2Types(get_typestore(Stores.ROS2_HUMBLE))
        self._writers: dict[str, DataWriter[IdlStruct]] = {}
        try:
            self._domain = None if network else Domain(domain, LOOPBACK)
            self.participant = DomainParticipant(domain)
        except DDSException as error:
            remedy = "check CYCLONEDDS_URI and the network" if network else "at most 33 may use it on one computer"
            raise NoGraph(f"ROS 2 domain {domain} cannot be joined: {error.msg or error}; {remedy}") from None

    def publish(self, topic: str, name: str, values: Mapping[str, Any]) -> None:
        """Publish a message of this type, as std_msgs/msg/Float64; it is dropped where it cannot be sent at once."""
        if topic not in self._writers:
            described = Topic(self.participant, topic_name(topic), self.types.of(name))
            self._writers[topic] = DataWriter(self.participant, described, SENT)
        self._write(self._writers[topic], self.types.sample(name, values))

    def subscription(self, topic: str, name: str) -> "Subscription":
        """The newest messages of this type on a topic."""
        described = Topic(self.participant, topic_name(topic), self.types.of(name))
        return Subscription(DataReader(self.participant, described, TAKEN))

    def service(
        self, name: str, kind: str, reply: Mapping[str, Any], answer: Callable[[], tuple[Any, ...]]
    ) -> "Service":
        """A service whose requests are empty. reply: the fields of its replies, of which `answer` gives the values."""
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
    """What has come on a topic. unreadable: whether the last one was no text, which only a foreign sender writes."""

    def __init__(self, reader: DataReader[IdlStruct]) -> None:
        self._reader = reader

    def newest(self) -> Any:
        """The newest message that was not given before, None without one.

        Raises:
            UnicodeDecodeError: a text in it is none.
        """
        taken = [each for each in self._reader.take(1) if each.sample_info.valid_data]
        return taken[-1] if taken else None


class Service:
    """Answers the requests of a service, one after the other."""

    def __init__(
        self,
        participant: DomainParticipant,
        reader: DataReader[IdlStruct],
        writer: DataWriter[IdlStruct],
        answer: Callable[[], tuple[Any, ...]],
    ) -> None:
        self._reader, self._writer, self._answer = reader, writer, answer
        self._waiting = WaitSet(participant)
        self._waiting.attach(ReadCondition(reader, ViewState.Any | SampleState.NotRead))

    def serve(self, timeout_s: float) -> None:
        """Wait for requests for so long, and answer those that have come."""
        self._waiting.wait(duration(seconds=timeout_s))
        for request in self._reader.take(10):
            if request.sample_info.valid_data:
                values = self._answer()
                self._wait_for_reader(request.sample_info.publication_handle)
                Ros2Node._write(self._writer, self._writer.data_type(request.guid, request.seq, *values))

    def _wait_for_reader(self, publication: int) -> None:
        """Wait a little until the reader of whoever has asked is known: a reply before that would not reach it."""
        asking = self._reader.get_matched_publication_data(publication)
        limit = time.monotonic() + REPLY_S
        while asking is not None and time.monotonic() < limit:
            matched = map(self._writer.get_matched_subscription_data, self._writer.get_matched_subscriptions())
            if any(each is not None and each.participant_key == asking.participant_key for each in matched):
                return
            time.sleep(LOOK_S)
