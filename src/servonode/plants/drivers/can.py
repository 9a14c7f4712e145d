"""The CAN driver: the machine is a microcontroller on a CAN bus, which speaks docs/reference/firmware.md.

python-can opens the bus: classic frames of up to 8 bytes with two identifiers, one each way. Byte 0 of a frame has
whether it is the first (bit 7) and the last (bit 6) of its packet, and its number in it, modulo 64; up to 7 bytes of
the packet follow. The packet's own checksum says whether what came together belongs together.
"""

import select
from collections import Counter
from typing import TYPE_CHECKING, Any

from servonode.bus import BusError
from servonode.errors import installing
from servonode.plants.drivers.driver import DriverError, Stated, check_pace
from servonode.plants.drivers.packet_driver import SECTION, packet_driver
from servonode.plants.drivers.packets import SIZE
from servonode.plants.drivers.transport import Line, LineTransport

if TYPE_CHECKING:
    import can

DATA = 7  # bytes of a packet in a frame
BITS = 135  # of a frame of 8 bytes on the bus at most, with the bits that are stuffed in
FIRST, LAST, NUMBER = 0x80, 0x40, 0x3F
BITRATES = (125_000, 250_000, 500_000, 1_000_000)
MOST = 4096  # frames of one call of `receive`
KNOW_THE_RATE = ("socketcan", "udp_multicast")  # of these the rate is not set by python-can


def frames_of(packet: bytes) -> list[bytes]:
    """The frames of a packet."""
    starts = range(0, len(packet), DATA)
    return [
        bytes([FIRST * (at == 0) | LAST * (at == starts[-1]) | (i & NUMBER)]) + packet[at : at + DATA]
        for i, at in enumerate(starts)
    ]


