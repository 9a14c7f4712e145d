"""The equations of motion of a machine, the servo-constraints of a program and their law, as blocks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy

from servonode.controllers.engine.program import Limit, Program
from servonode.controllers.engine.servo import Servo
from servonode.export.blocks import (
    Block,
    Entry,
    Formula,
    Heading,
    Line,
    Lines,
    Math,
    Matrix,
    Table,
    Words,
    equations,
    stated,
    symbol_table,
)
from servonode.export.extension import derivative, extension_blocks
from servonode.export.simplify import LONG, Abbreviations, contracted, factored, input_matrix
from servonode.mechanics.equations import Equations
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import reduced
from servonode.mechanics.stabilize import Gains
from servonode.mechanics.straight_line import diff
from servonode.mechanics.symbols import Condition, Velocity

Expr = Any
_ZERO = ("=", sympy.Integer(0))
BARRIERS = (  # by relative degree, the last for all above
    "h >= 0",
    "h' + k h >= 0",
    "h'' + 2 k h' + k^2 h >= 0",
    "(d/dt + k)^r h >= 0",
)


def machine_blocks(derived: Equations, short: Abbreviations) -> list[Block]:
    """The symbols, the kinematics, both forms of the equations of motion, the energies and powers."""
    blocks = [
        *_symbols(derived.model),
        *_kinematics(derived),
        *_minimal(derived, short),
        *_reactions(derived.model, short),
        *_jumps(derived.model, short),
    ]
    if derived.model.constraints:
        blocks += [*_constraints(derived), *_full(derived, short)]
    return [*blocks, *_energy(derived), *_sensors(derived)]


def _symbols(model: Model) -> list[Block]:
    return [
        Heading(f"Machine {model.name}: {model.description}", major=True),
        *symbol_table(Words("Coordinates ", Math("q")), model.coordinates),
        *symbol_table(Words("Velocities ", Math("v")), model.own_motions),
        *symbol_table(Words("First-order states, also of ", Math("v")), model.first_order),
        *symbol_table(Words("Inputs ", Math("tau")), model.inputs),
        *symbol_table(Words("Reactions ", Math("N")), model.reactions),
        *symbol_table(Words("Parameters"), model.parameters, "default"),
    ]


def _kinematics(derived: Equations) -> list[Block]:
    model = derived.model
    own = {v.of for v in model.own_motions}
    rates = equations({q.rate: derived.rates[q] for q in model.coordinates if q not in own})
    others = [Words("The other velocities are the rates of their coordinates.")] if own - {None} and rates else []
    kept = (Line(name, sympy.sympify(each), ":", _ZERO) for name, each in model.identities.items())
    return [
        Heading("Kinematics"),
        Formula("q' = G v + g0"),
        *(rates or [Words("The velocities are the rates of the coordinates.")]),
        *others,
        *stated(kept, "Kept by these kinematics, and restored by each step:"),
    ]


def _minimal(derived: Equations, short: Abbreviations) -> list[Block]:
    model = derived.model
    parts = [
        Matrix("M_r", derived.M_r, symmetric=True),
        Matrix("h_r", derived.h_r, vector=True),
        Matrix("B_r", derived.B_r),
        *([Matrix("N_r", derived.N_r)] if model.reactions else []),
    ]
    dropped = ", after the forces of the passive constraints have dropped out" if model.constraints else ""
    order = _vector("v", model.velocities), ", ", _vector("tau", model.inputs)
    return [
        Heading("Minimal form"),
        Formula("M_r v' + h_r = B_r tau" + (" + N_r N" if model.reactions else "")),
        Words("with ", *order, " and ", Math("M_r"), f" symmetric{dropped}:"),
        *_matrices(parts, short),
    ]


def _vector(name: str, symbols: Iterable[Any]) -> Math:
    """`v = (V, phi')`; a velocity that is a coordinate's own rate has a prime."""
    entries = (f"{each.of.name}'" if isinstance(each, Velocity) and each.of else each.name for each in symbols)
    return Math(f"{name} = ({', '.join(entries)})")


