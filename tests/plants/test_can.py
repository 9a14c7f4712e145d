"""Packets over a CAN bus: frames by Python and C are the same, the newest inputs leave, nothing harmful is believed."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import servonode
from servonode.bus import BusError
from servonode.closed_loop.launch_file import LaunchError
from servonode.plants.drivers import packets
from servonode.plants.drivers.can_frames import BITS, Joiner, frames_of
from servonode.plants.drivers.can_transport import CanTransport
from servonode.plants.drivers.packets import SIZE
from tests.helpers.can_bus import BY, INTERFACE, TO, CanFrames, free_channel
from tests.helpers.firmware import built
from tests.helpers.refusals import refused_command

can: Any = pytest.importorskip("can", reason='needs python-can: pip install "servonode[can]"')
BITRATE, WAIT_S = 500_000, 5.0


def packet(seq: int, kind: int = packets.APPLIED, flags: int = 0) -> bytes:
    return packets.encode(packets.Head(kind, 1, 1, seq, packets.NONE, 0, flags), bytes(16))


def test_frames_are_those_of_the_layout() -> None:
    assert [each.hex(" ") for each in frames_of(bytes(range(16)))] == [
        "80 00 01 02 03 04 05 06", "01 07 08 09 0a 0b 0c 0d", "42 0e 0f",
    ]  # fmt: skip
    assert frames_of(b"ab") == [b"\xc0ab"]
    assert frames_of(b"") == []


def test_frames_of_the_firmware_are_the_same_and_each_side_reads_the_others() -> None:
    c, joiner = CanFrames(built("libcan.so")), Joiner(Counter())
    for size in range(SIZE + 1):  # more than 64 frames too
        sent = bytes([0x53, 0x56, 1, packets.STATE, *random.Random(size).randbytes(size)])[:size]
        frames = c.frames(sent)
        assert frames == frames_of(sent)
        expected = [b""] * (len(frames) - 1) + [sent][: len(frames)]
        assert [joiner.take(each) for each in frames] == expected
        assert [c.take(each) for each in frames] == expected
    assert c.refused == 0


def test_both_sides_refuse_the_same_frames() -> None:
    c, counts, rng = CanFrames(built("libcan.so")), Counter[str](), random.Random(5)
    joiner = Joiner(counts)
    frames = [each for seq in range(300) for each in frames_of(packet(seq))]
    for each in frames:
        harm = rng.random()
        sent = rng.randbytes(rng.randrange(9)) if harm < 0.02 else each
        for _ in range(0 if harm > 0.98 else 2 if harm > 0.96 else 1):
            assert joiner.take(sent) == c.take(sent)
    assert counts["frame"] + counts["length"] == c.refused > 0


def test_a_packet_without_an_end_does_not_grow() -> None:
    counts = Counter[str]()
    joiner = Joiner(counts)
    for i in range(4 * SIZE):
        assert joiner.take(bytes([0x80 if i == 0 else i & 0x3F, *bytes(7)])) == b""
        assert len(joiner._packet) <= SIZE + 7
    assert counts["length"] == 1


class Board:
    """A board on the same bus; time passes in `wait` alone."""

    def __init__(self) -> None:
        self.now_ns = 10**9
        self.channel = free_channel()
        self.bus = can.Bus(interface=INTERFACE, channel=self.channel)
        self.transport = CanTransport(INTERFACE, self.channel, BITRATE, TO, BY)

    def wait(self, frames: float) -> None:
        """Let the bus send so many frames."""
        self.now_ns += round(frames * BITS * 1_000_000_000 / BITRATE) + 1
        self.transport.receive(1)

    def received(self, count: int) -> list[bytes]:
        """So many packets that were sent; more are not there."""
        found: list[bytes] = []
        joiner, end = Joiner(Counter()), time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < end:
            frame = self.bus.recv(timeout=0.1)
            if frame is not None and frame.arbitration_id == TO and (whole := joiner.take(bytes(frame.data))):
                found.append(whole)
        return found

    def send(self, data: bytes, identifier: int = BY, extended: bool = False) -> None:
        self.bus.send(can.Message(arbitration_id=identifier, is_extended_id=extended, data=data))

    def comes(self) -> list[bytes]:
        """What the transport takes next."""
        end = time.monotonic() + WAIT_S
        while not (found := self.transport.receive(64)) and time.monotonic() < end:
            time.sleep(0.005)
        return found


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    made = Board()
    monkeypatch.setattr("servonode.plants.drivers.can_transport.time.monotonic_ns", lambda: made.now_ns)
    made.transport.open()
    yield made
    made.transport.close()
    made.bus.shutdown()


FRAMES = len(frames_of(packet(0)))


def test_the_newest_inputs_leave_and_a_setup_is_not_replaced(board: Board) -> None:
    setup, final = packet(2, packets.SETUP), packet(7, flags=packets.FINAL)
    for each in (packet(0), packet(1), setup, packet(3), packet(4)):
        board.transport.send(each)
    assert board.received(1) == [packet(0)]
    assert board.transport.due() == board.now_ns + FRAMES * BITS * 1_000_000_000 // BITRATE
    board.wait(FRAMES)
    board.wait(FRAMES)
    assert board.received(2) == [setup, packet(4)]
    assert board.transport.due() is None
    board.transport.send(final)
    board.wait(FRAMES)
    assert board.received(1) == [final]
    assert board.transport.counts["unsent"] == 1  # 3, for 4; 1 went with the run before the setup


def test_frames_of_others_are_not_read(board: Board) -> None:
    for each in frames_of(packet(5)):
        board.send(each, identifier=0x7FF)
        board.send(each, extended=True)
        board.send(each)
    assert board.comes() == [packet(5)]
    assert board.transport.counts["frame"] == 0


def test_of_a_flood_the_newest_packets_are_taken(board: Board) -> None:
    for seq in range(4):
        for each in frames_of(packet(seq)):
            board.send(each)
    time.sleep(0.2)
    assert board.transport.receive(2) == [packet(2), packet(3)]
    assert board.transport.counts["unread"] == 2


@pytest.mark.parametrize(
    ("interface", "channel", "said"),
    [
        ("socketcan", "no_such_bus", "the CAN bus socketcan no_such_bus cannot be opened"),
        ("no_such_interface", "x", "the CAN bus no_such_interface x cannot be opened"),
        ("virtual", "x", "'virtual' has no descriptor by which a process could wait"),
    ],
)
def test_a_bus_that_cannot_be_used_is_refused(interface: str, channel: str, said: str) -> None:
    with pytest.raises(BusError, match=said):
        CanTransport(interface, channel, BITRATE, TO, BY).open()


def of_bus(**more: Any) -> Any:
    settings = {"run__speed": 1, "plant__safety__limit": 1.0, "plant__driver": "can", "plant__device__channel": "can0"}
    return servonode.load("trailer_pursuit", **(settings | more))


def test_states_come_as_often_as_the_bus_carries_beside_the_inputs() -> None:
    found = of_bus(plant__device__bitrate=1_000_000).closed_loop.traffic
    assert found is not None
    assert found.inputs == 8 * 8 * 100  # 50 bytes are 8 frames, each period of 10 ms
    assert found.states * found.state_every == 8 * 12 * 1000  # 78 bytes are 12 frames
    assert found.state_every == 2
    assert found.share == pytest.approx((found.states + found.inputs) / 8 * BITS / 1e6)
    assert "every node of the CAN bus can0 can move the machine" in " ".join(
        each.text for each in of_bus().check().findings
    )


def test_a_bus_that_is_too_slow_is_refused_with_the_rate_that_would_do() -> None:
    slow = of_bus(plant__device__bitrate=125_000).closed_loop
    with pytest.raises(LaunchError, match=r"\[plant.device\] bitrate: a bus of 125000 bit/s .*\.bitrate = 500000"):
        slow.check_traffic()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"plant__device__id_to": 0x102}, "id_to: 0x102 is that of both directions"),
        ({"plant__device__id_to": 0x800}, "id_to: 2048"),
        ({"plant__device__bitrate": 5}, "bitrate: 5"),
    ],
)
def test_wrong_settings_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        of_bus(**more)


def test_a_missing_channel_is_named() -> None:
    said = refused_command("check", "trailer_pursuit", "--set", "plant.driver=can", "--set", "run.speed=1")
    assert said.endswith(
        "[plant.device] channel: missing; name the CAN bus, such as can0 (ip -brief link show type can)"
    )
