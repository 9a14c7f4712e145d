"""A node's publisher at its socket: other versions, broken frames, many subscriptions, slow and many readers."""

import contextlib
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from servonode.bus import Bus, Publisher
from servonode.bus.ipc.connection import PublisherConnection
from servonode.bus.ipc.publisher import SUBSCRIPTIONS
from servonode.bus.messages import MAX_PAYLOAD
from tests.helpers.events import LONG_S, eventually
from tests.helpers.strangers import frame, opening

SIZES = (0, 1, 255, 256, MAX_PAYLOAD)  # bytes of a second frame, whose length has 1 or 8 bytes on the wire
MESSAGES = [(b"state", bytes(7 * i % 256 for i in range(size))) for size in SIZES]


@pytest.fixture
def publisher(folder: Path) -> Iterator[Publisher]:
    with Bus(folder, "plant") as bus:
        yield bus.publisher()


def raw(path: Path, data: bytes = b"") -> socket.socket:
    """A connection over which this went."""
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.connect(str(path))
    opened.sendall(data)
    opened.setblocking(False)
    return opened


def hung_up(peer: socket.socket) -> bool:
    """Whether the other side has ended the connection."""
    with contextlib.suppress(BlockingIOError):
        try:
            while peer.recv(65536):
                pass
        except ConnectionError:
            pass
        return True
    return False


LEGACY = {  # a subscription, as peers of before ZMTP 3 send it, and others
    "1.0": b"\x01\x00" + b"\x07\x00\x01state",
    "2.0": b"\xff" + bytes(8) + b"\x7f\x01\x02\x00\x00" + frame(b"\x01state"),
    "curve": b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32) + frame(b"\x01state"),
    "no handshake": opening(b"SUB")[:64] + frame(b"\x01state"),
    "wrong kind": opening(b"PUSH") + frame(b"\x01state"),
    "not ZeroMQ": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("how", LEGACY)
def test_who_speaks_no_zmtp_3_is_hung_up_on_and_never_heard(folder: Path, publisher: Publisher, how: str) -> None:
    with raw(folder / "plant.pub", LEGACY[how]) as peer:
        assert eventually(lambda: publisher.subscriptions_seen() is None or hung_up(peer))
    assert publisher.subscription_count == 0


@pytest.mark.parametrize(
    "data",
    [frame(b"\x01" + b"x" * 64), b"\x02" + b"\xff" * 8, b"\x20\x00", frame(b"\x01", 1) * 20, frame(b"\x04WHAT", 5)],
)
def test_a_frame_that_no_subscriber_sends_ends_the_connection(folder: Path, publisher: Publisher, data: bytes) -> None:
    with raw(folder / "plant.pub", opening(b"SUB") + frame(b"\x01state") + data) as peer:
        assert eventually(lambda: publisher.subscriptions_seen() is None or hung_up(peer))
    assert eventually(lambda: publisher.subscriptions_seen() == 0)


def test_only_the_beginnings_of_topics_are_subscribed_to_and_only_so_many(folder: Path, publisher: Publisher) -> None:
    words = [b"state2", b"\xff", b"x", b"app", b"", b"state", b"sta"]
    with raw(folder / "plant.pub", opening(b"SUB") + b"".join(frame(b"\x01" + word) for word in words)) as peer:
        assert eventually(lambda: publisher.subscriptions_seen() == 4)
        assert publisher.subscriptions == {"state": 1, "app": 1, "": 1, "sta": 1}
        peer.sendall(frame(b"\x01state") * 100)
        assert eventually(lambda: publisher.subscriptions_seen() == SUBSCRIPTIONS)
        peer.sendall(frame(b"\x00state") * 100 + frame(b"\x00") + frame(b"\x00nothing"))
        assert eventually(lambda: publisher.subscriptions_seen() == 2)
        assert publisher.has_subscriber("applied")
        assert publisher.has_subscriber("state")
        assert not publisher.has_subscriber("command")
    assert eventually(lambda: publisher.subscriptions_seen() == 0)
    assert not publisher.has_subscriber("applied")


@pytest.mark.parametrize("word", [b"", b"app", b"applied"])
def test_who_subscribes_to_the_beginning_of_a_topic_hears_it_once(
    folder: Path, publisher: Publisher, word: bytes
) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as heard:
        heard.connect(f"ipc://{folder}/plant.pub")
        heard.subscribe(word)
        heard.subscribe(b"applied")
        assert eventually(lambda: publisher.subscriptions_seen() == 2)
        publisher.publish_frames(b"applied", b"1")
        assert heard.recv_multipart() == [b"applied", b"1"]
        publisher.publish_frames(b"applied", b"2")
        assert heard.recv_multipart() == [b"applied", b"2"]


# frames of each length, in both directions


class Everything:
    """An intake that takes each message as it is."""

    def __init__(self) -> None:
        self.words = {b"state": "state"}
        self.counts: Counter[str] = Counter()

    def take(self, topic: bytes, payload: bytes) -> tuple[bytes, bytes]:
        return topic, payload


def test_a_subscriber_of_libzmq_gets_each_frame_from_one_publisher_after_the_other(folder: Path) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as heard:
        heard.connect(f"ipc://{folder}/plant.pub")
        heard.subscribe("sta")
        for _ in range(2):
            with contextlib.closing(Publisher(f"ipc://{folder}/plant.pub", 1)) as publisher:
                assert eventually(lambda: heard.poll(0) or publisher.ready())  # it subscribes in a call
                assert publisher.subscriptions == {"sta": 1}
                for word, payload in MESSAGES:
                    publisher.publish_frames(word, payload)
                    assert heard.poll(LONG_S * 1000)
                    assert heard.recv_multipart() == [word, payload]


def test_each_frame_of_a_publisher_of_libzmq_arrives_and_again_once_another_has_its_place(folder: Path) -> None:
    intake: Any = Everything()
    with contextlib.closing(PublisherConnection(f"ipc://{folder}/plant.pub", intake)) as connection:
        for _ in range(2):
            taken: list[Any] = []

            def arrived(count: int, taken: list[Any] = taken) -> bool:
                connection.receive_into(taken, 2 * len(MESSAGES))
                return len(taken) >= count

            with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
                publisher.bind(f"ipc://{folder}/plant.pub")
                assert eventually(lambda: arrived(0) and publisher.poll(0))
                assert publisher.recv() == b"\x01state"
                for word, payload in MESSAGES:
                    publisher.send_multipart([word, payload])
                assert eventually(lambda: arrived(len(MESSAGES)))
            assert taken == MESSAGES
    assert not intake.counts
