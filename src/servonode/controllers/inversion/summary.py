"""The goal of a bounded solution, and what a user wants to know of it: when the machine begins to move, how far."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.controllers.engine.law import ServoLaw
from servonode.controllers.engine.signals import Signals
from servonode.controllers.inversion.bounded import Bounded
from servonode.controllers.inversion.rates import ClosedRates

RESTS = 1e-12  # derivatives below this are rounding
SEEN = 0.01  # share of its largest deviation or derivative at which something is said to move


@dataclass(frozen=True)
class Goal:
    """Targets and signals as the law's y, at times held within `first` and `last` [s]: infinite where it moves.

    Beyond the run it is held where it rests at an end; else its expressions continue.
    """

    law: ServoLaw
    targets: Signals
    signals: Signals
    first: float = -np.inf
    last: float = np.inf

    def __call__(self, t: Array) -> Array:
        """y (n, n_y) at times t (n,) [s]."""
        part, held = self.law.goal_layout, np.clip(t, self.first, self.last)
        y = np.zeros((len(t), part.size))
        y[:, part.targets], y[:, part.signals] = self.targets.table(held), self.signals.table(held)
        return y

    def rates(self, t: Array) -> Array:
        """The magnitudes of all derivatives (n, number), at times t (n,) within the run."""
        found = [np.delete(np.abs(each.table(t)), each.positions, axis=1) for each in (self.targets, self.signals)]
        return np.hstack(found)

    def moves(self, t: Array) -> float | None:
        """The first of the times t (n,) at which a derivative is above SEEN of its largest, or None."""
        rates = self.rates(np.clip(t, self.first, self.last))
        moving = np.any(rates > SEEN * rates.max(axis=0, initial=RESTS), axis=1)
        return float(t[int(np.argmax(moving))]) if moving.any() else None


def goal_of(law: ServoLaw, targets: Signals, signals: Signals, duration: float) -> Goal:
    """The goal of a run of `duration` [s], beyond which it rests where it rests at its ends."""
    rates = Goal(law, targets, signals).rates(np.array([0.0, duration]))
    begin, end = (rates.max(axis=1, initial=0.0) < RESTS).tolist()
    return Goal(law, targets, signals, 0.0 if begin else -np.inf, duration if end else np.inf)


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
