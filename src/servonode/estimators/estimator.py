"""The estimate of a run: a filter along a bounded past, so that a reading that comes late is taken where it belongs.

The past is a row of instants, each with the inputs that acted up to it, the readings that were measured there, and mean
and covariance after them. A reading of an earlier step is put at its instant, which is made if none exists, and
the filter goes from there to the present once more: the estimate is that of a filter that had the reading in time, bit
by bit, for a prediction over many steps is that over each of them.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from math import isnan
from typing import NamedTuple

import numpy as np

from servonode.arrays import Array
from servonode.estimators.kalman import ExtendedKalmanFilter
from servonode.estimators.settings import EstimatorSettings

LARGEST = float(np.finfo(float).max)  # a message carries finite numbers alone


LEAST = 5  # readings that must be rejected on end before a sensor counts as rejected persistently: fewer may be chance


class Streak(NamedTuple):
    """Readings of a sensor that were rejected on end: since which step, how many, and how far off the newest was."""

    since: int
    number: int
    distance: float  # standard deviations

    @property
    def is_lasting(self) -> bool:
        """Whether these are too many to be chance."""
        return self.number >= LEAST


class Rejections:
    """What the gate has done to each sensor since the estimate began, or went on after a gap.

    on_end: of the sensors whose newest reading was rejected.
    """

    def __init__(self, settings: EstimatorSettings) -> None:
        self.on_end: dict[str, Streak] = {}
        self._settings = settings
        self._used: dict[str, int] = {}  # step of the newest reading that was used
        self._begun = 0

    def begin(self, k: int) -> None:
        """Forget everything at step k."""
        self._begun = k
        self.on_end.clear()
        self._used.clear()

    def take(self, name: str, k: int, rejected: bool, square: float) -> None:
        """A reading of step k, rejected or used, with the square of its innovation in units of its variance."""
        if not rejected:
            self._used[name] = max(k, self._used.get(name, k))
            self.on_end.pop(name, None)
            return
        before = self.on_end.get(name)
        since = before.since if before else self._used.get(name, self._begun)
        self.on_end[name] = Streak(since, before.number + 1 if before else 1, square**0.5)

    def persistent(self, k: int) -> str:
        """Why the estimate is not to be trusted at step k, as the gate rejects a sensor for too long; empty: it is."""
        settings, gate = self._settings, self._settings.gate
        if gate is None or not self.on_end:
            return ""
        for i in settings.used:
            name = settings.sensors[i].name
            streak = self.on_end.get(name)
            if streak and streak.is_lasting and k - streak.since > gate.allowed_steps[i]:
                seconds = (k - streak.since) * settings.step_ns / 1e9
                text = f"the gate has rejected the last {streak.number} readings of {name}, for {seconds:.3g} s, the "
                text += f"newest {streak.distance:.3g} standard deviations off its prediction; check the sensor, its "
                text += "sign, its unit and [estimator] initial; else raise its noise, process_noise, gate or "
                return f"{text}sensor_timeout"
        return ""


class InnovationStats(NamedTuple):
    """Statistics of readings: the last innovation of each sensor, the NIS of all that were used, and their number.

    rejected: how many the gate rejected, by sensor.
    """

    innovations: dict[str, float]
    nis: float
    taken: int
    rejected: dict[str, float]


class Instant:
    """A plant step of the past: inputs that acted up to it, its readings, mean and covariance after them."""

    def __init__(self, n_x: int, n_tau: int, n_z: int) -> None:
        self.k = 0
        self.u = np.zeros(n_tau)
        self.z = np.zeros(n_z)
        self.which: list[int] = []  # sensors with a reading, in order
        self.rejected: Sequence[int] = ()  # those of them whose readings the gate rejected
        self.missed, self.squares = np.zeros(n_z), np.zeros(n_z)  # of these, see `ExtendedKalmanFilter.correct`
        self.x, self.P = np.zeros(n_x), np.zeros((n_x - 1, n_x - 1))


class Estimator:
    """Mean and covariance of a machine's state, from its inputs and readings.

    It keeps the past, the estimate and the statistics together, since a late reading changes all three.

    x (n_x,), P (n, n): the newest. came: the sensors of whose readings the last `advance` took one, used or rejected.
    surprises: of the readings that came last and were used, by sensor: the squares of `ExtendedKalmanFilter.correct`.
    counts: `late_readings`, older than what is kept, and `early_readings`, of a step that has not come yet,
    `rejected_SENSOR`, beyond the gate. A reading counts as rejected or not when it comes.
    """

    def __init__(self, settings: EstimatorSettings, kalman: ExtendedKalmanFilter) -> None:
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self.came: frozenset[str] = frozenset()
        self.surprises: dict[str, float] = {}
        self.rejections = Rejections(settings)
        self._innovations: dict[str, float] = {}  # of the readings since `take_stats`
        self._nis, self._taken = 0.0, 0  # of the same readings, late ones included
        self._rejected: Counter[str] = Counter()
        self._filter = kalman
        self._number = {settings.sensors[i].name: i for i in settings.used}
        self._sizes = (len(settings.mean), len(settings.input_noise), len(settings.sensors))
        self._before = np.zeros(self._sizes[0]), np.zeros((self._sizes[0] - 1,) * 2)  # newest x and P before `advance`
        self._past: deque[Instant] = deque()
        self._free: list[Instant] = []
        self.begin(0)

    @property
    def k(self) -> int:
        """The plant step of the newest estimate."""
        return self._past[-1].k

    @property
    def x(self) -> Array:
        return self._past[-1].x

    @property
    def P(self) -> Array:
        return self._past[-1].P

    @property
    def deviations(self) -> Array:
        """Standard deviations of the states (n,); of what is known exactly rounding may leave less than nothing: 0."""
        return np.sqrt(np.maximum(np.diag(self.P), 0.0))

    def begin(self, k: int) -> None:
        """Forget everything; the start is that of plant step k."""
        self._restart(k, self.settings.mean, np.diag(self.settings.deviation**2))
        self.surprises = {}
        self.rejections.begin(k)
        self.take_stats()

    def resume(self, k: int, spread: Array) -> None:
        """Go on at plant step k with the present mean, and the covariance widened by what may have happened unseen.

        spread (m, n): independent ways in which the state may have moved, each to a standard deviation. The past is
        forgotten.
        """
        self._restart(k, self.x.copy(), self.P + spread.T @ spread)
        self.rejections.begin(k)

    @property
    def rejected(self) -> Mapping[str, Streak]:
        """The readings rejected on end of each sensor whose newest reading the gate rejected."""
        return self.rejections.on_end

    @property
    def persistent_rejection(self) -> str:
        """Why the estimate is not to be trusted, as the gate rejects a sensor for too long; empty: it is."""
        return self.rejections.persistent(self.k)

    def take_stats(self) -> InnovationStats:
        """The statistics of the readings that came since the last call."""
        rejected = {name: float(n) for name, n in self._rejected.items()}
        stats = InnovationStats(self._innovations, min(self._nis, LARGEST), self._taken, rejected)
        self._innovations, self._nis, self._taken, self._rejected = {}, 0.0, 0, Counter()
        return stats

    def advance(self, k: int, u: Array, readings: Mapping[str, Sequence[float]]) -> bool:
        """Go on to step k, up to which the inputs u acted, with readings NAME -> (step, value, step, value, ...).

        Whether the estimate is finite; one that is not stays as it was before, and the past is forgotten, with the
        readings that made it diverge.
        """
        past = self._past
        self._before[0][:], self._before[1][:] = self.x, self.P
        first = len(past)
        if k > self.k or len(past) == 1:
            past.append(self._instant(k, u))
        came: list[tuple[Instant, int]] = []
        for name, pairs in readings.items():
            for measured, value in zip(pairs[::2], pairs[1::2], strict=False):
                at = self._take(name, int(measured), value, came)
                first = min(first, at)
        finite = self._run(first)
        self.came = frozenset(self.settings.sensors[i].name for _, i in came)
        self._report(came)
        if finite:
            self._forget()
        else:
            self._restart(self.k, *self._before)
            self._oldest = self.k + 1
        return finite

    def _restart(self, k: int, x: Array, P: Array) -> None:
        """The past begins at step k, with this mean and covariance."""
        self._free += self._past
        self._past.clear()
        first = self._instant(k, np.zeros(self._sizes[1]))
        first.x[:], first.P[:] = x, P
        self._past.append(first)
        self._oldest = k  # step from which on readings are taken

    def _take(self, name: str, k: int, value: float, came: list[tuple[Instant, int]]) -> int:
        """Put a reading at its instant; the number of the instant from which on the filter must go again."""
        past, sensor = self._past, self._number.get(name)
        if sensor is None:  # one that is not in use
            return len(past)
        if not self._oldest <= k <= past[-1].k:
            self.counts["late_readings" if k < self._oldest else "early_readings"] += 1
            return len(past)
        at = len(past) - 1
        while at > 1 and past[at - 1].k >= k:
            at -= 1
        if past[at].k != k:
            past.insert(at, self._instant(k, past[at].u))
        instant = past[at]
        if sensor in instant.which:  # the same once more
            return len(past)
        instant.z[sensor] = value
        instant.which = sorted((*instant.which, sensor))
        came.append((instant, sensor))
        return at

    def _run(self, first: int) -> bool:
        """Filter from the instant of this number on to the newest, or to one that is not finite; whether none is."""
        for i in range(max(first, 1), len(self._past)):
            try:
                finite = self._filter_on(self._past[i - 1], self._past[i])
            except np.linalg.LinAlgError:  # the covariance overflows, or has no root any more
                return False
            if not finite:
                return False
        return True

    def _filter_on(self, before: Instant, now: Instant) -> bool:
        """Filter from an instant to the next one; whether that is finite."""
        now.x[:], now.P[:] = before.x, before.P
        finite = self._filter.predict(before.k, now.k - before.k, now.x, now.u, now.P)
        if finite and now.which:
            t = now.k * (self.settings.step_ns / 1e9)
            now.rejected = self._filter.correct(t, now.x, now.u, now.P, now.which, now.z, now.missed, now.squares)
            finite = bool(np.isfinite(now.x).all() and np.isfinite(now.P).all())
        return finite

    def _report(self, came: list[tuple[Instant, int]]) -> None:
        """Add the readings that came last to the statistics."""
        sensors = self.settings.sensors
        came = [(instant, i) for instant, i in came if not isnan(instant.squares[i])]  # those that the filter came to
        self._innovations |= {sensors[i].name: float(instant.missed[i]) for instant, i in came}
        used = [(instant, i) for instant, i in came if i not in instant.rejected]
        self.surprises = {sensors[i].name: float(instant.squares[i]) for instant, i in used}
        self._nis += sum(float(instant.squares[i]) for instant, i in used)
        self._taken += len(used)
        for instant, i in came if self.settings.gate else ():
            name, rejected = sensors[i].name, i in instant.rejected
            self.rejections.take(name, instant.k, rejected, float(instant.squares[i]))
            if rejected:
                self._rejected[name] += 1
                self.counts[f"rejected_{name}"] += 1

    def _forget(self) -> None:
        """What is older than the horizon goes, and is used again."""
        oldest = self.k - self.settings.horizon
        while len(self._past) > 2 and self._past[1].k <= oldest:
            self._free.append(self._past.popleft())
            self._oldest = self._past[0].k + 1

    def _instant(self, k: int, u: Array) -> Instant:
        instant = self._free.pop() if self._free else Instant(*self._sizes)
        instant.k = k
        instant.u[:] = u
        instant.which, instant.rejected = [], ()
        instant.squares[:] = np.nan
        return instant
