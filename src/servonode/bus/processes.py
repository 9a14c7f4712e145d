"""Processes by id and start time: a new process with the id of a dead one is not mistaken for it."""

import os
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

START = 22  # the start time's number among the fields of /proc/PID/stat [clock ticks after the system's start]
PROBE_S = 0.2  # s, for a connection that only asks which process listens


@dataclass(frozen=True)
class Named:
    """A process of this computer. `space` is the namespace in which the id holds: a container has its own."""

    pid: int
    start: int  # clock ticks after the system's start; 0: not known
    space: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has this id now."""
        return cls(pid, _start_of(pid), _space())

    @classmethod
    def read(cls, content: dict[str, Any]) -> Self | None:
        """The process that `content` of a file names; None where that is incomplete."""
        pid, start, space = (content.get(word) for word in ("pid", "start", "space"))
        if type(pid) is int and type(start) is int and isinstance(space, str) and pid > 0 and start > 0:
            return cls(pid, start, space)
        return None

    def lives(self, owner: int) -> bool:
        """Whether it is still there, and runs as this user."""
        return self.start > 0 and self == Named.of(self.pid) and _user_of(self.pid) == owner

    def send(self, number: int, owner: int) -> bool:
        """Send it a signal if it lives, and never to another process; whether it was sent. Needs no socket."""
        handle: int | None = None
        with suppress(OSError, AttributeError):  # an old kernel, or no descriptor is free: the id is used instead
            handle = os.pidfd_open(self.pid)
        try:
            if not self.lives(owner):
                if handle is None:
                    return False
                os.close(handle)  # it may be the last free descriptor, which reading /proc needs
                handle = None
                if not self.lives(owner):
                    return False
            _kill(self.pid, handle, number)
        except (ProcessLookupError, PermissionError):
            return False
        finally:
            if handle is not None:
                os.close(handle)
        return True


def listener(path: Path) -> int | None:
    """The id of the process that listens at a Unix socket; None: no process does, 0: it is of another namespace."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:  # also where nothing listens
        probe.settimeout(PROBE_S)
        probe.connect(str(path))
        return int(struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
    return None


def _kill(pid: int, handle: int | None, number: int) -> None:
    """Signal a process by its handle; by its id where it has no handle, or a container forbids the use of it."""
    if handle is not None:
        try:
            return signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            raise
        except OSError:
            pass
    return os.kill(pid, number)


def _start_of(pid: int) -> int:
    """The start time of a process; 0 if it does not live, or its start is not known."""
    with suppress(OSError, ValueError, IndexError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        if state not in ("Z", "X"):
            return int(fields[START - 4])  # behind id, name and state
    return 0


def _user_of(pid: int) -> int:
    """The user who started a process; -1 if not known."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return -1


def _space() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""
