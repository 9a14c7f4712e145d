"""The layout of a row in the plant's record."""

from dataclasses import dataclass
from typing import Self

from servonode.mechanics.description import MachineDescription
from servonode.mechanics.kernels import Layout


@dataclass(frozen=True)
class PlantRecordLayout(Layout):
    """A plant's row: step, states, work [J], the inputs that act, the step of the goal, how old the state is [s].

    A simulation without nodes keeps the first four, for its goal is that of the step and its state is new.
    """

    step: slice
    state: slice
    work: slice
    inputs: slice
    goal_step: slice
    age: slice

    @classmethod
    def of(cls, machine: MachineDescription) -> Self:
        return cls._consecutive(1, len(machine.state), 1, len(machine.inputs), 1, 1)

    @property
    def x(self) -> slice:
        """The kernel state: states and work."""
        return slice(self.state.start, self.work.stop)

    @property
    def computed(self) -> slice:
        """What a simulation without nodes keeps."""
        return slice(self.step.start, self.inputs.stop)

    @property
    def stamps(self) -> slice:
        """What a plant node adds."""
        return slice(self.goal_step.start, self.age.stop)

    def columns(self, machine: MachineDescription) -> list[str]:
        """The names of a row's entries."""
        return self.arranged(
            step=["k"],
            state=machine.state_names,
            work=["work"],
            inputs=machine.input_names,
            goal_step=["goal_k"],
            age=["age"],
        )
