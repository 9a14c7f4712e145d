"""The parts of a program other than its residuals, as blocks: own states, damping, limits, guards, requirements."""

from collections.abc import Sequence
from typing import Any

import sympy

from servonode.controllers.engine.program import Limit
from servonode.controllers.engine.servo import Servo
from servonode.export.blocks import Block, Heading, Line, Lines, Phrase, Words, abbreviations, symbol_table
from servonode.export.simplify import Abbreviations
from servonode.mechanics.symbols import Condition

Expr = Any


def states_blocks(servo: Servo, short: Abbreviations) -> list[Block]:
    """The program's own states with their initial values and rates."""
    states = list(servo.program.states)
    if not states:
        return []
    definitions, entries = short.applied([*(each.start for each in states), *servo.state_rates])
    n = len(states)
    starts = tuple(Line(Phrase(f"{s.name}(0)", f"{s.name}(0)"), each) for s, each in zip(states, entries, strict=False))
    rates = tuple(
        Line(Phrase(f"{s.name}'", rf"\dot{{{s.name}}}"), each) for s, each in zip(states, entries[n:], strict=True)
    )
    return [
        symbol_table("States of the program", "States of the program", states),
        *abbreviations(definitions),
        Lines((*starts, *rates)),
    ]


def damping_blocks(servo: Servo, short: Abbreviations) -> list[Block]:
    """The damping d that is subtracted from the demand, where there is any."""
    if not any(servo.damping):
        return []
    definitions, entries = short.applied([sympy.sympify(each) for each in servo.damping])
    lines = (Line(Phrase(f"d{i}", f"d_{{{i}}}"), each) for i, each in enumerate(entries, 1) if each != 0)
    return [
        Words("The residuals give way by d, which damps what they leave free:"),
        *abbreviations(definitions),
        Lines(tuple(lines)),
    ]


def limits_blocks(servo: Servo) -> list[Block]:
    """The limits, in words and with their bounds."""
    limits = [
        each for kind in ("expressions", "demand", "inputs") for each in servo.program.limits if each.kind == kind
    ]
    if not limits:
        return []
    lines = tuple(Line(Phrase(each.quantity.name), each.at_most, "<=") for each in limits)
    return [
        Heading("Limits"),
        Words("Each vector is scaled down to its bound, its direction is kept; in this order:"),
        *(Words(f"{each.quantity.name}: {each.quantity.description}, {_of(each)}.") for each in limits),
        Lines(lines),
    ]


def _of(limit: Limit) -> str:
    if limit.kind == "demand":
        return f"what is demanded of J v' for {', '.join(each.quantity.name for each in limit.of)}"
    if limit.kind == "inputs":
        return f"the inputs {', '.join(each.name for each in limit.of)}"
    return "where the program states it"


def conditions_blocks(
    servo: Servo, short: Abbreviations, title: str, opening: str, conditions: Sequence[Condition]
) -> list[Block]:
    """Conditions, numbered, and the meaning of their violation."""
    if not conditions:
        return []
    rates = servo.equations.model.rates
    definitions, margins = short.applied([each.margin.xreplace(rates) for each in conditions])
    zeros = [(">" if each.requirement.strict else ">=", sympy.Integer(0)) for each in conditions]
    marks = [f"({i})" for i in range(1, len(conditions) + 1)]
    return [
        Heading(title),
        Words(opening),
        *abbreviations(definitions),
        Lines(
            tuple(
                Line(Phrase(mark, mark), each, ":", zero)
                for mark, each, zero in zip(marks, margins, zeros, strict=True)
            )
        ),
        *(Words(f"Where {mark} fails: {each.requirement.text}.") for mark, each in zip(marks, conditions, strict=True)),
    ]
