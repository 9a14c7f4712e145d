"""The real-time resources that a node requests from the system, and those granted. A refusal is never fatal.

Timer slack, memory that is not swapped out, a SCHED_FIFO priority, cores. Only on Linux: elsewhere nothing is
requested.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servonode.bus.topology import CONTROLLER, LOOP, PLANT
from servonode.closed_loop.launch_keys import Run

SLACK_NS = 1000  # a sleep ends within a microsecond of its deadline, not 50
LIMITS = "/etc/security/limits.conf"
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
CAP_IPC_LOCK, CAP_SYS_NICE = 14, 23


class NotGranted(Exception):
    """A requested resource is not available; the text says why, and how to fix it if possible."""


@dataclass(frozen=True)
class Grants:
    """The resources that the system granted to a node, and by resource the reason of each refusal, in words."""

    granted: tuple[str, ...]
    refused: dict[str, str]

    def line(self) -> str:
        """One line for people: "real time: timer slack 1 us, ...; not: SCHED_FIFO (not asked; run.priority)"."""
        missing = ", ".join(f"{what} ({why})" for what, why in self.refused.items())
        return f"real time: {', '.join(self.granted) or 'nothing granted'}" + (f"; not: {missing}" if missing else "")

    def as_dict(self) -> dict[str, Any]:
        """The grants for JSON."""
        return {"granted": list(self.granted), "refused": self.refused}


def ask(run: Run, node: str) -> Grants:
    """Request what [run] asks for, for this process, which becomes `node`.

    Call it before the node has sockets, whose threads inherit priority and cores. Memory, priority and cores are only
    for real time: a run in lockstep has no deadlines, and would keep a core from other processes.
    """
    return asked({
        "timer slack": _slack,
        "memory locked": lambda: _lock_memory(run),
        "SCHED_FIFO": lambda: _raise_priority(run, node),
        "cores pinned": lambda: _pin(run, node),
    })  # fmt: skip


def asked(wishes: dict[str, Callable[[], str]]) -> Grants:
    """Try each request; a granted one returns what it gave, in words."""
    granted, refused = [], {}
    for what, wish in wishes.items():
        try:
            if sys.platform != "linux":
                raise NotGranted("not available on this system")
            granted.append(wish())
        except NotGranted as reason:
            refused[what] = str(reason)
        except (OSError, AttributeError) as error:  # AttributeError: a C library without the function
            refused[what] = f"refused: {getattr(error, 'strerror', None) or error}"
    return Grants(tuple(granted), refused)


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library that returns 0; OSError with its errno otherwise."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*map(ctypes.c_ulong, arguments)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def slack(slack_ns: int) -> int:
    """Set the timer slack of this thread [ns]; returns what it was. Raises where the system has none."""
    before = ctypes.CDLL(None).prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)
    _call("prctl", _PR_SET_TIMERSLACK, slack_ns, 0, 0, 0)
    return int(before)


def _slack() -> str:
    slack(SLACK_NS)
    return f"timer slack {SLACK_NS / 1000:g} us"


def _check_asked(run: Run, key: str) -> None:
    if not getattr(run, key):
        raise NotGranted(f"not asked; run.{key}")
    if run.mode != "realtime":
        raise NotGranted("only in real time")


def _lock_memory(run: Run) -> str:
    """Lock present and future memory of this process against swapping.

    Pages are locked when they are touched (MCL_ONFAULT), so that pages shared by the fork are neither read nor copied.
    With a limit that suffices now, later allocations could fail in the middle of the run: any limit is too low.
    """
    _check_asked(run, "lock_memory")
    kind = resource.RLIMIT_MEMLOCK
    try:
        resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        if not has_capability(CAP_IPC_LOCK):
            raise NotGranted(
                f"limited to {resource.getrlimit(kind)[1] // 1024} KiB; ulimit -l unlimited, or memlock in {LIMITS}"
            ) from None
    try:
        _call("mlockall", _MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT)
    except OSError as error:
        raise NotGranted(f"refused: {error.strerror}; give CAP_IPC_LOCK") from None
    return "memory locked"


def has_capability(number: int) -> bool:
    """Whether this process has a capability of Linux, by its number; False where there is no /proc to tell."""
    try:
        text = Path("/proc/self/status").read_text(errors="replace")
    except OSError:
        return False
    status = dict(line.split(":", 1) for line in text.splitlines())
    return bool(int(status["CapEff"], 16) >> number & 1)


def _raise_priority(run: Run, node: str) -> str:
    """SCHED_FIFO for the loop: the controller at run.priority, the plant one higher, because it has the watchdog."""
    _check_asked(run, "priority")
    if node not in LOOP:
        raise NotGranted("for plant and controller only")
    priority = run.priority + (node == PLANT)
    hard = resource.getrlimit(resource.RLIMIT_RTPRIO)[1]
    resource.setrlimit(resource.RLIMIT_RTPRIO, (hard, hard))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except PermissionError:
        remedy = f"rtprio {run.priority + 1} in {LIMITS}, or CAP_SYS_NICE"
        raise NotGranted(f"{priority} not permitted; {remedy}") from None
    return f"SCHED_FIFO {priority}"


def _pin(run: Run, node: str) -> str:
    """Pin the plant to the first allowed core, the controller to the second, other nodes to the rest."""
    _check_asked(run, "pin")
    given = sorted(os.sched_getaffinity(0))
    if len(given) < 2:
        raise NotGranted(f"only core {given[0]} is given; widen taskset or cpuset")
    places = {PLANT: given[:1], CONTROLLER: given[1:2]}
    cores = places.get(node) or given[2:] or given[1:2]
    os.sched_setaffinity(0, cores)
    return f"core{'s' * (len(cores) > 1)} {', '.join(map(str, cores))}"
