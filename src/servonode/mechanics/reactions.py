"""Reactions: what the stabilised rows of a machine demand, and the lines that solve them (README eq. 3c).

The rows are A v' + C N + d = 0 with the motion M_r v' + h_r = B_r tau + N_r N, so that S N = -(A v0 + d) with
S = C + A M_r^-1 N_r and v0 the accelerations without reactions.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sympy

from servonode.errors import ModelError
from servonode.mechanics import emit
from servonode.mechanics.emit import Block, Name
from servonode.mechanics.equations import Equations
from servonode.mechanics.model import Model
from servonode.mechanics.model_checks import at_generic_states
from servonode.mechanics.straight_line import gradient
from servonode.mechanics.trig_reduce import trig_reduce

Expr = Any
Matrix = Any  # sympy.Matrix
LARGEST = 4  # reactions that may hang together; they are solved by Cramer's rule


def check_reactions(model: Model) -> None:
    """There must be a row for each reaction, and each reaction does work on rates of coordinates or on none.

    Raises:
        ModelError: there is not; or the machine has passive constraints with multipliers as well.
    """
    what = f"machine {model.name}"
    if len(model.stabilised) != len(model.reactions):
        text = f"{what}: {len(model.reactions)} reactions and {len(model.stabilised)} stabilised constraints; give"
        raise ModelError(f"{text} one for each reaction", model.place.argument("stabilised"))
    if model.reactions and model.constraints:
        text = f"{what}: constraints and reactions are given, but the multipliers of the former would not know the "
        raise ModelError(f"{text}latter; hold all by reactions", model.place.argument("constraints"))
    rates = {*(q.rate for q in model.coordinates), *model.velocities}
    for i, (N, on) in enumerate(model.reactions.items()):
        stated = sympy.sympify(on)
        slopes = gradient(stated, list(rates))
        if stated != 0 and (not any(slopes) or any(slope.free_symbols & rates for slope in slopes)):
            text = f"{what}: reaction {N.name} does work on {stated}, which is not linear in rates; give one such as"
            raise ModelError(f"{text} x.rate, or 0 for none", model.place.argument("reactions", i))
    for each in model.stabilised:
        if each.residual.free_symbols & {*model.reactions, *(v.rate for v in model.velocities)}:
            text = f"{what}, constraint {each.quantity.name}: its residual contains a reaction or an acceleration"
            raise ModelError(f"{text}; use only states, rates, parameters and time", each.place)


def check_rows(equations: Equations) -> None:
    """The rows must be linear in reactions and accelerations, and determine every reaction.

    Raises:
        ModelError: they do not.
    """
    model = equations.model
    what, unknown = f"machine {model.name}", [*(v.rate for v in model.velocities), *model.reactions]
    rows = rows_in_velocities(equations)
    for each, row in zip(model.stabilised, rows, strict=True):
        entries = gradient(row, unknown)
        if any(entry.free_symbols & set(unknown) for entry in entries):
            text = f"{what}, constraint {each.quantity.name}: its row must be linear in reactions and accelerations"
            raise ModelError(text, each.place)
        if not any(entries):
            text = f"{what}, constraint {each.quantity.name}: its row contains neither a reaction nor an acceleration"
            raise ModelError(f"{text}; give row = derivative(f) + lam*f or the like", each.place)
    if not model.reactions:
        return
    M, force = equations.M_r, equations.B_r * equations.tau - equations.h_r
    S, _ = _system(equations, M.LUsolve(force), M.LUsolve(equations.N_r))
    for j, N in enumerate(model.reactions):
        if not any(S[:, j]):
            text = f"{what}: no row determines reaction {N.name}; let it stand in one, or do work where one looks"
            raise ModelError(text, N.place)
    tried = at_generic_states(model, S)
    if tried and all(np.linalg.matrix_rank(each) < len(each) for each in tried):
        names = ", ".join(each.quantity.name for each in model.stabilised)
        text = f"{what}: the rows of {names} depend on each other, so they leave the reactions undetermined"
        raise ModelError(f"{text}; give rows that differ", model.place.argument("stabilised"))


def rows_in_velocities(equations: Equations) -> list[Expr]:
    """The rows in states, velocities' rates and reactions."""
    model, rates = equations.model, {v.rate for v in equations.model.velocities}
    if not model.stabilised:
        return []
    accelerations = {q.acceleration: equations.acceleration(i) for i, q in enumerate(model.coordinates)}
    accelerations = {symbol: each for symbol, each in accelerations.items() if symbol not in rates}
    return [each.row.xreplace(accelerations).xreplace(model.rates) for each in model.stabilised]


