"""The execution modes within one process: continuous mathematics, and the sampled loop as nodes or fused."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus import MemoryBus, Switchboard
from servonode.bus.topology import CONTROLLER, PLANT, TARGET, nodes_of, subscribers
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import LaunchError
from servonode.controllers import ServoLaw
from servonode.controllers.engine.layout import CROSSED, Answer
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.lockstep import lockstep, prepare
from servonode.nodes.plant_node import PlantNode
from servonode.nodes.target_node import TargetNode
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.recorder import Recorder, check_size
from servonode.record.run import Run
from servonode.record.run_rows import largest_residuals, run_of_rows
from servonode.simulation.event_integration import MachineJumps, SimulationError, integrated
from servonode.simulation.fused_loop import fused_loop

_log = logging.getLogger(__name__)
Array = npt.NDArray[np.float64]
MOST_STEPS = 500_000_000  # plant steps of a simulation, which take some ten minutes


def check_length(closed_loop: ClosedLoop) -> None:
    """Refuse a simulation that would not come to its end today.

    Raises:
        LaunchError: it has more than MOST_STEPS steps.
    """
    launch = closed_loop.launch
    if launch.steps > MOST_STEPS:
        step = launch.step_ns / 1e9
        text = f"{launch.duration_ns / 1e9:g} s are {launch.steps:.3g} plant steps of {step:g} s, a simulation takes "
        text += f"at most {MOST_STEPS:.0e}; give at most {MOST_STEPS * step:g}, or a longer plant.step"
        raise LaunchError(launch.file, "run", "duration", text)


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


def simulate_nodes(closed_loop: ClosedLoop, every: int) -> Run:
    """The sampled loop with the very nodes of a run, stepped in one process on the bus in memory."""
    check_length(closed_loop)
    begin = time.monotonic_ns()
    switchboard = Switchboard()
    bus = _SteppedBus(switchboard, PLANT)
    listeners = subscribers(nodes_of(closed_loop.control is not None))
    plant = PlantNode(closed_loop, bus, listeners, every)
    answers, more = np.zeros((0, 1)), dict[str, Any]()
    if closed_loop.control:
        target = TargetNode(closed_loop, MemoryBus(switchboard, TARGET), listeners)
        controller = ControllerNode(closed_loop, MemoryBus(switchboard, CONTROLLER), listeners, simulated=True)
        bus.peers = (target, controller)
    bus.give_up = lambda: setattr(plant, "stop", True)
    if prepare(plant, arm=True, timeout_s=0.0):
        lockstep(plant, closed_loop.launch.run.lockstep_timeout)
    summary = plant.summary()
    if closed_loop.control:
        answers = controller.record.rows
        more = {"residual_max": largest_residuals(closed_loop, answers), "stats": {"counts": summary["counts"]}}
        summary["faults"] = [*target.summary()["faults"], *summary["faults"]]
    wall_s = (time.monotonic_ns() - begin) / 1e9
    return run_of_rows(
        closed_loop, "sampled", plant.record.rows, answers, wall_s, faults=summary["faults"], **more
    )  # fmt: skip


def simulate_fused(closed_loop: ClosedLoop, every: int) -> Run:
    """The sampled loop as one compiled function: the same bits as the nodes, where nothing is imperfect.

    A run that meets a fault is given to the nodes, which know what follows from it.
    """
    check_length(closed_loop)
    if not can_fuse(closed_loop):
        return simulate_nodes(closed_loop, every)
    begin = time.monotonic_ns()
    launch, machine = closed_loop.launch, closed_loop.machine
    row = PlantRecordLayout.of(machine.description)
    record = Recorder(row.columns(machine.description)[row.computed][1:], launch.steps // every + 2)
    answers = _answers(closed_loop)
    finished = fused_loop(closed_loop, every, record, answers)
    if not finished:
        return simulate_nodes(closed_loop, every)
    wall_s = (time.monotonic_ns() - begin) / 1e9
    largest = largest_residuals(closed_loop, answers.rows)
    return run_of_rows(closed_loop, "sampled", record.rows, answers.rows, wall_s, residual_max=largest)


def can_fuse(closed_loop: ClosedLoop) -> bool:
    """Whether the plant is its equations, drives and sensors are perfect, only values limited: then it is exact.

    It has no estimator.
    """
    limits, perfect = closed_loop.safety.limits, closed_loop.actuator.ideal and closed_loop.sensor.ideal
    free = min((*limits.rate, limits.power)) == np.inf
    own = closed_loop.driver.motion is None and closed_loop.estimation is None
    return own and perfect and free and closed_loop.safety.plausible(own=False) is None


def _answers(closed_loop: ClosedLoop) -> Recorder:
    law, launch = closed_loop.control.law if closed_loop.control else None, closed_loop.launch
    columns = law.record_layout.columns(law.description) if law else ["k"]
    rows = launch.steps // launch.steps_per_period + 2 if launch.steps_per_period else 0
    remedy = "shorten run.duration, or lengthen controller.period"
    return Recorder(columns[1:], rows, remedy=remedy)


def simulate_continuous(closed_loop: ClosedLoop, every: int, rtol: float, atol: float) -> Run:
    """The law inside the right-hand side, integrated by DOP853: the papers' mathematics.

    Raises:
        SimulationError: the law fails on the way, or the integrator cannot continue.
        LaunchError: the machine is not moved by its equations.
    """
    check_length(closed_loop)
    if closed_loop.machine.description.jumps_compare:
        text = "its jumps depend on the states at the beginning of a plant step, which the continuous mode lacks"
        raise LaunchError(closed_loop.launch.file, "plant", "machine", f"{text}; leave out --control continuous")
    if closed_loop.driver.motion is not None:
        text = f'"{closed_loop.driver.name}" steps in time, and the continuous mode integrates the equations; '
        remedy = "leave out --control continuous, or give --set plant.driver=simulated"
        raise LaunchError(closed_loop.launch.file, "plant", "driver", text + remedy)
    check_size(closed_loop.launch.steps // every + 2, 2 * len(closed_loop.start) + closed_loop.machine.n_inputs)
    begin = time.monotonic_ns()
    launch, machine, control = closed_loop.launch, closed_loop.machine, closed_loop.control
    if not can_fuse(closed_loop) or (launch.controller and launch.controller.delay):
        _log.warning(
            "the continuous mode knows limits only: delays, other effects of drives and sensors, and an estimator "
            "are left out"
        )
    control = control.continuous() if control else None
    closed_loop = replace(closed_loop, control=control, estimation=None)
    u = np.zeros(machine.n_inputs)
    dx = np.zeros(len(closed_loop.start))
    steps = np.unique(np.append(np.arange(0, launch.steps, every), launch.steps))
    times = steps * launch.step_ns / 1e9
    n_x, law = len(closed_loop.start), control.law if control else None
    answer = law.answer() if law else None
    more = closed_loop.goal(0.0)[law.goal_layout.kept] if law else np.zeros(0)

    def right_hand_side(t: float, extended: Array) -> Array:
        x = np.ascontiguousarray(extended[:n_x])
        y = _closed_loop_input(closed_loop, law, t, x, u, extended[n_x:], answer) if law and answer else None
        machine.kernel.derivatives(t, x, u, machine.c, dx)
        if law is None or answer is None or y is None or not len(more):
            return dx.copy()
        return np.concatenate([dx, law.state_rates(t, x, y), answer.residuals if law.description.integral else []])

    def fault(t: float, extended: Array) -> float:
        return -1.0 if machine.fault(t, np.ascontiguousarray(extended[:n_x])) else 1.0

    def determinant(t: float, extended: Array) -> float:
        assert law is not None
        assert answer is not None
        _closed_loop_input(closed_loop, law, t, np.ascontiguousarray(extended[:n_x]), u, extended[n_x:], answer)
        return answer.determinant

    events = [fault] if launch.plant.safety.faults and machine.description.faults else []
    events += [determinant] if law and law.description.tells_crossings else []
    jumps = MachineJumps(machine, launch.step_ns / 1e9) if machine.description.jumps else None
    begun = np.append(closed_loop.start, more)
    solution = integrated(right_hand_side, times, begun, events, jumps, rtol=rtol, atol=atol)
    if solution.event is not None:
        event, t, at = solution.event
        if event is determinant and law and answer:
            answer.status = CROSSED
            raise SimulationError(f"at t = {t:g} s {law.explain(answer)}")
        raise SimulationError(f"at t = {t:g} s {_fault_near(closed_loop, t, np.ascontiguousarray(at[:n_x]))}")
    part = PlantRecordLayout.of(machine.description)
    rows = np.zeros((len(times), part.computed.stop))
    answers = np.zeros((len(times), law.record_layout.size if law else 1))
    for i, (k, t) in enumerate(zip(steps, times, strict=True)):
        x = np.ascontiguousarray(solution.y[:n_x, i])
        if law and answer:
            y = _closed_loop_input(closed_loop, law, t, x, u, solution.y[n_x:, i], answer)
            answers[i] = [k, *answer.recorded, *y[law.goal_layout.states]]
        rows[i, part.step], rows[i, part.x], rows[i, part.inputs] = k, x, u
    wall_s = (time.monotonic_ns() - begin) / 1e9
    return run_of_rows(
        closed_loop, "continuous", rows, answers if control else np.zeros((0, 1)), wall_s,
        residual_max=largest_residuals(closed_loop, answers),
    )  # fmt: skip


def _fault_near(closed_loop: ClosedLoop, t: float, x: Array) -> str:
    """The text of the fault on whose border a state lies."""
    machine = closed_loop.machine
    ahead = x + 1e-6 * machine.derivatives(t, x, np.zeros(machine.n_inputs))
    violated = machine.fault(t, x) or machine.fault(t, ahead)
    return violated.text if violated else " or ".join(each.text for each in machine.description.faults)


def _closed_loop_input(
    closed_loop: ClosedLoop, law: ServoLaw, t: float, x: Array, u: Array, more: Array, answer: Answer
) -> Array:
    """Write the law's input at this state into u, limited as the plant's filter would; the law's y.

    `more` are the program's own states and the integrals.
    """
    y = closed_loop.goal(t)
    y[law.goal_layout.kept] = more
    if not np.isfinite(y).all():
        raise SimulationError(f"at t = {t:g} s a target is not finite; correct its expression or shorten the run")
    if law.compute(t, x, y, answer):
        raise SimulationError(f"at t = {t:g} s {law.explain(answer)}")
    most = np.array(closed_loop.safety.limits.value)
    np.clip(answer.inputs, -most, most, out=u)
    return y
