"""From residuals to a servo law: relative degrees, Jacobian and drift (mechanics/README.md, eq. 5-8).

A residual f(q, v, t) whose velocity derivative does not vanish has relative degree 1: f' = J v' + delta with J = df/dv.
A residual f(q, t) is differentiated once more: relative degree 2, f'' = J v' + delta with J = d f'/dv. The law asks
f^(r) = -K1 f' - K0 f and solves W tau = that - delta - J a0, where v' = a0 + R tau and W = J R.
"""

from dataclasses import dataclass
from typing import Any

import sympy

from servonode.controllers.engine.program import Program, Residual, gain_symbol, late
from servonode.controllers.engine.resolution import Resolution
from servonode.mechanics.description import ModelError
from servonode.mechanics.differentiate import gradient
from servonode.mechanics.equations import Equations
from servonode.mechanics.source_location import Place

Expr = Any
Rates = dict[Expr, Expr]
MAX_TARGET_ORDER = 2  # a target message carries position, velocity and acceleration
_ORDERS = 8  # derivatives of a signal that are looked for


@dataclass(frozen=True)
class Servo:
    """Symbolic servo-constraints of a program on a machine.

    f, f_dot, delta, damping: n_s entries (f_dot is 0 for relative degree 1); J (n_s, n_v); state_rates: those of the
    program's own states; and how many derivatives of targets and signals they contain. Setpoints are put in.
    `resolved` gives other expressions of the program like these.
    """

    equations: Equations
    program: Program
    resolved: Resolution
    f: list[Expr]
    f_dot: list[Expr]
    J: Any
    delta: list[Expr]
    damping: list[Expr]
    state_rates: list[Expr]
    relative_degrees: tuple[int, ...]
    target_order: int
    signal_order: int


def derive_servo(equations: Equations, program: Program) -> Servo:
    """The servo-constraints of a program, differentiated along the machine's motion.

    Raises:
        ModelError: a residual contains a symbol that neither machine nor program knows, is reached by no
            velocity within two differentiations, or needs more target derivatives than a target has.
    """
    _check_machine(equations, program)
    _check_names(equations, program)
    resolved = Resolution(equations.model, program)
    moving = _moving(equations, program, resolved)
    rows = [_row(equations, program, resolved, moving, each) for each in program.residuals]
    _check_other_expressions(equations, program, resolved)
    damping = [resolved(each.damping) for each in program.residuals]
    rates = [resolved(each) for each in program.states.values()]
    conditions = (*program.guards, *program.requirements, *program.warnings)
    others = [*program.inputs.values(), *program.relations, *program.start.values()]
    others += [each.margin for each in conditions] + [each.start for each in program.states]
    others += [expression for _, expression, _ in _beside(program)]
    others = [resolved(each) for each in others]
    used = _orders(program, [entry for row in rows for entry in row[:4]] + others)
    if used[0] > MAX_TARGET_ORDER:
        raise ModelError(
            f"program {program.name} needs derivative {used[0]} of a target, a target has {MAX_TARGET_ORDER}; "
            "state the residual with fewer rates",
            program.place.argument("residuals"),
        )
    return Servo(
        equations=equations,
        program=program,
        resolved=resolved,
        f=[row[0] for row in rows],
        f_dot=[row[1] for row in rows],
        J=sympy.Matrix([list(row[2]) for row in rows]) if rows else sympy.zeros(0, 0),
        delta=[row[3] for row in rows],
        damping=damping,
        state_rates=rates,
        relative_degrees=tuple(row[4] for row in rows),
        target_order=used[0],
        signal_order=used[1],
    )


def _check_machine(equations: Equations, program: Program) -> None:
    """The law knows inputs only: reactions that depend on them would change what it computes."""
    if equations.model.reactions and program.residuals:
        names = ", ".join(N.name for N in equations.model.reactions)
        text = f"program {program.name}: machine {equations.model.name} determines {names} itself, which the law does"
        raise ModelError(f"{text} not know; state the machine with kinematics or constraints, or use open_loop")