class Joiner:
    """Puts frames together to packets. counts: those that came out of order (`frame`), or made too much (`length`)."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._packet = bytearray()
        self._next = -1  # number of the frame that comes next; -1: a first one

    def take(self, frame: bytes) -> bytes:
        """The packet that a frame completes; empty: none."""
        if len(frame) < 2:
            return self._refuse("frame")
        head = frame[0]
        if head & FIRST:
            self._counts["frame"] += self._next >= 0  # the packet before has no end
            self._packet.clear()
            self._next = 0
        if self._next < 0 or head & NUMBER != self._next & NUMBER:
            return self._refuse("frame")
        self._packet += frame[1:]
        self._next += 1
        if len(self._packet) > SIZE:
            return self._refuse("length")
        if not head & LAST:
            return b""
        self._next = -1
        return bytes(self._packet)

    def _refuse(self, reason: str) -> bytes:
        self._counts[reason] += 1
        self._next = -1
        return b""


class CanTransport(LineTransport):
    """A CAN bus, read and written without blocking. to, by: identifiers of the frames to the machine and from it."""

    def __init__(self, interface: str, channel: str, bitrate: int, to: int, by: int) -> None:
        frames = Line(bitrate, "bitrate", BITRATES, lambda size: 8 * -(-size // DATA), BITS / 8, shared=True)
        super().__init__(f"{interface} {channel}", frames, BITS, frames_of, bytes)
        self._interface, self._channel, self._bitrate, self._to, self._by = interface, channel, bitrate, to, by
        self._bus: can.BusABC
        self._joiner = Joiner(self.counts)

    def problem(self) -> str:
        """Why python-can cannot be used, with the remedy; empty: it can."""
        try:
            import can  # noqa: F401
        except ImportError:
            return f"the can driver needs python-can; install it: {installing('can')}"
        return ""

    def _open_line(self) -> None:
        import can

        more: dict[str, Any] = {} if self._interface in KNOW_THE_RATE else {"bitrate": self._bitrate}
        try:
            opened = can.Bus(interface=self._interface, channel=self._channel, **more)
        except (can.CanError, OSError, ValueError, ImportError, TypeError) as error:
            text = f"the CAN bus {self.place} cannot be opened ({' '.join(str(error).split())})"
            raise BusError(
                f"{text}; check plant.device.interface and channel, and that it is up: ip link set {self._channel} up "
                f"type can bitrate {self._bitrate}"
            ) from None
        try:
            fd = opened.fileno()
        except NotImplementedError:
            fd = -1
        if fd < 0:
            opened.shutdown()
            raise BusError(
                f"plant.device.interface = {self._interface!r} has no descriptor by which a process could wait for "
                "frames; take socketcan, or udp_multicast on this computer"
            )
        self._bus, self.fds = opened, (fd,)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._joiner, self._full = Joiner(self.counts), False  # full: the queue of the system

    @property
    def hint(self) -> str:
        """Why no packet comes: no frame with the machine's identifier, or none that make a packet."""
        if not self.came:
            text = f"no frame with the identifier {self._by:#x} comes over {self.place}; is the board on, "
            return f"{text}is that its identifier, and is {self._bitrate} bit/s the rate of all on the bus?"
        return f"{self.came} bytes came over {self.place}, but no packet among them; does it run servonode's firmware?"

    def due(self) -> int | None:
        """When the bus is free for what waits [monotonic ns]; None: nothing waits."""
        return self._free_ns if self.fds and self._unsent else super().due()

    def _write(self, now: int) -> None:
        import can

        if self._full and now < self._free_ns:
            raise BlockingIOError  # the queue of the system was full: not before a frame can have gone
        left = len(self._unsent)
        try:
            while self._unsent:
                self._bus.send(
                    can.Message(arbitration_id=self._to, is_extended_id=False, data=self._unsent[0]), timeout=0
                )
                self._unsent = self._unsent[1:]
        except can.CanOperationError:  # the queue of the system is full
            self._free_ns, self._full = now + self._lasts_ns(1), True
            raise BlockingIOError from None
        self._free_ns, self._full = now + self._lasts_ns(left), False

    def _arrived(self) -> list[bytes]:
        packets: list[bytes] = []
        for _ in range(MOST):
            frame = self._read()
            if frame is None:
                break
            if frame.arbitration_id == self._by and not (frame.is_extended_id or frame.is_error_frame):
                self.came += len(frame.data)
                if packet := self._joiner.take(bytes(frame.data)):
                    packets.append(packet)
        return packets

    def _read(self) -> "can.Message | None":
        """The next frame; None: none has come."""
        import can

        if not self.fds or not self._poll.poll(0):
            return None
        try:
            return self._bus.recv(timeout=0)
        except (can.CanError, OSError) as error:
            self._go_down(error)
            return None

    def _go_down(self, error: Exception) -> None:
        why = " ".join(str(error).split())
        self._lose(f"the CAN bus {self.place} is gone ({why}); is it down? Bring it up again")

    def _shut(self) -> None:
        self._bus.shutdown()


def _check(stated: Stated) -> None:
    """Refuse a missing channel, equal identifiers, and a speed that hardware cannot have."""
    device = stated.device
    if not device["channel"]:
        raise DriverError(SECTION, "channel", "missing; name the CAN bus, such as can0 (ip -brief link show type can)")
    if device["id_to"] == device["id_from"]:
        text = f"{device['id_to']:#x} is that of both directions; give the frames to the machine and from it two"
        raise DriverError(SECTION, "id_to", text)
    check_pace(stated)


def _exposure(stated: Stated) -> list[str]:
    """Who else can reach the machine."""
    return [f"every node of the CAN bus {stated.device['channel']} can move the machine or lie about its state"]


KEYS = ("interface", "channel", "bitrate", "id_to", "id_from")
DRIVER = packet_driver(
    "can",
    "a microcontroller on a CAN bus",
    tuple(f"device.{key}" for key in KEYS),
    lambda stated: CanTransport(*(stated.device[key] for key in KEYS)),
    _exposure,
    check=_check,
)
