"""The files of a run: the spool beside them, one CSV file for each life of the plant, and what makes a recording."""

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.record.run import Run, largest_residuals, run_of_rows
from servonode.record.spool import Pieces

SUFFIX = ".spool"


@dataclass(frozen=True)
class BagMaker:
    """A recording of all messages of a run.

    known: data of it for the spool. make: makes the file from a spool (descriptor, file, how the run ended).
    """

    file: Path
    known: dict[str, Any]
    make: Callable[[int, Path, dict[str, Any]], dict[str, Any]]


def runs_of(closed_loop: ClosedLoop, pieces: Pieces, wall_s: float = 0.0, **more: Any) -> list[Run]:
    """The runs in a record, one for each life of the plant, in their order. more: further fields of each run."""
    recorded = len(closed_loop.answer_columns)
    columns = len(pieces.columns.get(PLANT, ()))
    runs = []
    for life in pieces.lives:
        rows, answers = pieces.rows(PLANT, life, columns), pieces.rows(CONTROLLER, life, recorded)
        largest = largest_residuals(closed_loop, answers)
        runs.append(
            run_of_rows(closed_loop, closed_loop.launch.run.mode, rows, answers, wall_s, residual_max=largest, **more)
        )
    return runs


def lives_beside(out: Path, lives: int) -> list[Path]:
    """The CSV files of this many lives of the plant: NAME.life1.csv, ..., and `out` for the last."""
    return [*(out.with_name(f"{out.stem}.life{i + 1}{out.suffix}") for i in range(lives - 1)), *[out][:lives]]


def write_runs(runs: list[Run], out: Path) -> list[Path]:
    """Write the last run as the CSV file `out`, earlier ones beside it; returns the files, `out` last."""
    files = lives_beside(out, len(runs))
    for run, file in zip(runs, files, strict=True):
        run.write_csv(file)
    return files


def opened(out: Path) -> tuple[int, Path | None]:
    """Open a new spool beside the CSV file, under an unused name; without a name if `out` is not a file."""
    if out.exists() and not stat.S_ISREG(out.stat().st_mode):
        with tempfile.TemporaryFile() as unnamed:
            return os.dup(unnamed.fileno()), None
    number = 1
    while True:
        spool = out.with_name(f"{out.name}{SUFFIX}" if number == 1 else f"{out.name}.{number}{SUFFIX}")
        with contextlib.suppress(FileExistsError):
            return os.open(spool, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), spool
        number += 1


def clocks() -> dict[str, int]:
    """The wall clock, since 1970 in UTC, and the monotonic clock of messages, at the same time [ns]."""
    mono_ns = time.monotonic_ns()
    return {"wall_ns": time.time_ns(), "mono_ns": (mono_ns + time.monotonic_ns()) // 2}