def _row(
    equations: Equations, program: Program, resolved: Resolution, moving: Rates, residual: Residual
) -> tuple[Expr, Expr, list[Expr], Expr, int]:
    """f, f', J row, delta and relative degree of one residual."""
    model, name = equations.model, residual.quantity.name
    f, f_dot, degree = resolved.in_velocities(residual.expression), sympy.Integer(0), 1
    _check_symbols(equations, program, f, f"residual {name}", residual.place)
    J = gradient(f, model.velocities)
    drift = _along(f, moving)
    if all(entry == 0 for entry in J):
        f_dot, degree = drift, 2
        J = gradient(f_dot, model.velocities)
        drift = _along(f_dot, moving)
    if all(entry == 0 for entry in J):
        raise ModelError(
            f"program {program.name}, residual {name}: no velocity of {model.name} moves it: it contains "
            "none, or the passive constraints fix it already; state a residual that contains a coordinate or a "
            "velocity which they leave free",
            residual.place,
        )
    put_in = resolved.put_in
    return put_in(f), put_in(f_dot), [put_in(entry) for entry in J], put_in(drift), degree


def _moving(equations: Equations, program: Program, resolved: Resolution) -> Rates:
    """All that moves -> its rate along the motion: time, coordinates, the program's states, targets and signals."""
    rates = equations.rates
    rates |= {each: resolved.in_velocities(rate) for each, rate in program.states.items()}
    for each in (*program.targets, *program.signals):
        rates |= {each.derivative(order): each.derivative(order + 1) for order in range(_ORDERS)}
    return rates


def _along(expression: Expr, moving: Rates) -> Expr:
    """Time derivative of an expression along the motion, without its J v' part.

    The rule is applied node by node and the results are not expanded, so that x - X moves with x' - X' as one
    factor and the compiled law stays as short as a hand-written one.
    """
    return _derivative(sympy.sympify(expression), moving, {})


def _derivative(node: Expr, rates: Rates, known: dict[Expr, Expr]) -> Expr:
    if node in rates:
        return rates[node]
    if not node.free_symbols & rates.keys():
        return sympy.Integer(0)
    if node not in known:
        inner = [_derivative(argument, rates, known) for argument in node.args]
        known[node] = sympy.Add(*(_through(node, i, rate) for i, rate in enumerate(inner) if rate != 0))
    return known[node]


def _through(node: Expr, i: int, rate: Expr) -> Expr:
    """The derivative of a node by its i-th argument, times that argument's rate, as one product."""
    if node.is_Add:
        return rate
    if node.is_Mul:
        return node.func(*node.args[:i], *node.args[i + 1 :], rate)
    argument = sympy.Dummy(real=True)
    partial = node.func(*node.args[:i], argument, *node.args[i + 1 :]).diff(argument)
    # multiplied before the argument returns: sympy would spread a number over a sum, and 2 (x - X) be lost
    return sympy.Mul(*sympy.Mul.make_args(partial), rate).xreplace({argument: node.args[i]})


def _check_names(equations: Equations, program: Program) -> None:
    """A program's names must differ from the machine's, but for signals that state an input of that name."""
    machine = {symbol.name for symbol in equations.model.symbols}
    machine |= {each.quantity.name for each in equations.model.stabilised}
    inputs = {u.name for u in program.inputs}
    own: list[Any] = [*program.parameters, *program.targets, *program.signals, *program.states, *program.setpoints]
    names = [each.name for each in own]
    signals = {each.name for each in program.signals}
    for each in own:
        if names.count(each.name) > 1 or (each.name in machine and not (each.name in signals and each.name in inputs)):
            raise ModelError(
                f"program {program.name}: the name {each.name!r} is used twice, or by machine "
                f"{equations.model.name} as well; rename it in the program",
                each.place,
            )
    residuals = [each.quantity.name for each in program.residuals]
    reserved = {"t", "late", "energy", "work"} | {f"residual_{name}" for name in residuals}
    reserved |= {f"lambda_{name}" for name in residuals} | {each.scale.name for each in program.limits}
    for each in own:
        if each.name in reserved:
            text = f"program {program.name}: the name {each.name!r} is servonode's own; rename it"
            raise ModelError(text, each.place)
    limits = [each.quantity.name for each in program.limits]
    for kind, taken, stated in (("residuals", residuals, program.residuals), ("limits", limits, program.limits)):
        for row in stated:
            if taken.count(row.quantity.name) > 1:
                text = f"program {program.name}: two {kind} are called {row.quantity.name!r}; rename one of them"
                raise ModelError(text, row.place)


