"""Packets over a CAN bus, by python-can: classic frames of up to 8 bytes with two identifiers, one each way."""

import select
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from servonode.bus import BusError
from servonode.errors import installing
from servonode.plants.drivers.can_frames import BITS, Joiner, frames_of
from servonode.plants.drivers.outgoing import Outgoing

if TYPE_CHECKING:
    import can

MOST = 4096  # frames of one call of `receive`
REOPEN_NS = 200_000_000  # between two attempts to open a lost bus
CLOSE_S = 0.2  # longest time that closing may take
KNOW_THE_RATE = ("socketcan", "udp_multicast")  # of these the rate is not set by python-can


def extra_problem() -> str:
    """Why python-can cannot be used, with the remedy; empty: it can."""
    try:
        import can  # noqa: F401
    except ImportError:
        return f"the can driver needs python-can; install it: {installing('can')}"
    return ""


class CanTransport:
    """A CAN bus, read and written without blocking; open it after the fork. It has the methods of a `Transport`.

    to, by: identifiers of the frames to the machine and from it.
    """

    def __init__(self, interface: str, channel: str, bitrate: int, to: int, by: int) -> None:
        self.counts: Counter[str] = Counter()
        self.lost = ""
        self.came = 0
        self.place = f"{interface} {channel}"
        self._interface, self._channel, self._bitrate, self._to, self._by = interface, channel, bitrate, to, by
        self._bus: can.BusABC | None = None
        self._fd = -1
        self._joiner = Joiner(self.counts)
        self._waiting = Outgoing()
        self._unsent: list[bytes] = []  # frames of the packet that is being written
        self._free_ns = 0  # when the bus will have sent what was written
        self._retry_ns = 0

    def open(self) -> None:
        """Open the bus; BusError where python-can cannot, or nobody could wait for its frames."""
        if problem := extra_problem():
            raise BusError(problem)
        self._open()

    def _open(self) -> None:
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
            self._fd = opened.fileno()
        except NotImplementedError:
            self._fd = -1
        if self._fd < 0:
            opened.shutdown()
            raise BusError(
                f"plant.device.interface = {self._interface!r} has no descriptor by which a process could wait for "
                "frames; take socketcan, or udp_multicast on this computer"
            )
        self._bus, self.lost = opened, ""
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._joiner = Joiner(self.counts)
        self._waiting.clear()
        self._unsent, self._free_ns = [], 0

    @property
    def fds(self) -> tuple[int, ...]:
        """The bus's descriptor."""
        return () if self._bus is None else (self._fd,)

    @property
    def hint(self) -> str:
        """Why no packet comes: no frame with the machine's identifier, or none that make a packet."""
        if not self.came:
            text = f"no frame with the identifier {self._by:#x} comes over {self.place}; is the board on, "
            return f"{text}is that its identifier, and is {self._bitrate} bit/s the rate of all on the bus?"
        return f"{self.came} bytes came over {self.place}, but no packet among them; does it run servonode's firmware?"

    def send(self, packet: bytes) -> None:
        """Send a packet as soon as the bus has sent those before; it replaces an older one that waits."""
        if self._bus is None:
            self.reopen()
            return
        self.counts["unsent"] += self._waiting.put(packet)
        self._flush()

    def due(self) -> int | None:
        """When the bus is free for what waits [monotonic ns]; None: nothing waits."""
        return self._free_ns if self._bus is not None and (self._unsent or self._waiting) else None

    def _flush(self) -> None:
        """Send what waits, as far as the bus is free for it."""
        import can

        while self._bus is not None:
            now = time.monotonic_ns()
            if now < self._free_ns:
                return
            if not self._unsent:
                self._unsent = frames_of(self._waiting.take())
                if not self._unsent:
                    return
            whole = self._unsent
            try:
                while self._unsent:
                    frame = can.Message(arbitration_id=self._to, is_extended_id=False, data=self._unsent[0])
                    self._bus.send(frame, timeout=0)
                    self._unsent = self._unsent[1:]
                self._free_ns = now + self._time_of(len(whole))
            except can.CanOperationError:  # the queue of the system is full
                self._free_ns = now + self._time_of(1)
                return
            except OSError as error:
                self._lose(error)

    def _time_of(self, frames: int) -> int:
        """How long frames are on the bus [ns]."""
        return frames * BITS * 1_000_000_000 // self._bitrate

    def receive(self, bound: int) -> list[bytes]:
        """The packets that have come, the newest `bound` of them; older ones are dropped and counted (`unread`)."""
        self._flush()
        packets: list[bytes] = []
        for _ in range(MOST):
            frame = self._read()
            if frame is None:
                break
            if frame.arbitration_id == self._by and not (frame.is_extended_id or frame.is_error_frame):
                self.came += len(frame.data)
                if packet := self._joiner.take(bytes(frame.data)):
                    packets.append(packet)
        self.counts["unread"] += max(len(packets) - bound, 0)
        return packets[-bound:]

    def _read(self) -> "can.Message | None":
        """The next frame; None: none has come."""
        import can

        if self._bus is None or not self._poll.poll(0):
            return None
        try:
            return self._bus.recv(timeout=0)
        except (can.CanError, OSError) as error:
            self._lose(error)
            return None

    def _lose(self, error: Exception) -> None:
        self.lost = (
            f"the CAN bus {self.place} is gone ({' '.join(str(error).split())}); is it down? Bring it up again, "
        )
        self.lost += "then reset and arm"
        self.close()

    def reopen(self) -> None:
        """Open a lost bus again; a few attempts a second at most."""
        now = time.monotonic_ns()
        if self._bus is None and self.lost and now >= self._retry_ns:
            self._retry_ns = now + REOPEN_NS
            try:
                self._open()
            except BusError as error:
                self.lost = str(error)

    def close(self) -> None:
        """Close the bus, once what ends a run has been sent; a second call does nothing."""
        end = time.monotonic() + CLOSE_S
        while (self._unsent or self._waiting.first) and not self.lost and time.monotonic() < end:
            time.sleep(0.001)
            self._flush()
        opened, self._bus = self._bus, None
        if opened is not None:
            opened.shutdown()
