"""The estimated state of a machine that sends only sensor readings, used only while the estimate is good.

Until each sensor has been read, and while the estimate is worse than allowed, the state is unknown: the machine counts
as one that has not answered. Later the same is a fault.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import State
from servonode.estimators.estimator import Estimator
from servonode.plants.plant import EstimateOf

Fault = tuple[str, str]  # name and text

SURPRISE = 8.0**2  # squared innovation of a reading over its variance, above which it does not fit
LEAST_MESSAGES = 4  # messages that must come without a reading before a sensor counts as lost
RESTARTED = "refused_restarted"  # name of a count: messages of a machine that has restarted


@dataclass(frozen=True)
class Foresight:
    """The prediction of readings by the machine's equations.

    advance(k, n, x, u): integrates a kernel state x over n steps from step k, in place; returns whether it is finite.
    measure(k, x, u): the readings of all sensors there (n_z,). numbers: for each sensor in use its place among these.
    tells: for each the change of its reading that it is sure to show. steps: for how many steps a reading may stay the
    same.
    """

    advance: Callable[[int, int, Array, Array], bool]
    measure: Callable[[int, Array, Array], Array]
    numbers: Mapping[str, int]
    tells: Mapping[str, float]
    steps: int
    step: float  # s


@dataclass(frozen=True)
class EstimateTerms:
    """The parameters with which the state of a machine is estimated.

    sensors: all sensors of the machine, in its order. silence: for each in use, the number of steps for which it may
    give nothing. most: the largest standard deviation of each of `columns` with which the estimate is used, inf: any.
    misfit: the number of consecutive steps for which a sensor may disagree with the rest; for as long the machine may
    have moved unseen before a new handshake. unseen(x, u, s): the directions (m, n) in which its state may have moved
    in s seconds.
    """

    estimator: Callable[[], Estimator]
    inputs: tuple[str, ...]
    columns: tuple[str, ...]
    sensors: tuple[str, ...]
    silence: Mapping[str, int]
    most: tuple[float, ...]
    misfit: int
    step: float  # s
    unseen: Callable[[Array, Array, float], Array]
    foresight: Foresight


class Estimated:
    """The estimate of one machine, from its messages, over all handshakes.

    It has a method for each reason for which an estimate is not believed, and remembers what each of them judges by.

    unknown_reason: why the state is unknown; empty if it is known.
    """

    def __init__(self, terms: EstimateTerms, awaits: bool) -> None:
        self.unknown_reason = ""
        self._misplaced = ""  # why the estimate was wrong from the begin; empty: the first readings fitted
        self._terms, self._awaits = terms, awaits  # whether every sensor must have been read before anything is known
        self._filter = terms.estimator()
        self._frozen = FrozenSensors(terms.foresight)
        self._src = 0  # start id of the machine whose readings are used; 0: none yet
        self._k = 0  # step of the handshake
        self._fresh = True  # a handshake has begun, and no message has come since
        self._silent: dict[str, int] = {}  # for how many steps each sensor in use has given nothing, in this handshake
        self._unread: set[str] = set()  # the sensors in use that have given nothing in this handshake
        self._late: set[str] = set()  # those that last gave a reading which was too old to be taken
        self._fits: dict[str, int] = {}  # step of the newest reading of each sensor that fitted
        self._u = np.zeros(len(terms.inputs))

    def forget(self, k: int) -> None:
        """A handshake begins at our step k: the sensors must be read again before the state is known."""
        self._k, self._fresh, self.unknown_reason = k, True, ""
        self._frozen.forget()

    def misfit(self, state: State) -> str:
        """The reason to count if a message cannot be used; empty: it can. Call it before `take`."""
        terms = self._terms
        if self._src not in (0, state.src):
            self.unknown_reason = (
                "the machine has restarted, so its sensors may count from zero and its position is unknown; put "
                "it at the [estimator] initial state and start the run again"
            )
            return RESTARTED
        if state.input.keys() != set(terms.inputs):
            return "refused_shape"
        for name, pairs in ({} if state.readings is UNSET else state.readings).items():
            if name not in terms.sensors or len(pairs) % 2:
                return "refused_shape"
            if not all(map(isfinite, pairs)):
                return "refused_non_finite"
            if any(measured < 0 or measured > state.k or measured != int(measured) for measured in pairs[::2]):
                return "refused_future"
        return ""

    def take(self, state: State) -> Fault | None:
        """Take a message that can be used; returns what is wrong with the estimate then, or None."""
        readings = {} if state.readings is UNSET else state.readings
        if self._fresh:
            self._begin(state)
        self._u[:] = [state.input[name] for name in self._terms.inputs]
        finite = self._filter.advance(state.k, self._u, readings)
        self._misplaced = self._misplaced or self._first_misfit()
        self._count_silence(state.k, readings)
        for name, square in self._filter.surprises.items():
            if square <= SURPRISE:
                self._fits[name] = state.k
        frozen = self._frozen.complaint(state.k, self._filter.x, self._u, readings)
        fault = self._unsure() or self._lost() or self._unfitting(state.k) or frozen if finite else self._not_finite()
        self.unknown_reason = self._misplaced or (fault[1] if fault else self._awaited())
        return fault

    def _first_misfit(self) -> str:
        """What is wrong where the first reading of a sensor is far from its prediction; empty: nothing."""
        distances = {name: square**0.5 for name, square in self._filter.surprises.items()}
        distances |= {name: each.distance for name, each in self._filter.rejected.items() if each.is_lasting}
        for name, distance in distances.items():
            if name in self._unread and distance**2 > SURPRISE:
                return (
                    f"the first reading of {name} is {distance:.3g} standard deviations off its prediction; begin with "
                    "machine and counters at [estimator] initial (absent: [plant.initial]), or raise initial_std, and "
                    "start the run again"
                )
        return ""

    def _count_silence(self, k: int, readings: Mapping[str, Sequence[float]]) -> None:
        """Count the steps without a reading of each sensor, as far as messages cover them: a stall does not count.

        A reading that is too old to be taken does not count either.
        """
        passed, self._k = min(k - self._k, max(self._terms.misfit // LEAST_MESSAGES, 1)), k
        came = self._filter.came
        self._late = {name for name in self._silent if name not in came and (name in self._late or readings.get(name))}
        for name in self._silent:
            if name in came:
                self._silent[name] = 0
                if name not in self._filter.rejected:
                    self._unread.discard(name)
            else:
                self._silent[name] += passed

    @property
    def mean(self) -> list[float]:
        """The estimated state."""
        values: list[float] = self._filter.x[:-1].tolist()
        return values

    def give(self) -> EstimateOf:
        """The standard deviations of the estimate, and a summary of the readings since the last call."""
        deviations, stats = self._filter.deviations.tolist(), self._filter.take_stats()
        std = dict(zip(self._terms.columns, deviations, strict=True))
        return EstimateOf(std, stats.innovations, {"nis": stats.nis, "readings": float(stats.taken)}, stats.rejected)

    @property
    def counts(self) -> Counter[str]:
        """What became of readings: those that came too late, or too early, or were rejected."""
        return self._filter.counts

    def _begin(self, state: State) -> None:
        """Take the first message of a handshake; the estimate of the same machine continues over the time between."""
        if not self._src:
            self._filter.begin(min(self._k, state.k))
        else:
            known = self._filter.k
            seconds = (self._terms.misfit + max(state.k - known, 0)) * self._terms.step
            self._filter.resume(min(known, state.k), self._terms.unseen(self._filter.x, self._u, seconds))
        self._src, self._fresh = state.src, False
        self._silent, self._fits = (dict.fromkeys(self._terms.silence, each) for each in (0, state.k))
        self._unread, self._late = set(self._terms.silence), set()
        self._k = state.k

    def _awaited(self) -> str:
        """Which sensors have still to be read; empty in lockstep, where no time passes before the first reading."""
        missing = [name for name in self._silent if name in self._unread] if self._awaits else []
        rejected = [name for name in missing if name in self._filter.rejected]
        if rejected:
            return f"the gate has rejected every reading of {', '.join(rejected)} yet; begin at [estimator] initial"
        return f"no reading of {', '.join(missing)} has come yet" if missing else ""

    def _not_finite(self) -> Fault:
        text = "the estimate is no longer finite: the filter has diverged; give sensors that observe what "
        return "estimate", f"{text}drifts, or another [estimator] process_noise"

    def _unsure(self) -> Fault | None:
        """The fault of an estimate with too large a standard deviation."""
        for name, deviation, most in zip(
            self._terms.columns, self._filter.deviations.tolist(), self._terms.most, strict=True
        ):
            if not deviation <= most:
                text = f"{name} is known to {deviation:.3g} alone (standard deviation), beyond its [estimator] "
                return "estimate", f"{text}std_limit of {most:g}; add a sensor that observes it, or raise the limit"
        return None

    def _lost(self) -> Fault | None:
        """The fault of a sensor in use that gives nothing any more."""
        for name, most in self._terms.silence.items():
            silent = self._silent[name]
            if silent <= most:
                continue
            seconds = f"{silent * self._terms.step:.3g} s"
            if name in self._late:
                text = f"every reading of {name} for {seconds} was too old to be used; give the delay of the sensor in "
                return "sensor_lost", f"{text}[plant.sensors.{name}], or leave it out of [estimator] sensors"
            text = f"no reading of {name} for {seconds}; check the sensor and its wires, or leave it out of "
            return "sensor_lost", f"{text}[estimator] sensors, or raise sensor_timeout"
        return None

    def _unfitting(self, k: int) -> Fault | None:
        """The fault of a sensor whose readings contradict the equations and the other sensors for too long."""
        for name, square in self._filter.surprises.items():
            if square > SURPRISE and k - self._fits[name] > self._terms.misfit:
                text = f"the readings of {name} are {square**0.5:.3g} standard deviations off their prediction; "
                text += "check that it is this machine's, its sign, its unit and [estimator] initial; else raise its "
                return "sensor_misfit", f"{text}noise or process_noise"
        reason = self._filter.persistent_rejection
        return ("sensor_misfit", reason) if reason else None


class FrozenSensors:
    """Judges whether readings stay identical although inputs should have changed them, window by window.

    From the estimate at its begin, the equations are integrated with and without inputs.

    A filter would follow readings that stand still, and estimate that the machine stands still whatever the inputs. The
    difference between the two motions hardly depends on how well the initial velocities are known.
    """

    def __init__(self, foresight: Foresight) -> None:
        self._foresight = foresight
        self._last: dict[str, float] = {}  # newest reading of each sensor in use
        self._same: dict[str, int] = {}  # consecutive equal readings in this window; absent: one differed
        self._begin = -1  # first step of the window; -1: none
        self._driven = self._coasting = self._no_input = np.zeros(0)
        self._k = 0  # step that the equations have reached

    def forget(self) -> None:
        """Forget all readings: a handshake begins."""
        self._begin = -1
        self._last = {}

    def complaint(self, k: int, x: Array, u: Array, readings: Mapping[str, Sequence[float]]) -> tuple[str, str] | None:
        """Name and text of the fault, or None; the estimate is x (n_x,) at step k, up to which the inputs u acted."""
        seen = self._foresight
        if self._begin < 0 or k < self._k or not self._continue(k, u):
            self._open(k, x)
        self._k = k
        for name in seen.numbers:
            for value in readings.get(name, ())[1::2]:
                if self._last.get(name) != value:
                    self._same.pop(name, None)
                elif name in self._same:
                    self._same[name] += 1
                self._last[name] = value
        if k - self._begin < seen.steps:
            return None
        moved = np.abs(seen.measure(k, self._driven, u) - seen.measure(k, self._coasting, self._no_input))
        frozen = [
            name for name, same in self._same.items() if same > 1 and moved[seen.numbers[name]] > seen.tells[name]
        ]
        seconds = (k - self._begin) * seen.step
        self._open(k, x)
        if not frozen:
            return None
        text = f"the readings of {', '.join(frozen)} are the same, bit by bit, for {seconds:.3g} s, although the "
        text += "inputs should have changed them; check the sensors and what they measure, or raise "
        return "frozen_state", f"{text}plant.safety.frozen_time"

    def _continue(self, k: int, u: Array) -> bool:
        """Integrate both motions up to step k; returns whether they are finite."""
        n, advance = k - self._k, self._foresight.advance
        self._no_input = np.zeros_like(u)
        return n == 0 or (advance(self._k, n, self._driven, u) and advance(self._k, n, self._coasting, self._no_input))

    def _open(self, k: int, x: Array) -> None:
        """Begin a window at this estimate."""
        self._begin = self._k = k
        self._driven, self._coasting = x.copy(), x.copy()
        self._same = dict.fromkeys(self._foresight.numbers, 0)
