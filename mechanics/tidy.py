"""Reduction of trigonometric polynomials to a canonical sum, so that what cancels on paper cancels here.

Euler-Lagrange terms arrive as products of angles' sines and cosines; after sin^2 + cos^2 = 1 most of them
vanish (a plane machine's mass matrix does not contain its heading). sympy's simplify would take minutes; a
polynomial remainder modulo s^2 + c^2 - 1 takes milliseconds, because those relations are a Groebner basis.
"""

from collections.abc import Collection, Iterable
from typing import Any

import sympy
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyElement, ring, sring

Expr = Any


def tidy(expression: Expr, constants: Collection[sympy.Symbol]) -> Expr:
    """The same expression as sum of monomials with coefficients in the `constants`, sin^2 + cos^2 reduced.

    What is not a polynomial (roots, quotients by a sum) is kept as it is, with its content untouched.
    """
    expression = sympy.sympify(expression)
    if expression.is_Atom:
        return expression
    expanded = expression.expand(trig=True)
    pairs, flat = _trig_as_symbols(expanded)
    candidates = [_reduced(flat, pairs, first, constants) for first in (0, 1)]
    best = min(candidates, key=lambda each: len(sympy.Add.make_args(each)))
    back = {s: sympy.sin(angle) for angle, (s, _) in pairs.items()}
    back |= {c: sympy.cos(angle) for angle, (_, c) in pairs.items()}
    return best.xreplace(back)


def tidy_matrix(matrix: Expr, constants: Collection[sympy.Symbol]) -> Expr:
    """`tidy` applied to every entry."""
    return matrix.applyfunc(lambda entry: tidy(entry, constants))


def _trig_as_symbols(expression: Expr) -> tuple[dict[Expr, tuple[Expr, Expr]], Expr]:
    angles = sorted({each.args[0] for each in expression.atoms(sympy.sin, sympy.cos)}, key=str)
    pairs = {angle: (sympy.Dummy(f"s{i}"), sympy.Dummy(f"c{i}")) for i, angle in enumerate(angles)}
    forward = {sympy.sin(angle): s for angle, (s, _) in pairs.items()}
    forward |= {sympy.cos(angle): c for angle, (_, c) in pairs.items()}
    return pairs, expression.xreplace(forward)


def _reduced(flat: Expr, pairs: dict[Expr, tuple[Expr, Expr]], first: int, constants: Collection[sympy.Symbol]) -> Expr:
    """Remainder modulo sin^2 + cos^2 = 1; `first` = 0 eliminates the squares of sines, 1 of cosines."""
    _, polynomial = sring(flat, order=lex)
    gens = list(polynomial.ring.symbols)
    ordered = [pair[first] for pair in pairs.values()] + [pair[1 - first] for pair in pairs.values()]
    rest = [gen for gen in gens if gen not in ordered]
    inverses = [gen for gen in rest if _is_inverse(gen)]
    # a generator 1/b beside b: the relation b * (1/b) = 1 cancels what divides
    bases = [1 / gen for gen in inverses if 1 / gen not in (*ordered, *rest)]
    target, *elements = ring([*ordered, *rest, *bases], polynomial.ring.domain, lex)
    by_symbol = dict(zip(target.symbols, elements, strict=True))
    moved = polynomial.set_ring(target)
    relations = [by_symbol[s] ** 2 + by_symbol[c] ** 2 - 1 for s, c in pairs.values()]
    relations += [by_symbol[gen] * by_symbol[1 / gen] - 1 for gen in inverses]
    return _collected(moved.rem(relations) if relations else moved, constants)


def _is_inverse(generator: Expr) -> bool:
    return isinstance(generator, sympy.Pow) and generator.exp == -1 and generator.base.is_Symbol


def _collected(polynomial: PolyElement, constants: Collection[sympy.Symbol]) -> Expr:
    """Sum over the monomials of what moves, each with one factored coefficient of the constants."""
    symbols = polynomial.ring.symbols
    moving = [not symbol.free_symbols <= set(constants) for symbol in symbols]
    terms: dict[tuple[int, ...], list[Expr]] = {}
    for powers, number in polynomial.terms():
        key = tuple(power if moves else 0 for power, moves in zip(powers, moving, strict=True))
        constant = (s**n for s, n, moves in zip(symbols, powers, moving, strict=True) if not moves and n)
        value = sympy.Mul(polynomial.ring.domain.to_sympy(number), *constant)
        terms.setdefault(key, []).append(value)
    return sympy.Add(*(_product(symbols, key, values) for key, values in terms.items()))


def _product(symbols: Iterable[Expr], powers: tuple[int, ...], coefficients: list[Expr]) -> Expr:
    monomial = sympy.Mul(*(s**n for s, n in zip(symbols, powers, strict=True) if n))
    return sympy.Mul(sympy.Add(*coefficients), monomial, evaluate=True)
