"""What a law and its extension are, in words and for processes without sympy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy.matrices.utilities import dotprodsimp

from servonode.controllers.engine.extension import Extension, Step
from servonode.controllers.engine.law_texts import relation_rows
from servonode.controllers.engine.program import Program, Residual
from servonode.controllers.engine.servo import Servo
from servonode.mechanics.description import (
    Completion,
    ExtensionDescription,
    Kept,
    ProgramDescription,
    Tracked,
    derivatives,
)
from servonode.mechanics.functions import choose, wrap
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import ordered, symbols_of
from servonode.mechanics.symbols import time
from servonode.mechanics.trig_reduce import is_large, trig_reduce

JUMPING = (choose, wrap, sympy.sign)
ZERO = sympy.Integer(0)
Expr = Any
LARGEST = 4, 300  # rows of a decoupling matrix whose determinant is written out, operations of each entry
MOST_REDUCED = 500  # operations of what is brought to a common denominator and reduced
SHORT = 60  # operations of a determinant that is factored


def describe_program(
    servo: Servo, damping: float = 0.0, integral: bool = False, weighted: bool = False
) -> ProgramDescription:
    """The names, units, defaults and texts of a program on a machine, without its expressions."""
    program = servo.program
    extension = describe_extension(servo)
    return ProgramDescription(
        name=program.name,
        description=program.description,
        residuals=tuple(each.quantity for each in program.residuals),
        relative_degrees=servo.relative_degrees,
        parameters=tuple(each.quantity for each in program.parameters),
        targets=tuple(each.name for each in program.targets),
        signals=tuple(each.quantity for each in program.signals),
        signal_defaults=tuple(each.default for each in program.signals),
        target_order=servo.target_order,
        signal_order=servo.signal_order,
        guards=tuple(each.requirement for each in program.guards),
        relations=len(relation_rows(servo)),
        completion=completion_of(program),
        integral=integral,
        explicit=bool(program.inputs),
        weighted=weighted and program.least_norm,
        feeds_back=_feeds_back(servo),
        places=tuple(str(each.place) for each in program.residuals),
        required=tuple(p.name for p in program.parameters if p.quantity.default is None and p not in program.start),
        states=(*(each.quantity for each in program.states), *(extension.integrators if extension else ())),
        limits=tuple(each.quantity for each in program.limits),
        watches=tuple(each.quantity for each in program.watches),
        requirements=tuple(each.requirement for each in program.requirements),
        warnings=tuple(each.requirement for each in program.warnings),
        extension=extension,
        unreachable=servo.unreachable,
        tells_crossings=not damping and tells_crossings(servo),
        target_units=tuple(each.quantity.unit for each in program.targets),
        tracked=tuple(each.described for each in splits(servo.equations.model, program)),
        keeps=_keeps(servo),
        limited=servo.limited,
        priorities=tuple(each.priority for each in program.residuals),
        yields=servo.yields,
    )


def _keeps(servo: Servo) -> tuple[Kept, ...]:
    """What is kept, without its expressions."""
    degrees = [tuple(face.degree for face in servo.faces if face.keep == i) for i in range(len(servo.program.keep))]
    stated = zip(servo.program.keep, degrees, strict=True)
    return tuple(
        Kept(each.quantity, found, each.priority, each.rate, each.brake, each.margin, each.tolerance, str(each.place))
        for each, found in stated
    )


def _feeds_back(servo: Servo) -> bool:
    """Whether the inputs depend on the machine's state: by residuals, or as they are given, own states followed."""
    if not servo.program.inputs:
        return True
    rates = dict(zip(servo.program.states, servo.state_rates, strict=True))
    reached: set[Expr] = set()
    waiting = [servo.resolved(each) for each in servo.program.inputs.values()]
    while waiting:
        symbols = waiting.pop().free_symbols - reached
        reached |= symbols
        waiting += [rates[each] for each in symbols if each in rates]
    return not reached.isdisjoint(servo.equations.model.state)


def completion_of(program: Program) -> Completion:
    if program.ideal or program.posture:
        return "ideal" if program.ideal else "posture"
    return "least_norm" if program.least_norm else "none"


def describe_extension(servo: Servo) -> ExtensionDescription | None:
    """The description of a program's extension; None where it has none."""
    extension = servo.extension
    if extension is None:
        return None
    model = servo.equations.model
    n_states = len(model.state) - len(model.held) + len(servo.program.states) + len(extension.integrators)
    found, line = determinant(extension), extension.motion.line
    moving = line.symbols(each for row in extension.matrix() for each in row) - set(extension.motion.constants)
    chained = []
    for i in range(len(extension.integrators)):
        held, after = extension.held.get(("rate", i)), extension.integrators[i + 1 : i + 2]
        chained.append(bool(held and after and not held.shares and held.value == after[0].symbol))
    sets: dict[tuple[int, ...], list[Step]] = {}  # of inputs that come too early, each told in one sentence
    for each in extension.steps:
        sets.setdefault(each.inputs, []).append(each)
    return ExtensionDescription(
        steps=tuple(_sentence(servo, inputs, steps) for inputs, steps in sets.items()),
        integrators=tuple(each.quantity for each in extension.integrators),
        left_free=n_states - sum(extension.relative_degrees),
        determinant=str(found or ""),
        depends_on=tuple(sorted(each.name for each in (moving if found is None else moving & found.free_symbols))),
        chained=tuple(chained),
    )


def _sentence(servo: Servo, inputs: tuple[int, ...], steps: Sequence[Step]) -> str:
    """What is demanded through how many integrators."""
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


@dataclass(frozen=True)
class Split:
    """A residual as output less goal; `described` without expressions."""

    described: Tracked
    output: Expr
    goal: Expr


def splits(model: Model, program: Program) -> list[Split]:
    """The residuals that are such a difference, in their order."""
    found = (_split(model, program, each) for each in program.residuals)
    return [each for each in found if each is not None]


def _split(model: Model, program: Program, residual: Residual) -> Split | None:
    """A residual's stated output, or its terms with states alone, less all others.

    A term with both, such as a reference that depends on the state, belongs to the goal if the output has a column.
    """
    if residual.output is not None:
        described = Tracked(residual.quantity.name, _column(model, residual.output))
        return Split(described, residual.output, residual.output - residual.expression)
    states = {*model.state, *(each.rate for each in model.coordinates)}
    still = {*model.parameters, *program.parameters}
    output, goal, mixed = ZERO, ZERO, False
    for term in sympy.Add.make_args(sympy.sympify(residual.expression)):
        symbols = symbols_of(term)
        if symbols & states and symbols <= states | still:
            output += term
        else:
            goal, mixed = goal - term, mixed or bool(symbols & states)
    factor = output.as_coeff_Mul()[0]
    output, goal = output / factor if factor else output, goal / factor if factor else goal
    column = _column(model, output)
    if not column and _column(model, -output):
        output, goal, column = -output, -goal, _column(model, -output)
    if not output or (not column and (mixed or not goal)):
        return None
    return Split(Tracked(residual.quantity.name, column), output, goal)


def _column(model: Model, output: Expr) -> str:
    """The name of the state or output of the machine that an expression is."""
    known = {sympy.sympify(each.expression).xreplace(model.rates): each.quantity.name for each in model.outputs}
    known |= {each: each.name for each in model.state}
    return known.get(output.xreplace(model.rates), "")


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
