"""Reduction of trigonometric polynomials to a canonical sum, so that what cancels on paper cancels here.

Euler-Lagrange terms arrive as products of angles' sines and cosines; after sin^2 + cos^2 = 1 most of them
vanish (a plane machine's mass matrix does not contain its heading). sympy's simplify would take minutes; a
polynomial remainder modulo s^2 + c^2 - 1 takes milliseconds, because those relations are a Groebner basis.
"""

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from math import comb, prod
from typing import Any

import sympy
from sympy import QQ
from sympy.polys.matrices import DomainMatrix
from sympy.polys.orderings import lex
from sympy.polys.rings import ring, sring

from servonode.mechanics.straight_line import arguments_first

Polynomial = dict[int, Any]
BITS, HALF = 32, 1 << 31
LARGEST_POWER = 64  # exponents that are multiplied out
_GENERATORS = (sympy.Symbol, sympy.NumberSymbol, sympy.sin, sympy.cos)
Expr = Any
Terms = Iterable[tuple[tuple[int, ...], Expr]]  # exponents and coefficient of each term
Collected = dict[tuple[int, ...], list[tuple[tuple[int, ...], Expr]]]  # exponents of what moves -> constants, numbers
SHORT_SUM = 3  # angles in a sum that is always taken apart; of four, an entry has hundreds of products
LARGEST, DEEPEST = 20_000, 3  # products, and functions in each other, of an expression that is multiplied out


class NotPolynomial(ValueError):
    """A root, a quotient by a sum, or a function that is not a generator."""


class Polynomials:
    """Polynomials with exact coefficients in generators that are found as expressions are converted.

    Generators are symbols, named numbers, sines and cosines. `stand_ins` are put in for nodes; in them each symbol,
    sine and cosine is a generator. A polynomial is a dict: monomial -> coefficient, an int or a number of `QQ`. A
    monomial is one integer whose 32-bit digits are the exponents of the generators, so that the product of monomials is
    a sum. Exponents may be negative.
    """

    def __init__(self, stand_ins: Mapping[Expr, Expr]) -> None:
        self._monomials: dict[Expr, int] = {}
        self._known: dict[Expr, Polynomial] = {}
        self._known = {node: self.of(put_in) for node, put_in in stand_ins.items()}

    @property
    def generators(self) -> tuple[Expr, ...]:
        return tuple(self._monomials)

    def of(self, node: Expr) -> Polynomial:
        """The polynomial of an expression.

        Raises:
            NotPolynomial: it is not one in generators, their inverses and rational numbers.
        """
        if node not in self._known:
            self._known[node] = self._converted(node)
        return self._known[node]

    def _converted(self, node: Expr) -> Polynomial:
        if node.is_Rational:
            return {0: int(node) if node.is_Integer else QQ(node.p, node.q)} if node else {}
        if isinstance(node, _GENERATORS):
            return {self._monomial(node): 1}
        if node.is_Add:
            return _total(map(self.of, node.args))
        if node.is_Mul:
            return reduce(_product, sorted(map(self.of, node.args), key=len))
        if node.is_Pow and node.exp.is_Integer and abs(node.exp) <= LARGEST_POWER:
            return self._power(self.of(node.base), int(node.exp))
        raise NotPolynomial(str(node))

    def _monomial(self, generator: Expr) -> int:
        return self._monomials.setdefault(generator, 1 << BITS * len(self._monomials))

    def _power(self, base: Polynomial, exponent: int) -> Polynomial:
        if exponent > 0:
            return reduce(_product, [base] * exponent)
        if len(base) != 1:
            raise NotPolynomial("a quotient by a sum")
        ((monomial, coefficient),) = base.items()
        powers = zip(self._monomials, self.exponents(base)[0], strict=True)
        if any(power and isinstance(each, sympy.sin | sympy.cos) for each, power in powers):
            raise NotPolynomial("a quotient by a sine or cosine")
        return {exponent * monomial: QQ(coefficient) ** exponent}

    def exponents(self, polynomial: Polynomial) -> list[tuple[int, ...]]:
        """The exponents of the generators, for each term."""
        n, offset = len(self._monomials), self._offset()
        digits = (struct.unpack(f"<{n}I", (each + offset).to_bytes(4 * n, "little")) for each in polynomial)
        return [tuple(digit - HALF for digit in each) for each in digits]

    def without_squares(self, polynomial: Polynomial, relations: Mapping[Expr, Expr]) -> Polynomial:
        """The remainder modulo x^2 + y^2 = 1 for generators x: y, without squares of any x."""
        for x, y in relations.items():
            own, other = self._monomial(x), self._monomial(y)
            low, offset = own.bit_length() - 1, self._offset()
            result: Polynomial = {}
            for monomial, coefficient in polynomial.items():
                squares = ((monomial + offset >> low) % (2 * HALF) - HALF) // 2
                if squares == 0:
                    result[monomial] = result.get(monomial, 0) + coefficient
                    continue
                rest = monomial - 2 * squares * own
                for j in range(squares + 1):
                    target = rest + 2 * j * other
                    result[target] = result.get(target, 0) + coefficient * comb(squares, j) * (-1) ** j
            polynomial = _without_zeros(result)
        return polynomial

    def _offset(self) -> int:
        """What makes every digit of a monomial positive."""
        return sum(HALF << BITS * i for i in range(len(self._monomials)))


