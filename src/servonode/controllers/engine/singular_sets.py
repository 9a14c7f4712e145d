"""Whether a change of the sign of det W between two control instants means that W was singular between them."""

from collections.abc import Iterable
from typing import Any

import sympy

from servonode.controllers.engine.law_texts import relation_rows
from servonode.controllers.engine.servo import Servo
from servonode.mechanics.description import derivatives
from servonode.mechanics.functions import choose, wrap
from servonode.mechanics.straight_line import ordered, symbols_of
from servonode.mechanics.symbols import time

Expr = Any
JUMPING = (choose, wrap, sympy.sign)


def tells_crossings(servo: Servo) -> bool:
    """Whether W, or W with the relations below it, is square and a continuous function of time and states alone.

    A goal may jump, as one that comes from outside, and take det W to the other side without a zero between.
    """
    program = servo.program
    if program.inputs or program.least_norm or program.ideal or program.posture or not program.residuals:
        return False
    symbols, parts = _extended(servo) if servo.extension else _at_once(servo)
    goal = {each.derivative(n) for each, n in derivatives(program.targets, servo.target_order)}
    goal |= {each.derivative(n) for each, n in derivatives(program.signals, servo.signal_order)}
    moving = {time, *servo.equations.model.state, *program.states}
    moving |= {each.symbol for each in servo.extension.integrators} if servo.extension else set()
    return not symbols & goal and bool(symbols & moving) and not any(part.has(*JUMPING) for part in parts)


def _extended(servo: Servo) -> tuple[set[Expr], list[Expr]]:
    """The symbols and definitions of the decoupling matrix."""
    assert servo.extension is not None
    line = servo.extension.motion.line
    atoms = [sympy.sympify(each) for row in servo.extension.matrix() for each in row]
    return line.symbols(atoms), [line.definitions[each] for each in line.needed(atoms)]


def _at_once(servo: Servo) -> tuple[set[Expr], list[Expr]]:
    """The symbols and definitions of W = J M_r^-1 B_r and of the relations."""
    equations = servo.equations
    relations: Iterable[Expr] = (entry for row in relation_rows(servo) for entry in row[:-1])
    entries = [sympy.sympify(each) for each in (*servo.J, *equations.M_r, *equations.B_r, *relations)]
    symbols = set[Expr]().union(*map(symbols_of, entries))
    return symbols, [*entries, *(each.definition for each in ordered(entries))]
