"""The rows of a run, by node and by life of the plant, and the runs that are made of them, with their CSV files."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.run import Run, largest_residuals, run_of_rows

Array = npt.NDArray[np.float64]


@dataclass
class RunRows:
    """The rows of a run, by node and by life of the plant. columns: their names, by node that has rows."""

    columns: dict[str, list[str]] = field(default_factory=dict)
    _parts: dict[tuple[str, int], list[Array]] = field(default_factory=lambda: defaultdict(list))

    def add(self, node: str, life: int, rows: Array) -> None:
        """Add rows in their order."""
        self._parts[node, life].append(rows)

    @property
    def lives(self) -> list[int]:
        """The numbers of the plant's lives that have rows."""
        return sorted(life for node, life in self._parts if node == PLANT)

    def table(self, node: str, life: int, columns: int) -> Array:
        """All rows of a node in one life of the plant, (rows, columns), with increasing steps."""
        parts = self._parts.get((node, life))
        if not parts:
            return np.zeros((0, columns))
        rows = np.concatenate(parts)
        falls = np.flatnonzero(np.diff(rows[:, 0]) < 0)  # late answers of a controller to the life before come first
        return rows[falls[-1] + 1 :] if len(falls) else rows

    def runs(self, closed_loop: ClosedLoop, wall_s: float = 0.0, **more: Any) -> list[Run]:
        """The runs, one for each life of the plant, in their order. more: further fields of each run."""
        recorded = len(closed_loop.answer_columns)
        columns = len(self.columns.get(PLANT, ()))
        runs = []
        for life in self.lives:
            rows, answers = self.table(PLANT, life, columns), self.table(CONTROLLER, life, recorded)
            largest = largest_residuals(closed_loop, answers)
            mode = closed_loop.launch.run.mode
            runs.append(run_of_rows(closed_loop, mode, rows, answers, wall_s, residual_max=largest, **more))
        return runs


def columns_of(closed_loop: ClosedLoop) -> dict[str, list[str]]:
    """The names of the rows' columns, by node."""
    machine = closed_loop.machine.description
    columns = {PLANT: PlantRecordLayout.of(machine).columns(machine)}
    if closed_loop.control:
        columns[CONTROLLER] = closed_loop.answer_columns
    return columns


def lives_beside(out: Path, lives: int) -> list[Path]:
    """The CSV files of this many lives of the plant: NAME.life1.csv, ..., and `out` for the last."""
    return [*(out.with_name(f"{out.stem}.life{i + 1}{out.suffix}") for i in range(lives - 1)), *[out][:lives]]


def write_runs(runs: list[Run], out: Path) -> list[Path]:
    """Write the last run as the CSV file `out`, earlier ones beside it; returns the files, `out` last."""
    files = lives_beside(out, len(runs))
    for run, file in zip(runs, files, strict=True):
        run.write_csv(file)
    return files
