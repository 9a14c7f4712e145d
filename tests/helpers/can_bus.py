"""A board on a CAN bus that python-can carries between processes: firmware behind a terminal, and firmware/can.c.

What the firmware sends leaves as frames that `can_next` makes; frames for it are put together by `can_take`.
"""

import ctypes
import os
import random
import select
import subprocess
import sys
import tty
from pathlib import Path
from typing import Any, Self

if __name__ != "__main__":
    from tests.helpers.host import as_hardware

INTERFACE = "udp_multicast"
PACKET_SIZE = 1322  # of packet.h with its usual sizes; the structs below are those of line.h and can.h
TO, BY = 0x101, 0x102


class LineState(ctypes.Structure):
    _fields_ = (
        ("newest", ctypes.c_uint8 * PACKET_SIZE), ("fault", ctypes.c_uint8 * 46), ("n_newest", ctypes.c_size_t),
        ("n_fault", ctypes.c_size_t), ("replaced", ctypes.c_uint32),
    )  # fmt: skip


class Out(ctypes.Structure):
    _fields_ = (
        ("packet", ctypes.c_uint8 * PACKET_SIZE), ("size", ctypes.c_size_t), ("at", ctypes.c_size_t),
        ("number", ctypes.c_uint),
    )  # fmt: skip


class In(ctypes.Structure):
    _fields_ = (
        ("packet", ctypes.c_uint8 * PACKET_SIZE), ("size", ctypes.c_size_t), ("number", ctypes.c_uint),
        ("open", ctypes.c_int), ("refused", ctypes.c_uint32),
    )  # fmt: skip


class CanFrames:
    """firmware/can.c, from the library that its Makefile builds."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        for each in (self._c.can_next, self._c.can_take):
            each.restype = ctypes.c_size_t
        self._line, self._out, self._in = LineState(), Out(), In()
        self._frame = (ctypes.c_uint8 * 8)()

    @property
    def refused(self) -> int:
        return int(self._in.refused)

    def frames(self, packet: bytes) -> list[bytes]:
        """The frames of a packet."""
        self._c.line_put(ctypes.byref(self._line), packet, ctypes.c_size_t(len(packet)))
        found = []
        while size := self._c.can_next(ctypes.byref(self._out), ctypes.byref(self._line), self._frame):
            found.append(bytes(self._frame[:size]))
        return found

    def take(self, frame: bytes) -> bytes:
        """The packet that a frame completes; empty: none."""
        size = self._c.can_take(ctypes.byref(self._in), frame, ctypes.c_size_t(len(frame)))
        return bytes(self._in.packet[:size])


def free_channel() -> str:
    """A multicast group of this computer that most likely nobody else uses."""
    return f"239.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}"


class CanBoard:
    """The process that joins a terminal and a bus; a context manager that ends it."""

    def __init__(self, library: Path, terminal: Path, channel: str) -> None:
        command = [sys.executable, __file__, str(library), str(terminal), channel]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ""})
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"on the bus\n"
        as_hardware(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def serve(library: str, terminal: str, channel: str) -> None:
    """Pass packets on until the process is killed."""
    import can

    from servonode.plants.drivers.serial import stuffed, unstuffed

    c, into = CanFrames(Path(library)), b""
    bus: Any = can.Bus(interface=INTERFACE, channel=channel)
    fd = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(fd)
    os.write(fd, b"\0")
    print("on the bus", flush=True)
    while True:
        ready, _, _ = select.select([fd, bus.fileno()], [], [])
        if fd in ready:
            *whole, into = (into + os.read(fd, 4096)).split(b"\0")
            for data in (frame for each in whole if each for frame in c.frames(unstuffed(each))):
                bus.send(can.Message(arbitration_id=BY, is_extended_id=False, data=data))
        if bus.fileno() in ready:
            frame = bus.recv(timeout=0)
            if frame is not None and frame.arbitration_id == TO and (packet := c.take(bytes(frame.data))):
                os.write(fd, stuffed(packet))


if __name__ == "__main__":
    serve(*sys.argv[1:])
