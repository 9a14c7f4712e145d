"""The whole sampled loop as one compiled function: target, law, zero-order hold, limits, delay, plant steps."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from servonode.arrays import Array
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers.engine.layout import CROSSED, GOOD, UNSOLVED
from servonode.controllers.engine.signals import Signals
from servonode.controllers.inversion.feedforward import Feedforward
from servonode.definitions import cache
from servonode.kernels.library import library_text
from servonode.mechanics.machine import fault_time
from servonode.nodes.fault_ladder import Fault
from servonode.simulation.imperfections import Imperfections, is_perfect
from servonode.simulation.loop_source import loop_of, row_sizes

_loops: dict[tuple[object, ...], Any] = {}  # loaded ones, by what their texts depend on


def coast_call(closed_loop: ClosedLoop, every: int, rows: Array) -> tuple[Any, dict[str, Any]]:
    """The kernel of a run without a controller, and the arguments of its `coast`."""
    launch, machine = closed_loop.launch, closed_loop.machine
    x, u, last = closed_loop.start.copy(), np.zeros(machine.n_inputs), np.zeros(len(closed_loop.start))
    kernel, run = _loop(closed_loop), {"steps": launch.steps, "step_ns": launch.step_ns, "every": every}
    return kernel, kernel.arguments("coast", **run, x=x, u=u, last=last, c=machine.c, rows=rows)


def coast(closed_loop: ClosedLoop, every: int, rows: Array) -> tuple[int, Fault | None]:
    """Fill the record of a run, a row of each `every` steps; -1, or the step at which it stopped, and the fault there.

    None: it came to the end, or the nodes must find the fault.
    """
    launch, machine = closed_loop.launch, closed_loop.machine
    kernel, arguments = coast_call(closed_loop, every, rows)
    x, u, last = arguments["x"], arguments["u"], arguments["last"]
    stopped = kernel.AGAIN
    while stopped == kernel.AGAIN:
        stopped = kernel.coast(*arguments.values())
    if stopped < 0 or not _watched(closed_loop) or not np.isfinite(x).all():
        return stopped, None
    t, violated = fault_time(machine, launch.plant.integrator, launch.step_ns, stopped - 1, last, u)
    return stopped, Fault(violated.name, violated.text, t, PLANT) if violated else None


def _watched(closed_loop: ClosedLoop) -> bool:
    return closed_loop.launch.plant.safety.faults and bool(closed_loop.machine.description.faults)


def _loop(closed_loop: ClosedLoop) -> Any:
    """The kernel of `kernels/lib/coast.py` for a machine; raises CacheError."""
    machine, integrator, watched = closed_loop.machine, closed_loop.launch.plant.integrator, _watched(closed_loop)
    key = machine.kernel.__name__, integrator, watched
    if key not in _loops:
        sizes = {"n_x": machine.n_state + 1, "n_tau": machine.n_inputs, "n_constants": len(machine.c), "n_progress": 2}
        given = {"advance": (machine.steps(integrator).__name__, "advance")}
        given |= {"faults": (machine.kernel.__name__, "faults")} if watched else {}
        source = library_text("coast", {}, sizes | row_sizes(closed_loop) | {"watched": watched}, given, {"rows"})
        _loops[key] = cache.load(cache.key_of("coast", source), lambda: (source, b"{}"))[0]
    return _loops[key]


@dataclass(frozen=True)
class GoalTables:
    """Targets and signals with their derivatives at each control instant, and beyond the end as far as inputs wait."""

    targets: Array
    signals: Array


def goal_tables(closed_loop: ClosedLoop) -> GoalTables:
    """Those of a run of a closed loop with a controller."""
    launch, control = closed_loop.launch, closed_loop.known_control
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


def loop_call(
    closed_loop: ClosedLoop, every: int, goals: GoalTables, rows: Array, answers: Array
) -> tuple[Any, dict[str, Any], Imperfections | None]:
    """The compiled loop of all that differ in numbers alone, the arguments of its `loop`, and what is not perfect."""
    launch, machine, control = closed_loop.launch, closed_loop.machine, closed_loop.known_control
    law, controller, period = control.law, control.stated, launch.steps_per_period or 1
    more = None if is_perfect(closed_loop) else Imperfections(closed_loop)
    kernel = loop_of(closed_loop, law, imperfect=more is not None)
    arguments = kernel.arguments(
        "loop", **(more.arguments if more else {}), steps=launch.steps, per_period=period, step_ns=launch.step_ns,
        every=every, period=launch.times.period, x=closed_loop.start.copy(), c=machine.c,
        bounds=closed_loop.safety.limits.bounds,
        depth=controller.delay + 1, queue=np.zeros((controller.delay + 1, machine.n_inputs)), c_law=law.c, K=law.K,
        targets=goals.targets, signals=goals.signals, memory=law.memory(),
        most_clipped=closed_loop.safety.clipped,
        predicts=int(controller.predictor and controller.delay > 0), c_believed=law.machine.c, rows=rows,
        answers=answers,
    )  # fmt: skip
    return kernel, arguments, more


def _controlled(closed_loop: ClosedLoop, every: int, goals: GoalTables, rows: Array, answers: Array) -> Ended:
    """The run of a closed loop with a controller."""
    kernel, arguments, more = loop_call(closed_loop, every, goals, rows, answers)
    x, y, progress = arguments["x"], arguments["y"], arguments["progress"]
    stopped = kernel.AGAIN
    while stopped == kernel.AGAIN:
        if more:
            more.draw()
        stopped = kernel.loop(*arguments.values())
    goal_from, measured = (more.goal_from, more.measured) if more else (0, x)
    known = stopped >= 0 and (more is None or more.names_fault)
    unsolved = bool(arguments["clipped"][0] > closed_loop.safety.clipped)
    fault = fault_at(closed_loop, stopped, x, stopped - goal_from, measured, y, unsolved) if known else None
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


def fault_at(
    closed_loop: ClosedLoop, k: int, x: Array, goal_k: int, measured: Array, y: Array, unsolved: bool
) -> Fault | None:
    """The fault at step k of a loop that stopped there, of its machine or law; None: the nodes must find it.

    x, measured: the machine's state there, and what the law saw of it. y: the goal of step goal_k, with the program's
    own states. unsolved: whether inputs that keep all were sought in vain for too long.
    """
    launch, machine, control = closed_loop.launch, closed_loop.machine, closed_loop.control
    if control is None or control.stated.predictor or not np.isfinite(x).all() or k % (launch.steps_per_period or 1):
        return None
    t, law = k * launch.step_ns / 1e9, control.law
    violated = machine.fault(t, x) if launch.plant.safety.faults else None
    if violated is not None:
        return Fault(violated.name, violated.text, t, PLANT)
    answer = law.evaluate(goal_k * launch.step_ns / 1e9, measured, y)
    if answer.status == GOOD:  # so its determinant has changed sign, or it was clipped for too long
        answer.status = UNSOLVED if unsolved else CROSSED
    return Fault(law.fault_name(answer), law.explain(answer), t, CONTROLLER)
