"""A node's publisher at its socket: other versions, broken frames, many subscriptions, slow and many readers."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from servonode.bus import Bus, Publisher
from servonode.bus.ipc.publisher import SUBSCRIPTIONS
from tests.helpers.events import eventually
from tests.helpers.strangers import frame, opening


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
    assert publisher.joined == 0


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
        assert publisher.listened("applied")
        assert publisher.listened("state")
        assert not publisher.listened("command")
    assert eventually(lambda: publisher.subscriptions_seen() == 0)
    assert not publisher.listened("applied")


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
