"""Layout of a law's arrays: the goal y, the answer out, and the row that a record keeps of an answer."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from servonode.mechanics.description import MachineDescription, ProgramDescription, derivatives
from servonode.mechanics.layout import Layout


def law_sizes(machine: MachineDescription, program: ProgramDescription) -> dict[str, int]:
    """The sizes that shapes of a law's arrays are made of, see `kernels`; those of the constants not."""
    n_own, n_rates = len(program.states), len(program.residuals) if program.extension else 0
    chains = {"n_chains": sum(program.relative_degrees)} if program.extension else {}
    return machine.sizes | {
        "n_p": len(machine.parameters) + len(program.parameters) + n_rates, "n_y": GoalLayout.of(program).size,
        "n_out": AnswerLayout.of(program, len(machine.inputs)).size, "n_s": len(program.residuals),
        "n_rel": program.relations, "n_own": n_own, "n_memory": 2 * n_own, "n_found": len(program.found),
        "n_conditions": len(program.requirements) + len(program.warnings),
    } | chains  # fmt: skip


@dataclass(frozen=True)
class GoalLayout(Layout):
    """The goal y: targets and signals, each with its derivatives, then what a controller keeps between its answers."""

    targets: slice
    signals: slice
    states: slice  # of the program itself
    integrals: slice  # of the residuals, where they are fed back

    @classmethod
    def of(cls, program: ProgramDescription) -> Self:
        return cls._consecutive(
            len(derivatives(program.targets, program.target_order)),
            len(derivatives(program.signals, program.signal_order)),
            len(program.states),
            len(program.residuals) if program.integral else 0,
        )

    @property
    def kept(self) -> slice:
        """States and integrals together."""
        return slice(self.states.start, self.integrals.stop)


@dataclass(frozen=True)
class AnswerLayout(Layout):
    """The answer out: inputs before any limit, residuals f, their rates f', condition of W, scale of each limit."""

    inputs: slice
    residuals: slice
    rates: slice
    condition: slice
    scales: slice

    @classmethod
    def of(cls, program: ProgramDescription, n_inputs: int) -> Self:
        n_s = len(program.residuals)
        return cls._consecutive(n_inputs, n_s, n_s, 1, len(program.limits))

    @property
    def recorded(self) -> slice:
        """The part that a record keeps: all but the inputs, which the plant records as applied."""
        return slice(self.residuals.start, self.scales.stop)


@dataclass(frozen=True)
class RecordLayout(Layout):
    """A controller's row: the step, what is recorded of an answer, the program's own states."""

    step: slice
    residuals: slice
    rates: slice
    condition: slice
    scales: slice
    states: slice

    @classmethod
    def of(cls, program: ProgramDescription) -> Self:
        n_s = len(program.residuals)
        return cls._consecutive(1, n_s, n_s, 1, len(program.limits), len(program.states))

    @property
    def recorded(self) -> slice:
        """What is recorded of an answer."""
        return slice(self.residuals.start, self.scales.stop)

    def columns(self, program: ProgramDescription) -> list[str]:
        """The names of a row's entries."""
        residuals = [each.name for each in program.residuals]
        return self.arranged(
            step=["k"],
            residuals=residuals,
            rates=[f"{name}_rate" for name in residuals],
            condition=["condition"],
            scales=[each.name for each in program.limits],
            states=[each.name for each in program.states],
        )


class Answer:
    """The result of a law: the array that it fills, views of its parts, its status. It belongs to the caller.

    A status is 0 if good, see `law_source`.
    """

    def __init__(self, layout: AnswerLayout) -> None:
        self.status = 0
        self.out = np.zeros(layout.size)
        self.inputs = self.out[layout.inputs]  # (n_tau,), before any limit
        self.residuals = self.out[layout.residuals]  # (n_s,)
        self.rates = self.out[layout.rates]  # (n_s,)
        self.scales = self.out[layout.scales]  # of each limit, 1 where it does not act
        self.recorded = self.out[layout.recorded]
        self._condition = self.out[layout.condition]

    @property
    def condition(self) -> float:
        """Condition number of W (1-norm); 1 for programs that state their inputs."""
        return float(self._condition[0])
