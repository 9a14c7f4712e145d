"""What `Loop` asks of this wing: a function for each question, with the arguments of the method.

What computes the answer is imported when it is asked.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import with_section
from servonode.errors import check_choice, check_mapping

if TYPE_CHECKING:
    import xarray

    from servonode.wings.explore.linear.frequency_response import CutLoop, FrequencyResponse
    from servonode.wings.explore.linear.margins import Margins
    from servonode.wings.explore.sweeps.region import Region
    from servonode.wings.explore.sweeps.tune import Tuned

Ranges = Mapping[str, tuple[float, float]]


def sweep(
    closed_loop: ClosedLoop,
    vary: Mapping[str, Any] | None,
    *,
    histories: bool,
    threads: int | None,
    workers: int | None,
    scheduler: str | None,
    send_code: bool,
    output: str | Path | None,
    resume: bool,
    **stated: Any,
) -> "xarray.Dataset":
    """Many runs with other numbers. stated: keys of [sweep]; None: the launch file's own."""
    from servonode.wings.explore.sweeps.design import stated_axes
    from servonode.wings.explore.sweeps.plan import Plan
    from servonode.wings.explore.sweeps.run_sweep import Where, run_sweep

    given = {name: value for name, value in stated.items() if value is not None}
    if vary is not None:
        check_mapping("vary", vary, "plant.parameters.m1")
        given["vary"] = stated_axes(vary)
    where = Where(threads, workers, scheduler, send_code)
    launch = with_section(closed_loop.launch, "sweep", given) if given else closed_loop.launch
    plan = Plan(closed_loop.with_parts(launch=launch), histories)
    return run_sweep(plan, where, None if output is None else Path(output), resume)


def region(
    closed_loop: ClosedLoop,
    over: Ranges,
    require: Sequence[str],
    points: int | None,
    runs: int | None,
    threads: int | None,
) -> "Region":
    """Where in a box of numbers runs reach their goal."""
    from servonode.wings.explore.sweeps.ranges import ranges_of
    from servonode.wings.explore.sweeps.region import region as found

    check_mapping("over", over, "plant.initial.NAME")
    return found(closed_loop, ranges_of(over), require, points, runs, threads)


def tune(
    closed_loop: ClosedLoop,
    over: Ranges,
    cost: str | None,
    require: Sequence[str],
    runs: int,
    seeds: int,
    threads: int | None,
) -> "Tuned":
    """The numbers for which a cost is least."""
    from servonode.wings.explore.sweeps.ranges import ranges_of
    from servonode.wings.explore.sweeps.tune import tune as found

    check_mapping("over", over, "controller.gains.lambda")
    return found(closed_loop, ranges_of(over), cost, require, runs, seeds, threads)


def frequency_response(
    closed_loop: ClosedLoop, omega: Any, t: float, x: Array, own: Array, cut: str, equilibrium: bool
) -> "FrequencyResponse":
    """L, S and T of the sampled loop about a state."""
    from servonode.wings.explore.linear.frequency_response import frequency_response as found

    loop, _ = _cut(closed_loop, t, x, own, cut, equilibrium)
    return found(loop, omega)


def margins(closed_loop: ClosedLoop, t: float, x: Array, own: Array, cut: str, equilibrium: bool) -> "Margins":
    """The margins of the sampled loop about a state."""
    from servonode.wings.explore.linear.margins import margins_of

    return margins_of(*_cut(closed_loop, t, x, own, cut, equilibrium))


def _cut(
    closed_loop: ClosedLoop, t: float, x: Array, own: Array, cut: str, equilibrium: bool
) -> "tuple[CutLoop, tuple[str, ...]]":
    """The sampled loop about a state, cut, and remarks on its linearisation."""
    from servonode.analysis.linearisation import linearise
    from servonode.wings.explore.linear.frequency_response import cut_loop

    check_choice("cut", cut, ("inputs", "sensors"))
    found = linearise(closed_loop, t, x, own, equilibrium)
    moving = ("about a motion: the margins of this instant, which do not decide about stability",)
    remarks = (*(moving if found.about == "motion" else ()), *found.remarks)
    values = np.array(list(found.state.values()))  # the machine's states, then those of the program
    n = len(closed_loop.machine.description.state_names)
    at = np.concatenate([values[:n], x[n:]])
    return cut_loop(closed_loop, t, at, values[n:], cut), remarks  # type: ignore[arg-type]
