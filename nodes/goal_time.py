"""The time of the goal, in plant steps: it stands while no command acts, else it would run away from the machine."""


class GoalTime:
    """Steps of the goal beside those of the plant."""

    def __init__(self) -> None:
        self.kept = self.since = 0  # the goal's step at the newest control instant, and that instant's own

    def step(self, k: int, follows: bool) -> int:
        """The step of the goal at plant step k; `follows`: commands have acted since the newest control instant."""
        return self.kept + (k - self.since if follows else 0)

    def keep(self, k: int, follows: bool) -> None:
        """A control instant at step k: the goal has moved on if commands acted in the period before."""
        self.kept, self.since = self.step(k, follows), k