def _check_symbols(
    equations: Equations, program: Program, expression: Expr, what: str, place: Place, more: tuple[Expr, ...] = ()
) -> None:
    model = equations.model
    own = (*program.parameters, *program.states, *program.setpoints)
    known = {symbol.name for symbol in (*model.state, *model.parameters, *own, *more)} | {"t"}
    known |= {each.scale.name for each in program.limits if each.kind == "expressions" and expression not in each.of}
    for each in (*program.targets, *program.signals):
        known |= {each.derivative(order).name for order in range(_ORDERS)}
    unknown = sorted(symbol.name for symbol in expression.free_symbols if symbol.name not in known)
    if unknown:
        raise ModelError(
            f"program {program.name}, {what}: {unknown[0]!r} is neither a state or parameter of machine "
            f"{model.name} nor of the program; known are {', '.join(sorted(known))}",
            place,
        )


def _check_other_expressions(equations: Equations, program: Program, resolved: Resolution) -> None:
    """Everything beside residuals contains known symbols only; every input is stated or none is."""
    model, place = equations.model, program.place
    for guard in program.guards:
        _check_symbols(equations, program, resolved.in_velocities(guard.margin), "a guard", guard.place)
    gains = (late, *(gain_symbol(each.quantity.name) for each in program.residuals))
    for each in (*program.requirements, *program.warnings):
        margin = resolved.in_velocities(each.margin)
        _check_symbols(equations, program, margin, "a requirement or warning", each.place, gains)
    for relation in program.relations:
        stated = resolved.in_velocities(relation)
        _check_symbols(equations, program, stated, "a relation", place.argument("relations"), tuple(model.inputs))
    for each in program.states:  # the initial value of one may not depend on another
        start, what = resolved.in_velocities(each.start), f"the start of state {each.name}"
        if start.free_symbols & set(program.states):
            text = f"program {program.name}, {what}: it contains another state; state it in the machine's start"
            raise ModelError(text, each.place)
        _check_symbols(equations, program, start, what, each.place)
    for what, expression, where in _beside(program):
        _check_symbols(equations, program, resolved.in_velocities(expression), what, where)
    for symbol, value in program.start.items():
        what = f"the start value of {symbol.name}"
        _check_symbols(equations, program, resolved.in_velocities(value), what, place.argument("start"))
    for u, value in program.inputs.items():
        stated = place.argument("inputs")
        _check_symbols(equations, program, resolved.in_velocities(value), f"the input {u.name}", stated)
    if program.inputs and set(program.inputs) != set(model.inputs):
        names = ", ".join(u.name for u in model.inputs)
        text = f"program {program.name}: inputs= must state each input of {model.name} ({names}), or be left out"
        raise ModelError(text, place.argument("inputs"))


def _beside(program: Program) -> list[tuple[str, Expr, Place]]:
    """All expressions but residuals and inputs: name, expression, place."""
    place = program.place
    stated = [(f"the damping of residual {each.quantity.name}", each.damping, each.place) for each in program.residuals]
    stated += [(f"the rate of state {each.name}", rate, place.argument("states"))
               for each, rate in program.states.items()]  # fmt: skip
    stated += [(f"setpoint {each.name}", each.expression, each.place) for each in program.setpoints]
    for each in program.limits:
        entries = each.of if each.kind == "expressions" else ()
        stated += [(f"limit {each.quantity.name}", part, each.place) for part in (each.at_most, *entries)]
    return stated


def _orders(program: Program, expressions: list[Any]) -> tuple[int, int]:
    """The highest derivative of targets and of signals that occurs."""
    present: set[Expr] = set()
    for each in expressions:
        for expression in each if isinstance(each, list) else [each]:
            present |= sympy.sympify(expression).free_symbols

    def highest(signals: Any) -> int:
        return max((n for each in signals for n in range(_ORDERS) if each.derivative(n) in present), default=0)

    return highest(program.targets), highest(program.signals)
