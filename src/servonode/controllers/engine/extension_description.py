"""What an extension is, in words and for processes without sympy."""

from collections.abc import Sequence
from typing import Any

import sympy
from sympy.matrices.utilities import dotprodsimp

from servonode.controllers.engine.extension import Extension, Step
from servonode.controllers.engine.servo import Servo
from servonode.mechanics.description import ExtensionDescription
from servonode.mechanics.trig_reduce import is_large, trig_reduce

Expr = Any
LARGEST = 4, 300  # rows of a decoupling matrix whose determinant is written out, operations of each entry
MOST_REDUCED = 500  # operations of what is brought to a common denominator and reduced
SHORT = 60  # operations of a determinant that is factored


def describe_extension(servo: Servo) -> ExtensionDescription | None:
    """The description of a program's extension; None where it has none."""
    extension = servo.extension
    if extension is None:
        return None
    model = servo.equations.model
    n_states = len(model.state) - len(model.held) + len(servo.program.states) + len(extension.integrators)
    found, moving = determinant(extension), _moving(extension)
    return ExtensionDescription(
        steps=_sentences(servo, extension),
        integrators=tuple(each.quantity for each in extension.integrators),
        left_free=n_states - sum(extension.relative_degrees),
        determinant=str(found or ""),
        depends_on=tuple(sorted(each.name for each in (moving if found is None else moving & found.free_symbols))),
        chained=tuple(_is_chained(extension, i) for i in range(len(extension.integrators))),
    )


def _moving(extension: Extension) -> set[Expr]:
    """What the decoupling matrix is a function of, but for constants."""
    line = extension.motion.line
    return line.symbols(each for row in extension.matrix() for each in row) - set(extension.motion.constants)


def _is_chained(extension: Extension, i: int) -> bool:
    """Whether the rate of an integrator is the next integrator, and not only a part of it."""
    held, after = extension.held.get(("rate", i)), extension.integrators[i + 1 : i + 2]
    return bool(held and after and not held.shares and held.value == after[0].symbol)


def _sentences(servo: Servo, extension: Extension) -> tuple[str, ...]:
    """One for each set of inputs that comes too early: what is demanded through how many integrators."""
    sets: dict[tuple[int, ...], list[Step]] = {}
    for each in extension.steps:
        sets.setdefault(each.inputs, []).append(each)
    return tuple(_sentence(servo, inputs, steps) for inputs, steps in sets.items())


def _sentence(servo: Servo, inputs: tuple[int, ...], steps: Sequence[Step]) -> str:
    names = [each.name for each in servo.equations.model.inputs]
    residuals = [each.quantity.name for each in servo.program.residuals]
    early = " and ".join(names[k] for k in inputs)
    reached = " and ".join(residuals[i] for i in sorted({i for each in steps for i in each.residuals}))
    verb = "reaches" if len(inputs) == 1 else "reach"
    n = max(map(len, (each.held for each in steps)), default=0)
    count = sum(1 for each in steps if each.held)
    what = " and ".join(each.removeprefix("demanded_") for each in steps[0].held)
    integrators = f"{count} integrator{'' if count == 1 else 's'}" + (" each" if n > 1 else "")
    demanded = f"{what} {'is' if n == 1 else 'are'} demanded through {integrators}"
    return f"{early} {verb} {reached} too early: {demanded}"


def determinant(extension: Extension) -> Expr | None:
    """The determinant of the decoupling matrix, factored; None where it is long."""
    most, operations = LARGEST
    matrix, constants = extension.matrix(), extension.motion.constants
    if len(matrix) > most:
        return None
    written = [[extension.motion.line.expanded(each, operations) for each in row] for row in matrix]
    if any(each is None for row in written for each in row):
        return None
    entries = [[_reduced(each, constants) for each in row] for row in written]
    if any(each is None for row in entries for each in row):
        return None
    with dotprodsimp(False):  # which looks for common divisors of whatever length
        product = sympy.Matrix(entries).det(method="berkowitz")
    found = _reduced(product, constants) if sympy.count_ops(product) <= MOST_REDUCED else None
    if found is None:
        return None
    over, under = sympy.fraction(found)
    if sympy.count_ops(over) + sympy.count_ops(under) > SHORT:
        return None
    return sympy.factor(over) / sympy.factor(under)


def _reduced(expression: Expr, constants: Sequence[Expr]) -> Expr | None:
    """The expression as a quotient of reduced sums; None where these would be long."""
    parts = sympy.fraction(sympy.together(expression))
    if sum(map(sympy.count_ops, parts)) > MOST_REDUCED or any(is_large(each, constants) for each in parts):
        return None
    over, under = (trig_reduce(each, constants) for each in parts)
    return over / under
