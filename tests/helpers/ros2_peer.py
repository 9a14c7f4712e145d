"""A second participant of a graph of ROS 2, in a process of its own that knows types by the texts of their definitions.

The texts are parsed anew; bytes are read and written by rosbags, whose codec has nothing of Cyclone DDS's. It joins a
domain as ROS 2 does with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST. One JSON object a line: what is asked of it on
standard input, what it has received on standard output.
"""

import json
import os
import queue
import select
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Self

SECONDS = 30.0  # for which an answer is waited for
LOCALHOST = (
    "<CycloneDDS><Domain><General><AllowMulticast>false</AllowMulticast></General><Discovery>"
    "<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>"
    '<Peers><Peer address="localhost"/></Peers></Discovery></Domain></CycloneDDS>'
)
HEADER = struct.Struct("<4sQq")  # of the samples of a service: representation, client, number of the request
REPRESENTATION = b"\0\1\0\0"  # XCDR1, little endian


def free_domain() -> int:
    """A domain that no other test uses at the same time."""
    return 1 + os.getpid() % 99


class Peer:
    """The process as a test sees it; a context manager."""

    def __init__(self, domain: int) -> None:
        command = [sys.executable, "-m", "tests.helpers.ros2_peer", str(domain)]
        self.popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def ask(self, word: str, *arguments: Any) -> None:
        """Have it take TOPIC KIND, give TOPIC KIND VALUES, flood TOPIC KIND VALUES SECONDS, or call SERVICE."""
        assert self.popen.stdin is not None
        print(json.dumps([word, *arguments]), file=self.popen.stdin, flush=True)

    def next(self, topic: str, within_s: float = SECONDS) -> Any:
        """The next message that it receives on a topic, or the next reply of a service; AssertionError without."""
        limit = time.monotonic() + within_s
        while (left := limit - time.monotonic()) > 0:
            with suppress(queue.Empty):
                found = self._lines.get(timeout=left)
                if found["from"] == topic:
                    return found["values"]
        raise AssertionError(f"nothing came on {topic} within {within_s:g} s")

    def forget(self) -> None:
        """Drop what it has received so far."""
        with suppress(queue.Empty):
            while True:
                self._lines.get_nowait()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self._lines.put(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.kill()
        self._reading.join()
        self.popen.communicate()


class _Raw:
    """A sample as its bytes."""

    sample_info: Any

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Participant:
    def __init__(self, domain: int) -> None:
        from cyclonedds.domain import Domain, DomainParticipant
        from rosbags.typesys import Stores, get_typestore

        self._known = get_typestore(Stores.ROS2_HUMBLE)
        self._domain = Domain(domain, LOCALHOST)
        self.participant = DomainParticipant(domain)
        self.readers: dict[str, tuple[Any, Any]] = {}  # by name: reader, what makes values of its bytes
        self.writers: dict[str, tuple[Any, ...]] = {}  # by name: writer, type, perhaps the store that writes its bytes
        self.calls = 0

    def take(self, topic: str, name: str) -> None:
        """Receive a topic, as a subscription with the usual settings does."""
        store, kind = self._parsed(name)
        kind.deserialize = _Raw
        self.readers[topic] = self._reader(f"rt{topic}", kind), lambda data: plain(store.deserialize_cdr(data, name))

    def give(self, topic: str, name: str, values: dict[str, Any]) -> None:
        """Publish a message."""
        from tests.wings.neighbours.test_ros2_types import rosbags_message

        if topic not in self.writers:
            store, kind = self._parsed(name)
            self.writers[topic] = self._writer(f"rt{topic}", kind), kind, store
        writer, kind, store = self.writers[topic]
        data = bytes(store.serialize_cdr(rosbags_message(store, name, values), name))
        kind.serialize = lambda *_, **__: data
        writer.write(object.__new__(kind))

    def flood(self, topic: str, name: str, values: dict[str, Any], seconds: float) -> None:
        """Publish a message for so long, as often as it can."""
        self.give(topic, name, values)
        writer, kind, _ = self.writers[topic]
        sample, limit = object.__new__(kind), time.monotonic() + seconds
        while time.monotonic() < limit:
            writer.write(sample)

    def call(self, service: str) -> None:
        """Call a service of std_srvs/Trigger."""
        from servonode.wings.neighbours.ros2_graph import service_types

        if service not in self.readers:
            request, reply = service_types("std_srvs/srv/Trigger", {}, {"success": bool, "message": str})
            reply.deserialize = _Raw  # type: ignore[assignment]
            self.readers[service] = self._reader(f"rr{service}Reply", reply), self._reply
            self.writers[service] = self._writer(f"rq{service}Request", request), request
        writer, kind = self.writers[service]
        self.calls += 1
        data = HEADER.pack(REPRESENTATION, writer.get_instance_handle() % 2**64, self.calls) + b"\0"
        kind.serialize = lambda *_, **__: data
        writer.write(object.__new__(kind))

    def received(self) -> None:
        """Print what has come."""
        for topic, (reader, read) in self.readers.items():
            for sample in reader.take(100):
                if sample.sample_info.valid_data:
                    print(json.dumps({"from": topic, "values": read(sample.data)}), flush=True)

    def _reply(self, data: bytes) -> dict[str, Any]:
        representation, _, number = HEADER.unpack_from(data)
        success, length = struct.unpack_from("<B3xI", data, HEADER.size)
        text = data[HEADER.size + 8 :][: length - 1].decode()
        return {"representation": list(representation), "number": number, "success": bool(success), "message": text}

    def _parsed(self, name: str) -> tuple[Any, Any]:
        """A store that knows only what the text of this type defines, and the type made of it."""
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore

        from servonode.wings.neighbours.ros2_graph import Ros2Types

        main, *parts = self._known.generate_msgdef(name, ros_version=2)[0].split("=" * 80 + "\n")
        store = get_typestore(Stores.EMPTY)
        texts = [(each.partition("\n")[0].removeprefix("MSG: "), each.partition("\n")[2]) for each in parts]
        for full, text in [(name, main), *texts]:
            store.register(get_types_from_msg(text, full))
        return store, Ros2Types(store).of(name)

    def _reader(self, name: str, kind: Any) -> Any:
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        return DataReader(self.participant, Topic(self.participant, name, kind), _usual())

    def _writer(self, name: str, kind: Any) -> Any:
        """A writer that some reader has met, so that nothing is lost that is written at once."""
        from cyclonedds.pub import DataWriter
        from cyclonedds.topic import Topic

        writer, limit = (
            DataWriter(self.participant, Topic(self.participant, name, kind), _usual()),
            time.monotonic() + SECONDS,
        )
        while not writer.get_matched_subscriptions() and time.monotonic() < limit:
            time.sleep(0.005)
        return writer


def _usual() -> Any:
    """The settings of ROS 2 where nobody states others."""
    from cyclonedds.core import Policy, Qos

    return Qos(
        Policy.Reliability.Reliable(2**63 - 1), Policy.Durability.Volatile, Policy.History.KeepLast(10),
        Policy.DataRepresentation(use_cdrv0_representation=True),
    )  # fmt: skip


def plain(value: Any) -> Any:
    """A message of rosbags as mappings, lists and numbers."""
    if hasattr(value, "__msgtype__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__ if name != "__msgtype__"}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(each) for each in value] if isinstance(value, list) else value


def main(domain: int) -> None:
    """Do what is asked until standard input ends."""
    participant = _Participant(domain)
    rest = b""
    while True:
        if select.select([0], [], [], 0.005)[0]:
            if not (more := os.read(0, 65536)):
                return
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                word, *arguments = json.loads(line)
                getattr(participant, word)(*arguments)
        participant.received()


if __name__ == "__main__":
    main(int(sys.argv[1]))
