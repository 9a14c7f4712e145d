"""File descriptors: libzmq ends the process when it gets none, so there must be enough, and strangers get few."""

import contextlib
import resource
from pathlib import Path

from servonode.bus.folder import BusError

NEEDED = 16  # of a process that opens a bus: a context with its threads, sockets, connections
OWN = 56  # of a node, with its libraries and files; what is beyond may go to who connects
MOST = 1024  # more are not asked for: `select` takes no higher ones
SERVERS = 4  # that share what is beyond, at most


def ensure_room() -> None:
    """Have NEEDED descriptors free, the limit raised as far as may be; BusError if that does not do."""
    held, limit = _held(), _raised()
    if limit - held < NEEDED:
        raise BusError(
            f"this process may open {limit} files and has {held}, the bus needs {NEEDED} more; "
            "raise the limit with ulimit -n"
        )


def share(most: int) -> int:
    """How many connections a server may take in, at most `most`, so that the node itself never lacks a descriptor."""
    return max(min(most, (_raised() - OWN) // SERVERS), 2)


def _raised() -> int:
    """The limit for descriptors, which is raised first; a large number for none."""
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
    """How many descriptors are open; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    return 0
