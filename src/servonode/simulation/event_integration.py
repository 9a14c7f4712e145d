"""Adaptive integration with events: what ends a motion is located, and a machine's jumps are applied where they happen.

A jump is looked for at the end of each accepted step, located on the dense output, and applied there; then the
integration begins anew from the state that it sets. In the limit of short plant steps the sampled modes do the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.errors import ServonodeError
from servonode.mechanics.machine import Machine

Event = Callable[[float, Array], float]  # zero where it happens
CLOSE = 1e-9  # share of a plant step: jumps that follow each other so closely accumulate at one time
MOST = 5  # of these in a row


class SimulationError(ServonodeError, RuntimeError):
    """The simulation cannot continue; the text says when and why."""

    exit_code = 1


@dataclass(frozen=True)
class Solution:
    """The states (n, n_times) at the times asked for; what ended the motion before the last one: event, time, state."""

    y: Array
    event: tuple[Event, float, Array] | None = None


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

    def happens(self, t: float, y: Array) -> float:
        """1 where a jump changes the state, else -1."""
        return 1.0 if (self.set_by(t, y) != y).any() else -1.0

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
    rates: Callable[[float, Array], Array],
    times: Array,
    start: Array,
    events: Sequence[Event],
    jumps: MachineJumps | None,
    **tolerances: Any,
) -> Solution:
    """Integrate x' = rates(t, x) by DOP853 and return the states at all times, up to the first event.

    Raises:
        SimulationError: the integrator cannot continue, or jumps accumulate.
    """
    from scipy.integrate import solve_ivp

    found = np.zeros((len(start), len(times)))
    looked: list[Any] = [*events, *([jumps.happens] if jumps else [])]
    looked = [_terminal(each, only_up=jumps is not None and each == jumps.happens) for each in looked]
    options = tolerances | ({"max_step": jumps.longest_s} if jumps else {})
    t, y, done = float(times[0]), start, 0
    while done < len(times):
        rest = times[done:]
        solution = solve_ivp(
            rates, (t, times[-1]), y, method="DOP853", t_eval=rest[rest >= t], events=looked or None, **options
        )
        if not solution.success:
            raise SimulationError(f"the continuous integration stopped at t = {solution.t[-1]:g} s: {solution.message}")
        found[:, done : done + len(solution.t)] = solution.y
        done += len(solution.t)
        if solution.status != 1:
            break
        which = next(i for i, each in enumerate(solution.t_events) if len(each))
        t, y = float(solution.t_events[which][-1]), solution.y_events[which][-1]
        if which < len(events):
            return Solution(found, (events[which], t, y))
        assert jumps is not None
        y = jumps.applied(t, y, rates(t, y))
    return Solution(found)


def _terminal(event: Event, only_up: bool) -> Event:
    def looked(t: float, y: Array) -> float:
        return event(t, y)

    looked.terminal = True  # type: ignore[attr-defined]
    if only_up:
        looked.direction = 1  # type: ignore[attr-defined]
    return looked
