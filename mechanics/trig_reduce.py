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
SHORT_SUM = 3  # angles in a sum that is always taken apart; of four, an entry has hundreds of products


def trig_reduce(expression: Expr, constants: Collection[sympy.Symbol]) -> Expr:
    """The same expression as sum of monomials with coefficients in the `constants`, sin^2 + cos^2 reduced.

    What is not a polynomial (roots, quotients by a sum) is kept as it is, with its content untouched.
    """
    expression = sympy.sympify(expression)
    if expression.is_Atom:
        return expression
    expanded = _in_few_angles(expression).expand()
    pairs, flat = _trig_as_symbols(expanded)
    candidates = [_reduced(flat, pairs, first, constants) for first in (0, 1)]
    best = min(candidates, key=lambda each: len(sympy.Add.make_args(each)))
    back = {s: sympy.sin(angle) for angle, (s, _) in pairs.items()}
    back |= {c: sympy.cos(angle) for angle, (_, c) in pairs.items()}
    return best.xreplace(back)


def _in_few_angles(expression: Expr) -> Expr:
    """Sines and cosines of sums, in those of their terms, or where sums are long in those of few angles.

    Products of many sines and cosines grow exponentially. So of longer sums, such as a + b + c + d beside a + b + c in
    the joints of a chain, only those are taken apart that are combinations of others, the shortest ones first.
    tan(a + b) and tanh(t - 10) are left alone: taken apart they would get poles that they do not have.
    """
    angles = {node.args[0] for node in expression.atoms(sympy.sin, sympy.cos)}
    if all(len(sympy.Add.make_args(angle)) <= SHORT_SUM for angle in angles):
        return expression.replace(_is_of_angle, lambda node: sympy.expand_trig(node, deep=False))
    basis: list[Expr] = []
    replaced: dict[Expr, Expr] = {}
    for angle in sorted(angles, key=_length):
        moving = angle - angle.as_coeff_Add()[0]
        parts = _combination(moving, basis)
        if parts is None:
            basis.append(moving)
            parts = {moving: sympy.Integer(1)}
        stand_ins = {part: sympy.Dummy(real=True) for part in parts}
        back = {dummy: part for part, dummy in stand_ins.items()}
        total = sympy.Add(angle - moving, *(factor * stand_ins[part] for part, factor in parts.items()))
        for function in (sympy.sin, sympy.cos):
            replaced[function(angle)] = sympy.expand_trig(function(total)).xreplace(back)
    return expression.xreplace(replaced)


def _is_of_angle(node: Expr) -> bool:
    return isinstance(node, sympy.sin | sympy.cos)


def _length(angle: Expr) -> tuple[int, Expr, str]:
    """Few terms with small factors first."""
    factors = angle.as_coefficients_dict().values()
    return len(factors), sympy.Add(*map(abs, factors)), str(angle)


def _combination(angle: Expr, basis: list[Expr]) -> dict[Expr, Expr] | None:
    """The angle as whole multiples of basis angles, or None."""
    terms = [each.as_coefficients_dict() for each in (*basis, angle)]
    names = sorted({name for each in terms for name in each}, key=str)
    columns = sympy.Matrix([[each.get(name, 0) for each in terms] for name in names])
    wanted, known = columns[:, -1], columns[:, :-1]
    if not basis or known.rank() < columns.rank():
        return None
    solution = known.gauss_jordan_solve(wanted)[0]  # the basis is independent: it has no free parameters
    if not all(factor.is_Integer for factor in solution):
        return None
    return {part: factor for part, factor in zip(basis, solution, strict=True) if factor != 0}


def trig_reduce_matrix(matrix: Expr, constants: Collection[sympy.Symbol]) -> Expr:
    """`trig_reduce` applied to every entry."""
    return matrix.applyfunc(lambda entry: trig_reduce(entry, constants))


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
