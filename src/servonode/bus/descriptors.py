"""File descriptors: libzmq aborts the process when it gets none, so enough are reserved for the node itself."""

import contextlib
import resource
from pathlib import Path

from servonode.bus.run_folder import BusError

NEEDED = 20  # descriptors that a bus takes: a context with its threads, sockets, the connections of a run
CLIENT_NEEDED = 8  # that libzmq takes for one socket and its connection
OWN = 32  # of a node, with its libraries and files; the others may serve connections
FEWEST = 16  # connections that there must be room for beside
# below which no machine is moved: a process that opens connections by mistake mostly has 1024
FEWEST_TO_ARM = 2048
# The limit is raised so far: libzmq ends the process that accepts a connection without a free one, and a process that
# opens connections by mistake may mostly open 1024. Descriptors of connections are never given to `select`, which takes
# none beyond 1023.
MOST = 65536


def ensure_room() -> None:
    """Raise the limit of descriptors as far as a bus needs; BusError if the system does not allow that."""
    _ensure(max(_held() + NEEDED, OWN + FEWEST))


def ensure_client_room() -> None:
    """The same for a process that opens one connection to ask something."""
    _ensure(_held() + CLIENT_NEEDED)


def arming_obstacle() -> str:
    """Why a plant must not move a machine, with the remedy: too few connections would end it; empty: it may."""
    if (limit := _raised()) >= FEWEST_TO_ARM:
        return ""
    return (
        f"the plant may open only {limit} files, and libzmq ends it where connections use them up; start the run again "
        f"with at least {FEWEST_TO_ARM}, as after ulimit -Hn {FEWEST_TO_ARM}"
    )


def _ensure(wanted: int) -> None:
    limit = _raised()
    if limit < wanted:
        raise BusError(
            f"this process may open {limit} files and needs {wanted}, with {_held()} that are open; "
            "raise the limit, as with ulimit -n 256"
        )


def share(most: int) -> int:
    """The number of connections that the page accepts, at most `most`: some of those that its process has room for."""
    return max(min(most, (_raised() - OWN) // 4), FEWEST // 4)


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
