"""The rows of a run, by node and by life of the plant, and the runs that are made of them, with their CSV files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.bus.messages import EXACT
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers.engine.layout import CLIPPED, kept_columns
from servonode.mechanics.description import Quantity
from servonode.mechanics.machine import Machine
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.run import Run, Steps
from servonode.record.run_estimate import estimate_of


def are_counts(values: Array) -> bool:
    """Whether all are whole numbers from 0 on that a float holds exactly."""
    return bool(np.all((values >= 0) & (values <= EXACT) & (values == np.floor(values))))


@dataclass
class RunRows:
    """The rows of a run, by node and by life of the plant. columns: their names, by node that has rows."""

    columns: dict[str, list[str]] = field(default_factory=dict)
    _parts: dict[tuple[str, int], list[Array]] = field(default_factory=lambda: defaultdict(list))

    def add(self, node: str, life: int, rows: Array) -> None:
        """Add rows in their order. ValueError unless each begins with a plant step."""
        if not are_counts(rows[:, 0]):
            raise ValueError(f"a row of the {node} does not begin with a plant step")
        self._parts[node, life].append(rows)

    def extend(self, more: "RunRows") -> None:
        """Add rows that follow these."""
        self.columns |= more.columns
        for (node, life), parts in more._parts.items():
            self._parts[node, life] += parts

    @property
    def size(self) -> int:
        """The bytes of all rows."""
        return sum(part.nbytes for parts in self._parts.values() for part in parts)

    def recorded(self) -> Iterator[tuple[str, int, Array]]:
        """Node, life and rows as they were recorded: of a part of the rows it is not known what comes before them."""
        for (node, life), parts in self._parts.items():
            yield node, life, np.concatenate(parts)

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

    def all_of(self, node: str, columns: int) -> Array:
        """All rows of a node, (rows, columns), as they were recorded, through all lives of the plant."""
        parts = [part for (name, _), each in sorted(self._parts.items()) if name == node for part in each]
        return np.concatenate(parts) if parts else np.zeros((0, columns))

    def newest(self, node: str) -> Array:
        """The rows of a node in the last life of the plant; all of them where no plant was recorded."""
        columns = len(self.columns[node])
        return self.table(node, self.lives[-1], columns) if self.lives else self.all_of(node, columns)

    def runs(self, closed_loop: ClosedLoop, wall_s: float = 0.0, **more: Any) -> list[Run]:
        """The runs, one for each life of the plant, in their order. more: further fields of each run."""
        recorded = len(closed_loop.answer_columns)
        columns = len(self.columns.get(PLANT, ()))
        runs = []
        for life in self.lives:
            states, answers = self.table(PLANT, life, columns), self.table(CONTROLLER, life, recorded)
            largest = largest_residuals(closed_loop, answers)
            mode = closed_loop.launch.run.mode
            runs.append(run_of_rows(closed_loop, mode, states, answers, wall_s, residual_max=largest, **more))
        return runs


def columns_of(closed_loop: ClosedLoop) -> dict[str, list[str]]:
    """The names of the rows' columns, by node."""
    machine = closed_loop.machine.description
    columns = {PLANT: PlantRecordLayout.of(machine).columns(machine)}
    if closed_loop.control:
        columns[CONTROLLER] = closed_loop.answer_columns
    return columns


def run_of_rows(closed_loop: ClosedLoop, control: str, table: Array, answers: Array, wall_s: float, **more: Any) -> Run:
    """A Run from the plant's table of rows (see `PlantRecordLayout`) and the controller's (see `RecordLayout`).

    What the controller computed stands at control instants and is repeated until the next one. NaN stands where it has
    not answered the state of an instant, such as after a fault.
    """
    machine, step_s = closed_loop.machine, closed_loop.launch.step_ns / 1e9
    part = PlantRecordLayout.of(machine.description)
    k = table[:, part.step][:, 0].astype(np.int64)
    t = k * closed_loop.launch.step_ns / 1e9
    residuals, scales, kept, states = _answered(closed_loop, answers)
    hold = partial(held, *held_index(k, answers[:, 0], closed_loop.launch.steps_per_period or 1))
    x = np.ascontiguousarray(table[:, part.x])
    if table.shape[1] == part.size:
        more["goal_t"] = table[:, part.goal_step][:, 0] * closed_loop.launch.step_ns / 1e9
        if not closed_loop.driver.simulated and control != "sampled":
            more["state_age"] = table[:, part.age][:, 0]
    own = hold(states)
    reactions = _stabilised(machine, t, x)
    largest = {name: float(np.max(np.abs(values), initial=0.0)) for name, values in reactions.items()}
    more["residual_max"] = largest | more.get("residual_max", {})
    if closed_loop.estimation is not None:
        recorded = dict(zip(closed_loop.answer_columns, answers.T, strict=True))
        known = hold({name: recorded[name] for name in closed_loop.estimation.columns})
        truth = None if closed_loop.device_estimate and control != "sampled" else x
        more["estimate"] = estimate_of(closed_loop, known, more.get("goal_t", t), truth, own)
    return Run(
        closed_loop=closed_loop,
        control=control,
        t=t,
        k=k,
        state=dict(zip(machine.description.state_names, table[:, part.state].T, strict=True)),
        input=dict(zip(machine.description.input_names, table[:, part.inputs].T, strict=True)),
        residual=reactions | hold(residuals),
        scale=hold(scales),
        kept=hold(kept),
        program_state=own,
        limits={name: _acted(answers, scale < 1.0, step_s) for name, scale in scales.items()},
        keeps=_keeps(closed_loop, answers, kept, step_s),
        clipped=_acted(answers, kept["keeping"] == CLIPPED, step_s) if kept else {},
        energy=machine.energy_of_rows(t, x),
        work=table[:, part.work][:, 0],
        wall_s=wall_s,
        steps=int(k[-1]) if len(k) else 0,
        **more,
    )


