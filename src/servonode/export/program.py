"""The servo-constraints of a program and the law that realises them, as blocks."""

from typing import Any

import sympy

from servonode.controllers.engine.program import Program
from servonode.controllers.engine.servo import Servo
from servonode.export.blocks import (
    Block,
    Entry,
    Formula,
    Heading,
    Line,
    Lines,
    Matrix,
    Phrase,
    Table,
    Words,
    abbreviations,
    symbol_table,
)
from servonode.export.extension import extension_blocks
from servonode.export.program_parts import conditions_blocks, damping_blocks, limits_blocks, states_blocks
from servonode.export.simplify import LONG, Abbreviations, input_matrix, neat
from servonode.mechanics.stabilize import Gains

Expr = Any
_PRIMES = ("", "'", "''")
_DOTTED = ("f", r"\dot{f}", r"\ddot{f}")


def program_blocks(servo: Servo, gains: Gains | None, short: Abbreviations) -> list[Block]:
    """The goal, the demand, the inputs that realise it, and the guards."""
    program = servo.program
    blocks: list[Block] = [Heading(f"Program {program.name}: {program.description}", major=True)]
    blocks += [*_program_tables(program), *states_blocks(servo, short)]
    if program.inputs:
        blocks += [*_watched(servo, short), *_stated_inputs(servo, short)]
    elif servo.extension:
        blocks += [*_watched(servo, short), *extension_blocks(servo, servo.extension, gains)]
    else:
        goal, W = _goal(servo, short)
        damping = damping_blocks(servo, short)
        blocks += [*goal, *_demand(servo, gains), *damping, *_solve(servo, gains), *W]
    at_start = [*program.requirements, *program.warnings]
    return [
        *blocks,
        *limits_blocks(servo),
        *conditions_blocks(servo, short, "Guards", "The law stops where one of these does not hold:", program.guards),
        *conditions_blocks(servo, short, "At the start", "What is looked at before anything moves:", at_start),
    ]


def _program_tables(program: Program) -> list[Block]:
    tables: list[Block] = []
    if program.targets:
        tables.append(symbol_table("Targets", "Targets", program.targets))
    if program.signals:
        tables.append(symbol_table("Functions of time", "Functions of time", program.signals))
    if program.parameters:
        tables.append(
            symbol_table("Parameters of the program", "Parameters of the program", program.parameters, "default")
        )
    if program.start:
        lines = tuple(Line(parameter, sympy.sympify(value)) for parameter, value in program.start.items())
        tables += [Words("Parameters without a default take these initial values:"), Lines(lines)]
    return tables


def _meanings(servo: Servo) -> Table:
    residuals = enumerate(zip(servo.program.residuals, servo.relative_degrees, strict=True))
    entries = (
        Entry(_residual(i, 0), f"{each.quantity.name}: {each.quantity.description}", each.quantity.unit, r)
        for i, (each, r) in residuals
    )
    title = Phrase(
        "Residuals f of relative degree r, the goal is f = 0",
        "Residuals $f$ of relative degree $r$, the goal is $f = 0$",
    )
    return Table(title, tuple(entries), "r")


def _residual(i: int, order: int) -> Phrase:
    return Phrase(f"f{i + 1}{_PRIMES[order]}", f"{_DOTTED[order]}_{{{i + 1}}}")


def _watched(servo: Servo, short: Abbreviations) -> list[Block]:
    """The residuals themselves, of a program whose law is shown otherwise."""
    if not servo.f:
        return []
    definitions, f = _stated(servo, short)
    lines = tuple(Line(_residual(i, 0), each) for i, each in enumerate(f))
    return [Heading("Residuals"), _meanings(servo), *abbreviations(definitions), Lines(lines)]


def _stated(servo: Servo, short: Abbreviations) -> tuple[dict[Expr, Expr], list[Expr]]:
    """The residuals as the program states them, unless that is long."""
    return short.applied([each if len(str(each)) <= LONG else neat(each) for each in servo.f])


def _goal(servo: Servo, short: Abbreviations) -> tuple[list[Block], list[Block]]:
    """f, f', J, delta, and the entries of W where they are short; these share their abbreviations."""
    n, n_v = len(servo.f), len(servo.equations.model.velocities)
    finite = [i for i, r in enumerate(servo.relative_degrees) if r == 2]
    J = servo.J.applyfunc(neat)
    W = input_matrix(servo.equations, J)
    terms, f = _stated(servo, short)
    derived = [*(neat(servo.f_dot[i]) for i in finite), *J, *map(neat, servo.delta), *(W or ())]
    definitions, entries = short.applied(derived)
    following = iter(entries)
    f_dot, J_short, delta = ([next(following) for _ in range(k)] for k in (len(finite), n * n_v, n))
    goal: list[Block] = [
        Heading("Servo-constraints"),
        _meanings(servo),
        *abbreviations(terms),
        Lines(tuple(Line(_residual(i, 0), each) for i, each in enumerate(f))),
        Words("Along the motion:"),
        Formula((_derivatives(servo),)),
        *abbreviations(definitions),
        *([Lines(tuple(Line(_residual(i, 1), each) for i, each in zip(finite, f_dot, strict=True)))] if finite else []),
        Matrix(Phrase("J", "J"), sympy.Matrix(n, n_v, J_short)),
        Matrix(Phrase("delta", r"\delta"), sympy.Matrix(delta), vector=True),
    ]
    return goal, [Matrix(Phrase("W", "W"), sympy.Matrix(*W.shape, list(following)))] if W else []


