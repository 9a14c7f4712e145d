"""Packets over a serial line, by pyserial: COBS, each ended by a zero byte."""

import errno
import grp
import os
import select
import stat
import termios
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from servonode.bus import BusError
from servonode.errors import installing
from servonode.plants.drivers.cobs import stuffed, unstuffed
from servonode.plants.drivers.outgoing import Outgoing
from servonode.plants.drivers.packets import SIZE

if TYPE_CHECKING:
    import serial

FRAME = SIZE + SIZE // 254 + 2  # bytes of the longest frame on the wire
REOPEN_NS = 200_000_000  # between two attempts to open a lost port
BITS = 10  # of a byte on the line, with its start and stop bit
CLOSE_S = 0.2  # longest time that closing may take
CHUNK, CHUNKS = 4096, 16  # bytes of one read, and reads in one call of `receive`
HUNG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL
GONE = "is it unplugged? Plug it in again, then reset and arm"


def port_problem(port: str) -> str:
    """Why a serial port cannot be used now, with the remedy; empty: it can."""
    path = Path(port)
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        return f"there is no serial port {port}; plug the board in, or take {_list(ports())}"
    if not path.is_char_device():
        return f"{port} is not a serial port; take {_list(ports())}"
    return "" if os.access(path, os.R_OK | os.W_OK) else _permission_problem(port, found)


def _permission_problem(port: str, found: os.stat_result) -> str:
    both = stat.S_IRGRP | stat.S_IWGRP
    # membership in the group would not help, or would give far more than a port
    if found.st_mode & both != both or found.st_gid == 0:
        return f"no permission for {port}, which is for its owner alone; give it a group by a udev rule (dialout, 0660)"
    try:
        group = grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        group = str(found.st_gid)
    return f"no permission for {port}; become a member of its group: sudo usermod -aG {group} $USER, then log in again"


def extra_problem() -> str:
    """Why pyserial cannot be used, with the remedy; empty: it can."""
    try:
        import serial  # noqa: F401
    except ImportError:
        return f"the serial driver needs pyserial; install it: {installing('hil')}"
    return ""


def ports() -> list[str]:
    """The serial ports of this computer, by their lasting names where they have one."""
    if extra_problem():
        return []
    from serial.tools.list_ports import comports

    lasting = {str(each.resolve()): str(each) for each in Path("/dev/serial/by-id").glob("*")}
    return sorted(lasting.get(each.device, each.device) for each in comports())


def _list(found: list[str]) -> str:
    return " or ".join(found) if found else "another one (this computer has none at present)"


