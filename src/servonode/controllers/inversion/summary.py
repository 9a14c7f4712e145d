"""What a user wants to know of a bounded solution: when the machine begins to move, how far, and what the goal gets."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.controllers.inversion.bounded import Bounded
from servonode.controllers.inversion.goal import SEEN, Goal
from servonode.controllers.inversion.rates import ClosedRates


@dataclass(frozen=True)
class Summary:
    """Of one bounded solution on a run. Where the goal moves from the start on, or never, `goal_moves` is None.

    `goal_moves` [s]: when the goal begins to move; `lead` [s]: how long before that the machine does, by SEEN of its
    largest deviation; `preactuation`: the largest deviation of each state and input before `goal_moves`;
    `gap`: x(0) - x*(0) of the run's initial state; `peak`: |u*| and when; `goal_error`: the largest residual.
    """

    goal_moves: float | None
    lead: float
    preactuation: dict[str, float]
    gap: dict[str, float]
    peak: dict[str, tuple[float, float]]
    goal_error: float


@dataclass(frozen=True)
class Inverted:
    """The bounded solution that a control follows, and what was found of it."""

    found: Bounded
    summary: Summary
    radius: float  # largest eigenvalue of the sampled loop


def summary_of(loop: ClosedRates, goal: Goal, found: Bounded, start: Array, duration: float) -> Summary:
    """The summary for a run of `duration` [s] from the initial state `start` (n_state,)."""
    n = loop.n_state
    moves = goal.moves(found.t)
    moves = None if moves is None or moves <= 0.0 else moves
    away = np.abs(np.hstack([found.x[:, :n] - found.rest[:n], found.u - found.u[0]]))
    names = (*loop.names[:n], *loop.law.machine.description.input_names)
    lead, before = 0.0, {}
    if moves is not None:
        early = found.t <= moves
        moving = np.any(away > SEEN * np.max(away, axis=0).clip(1e-9), axis=1)
        lead = max(0.0, moves - float(found.t[int(np.argmax(moving))])) if moving.any() else 0.0
        before = {name: float(most) for name, most in zip(names, away[early].max(axis=0), strict=True) if most > 1e-9}
    run = (found.t >= 0) & (found.t <= duration)
    at = [int(i) for i in np.argmax(np.abs(found.u[run]), axis=0)]
    peak = {
        name: (float(abs(found.u[run][i, j])), float(found.t[run][i]))
        for j, (name, i) in enumerate(zip(names[n:], at, strict=True))
    }
    x0 = np.array([np.interp(0.0, found.t, column) for column in found.x[:, :n].T])
    gap = dict(zip(names, (start[:n] - x0).tolist(), strict=False))
    return Summary(moves, lead, before, gap, peak, _goal_error(loop, found, run))


def _goal_error(loop: ClosedRates, found: Bounded, run: npt.NDArray[np.bool_]) -> float:
    """The largest residual on the solution during the run."""
    law, worst, answer = loop.law, 0.0, loop.law.answer()
    times, states = found.t[run], found.x[run]
    for t, x, y in zip(times.tolist(), states, loop.goal(times), strict=True):
        y[law.goal_layout.states] = x[loop.n_state :]
        law.compute(t, np.append(x[: loop.n_state], 0.0), y, answer)
        worst = max(worst, float(np.max(np.abs(answer.residuals), initial=0.0)))
    return worst
