"""The readings that the gate rejects: how many of each sensor, and whether it rejects one persistently."""

from typing import NamedTuple

from servonode.estimators.settings import EstimatorSettings

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