def _total(terms: Iterable[Polynomial]) -> Polynomial:
    result: Polynomial = {}
    for each in terms:
        for monomial, coefficient in each.items():
            result[monomial] = result.get(monomial, 0) + coefficient
    return _without_zeros(result)


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for monomial, coefficient in a.items():
        for other, factor in b.items():
            target = monomial + other
            result[target] = result.get(target, 0) + coefficient * factor
    return _without_zeros(result)


def _without_zeros(polynomial: Polynomial) -> Polynomial:
    return {monomial: coefficient for monomial, coefficient in polynomial.items() if coefficient}


def rational(coefficient: Any) -> Expr:
    """A coefficient as a sympy number."""
    return sympy.Integer(coefficient) if isinstance(coefficient, int) else QQ.to_sympy(coefficient)


def trig_reduce(expression: Expr, constants: Collection[sympy.Symbol]) -> Expr:
    """The same expression as sum of monomials with coefficients in the `constants`, sin^2 + cos^2 reduced.

    What is not a polynomial (roots, quotients by a sum) is kept as it is, with its content untouched.
    """
    expression = sympy.sympify(expression)
    if expression.is_Atom:
        return expression
    try:
        return _reduced_polynomial(expression, frozenset(constants))
    except NotPolynomial:
        return _reduced_by_expansion(expression, frozenset(constants))


def is_large(expression: Expr, constants: Collection[sympy.Symbol]) -> bool:
    """Whether an expression has too many products, multiplied out, or functions of functions, for its sum to be short.

    This bound parts machines, beside `derive.LONGEST`: those whose energies are not large have equations of motion that
    are multiplied out and reduced, those of the others are straight-line programs.
    """
    trigonometric, sums = _parts(expression, frozenset(constants))
    if _depth(expression) > DEEPEST:
        return True
    apart = _in_few_angles(frozenset(node.args[0] for node in trigonometric)) | _in_few_sums(frozenset(sums))[0]
    return _products(expression, {node: _products(stated, {}) for node, stated in apart.items()}) > LARGEST


def _depth(expression: Expr) -> int:
    """How deep functions stand in each other."""
    depths: dict[Expr, int] = {}
    for node in arguments_first(expression):
        depths[node] = max((depths[each] for each in node.args), default=0) + bool(node.is_Function)
    return depths[expression]


def _products(expression: Expr, known: Mapping[Expr, int]) -> int:
    """How many products an expression has when it is multiplied out; those of some nodes are `known`."""
    counts = dict(known)
    for node in arguments_first(expression):
        if node in counts:
            continue
        if node.is_Add:
            counts[node] = sum(counts[each] for each in node.args)
        elif node.is_Mul:
            counts[node] = prod(counts[each] for each in node.args)
        elif node.is_Pow and node.exp.is_Integer and 0 < node.exp <= LARGEST_POWER:
            counts[node] = counts[node.base] ** int(node.exp)
        else:
            counts[node] = 1
    return counts[expression]


def _reduced_polynomial(expression: Expr, constants: frozenset[Expr]) -> Expr:
    """`trig_reduce` of a polynomial in symbols, their inverses, sines and cosines.

    Raises:
        NotPolynomial: it is not one.
    """
    trigonometric, sums = _parts(expression, constants)
    angles = frozenset(node.args[0] for node in trigonometric)
    if any(angle.atoms(sympy.Function) for angle in angles):
        raise NotPolynomial("an angle that is a function")
    few_angles, (few_sums, names) = _in_few_angles(angles), _in_few_sums(frozenset(sums))
    polynomials = Polynomials({node: few_angles[node] for node in trigonometric} | few_sums)
    polynomial = polynomials.of(expression)
    present = dict.fromkeys(each.args[0] for each in polynomials.generators if isinstance(each, sympy.sin | sympy.cos))
    sines, cosines = map(sympy.sin, present), map(sympy.cos, present)
    relations = dict(zip(sines, cosines, strict=True))
    candidates = [polynomials.without_squares(polynomial, relations)]
    if relations:
        candidates.append(polynomials.without_squares(polynomial, {c: s for s, c in relations.items()}))
    symbols = [names.get(each, each) for each in polynomials.generators]
    collected = [_by_motion(symbols, _terms(polynomials, each), constants) for each in candidates]
    return _sum(symbols, min(collected, key=_size))


