"""The decoders and the sockets under fire: whatever the bytes, a refusal, at once and for little memory."""

import contextlib
import gc
import itertools
import os
import socket
import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import msgpack
import msgspec
import numpy as np
import pytest

from servonode.bus import TOPICS, Bus, Message, MessageError, Requester, State, decode, encode
from servonode.bus import messages as wire
from servonode.bus.codec import REASONS
from servonode.bus.messages import MAX_PAYLOAD, plain
from servonode.bus.requests import decode_map
from tests.helpers.events import LONG_S, eventually, soon

MEMORY = 2**20  # bytes that refusing one message may take
MANY = int(os.environ.get("SERVONODE_MESSAGES", "200_000"))  # of each kind, in the soak
GROWTH = 8 * 2**20  # bytes that all of them together may leave behind
SECOND = 10**9  # ns
Rng = np.random.Generator
Decoder = Callable[[bytes, bytes], object]


# valid messages of every topic, and what is done to them


def samples() -> list[tuple[bytes, bytes]]:
    """Valid messages of every topic as (topic, payload), made from the types of their fields."""
    made: dict[Any, Any] = {
        wire.Number: -0.25,
        wire.Values: {"U1": 0.5, "U2": -1e300},
        wire.Vectors: {"X": 1.5, "n": [0.0, -0.0, 1.0]},
        wire.Text: "plant",
        wire.Texts: ["limit:U1", "power"],
        wire.Count: 12,
        wire.CountOrNone: -1,
        wire.CountOrUnset: 3,
        wire.TextOrUnset: "keep_elbow",
        wire.StartId: 2**53,
        wire.Nanoseconds: 2**62,
        wire.Counts: {"type": 3},
        wire.Extra: {"battery": 24.5, "temperature": -3e300},
        wire.Readings: {"gyroscope": [12.0, -0.5, 22.0, 3e300], "camera_x": [5.0, 1.5]},
        wire.Goal: [0.5, -1e300],
        wire.Many: [0.5, -1e300],
        wire.Std: {"X": 0.01, "V": 3e300},
        wire.Lifecycle: wire.Lifecycle.INACTIVE,
        bool: True,
    }
    found = []
    for word, kind in TOPICS.items():
        fields = msgspec.structs.fields(kind)
        kinds = {f.name: plain(f.type) for f in fields}
        values = {name: made[each] if each in made else get_args(each)[0] for name, each in kinds.items()}
        found.append((word.encode(), encode(kind(**values))))
    return found


