"""The boards of firmware/boards: their programs, and the one that QEMU emulates, behind a line with a baud rate."""

import json
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from tests.helpers.drivers import Beside
from tests.helpers.firmware import SOURCES, OnLine, built, needs_commands
from tests.helpers.host import as_hardware
from tests.helpers.line import Line

BOARDS = sorted(each.parent.name for each in SOURCES.glob("boards/*/board.mk"))
CROSS = "arm-none-eabi-"
MACHINE = "mps2-an386"
BAUD = 115200
# as firmware/README.md recommends: a setup of the robot with its law fills its room exactly
SIZES = "BOARD_CFLAGS=-Os -DPACKET_STATES=8 -DPACKET_INPUTS=2 -DPACKET_GOAL=8 -DPACKET_READINGS=8"


def tool(name: str, *words: object) -> str:
    """What a tool of the cross compiler prints."""
    return subprocess.run([f"{CROSS}{name}", *map(str, words)], capture_output=True, text=True, check=True).stdout


def program(board: str) -> Path:
    """The program of a board, an ELF file; the test is skipped where it cannot be built."""
    needs_commands(f"{CROSS}gcc", f"{CROSS}objcopy")
    if not Path(tool("gcc", "-print-file-name=nano.specs").strip()).is_absolute():
        pytest.skip("the C library newlib is not found for arm-none-eabi-gcc")
    return built(f"{board}.elf", f"BOARD={board}", SIZES)


def addresses(file: Path) -> dict[str, int]:
    """Where the program's functions and variables are, by name."""
    rows = (line.split() for line in tool("nm", "--defined-only", file).splitlines())
    return {name: int(address, 16) for address, _, name in rows}


def emulator_first(folder: Path) -> bool:
    """Let an emulator that works in this folder run before all other processes, where this user may do so.

    Whether there is one.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").resolve() == folder and (process / "comm").read_text().startswith("qemu-system"):
                for thread in (process / "task").iterdir():
                    as_hardware(int(thread.name))
                return True
    return False


class Emulated:
    """The board in QEMU as a process; a context manager that ends it. terminal: its UART.

    Its memory is read as a debugger reads that of a real one, which notices nothing of it.
    """

    def __init__(self, folder: Path) -> None:
        needs_commands("qemu-system-arm")
        file = program("qemu")
        self._addresses, self._memory = addresses(file), folder / "memory"
        ours, theirs = socket.socketpair()
        command = ["qemu-system-arm", "-M", MACHINE, "-display", "none", "-monitor", "none", "-serial", "pty"]
        command += ["-chardev", f"socket,id=debugger,fd={theirs.fileno()}", "-mon", "debugger,mode=control"]
        self._popen = subprocess.Popen(
            [*command, "-kernel", file], pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True
        )
        as_hardware(self._popen.pid)
        theirs.close()
        self._debugger = ours.makefile("rw")
        ours.close()
        assert self._popen.stdout is not None
        self.terminal = Path(self._popen.stdout.readline().split()[4])  # char device redirected to TERMINAL (...)
        assert "QMP" in self._debugger.readline()
        self._ask("qmp_capabilities")

    @property
    def pid(self) -> int:
        return self._popen.pid

    def _ask(self, command: str, **arguments: Any) -> None:
        self._debugger.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._debugger.flush()
        while "return" not in (answer := json.loads(self._debugger.readline())):
            assert "error" not in answer, answer

    def doubles(self, name: str, count: int) -> tuple[float, ...]:
        """The first numbers of an array of the program, which has only one of this name."""
        self._ask("pmemsave", val=self._addresses[name], size=8 * count, filename=str(self._memory))
        return struct.unpack(f"<{count}d", self._memory.read_bytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._debugger.close()
        self._popen.kill()
        self._popen.wait()
        if self._popen.stdout is not None:
            self._popen.stdout.close()


class OnBoard(OnLine):
    """The robot on the emulated board, behind a line; `board` is the one that was started last."""

    board: Emulated

    def __init__(self) -> None:
        super().__init__(BAUD)
        self.name = f"emulated board at {BAUD} baud"

    @contextmanager
    def machine(self) -> Iterator[Beside]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            port = folder / "port"
            with Emulated(folder) as self.board, Line(self.board.terminal, port, BAUD) as self.line:
                yield Beside((f'plant.device.port="{port}"',), pid=self.board.pid)
