"""The imperfections of a simulated device: the effects of its drives on inputs and of its sensors on states."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array

EXACT = 2.0**53  # whole numbers up to here are exact


@dataclass(frozen=True)
class ActuatorEffects:
    """Physics of the drives, one value an input; infinity or 0 switches an effect off.

    limit and quantum and dead_zone in the input's unit, rate_limit in that per second, lag and delay in seconds.
    """

    limit: tuple[float, ...]
    rate_limit: tuple[float, ...]
    lag: tuple[float, ...]
    delay: tuple[float, ...]
    quantum: tuple[float, ...]
    dead_zone: tuple[float, ...]

    @property
    def dynamic(self) -> bool:
        """Whether the torque changes between two writes."""
        return any(rate < np.inf for rate in self.rate_limit) or any(self.lag) or any(self.delay)

    @property
    def ideal(self) -> bool:
        """Whether nothing but a limit acts."""
        return not (self.dynamic or any(self.quantum) or any(self.dead_zone))

    def numbers(self, step: float) -> Array:
        """(5, inputs): limit, change in a step of `step` [s], share of a lag that passes in it, quantum, dead zone."""
        lag = np.array(self.lag)
        # exact zero-order-hold answer of a first-order lag over one step; of one far shorter than the step, the whole
        with np.errstate(over="ignore"):
            blend = np.where(lag > 0, -np.expm1(-step / np.where(lag > 0, lag, 1.0)), 1.0)
        return np.array([self.limit, np.array(self.rate_limit) * step, blend, self.quantum, self.dead_zone])

    def late_by(self, step: float) -> list[int]:
        """The delay of each input in steps of `step` [s]."""
        return [round(delay / step) for delay in self.delay]


def rounded(values: Array, quantum: Array) -> Array:
    """The values in whole steps of `quantum`; as they are where that is 0, or below what a double resolves."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.round(values / np.where(quantum > 0, quantum, 1.0))
        result: Array = np.where((quantum > 0) & (np.abs(steps) < EXACT), steps * quantum, values)
    return result


def clipped(values: Array, most: Array) -> Array:
    """The values, or where they are larger than `most` that, with their sign; what is within stays as it is."""
    result: Array = np.where(np.abs(values) > most, np.copysign(most, values), values)
    return result


class Actuator:
    """The drives' state: what they were told and what they do.

    An input passes delay, dead zone, rounding, limit, rate limit and lag, in this order.
    """

    def __init__(self, effects: ActuatorEffects, step: float) -> None:
        self.effects = effects
        self._ideal = effects.ideal
        self.output = np.zeros(len(effects.limit))
        self._limited = np.zeros(len(effects.limit))  # behind the rate limit, before the lag
        self._demand = np.zeros(len(effects.limit))
        self._limit, self._change, self._blend, self._quantum, self._dead_zone = effects.numbers(step)
        self._pipes = [deque([0.0] * n) for n in effects.late_by(step)]

    def write(self, demand: Array) -> None:
        """Take a new demand, to be held."""
        if self._ideal:
            self.output[:] = clipped(demand, self._limit)
            return
        self._demand[:] = demand
        if not self.effects.dynamic:
            self.output[:] = self._shaped(self._demand)

    def advance(self) -> None:
        """Let one plant step pass."""
        if not self.effects.dynamic:
            return
        delayed = self._demand.copy()
        for i, pipe in enumerate(self._pipes):
            if pipe:
                pipe.append(delayed[i])
                delayed[i] = pipe.popleft()
        self._limited += clipped(self._shaped(delayed) - self._limited, self._change)
        self.output += self._blend * (self._limited - self.output)

    def _shaped(self, demand: Array) -> Array:
        value = np.where(np.abs(demand) < self._dead_zone, 0.0, demand)
        return clipped(rounded(value, self._quantum), self._limit)


@dataclass(frozen=True)
class SensorEffects:
    """What the published state differs by, one value a state; delay [s] and drop act on whole messages."""

    noise: tuple[float, ...]
    bias: tuple[float, ...]
    quantum: tuple[float, ...]
    delay: float
    drop: float

    @property
    def ideal(self) -> bool:
        """Whether the published state is the true one, every time."""
        return not (any(self.noise) or any(self.bias) or any(self.quantum) or self.delay or self.drop)


class Sensor:
    """Measures a state with the effects; all random numbers come from `rng`."""

    def __init__(self, effects: SensorEffects, rng: np.random.Generator) -> None:
        self.effects = effects
        self._ideal = effects.ideal
        self._rng = rng
        self._noise, self._bias, self._quantum = map(np.array, (effects.noise, effects.bias, effects.quantum))

    def measure(self, state: Array) -> Array:
        """The measured state; a new array unless the sensor is ideal."""
        if self._ideal:
            return state
        value = state + self._bias + self._noise * self._rng.standard_normal(len(state))
        return rounded(value, self._quantum)

    def drops(self) -> bool:
        """Whether this state message is lost."""
        return self.effects.drop > 0 and bool(self._rng.random() < self.effects.drop)
