"""Which worker of pytest-xdist takes which test file: those of processes come last, on one worker, one at a time."""

import fcntl
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

PROCESSES = "tests/processes/"


class Scheduling(LoadFileScheduling):
    """A file at a time, as with `--dist loadfile`; one worker takes all files of processes, after all others."""

    def _assign_work_unit(self, node: Any) -> None:
        file = next((each for each in self.workqueue if not each.startswith(PROCESSES)), None)
        if file is None and node is not next(iter(self.assigned_work)):
            node.shutdown()  # once it has done what it has
            return
        if file is not None:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


class Worker:
    """This worker among those of one session, which share a lock: each holds it until it has no more tests."""

    def __init__(self, session: str) -> None:
        self._path = Path(tempfile.gettempdir(), f"servonode-tests-{session}")
        self._lock = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def wait_for_others(self) -> None:
        """Until no other worker has tests."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def end(self) -> None:
        """This one has none any more. Processes that it has forked may hold the descriptor still."""
        self._path.unlink(missing_ok=True)
        fcntl.flock(self._lock, fcntl.LOCK_UN)


@cache
def this_worker() -> Worker | None:
    """This process as one of several workers; None: it is not."""
    return Worker(os.environ["PYTEST_XDIST_TESTRUNUID"]) if "PYTEST_XDIST_WORKER" in os.environ else None