class SerialTransport:
    """A serial port, read and written without blocking; open it after the fork.

    It has the methods of a `Transport`, and what waits in each direction of the line.
    """

    def __init__(self, port: str, baud: int) -> None:
        self.counts: Counter[str] = Counter()
        self.lost = ""
        self.came = 0
        self.place = port
        self._port, self._baud = port, baud
        self._serial: serial.Serial | None = None
        self._into = bytearray()
        self._unsent = b""  # of the frame that is being written
        self._waiting = Outgoing()
        self._free_ns = 0  # when the line will have sent what was written
        self._retry_ns = 0

    def open(self) -> None:
        """Open the port; BusError where it is missing, forbidden or in use."""
        if problem := extra_problem() or port_problem(self._port):
            raise BusError(problem)
        self._open()

    def _open(self) -> None:
        import serial

        try:
            self._serial = serial.Serial(self._port, self._baud, timeout=0, write_timeout=0, exclusive=True)
            self._serial.reset_input_buffer()
        except (serial.SerialException, OSError, ValueError, termios.error) as error:  # the last one is no OSError
            self.close()  # a port that was opened and could not be emptied
            why = error.args[-1] if isinstance(error, termios.error) else error
            text = f"{self._port} cannot be opened at {self._baud} baud ({why})"
            raise BusError(f"{text}; stop the program that uses it, or check plant.device.baud") from None
        self.lost = ""
        self._poll = select.poll()
        self._poll.register(self._serial.fileno(), select.POLLIN)
        self._into.clear()
        self._unsent = b"\0"  # ends what the machine may have received so far
        self._waiting.clear()
        self._free_ns = 0

    @property
    def fds(self) -> tuple[int, ...]:
        """The port's descriptor."""
        return () if self._serial is None else (self._serial.fileno(),)

    @property
    def hint(self) -> str:
        """Why no packet comes: nothing comes at all, or bytes at another baud rate, most likely."""
        if not self.came:
            text = (
                f"nothing comes over {self._port} at plant.device.baud = {self._baud}; is that the rate of the board, "
            )
            return f"{text}and does it run servonode's firmware?"
        text = f"{self.came} bytes came over {self._port}, but no packet among them; "
        return f"{text}is plant.device.baud = {self._baud} the speed of the firmware?"

    def send(self, packet: bytes) -> None:
        """Write a packet as soon as the line has sent those before; it replaces an older one that waits.

        Nothing old reaches the machine, whatever the baud rate, and neither this process nor the system keeps a queue.
        """
        if self._serial is None:
            self.reopen()
            return
        self.counts["unsent"] += self._waiting.put(packet)
        self._flush()

    def due(self) -> int | None:
        """When the line is free for what waits [monotonic ns]; None: nothing waits."""
        return self._free_ns if self._serial is not None and self._waiting else None

    def _flush(self) -> None:
        """Write what waits, as far as the line is free for it."""
        while self._serial is not None:
            now = time.monotonic_ns()
            if not self._unsent:
                if now < self._free_ns or not self._waiting:
                    return
                if held := self._held():
                    self._free_ns = now + self._lasts_ns(held)
                    return
                self._unsent = stuffed(self._waiting.take())
                self._free_ns = now + self._lasts_ns(len(self._unsent))
            try:
                self._unsent = self._unsent[os.write(self._serial.fileno(), self._unsent) :]
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(error)

    def _lasts_ns(self, n: int) -> int:
        """The time [ns] that the line takes for n bytes."""
        return n * BITS * 1_000_000_000 // self._baud

    def _held(self) -> int:
        """The bytes of earlier frames that the system still holds, as where the line is slower than stated."""
        assert self._serial is not None
        try:
            waiting: int = self._serial.out_waiting
            return waiting
        except OSError:
            return 0  # a port that cannot tell

    def receive(self, bound: int) -> list[bytes]:
        """The packets that have come, the newest `bound` of them; older ones are dropped and counted (`unread`).

        None is kept for the next call: a flood of packets would make each call longer than the one before.
        """
        self._flush()
        for _ in range(CHUNKS):
            data = self._read()
            self.came += len(data)
            self._into += data
            if len(data) < CHUNK:
                break
        *frames, self._into = self._into.split(b"\0")
        if len(self._into) > FRAME:
            self.counts["length"] += 1
            self._into.clear()
        frames = [frame for frame in frames if frame]
        if len(frames) > bound:
            self.counts["unread"] += len(frames) - bound
        return [unstuffed(bytes(frame)) for frame in frames[-bound:]]

    def _read(self) -> bytes:
        if self._serial is None:
            return b""
        events = self._poll.poll(0)
        if not events:
            return b""
        try:
            data = os.read(self._serial.fileno(), CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            self._lose(error)
            return b""
        if not data and events[0][1] & HUNG_UP:
            self._lose(OSError(errno.EIO, ""))
        return data

    def _lose(self, error: OSError) -> None:
        # of a terminal that has hung up, whichever call notices it
        why = "hung up" if error.errno == errno.EIO else os.strerror(error.errno or 0)
        self.lost = f"the serial port {self._port} is gone ({why}); {GONE}"
        self.close()

    def reopen(self) -> None:
        """Open a lost port again if it is back; a few attempts a second at most."""
        now = time.monotonic_ns()
        if self._serial is None and self.lost and now >= self._retry_ns:
            self._retry_ns = now + REOPEN_NS
            if not port_problem(self._port):
                try:
                    self._open()
                except BusError as error:
                    self.lost = str(error)

    def close(self) -> None:
        """Close the port, once what ends a run has been written; a second call does nothing."""
        end = time.monotonic() + CLOSE_S
        while self._waiting.first and not self.lost and time.monotonic() < end:
            time.sleep(0.001)
            self._flush()
        opened, self._serial = self._serial, None
        if opened is not None:
            try:
                opened.close()
            except OSError:
                self.counts["close"] += 1
