"""The continuous mode: the law inside the right-hand side of an adaptive integrator, as the papers' mathematics."""

import logging
import time
from dataclasses import replace

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
from servonode.simulation.event_integration import Event, MachineJumps, SimulationError, Solution, integrated
from servonode.simulation.imperfections import is_perfect
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
    closed_loop = replace(closed_loop, control=control, estimation=None)
    steps = np.unique(np.append(np.arange(0, launch.steps, every), launch.steps))
    times = steps * launch.step_ns / 1e9
    motion = _Motion(closed_loop)
    jumps = MachineJumps(machine, launch.step_ns / 1e9) if machine.description.jumps else None
    solution = integrated(motion.rates, times, motion.start, motion.events(), jumps, rtol=rtol, atol=atol)
    if solution.event is not None:
        raise SimulationError(motion.explained(*solution.event))
    rows, answers = motion.recorded(steps, times, solution)
    wall_s = (time.monotonic_ns() - begin) / 1e9
    largest = largest_residuals(closed_loop, answers)
    answers = answers if control else np.zeros((0, 1))
    return run_of_rows(closed_loop, "continuous", rows, answers, wall_s, residual_max=largest)


def _check_continuous(closed_loop: ClosedLoop) -> None:
    """LaunchError unless the machine is moved by its equations alone."""
    if closed_loop.machine.description.jumps_compare:
        text = "its jumps depend on the states at the beginning of a plant step, which the continuous mode lacks"
        raise LaunchError(closed_loop.launch.file, "plant", "machine", f"{text}; leave out --control continuous")
    if closed_loop.driver.motion is not None:
        text = f'"{closed_loop.driver.name}" steps in time, and the continuous mode integrates the equations; '
        remedy = "leave out --control continuous, or give --set plant.driver=simulated"
        raise LaunchError(closed_loop.launch.file, "plant", "driver", text + remedy)


class _Motion:
    """The motion of the closed loop: x' of the machine, then those of the program's own states and the integrals."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self._loop, self._machine = closed_loop, closed_loop.machine
        self._law = closed_loop.control.law if closed_loop.control else None
        self._answer = self._law.answer() if self._law else None
        self._n_x = len(closed_loop.start)
        self._u, self._dx = np.zeros(self._machine.n_inputs), np.zeros(self._n_x)
        own = closed_loop.goal(0.0)[self._law.goal_layout.kept] if self._law else np.zeros(0)
        self._has_own = len(own) > 0
        self.start = np.append(closed_loop.start, own)

    def rates(self, t: float, extended: Array) -> Array:
        """The right-hand side."""
        machine, law, answer = self._machine, self._law, self._answer
        x = np.ascontiguousarray(extended[: self._n_x])
        y = self._control(t, x, extended[self._n_x :])
        machine.kernel.derivatives(t, x, self._u, machine.c, self._dx)
        if law is None or answer is None or y is None or not self._has_own:
            return self._dx.copy()
        integrals = answer.residuals if law.description.integral else np.zeros(0)
        return np.concatenate([self._dx, law.state_rates(t, x, y), integrals])

    def events(self) -> list[Event]:
        """What ends the motion before its time."""
        described, law = self._machine.description, self._law
        found: list[Event] = [self._fault] if self._loop.launch.plant.safety.faults and described.faults else []
        return found + ([self._determinant] if law and law.description.tells_crossings else [])

    def _fault(self, t: float, extended: Array) -> float:
        return -1.0 if self._machine.fault(t, np.ascontiguousarray(extended[: self._n_x])) else 1.0

    def _determinant(self, t: float, extended: Array) -> float:
        assert self._answer is not None
        self._control(t, np.ascontiguousarray(extended[: self._n_x]), extended[self._n_x :])
        return self._answer.determinant

    def explained(self, event: Event, t: float, extended: Array) -> str:
        """Why the motion ended at an event, in words."""
        if event == self._determinant and self._law and self._answer:
            self._answer.status = CROSSED
            return f"at t = {t:g} s {self._law.explain(self._answer)}"
        machine, x = self._machine, np.ascontiguousarray(extended[: self._n_x])
        ahead = x + 1e-6 * machine.derivatives(t, x, np.zeros(machine.n_inputs))
        near = machine.fault(t, x) or machine.fault(t, ahead)  # the state lies on its border
        text = near.text if near else " or ".join(each.text for each in machine.description.faults)
        return f"at t = {t:g} s {text}"

    def recorded(self, steps: npt.NDArray[np.int64], times: Array, solution: Solution) -> tuple[Array, Array]:
        """The plant's and the controller's rows at these steps."""
        part, law, answer = PlantRecordLayout.of(self._machine.description), self._law, self._answer
        rows = np.zeros((len(times), part.computed.stop))
        answers = np.zeros((len(times), law.record_layout.size if law else 1))
        for i, (k, t) in enumerate(zip(steps, times, strict=True)):
            x = np.ascontiguousarray(solution.y[: self._n_x, i])
            y = self._control(t, x, solution.y[self._n_x :, i])
            if law and answer and y is not None:
                answers[i] = [k, *answer.recorded, *y[law.goal_layout.states]]
            rows[i, part.step], rows[i, part.x], rows[i, part.inputs] = k, x, self._u
        return rows, answers

    def _control(self, t: float, x: Array, own: Array) -> Array | None:
        """Set the inputs to the law's at this state, limited as the plant's filter would; the law's y, if there is one.

        own: the program's own states and the integrals.
        """
        law, answer = self._law, self._answer
        if law is None or answer is None:
            return None
        y = self._loop.goal(t)
        y[law.goal_layout.kept] = own
        if not np.isfinite(y).all():
            raise SimulationError(f"at t = {t:g} s a target is not finite; correct its expression or shorten the run")
        if law.compute(t, x, y, answer):
            raise SimulationError(f"at t = {t:g} s {law.explain(answer)}")
        most = np.array(self._loop.safety.limits.value)
        np.clip(answer.inputs, -most, most, out=self._u)
        return y
