"""Expressions as polynomials with exact coefficients, some of their symbols and functions put in as others.

A polynomial is a dict: monomial -> coefficient (an int, or a rational number of `QQ`). A monomial is one integer whose
32-bit digits are the exponents of the generators, so that the product of monomials is a sum. Exponents may be negative.
"""

import struct
from collections.abc import Iterable, Mapping
from functools import reduce
from math import comb
from typing import Any

import sympy
from sympy import QQ

Expr = Any
Polynomial = dict[int, Any]
BITS, HALF = 32, 1 << 31
LARGEST = 64  # exponents that are multiplied out
_GENERATORS = (sympy.Symbol, sympy.NumberSymbol, sympy.sin, sympy.cos)


class NotPolynomial(ValueError):
    """A root, a quotient by a sum, or a function that is not a generator."""


class Polynomials:
    """Polynomials in generators that are found as expressions are converted.

    Generators are symbols, named numbers, sines and cosines. `stand_ins` are put in for nodes; in them each symbol,
    sine and cosine is a generator.
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
            return _sum(map(self.of, node.args))
        if node.is_Mul:
            return reduce(_product, sorted(map(self.of, node.args), key=len))
        if node.is_Pow and node.exp.is_Integer and abs(node.exp) <= LARGEST:
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


def _sum(terms: Iterable[Polynomial]) -> Polynomial:
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
