"""Whether inputs reach residuals at once: the rank of W = J M_r^-1 B_r at random states, in double precision."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.mechanics.equations import Equations
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.straight_line import symbols_of
from servonode.mechanics.symbols import Parameter

Expr = Any
POINTS, CLEAR = 6, 1e-6  # a share of the largest singular value that no rounding makes


def reached_at_once(equations: Equations, J: Sequence[Sequence[Expr]]) -> bool:
    """Whether W is clearly regular at one of the random states, or cannot be evaluated at any of them."""
    M, B = equations.M_r, equations.B_r
    shapes = [M.shape, B.shape, (len(J), M.shape[0])]
    entries = [*M, *B, *(each for row in J for each in row)]
    values = at_states(entries, _random([*map(sympy.sympify, entries)]))
    values = values[np.isfinite(values).all(axis=1)]
    parts = np.split(values, np.cumsum([rows * columns for rows, columns in shapes])[:-1], axis=1)
    M_, B_, J_ = (part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True))
    return not len(values) or any(_regular(*each) for each in zip(M_, B_, J_, strict=True))


def _regular(M: Array, B: Array, J: Array) -> bool:
    try:
        R = np.linalg.solve(M, B)
    except np.linalg.LinAlgError:
        return False
    lengths = np.linalg.norm(J, axis=1)
    if not lengths.all():
        return False
    sigma = np.linalg.svd(J / lengths[:, None] @ R, compute_uv=False)
    return bool(sigma[-1] > CLEAR * np.linalg.norm(R))


def _random(entries: Sequence[Expr]) -> dict[Expr, Array]:
    """Values of the symbols: parameters near their defaults, all others between 0.2 and 0.8."""
    rng = np.random.default_rng(0)
    symbols = sorted(frozenset[Expr]().union(*map(symbols_of, entries)), key=lambda each: each.name)
    values = {}
    for each in symbols:
        default = each.quantity.default if isinstance(each, Parameter) else None
        values[each] = rng.uniform(0.7, 1.3, POINTS) * default if default else rng.uniform(0.2, 0.8, POINTS)
    return values or {sympy.Dummy(): np.zeros(1)}
