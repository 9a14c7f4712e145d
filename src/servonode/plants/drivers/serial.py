"""The serial driver: the machine is a microcontroller on a serial port, which speaks docs/reference/firmware.md.

pyserial opens the port. On the line packets are encoded by COBS: no zero byte within one, and one at its end.
"""

import errno
import grp
import os
import select
import stat
import termios
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from servonode.bus import BusError
from servonode.errors import installing
from servonode.plants.drivers.driver import DriverError, Stated, check_pace
from servonode.plants.drivers.packet_driver import SECTION, packet_driver
from servonode.plants.drivers.packets import SIZE
from servonode.plants.drivers.transport import Line, LineTransport

if TYPE_CHECKING:
    import serial

FRAME = SIZE + SIZE // 254 + 2  # bytes of the longest frame on the wire
BITS = 10  # of a byte on the line, with its start and stop bit
BAUDS = (9600, 19200, 38400, 57600, 115200, 230400, 460800, 921600, 1_500_000, 2_000_000, 3_000_000, 6_000_000)
CHUNK, CHUNKS = 4096, 16  # bytes of one read, and reads in one call of `receive`
HUNG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL


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


def stuffed(data: bytes) -> bytes:
    """The data encoded by COBS, without zero bytes, and the zero byte that ends it."""
    out, parts = bytearray(), data.split(b"\0")
    for i, part in enumerate(parts):
        last = i + 1 == len(parts)
        full = (len(part) - last) // 254 if part else 0  # blocks of 254 bytes that no zero follows
        for at in range(0, 254 * full, 254):
            out += b"\xff" + part[at : at + 254]
        out.append(len(part) - 254 * full + 1)
        out += part[254 * full :]
    return bytes(out) + b"\0"


def unstuffed(frame: bytes) -> bytes:
    """The data of a frame that came without its last zero byte; empty where the frame is no COBS."""
    out, i = bytearray(), 0
    while i < len(frame):
        code = frame[i]
        part = frame[i + 1 : i + code]
        if code == 0 or len(part) != code - 1 or 0 in part:
            return b""
        out += part
        i += code
        if code < 0xFF and i < len(frame):
            out.append(0)
    return bytes(out)


class SerialTransport(LineTransport):
    """A serial port, read and written without blocking."""

    def __init__(self, port: str, baud: int) -> None:
        line = Line(baud, "baud", BAUDS, lambda size: size + size // 254 + 2, BITS)
        super().__init__(port, line, BITS, stuffed, unstuffed)
        self._baud = baud
        self._serial: serial.Serial
        self._into = bytearray()

    def problem(self) -> str:
        """Why the port cannot be used now, with the remedy; empty: it can."""
        return extra_problem() or port_problem(self.place)

    def _open_line(self) -> None:
        import serial

        opened = None
        try:
            opened = serial.Serial(self.place, self._baud, timeout=0, write_timeout=0, exclusive=True)
            opened.reset_input_buffer()
        except (serial.SerialException, OSError, ValueError, termios.error) as error:  # the last one is no OSError
            if opened is not None:
                with suppress(OSError):  # it may have vanished
                    opened.close()
            why = error.args[-1] if isinstance(error, termios.error) else error
            text = f"{self.place} cannot be opened at {self._baud} baud ({why})"
            raise BusError(f"{text}; stop the program that uses it, or check plant.device.baud") from None
        self._serial, self.fds = opened, (opened.fileno(),)
        self._poll = select.poll()
        self._poll.register(opened.fileno(), select.POLLIN)
        self._into.clear()
        self._unsent = b"\0"  # ends what the machine may have received so far

    @property
    def hint(self) -> str:
        """Why no packet comes: nothing comes at all, or bytes at another baud rate, most likely."""
        if not self.came:
            text = f"nothing comes over {self.place} at plant.device.baud = {self._baud}; is that the rate of the "
            return f"{text}board, and does it run servonode's firmware?"
        text = f"{self.came} bytes came over {self.place}, but no packet among them; "
        return f"{text}is plant.device.baud = {self._baud} the speed of the firmware?"

    def _write(self, now: int) -> None:  # noqa: ARG002
        self._unsent = self._unsent[os.write(self._serial.fileno(), self._unsent) :]

    def _held(self) -> int:
        try:
            waiting: int = self._serial.out_waiting
            return waiting
        except OSError:
            return 0  # a port that cannot tell

    def _arrived(self) -> list[bytes]:
        """The frames that have come."""
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
        return [bytes(frame) for frame in frames if frame]

    def _read(self) -> bytes:
        events = self._poll.poll(0) if self.fds else ()
        if not events:
            return b""
        try:
            data = os.read(self._serial.fileno(), CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            self._go_down(error)
            return b""
        if not data and events[0][1] & HUNG_UP:
            self._go_down(OSError(errno.EIO, ""))
        return data

    def _go_down(self, error: Exception) -> None:
        # of a terminal that has hung up, whichever call notices it
        number = getattr(error, "errno", None) or 0
        why = "hung up" if number == errno.EIO else os.strerror(number)
        self._lose(f"the serial port {self.place} is gone ({why}); is it unplugged? Plug it in again")

    def _shut(self) -> None:
        try:
            self._serial.close()
        except OSError:
            self.counts["close"] += 1


def _check(stated: Stated) -> None:
    """Refuse a missing port, and a speed that hardware cannot have."""
    if not stated.device["port"]:
        text = "missing; name the board's serial port, such as /dev/ttyACM0 (python -m serial.tools.list_ports)"
        raise DriverError(SECTION, "port", text)
    check_pace(stated)


DRIVER = packet_driver(
    "serial",
    "a microcontroller on a serial port",
    ("device.port", "device.baud"),
    lambda stated: SerialTransport(stated.device["port"], stated.device["baud"]),
    check=_check,
)
