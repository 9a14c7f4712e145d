"""The goal beyond the run: held where it rests at an end, else as its expressions continue."""

from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.controllers.engine.law import ServoLaw
from servonode.controllers.engine.signals import Signals

RESTS = 1e-12  # derivatives below this are rounding
SEEN = 0.01  # share of its largest deviation or derivative at which something is said to move


@dataclass(frozen=True)
class Goal:
    """Targets and signals as the law's y, at times held within `first` and `last` [s]: infinite where it moves."""

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
