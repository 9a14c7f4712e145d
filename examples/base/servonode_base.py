"""A driver to copy: a base on a serial port that takes lines `N V OMEGA` and sends lines `N X Y PSI V OMEGA`.

N numbers what is sent, and the base sends back the newest one that its drives have. Speeds are in m/s and rad/s. The
base stops by itself when no line comes for half a second: fake_base.py beside this file is such a base.
"""

import os
import time
import tty
from collections import Counter
from typing import Any

from msgspec import Struct, ValidationError, convert

from servonode.bus import Applied, BusError, Link, Message, Setup, State
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.driver import Driver, DriverError, Stated

STATES, INPUTS = ("X", "Y", "psi", "V", "Omega"), ("F", "M")  # F moves V, M moves Omega


class Keys(Struct, frozen=True):
    """[plant.device.settings]: where the base is."""

    path: str = "/dev/ttyUSB0"


class Base(Link):
    def __init__(self, path: str) -> None:
        self.path, self.file, self.rest, self.came = path, -1, b"", 0
        self.counts, self.setup, self.began = Counter[str](), None, 0.0
        self.src = time.monotonic_ns() % 2**53 + 1

    def open(self) -> None:
        try:
            self.file = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
            tty.setraw(self.file)
        except (OSError, tty.error) as error:
            why = os.strerror(error.args[0])  # a tty.error has no strerror
            raise BusError(f"{self.path}: {why}; plug the base in, or correct plant.device.settings.path") from error

    @property
    def fds(self) -> tuple[int, ...]:
        return (self.file,)

    def send(self, topic: str, message: Message) -> None:  # noqa: ARG002
        if isinstance(message, Setup):
            if self.setup is None or message.run != self.setup.run:
                self.setup, self.began = message, time.monotonic()
            self.write(b"-1 0 0\n")
        elif isinstance(message, Applied):
            v, omega = (message.speed[name] if message.speed else 0.0 for name in INPUTS)
            self.write(f"{message.seq} {v:.5f} {omega:.5f}\n".encode())

    def write(self, line: bytes) -> None:
        try:
            os.write(self.file, line)
        except OSError:  # it is lost, and the base says so by its N
            self.counts["unsent"] += 1

    def receive(self, bound: int = 256) -> list[tuple[str, Message]]:
        try:
            *lines, self.rest = (self.rest[-200:] + os.read(self.file, 65536)).split(b"\n")
        except OSError:  # nothing has come
            return []
        return [("state", state) for line in lines[-bound:] if self.setup and (state := self.state_of(line))]

    def state_of(self, line: bytes) -> State | None:
        try:
            n, *values = map(float, line.split())
            passed, self.came = int((time.monotonic() - self.began) / self.setup.step), self.came + 1
            told: dict[str, Any] = {"k": (k := self.setup.k + passed), "t": k * self.setup.step, "run": self.setup.run}
            told |= {"src": self.src, "seq": self.came, "mono": time.monotonic_ns(), "node": "base", "control": False}
            told |= {"applied_seq": int(n), "input": {}, "state": dict(zip(STATES, values, strict=True))}
            return convert(told, State)
        except (ValueError, OverflowError, ValidationError):
            self.counts["malformed"] += 1
            return None

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def check(stated: Stated) -> None:
    if stated.lockstep or stated.speed != 1:
        raise DriverError("run", "speed", 'the base has its own clock; give speed = 1 and mode = "realtime"')


DRIVER = Driver(
    name="base", summary="a base that takes speeds as lines of text", reads=("device.wait", "device.timeout"),
    open=lambda context: DevicePlant(context, Base(context.stated.settings.path)),
    outside=True, readonly=True, speeds=True, settings=Keys, check=check,
)  # fmt: skip
