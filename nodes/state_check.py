"""What is wrong with the state to which a plant has come."""

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.fault_time import located
from servonode.nodes.node import Fault
from servonode.nodes.topology import PLANT
from servonode.plants.plant import Plant

Array = npt.NDArray[np.float64]


class StateCheck:
    """Finds the faults of a state.

    locates: each step is to be checked, and the time of a fault within it to be found: no controller samples the state.
    """

    def __init__(self, closed_loop: ClosedLoop, plant: Plant) -> None:
        launch, self._machine = closed_loop.launch, closed_loop.machine
        self._has_conditions = launch.plant.safety.faults and bool(self._machine.description.faults)
        self.locates = self._has_conditions and launch.steps_per_period is None
        self._integrator, self._plant = launch.plant.integrator, plant

    def useless(self) -> list[Fault]:
        """Why the state says nothing of the machine: its readings cannot be believed, or its motion is not finite."""
        plant, found = self._plant, []
        if plant.distrust is not None:
            found.append(Fault(*plant.distrust, plant.t, PLANT))
        if not plant.finite:
            text = "the state is no longer finite: the machine's motion escaped"
            found.append(Fault("diverged", text, plant.t, PLANT))
        return found

    def violated(self, before: Array | None) -> Fault | None:
        """The machine's own fault condition that the state violates; its time is located in the step from `before`."""
        if not self._has_conditions:
            return None
        machine, plant = self._machine, self._plant
        t, text = plant.t, machine.fault(plant.t, plant.x)
        if before is not None:
            t, text = located(machine, self._integrator, plant.step_ns, plant.k - 1, before, plant.output)
        return Fault(machine.fault_name(text), text, t, PLANT) if text else None
