"""Layout of a law's arrays: the goal y, the answer out, and the row that a record keeps of an answer."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from servonode.kernels.library import numbers_of
from servonode.mechanics.description import MachineDescription, ProgramDescription, Quantity, derivatives
from servonode.mechanics.kernels import Layout

GOOD, SINGULAR, NOT_FINITE, CROSSED, FAILED, YIELDED, UNSOLVED = 0, -1, -2, -3, -4, -5, -6
# CROSSED: W is singular somewhere between two control instants; FAILED: a controller of the user's own gave no inputs;
# YIELDED: not all can be kept, which is stated to be a fault; UNSOLVED: the inputs were only clipped for too long
GIVES_WAY, CLIPPED = (numbers_of("nearest")[name] for name in ("GIVES_WAY", "CLIPPED"))  # of how a law keeps


def law_sizes(machine: MachineDescription, program: ProgramDescription) -> dict[str, int]:
    """The sizes that shapes of a law's arrays are made of, see `kernels`; those of the constants not."""
    n_own, n_rates = len(program.states), len(program.residuals) if program.extension else 0
    n_weights = len(machine.inputs) if program.weighted else 0
    n_kept = 4 * len(program.keeps) + 2 * len(machine.inputs) if program.keeping else 0
    chains = {"n_chains": sum(program.relative_degrees)} if program.extension else {}
    return machine.sizes | {
        "n_p": len(machine.parameters) + len(program.parameters) + n_rates + n_weights + n_kept,
        "n_y": GoalLayout.of(program).size,
        "n_out": AnswerLayout.of(program, len(machine.inputs)).size, "n_s": len(program.residuals),
        "n_rel": program.relations, "n_own": n_own, "n_memory": 2 * n_own, "n_found": len(program.found),
        "n_conditions": len(program.requirements) + len(program.warnings), "n_tracked": len(program.tracked),
        "n_faces": len(program.faces), "n_face": 4 + len(machine.inputs),
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
    """The answer out: inputs before any limit, residuals f, their rates f', condition of W, scale of each limit.

    Of what is kept: the margin of each, whether it is active (1; -1: it gives way), and how all is kept (a status of
    the solver). Last a number with the sign of det W, of laws that tell it (see `law_description.tells_crossings`).
    """

    inputs: slice
    residuals: slice
    rates: slice
    condition: slice
    scales: slice
    margins: slice
    active: slice
    keeping: slice
    determinant: slice

    @classmethod
    def of(cls, program: ProgramDescription, n_inputs: int) -> Self:
        n_s = len(program.residuals)
        n_k, limits = len(program.keeps), len(program.limits)
        kept = n_k, n_k, int(program.keeping)
        return cls._consecutive(n_inputs, n_s, n_s, 1, limits, *kept, int(program.tells_crossings))

    @property
    def recorded(self) -> slice:
        """The part that a record keeps: all but the inputs, which the plant records as applied, and the determinant."""
        return slice(self.residuals.start, self.keeping.stop)


@dataclass(frozen=True)
class RecordLayout(Layout):
    """A controller's row: the step, what is recorded of an answer, the program's own states."""

    step: slice
    residuals: slice
    rates: slice
    condition: slice
    scales: slice
    margins: slice
    active: slice
    keeping: slice
    states: slice

    @classmethod
    def of(cls, program: ProgramDescription) -> Self:
        n_s = len(program.residuals)
        kept = len(program.keeps), len(program.keeps), int(program.keeping)
        return cls._consecutive(1, n_s, n_s, 1, len(program.limits), *kept, len(program.states))

    @property
    def recorded(self) -> slice:
        """What is recorded of an answer."""
        return slice(self.residuals.start, self.keeping.stop)

    def columns(self, program: ProgramDescription) -> list[str]:
        """The names of a row's entries."""
        residuals = [each.name for each in program.residuals]
        return self.arranged(
            step=["k"],
            residuals=residuals,
            rates=[f"{name}_rate" for name in residuals],
            condition=["condition"],
            scales=[each.name for each in program.limits],
            **{part: [each.name for each in found] for part, found in kept_quantities(program).items()},
            states=[each.name for each in program.states],
        )


def kept_quantities(program: ProgramDescription) -> dict[str, list[Quantity]]:
    """What an answer says of all that is kept, by part and in its order; the names are those of columns."""
    keeps = [each.quantity for each in program.keeps]
    acts = "1 while the inputs are changed for it, -1 while it gives way"
    how = "0: the inputs keep all, 1: they are changed for it, 2: not all is kept, 3: they are only clipped"
    return {
        "margins": [Quantity(f"margin_{each.name}", each.description, each.unit) for each in keeps],
        "active": [Quantity(f"active_{each.name}", acts) for each in keeps],
        "keeping": [Quantity("keeping", how)] if program.keeping else [],
    }


def kept_columns(program: ProgramDescription) -> list[Quantity]:
    """The columns of all that is kept, as they follow one another from `RecordLayout.margins` on."""
    return [each for part in kept_quantities(program).values() for each in part]


class Answer:
    """The result of a law: the array that it fills, views of its parts, its status. It belongs to the caller.

    A status is GOOD, the number of the guard that is violated, or one of those below GOOD.
    """

    def __init__(self, layout: AnswerLayout) -> None:
        self.status = GOOD
        self.why = ""  # of FAILED
        self.out = np.zeros(layout.size)
        self.inputs = self.out[layout.inputs]  # (n_tau,), before any limit
        self.residuals = self.out[layout.residuals]  # (n_s,)
        self.rates = self.out[layout.rates]  # (n_s,)
        self.scales = self.out[layout.scales]  # of each limit, 1 where it does not act
        self.margins = self.out[layout.margins]  # of each keep
        self.active = self.out[layout.active]  # 1 where a keep acts, -1 where it gives way
        self.recorded = self.out[layout.recorded]
        self._keeping = self.out[layout.keeping]
        self._condition = self.out[layout.condition]
        self._determinant = self.out[layout.determinant]

    @property
    def condition(self) -> float:
        """Condition number of W (1-norm); 1 for programs that state their inputs."""
        return float(self._condition[0])

    @property
    def keeping(self) -> int:
        """How all is kept, a status of the solver (`kernels/lib/nearest.py`); 0 where nothing had to be done."""
        return int(self._keeping[0]) if len(self._keeping) else 0

    def one_condition(self) -> None:
        """Say that there is no W."""
        self._condition[0] = 1.0

    @property
    def determinant(self) -> float:
        """A number with the sign of det W; 0 where the law does not tell it."""
        return float(self._determinant[0]) if len(self._determinant) else 0.0

    def compare(self, before: float) -> float:
        """Set a good status to CROSSED where det W has lost the sign that it had `before`.

        What the next answer is compared with comes out: the determinant, or `before` where this answer is not good, so
        that the law stays refused on the other side, whether or not its one command with the fault arrives.
        """
        if self.status == GOOD and self.determinant * before < 0.0:
            self.status = CROSSED
        return self.determinant if self.status == GOOD else before

    def count_clipped(self, before: int, allowed: int) -> int:
        """Set a good status to UNSOLVED where the inputs are only clipped for more control periods than `allowed`.

        `before`: for how many in a row they had been; how many it is now comes out.
        """
        clipped = before + 1 if self.status == GOOD and self.keeping == CLIPPED else 0
        if clipped > allowed:
            self.status = UNSOLVED
        return clipped
