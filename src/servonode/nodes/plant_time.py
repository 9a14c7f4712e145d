"""The time of a plant: the grid of its steps, the step of the goal, and the pace at which a run goes through them."""

from dataclasses import dataclass

from servonode.nodes.guard import Guard
from servonode.plants.plant import Plant


@dataclass(frozen=True, slots=True)
class StepGrid:
    """The plant steps of a run. steps_per_period: None without a controller."""

    steps: int
    steps_per_period: int | None
    publish_every: int

    def is_control(self, k: int) -> bool:
        """Whether step k is a control instant."""
        return self.steps_per_period is not None and k % self.steps_per_period == 0

    def instant(self, k: int) -> int:
        """The number of the control instant at or before step k."""
        return k // (self.steps_per_period or 1)

    def next_event(self, k: int) -> int:
        """The next step after k at which a state is published: for telemetry, for control, or the last one."""
        following = k - k % self.publish_every + self.publish_every
        if self.steps_per_period:
            following = min(following, k - k % self.steps_per_period + self.steps_per_period)
        return min(following, self.steps)


class GoalTime:
    """The present step of the goal, which stands still while no command acts; without a controller the plant's step."""

    def __init__(self, plant: Plant, guard: Guard) -> None:
        self._plant, self._guard = plant, guard
        self._step = self._since = 0  # step of the goal at the newest control instant, and step of the plant there

    @property
    def k(self) -> int:
        """The step of the goal, which advances from the newest control instant if commands act."""
        passed = self._plant.k - self._since
        if passed and (not self._guard.controlled or self._guard.follows):
            return self._step + passed
        return self._step

    def begin_period(self) -> None:
        """Begin a control period: the present step is a control instant."""
        self._step, self._since = self.k, self._plant.k


class Pace:
    """The pace of plant time, for a plant node. This class is that of lockstep, where time waits for answers."""

    def present_step(self) -> int:
        """The step that the clock has reached, from which a command that arrives now acts."""
        return 0

    def catch_up(self) -> None:
        """Advance the plant to the step that the clock has reached."""

    def obstacle(self) -> str | None:
        """A sentence why the plant must not be armed now, or None."""
        return None

    def values(self) -> dict[str, float]:
        """The values for a status, by name."""
        return {}
