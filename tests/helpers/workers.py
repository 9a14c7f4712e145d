"""Which worker of pytest-xdist takes which test file: what only computes fills the time in which the others wait.

Tests of processes in real time mostly wait, and mind whom they wait for. The last worker takes the files that only
compute, at a low priority: it holds up nobody. Each of the other workers takes the files of processes first.
"""

import os
from collections.abc import Iterator
from typing import Any

from xdist.scheduler import LoadFileScheduling

NICENESS = 10
COMPUTING = tuple(
    f"tests/{each}"
    for each in (
        "analysis/", "closed_loop/", "conformance/", "controllers/", "estimators/", "export/", "kernels/", "mechanics/",
        "test_docstring_examples.py", "test_errors.py", "test_examples.py", "test_from_python.py", "test_gallery.py",
        "test_import_rules.py", "test_loop.py", "test_notebook.py", "test_pages_on_laws.py", "test_tutorial.py",
        "test_unreachable_goals.py",
        "bags/test_distrusted_bags.py", "cli/test_compare.py", "nodes/test_command_filter.py",
        "nodes/test_fault_ladder.py", "nodes/test_guard.py", "nodes/test_link_latency.py",
        "plants/test_ball_on_turntable.py", "plants/test_diff_drive_trailer", "plants/test_hoop_on_profile.py",
        "plants/test_mujoco.py", "plants/test_packets.py", "plants/test_pendulum_sphero.py",
        "plants/test_snowboarder.py", "views/test_animation.py", "views/test_movie.py",
        "views/test_pictures.py", "views/test_report.py",
    )
)  # fmt: skip


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
        computing = [file for file in self.workqueue if file.startswith(COMPUTING)]
        if not is_last(node.gateway.id, self.numnodes):
            yield from (file for file in self.workqueue if file not in computing)
        yield from computing
