"""What a plant node records: state, work, inputs, the step of the goal, the age of the state."""

import numpy as np

from servonode.nodes.goal_time import GoalTime
from servonode.nodes.row_log import Recorder
from servonode.nodes.store import Store
from servonode.plants.plant import Info, Plant

MORE_COLUMNS = ("goal_k", "age")  # step of the goal, and how old the state is [s of plant time]


class PlantRecorder(Recorder):
    """Records every `every`-th step of a plant, and the last one."""

    def __init__(self, plant: Plant, info: Info, goal: GoalTime, steps: int, every: int, store: Store | None) -> None:
        columns = [*info.state_names, "work", *info.input_names, *MORE_COLUMNS]
        super().__init__(columns, steps // every + 2, store)
        self.every = every
        self._steps = steps
        self._plant, self._goal = plant, goal
        self._more = np.zeros(len(MORE_COLUMNS))

    def take(self, at_the_end: bool = False) -> None:
        """Record the present step if it is one of those, or the run ends with it."""
        plant = self._plant
        k = plant.k
        if k % self.every == 0 or k == self._steps or at_the_end:
            self._more[:] = self._goal.k, plant.age
            self.add(k, plant.x, plant.output, self._more)
