"""The processes of a session, and the connections to a Unix socket, as /proc lists them (Linux)."""

from contextlib import suppress
from pathlib import Path

from servonode.bus.processes import ACCEPTS, _unix_sockets

SESSION = 3  # its number among the fields of /proc/PID/stat behind the name


def connections_to(path: Path) -> int:
    """The number of connections that are open at the Unix socket of this path."""
    return sum(not flags & ACCEPTS for flags, _, place in _unix_sockets("self") if place == str(path))


def processes(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, *fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[SESSION - 1]) == session and state != "Z":
                found.append(int(folder.name))
    return found