REQUESTS = [
    (b"", msgpack.packb(content))
    for content in ({"ask": "arm"}, {"ask": "status", "ids": [1, 2.5, None, True], "more": {"a": "b"}}, {})
]
# an array, a map, texts, binaries and extensions that claim far more than is there
HUGE = [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"]
HUGE += [
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xdc\xff\xff",
    b"\xde\xff\xff",
    b"\xda\xff\xff",
    b"\xc5\xff\xff",
    b"\xc8\xff\xff\x01",
]
# each level of nesting in few bytes
NESTS = [
    b"\x91",
    b"\x81\xa1a",
    b"\xdc\x00\x01",
    b"\xdd\x00\x00\x00\x01",
    b"\xde\x00\x01\xa1a",
    b"\x92\xc0",
    b"\xdc\x01\x00",
]
FIRST_BYTES = bytes(range(0x80, 0x100))  # of everything but small numbers


def bomb(rng: Rng) -> bytes:
    """Nested or huge, alone or as a value in a map, up to the largest payload and a little more."""
    length = int(rng.choice([10, 100, 1000, 10_000, MAX_PAYLOAD, MAX_PAYLOAD + 1]))
    one = (HUGE + NESTS)[int(rng.integers(len(HUGE) + len(NESTS)))]
    opening = b"" if rng.random() < 0.5 else b"\x81\xa5state"
    return (opening + one * (length // len(one) + 1))[:length]


def flipped(data: bytearray, rng: Rng) -> bytearray:
    for at in rng.integers(len(data), size=int(rng.integers(1, 9))):
        data[at] ^= 1 << int(rng.integers(8))
    return data


def retyped(data: bytearray, rng: Rng) -> bytearray:
    """Other types and lengths: first bytes of msgpack values in place of any byte."""
    for at in rng.integers(len(data), size=int(rng.integers(1, 4))):
        data[at] = FIRST_BYTES[int(rng.integers(len(FIRST_BYTES)))]
    return data


def cut(data: bytearray, rng: Rng) -> bytearray:
    return data[: int(rng.integers(len(data)))]


def grown(data: bytearray, rng: Rng) -> bytearray:
    """Something put in: noise, a part of itself, a huge length, a nest."""
    at, other = sorted(map(int, rng.integers(len(data) + 1, size=2)))
    pick = int(rng.integers(4))
    if pick < 2:
        added = rng.bytes(int(rng.integers(1, 20))) if pick else bytes(data[at:other]) * int(rng.integers(1, 50))
    else:
        added = HUGE[int(rng.integers(len(HUGE)))] if pick == 2 else NESTS[int(rng.integers(len(NESTS)))] * 2000
    return data[:at] + added + data[at:]


def without_part(data: bytearray, rng: Rng) -> bytearray:
    first, last = sorted(map(int, rng.integers(len(data) + 1, size=2)))
    return data[:first] + data[last:]


def numbers_changed(data: bytearray, rng: Rng) -> bytearray:
    """Floats and counts of every kind where a number stood."""
    special = [
        np.nan,
        np.inf,
        -np.inf,
        1e308,
        5e-324,
        True,
        None,
        2**53 + 1,
        2**63,
        2**64 - 1,
        -(2**63),
        "1",
        b"1",
        [[1.0]],
    ]
    content = msgpack.unpackb(bytes(data))
    if content:
        key = list(content)[int(rng.integers(len(content)))]
        value = special[int(rng.integers(len(special)))]
        content[key] = {"U1": value} if isinstance(content[key], dict) and rng.random() < 0.7 else value
    packed: bytes = msgpack.packb(content)
    return bytearray(packed)


MUTATIONS = (flipped, retyped, cut, grown, without_part, numbers_changed)


def shots(valid: list[tuple[bytes, bytes]], count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """`count` pairs (topic, payload): noise, bombs, and valid messages after one to three mutations."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        topic, payload = valid[int(rng.integers(len(valid)))]
        kind = rng.random()
        if kind < 0.15:
            yield topic, rng.bytes(int(rng.integers(0, 200)))
        elif kind < 0.17:
            yield topic, bomb(rng)
        elif kind < 0.18:
            yield rng.bytes(int(rng.integers(0, 12))), payload
        else:
            yield topic, mutated(payload, rng)


def mutated(payload: bytes, rng: Rng) -> bytes:
    data = bytearray(payload)
    for i in range(int(rng.integers(1, 4))):
        change = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
        if change is not numbers_changed or i == 0:  # it needs a message that can be read
            data = change(data, rng) or bytearray(b"\x80")
    return bytes(data)


# the decoders


def outcome(read: Decoder, topic: bytes, payload: bytes) -> object:
    """What was decoded, or the reason of the refusal; any other exception fails the test."""
    try:
        return read(topic, payload)
    except MessageError as error:
        return error.reason
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} from {topic!r} {payload[:300].hex()}") from error


def message(topic: bytes, payload: bytes) -> Message:
    """Decoded, and only what its type says: it goes out again and comes back the same."""
    found = decode(topic, payload)
    assert type(found) is TOPICS[topic.decode()]
    return found


def request(_topic: bytes, payload: bytes) -> dict[str, Any]:
    return decode_map(payload)


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


DECODERS = pytest.mark.parametrize(
    ("read", "valid"), [(message, samples()), (request, REQUESTS + samples())], ids=["messages", "requests"]
)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to read the memory from")
@pytest.mark.parametrize("count", [8_000, pytest.param(MANY, marks=pytest.mark.soak)], ids=["few", "many"])
@DECODERS
def test_damaged_messages_are_refused_and_leave_nothing_behind(
    read: Decoder, valid: list[tuple[bytes, bytes]], count: int
) -> None:
    found, held = Counter[str](), []
    for i, (topic, payload) in enumerate(shots(valid, count, seed=count)):
        if i in (count // 5, 3 * count // 5):
            held.append(resident())
        result = outcome(read, topic, payload)
        found[result if isinstance(result, str) else "read"] += 1
    assert set(found) <= {*REASONS, "read"}
    held.append(resident())
    # what is left behind grows in both halves; memory that the process takes for something else, in one
    assert min(np.diff(held)) < GROWTH / 2
    # the fire hits: every reason occurs, and some of the damage is such as no decoder can see
    assert (
        min(found[reason] for reason in ("length", "malformed", "type", "non_finite", "limits", "read")) > count // 1000
    )
    if read is message:
        assert min(found["topic"], found["missing"]) > count // 1000


@DECODERS
def test_what_is_read_after_damage_is_within_the_limits(read: Decoder, valid: list[tuple[bytes, bytes]]) -> None:
    read_ones = 0
    for topic, payload in shots(valid, 5_000, seed=5):
        result = outcome(read, topic, payload)
        if isinstance(result, Message):
            assert repr(decode(topic, encode(result))) == repr(result)
        elif isinstance(result, dict):
            assert all(isinstance(key, str) for key in result)
            assert repr(decode_map(msgpack.packb(result))) == repr(result)
        read_ones += not isinstance(result, str)
    assert read_ones > 50


@DECODERS
def test_refusing_a_message_takes_little_memory(read: Decoder, valid: list[tuple[bytes, bytes]]) -> None:
    rng = np.random.default_rng(9)
    fire = [*shots(valid, 1000, seed=9), *((valid[0][0], bomb(rng)) for _ in range(300))]
    fire += [(valid[0][0], (one * MAX_PAYLOAD)[:MAX_PAYLOAD]) for one in HUGE + NESTS]
    tracemalloc.start()
    try:
        for topic, payload in fire:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            outcome(read, topic, payload)
            assert tracemalloc.get_traced_memory()[1] - before < MEMORY, payload[:50].hex()
    finally:
        tracemalloc.stop()


# the sockets


def greeting(minor: int = 1, mechanism: bytes = b"NULL") -> bytes:
    """The 64 bytes with which a peer of ZMTP 3 opens."""
    return b"\xff" + bytes(8) + b"\x7f\x03" + bytes([minor]) + mechanism.ljust(20, b"\x00") + bytes(32)


def frame(body: bytes, flags: int = 0) -> bytes:
    """One frame of ZMTP 2 and 3; flags: 1 more, 4 command."""
    if len(body) > 255:
        return bytes([flags | 2]) + struct.pack(">Q", len(body)) + body
    return bytes([flags, len(body)]) + body


def ready(kind: bytes) -> bytes:
    """The command that ends a handshake without security."""
    name, value = b"Socket-Type", kind
    return frame(b"\x05READY" + bytes([len(name)]) + name + struct.pack(">I", len(value)) + value, 4)


def legacy(body: bytes, flags: int = 0) -> bytes:
    """One frame of ZMTP 1: its length counts the flags."""
    return bytes([len(body) + 1, flags]) + body


def openings() -> list[bytes]:
    """How a peer may begin, well or badly: versions 3.1, 3.0, 2 and 1, unknown versions, mechanisms and types."""
    kinds = [b"SUB", b"DEALER", b"REQ", b"XSUB", b"ROUTER", b"PUB", b"NONSENSE", b"", b"x" * 200]
    begun = [greeting(minor) + ready(kind) for minor in (0, 1) for kind in kinds]
    begun += [greeting(mechanism=b"CURVE"), greeting(mechanism=b"PLAIN"), greeting(mechanism=b"\xff" * 20)]
    begun += [greeting(), greeting()[:30], b"", b"\xff", b"\x7f" * 11]
    begun += [b"\xff" + bytes(7) + b"\x01\x7f" + bytes([version, kind]) for version in (1, 2, 9) for kind in range(12)]
    begun += [b"\x01\x00", legacy(b"name"), b"\xff" + struct.pack(">Q", 2**63 - 1) + b"\x00"]
    return begun


def barrages(rng: Rng, valid: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """What a hostile peer sends after each opening: noise, lying lengths, and frames with damaged messages in them."""
    lengths = [0, 255, 2**16, 2**31, 2**62, 2**63 - 1, 2**64 - 1]
    for opening in openings():
        topic, payload = valid[int(rng.integers(len(valid)))]
        damaged = mutated(payload, rng)
        tag = struct.pack("<Q16xQ", 1, 2**64 - 1)
        yield opening + rng.bytes(int(rng.integers(1, 3000)))
        yield opening + frame(topic, 1) + frame(damaged)
        yield opening + frame(tag, 1) + frame(damaged + b"\xc1")
        yield opening + frame(b"", 1) * 300 + frame(damaged)
        yield opening + frame(b"\x01" + rng.bytes(300)) + frame(b"\x00" + rng.bytes(5)) + frame(rng.bytes(9), 4)
        yield opening + bytes([2, *struct.pack(">Q", lengths[int(rng.integers(len(lengths)))])]) + rng.bytes(100)
        yield opening + frame(rng.bytes(60), int(rng.integers(8))) + rng.bytes(50)
        yield opening + legacy(topic[:50], 1) + legacy(damaged[:200]) + legacy(tag, 1) + legacy(b"\xc1")


def raw_peer(path: Path, data: bytes) -> socket.socket:
    """A connection to a bound path over which `data` went, as far as the other side took it."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.connect(str(path))
    send_all(peer, data)
    return peer


def send_all(peer: socket.socket, data: bytes) -> None:
    """Send until the other side hangs up, as it may, or takes no more."""
    peer.settimeout(1.0)
    with contextlib.suppress(OSError):
        peer.sendall(data)


def state(seq: int) -> State:
    return State(t=0.1, run=1, k=1, mono=1, node="plant", src=1, seq=seq, state={"x": 0.1}, input={}, control=True)


class Node:
    """A node with all that it binds, one that listens to it, and one that asks it."""

    def __init__(self, folder: Path) -> None:
        self.bus, self.other, self.client = Bus(folder, "plant"), Bus(folder, "controller"), Requester(folder, "plant")
        self.requests, self.publisher = self.bus.requests(), self.bus.publisher(1)
        self.subscriber = self.other.subscriber({"plant": ["state"]})
        assert eventually(self.publisher.ready)
        self.strange: list[object] = []  # requests that came and nobody good had asked
        self.seq = 0

    def paths(self, folder: Path) -> list[Path]:
        return sorted(each for each in folder.iterdir() if each.is_socket())

    def goes_on(self) -> None:
        """One request answered, one state delivered; what else arrives is kept in `strange`."""
        self.seq += 1
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(self.client.ask, {"number": self.seq}, LONG_S)
            while not asked.done():
                self.bus.wait(time.monotonic_ns() + SECOND // 100)
                self.publisher.subscriptions_seen()
                while (come := self.requests.poll_request()) is not None:
                    if come[1] == {"number": self.seq}:
                        self.requests.reply(*come)
                    else:
                        self.strange.append(come)
            assert asked.result() == {"number": self.seq}
        self.publisher.publish("state", state(self.seq))
        assert self.subscriber.wait(soon())
        assert self.subscriber.receive() == [("state", state(self.seq))]

    def close(self) -> None:
        self.client.close()
        self.other.close()
        self.bus.close()


@pytest.fixture
def node(folder: Path) -> Iterator[Node]:
    made = Node(folder)
    yield made
    made.close()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 21))])
def test_garbage_to_every_bound_socket_is_no_message_and_stops_nothing(folder: Path, node: Node, seed: int) -> None:
    rng, peers = np.random.default_rng(seed), []
    paths = node.paths(folder)
    assert [each.name for each in paths] == ["plant.pub", "plant.req"]
    for i, data in enumerate(barrages(rng, samples() + REQUESTS)):
        peers += [raw_peer(path, data) for path in paths]
        if i % 20 == 19:  # some hang up, some stay for ever
            node.goes_on()
            while len(peers) > 30:
                peers.pop(int(rng.integers(len(peers)))).close()
    node.goes_on()
    for peer in peers:
        peer.close()
    node.goes_on()
    assert node.strange == []
    assert set(node.requests.counts) <= {*REASONS, "no_ticket"}
    assert node.requests.counts.total() > 0  # some of it was well framed, and was refused by its content
    assert not node.subscriber.counts


def test_peers_that_come_and_go_at_once_stop_nothing(folder: Path, node: Node) -> None:
    for i in range(300):
        for path in node.paths(folder):
            raw_peer(path, greeting()[: i % 65]).close()
        if i % 30 == 29:  # fewer than may wait to be accepted
            node.goes_on()
    assert node.strange == []


def test_noise_in_place_of_a_publisher_is_no_message_to_its_subscriber(folder: Path) -> None:
    # a subscriber for each: after some violations of the protocol ZeroMQ never connects again
    fire = barrages(np.random.default_rng(4), samples())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.bind(str(folder / "plant.pub"))
        stranger.listen()
        for data in itertools.islice(fire, 150):
            with Bus(folder, "controller") as bus:
                subscriber = bus.subscriber({"plant": ["state"]})
                peer, _ = stranger.accept()
                send_all(peer, data)
                subscriber.wait(time.monotonic_ns() + 3 * SECOND // 1000)
                peer.close()
                subscriber.wait(time.monotonic_ns() + SECOND // 1000)
                assert subscriber.receive() == []
                assert set(subscriber.counts) <= set(REASONS)
