"""Which commands are refused: a pure function, the same for simulation and hardware."""

import math
from collections.abc import Container
from dataclasses import dataclass

from servonode.bus import Command


@dataclass(slots=True)
class Expected:
    """What a command is compared with: the run, the states that may still be answered, the input names.

    The plant keeps one and updates it, rather than make one for each command.
    """

    run: int
    newest: int  # seq of the newest control state published
    answered: int  # seq of the newest one already answered
    outstanding: Container[int]  # seqs of the control states that wait for an answer
    input_names: frozenset[str]


def refusal(command: Command, expected: Expected) -> str | None:
    """The reason to count if a command is refused, or None for a good one.

    Checked in this order: shape, finiteness, run id, sequence and age. A refused command has no effect.
    """
    if command.input.keys() != expected.input_names:
        return "shape"
    if not all(map(math.isfinite, command.input.values())):
        return "non_finite"
    if command.run != expected.run:
        return "run"
    if command.re > expected.newest:
        return "future"
    if command.re <= expected.answered:
        return "repeated" if command.re == expected.answered else "old"
    if command.re not in expected.outstanding:
        return "old"
    return None
