"""Which worker of pytest-xdist takes which test file: what only computes fills the time in which the others wait.

Tests of processes in real time mostly wait, and mind whom they wait for. The last worker takes the files that only
compute, at a low priority: it holds up nobody. Each of the other workers takes the files of processes first. The
tests of pages give their runs more time for an answer: whichever worker has done its own files takes those.
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[2]
NICENESS = 10
ROOMS = ("bags/", "bus/", "cli/", "nodes/", "safety/", "web/", "test_notebook.py")  # whose tests start processes
PAGES = "tests/docs/test_pages.py"
STARTERS = re.compile(r"from tests\.helpers\.(?:computers|firmware|followed|packages|pages|runs)\b")


@cache
def starts_processes(file: str) -> bool:
    """Whether the tests of a file of this path in the project start processes, by its room or its imports."""
    return file.startswith(tuple(f"tests/{each}" for each in ROOMS)) or bool(
        STARTERS.search((ROOT / file).read_text("utf-8"))
    )


def is_last(worker: str, count: int) -> bool:
    """Whether this worker (gw0, gw1, ...) of so many is the one that only computes."""
    return count > 1 and worker == f"gw{count - 1}"


def lower_priority() -> None:
    """Where this process is the worker that only computes, others go first."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if is_last(worker, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))):
        os.nice(NICENESS)


class Scheduling(LoadFileScheduling):
    """A file at a time, as with `--dist loadfile`, by what the files need."""

    def _assign_work_unit(self, node: Any) -> None:
        file = next(self._choices(node), None)
        if file is None:
            node.shutdown()  # once it has done what it has
        else:
            self.workqueue.move_to_end(file, last=False)
            super()._assign_work_unit(node)

    def _choices(self, node: Any) -> Iterator[str]:
        """The files that this worker may take, those that it should take first first."""
        pages = [file for file in self.workqueue if file == PAGES]
        waiting = [file for file in self.workqueue if starts_processes(file) and file not in pages]
        computing = [file for file in self.workqueue if file not in (*waiting, *pages)]
        last = is_last(node.gateway.id, self.numnodes)
        yield from (*computing, *pages) if last else (*waiting, *pages, *computing)
