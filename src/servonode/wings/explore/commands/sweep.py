"""`servonode sweep`: many runs of a launch file with other numbers, in threads or on a cluster."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import click

from servonode.cli import verb
from servonode.cli.command import command, option, output
from servonode.cli.options import COUNT, AsJson, Launch

if TYPE_CHECKING:
    from servonode.wings.explore.sweeps.chunk import Chunk

BAR = 24  # characters of the progress bar
TERMINAL_PERIOD_S, LOG_PERIOD_S = 0.2, 5.0
OUTPUT = "Folder for the results, readable by xarray (default: the name of FILE with the ending .zarr)."
THREADS = "Threads of this process (default: one for each processor)."
WORKERS = "Compute in N processes on this computer instead, by dask."


@command(
    (
        "servonode sweep trailer_sweep",
        "servonode sweep trailer_sweep --runs 4096 --set sweep.vary.plant.initial.phi=[-0.5,0.5]",
        "servonode sweep trailer_sweep --output hitch.zarr --resume",
        "servonode sweep trailer_sweep --scheduler tcp://10.0.0.7:8786",
    ),
    {
        0: "all runs are computed; one that failed is a row with its reason",
        1: "the folder could not be written, or the cluster is lost; the finished runs are kept",
        **verb.BAD_USAGE,
        **verb.BROKEN_OFF,
    },
    section="Explore",
)
def sweep(
    launch: Launch,
    as_json: AsJson,
    output: Annotated[Path | None, output(OUTPUT, "FOLDER.zarr")],
    resume: Annotated[bool, option("Compute only the runs that the folder lacks.")],
    runs: Annotated[int | None, option("Number of runs of a random method (sweep.runs).", "N", COUNT)],
    histories: Annotated[bool, option("Keep every recorded row of each run too.")],
    threads: Annotated[int | None, option(THREADS, "N", COUNT)],
    workers: Annotated[int | None, option(WORKERS, "N", COUNT)],
    scheduler: Annotated[str | None, option("Compute on the dask cluster of this scheduler instead.", "ADDRESS")],
    send_code: Annotated[bool, option("Let code of your own machine or program run on the cluster's workers.")],
) -> None:
    """Simulate FILE many times, with the numbers of its [sweep]."""
    from servonode.wings.explore.sweeps.dataset import check_libraries, summary, summary_text
    from servonode.wings.explore.sweeps.plan import Plan
    from servonode.wings.explore.sweeps.run_sweep import Where, run_sweep

    check_libraries()
    where = Where(threads, workers, scheduler, send_code)
    if runs is not None:
        launch = launch.but(f"sweep.runs={runs}")
    plan = Plan(launch.resolved(), histories)
    folder = output or Path(f"{plan.closed_loop.launch.name}.zarr")
    progress = Progress(plan.runs)
    try:
        found = run_sweep(plan, where, folder, resume, progress)
    except KeyboardInterrupt:
        progress.close()
        click.echo(f"servonode: finished runs are kept in {folder}; go on with --resume", err=True)
        raise
    progress.close()
    answer = summary(found)
    verb.show(answer | {"output": str(folder)}, as_json, summary_text(answer))
    click.echo(f"  results in {folder}", err=as_json)


class Progress:
    """A line on standard error with what is done: rewritten on a terminal, repeated every few seconds in a log.

    Rates are those since the first chunk: what the start takes says nothing about the rest.
    """

    def __init__(self, runs: int, stream: TextIO | None = None) -> None:
        self.runs, self.stream = runs, stream or sys.stderr
        self._finished, self._failed, self._plant_s = 0, 0, 0.0
        self._first: tuple[float, int, float] | None = None  # when the first chunk came, and what was finished then
        self._terminal = self.stream.isatty()
        self._due = time.monotonic() + (0.0 if self._terminal else LOG_PERIOD_S)
        self._width = 0

    def resumed(self, finished: int) -> None:
        """Begin with the runs that are in the folder already."""
        self._finished += finished
        self._show(time.monotonic())

    def waiting(self) -> None:
        """Say that there is no worker, on a line of its own."""
        text = "the sweep waits for a worker: start one with dask worker, or end the sweep with Ctrl-C"
        self.stream.write(f"\n{text}\n" if self._terminal else f"{text}\n")
        self.stream.flush()

    def __call__(self, chunk: "Chunk") -> None:
        """Count the runs of a chunk that has just been finished."""
        self._finished += len(chunk.values)
        self._failed += sum(map(bool, chunk.reasons))
        self._plant_s += float(chunk.measures["duration"].sum())
        now = time.monotonic()
        self._first = self._first or (now, self._finished, self._plant_s)
        self._show(now)

    def close(self) -> None:
        """End the line on a terminal."""
        if self._terminal:
            self._write(time.monotonic())
            self.stream.write("\n")

    def _show(self, now: float) -> None:
        if now >= self._due:
            self._due = now + (TERMINAL_PERIOD_S if self._terminal else LOG_PERIOD_S)
            self._write(now)

    def _write(self, now: float) -> None:
        text = self.text(now)
        self.stream.write(f"\r{text:<{self._width}}" if self._terminal else f"{text}\n")
        self.stream.flush()
        self._width = len(text)

    def text(self, now: float) -> str:
        """The line at this time [s] of the monotonic clock."""
        full = BAR * self._finished // self.runs
        failed = f", {self._failed} failed" if self._failed else ""
        return f"[{'#' * full:.<{BAR}}] {self._finished} of {self.runs} runs{failed}{self._pace(now)}"

    def _pace(self, now: float) -> str:
        """How fast it goes, and the time that is left, once two chunks are finished."""
        from servonode.wings.explore.sweeps.design import time_text

        begin, finished, plant_s = self._first or (now, 0, 0.0)
        elapsed_s, computed = now - begin, self._finished - finished
        if elapsed_s <= 0 or not computed:
            return ""
        left_s = elapsed_s * (self.runs - self._finished) / computed
        return f", {(self._plant_s - plant_s) / elapsed_s:.0f} x real time, {time_text(left_s)} left"