def _matrices(parts: list[Matrix], short: Abbreviations) -> list[Block]:
    """Matrices, after the abbreviations that their entries share; a symmetric one is read below its diagonal."""
    definitions, entries = short.applied([part.entries[place] for part in parts for place in part.shown()])
    following = iter(entries)
    blocks: list[Block] = []
    for part in parts:
        shown = sympy.zeros(*part.entries.shape)
        for i, k in part.shown():
            shown[i, k] = next(following)
            if part.symmetric:
                shown[k, i] = shown[i, k]
        blocks.append(Matrix(part.name, shown, part.symmetric, part.vector))
    return [*definitions, *blocks]


def _reactions(model: Model, short: Abbreviations) -> list[Block]:
    """The residuals that reactions hold at zero, and the rows that determine the reactions."""
    held = model.stabilised
    if not held:
        return []
    definitions, shown = short.applied([*(each.residual for each in held), *(each.row for each in held)])
    names = [each.quantity.name for each in held]
    residuals = (Line(name, each, ":") for name, each in zip(names, shown, strict=False))
    rows = (Line(name, each, ":", _ZERO) for name, each in zip(names, shown[len(names) :], strict=True))
    return [
        Heading("Constraints held by reactions"),
        *definitions,
        *stated(residuals, "Residuals, which are zero where the constraints hold:"),
        *stated(rows, "The reactions are determined at every evaluation by"),
    ]


def _jumps(model: Model, short: Abbreviations) -> list[Block]:
    blocks: list[Block] = []
    for each in model.jumps:
        sign = ">" if each.strict else ">="
        definitions, (margin, *values) = short.applied([each.margin, *each.changes.values()])
        blocks += [
            *definitions,
            Words(f"Where this begins to be {sign} 0, states are set (before_x is x at the step's beginning):"),
            Lines((Line(each.description, margin, ":"),)),
            *equations(zip(each.changes, values, strict=True)),
        ]
    return [Heading("Jumps"), *blocks] if blocks else []


def _constraints(derived: Equations) -> list[Block]:
    constraints = derived.model.constraints
    A = _contracted(derived.A, derived.model)
    rates = sympy.Matrix([q.rate for q in derived.model.coordinates])
    rows = zip(constraints, A * rates, derived.b, strict=True)
    finite = (Line(each.multiplier, each.finite, ":", _ZERO) for each in constraints if each.finite is not None)
    return [
        Heading("Passive constraints"),
        Formula("A q' = b"),
        Table(
            Words("Multipliers ", Math("Lambda")),
            tuple(Entry(each.multiplier, each.quantity.description, each.quantity.unit) for each in constraints),
        ),
        *stated(
            (Line(each.multiplier, row, ":", ("=", right)) for each, row, right in rows),
            "Each multiplier with its row:",
        ),
        *stated(finite, "Rows that are derivatives of constraints on coordinates:"),
    ]


def _contracted(matrix: Expr, model: Model) -> Expr:
    constants = set(model.parameters)
    return matrix.applyfunc(lambda entry: contracted(entry, constants))


def _full(derived: Equations, short: Abbreviations) -> list[Block]:
    model = derived.model
    parts = [
        Matrix("M", _contracted(derived.M, model), symmetric=True),
        Matrix("h", _contracted(derived.h, model), vector=True),
        Matrix("B", derived.B),
        Matrix("gamma", _contracted(derived.gamma, model), vector=True),
    ]
    return [
        Heading("Full form with multipliers"),
        Formula("M q'' + h = B tau + A^T Lambda,  A q'' = gamma"),
        Words("with ", _vector("q", model.coordinates), " and ", Math("M"), " symmetric:"),
        *_matrices(parts, short),
    ]


def _energy(derived: Equations) -> list[Block]:
    model = derived.model
    power = sympy.Add(*(u * sympy.sympify(on) for u, on in model.inputs.items()))
    supplied = reduced(power.xreplace(model.rates), model)
    lost = sympy.Add(*(each * diff(model.dissipation, each) for each in model.motions)).xreplace(model.rates)
    other = reduced(derived.power - supplied + lost, model)
    moving = [*(each.kinetic for each in model.bodies), model.tree.kinetic if model.tree else 0]
    kinetic = sympy.Add(model.kinetic, *moving).xreplace(model.rates)
    plain = reduced(kinetic - derived.kinetic, model) == 0
    energies = {"T": derived.kinetic, "U": derived.potential}
    powers = {"P": supplied, "D": reduced(lost, model)} | ({"E": other} if other != 0 else {})
    others = ("reactions, " if model.reactions else "") + ("known forces, " if model.forces else "")
    rest = ("; power ", Math("E"), f" of {others}moving constraints, disturbances and explicit time")
    return [
        Heading("Energy and power"),
        Words(
            *("Kinetic energy ", *(() if plain else ("(generalized, ", Math("T2 - T0"), ") ")), Math("T")),
            *(", potential energy ", Math("U"), "; power ", Math("P"), " of the inputs, ", Math("D"), " of the losses"),
            *(rest if other != 0 else ()),
            *("; work ", Math("w"), ":"),
        ),
        *equations({Math(name): value for name, value in (energies | powers).items()}),
        Formula("w' = P - D" + (" + E" if other != 0 else ""), "T + U = T_0 + U_0 + w"),
    ]