def _parts(expression: Expr, constants: frozenset[Expr]) -> tuple[list[Expr], list[Expr]]:
    """The sines and cosines of an expression, and its sums of symbols that are not constants."""
    trigonometric, sums = [], []
    seen, waiting = {expression}, [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, sympy.sin | sympy.cos):
            trigonometric.append(node)
            continue
        if node.is_Add and all(_moving_symbol(term, constants) for term in node.args):
            sums.append(node)
        new = set(node.args) - seen
        seen |= new
        waiting += new
    return trigonometric, sums


def _moving_symbol(term: Expr, constants: frozenset[Expr]) -> bool:
    """Whether a term is a symbol that is not a constant, or a rational number of it."""
    factor, symbol = term.as_coeff_Mul()
    return bool(factor.is_Rational and symbol.is_Symbol and symbol not in constants)


def _terms(polynomials: Polynomials, polynomial: Polynomial) -> Terms:
    return zip(polynomials.exponents(polynomial), map(rational, polynomial.values()), strict=True)


def _reduced_by_expansion(expression: Expr, constants: frozenset[Expr]) -> Expr:
    """`trig_reduce` of any expression: sympy finds what its generators are."""
    angles = frozenset(node.args[0] for node in expression.atoms(sympy.sin, sympy.cos))
    if _are_short(angles):
        apart = expression.replace(
            lambda node: isinstance(node, sympy.sin | sympy.cos), lambda node: sympy.expand_trig(node, deep=False)
        )
    else:
        apart = expression.xreplace(_in_few_angles(angles))
    pairs, flat = _trig_as_symbols(apart.expand())
    candidates = [_reduced(flat, pairs, first, constants) for first in (0, 1)]
    best = min(candidates, key=lambda each: len(sympy.Add.make_args(each)))
    back = {s: sympy.sin(angle) for angle, (s, _) in pairs.items()}
    back |= {c: sympy.cos(angle) for angle, (_, c) in pairs.items()}
    return best.xreplace(back)


def _are_short(sums: frozenset[Expr]) -> bool:
    return all(len(sympy.Add.make_args(each)) <= SHORT_SUM for each in sums)


@lru_cache(maxsize=256)
def _in_few_angles(angles: frozenset[Expr]) -> dict[Expr, Expr]:
    """Sines and cosines of sums, in those of their terms, or where sums are long in those of few angles.

    Products of many sines and cosines grow exponentially. So of longer sums, such as a + b + c + d beside a + b + c in
    the joints of a chain, only those are taken apart that are combinations of others, the shortest ones first.
    tan(a + b) and tanh(t - 10) are left alone: taken apart they would get poles that they do not have.
    """
    functions = (sympy.sin, sympy.cos)
    if _are_short(angles):
        return {f(angle): sympy.expand_trig(f(angle), deep=False).expand() for angle in angles for f in functions}
    numbers = {angle: angle.as_coeff_Add()[0] for angle in angles}
    combinations = _combinations({angle - number for angle, number in numbers.items()})
    replaced: dict[Expr, Expr] = {}
    for angle, number in numbers.items():
        parts = combinations[angle - number]
        if not all(factor.is_Integer for factor in parts.values()):
            parts = {angle - number: sympy.Integer(1)}
        stand_ins = {part: sympy.Dummy(real=True) for part in parts}
        back = {dummy: part for part, dummy in stand_ins.items()}
        total = sympy.Add(number, *(factor * stand_ins[part] for part, factor in parts.items()))
        for function in functions:
            replaced[function(angle)] = sympy.expand_trig(function(total)).xreplace(back)
    return replaced


@lru_cache(maxsize=256)
def _in_few_sums(sums: frozenset[Expr]) -> tuple[dict[Expr, Expr], dict[Expr, Expr]]:
    """Where sums of symbols are long, those sums and their symbols as combinations of few sums; the names of these.

    The rates a' + b' + c' + d' of the links of a chain have short squares; multiplied out they have ten terms.
    """
    if _are_short(sums):
        return {}, {}
    combinations = _combinations(sums, set().union(*(each.free_symbols for each in sums)))
    basis = {part for parts in combinations.values() for part in parts}
    names = {part: sympy.Dummy() if part.is_Add else part for part in basis}
    stand_ins = {
        each: sympy.Add(*(factor * names[part] for part, factor in parts.items()))
        for each, parts in combinations.items()
    }
    return stand_ins, {name: part for part, name in names.items()}


