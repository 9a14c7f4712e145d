"""Lines with a rate: what waits for them and what leaves first, frames of a CAN bus, and which rates are enough."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import servonode
from servonode.bus import BusError
from servonode.closed_loop.launch_file import LaunchError
from servonode.plants.drivers import packets
from servonode.plants.drivers.can import BITS, CanTransport, Joiner, frames_of
from servonode.plants.drivers.packets import SIZE
from servonode.plants.drivers.serial import BITS as BYTE_BITS
from servonode.plants.drivers.serial import SerialTransport, stuffed
from servonode.plants.drivers.transport import SHARE, Traffic
from tests.helpers.can_bus import CanFrames
from tests.helpers.extras import python_can
from tests.helpers.firmware import built
from tests.helpers.wired import Events
from tests.wires import BY, TO, CanWire, Firmware, SerialWire

BAUD, BITRATE, S = 57600, 500_000, 10**9


def packet(seq: int, kind: int = packets.APPLIED, flags: int = 0) -> bytes:
    return packets.encode(packets.Head(kind, 1, 1, seq, packets.NONE, 0, flags), bytes(16))


SETUP, FINAL = packet(2, packets.SETUP), packet(7, flags=packets.FINAL)
SERIAL_NS = len(stuffed(packet(0))) * BYTE_BITS * S // BAUD  # of one packet
CAN_NS = len(frames_of(packet(0))) * BITS * S // BITRATE


class Line:
    """A transport and the other end of its line; time passes in `wait` alone."""

    def __init__(self, kind: str) -> None:
        self.queue, self.packet_ns = Events(), SERIAL_NS if kind == "serial" else CAN_NS
        self.transport: Any
        self.wire: Any
        if kind == "serial":
            self.wire, self.transport = SerialWire(self.queue, Firmware(), BAUD), SerialTransport("/dev/memory", BAUD)
        else:
            python_can()
            self.wire, self.transport = (
                CanWire(self.queue, Firmware(), BITRATE),
                CanTransport("any", "can0", BITRATE, TO, BY),
            )
        self._taken = 0

    def send(self, *sent: bytes) -> None:
        """Send packets at this moment."""
        for each in sent:
            self.transport.send(each)

    def wait(self, packets: float) -> None:
        """Let the line carry so many packets of inputs."""
        self.queue.go(round(packets * self.packet_ns) + 1)
        self.transport.receive(1)

    def left(self) -> list[bytes]:
        """The packets that have left since the last call."""
        self.transport.receive(1)
        found = [data for _, data in self.wire.messages()]
        new, self._taken = found[self._taken :], len(found)
        return new


@pytest.fixture(params=["serial", "can"])
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    made = Line(request.param)
    with made.wire.plugged():
        made.transport.open()
        made.transport.receive(1)
        made.wait(1.0)  # the byte that ends what came before
        yield made
        made.transport.close()


def test_newest_inputs_wait_and_older_ones_are_counted(line: Line) -> None:
    line.send(*map(packet, range(100)))
    assert line.left() == [packet(0)]
    assert line.transport.due() == line.queue.now + line.packet_ns
    line.wait(0.9)  # the line is still busy
    line.send(packet(100))
    line.wait(0.2)
    assert line.left() == [packet(100)]
    assert line.transport.counts["unsent"] == 99
    assert line.transport.due() is None


def test_setup_and_end_of_a_run_go_before_inputs_and_are_not_replaced(line: Line) -> None:
    line.send(packet(0), packet(1), SETUP, packet(3), packet(4))
    line.wait(1.1)
    line.wait(1.1)
    assert line.left() == [packet(0), SETUP, packet(4)]
    line.wait(1.1)
    line.send(packet(5), packet(6), FINAL, FINAL)  # twice, for one may be lost
    line.wait(1.1)
    line.wait(1.1)
    assert line.left() == [packet(5), FINAL, FINAL]
    assert line.transport.counts["unsent"] == 1  # 3, for 4; what waited went with the runs before


def test_traffic_is_that_of_the_rate_however_much_is_sent(line: Line) -> None:
    for seq in range(1000):  # ten in the time of one
        line.send(packet(seq))
        line.wait(0.1)
    assert len(line.left()) == 101  # the first one at once


def test_end_of_a_run_leaves_before_the_line_is_closed(line: Line) -> None:
    line.send(packet(0), packet(1), FINAL, FINAL)
    line.transport.close()
    assert line.left() == [packet(0), FINAL, FINAL]


def test_nothing_is_added_while_the_system_still_holds_a_packet() -> None:
    made = Line("serial")
    with made.wire.plugged():
        made.transport.open()
        made.transport.receive(1)
        made.wire.to.free = made.queue.now + 12 * SERIAL_NS  # as where a line is slower than stated
        for seq in range(5):
            made.send(packet(seq))
            made.wait(2.0)
        assert made.left() == []
        made.wait(3.0)
        assert made.left() == [packet(4)]
        made.transport.close()


# frames of a CAN bus


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


@contextmanager
def bus() -> Iterator[Line]:
    made = Line("can")
    with made.wire.plugged():
        made.transport.open()
        yield made
        made.transport.close()


def test_frames_of_others_are_not_read() -> None:
    with bus() as made:
        for each in frames_of(packet(5)):
            made.wire.bus.frames.extend([(0x7FF, False, each), (BY, True, each), (BY, False, each)])
        assert made.transport.receive(64) == [packet(5)]
        assert made.transport.counts["frame"] == 0


def test_of_a_flood_the_newest_packets_are_taken() -> None:
    with bus() as made:
        for seq in range(4):
            made.wire.bus.frames.extend((BY, False, each) for each in frames_of(packet(seq)))
        assert made.transport.receive(2) == [packet(2), packet(3)]
        assert made.transport.counts["unread"] == 2


def test_frames_for_which_the_system_has_no_room_leave_later_and_the_next_packet_after_them() -> None:
    with bus() as made:
        import can

        send, room = made.wire.bus.send, [3]

        def bounded(frame: Any, timeout: float) -> None:
            if not room[0]:
                raise can.CanOperationError("no buffer space")
            room[0] -= 1
            send(frame, timeout)

        made.wire.bus.send = bounded
        made.send(packet(0), packet(1))
        assert made.left() == []
        assert made.queue.now < made.transport.due() <= made.queue.now + CAN_NS
        made.wait(1.0)
        room[0] = 100
        made.wait(1.0)
        assert made.left() == [packet(0)]
        assert made.transport.due() == made.queue.now + (len(frames_of(packet(0))) - 3) * BITS * S // BITRATE


def test_a_bus_that_is_down_is_lost_and_opened_again_when_it_is_up() -> None:
    with bus() as made:
        made.wire.pull()
        made.transport.receive(1)
        assert "the CAN bus any can0 is gone ([Errno 100] Network is down); is it down?" in made.transport.lost
        made.wait(1000.0)
        made.transport.renew()
        assert "cannot be opened ([Errno 100] Network is down)" in made.transport.lost
        made.wire.plug()
        made.wait(1000.0)
        made.transport.renew()
        made.send(packet(1))
        assert (made.transport.lost, made.left()) == ("", [packet(1)])


@pytest.mark.parametrize(
    ("interface", "channel", "said"),
    [
        ("socketcan", "no_such_bus", "the CAN bus socketcan no_such_bus cannot be opened"),
        ("no_such_interface", "x", "the CAN bus no_such_interface x cannot be opened"),
        ("virtual", "x", "'virtual' has no descriptor by which a process could wait"),
    ],
)
def test_a_bus_that_cannot_be_used_is_refused(interface: str, channel: str, said: str) -> None:
    python_can()
    with pytest.raises(BusError, match=said):
        CanTransport(interface, channel, BITRATE, TO, BY).open()


# which rates are enough


LAUNCH = "trailer_pursuit_serial"  # 8 states, 2 inputs, a plant step of 1 ms and a control period of 10 ms


def of(baud: int, **more: Any) -> tuple[Traffic, Any]:
    loop = servonode.load(LAUNCH, plant__device__baud=baud, **more)
    found = loop.closed_loop.traffic
    assert found is not None
    return found, loop


@pytest.mark.parametrize(("baud", "every"), [(921600, 1), (460800, 2), (230400, 5), (115200, 10), (57600, 10)])
def test_states_come_as_often_as_the_line_carries_and_once_a_period(baud: int, every: int) -> None:
    found, _ = of(baud)
    assert found.state_every == every
    assert found.states == pytest.approx(80 * 1000 / every)  # a packet of 78 bytes, and two of COBS
    assert found.inputs == pytest.approx(52 * 100)
    assert (found.share <= SHARE) == (baud > 57600)


@pytest.mark.parametrize(("baud", "enough"), [(9600, 115200), (57600, 115200)])
def test_what_a_line_cannot_carry_is_refused_with_the_rate_that_would(baud: int, enough: int) -> None:
    found, loop = of(baud)
    assert f"set plant.device.baud = {enough} here and in the firmware" in found.problem()
    with pytest.raises(LaunchError, match=r"\[plant.device\] baud: a line of") as caught:
        loop.closed_loop.check_traffic()
    assert caught.value.exit_code == 2
    report = loop.check()
    assert report.verdict == "no"
    assert [each.text for each in report.findings if each.level == "refuse"] == [found.problem()]


def test_a_rate_that_is_asked_for_is_kept_and_judged() -> None:
    found, _ = of(57600, plant__device__state_rate=50)
    assert (found.state_every, found.problem()) == (20, "")
    assert "lower plant.device.state_rate" in of(115200, plant__device__state_rate=500)[0].problem()


def test_a_network_has_no_baud_rate_and_the_machine_chooses() -> None:
    loop = servonode.load("trailer_pursuit_udp")
    found = loop.closed_loop.traffic
    assert found is not None
    assert (found.state_every, found.problem()) == (0, "")


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
