"""What carries the packets of docs/reference/firmware.md: a network, or a line, which may be slower than asked."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from servonode.bus import BusError
from servonode.bus.link import Wire
from servonode.plants.drivers.packets import is_replaced

REOPEN_NS = 200_000_000  # between two attempts to open what was lost
CLOSE_S = 0.2  # longest time that closing may take
SHARE = 0.95  # of a line, which may be in use


@dataclass(frozen=True)
class Line:
    """What packets go over.

    rate [bit/s], its key and those that there are; size: bytes that a packet of so many takes, each of so many `bits`;
    shared: whether both directions have it together.
    """

    rate: int
    key: str
    rates: tuple[int, ...]
    size: Callable[[int], int]
    bits: float
    shared: bool = False

    def share(self, states: float, inputs: float) -> float:
        """The share of it that so many bytes per second from and to the machine take."""
        return (states + inputs if self.shared else max(states, inputs)) * self.bits / self.rate


@dataclass(frozen=True)
class Traffic:
    """The traffic of a run over packets.

    state_every: plant steps between two states; 0: the machine chooses. states, inputs: bytes per second of wall-clock
    time on the line, from and to the machine. line: None: a network, which has none.
    """

    state_every: int
    states: float
    inputs: float
    line: Line | None

    @property
    def share(self) -> float:
        """The share of the line that is taken, of one with two directions by the busier one; 0 without a line."""
        return self.line.share(self.states, self.inputs) if self.line else 0.0

    def problem(self) -> str:
        """Why the line cannot carry this, with the rate that could; empty: it can."""
        line = self.line
        if line is None or self.share <= SHARE:
            return ""
        enough = next((each for each in line.rates if each >= line.rate * self.share / SHARE * (1 - 1e-9)), None)
        what = f"a bus of {line.rate} bit/s carries" if line.shared else f"a line of {line.rate} baud carries"
        text = (
            f"{what} {line.rate * SHARE / line.bits:.0f} bytes/s with room to spare; this run "
            f"sends {self.states:.0f} bytes/s from the machine and {self.inputs:.0f} to it"
        )
        faster = f"set plant.device.{line.key} = {enough} here and in the firmware, or " if enough else ""
        return f"{text}; {faster}lower plant.device.state_rate, or raise the control period"


class Transport(Wire):
    """A wire for packets, which it carries unchanged.

    came: bytes received so far. place: where the machine is, for people. line: what the packets go over; None: a
    network.
    """

    lost = ""
    fds: tuple[int, ...] = ()

    def __init__(self, place: str, line: Line | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.came = 0
        self.place, self.line = place, line

    def problem(self) -> str:
        """Why it cannot be opened now, with the remedy, as far as can be seen before; empty: it can."""
        return ""

    def send(self, packet: bytes) -> None:
        """Send a packet; it is lost if nobody reads."""
        raise NotImplementedError

    def receive(self, bound: int) -> list[bytes]:
        """The packets that have come, at most so many; what waits for a free line is sent."""
        raise NotImplementedError


class LineTransport(Transport):
    """A line with a rate: neither this process nor the system keeps a queue, so that nothing old reaches the machine.

    At most one packet of inputs waits, the newest, beside setups and the end of a run, which go first and are replaced
    by nothing but another one. A subclass opens and shuts the line, and writes and reads what it carries.

    pieces: those of a packet that the line carries, bytes or frames; bits: of a piece on the line. packet: the packet
    in what `_arrived` gives.
    """

    def __init__(
        self, place: str, line: Line, bits: int, pieces: Callable[[bytes], Any], packet: Callable[[bytes], bytes]
    ) -> None:
        super().__init__(place, line)
        self._rate, self._bits, self._pieces, self._packet = line.rate, bits, pieces, packet
        self._first: list[bytes] = []  # setups and ends of runs that wait
        self._newest = b""  # inputs that wait; empty: none
        self._unsent: Any = b""  # pieces of the packet that is being written
        self._free_ns = 0  # when the line will have sent what was written
        self._retry_ns = 0

    def _open_line(self) -> None:
        """Open the line; BusError where that fails."""
        raise NotImplementedError

    def _shut(self) -> None:
        """Free the line."""
        raise NotImplementedError

    def _write(self, now: int) -> None:
        """Write of what is unsent what the system takes; BlockingIOError: no more at present, OSError: it is gone."""
        raise NotImplementedError

    def _arrived(self) -> list[bytes]:
        """What has come of whole packets."""
        raise NotImplementedError

    def _go_down(self, error: Exception) -> None:
        """The line is gone: `_lose` it."""
        raise NotImplementedError

    def _held(self) -> int:
        """The pieces of earlier packets that the system still holds, as where the line is slower than stated."""
        return 0

    def _lasts_ns(self, pieces: int) -> int:
        """The time [ns] that the line takes for so many."""
        return pieces * self._bits * 1_000_000_000 // self._rate

    def _flush(self) -> None:
        """Write what waits, as far as the line is free for it."""
        while self.fds:
            now = time.monotonic_ns()
            if not self._unsent:
                if now < self._free_ns or not self._waits:
                    return
                if held := self._held():
                    self._free_ns = now + self._lasts_ns(held)
                    return
                self._unsent = self._pieces(self._take())
                self._free_ns = now + self._lasts_ns(len(self._unsent))
            try:
                self._write(now)
            except BlockingIOError:
                return
            except OSError as error:
                self._go_down(error)

    def receive(self, bound: int) -> list[bytes]:
        """The packets that have come, the newest `bound` of them; older ones are dropped and counted (`unread`).

        None is kept for the next call: a flood of packets would make each call longer than the one before.
        """
        self._flush()
        came = self._arrived()
        self.counts["unread"] += max(len(came) - bound, 0)
        return [self._packet(each) for each in came[-bound:]]

    def open(self) -> None:
        """Open the line; BusError where it cannot be used."""
        if problem := self.problem():
            raise BusError(problem)
        self._begin()

    def _begin(self) -> None:
        self._first, self._newest, self._unsent, self._free_ns = [], b"", b"", 0
        self._open_line()
        self.lost = ""

    @property
    def _waits(self) -> bool:
        return bool(self._first or self._newest)

    def _take(self) -> bytes:
        """The packet that leaves next; empty: none waits."""
        if self._first:
            return self._first.pop(0)
        packet, self._newest = self._newest, b""
        return packet

    def send(self, packet: bytes) -> None:
        """Send a packet as soon as the line has sent those before; it replaces an older one that waits."""
        if not self.fds:
            self.renew()
            return
        if is_replaced(packet):
            self.counts["unsent"] += bool(self._newest)
            self._newest = packet
        else:
            self._first, self._newest = [*self._first[-1:], packet], b""
        self._flush()

    def due(self) -> int | None:
        """When the line is free for what waits [monotonic ns]; None: nothing waits."""
        return self._free_ns if self.fds and self._waits else None

    def _lose(self, text: str) -> None:
        """The line is gone, for this reason and with this remedy."""
        self.lost = f"{text}, then reset and arm"
        self.close()

    def renew(self) -> None:
        """Open a lost line again if it is back; a few attempts a second at most."""
        now = time.monotonic_ns()
        if not self.fds and self.lost and now >= self._retry_ns:
            self._retry_ns = now + REOPEN_NS
            if not self.problem():
                try:
                    self._begin()
                except BusError as error:
                    self.lost = str(error)

    def close(self) -> None:
        """Close the line, once what ends a run has been written; a second call does nothing."""
        end = time.monotonic() + CLOSE_S
        while (self._unsent or self._first) and not self.lost and time.monotonic() < end:
            time.sleep(0.001)
            self._flush()
        if self.fds:
            self._shut()
        self.fds = ()
