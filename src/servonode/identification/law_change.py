"""How the residuals of the law change when it believes the identified parameters: the closed loop simulated twice."""

from collections.abc import Mapping

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table, table_of
from servonode.errors import ServonodeError
from servonode.record.run import Run, default_every
from servonode.simulation.simulate import simulate_fused

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
    ended = [f"its simulation {word} ended with {run.fault['text']}" for word, run in _words(runs) if run.fault]
    return change, [f"the law believing the parameters {text}" for text in ended]


def _words(runs: list[Run]) -> list[tuple[str, Run]]:
    return list(zip(("of before", "identified"), runs, strict=True))


def _simulated(closed_loop: ClosedLoop, plant: Mapping[str, float], belief: Mapping[str, float]) -> Run:
    stated = closed_loop.derived.stated
    overrides = [f"plant.parameters.{name}={value!r}" for name, value in plant.items()]
    overrides += [f"controller.parameters.{name}={value!r}" for name, value in belief.items()]
    launch = launch_of_table(table_of(stated), overrides, name=stated.name, path=stated.path, file=stated.file)
    varied = resolve(launch, strict=False)
    varied.check_known_goals()
    return simulate_fused(varied, default_every(varied))


def _rms(run: Run, name: str) -> float:
    values = run.residual[name]
    return float(np.sqrt(np.nanmean(values**2))) if np.isfinite(values).any() else float("nan")
