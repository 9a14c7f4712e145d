"""The whole sampled loop as one compiled function: target, law, zero-order hold, limits, delay, plant steps."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers.engine.signals import Signals
from servonode.controllers.inversion.feedforward import Feedforward
from servonode.nodes.node import Fault
from servonode.simulation.coasting import coast
from servonode.simulation.fused_fault import fault_at
from servonode.simulation.imperfections import Imperfections, is_perfect
from servonode.simulation.loop_source import loop_of


@dataclass(frozen=True)
class GoalTables:
    """Targets and signals with their derivatives at each control instant, and beyond the end as far as inputs wait."""

    targets: Array
    signals: Array


def goal_tables(closed_loop: ClosedLoop) -> GoalTables:
    """Those of a run of a closed loop with a controller."""
    launch, control = closed_loop.launch, closed_loop.control
    assert control is not None
    times = launch.steps, launch.steps_per_period or 1, control.stated.delay, launch.step_ns
    return closed_loop.kept.of(_tables, control.targets, control.signals, *times)


def _tables(
    targets: Signals, signals: Signals | Feedforward, steps: int, per_period: int, delay: int, step_ns: int
) -> GoalTables:
    times = np.arange(steps // per_period + delay + 1) * per_period * step_ns / 1e9
    return GoalTables(targets.table(times), signals.table(times))


class Ended(NamedTuple):
    """How a compiled loop ended.

    stopped: the step up to which the nodes must run to know the fault that stopped it, or what else they do there; -1:
    it came to the end of the run. answers: how many states were answered, the rows of the controller's record.
    goal_from: the step at which the goal's time began. counts: as of a plant node; empty where nothing is imperfect.
    fault: that stopped it; None: it came to the end, or the nodes must find it.
    """

    stopped: int
    answers: int
    goal_from: int
    counts: dict[str, int]
    fault: Fault | None = None

    @property
    def completed(self) -> bool:
        """Whether it came to the end of the run."""
        return self.stopped < 0


def _controlled(closed_loop: ClosedLoop, every: int, goals: GoalTables, rows: Array, answers: Array) -> Ended:
    """The run of a closed loop with a controller, in the compiled loop of all that differ in numbers alone."""
    launch, machine, control = closed_loop.launch, closed_loop.machine, closed_loop.control
    assert control is not None
    law, controller, period = control.law, control.stated, launch.steps_per_period or 1
    x, y, limits = closed_loop.start.copy(), np.zeros(law.goal_layout.size), closed_loop.safety.limits
    more = None if is_perfect(closed_loop) else Imperfections(closed_loop)
    kernel, progress = loop_of(closed_loop, law, imperfect=more is not None), np.zeros(3, dtype=np.int64)
    arguments = kernel.arguments(
        "loop", **(more.arguments if more else {}), steps=launch.steps, per_period=period, step_ns=launch.step_ns,
        every=every, period=launch.times.period, x=x, c=machine.c, bounds=limits.bounds,
        depth=controller.delay + 1, queue=np.zeros((controller.delay + 1, machine.n_inputs)), c_law=law.c, K=law.K,
        targets=goals.targets, signals=goals.signals, y=y, memory=law.memory(),
        predicts=int(controller.predictor and controller.delay > 0), c_believed=law.machine.c, rows=rows,
        answers=answers, progress=progress,
    )  # fmt: skip
    stopped = kernel.AGAIN
    while stopped == kernel.AGAIN:
        if more:
            more.draw()
        stopped = kernel.loop(*arguments.values())
    goal_from, measured = (more.goal_from, more.measured) if more else (0, x)
    known = stopped >= 0 and (more is None or more.names_fault)
    fault = fault_at(closed_loop, stopped, x, stopped - goal_from, measured, y) if known else None
    return Ended(stopped, int(progress[2]), goal_from, more.counts() if more else {}, fault)


def fused_loop(closed_loop: ClosedLoop, every: int, rows: Array, answers: Array) -> Ended:
    """Fill the records of a run, as far as no fault ends it before its time.

    rows, answers: filled with a row of each `every` steps and one of each answered control instant.
    """
    if closed_loop.control is not None:
        return _controlled(closed_loop, every, goal_tables(closed_loop), rows, answers)
    stopped, fault = coast(closed_loop, every, rows)
    return Ended(stopped, 0, 0, {}, fault)


def rows_of(steps: int, every: int) -> int:
    """The rows of a record of this many steps: the first of each `every` steps, and the last step."""
    return -(-steps // every) + 1
