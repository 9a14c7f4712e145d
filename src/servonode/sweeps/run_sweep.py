"""Computes a sweep where its user wants it: in memory or into a folder, in threads or on a cluster."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from os import sched_getaffinity
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from servonode.errors import StatementError
from servonode.sweeps.chunk import Chunk
from servonode.sweeps.dataset import check_libraries, dataset
from servonode.sweeps.plan import Chunks, Plan
from servonode.sweeps.store import Store

if TYPE_CHECKING:
    import xarray


class Report(Protocol):
    """What is told of a sweep's progress."""

    def resumed(self, finished: int) -> None: ...

    def waiting(self) -> None: ...

    def __call__(self, chunk: Chunk) -> None: ...


@dataclass(frozen=True)
class Where:
    """Where a sweep is computed: in threads of this process, in worker processes here, or on a dask cluster.

    threads: of this process (absent: one for each processor that it may use). workers: processes of one thread each.
    scheduler: the address of a cluster. send_code: whether code of the user's may run on workers.
    """

    threads: int | None = None
    workers: int | None = None
    scheduler: str | None = None
    send_code: bool = False

    def __post_init__(self) -> None:
        given = [name for name in ("threads", "workers", "scheduler") if getattr(self, name) is not None]
        if len(given) > 1:
            raise StatementError(f"there are both {given[0]} and {given[1]}; give only one of them")
        for name in ("threads", "workers"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise StatementError(f"{name} = {count} is less than 1; give the number of {name}")

    def computed(self, plan: Plan, indices: Iterable[int], waiting: Callable[[], None] | None = None) -> Chunks:
        """The chunks of these indices as they are finished, in any order. waiting: called when no worker is there."""
        if self.workers is None and self.scheduler is None:
            return plan.computed(indices, self.threads or len(sched_getaffinity(0)))
        from servonode.sweeps.cluster import computed_on

        return computed_on(plan, indices, self.workers, self.scheduler, self.send_code, waiting)


def run_sweep(
    plan: Plan,
    where: Where,
    output: Path | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> "xarray.Dataset":
    """Compute a sweep; its dataset, which is read from the folder `output` where one is given.

    resume: compute only what is missing in that folder. report: is given each chunk when it is in the folder.

    Raises:
        StoreError: the folder cannot be used; ClusterError: the cluster cannot. What is in the folder stays there.
    """
    check_libraries()
    if output is None:
        if resume:
            raise StatementError("resume needs the folder of a sweep that was begun; give output as well")
        found = dict(where.computed(plan, range(plan.chunks)))
        return dataset(plan, [found[index] for index in range(plan.chunks)])
    with closing(Store(plan, output, resume)) as store:
        missing = store.missing()
        if report:
            report.resumed(plan.runs - sum(last - first for first, last in map(plan.bounds, missing)))
        waiting = report.waiting if report else None
        with closing(where.computed(plan, missing, waiting)) as chunks:  # a cluster is left before an error is reported
            for index, chunk in chunks:
                store.write(index, chunk)
                if report:
                    report(chunk)
        return store.dataset()
