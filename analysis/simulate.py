"""The rungs within one process: the papers' continuous mathematics, and the sampled loop as nodes or fused."""

import logging
import time
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from servonode.analysis.fused_loop import fused_loop
from servonode.bus import MemoryBus, Switchboard
from servonode.closed_loop.closed_loop import Assembly
from servonode.closed_loop.launch_file import LaunchError
from servonode.closed_loop.run import Run, largest_residuals, run_of_rows
from servonode.controllers import ServoLaw
from servonode.controllers.engine.layout import Answer
from servonode.errors import ServonodeError
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.lockstep import lockstep, prepare
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.row_log import Recorder, check_size
from servonode.nodes.target_node import TargetNode
from servonode.nodes.topology import CONTROLLER, PLANT, TARGET, nodes_of, subscribers

_log = logging.getLogger(__name__)
Array = npt.NDArray[np.float64]
ROWS = 20_000  # rows a run keeps unless asked for more
MOST_STEPS = 500_000_000  # plant steps of a simulation, which take some ten minutes


class SimulationError(ServonodeError, RuntimeError):
    """The integration cannot go on; the text says where and why."""

    exit_code = 1


def check_length(assembly: Assembly) -> None:
    """Refuse a simulation that would not come to its end today.

    Raises:
        LaunchError: it has more than MOST_STEPS steps.
    """
    launch = assembly.launch
    if launch.steps > MOST_STEPS:
        step = launch.step_ns / 1e9
        text = f"{launch.duration_ns / 1e9:g} s are {launch.steps:.3g} plant steps of {step:g} s, a simulation takes "
        text += f"at most {MOST_STEPS:.0e}; give at most {MOST_STEPS * step:g}, or a longer plant.step"
        raise LaunchError(launch.file, "run", "duration", text)