def _sensors(derived: Equations) -> list[Block]:
    """What can be measured of the machine."""
    sensors = derived.model.sensors
    if not sensors:
        return []
    quantities = [each.quantity for each in sensors]
    return [
        Heading("Sensors"),
        Table(Words("Sensors"), tuple(Entry(each.name, each.description, each.unit) for each in quantities)),
        *equations({each.quantity.name: each.expression.xreplace(derived.model.rates) for each in sensors}),
    ]


def program_blocks(
    servo: Servo, gains: Gains | None, weights: Mapping[str, float], short: Abbreviations
) -> list[Block]:
    """The goal, the demand, the inputs that realise it, and the guards."""
    program = servo.program
    blocks: list[Block] = [Heading(f"Program {program.name}: {program.description}", major=True)]
    blocks += [*_program_tables(program), *_states(servo, short)]
    if program.inputs:
        blocks += [*_watched(servo, short), *_stated_inputs(servo, short)]
    elif servo.extension:
        blocks += [*_watched(servo, short), *extension_blocks(servo, servo.extension, gains)]
    else:
        goal, W = _goal(servo, short)
        blocks += [*goal, *_demand(servo, gains), *_damping(servo, short), *_solve(servo, gains, weights), *W]
    at_start = [*program.requirements, *program.warnings]
    return [
        *blocks,
        *_kept(servo, short),
        *_limits(program),
        *_conditions(servo, short, "Guards", "The law stops where one of these does not hold:", program.guards),
        *_conditions(servo, short, "At the start", "What is looked at before anything moves:", at_start),
    ]


def _program_tables(program: Program) -> list[Block]:
    return [
        *symbol_table(Words("Targets"), program.targets),
        *symbol_table(Words("Functions of time"), program.signals),
        *symbol_table(Words("Parameters of the program"), program.parameters, "default"),
        *equations(
            {parameter: sympy.sympify(value) for parameter, value in program.start.items()},
            "Parameters without a default take these initial values:",
        ),
    ]


def _states(servo: Servo, short: Abbreviations) -> list[Block]:
    """The program's own states with their initial values and rates."""
    states = list(servo.program.states)
    definitions, entries = short.applied([*(each.start for each in states), *servo.state_rates])
    names = [f"{each.name}(0)" for each in states] + [f"{each.name}'" for each in states]
    return [
        *symbol_table(Words("States of the program"), states),
        *definitions,
        *equations(zip(map(Math, names), entries, strict=True)),
    ]


def _watched(servo: Servo, short: Abbreviations) -> list[Block]:
    """The residuals themselves, of a program whose law is shown otherwise."""
    return [Heading("Residuals"), *_residuals(servo, short)] if servo.f else []


def _residuals(servo: Servo, short: Abbreviations) -> list[Block]:
    """The residuals with their meanings, as the program states them unless that is long."""
    program = servo.program
    definitions, f = short.applied([each if len(str(each)) <= LONG else factored(each) for each in servo.f])
    entries = (
        Entry(derivative(i, 0), f"{each.quantity.name}: {each.quantity.description}", each.quantity.unit, r)
        for i, (each, r) in enumerate(zip(program.residuals, servo.relative_degrees, strict=True))
    )
    title = Words("Residuals ", Math("f"), " of relative degree ", Math("r"), ", the goal is ", Math("f = 0"))
    return [
        Table(title, tuple(entries), "r"),
        *definitions,
        *equations({derivative(i, 0): each for i, each in enumerate(f)}),
    ]


