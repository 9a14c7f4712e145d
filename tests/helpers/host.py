"""How late this computer runs a process that wants to run: what a reaction may cost beyond servonode's own time."""

import os
import threading
import time
from collections import deque
from contextlib import suppress
from functools import cache
from typing import Self

KEPT = 100_000  # delays that are remembered
NOTED_NS = 1_000_000  # shorter delays are not
NAP_NS = 2_000_000  # for each processor: of half a millisecond they would take a twentieth of one


class HostWatch:
    """Sees when this computer does not run a process that wants to run: a thread on each processor that takes naps.

    A virtual machine may lose one processor alone.
    """

    def __init__(self) -> None:
        processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
        self._nap_ns = NAP_NS * len(processors)
        self._late: deque[tuple[int, int]] = deque(maxlen=KEPT)  # when it woke [monotonic ns], and how late [ns]
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._nap, args=(each,), daemon=True) for each in processors]

    def _nap(self, processor: int) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {processor})  # of this thread
        due = time.monotonic_ns() + self._nap_ns
        while not self._ends.wait(max(due - time.monotonic_ns(), 0) / 1e9):
            now = time.monotonic_ns()
            if now - due > NOTED_NS:
                self._late.append((now, now - due))
            due = now + self._nap_ns

    def worst(self, begin: int, end: int) -> float:
        """The largest lateness [s] between two times [monotonic ns]."""
        return max((late for at, late in list(self._late) if begin <= at <= end), default=0) / 1e9

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for each in self._threads:
            each.join()


@cache
def _host() -> HostWatch:
    """The watch of this process, which goes on until its end."""
    return HostWatch().__enter__()


def watch_host() -> None:
    """Begin to watch, if nobody does yet."""
    _host()


def host_s(begin: int, end: int) -> float:
    """The longest time [s] for which this computer kept a ready process waiting between two times [monotonic ns]."""
    return _host().worst(begin, end)


def as_hardware(pid: int) -> None:
    """Let a process that stands for hardware, which never waits, run before all others, where this user may do so."""
    with suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(90))
