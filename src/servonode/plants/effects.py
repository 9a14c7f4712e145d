"""The imperfections of a simulated device: the effects of its drives on inputs and of its sensors on states."""

from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.plants.effect_kernels import effect_kernel


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


def clipped(values: Array, most: Array) -> Array:
    """The values, or where they are larger than `most` that, with their sign; what is within stays as it is."""
    result: Array = np.where(np.abs(values) > most, np.copysign(most, values), values)
    return result


class Actuator:
    """The drives' state: what they were told and what they do.

    An input passes delay, dead zone, rounding, limit, rate limit and lag, in this order.
    """

    def __init__(self, effects: ActuatorEffects, step: float) -> None:
        n, depths = len(effects.limit), np.array(effects.late_by(step), dtype=np.int64)
        self.effects, self._kernel = effects, effect_kernel("drives", n)
        self.output, self._demand = np.zeros(n), np.zeros(n)
        self._k, self._dynamic = 0, effects.dynamic
        # behind the delay; behind the rate limit, before the lag
        self._parts = effects.numbers(step), depths, np.zeros((max([1, *depths]), n)), self._demand, np.zeros(n)

    def write(self, demand: Array) -> None:
        """Take a new demand, to be held."""
        self._demand[:] = demand
        if not self._dynamic:
            self._kernel.act(self._parts[0], self._demand, self.output)

    def advance(self) -> None:
        """Let one plant step pass."""
        if self._dynamic:
            self._kernel.drives(self._k, *self._parts, self.output)
            self._k += 1


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
        self.effects, self._rng = effects, rng
        self._noise, self._errors = np.array(effects.noise), np.array([effects.bias, effects.quantum])
        self._kernel = None if effects.ideal else effect_kernel("readings", len(effects.noise))

    def measure(self, state: Array) -> Array:
        """The measured state; a new array unless the sensor is ideal."""
        if self._kernel is None:
            return state
        measured = np.zeros(len(state) + 1)  # the last one is the work's
        noise = self._noise * self._rng.standard_normal(len(state))
        self._kernel.measure(np.append(state, 0.0), self._errors, noise, measured)
        return measured[:-1]

    def drops(self) -> bool:
        """Whether this state message is lost."""
        return self.effects.drop > 0 and bool(self._rng.random() < self.effects.drop)
