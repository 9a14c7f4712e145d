"""The grid of a run's steps: control instants, and steps at which a state is published."""

from dataclasses import dataclass


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