def default_every(assembly: Assembly) -> int:
    """Steps per recorded row: at most ROWS rows, on control instants where there are any."""
    launch = assembly.launch
    unit = launch.steps_per_period or 1
    periods = -(-launch.steps // unit)
    return unit * max(1, -(-periods // ROWS))


class _SteppedBus(MemoryBus):
    """The plant's bus in memory: waiting for an answer lets the other nodes work."""

    peers: Iterable[ControllerNode | TargetNode] = ()
    give_up: Callable[[], None] = lambda: None

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        for peer in self.peers:
            peer.work()
            if isinstance(peer, TargetNode) and peer.faults:
                self.give_up()
        return super().wait(deadline_ns, fds)


def simulate_nodes(assembly: Assembly, every: int) -> Run:
    """The sampled loop with the very nodes of a run, stepped in one process on the bus in memory."""
    check_length(assembly)
    begin = time.monotonic_ns()
    switchboard = Switchboard()
    bus = _SteppedBus(switchboard, PLANT)
    listeners = subscribers(nodes_of(assembly.control is not None))
    plant = PlantNode(assembly, bus, listeners, every)
    answers, more = np.zeros((0, 1)), {}
    if assembly.control:
        target = TargetNode(assembly, MemoryBus(switchboard, TARGET), listeners)
        controller = ControllerNode(assembly, MemoryBus(switchboard, CONTROLLER), listeners)
        bus.peers = (target, controller)
    bus.give_up = lambda: setattr(plant, "stop", True)
    if prepare(plant, arm=True, timeout_s=0.0):
        lockstep(plant, assembly.launch.run.lockstep_timeout)
    summary = plant.summary()
    if assembly.control:
        answers = controller.record.rows
        more = {"residual_max": largest_residuals(assembly, answers)}
        summary["faults"] = [*target.summary()["faults"], *summary["faults"]]
    wall_s = (time.monotonic_ns() - begin) / 1e9
    return run_of_rows(
        assembly, "sampled", plant.record.rows, answers, wall_s, faults=summary["faults"], **more
    )  # fmt: skip


def simulate_fused(assembly: Assembly, every: int) -> Run:
    """The sampled loop as one compiled function: the same bits as the nodes, where nothing is imperfect.

    A run that meets a fault is given to the nodes, which know what follows from it.
    """
    check_length(assembly)
    if not can_fuse(assembly):
        return simulate_nodes(assembly, every)
    begin = time.monotonic_ns()
    launch, machine = assembly.launch, assembly.machine
    record = Recorder(
        [*machine.description.state_names, "work", *machine.description.input_names],
        launch.steps // every + 2,
    )
    answers = _answers(assembly)
    finished = fused_loop(assembly, every, record, answers)
    if not finished:
        return simulate_nodes(assembly, every)
    wall_s = (time.monotonic_ns() - begin) / 1e9
    return run_of_rows(
        assembly, "sampled", record.rows, answers.rows, wall_s, residual_max=largest_residuals(assembly, answers.rows)
    )  # fmt: skip


def can_fuse(assembly: Assembly) -> bool:
    """Whether plant, drives and sensors are perfect and only values are limited, so that the fused loop is exact."""
    free = min((*assembly.limits.rate, assembly.limits.power)) == np.inf
    return assembly.actuator.ideal and assembly.sensor.ideal and free and assembly.plausible(own=False) is None


def _answers(assembly: Assembly) -> Recorder:
    law, launch = assembly.control.law if assembly.control else None, assembly.launch
    columns = law.record_layout.columns(law.description) if law else ["k"]
    rows = launch.steps // launch.steps_per_period + 2 if launch.steps_per_period else 0
    remedy = "shorten run.duration, or lengthen controller.period"
    return Recorder(columns[1:], rows, remedy=remedy)


def simulate_continuous(assembly: Assembly, every: int, rtol: float, atol: float) -> Run:
    """The law inside the right-hand side, integrated by DOP853: the papers' mathematics.

    Raises:
        SimulationError: the law fails on the way, or the integrator cannot go on.
    """
    from scipy.integrate import solve_ivp

    check_length(assembly)
    check_size(assembly.launch.steps // every + 2, 2 * len(assembly.start) + assembly.machine.n_inputs)
    begin = time.monotonic_ns()
    launch, machine, control = assembly.launch, assembly.machine, assembly.control
    if not can_fuse(assembly) or (launch.controller and launch.controller.delay):
        _log.warning("the continuous rung knows limits only: delays, other effects of drives and sensors are left out")
    u = np.zeros(machine.n_inputs)
    dx = np.zeros(len(assembly.start))
    steps = np.unique(np.append(np.arange(0, launch.steps, every), launch.steps))
    times = steps * launch.step_ns / 1e9
    n_x, law = len(assembly.start), control.law if control else None
    answer = law.answer() if law else None
    more = assembly.goal(0.0)[law.goal_layout.kept] if law else np.zeros(0)

    def right_hand_side(t: float, extended: Array) -> Array:
        x = np.ascontiguousarray(extended[:n_x])
        y = _closed_loop_input(assembly, law, t, x, u, extended[n_x:], answer) if law and answer else None
        machine.kernel.derivatives(t, x, u, machine.c, dx)
        if law is None or answer is None or y is None or not len(more):
            return dx.copy()
        return np.concatenate([dx, law.state_rates(t, x, y), answer.residuals if law.description.integral else []])

    def fault(t: float, extended: Array) -> float:
        return -1.0 if machine.fault(t, np.ascontiguousarray(extended[:n_x])) else 1.0

    fault.terminal = True  # type: ignore[attr-defined]
    solution = solve_ivp(
        right_hand_side,
        (0.0, times[-1]),
        np.append(assembly.start, more),
        method="DOP853",
        t_eval=times,
        rtol=rtol,
        atol=atol,
        events=fault if launch.plant.safety.faults and machine.description.faults else None,
    )
    if not solution.success:
        raise SimulationError(f"the continuous integration stopped at t = {solution.t[-1]:g} s: {solution.message}")
    if solution.status == 1:
        at = np.ascontiguousarray(solution.y_events[0][-1][:n_x])
        raise SimulationError(
            f"at t = {solution.t_events[0][-1]:g} s {_fault_near(assembly, float(solution.t_events[0][-1]), at)}"
        )
    rows = np.zeros((len(times), 1 + n_x + len(u)))
    answers = np.zeros((len(times), law.record_layout.size if law else 1))
    for i, (k, t) in enumerate(zip(steps, times, strict=True)):
        x = np.ascontiguousarray(solution.y[:n_x, i])
        if law and answer:
            y = _closed_loop_input(assembly, law, t, x, u, solution.y[n_x:, i], answer)
            answers[i] = [k, *answer.recorded, *y[law.goal_layout.states]]
        rows[i] = [k, *x, *u]
    wall_s = (time.monotonic_ns() - begin) / 1e9
    return run_of_rows(
        assembly, "continuous", rows, answers if control else np.zeros((0, 1)), wall_s,
        residual_max=largest_residuals(assembly, answers),
    )  # fmt: skip


def _fault_near(assembly: Assembly, t: float, x: Array) -> str:
    """The text of the fault on whose border a state lies."""
    machine = assembly.machine
    ahead = x + 1e-6 * machine.derivatives(t, x, np.zeros(machine.n_inputs))
    return machine.fault(t, x) or machine.fault(t, ahead) or " or ".join(e.text for e in machine.description.faults)


def _closed_loop_input(
    assembly: Assembly, law: ServoLaw, t: float, x: Array, u: Array, more: Array, answer: Answer
) -> Array:
    """Write the law's input at this state into u, limited as the plant's filter would; the law's y.

    `more` are the program's own states and the integrals.
    """
    y = assembly.goal(t)
    y[law.goal_layout.kept] = more
    if not np.isfinite(y).all():
        raise SimulationError(f"at t = {t:g} s a target is not finite; correct its expression or shorten the run")
    if law.compute(t, x, y, answer):
        raise SimulationError(f"at t = {t:g} s {law.explain(answer)}")
    np.clip(answer.inputs, -np.array(assembly.limits.value), assembly.limits.value, out=u)
    return y
