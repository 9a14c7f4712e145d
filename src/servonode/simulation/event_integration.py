"""Adaptive integration with events: what ends a motion is located, and a machine's jumps are applied where they happen.

A jump is looked for at the end of each accepted step, located on the dense output, and applied there; then the
integration begins anew from the state that it sets. In the limit of short plant steps the sampled modes do the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.errors import ServonodeError
from servonode.mechanics.machine import Machine
from servonode.simulation.equations_source import EVENT, GOOD, REFUSED, TOO_SMALL
from servonode.simulation.loop_equations import LoopEquations

CLOSE = 1e-9  # share of a plant step: jumps that follow each other so closely accumulate at one time
MOST = 5  # of these in a row


class SimulationError(ServonodeError, RuntimeError):
    """The simulation cannot continue; the text says when and why."""

    exit_code = 1


@dataclass(frozen=True)
class Solution:
    """The states (n_times, n) at the times asked for; what ended the motion before the last one: event, time, state.

    The event is `refused` where the law stops.
    """

    y: Array
    event: tuple[str, float, Array] | None = None


class MachineJumps:
    """The jumps of a machine. longest_s: steps of the integrator are no longer, so that no jump is stepped over."""

    def __init__(self, machine: Machine, step_s: float) -> None:
        self.longest_s, self._close_s = 10 * step_s, CLOSE * step_s
        self._machine, self._n = machine, machine.n_state
        self._jump: Callable[..., None] = getattr(machine.kernel, "jump")  # noqa: B009  (of machines with jumps alone)
        self._times: list[float] = []

    def set_by(self, t: float, y: Array) -> Array:
        """The state after the jump that happens at a state; the same where none does."""
        after: Array = y.copy()
        x = after[: self._n + 1]  # which the kernel changes
        self._jump(t, *x[: self._n].tolist(), x, self._machine.c)
        return after

    def applied(self, t: float, y: Array, rates: Array) -> Array:
        """The state after the jump that was located at a time, which may lie just ahead of a state.

        Raises:
            SimulationError: jumps accumulate, as the bounces of a ball that comes to rest.
        """
        self._times = [*self._times[-MOST:], t]
        if len(self._times) > MOST and t - self._times[0] < MOST * self._close_s:
            text = f"at t = {t:g} s jumps follow each other without end, as the bounces of a ball that comes to rest"
            raise SimulationError(f"{text}; leave out --control continuous, or end the run before")
        for ahead in (0.0, *(self._close_s * 10.0**-i for i in range(8, -1, -1))):
            state = y + ahead * rates
            after = self.set_by(t, state)
            if (after != state).any():
                return after
        return y


def integrated(
    equations: LoopEquations, times: Array, start: Array, jumps: MachineJumps | None, rtol: float, atol: float
) -> Solution:
    """Integrate the equations by DOP853 and return the states at all times, up to the first event that is no jump.

    Raises:
        SimulationError: the integrator cannot continue, or jumps accumulate.
    """
    found, longest = np.zeros((len(times), len(start))), jumps.longest_s if jumps else np.inf
    t, y, done = float(times[0]), start, 0
    while done < len(times):
        code, done, t, y = equations.solve(times, done, t, y, longest, rtol, atol, found)
        if code == TOO_SMALL:
            last = times[max(done - 1, 0)]
            text = "Required step size is less than spacing between numbers."
            raise SimulationError(f"the continuous integration stopped at t = {last:g} s: {text}")
        if code == GOOD:
            break
        event = "refused" if code == REFUSED else equations.events[code - EVENT]
        if event != "jump":
            return Solution(found, (event, t, y))
        assert jumps is not None
        y = jumps.applied(t, y, equations.rates(t, y))
    return Solution(found)