def _goal(servo: Servo, short: Abbreviations) -> tuple[list[Block], list[Block]]:
    """f, f', J, delta, and the entries of W where they are short; these share their abbreviations."""
    n, n_v = len(servo.f), len(servo.equations.model.velocities)
    finite = [i for i, r in enumerate(servo.relative_degrees) if r == 2]
    J = servo.J.applyfunc(factored)
    W = input_matrix(servo.equations, J)
    residuals = _residuals(servo, short)
    derived = [*(factored(servo.f_dot[i]) for i in finite), *J, *map(factored, servo.delta), *(W or ())]
    definitions, entries = short.applied(derived)
    following = iter(entries)
    f_dot, J_short, delta = ([next(following) for _ in range(k)] for k in (len(finite), n * n_v, n))
    goal: list[Block] = [
        Heading("Servo-constraints"),
        *residuals,
        Words("Along the motion:"),
        Formula(f"{_derivatives(servo)} = J v' + delta"),
        *definitions,
        *equations({derivative(i, 1): each for i, each in zip(finite, f_dot, strict=True)}),
        Matrix("J", sympy.Matrix(n, n_v, J_short)),
        Matrix("delta", sympy.Matrix(delta), vector=True),
    ]
    return goal, [Matrix("W", sympy.Matrix(*W.shape, list(following)))] if W else []


def _derivatives(servo: Servo) -> str:
    """The vector of the derivatives in which the accelerations appear."""
    return f"({', '.join(derivative(i, r) for i, r in enumerate(servo.relative_degrees))})"


def _stated_inputs(servo: Servo, short: Abbreviations) -> list[Block]:
    program = servo.program
    rates = servo.equations.model.rates
    definitions, formulas = short.applied([sympy.sympify(each).xreplace(rates) for each in program.inputs.values()])
    watched = " The residuals are only watched." if servo.f else ""
    return [
        Heading("Inputs"),
        Words(f"The program states the inputs themselves.{watched}"),
        *definitions,
        *equations(zip(program.inputs, formulas, strict=True)),
    ]


def _feedback(servo: Servo, gains: Gains | None) -> str:
    """What the law feeds back, and the damping."""
    integral = " - KI int f dt" if gains is not None and gains.KI.any() else ""
    return f"-K1 f' - K0 f{integral}" + (" - d" if any(servo.damping) else "")


def _demand(servo: Servo, gains: Gains | None) -> list[Block]:
    """The stable equation that is asked of the residuals, with numbers where the gains are known."""
    shown = [("K0", gains.K0), ("K1", gains.K1), ("KI", gains.KI)] if gains else []
    return [
        Heading("Stabilised demand"),
        Formula(f"{_derivatives(servo)} = {_feedback(servo, gains)}"),
        *(
            Matrix(name, sympy.Matrix(values).applyfunc(_number))
            for name, values in shown
            if values.any() or name == "K0"
        ),
    ]


def _number(value: Expr) -> Expr:
    return sympy.Integer(int(value)) if value == int(value) else sympy.Float(value)


def _damping(servo: Servo, short: Abbreviations) -> list[Block]:
    """The damping d that is subtracted from the demand, where there is any."""
    if not any(servo.damping):
        return []
    definitions, entries = short.applied([sympy.sympify(each) for each in servo.damping])
    return [
        Words("The residuals give way by d, which damps what they leave free:"),
        *definitions,
        *equations({Math(f"d{i}"): each for i, each in enumerate(entries, 1) if each != 0}),
    ]


def _solve(servo: Servo, gains: Gains | None, weights: Mapping[str, float]) -> list[Block]:
    """The linear system that the inputs solve, and how it is completed."""
    program, fewer = servo.program, "There are fewer residuals than inputs; "
    system, completion = "W tau = z", ""
    if program.least_norm:
        system = "tau = W^T (W W^T)^-1 z"
        completion = "these are the smallest inputs that serve them."
    if program.least_norm and weights:
        system = "tau = Q^-1 W^T (W Q^-1 W^T)^-1 z"
        shown = ", ".join(f"{u.name} {weights.get(u.name, 1.0):g}" for u in servo.equations.model.inputs)
        completion = f"these have the least sum of squares with the weights Q on its diagonal: {shown}."
    if program.ideal:
        system = "B_r tau = J^T (J M_r^-1 J^T)^-1 z"
        completion = "these act along the residuals' gradients, as contact forces would."
    if program.posture:
        system = "B_r tau = M_r d + J^T (J M_r^-1 J^T)^-1 (z - J d)"
        completion = "these move it as near to the accelerations p of the posture as they leave it free, in the mass "
        completion += "matrix."
    relations = (Line(sympy.sympify(each), sympy.Integer(0)) for each in program.relations)
    return [
        Heading("Inputs"),
        Formula(
            system,
            f"z = {_feedback(servo, gains)} - delta + J M_r^-1 h_r",
            "d = p + M_r^-1 h_r" if program.posture else "W = J M_r^-1 B_r",
        ),
        *([Words(fewer + completion)] if completion else []),
        *stated(relations, f"{fewer}the inputs also satisfy"),
    ]