def _derivatives(servo: Servo) -> Phrase:
    """The vector of the derivatives in which the accelerations appear."""
    names = [_residual(i, r) for i, r in enumerate(servo.relative_degrees)]
    text, latex = (", ".join(each) for each in zip(*((name.text, name.latex) for name in names), strict=True))
    return Phrase(f"({text}) = J v' + delta", rf"({latex})^{{T}} = J \dot{{v}} + \delta")


def _stated_inputs(servo: Servo, short: Abbreviations) -> list[Block]:
    program = servo.program
    rates = servo.equations.model.rates
    definitions, formulas = short.applied([sympy.sympify(each).xreplace(rates) for each in program.inputs.values()])
    watched = " The residuals are only watched." if servo.f else ""
    return [
        Heading("Inputs"),
        Words(f"The program states the inputs themselves.{watched}"),
        *abbreviations(definitions),
        Lines(tuple(Line(u, each) for u, each in zip(program.inputs, formulas, strict=True))),
    ]


def _feedback(servo: Servo, gains: Gains | None) -> Phrase:
    """What the law feeds back, and the damping."""
    text, latex = "-K1 f' - K0 f", r"-K_1 \dot{f} - K_0 f"
    if gains is not None and gains.KI.any():
        text, latex = f"{text} - KI int f dt", latex + r" - K_I \textstyle\int f\,dt"
    return Phrase(f"{text} - d", f"{latex} - d") if any(servo.damping) else Phrase(text, latex)


def _demand(servo: Servo, gains: Gains | None) -> list[Block]:
    """The stable equation that is asked of the residuals, with numbers where the gains are known."""
    derivatives, feedback = _derivatives(servo), _feedback(servo, gains)
    text, latex = derivatives.text.partition(" = ")[0], derivatives.latex.partition(" = ")[0]
    blocks: list[Block] = [
        Heading("Stabilised demand"),
        Formula((Phrase(f"{text} = {feedback.text}", f"{latex} = {feedback.latex}"),)),
    ]
    if gains is None:
        return blocks
    shown = [("K0", "K_0", gains.K0), ("K1", "K_1", gains.K1), ("KI", "K_I", gains.KI)]
    return blocks + [
        Matrix(Phrase(text, latex), sympy.Matrix(values).applyfunc(_number))
        for text, latex, values in shown
        if values.any() or text == "K0"
    ]


def _number(value: Expr) -> Expr:
    return sympy.Integer(int(value)) if value == int(value) else sympy.Float(value)


def _solve(servo: Servo, gains: Gains | None) -> list[Block]:
    """The linear system that the inputs solve, and how it is completed."""
    program, feedback = servo.program, _feedback(servo, gains)
    system = Phrase("W tau = z", r"W \tau = z")
    if program.least_norm:
        system = Phrase("tau = W^T (W W^T)^-1 z", r"\tau = W^{T} (W W^{T})^{-1} z")
    if program.ideal:
        system = Phrase("B_r tau = J^T (J M_r^-1 J^T)^-1 z", r"B_r \tau = J^{T} (J M_r^{-1} J^{T})^{-1} z")
    right_side = Phrase(
        f"z = {feedback.text} - delta + J M_r^-1 h_r",
        rf"z = {feedback.latex} - \delta + J M_r^{{-1}} h_r",
    )
    blocks: list[Block] = [
        Heading("Inputs"),
        Formula((system, right_side, Phrase("W = J M_r^-1 B_r", r"W = J M_r^{-1} B_r"))),
    ]
    if program.least_norm:
        blocks.append(Words("There are fewer residuals than inputs; these are the smallest inputs that serve them."))
    if program.ideal:
        text = (
            "There are fewer residuals than inputs; these act along the residuals' gradients, as contact forces would."
        )
        blocks.append(Words(text))
    if program.relations:
        relations = tuple(Line(sympy.sympify(each), sympy.Integer(0)) for each in program.relations)
        blocks += [Words("There are fewer residuals than inputs; the inputs also satisfy"), Lines(relations)]
    return blocks
