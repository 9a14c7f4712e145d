"""A run that only observes: it never commands its machine, and reports what arming would send."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.bus import Command
from servonode.nodes.input_limiter import InputLimiter
from servonode.plants.plant import Plant

REFUSED = "this run only observes (--readonly) and never commands the machine; start it without --readonly to arm it"
WOULD_SEND = "would_send_"  # before the name of an input, among the values of a status
REASON = "readonly"  # why what is asked for does not act


class Observed:
    """A plant to which no input reaches, whoever writes one; all else is the plant's own."""

    def __init__(self, plant: Plant) -> None:
        self._plant = plant

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plant, name)

    def write(self, applied: npt.NDArray[np.float64]) -> None:
        """Nothing is written."""

    def safe(self) -> None:
        """Not even zero is: the machine is safe by itself, for it has never been given an input."""


class Preview:
    """What arming would send now: the inputs of the newest answer as the guard would let them through.

    Its limits act as on an armed machine, the growth after an arming too, from the first answer on. fresh: whether a
    controller answers.
    """

    def __init__(self, limiter: InputLimiter, fresh: Callable[[], bool]) -> None:
        self.reasons: list[str] = []  # why it is not what the law asks for
        self._values: list[float] | None = None
        self._limiter, self._fresh = limiter, fresh

    def take(self, command: Command, instant: int) -> None:
        """A good answer to the state of this control instant; a law that failed would have sent nothing."""
        if command.fault:
            self._values, self.reasons = None, []
            return
        self.reasons = self._limiter.limit(command.input, instant)
        self._values = self._limiter.newest

    def inputs(self) -> dict[str, float]:
        """By name; empty where no controller answers, or its law failed."""
        if self._values is None or not self._fresh():
            return {}
        return dict(zip(self._limiter.names, self._values, strict=True))
