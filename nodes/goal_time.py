"""The time of the goal, in plant steps: it stands while no command acts, else it would run away from the machine."""

from servonode.nodes.guard import Guard
from servonode.plants.plant import Plant


class GoalTime:
    """The step of the goal at present; without control instants it is the plant's."""

    def __init__(self, plant: Plant, guard: Guard) -> None:
        self._plant, self._guard = plant, guard
        self._step = self._since = 0  # of the goal at the newest control instant, and that instant's own

    @property
    def k(self) -> int:
        """The step of the goal: it has moved on since the newest control instant if commands act."""
        passed = self._plant.k - self._since
        if passed and (not self._guard.controlled or self._guard.follows):
            return self._step + passed
        return self._step

    def begin_period(self) -> None:
        """The present step is a control instant."""
        self._step, self._since = self.k, self._plant.k
