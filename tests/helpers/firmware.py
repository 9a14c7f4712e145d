"""The firmware's host programs, built once for all tests of a session, and started as processes."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Self

import pytest

from servonode.bus.topology import CONTROLLER, TARGET
from tests.helpers.can_bus import INTERFACE, CanBoard, free_channel
from tests.helpers.drivers import Beside, Driver
from tests.helpers.host import as_hardware
from tests.helpers.line import Line
from tests.helpers.ports import free_port
from tests.helpers.wings import wing

SOURCES = Path(__file__).parents[2] / "firmware"
BUILD_S = 120.0


def needs_commands(*names: str) -> None:
    """Skip the test where a command is missing."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"the command {name} is not found")


def needs_compiler() -> None:
    """Skip the test where firmware cannot be built: its header is printed by a command of a wing."""
    if not wing("acceptance"):
        pytest.skip("needs the wing acceptance of servonode")
    needs_commands("cc", "make")


@cache
def built(target: str, *words: str) -> Path:
    """The program of this target of firmware/Makefile; the folder of these sources and words is for all processes.

    words: further ones of make. The test is skipped where it cannot be built.
    """
    needs_compiler()
    files = sorted(each for each in SOURCES.rglob("*") if each.is_file() and "build" not in each.parts)
    digest = sha256(b"".join([*(each.read_bytes() for each in files), *map(str.encode, words)])).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"servonode-firmware-{os.getuid()}-{digest}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        own = f"SERVONODE={sys.executable} -m servonode.cli.main"
        command = ["make", "-C", str(SOURCES), f"BUILD={folder}", own, *words, str(folder / target)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
    return folder / target


def ran(target: str, *words: object) -> tuple[int, str, str]:
    """The exit code of a test program of firmware/Makefile, and what it printed."""
    command = [str(each) for each in (built(target), *words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    return done.returncode, done.stdout, done.stderr


class Firmware:
    """A host program as a process; a context manager that ends it. target: of the Makefile, or the path of another.

    first: whether it runs before all other processes, where this user may do so.
    """

    def __init__(self, target: str, *words: str, first: bool = False) -> None:
        self._first = first
        self._command = [target if "/" in target else str(built(target)), *words]
        self.restart()

    def restart(self) -> None:
        """Start it, and wait until it serves."""
        self.popen = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        if self._first:
            as_hardware(self.popen.pid)
        assert self.popen.stdout is not None
        if not self.popen.stdout.readline().startswith("serving"):
            self.kill()
            raise RuntimeError(f"{self._command} has ended with {self.popen.returncode}")

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self) -> None:
        """End it as a pulled cable does: at once."""
        self.popen.kill()
        self.popen.wait()
        if self.popen.stdout is not None:
            self.popen.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.kill()


def free_udp_port() -> int:
    """A UDP port that nobody uses."""
    return free_port(socket.SOCK_DGRAM)


class Udp(Driver):
    """The robot over UDP; `words` are more of its command line, `firmware` is the one that was started last."""

    name = "udp"
    settings = ('plant.driver="udp"', "run.speed=1", "plant.safety.limit=1.0")
    words: tuple[str, ...] = ()
    firmware: Firmware

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        port = free_udp_port()
        with Firmware("robot", "--udp", str(port), *self.words) as self.firmware:
            yield Beside((f'plant.device.address="127.0.0.1:{port}"',), pid=self.firmware.pid)


class Serial(Udp):
    """The same on a pseudo-terminal."""

    name = "serial"
    settings = ('plant.driver="serial"', "run.speed=1", "plant.safety.limit=1.0")

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with tempfile.TemporaryDirectory() as folder:
            port = Path(folder, "port")
            with Firmware("robot", "--pty", str(port), *self.words) as self.firmware:
                yield Beside((f'plant.device.port="{port}"',), pid=self.firmware.pid)


class Can(Serial):
    """The same on a CAN bus that python-can carries between processes."""

    name = "can"
    settings = (
        'plant.driver="can"', "run.speed=1", "plant.safety.limit=1.0", f'plant.device.interface="{INTERFACE}"',
        "plant.device.bitrate=1_000_000",
    )  # fmt: skip

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with tempfile.TemporaryDirectory() as folder:
            board, channel = Path(folder, "board"), free_channel()
            with (
                Firmware("robot", "--pty", str(board), *self.words, first=True) as self.firmware,
                CanBoard(built("libcan.so"), board, channel),
            ):
                yield Beside((f'plant.device.channel="{channel}"',), pid=self.firmware.pid)


SENSORS = '["encoder_left", "encoder_right", "gyroscope"]'
ESTIMATED = (
    "plant.device.sends=readings", f"estimator.sensors={SENSORS}", "estimator.process_noise=0.001",
    "estimator.initial_std=0.001",
)  # fmt: skip


class Sensing(Serial):
    """The robot on a pseudo-terminal that sends readings of encoders and gyroscope alone."""

    settings = (*Serial.settings, *ESTIMATED)
    words = ("--readings",)
    restarts = (CONTROLLER, TARGET)


class OnLine(Serial):
    """The robot behind a serial line of a baud rate; `line` is the one that was plugged in last.

    rate: of states [1/s], where the line carries no more than that.
    """

    def __init__(self, baud: int, rate: int | None = None) -> None:
        self.name = f"serial at {baud} baud"
        more = () if rate is None else (f"plant.device.state_rate={rate}",)
        self.settings = (*Serial.settings, f"plant.device.baud={baud}", *more)
        self._baud = baud
        self.line: Line

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with tempfile.TemporaryDirectory() as folder:
            board, port = Path(folder, "board"), Path(folder, "port")
            with (
                Firmware("robot", "--pty", str(board), *self.words, first=True) as self.firmware,
                Line(board, port, self._baud) as self.line,
            ):
                yield Beside((f'plant.device.port="{port}"',), pid=self.firmware.pid)


LINES = (OnLine(57600, rate=50), OnLine(115200), OnLine(460800), OnLine(921600))
