"""The sockets of processes to which somebody else could send, as /proc lists them (Linux)."""

import ipaddress
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LISTENS, UNCONNECTED = 0x0A, "00000000:0000"
ACCEPTS = 0x10000  # flag of a Unix socket
SESSION = 3  # its number among the fields of /proc/PID/stat behind the name


def listening_sockets(pids: Sequence[int]) -> set[str]:
    """Where these processes of one network listen: "tcp 127.0.0.1:80", "udp [::]:53", "unix /path", "unix @name"."""
    mine = {inode for pid in pids for inode in _sockets_of(pid)}
    return {place for inode, place in _listening(pids[0]).items() if inode in mine} if pids else set()


def connections_to(path: Path) -> int:
    """The number of connections that are open at the Unix socket of this path."""
    return sum(not flags & ACCEPTS for flags, _, place in _unix_sockets("self") if place == str(path))


def beyond_this_computer(place: str) -> bool:
    """Whether others than the processes of this computer could reach one of those places."""
    kind, _, address = place.partition(" ")
    return kind != "unix" and not ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback


def processes(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, *fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[SESSION - 1]) == session and state != "Z":
                found.append(int(folder.name))
    return found


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