def solve(block: Block, equations: Equations, beside: Sequence[Expr]) -> tuple[list[str], list[str]]:
    """Emit the reactions, which the block then knows by their names, and v'; the texts of v' and of `beside`.

    Expressions of `beside` may contain reactions and accelerations.
    """
    model = equations.model
    v0, V = _without_reactions(block, equations)
    S, right = _system(equations, v0, V)
    late = {*model.reactions, *(v.rate for v in model.velocities)}
    early = [each for each in beside if not each.free_symbols & late]
    texts = iter(block.evaluate([*S, *right, *v0, *V, *early]))
    n, n_v = len(model.reactions), len(model.velocities)
    rows = [[next(texts) for _ in range(n)] for _ in range(n)]
    rest = [next(texts) for _ in range(n)]
    free = [next(texts) for _ in range(n_v)]
    carried = [[next(texts) for _ in range(n)] for _ in range(n_v)]
    known = dict(zip((each for each in beside if each in early), texts, strict=True))
    names = list(model.reactions)
    for group in _groups(model, rows):
        _emit_group(block, names, rows, rest, group)
    vdot = []
    for start, row in zip(free, carried, strict=True):
        text = emit.combine((("+", a, emit.local(N)) for a, N in zip(row, names, strict=True)), start)
        vdot.append(block.let(text))
    waiting = [each for each in beside if each not in early]
    for v, text in zip(model.velocities, vdot, strict=True):
        if any(v.rate in each.free_symbols for each in waiting):
            block.bind(v.rate, text)
    known |= dict(zip(waiting, block.evaluate(waiting), strict=True))
    return vdot, [known[each] for each in beside]


def _without_reactions(block: Block, equations: Equations) -> tuple[Matrix, Matrix]:
    """v0 (n_v, 1) and V = M_r^-1 N_r (n_v, n_N), as expressions; through emitted lines unless M_r is diagonal."""
    M, force = equations.M_r, equations.B_r * equations.tau - equations.h_r
    n, N_r = M.rows, equations.N_r
    if M.is_diagonal():
        v0 = sympy.Matrix([1 / M[i, i] * force[i] for i in range(n)])
        return v0, sympy.Matrix(n, N_r.cols, lambda i, j: 1 / M[i, i] * N_r[i, j])
    lower = [M[i, j] for i in range(n) for j in range(i + 1)]
    texts = iter(block.evaluate([*lower, *force, *N_r.T]))
    triangle = [[next(texts) for _ in range(i + 1)] for i in range(n)]
    columns = [[next(texts) for _ in range(n)] for _ in range(1 + N_r.cols)]
    solved = [[_name(text) for text in column] for column in emit.solve_spd(block, triangle, columns)]
    return sympy.Matrix(solved[0]), sympy.Matrix(n, N_r.cols, lambda i, j: solved[1 + j][i])


def _name(text: str) -> Expr:
    """An emitted text as a symbol of the generated source, numbers as numbers."""
    return sympy.Integer(0) if emit.is_zero(text) else Name(text, real=True)


def _system(equations: Equations, v0: Matrix, V: Matrix) -> tuple[Matrix, Matrix]:
    """S (n, n) and the right-hand side (n, 1) of S N = right; as stated, unless tidying makes an entry shorter."""
    model, constants = equations.model, set(equations.model.parameters)
    rates, names = [v.rate for v in model.velocities], list(model.reactions)
    rows = rows_in_velocities(equations)
    A = sympy.Matrix([gradient(row, rates) for row in rows])
    C = sympy.Matrix([gradient(row, names) for row in rows])
    d = sympy.Matrix([row.xreplace(dict.fromkeys((*rates, *names), sympy.Integer(0))) for row in rows])
    S = (C + A * V).applyfunc(lambda entry: min(entry, trig_reduce(entry, constants), key=sympy.count_ops))
    return S, -(A * v0 + d)


def _groups(model: Model, rows: Sequence[Sequence[str]]) -> Iterator[list[tuple[int, int]]]:
    """Pairs (row, reaction) in the order of solving: rows with one unknown reaction first, the rest together."""
    left, unsolved = list(range(len(rows))), set(range(len(rows)))
    while left:
        unknown = ((i, [j for j in sorted(unsolved) if not emit.is_zero(rows[i][j])]) for i in left)
        alone = next(((i, js[0]) for i, js in unknown if len(js) == 1), None)
        if alone is None:
            break
        yield [alone]
        left.remove(alone[0])
        unsolved.remove(alone[1])
    if len(left) > LARGEST:
        names = ", ".join(each.quantity.name for i, each in enumerate(model.stabilised) if i in left)
        text = f"machine {model.name}: the rows {names} must be solved together, {LARGEST} are the most; uncouple them"
        raise ModelError(text, model.place.argument("stabilised"))
    if left:
        yield list(zip(left, sorted(unsolved), strict=True))


def _emit_group(
    block: Block, names: list[Any], rows: list[list[str]], rest: list[str], group: list[tuple[int, int]]
) -> None:
    """Emit the reactions of a group by Cramer's rule, what is solved already taken to the right-hand side."""
    own = [j for _, j in group]
    solved = [j for j in range(len(names)) if j not in own]
    S = sympy.Matrix([[_name(rows[i][j]) for j in own] for i, _ in group])
    sums = [emit.combine((("-", rows[i][j], emit.local(names[j])) for j in solved), rest[i]) for i, _ in group]
    right = sympy.Matrix(
        [_name(text if text.isidentifier() or emit.is_zero(text) else block.let(text)) for text in sums]
    )
    inverse = sympy.Symbol("inverse_determinant")
    determinant = Name(block.let(f"1.0/({block.evaluate([S.det(method='berkowitz')])[0]})"), real=True)
    solution = (S.adjugate() * right).applyfunc(lambda entry: inverse * entry).xreplace({inverse: determinant})
    for j, text in zip(own, block.evaluate(list(solution)), strict=True):
        block.bind(names[j], text)
