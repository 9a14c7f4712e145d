"""Adaptive integration with events: what ends a motion is located, and a machine's jumps are applied where they happen.

A jump is looked for in each accepted step, by its margin's values and rates at both ends, located on the dense output,
and applied there; then the integration begins anew from the state that it sets. In the limit of short plant steps the
sampled modes do the same.
"""

from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.errors import ServonodeError
from servonode.mechanics.machine import Machine, endless
from servonode.simulation.equations_source import EVENT, GOOD, REFUSED, TOO_SMALL
from servonode.simulation.loop_equations import LoopEquations

CLOSE = 1e-9  # share of a plant step: jumps that follow each other so closely accumulate at one time
MOST = 5  # of these in a row
SLACK = 1e-13  # s, and share of the time: relations that begin to hold so close together do so at one instant
WAITS, PASSED = 1.0, 2.0  # a jump that has acted and not ceased; one of these that lets the motion pass


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
    """The jumps of a machine on the way of its equations, with their `times` [s].

    longest_s: steps of the integrator are no longer, so that no jump is stepped over.
    """

    def __init__(self, machine: Machine, step_s: float, equations: LoopEquations) -> None:
        self.longest_s, self._close_s = 10 * step_s if machine.description.jumps else np.inf, CLOSE * step_s
        self._machine, self._equations, self._waiting = machine, equations, equations.waiting
        self._waiting[:] = 0.0
        self.times: list[float] = []

    def applied(self, i: int, t: float, y: Array) -> Array:
        """The state after jump i, which was located at a time, or which is still to cease beyond its relation.

        Raises:
            SimulationError: jumps accumulate, as the bounces of a ball that comes to rest.
        """
        kernel, machine, after = self._machine.kernel, self._machine, y.copy()
        self._equations.rates(t, y)
        u, c, x = self._equations.u, machine.c, after[: machine.n_state + 1]  # which the kernel changes
        b, free, acted = x.copy(), (self._waiting == 0.0).astype(float), np.zeros(len(self._waiting))
        if not free[i]:
            self._waiting[i] = PASSED
            ends = not kernel.turns_back(i, t, b, x, u, c)
        else:
            self.times.append(t)
            ends = kernel.settle(t, b, x, u, c, SLACK * (1 + abs(t)), i, free, acted)
            ends &= len(self.times) <= MOST or t - self.times[-1 - MOST] >= MOST * self._close_s
            self._waiting[acted > 0] = np.where(free > 0, 0.0, WAITS)[acted > 0]
        if not ends:
            raise SimulationError(f"at t = {t:g} s {endless(machine, t, x)}")
        return after


def integrated(
    equations: LoopEquations, times: Array, start: Array, jumps: MachineJumps, rtol: float, atol: float
) -> Solution:
    """Integrate the equations by DOP853 and return the states at all times, up to the first event that is no jump.

    Raises:
        SimulationError: the integrator cannot continue, or jumps accumulate.
    """
    found, first = np.zeros((len(times), len(start))), len(equations.events) - len(equations.waiting)
    t, y, done = float(times[0]), start, 0
    while done < len(times):
        code, done, t, y = equations.solve(times, done, t, y, jumps.longest_s, rtol, atol, found)
        if code == TOO_SMALL:
            last = times[max(done - 1, 0)]
            text = "Required step size is less than spacing between numbers."
            raise SimulationError(f"the continuous integration stopped at t = {last:g} s: {text}")
        if code == GOOD:
            break
        event = "refused" if code == REFUSED else equations.events[code - EVENT]
        if event != "jump":
            return Solution(found, (event, t, y))
        y = jumps.applied(code - EVENT - first, t, y)
    return Solution(found)
