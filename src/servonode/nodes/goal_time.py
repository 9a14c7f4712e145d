"""The time of the goal, in plant steps: it stands still while no command acts, so that the goal waits as well."""

from servonode.nodes.guard import Guard
from servonode.plants.plant import Plant


class GoalTime:
    """The present step of the goal; without a controller it is the plant's step."""

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