def _kept(servo: Servo, short: Abbreviations) -> list[Block]:
    """What is kept at or above zero, with the rows that the inputs keep for it."""
    program, rates = servo.program, servo.equations.model.rates
    if not servo.keeping:
        return []
    of = [[face.degree for face in servo.faces if face.keep == i] for i in range(len(program.keep))]
    definitions, h = short.applied([sympy.sympify(each.expression).xreplace(rates) for each in program.keep])
    entries = (
        Entry(Math(f"h{i}"), f"{each.quantity.name}: {each.quantity.description}", each.quantity.unit, max(r))
        for i, (each, r) in enumerate(zip(program.keep, of, strict=True), 1)
    )
    title = Words("Keeps ", Math("h"), " of relative degree ", Math("r"), ", of min(..) and -abs(..) the largest")
    lines = tuple(Line(Math(f"h{i}"), each, tail=(">=", sympy.Integer(0))) for i, each in enumerate(h, 1))
    kept: list[Block] = [Table(title, tuple(entries), "r"), *definitions, Lines(lines)]
    degrees = sorted({min(face.degree, 3) for face in servo.faces})
    limits = ("the limits of the inputs" + (" and" if degrees else ".")) if servo.limited else ""
    brake = "; of relative degree 2 its brake bounds the approach too" if 2 in degrees else ""
    where = Words("with the rate ", Math("k"), " of each, and its margin taken from ", Math("h"), f"{brake}.")
    rows: list[Block] = [Formula(*(BARRIERS[r] for r in degrees)), where]
    return [
        Heading("Kept at or above zero"),
        *(kept if program.keep else []),
        Words(f"The inputs are the nearest to those above that keep {limits}"),
        *(rows if degrees else []),
    ]


def _limits(program: Program) -> list[Block]:
    """The limits, in words and with their bounds."""
    limits = [each for kind in ("expressions", "demand", "inputs") for each in program.limits if each.kind == kind]
    if not limits:
        return []
    return [
        Heading("Limits"),
        Words("Each vector is scaled down to its bound, its direction is kept; in this order:"),
        *(Words(f"{each.quantity.name}: {each.quantity.description}, {_limited(each)}.") for each in limits),
        Lines(tuple(Line(each.quantity.name, each.at_most, "<=") for each in limits)),
    ]


def _limited(limit: Limit) -> str:
    if limit.kind == "demand":
        return f"what is demanded of J v' for {', '.join(each.quantity.name for each in limit.of)}"
    if limit.kind == "inputs":
        return f"the inputs {', '.join(each.name for each in limit.of)}"
    return "where the program states it"


def _conditions(
    servo: Servo, short: Abbreviations, title: str, opening: str, conditions: Sequence[Condition]
) -> list[Block]:
    """Conditions, numbered, and the meaning of their violation."""
    if not conditions:
        return []
    rates = servo.equations.model.rates
    definitions, margins = short.applied([each.margin.xreplace(rates) for each in conditions])
    signs = [">" if each.requirement.strict else ">=" for each in conditions]
    marks = [f"({i})" for i in range(1, len(conditions) + 1)]
    lines = (
        Line(mark, margin, ":", (sign, sympy.Integer(0)))
        for mark, margin, sign in zip(marks, margins, signs, strict=True)
    )
    return [
        Heading(title),
        Words(opening),
        *definitions,
        Lines(tuple(lines)),
        *(Words(f"Where {mark} fails: {each.requirement.text}.") for mark, each in zip(marks, conditions, strict=True)),
    ]
