"""The continuous mode: the law inside the right-hand side of an adaptive integrator, as the papers' mathematics."""

import logging
import time

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_file import LaunchError
from servonode.controllers.engine.layout import CROSSED
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.recorder import check_size
from servonode.record.run import Run
from servonode.record.run_rows import largest_residuals, run_of_rows
from servonode.simulation.equations_source import GOAL_NOT_FINITE
from servonode.simulation.event_integration import MachineJumps, SimulationError, integrated
from servonode.simulation.imperfections import is_perfect
from servonode.simulation.loop_equations import LoopEquations
from servonode.simulation.simulate import check_length

_log = logging.getLogger(__name__)


def simulate_continuous(closed_loop: ClosedLoop, every: int, rtol: float, atol: float) -> Run:
    """The law inside the right-hand side, integrated by DOP853.

    Raises:
        SimulationError: the law fails on the way, or the integrator cannot continue.
        LaunchError: the machine is not moved by its equations.
    """
    check_length(closed_loop)
    _check_continuous(closed_loop)
    check_size(closed_loop.launch.steps // every + 2, 2 * len(closed_loop.start) + closed_loop.machine.n_inputs)
    begin = time.monotonic_ns()
    launch, machine, control = closed_loop.launch, closed_loop.machine, closed_loop.control
    delayed = launch.controller is not None and launch.controller.delay > 0
    if delayed or closed_loop.estimation is not None or not is_perfect(closed_loop):
        _log.warning(
            "the continuous mode knows limits only: delays, other effects of drives and sensors, and an estimator "
            "are left out"
        )
    control = control.continuous() if control else None
    closed_loop = closed_loop.with_parts(control=control, estimation=None)
    steps = np.unique(np.append(np.arange(0, launch.steps, every), launch.steps))
    times = steps * launch.step_ns / 1e9
    motion = _Motion(closed_loop)
    jumps = MachineJumps(machine, launch.step_ns / 1e9, motion.equations)
    solution = integrated(motion.equations, times, motion.start, jumps, rtol, atol)
    if solution.event is not None:
        raise SimulationError(motion.explained(*solution.event))
    rows, answers = motion.recorded(steps, times, solution.y)
    wall_s = (time.monotonic_ns() - begin) / 1e9
    largest = largest_residuals(closed_loop, answers)
    answers = answers if control else np.zeros((0, 1))
    return run_of_rows(closed_loop, "continuous", rows, answers, wall_s, residual_max=largest)


def _check_continuous(closed_loop: ClosedLoop) -> None:
    """LaunchError unless the machine is moved by its equations alone."""
    if closed_loop.machine.description.jumps_compare:
        text = "its jumps depend on the states at the beginning of a plant step, which the continuous mode lacks"
        raise LaunchError(closed_loop.launch.file, "plant", "machine", f"{text}; leave out --control continuous")
    if closed_loop.launch.fault:
        text = "faults act at plant steps, which the continuous mode lacks; leave out --control continuous"
        raise LaunchError(closed_loop.launch.file, "fault.0", None, text)
    if closed_loop.has_own_controller:
        text = "is a controller in Python, which answers at its instants; leave out --control continuous"
        raise LaunchError(closed_loop.launch.file, "controller", "program", text)
    if closed_loop.drives is not None:
        text = '"velocity" is sent at control instants, and the continuous mode acts at once; leave out '
        text += "--control continuous, or give --set plant.command=effort"
        raise LaunchError(closed_loop.launch.file, "plant", "command", text)
    if closed_loop.driver.motion is not None:
        text = f'"{closed_loop.driver.name}" steps in time, and the continuous mode integrates the equations; '
        remedy = "leave out --control continuous, or give --set plant.driver=simulated"
        raise LaunchError(closed_loop.launch.file, "plant", "driver", text + remedy)


class _Motion:
    """The motion of the closed loop: its equations, how it starts, and why it ends before its time."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._machine = closed_loop.machine
        self._law = law = closed_loop.control.law if closed_loop.control else None
        described = self._machine.description
        ends = {
            "fault": closed_loop.launch.plant.safety.faults and described.faults,
            "determinant": law and law.description.tells_crossings,
        }
        events = [name for name, there in ends.items() if there] + ["jump" for _ in described.jumps]
        self.equations = LoopEquations(closed_loop, strict=True, integrals=True, events=events)
        own = closed_loop.goal(0.0)[law.goal_layout.kept] if law else np.zeros(0)
        self.start = np.append(closed_loop.start, own)

    def explained(self, event: str, t: float, y: Array) -> str:
        """Why the motion ended at an event, in words."""
        if event == "fault":
            return f"at t = {t:g} s {self._fault(t, y)}"
        assert self._law is not None
        status = self.equations.status(t, y)
        if status == GOAL_NOT_FINITE:
            return f"at t = {t:g} s a target is not finite; correct its expression or shorten the run"
        if event == "determinant":
            self.equations.answer.status = CROSSED
        return f"at t = {t:g} s {self._law.explain(self.equations.answer)}"

    def _fault(self, t: float, y: Array) -> str:
        machine, x = self._machine, y[: self.equations.n_x].copy()
        ahead = x + 1e-6 * machine.derivatives(t, x, np.zeros(machine.n_inputs))
        near = machine.fault(t, x) or machine.fault(t, ahead)  # the state lies on its border
        return near.text if near else " or ".join(each.text for each in machine.description.faults)

    def recorded(self, steps: npt.NDArray[np.int64], times: Array, states: Array) -> tuple[Array, Array]:
        """The plant's and the controller's rows of the states (n_times, n) at these steps."""
        part, law = PlantRecordLayout.of(self._machine.description), self._law
        rows = np.zeros((len(times), part.computed.stop))
        answers = np.zeros((len(times), law.record_layout.size if law else 1))
        stopped = self.equations.told(steps, times, states, rows, answers)
        if stopped >= 0:
            raise SimulationError(self.explained("refused", float(times[stopped]), states[stopped]))
        return rows, answers
