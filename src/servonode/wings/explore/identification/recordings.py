"""The way from recordings and runs to an identification."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table, table_of
from servonode.errors import ServonodeError
from servonode.record.bag import read_bag
from servonode.record.run import Run, default_every
from servonode.simulation.simulate import simulate_fused
from servonode.wings.explore.identification.experiment import (
    Experiment,
    IdentificationError,
    experiment_of,
    experiments_in,
)
from servonode.wings.explore.identification.identification import Identification, chosen, identified

Change = dict[str, tuple[float, float, str]]  # by residual: its rms before and after, its unit


def law_change(
    closed_loop: ClosedLoop, before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[Change, list[str]]:
    """The rms of each residual with the plant at `after` and the law at `before`, then at `after`; and what to note."""
    control = closed_loop.control
    if control is None or not control.law.n_s:
        return {}, ["no law with residuals was recorded, so no residual of a law can change"]
    runs = []
    for belief in (before, after):
        try:
            runs.append(_simulated(closed_loop, after, belief))
        except ServonodeError as error:
            return {}, [f"the closed loop with these parameters cannot be simulated: {error}"]
    units = {each.name: each.unit for each in control.law.description.residuals}
    change = {name: (_rms(runs[0], name), _rms(runs[1], name), unit) for name, unit in units.items()}
    named = zip(("of before", "identified"), runs, strict=True)
    ended = [f"its simulation {word} ended with {run.fault['text']}" for word, run in named if run.fault]
    return change, [f"the law believing the parameters {text}" for text in ended]


def _simulated(closed_loop: ClosedLoop, plant: Mapping[str, float], belief: Mapping[str, float]) -> Run:
    stated = closed_loop.stated
    overrides = [f"plant.parameters.{name}={value!r}" for name, value in plant.items()]
    overrides += [f"controller.parameters.{name}={value!r}" for name, value in belief.items()]
    launch = launch_of_table(table_of(stated), overrides, name=stated.name, path=stated.path, file=stated.file)
    varied = resolve(launch, strict=False)
    varied.check_known_goals()
    return simulate_fused(varied, default_every(varied))


def _rms(run: Run, name: str) -> float:
    values = run.residual[name]
    return float(np.sqrt(np.nanmean(values**2))) if np.isfinite(values).any() else float("nan")


Record = str | Path | Run


def identification_of(
    records: Sequence[Record],
    names: Sequence[str],
    segment: float | None = None,
    law: bool = True,
    overrides: Sequence[str] = (),
    code: bool | None = None,
) -> Identification:
    """The parameters of these names from recordings, by their files, and from runs in memory.

    segment: see `identified`. law: whether the closed loop is simulated. overrides (KEY=VALUE), code: see
    `Bag.closed_loop`.

    Raises:
        IdentificationError: see `identified`, or the records are of several machines, or one is given twice; BagError,
            LaunchError: a recording cannot be read.
    """
    if not records:
        raise IdentificationError("no recording is given; name the .mcap file of one")
    _check_once(records)
    names = [each.replace(".", "_") for each in names]  # link3.mass, as launch files have it
    loops, experiments = list[ClosedLoop](), list[Experiment]()
    for i, record in enumerate(records):
        if isinstance(record, Run):
            loops.append(record.closed_loop)
            experiments.append(experiment_of(record, "run" if len(records) == 1 else f"run {i + 1}"))
        else:
            bag = read_bag(Path(record))
            loops.append(bag.closed_loop(overrides, code=code))
            chosen(loops[-1], names)  # before all its messages are read
            experiments += experiments_in(bag, loops[-1])
    _check_one_machine(records, loops)
    found = identified(loops[0], experiments, names, segment)
    if not law:
        return found
    before, after = ({n: getattr(each, word) for n, each in found.estimates.items()} for word in ("before", "value"))
    change, notes = law_change(loops[0], before, after)
    return replace(found, law=change, notes=(*found.notes, *notes))


def _check_once(records: Sequence[Record]) -> None:
    """Refuse a record that is given twice: its noise would count as that of two, and the intervals be too narrow."""
    keys = [id(each) if isinstance(each, Run) else os.path.realpath(each) for each in records]
    for i, record in enumerate(records):
        if keys[i] in keys[:i]:
            shown = "a run" if isinstance(record, Run) else record
            raise IdentificationError(f"{shown}: is given twice, but tells no more so; give each record once")


def _check_one_machine(records: Sequence[Record], loops: Sequence[ClosedLoop]) -> None:
    for record, loop in zip(records, loops, strict=True):
        if loop.source.key != loops[0].source.key:
            names = [each.machine.description.name for each in (loops[0], loop)]
            text = f"is of the machine {names[1]}, the first record of {names[0]}"
            if names[0] == names[1]:
                text = f"is of the machine {names[0]} with other settings or disturbances than the first record"
            shown = "a run" if isinstance(record, Run) else record
            raise IdentificationError(f"{shown}: {text}; identify them one by one")
