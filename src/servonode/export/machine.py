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
    Matrix,
    Phrase,
    Table,
    Words,
    abbreviations,
    named,
    symbol_table,
)
from servonode.export.notation import latex_name
from servonode.export.reactions import reaction_blocks
from servonode.export.simplify import Abbreviations, contracted
from servonode.mechanics.differentiate import diff
from servonode.mechanics.equations import Equations
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import reduced
from servonode.mechanics.symbols import Velocity

Expr = Any


def machine_blocks(equations: Equations, short: Abbreviations) -> list[Block]:
    """The symbols, the kinematics, both forms of the equations of motion, the energies and powers."""
    blocks = [
        *_symbols(equations),
        *_kinematics(equations),
        *_minimal(equations, short),
        *reaction_blocks(equations, short),
    ]
    if equations.model.constraints:
        blocks += [*_constraints(equations), *_full(equations, short)]
    return [*blocks, *_energy(equations), *_sensors(equations)]


def _symbols(equations: Equations) -> list[Block]:
    model = equations.model
    return [
        Heading(f"Machine {model.name}: {model.description}", major=True),
        symbol_table("Coordinates q", "Coordinates $q$", model.coordinates),
        symbol_table("Velocities v", "Velocities $v$", model.own_motions),
        *(
            [symbol_table("First-order states, also of v", "First-order states, also of $v$", model.first_order)]
            if model.first_order
            else []
        ),
        symbol_table("Inputs tau", r"Inputs $\tau$", model.inputs),
        *([symbol_table("Reactions N", "Reactions $N$", model.reactions)] if model.reactions else []),
        symbol_table("Parameters", "Parameters", model.parameters, "default"),
    ]


def _kinematics(equations: Equations) -> list[Block]:
    own = {v.of for v in equations.model.own_motions}
    lines = tuple(Line(q.rate, equations.rates[q]) for q in equations.model.coordinates if q not in own)
    named = [Words("The other velocities are the rates of their coordinates.")] if own - {None} and lines else []
    return [
        Heading("Kinematics"),
        Formula((Phrase("q' = G v + g0", r"\dot{q} = G v + g_0"),)),
        *([Lines(lines)] if lines else [Words("The velocities are the rates of the coordinates.")]),
        *named,
        *_identities(equations),
    ]


def _identities(equations: Equations) -> list[Block]:
    zero = ("=", sympy.Integer(0))
    lines = tuple(Line(named(name), sympy.sympify(each), ":", zero)
                  for name, each in equations.model.identities.items())  # fmt: skip
    return [Words("Kept by these kinematics, and restored by each step:"), Lines(lines)] if lines else []


def _minimal(equations: Equations, short: Abbreviations) -> list[Block]:
    parts = [
        Matrix(Phrase("M_r", "M_r"), equations.M_r, symmetric=True),
        Matrix(Phrase("h_r", "h_r"), equations.h_r, vector=True),
        Matrix(Phrase("B_r", "B_r"), equations.B_r),
        *([Matrix(Phrase("N_r", "N_r"), equations.N_r)] if equations.model.reactions else []),
    ]
    v, tau = equations.model.velocities, equations.model.inputs
    dropped = ", after the forces of the passive constraints have dropped out" if equations.model.constraints else ""
    motion = Phrase("M_r v' + h_r = B_r tau", r"M_r \dot{v} + h_r = B_r \tau")
    if equations.model.reactions:
        motion = Phrase(f"{motion.text} + N_r N", f"{motion.latex} + N_r N")
    return [
        Heading("Minimal form"),
        Formula((motion,)),
        Words(
            f"with v = ({_names(v)}), tau = ({_names(tau)}) and M_r symmetric{dropped}:",
            rf"with $v = ({_latex_names(v)})$, $\tau = ({_latex_names(tau)})$ and $M_r$ symmetric{dropped}:",
        ),
        *_matrices(parts, short),
    ]


def _names(symbols: Iterable[Any]) -> str:
    """As the text writes them; a velocity that is a coordinate's own rate has a prime."""
    return ", ".join(f"{each.of.name}'" if _is_rate(each) else each.name for each in symbols)


def _latex_names(symbols: Iterable[Any]) -> str:
    return ", ".join(latex_name(each.of.name, 1) if _is_rate(each) else latex_name(each.name) for each in symbols)


def _is_rate(symbol: Any) -> bool:
    return isinstance(symbol, Velocity) and symbol.of is not None


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