def largest_residuals(closed_loop: ClosedLoop, answers: Array) -> dict[str, float]:
    """The largest magnitude of each residual of the program over the controller's rows.

    Empty where these are on another computer.
    """
    if closed_loop.computer is not None and CONTROLLER in closed_loop.computer.others:
        return {}
    residuals, *_ = _answered(closed_loop, answers)
    return {name: float(np.max(np.abs(values), initial=0.0)) for name, values in residuals.items()}


def _answered(closed_loop: ClosedLoop, answers: Array) -> tuple[dict[str, Array], ...]:
    """The program's residuals, its limits' scales, what it keeps, its own states: columns of the controller's rows."""
    if closed_loop.control is None:
        return {}, {}, {}, {}
    law, part = closed_loop.control.law.description, closed_loop.control.law.record_layout

    def named(quantities: Sequence[Quantity], columns: slice) -> dict[str, Array]:
        return dict(zip((each.name for each in quantities), answers[:, columns].T, strict=True))

    kept = named(kept_columns(law), slice(part.margins.start, part.keeping.stop))
    return named(law.residuals, part.residuals), named(law.limits, part.scales), kept, named(law.states, part.states)


def _stabilised(machine: Machine, t: Array, xs: Array) -> dict[str, Array]:
    """The residuals of the constraints that the machine itself holds by reactions, at each kernel state (rows, n_x)."""
    described = machine.description
    if not described.stabilised:
        return {}
    table = machine.residuals_of_rows(t, xs)
    return {each.name: table[:, len(described.constraints) + i] for i, each in enumerate(described.stabilised)}


def _keeps(closed_loop: ClosedLoop, answers: Array, kept: Mapping[str, Array], step_s: float) -> dict[str, Any]:
    """Of each keep its least margin and when, at how many control instants it acted, where it gave way."""
    found = {}
    for each in closed_loop.control.law.description.keeps if closed_loop.control else ():
        margins, active = (kept[f"{word}_{each.quantity.name}"] for word in ("margin", "active"))
        if np.isfinite(margins).any():
            at = int(np.nanargmin(margins))
            found[each.quantity.name] = {
                "margin": float(margins[at]), "at": float(answers[at, 0]) * step_s, "acted": int((active > 0).sum()),
                "gave_way": _acted(answers, active < 0, step_s),
            }  # fmt: skip
    return found


def _acted(answers: Array, acting: npt.NDArray[np.bool_], step_s: float) -> dict[str, float | None]:
    """At how many control instants something acted, and when first [s]."""
    first = float(answers[int(np.argmax(acting)), 0]) * step_s if acting.any() else None
    return {"instants": int(acting.sum()), "first": first}


def held_index(k: Steps, instants: Array, period: int) -> tuple[Steps, npt.NDArray[np.bool_]]:
    """Of each row at step k its answer, the last of those at these instants, and whether it is of the row's period."""
    index = np.searchsorted(instants, k, side="right") - 1
    return index, k - np.append(instants, -np.inf)[index] < period


def held(index: Steps, answered: npt.NDArray[np.bool_], columns: Mapping[str, Array]) -> dict[str, Array]:
    """The values of the answer at the control instant of each row, NaN without one; see `held_index`."""
    return {name: np.where(answered, np.append(values, np.nan)[index], np.nan) for name, values in columns.items()}


def life_files(out: Path, lives: int) -> list[Path]:
    """The CSV files of this many lives of the plant: NAME.life1.csv, ..., and `out` for the last."""
    return [*(out.with_name(f"{out.stem}.life{i + 1}{out.suffix}") for i in range(lives - 1)), *[out][:lives]]


def write_runs(runs: list[Run], out: Path) -> list[Path]:
    """Write the last run as the CSV file `out`, earlier ones beside it; returns the files, `out` last."""
    files = life_files(out, len(runs))
    for run, file in zip(runs, files, strict=True):
        run.save_csv(file)
    return files
