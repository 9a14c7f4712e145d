"""File descriptors: libzmq aborts the process when it gets none, so enough are reserved for the node itself."""

import contextlib
import resource
from pathlib import Path

from servonode.bus.run_folder import BusError

NEEDED = 20  # descriptors that a bus takes: a context with its threads, sockets, the connections of a run
OWN = 32  # of a node, with its libraries and files; the others may serve connections
SERVERS, FEWEST = 4, 4  # servers of a process at most; connections that each must be able to accept
MOST = 1024  # the limit is raised no further: `select` takes no higher descriptors


def ensure_room() -> None:
    """Raise the limit of descriptors as far as a bus needs; BusError if the system does not allow that."""
    held, limit = _held(), _raised()
    wanted = max(held + NEEDED, OWN + SERVERS * FEWEST)
    if limit < wanted:
        raise BusError(
            f"this process may open {limit} files and needs {wanted}, with {held} that are open; "
            "raise the limit, as with ulimit -n 256"
        )


def share(most: int) -> int:
    """The number of connections that a server may accept, at most `most`; descriptors remain for the node itself."""
    return max(min(most, (_raised() - OWN) // SERVERS), FEWEST)


def _raised() -> int:
    """The limit of descriptors, raised where that is possible; a large number where there is no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**31
    wanted = MOST if hard == resource.RLIM_INFINITY else min(MOST, hard)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return soft


def _held() -> int:
    """The number of open descriptors; 0 where it is not known."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    return 0
