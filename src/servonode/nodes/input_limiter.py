"""The limits on a command's inputs, of value, rate and power, and soft starts; a run that only observes."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from servonode.arrays import Array
from servonode.bus import Command
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.limits import Limits, limited
from servonode.plants.plant import Plant

REFUSED = "this run only observes (--readonly) and never commands the machine; start it without --readonly to arm it"
WOULD_SEND = "would_send_"  # begins the name of such an input in the values of a status
REASON = "readonly"  # the reason why commanded inputs do not act


class InputLimiter:
    """Limits the inputs of commands; after an arming they grow from zero, under limits that may differ for a while.

    newest: the inputs of the newest command within the limits, or of the safe action: rates are counted from them.
    """

    def __init__(self, closed_loop: ClosedLoop, plant: Plant, counts: Counter[str]) -> None:
        machine = closed_loop.machine
        self.names = machine.description.input_names
        self.newest = [0.0] * len(self.names)
        self.of_start, self._soft = closed_loop.safety.limits, closed_loop.safety.soft_start
        self.limits = self.of_start
        self._period_s = (closed_loop.launch.period_ns or 0) / 1e9
        self._starts_softly = self._soft.at_first  # whether the next command begins a soft start
        self._soft_from = -max(self._soft.ramp, self._soft.periods)  # control instant of the newest soft start
        self._counts = counts
        self._rates: Callable[[], Array] = lambda: machine.input_rates(plant.t, plant.x)

    @property
    def limits(self) -> Limits:
        """What reaches the machine, apart from a soft start; never above that of the start."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        soft = self._soft.limits
        lower = [tuple(map(min, *pair)) for pair in ((soft.value, limits.value), (soft.rate, limits.rate))]
        self._limits, self._at_first = limits, Limits(lower[0], lower[1], min(soft.power, limits.power))
        self._power = Limits(limits.value, (math.inf,) * len(self.names), limits.power)

    def starting(self, instant: int) -> bool:
        """Whether a soft start still limits the inputs at this control instant."""
        passed = instant - self._soft_from + 1
        return passed < self._soft.ramp or passed <= self._soft.periods

    def start_softly(self) -> None:
        """Have the next command begin a soft start, after a long time under the safe action."""
        self._starts_softly = True

    def limit(self, inputs: Mapping[str, float], instant: int) -> list[str]:
        """Set `newest` to the limited inputs of the answer at this control instant; returns why they differ."""
        if self._starts_softly:
            self._starts_softly, self._soft_from = False, instant
        asked = [inputs[name] for name in self.names]
        passed, limits = instant - self._soft_from + 1, self._limits
        if passed < self._soft.ramp:
            share = self._soft.share(passed)
            asked = [share * value for value in asked]
        if passed <= self._soft.periods:
            limits = self._at_first
        # one period, even where the last value was held for longer: the machine sees one step of this size
        self.newest, reasons = limited(asked, self.newest, self._period_s, limits, self.names, self._rates)
        if reasons:
            self._counts["saturated"] += 1
        if passed < self._soft.ramp:
            reasons.append("ramp")
        for reason in reasons:
            self._counts[reason] += 1
        return reasons

    def count(self, reason: str) -> None:
        """Count a limit that acted behind these."""
        self._counts[reason] += 1

    def limit_power(self, values: list[float]) -> list[float]:
        """The inputs within the limit of power at the present state: the machine may have become faster."""
        if self._power.power == math.inf:
            return values
        within, reasons = limited(values, values, self._period_s, self._power, self.names, self._rates)
        self._counts["power"] += len(reasons)
        if values is self.newest:
            self.newest = within
        return within


class Observed:
    """A plant that ignores every written input; all else is that of the plant within."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plant, name)

    def write(self, applied: Array) -> None:
        """Do nothing."""

    brake = write

    def drive(self, applied: Array, speeds: Array) -> None:
        """Do nothing."""

    def safe(self) -> None:
        """Do nothing: the machine needs no zero input, because it has never been sent any input."""


class Preview:
    """The inputs that arming would send now: those of the newest answer, within the limits of the guard.

    Limits act as for an armed machine, from the first answer on, a soft start included. fresh: tells whether a
    controller answers.
    """

    def __init__(self, limiter: InputLimiter, fresh: Callable[[], bool]) -> None:
        self.reasons: list[str] = []  # the limits that change the inputs of the law
        self._values: list[float] | None = None
        self._limiter, self._fresh = limiter, fresh

    def take(self, command: Command, instant: int) -> None:
        """Take a good answer to the state of this control instant; of a failed law there is no preview."""
        if command.fault:
            self._values, self.reasons = None, []
            return
        self.reasons = self._limiter.limit(command.input, instant)
        self._values = self._limiter.newest

    def inputs(self) -> dict[str, float]:
        """The inputs by name; empty where no controller answers, or its law failed."""
        if self._values is None or not self._fresh():
            return {}
        return dict(zip(self._limiter.names, self._values, strict=True))
