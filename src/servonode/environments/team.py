"""Threads that do one piece of compiled work together, again and again, as soon as there is some.

A thread waits in compiled code for a moment, without the interpreter's lock: waking it takes as long as a piece of
work. Who comes late does less, for all of them take shares of what is left.
"""

import os
import threading
import weakref
from collections.abc import Callable

IDLE = 10_000  # turns of waiting for more, about a tenth of a millisecond
SHORT = 1_000  # of waiting for the last share, without leaving the processor to others
Work = Callable[[bool, int], bool]  # compiled: begins or not, does shares of what there is, waits so many turns


class Team:
    """So many threads, the caller's among them; the others are started when they are first needed."""

    def __init__(self, threads: int, work: Work) -> None:
        self._threads, self._work = threads, work
        self._helpers: list[_Helper] = []
        self._process = 0

    def run(self) -> None:
        """Do the whole work once."""
        if self._process != os.getpid():  # threads do not go into a fork
            self._start()
        for each in self._helpers:
            each.wake()
        done = self._work(True, SHORT)
        while not done:  # a helper still has a share, and perhaps no processor
            os.sched_yield()
            done = self._work(False, 0)

    def _start(self) -> None:
        self._process = os.getpid()
        self._helpers = [_Helper(self._work) for _ in range(self._threads - 1)]
        weakref.finalize(self, _end, self._helpers, self._process)


class _Helper:
    """A thread that works with the others, and sleeps where there is nothing to do for a while."""

    def __init__(self, work: Work) -> None:
        self._asleep, self._ended = threading.Lock(), False
        self._asleep.acquire()
        threading.Thread(target=self._serve, args=(work,), daemon=True, name="servonode environments").start()

    def _serve(self, work: Work) -> None:
        while not self._ended:
            work(False, IDLE)
            self._asleep.acquire()

    def wake(self) -> None:
        """Have it look for work again if it sleeps, or before it next would."""
        if self._asleep.locked():
            self._asleep.release()

    def end(self) -> None:
        """Have the thread end."""
        self._ended = True
        self.wake()


def _end(helpers: list[_Helper], process: int) -> None:
    if process == os.getpid():
        for each in helpers:
            each.end()