def _constraints(equations: Equations) -> list[Block]:
    model = equations.model
    rates = sympy.Matrix([q.rate for q in model.coordinates])
    constants = set(model.parameters)
    A = equations.A.applyfunc(lambda entry: contracted(entry, constants))
    lines = [
        Line(each.multiplier, row, ":", ("=", right))
        for each, row, right in zip(model.constraints, A * rates, equations.b, strict=True)
    ]
    multipliers = (Entry(each.multiplier, each.quantity.description, each.quantity.unit) for each in model.constraints)
    return [
        Heading("Passive constraints"),
        Formula((Phrase("A q' = b", r"A \dot{q} = b"),)),
        Table(Phrase("Multipliers Lambda", r"Multipliers $\Lambda$"), tuple(multipliers)),
        Words("Each multiplier with its row:"),
        Lines(tuple(lines)),
        *_finite(equations),
    ]


def _finite(equations: Equations) -> list[Block]:
    """The constraints on coordinates, of which the rows are derivatives."""
    zero = ("=", sympy.Integer(0))
    stated = [(each.multiplier, each.finite) for each in equations.model.constraints if each.finite is not None]
    lines = tuple(Line(multiplier, finite, ":", zero) for multiplier, finite in stated)
    return [Words("Rows that are derivatives of constraints on coordinates:"), Lines(lines)] if lines else []


def _full(equations: Equations, short: Abbreviations) -> list[Block]:
    constants = set(equations.model.parameters)
    M, h, gamma = (
        each.applyfunc(lambda entry: contracted(entry, constants))
        for each in (equations.M, equations.h, equations.gamma)
    )
    parts = [
        Matrix(Phrase("M", "M"), M, symmetric=True),
        Matrix(Phrase("h", "h"), h, vector=True),
        Matrix(Phrase("B", "B"), equations.B),
        Matrix(Phrase("gamma", r"\gamma"), gamma, vector=True),
    ]
    q = equations.model.coordinates
    return [
        Heading("Full form with multipliers"),
        Formula(
            (
                Phrase(
                    "M q'' + h = B tau + A^T Lambda,  A q'' = gamma",
                    r"M \ddot{q} + h = B \tau + A^{T} \Lambda, \qquad A \ddot{q} = \gamma",
                ),
            )
        ),
        Words(f"with q = ({_names(q)}) and M symmetric:", f"with $q = ({_latex_names(q)})$ and $M$ symmetric:"),
        *_matrices(parts, short),
    ]


def _energy(equations: Equations) -> list[Block]:
    model = equations.model
    supplied = reduced(
        sympy.Add(*(u * sympy.sympify(on) for u, on in model.inputs.items())).xreplace(model.rates), model
    )
    lost = sympy.Add(*(each * diff(model.dissipation, each) for each in model.motions)).xreplace(model.rates)
    other = reduced(equations.power - supplied + lost, model)
    stated = sympy.Add(model.kinetic, *(each.kinetic for each in model.bodies)).xreplace(model.rates)
    plain = reduced(stated - equations.kinetic, model) == 0
    lines = [
        Line(Phrase("T", "T"), equations.kinetic),
        Line(Phrase("U", "U"), equations.potential),
        Line(Phrase("P", "P"), supplied),
        Line(Phrase("D", "D"), reduced(lost, model)),
    ]
    work = Phrase("w' = P - D", r"\dot{w} = P - D")
    if other != 0:
        lines.append(Line(Phrase("E", "E"), other))
        work = Phrase("w' = P - D + E", r"\dot{w} = P - D + E")
    return [
        Heading("Energy and power"),
        _meaning_of_powers("" if plain else " (generalized, T2 - T0)", other != 0, _others(model)),
        Lines(tuple(lines)),
        Formula((work, Phrase("T + U = T_0 + U_0 + w", "T + U = T_0 + U_0 + w"))),
    ]


def _sensors(equations: Equations) -> list[Block]:
    """What can be measured of the machine."""
    sensors = equations.model.sensors
    if not sensors:
        return []
    entries = (Entry(named(each.quantity.name), each.quantity.description, each.quantity.unit) for each in sensors)
    return [
        Heading("Sensors"),
        Table(Phrase("Sensors", "Sensors"), tuple(entries)),
        Lines(
            tuple(Line(named(each.quantity.name), each.expression.xreplace(equations.model.rates)) for each in sensors)
        ),
    ]


def _others(model: Model) -> str:
    return ("reactions, " if model.reactions else "") + ("known forces, " if model.forces else "")


def _meaning_of_powers(kind: str, other: bool, others: str) -> Words:
    rest = f"; power {{}} of {others}moving constraints, disturbances and explicit time" if other else ""
    energies, powers = f"Kinetic energy{kind} {{}}, potential energy {{}}", "power {} of the inputs, {} of the losses"
    text = f"{energies}; {powers}{rest}; work {{}}:"
    letters = ["T", "U", "P", "D", *(["E"] if other else []), "w"]
    latex_kind = text.replace("T2 - T0", "$T_2 - T_0$").replace("{}", "${}$")
    return Words(text.format(*letters), latex_kind.format(*letters))
