"""A run that only observes: it never commands its machine, and reports what arming would send."""

from collections.abc import Callable
from typing import Any

from servonode.arrays import Array
from servonode.bus import Command
from servonode.nodes.input_limiter import InputLimiter
from servonode.plants.plant import Plant

REFUSED = "this run only observes (--readonly) and never commands the machine; start it without --readonly to arm it"
WOULD_SEND = "would_send_"  # begins the name of such an input in the values of a status
REASON = "readonly"  # the reason why commanded inputs do not act


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
