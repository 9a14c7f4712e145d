"""The safety filter in front of the plant: pure functions, the same for simulation and hardware."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servonode.bus import Command


@dataclass(slots=True)
class Expected:
    """What a command must answer: the run, the states that may still be answered, the input names.

    The plant keeps one and brings it up to date, rather than making one for each command.
    """

    run: int
    newest: int  # seq of the newest control state published
    answered: int  # seq of the newest one already answered
    outstanding: Mapping[int, int]  # seq of a control state -> its control instant
    input_names: tuple[str, ...]


def refusal(command: Command, expected: Expected) -> str | None:
    """Why a command is refused, as one counted word, or None for a good one.

    In this order: run id, sequence and age, shape, finiteness. A refused command is as none at all.
    """
    if command.run != expected.run:
        return "run"
    if command.re > expected.newest:
        return "future"
    if command.re <= expected.answered:
        return "repeated" if command.re == expected.answered else "old"
    if command.re not in expected.outstanding:
        return "old"
    if command.input.keys() != set(expected.input_names):
        return "shape"
    if not all(map(math.isfinite, command.input.values())):
        return "non_finite"
    return None


def limited(values: Sequence[float], limits: Sequence[float], names: Sequence[str]) -> tuple[list[float], list[str]]:
    """Finite values brought inside +-limit, and a reason `limit:NAME` for each that was not.

    Raises:
        ValueError: a value is not finite; a clamp would turn NaN into full torque.
    """
    applied, reasons = [], []
    for value, limit, name in zip(values, limits, names, strict=True):
        if not math.isfinite(value):
            raise ValueError(f"input {name} is {value}; only finite inputs may reach a limit")
        inside = min(max(value, -limit), limit)
        applied.append(inside)
        if inside != value:
            reasons.append(f"limit:{name}")
    return applied, reasons