def _combinations(*groups: Collection[Expr]) -> dict[Expr, dict[Expr, Expr]]:
    """Linear expressions as combinations of few of them, those of the first groups, the shortest ones first."""
    ordered = [each for group in groups for each in sorted(group, key=_length)]
    terms = [each.as_coefficients_dict() for each in ordered]
    names = sorted({name for each in terms for name in each}, key=str)
    rows = [[QQ.from_sympy(each.get(name, sympy.Integer(0))) for each in terms] for name in names]
    reduced, basis = DomainMatrix(rows, (len(names), len(ordered)), QQ).rref()
    columns = zip(*reduced.to_Matrix().tolist(), strict=True)
    return {
        each: {ordered[i]: factor for i, factor in zip(basis, column, strict=False) if factor != 0}
        for each, column in zip(ordered, columns, strict=True)
    }


def _length(expression: Expr) -> tuple[int, Expr, str]:
    """Few terms with small factors first."""
    factors = expression.as_coefficients_dict().values()
    return len(factors), sympy.Add(*map(abs, factors)), str(expression)


def _trig_as_symbols(expression: Expr) -> tuple[dict[Expr, tuple[Expr, Expr]], Expr]:
    angles = sorted({each.args[0] for each in expression.atoms(sympy.sin, sympy.cos)}, key=str)
    pairs = {angle: (sympy.Dummy(f"s{i}"), sympy.Dummy(f"c{i}")) for i, angle in enumerate(angles)}
    forward = {sympy.sin(angle): s for angle, (s, _) in pairs.items()}
    forward |= {sympy.cos(angle): c for angle, (_, c) in pairs.items()}
    return pairs, expression.xreplace(forward)


def _reduced(flat: Expr, pairs: dict[Expr, tuple[Expr, Expr]], first: int, constants: frozenset[Expr]) -> Expr:
    """Remainder modulo sin^2 + cos^2 = 1; `first` = 0 eliminates the squares of sines, 1 of cosines."""
    _, polynomial = sring(flat, order=lex)
    gens = list(polynomial.ring.symbols)
    ordered = [pair[first] for pair in pairs.values()] + [pair[1 - first] for pair in pairs.values()]
    rest = [gen for gen in gens if gen not in ordered]
    inverses = [gen for gen in rest if isinstance(gen, sympy.Pow) and gen.exp == -1 and gen.base.is_Symbol]
    # a generator 1/b beside b: the relation b * (1/b) = 1 cancels what divides
    bases = [1 / gen for gen in inverses if 1 / gen not in (*ordered, *rest)]
    target, *elements = ring([*ordered, *rest, *bases], polynomial.ring.domain, lex)
    by_symbol = dict(zip(target.symbols, elements, strict=True))
    moved = polynomial.set_ring(target)
    relations = [by_symbol[s] ** 2 + by_symbol[c] ** 2 - 1 for s, c in pairs.values()]
    relations += [by_symbol[gen] * by_symbol[1 / gen] - 1 for gen in inverses]
    remainder = moved.rem(relations) if relations else moved
    numbers = ((powers, target.domain.to_sympy(number)) for powers, number in remainder.terms())
    return _sum(target.symbols, _by_motion(target.symbols, numbers, constants))


def _by_motion(symbols: Sequence[Expr], terms: Terms, constants: frozenset[Expr]) -> Collected:
    """The terms by the exponents of what moves, those of constants being zero."""
    moving = [not symbol.free_symbols <= constants for symbol in symbols]
    collected: Collected = {}
    for powers, number in terms:
        key = tuple(power if moves else 0 for power, moves in zip(powers, moving, strict=True))
        rest = tuple(0 if moves else power for power, moves in zip(powers, moving, strict=True))
        collected.setdefault(key, []).append((rest, number))
    return collected


def _size(collected: Collected) -> int:
    """How many terms the sum will have."""
    return sum(len(coefficients) if not any(powers) else 1 for powers, coefficients in collected.items())


def _sum(symbols: Sequence[Expr], collected: Collected) -> Expr:
    """Sum over the monomials of what moves, each with one factored coefficient of the constants."""
    products = []
    for powers, coefficients in collected.items():
        factor = sympy.Add(*(_monomial(symbols, rest, number) for rest, number in coefficients))
        products.append(sympy.Mul(factor, _monomial(symbols, powers)))
    return sympy.Add(*products)


def _monomial(symbols: Sequence[Expr], powers: tuple[int, ...], number: Expr = sympy.S.One) -> Expr:
    return sympy.Mul(number, *(symbol**power for symbol, power in zip(symbols, powers, strict=True) if power))
