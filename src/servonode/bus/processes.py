"""Processes by id and start time: a new one with the id of a dead one is not mistaken for it; where they listen."""

import ipaddress
import os
import re
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

START = 22  # the start time's number among the fields of /proc/PID/stat [clock ticks after the system's start]
PROBE_S = 0.2  # s, for a connection that only asks which process listens
LISTENS, UNCONNECTED = 0x0A, "00000000:0000"
ACCEPTS = 0x10000  # flag of a Unix socket


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


def listening_sockets(pids: Sequence[int]) -> set[str]:
    """Where these processes of one network listen: "tcp 127.0.0.1:80", "udp [::]:53", "unix /path", "unix @name"."""
    mine = {inode for pid in pids for inode in _sockets_of(pid)}
    return {place for inode, place in _listening(pids[0]).items() if inode in mine} if pids else set()


def beyond_this_computer(place: str) -> bool:
    """Whether others than the processes of this computer could reach one of those places."""
    kind, _, address = place.partition(" ")
    return kind != "unix" and not ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback


def _sockets_of(pid: int) -> set[int]:
    """The inodes of the sockets that a process has open."""
    found = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if match := re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink())):
                    found.add(int(match[1]))
    return found


def _listening(pid: int) -> dict[int, str]:
    """Where each listening socket of a process's network listens, by inode."""
    found = {}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in _lines(pid, table):
            _, local, remote, state, *_, inode = line.split()[:10]
            # one of UDP that is connected takes only what comes from there
            if int(state, 16) == LISTENS if table.startswith("tcp") else remote.endswith(UNCONNECTED):
                found[int(inode)] = f"{table[:3]} {_address(local)}"
    return found | {inode: f"unix {place}" for flags, inode, place in _unix_sockets(str(pid)) if flags & ACCEPTS}


def _unix_sockets(pid: str) -> list[tuple[int, int, str]]:
    """Flags, inode and path of the Unix sockets of a process's network that have a path."""
    words = [line.split(maxsplit=7) for line in _lines(pid, "unix")]
    return [(int(each[3], 16), int(each[6]), each[7].rstrip("\n")) for each in words if len(each) == 8]


def _lines(pid: int | str, table: str) -> list[str]:
    """The lines of a table of the network in which a process is; none once it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/net/{table}").read_text(errors="replace").splitlines()[1:]
    return []


def _address(text: str) -> str:
    """Host and port as they are usually written; the kernel prints words of 4 bytes in its own order."""
    host, port = text.split(":")
    packed = struct.pack(f"={len(host) // 8}I", *(int(host[at : at + 8], 16) for at in range(0, len(host), 8)))
    address = ipaddress.ip_address(packed)
    return f"[{address}]:{int(port, 16)}" if address.version == 6 else f"{address}:{int(port, 16)}"
