"""What a user states of an environment: its reward and what ends an episode, as expressions of what a step leaves."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import StatementError
from servonode.mechanics.expression import ExpressionError, parse

CONDITION = re.compile(r"([^<>=]+)([<>])([^<>=]+)")
EFFORT = 0.01  # of the default reward, at the limit of each input


@dataclass(frozen=True)
class Stated:
    """The reward and the conditions that end an episode, of the columns that stand after each step.

    columns: t, the states, work, the inputs that act, residual_NAME, goal_NAME with derivatives, fault. conditions:
    expressions that end it where they are above 0, by their texts.
    """

    columns: tuple[str, ...]
    reward: str
    texts: tuple[str, ...]
    conditions: tuple[str, ...]
    has_residuals: bool

    @classmethod
    def of(cls, closed_loop: ClosedLoop, reward: str | float | None, terminate: str | Sequence[str]) -> Self:
        """Raises StatementError where reward or conditions are no expressions of the columns."""
        control, machine = closed_loop.known_control, closed_loop.machine.description
        law = control.law.description
        residuals = [] if law.own else [f"residual_{each.name}" for each in law.residuals]
        goals = [f"goal_{name}" for name in (*control.targets.entries, *([] if law.own else control.signals.entries))]
        columns = ("t", *machine.state_names, "work", *machine.input_names, *residuals, *goals, "fault")
        if reward is None:
            reward = _default(closed_loop, residuals)
        _checked("reward", str(reward), columns)
        texts = (terminate,) if isinstance(terminate, str) else tuple(terminate)
        conditions = tuple(_condition(each, columns) for each in texts)
        return cls(columns, str(reward), texts, conditions, bool(residuals))


def _default(closed_loop: ClosedLoop, residuals: Sequence[str]) -> str:
    """1 where all residuals are 0, less a little for the inputs' effort; what ends an episode ends its rewards."""
    machine = closed_loop.machine.description
    if not residuals:
        example = f"-{machine.state_names[0]}**2"
        text = f"reward: the program of {closed_loop.launch.name} has no residuals to make one of; give an expression, "
        raise StatementError(f'{text}such as reward="{example}"')
    limits = zip(machine.input_names, closed_loop.safety.limits.value, strict=True)
    effort = " + ".join(f"({name}/{limit!r})**2" for name, limit in limits)
    return f"1/(1 + {' + '.join(f'{name}**2' for name in residuals)}) - {EFFORT / len(machine.inputs)!r}*({effort})"


def _condition(text: str, columns: Sequence[str]) -> str:
    found = CONDITION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise StatementError(f'terminate: {text!r} is not a condition; give one, such as "abs({columns[1]}) > 1.5"')
    left, sign, right = found.groups()
    for side in (left, right):
        _checked("terminate", side.strip(), columns)
    return f"({left}) - ({right})" if sign == ">" else f"({right}) - ({left})"


def _checked(word: str, text: str, columns: Sequence[str]) -> None:
    try:
        parse(text, columns)
    except ExpressionError as error:
        raise StatementError(f"{word}: {error}") from error
