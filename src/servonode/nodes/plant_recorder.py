"""The record of a plant node: state, work, inputs, the step of the goal, the age of the state."""

import numpy as np

from servonode.mechanics.description import MachineDescription
from servonode.nodes.plant_time import GoalTime
from servonode.plants.plant import Plant
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.recorder import Recorder
from servonode.record.shared_memory import Ring


class PlantRecorder(Recorder):
    """Records every `every`-th step of a plant, and the last one."""

    def __init__(
        self, plant: Plant, machine: MachineDescription, goal: GoalTime, steps: int, every: int, ring: Ring | None
    ) -> None:
        row = PlantRecordLayout.of(machine)
        columns = row.columns(machine)
        super().__init__(columns[1:], steps // every + 2, ring)
        self.every = every
        self._steps = steps
        self._plant, self._goal = plant, goal
        self._stamps = np.zeros(len(columns[row.stamps]))

    def take(self, at_the_end: bool = False) -> None:
        """Record the present step if it is one of these, or with `at_the_end`."""
        plant = self._plant
        k = plant.k
        if k % self.every == 0 or k == self._steps or at_the_end:
            self._stamps[:] = self._goal.k, plant.age
            self.add(k, plant.x, plant.output, self._stamps)
