"""The equations of motion of a machine, as blocks."""

from collections.abc import Iterable
from typing import Any

import sympy

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
    abbreviations,
    equations,
    stated,
    symbol_table,
)
from servonode.export.simplify import Abbreviations, contracted
from servonode.mechanics.differentiate import diff
from servonode.mechanics.equations import Equations
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import reduced
from servonode.mechanics.symbols import Velocity

Expr = Any
_ZERO = ("=", sympy.Integer(0))


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
    return [*abbreviations(definitions), *blocks]


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
        *abbreviations(definitions),
        *stated(residuals, "Residuals, which are zero where the constraints hold:"),
        *stated(rows, "The reactions are determined at every evaluation by"),
    ]


def _jumps(model: Model, short: Abbreviations) -> list[Block]:
    blocks: list[Block] = []
    for each in model.jumps:
        sign = ">" if each.strict else ">="
        definitions, (margin, *values) = short.applied([each.margin, *each.changes.values()])
        blocks += [
            *abbreviations(definitions),
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
