"""The motion of a machine as a straight-line program: v' = a0 + R u, and derivatives along it (README eq. 3 and 10).

A straight-line program is an ordered list of definitions of symbols by small expressions of earlier ones. Nothing is
ever expanded. A derivative is taken definition by definition (chain rule) and remembered, so derivatives of
derivatives grow with the number of definitions and not with the size of what they would be when written out.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache, reduce
from typing import Any

import sympy

from servonode.controllers.engine.differentiation import moving_of
from servonode.controllers.engine.resolution import Resolution
from servonode.definitions.progress import counted
from servonode.mechanics.emit import Block, Name
from servonode.mechanics.equations import Equations
from servonode.mechanics.straight_line import REMEMBERED, diff, named, ordered, symbols_of, written_out

Expr = Any
LONGEST = 12  # leaves of a definition that is not taken apart
ZERO, ONE = sympy.Integer(0), sympy.Integer(1)
Seeds = Callable[[Expr], Expr]  # the derivative of each symbol that is not defined here


class StraightLine:
    """Definitions in the order in which they can be evaluated; an atom is a symbol or a number.

    A definition is short: what is longer becomes a sum of constants times atoms, whose products are atoms two by two.
    The derivative of such a sum is no longer than the sum, however often it is taken.
    """

    def __init__(self, constants: Collection[Expr] = ()) -> None:
        """`constants`: symbols whose functions are not taken apart."""
        self.definitions: dict[Expr, Expr] = {}
        self._constants = frozenset(constants)
        self._atoms: dict[Expr, Expr] = {}  # expressions -> their atoms
        self._derivatives: dict[tuple[Expr, str], Expr] = {}

    def define(self, expression: Expr) -> Expr:
        """The atom of an expression; functions, roots and quotients in it have definitions of their own."""
        stated = sympy.sympify(expression)
        for each in ordered([stated]):  # of a large machine: definitions like those here
            if each not in self._atoms:
                self._atoms[each] = self._of(self._named(each.definition))
        return self._of(self._named(stated))

    def _of(self, expression: Expr) -> Expr:
        if expression.is_Atom:
            return expression
        if expression not in self._atoms:
            is_long = _size(expression) > LONGEST
            self._atoms[expression] = self._atom(self._in_products(expression) if is_long else expression)
        return self._atoms[expression]

    def _atom(self, definition: Expr) -> Expr:
        if definition.is_Atom:
            return definition
        if definition not in self._atoms:
            symbol = Name(f"e{len(self.definitions)}", real=True)
            self._atoms[definition] = symbol
            self.definitions[symbol] = definition
        return self._atoms[definition]

    def _named(self, node: Expr) -> Expr:
        """The expression with atoms for what costs more than a product."""
        if node in self._atoms:
            return self._atoms[node]
        if node.is_Atom:
            return node
        inner = [self._named(each) for each in node.args]
        made = node if all(a is b for a, b in zip(inner, node.args, strict=True)) else node.func(*inner)
        root_or_quotient = made.is_Pow and not (made.exp.is_Integer and made.exp > 0)
        return self._of(made) if made.is_Function or root_or_quotient else made

    def _in_products(self, node: Expr) -> Expr:
        """A sum, product or power of atoms as a sum of constants times atoms."""
        if node.is_Atom or self._is_fixed(node):
            return node
        if node.is_Add:
            return sympy.Add(*map(self._in_products, node.args))
        if not node.is_Mul:
            return node.func(*map(self._of, node.args))
        moving = [self._of(each) for each in node.args if not self._is_fixed(each)]
        product = reduce(lambda a, b: self._atom(a * b), sorted(moving, key=str))
        return sympy.Mul(*filter(self._is_fixed, node.args), product)

    def _is_fixed(self, node: Expr) -> bool:
        return symbols_of(node) <= self._constants

    def needed(self, atoms: Iterable[Expr]) -> list[Expr]:
        """The definitions on which these atoms stand, in order."""
        wanted, waiting = set[Expr](), [each for each in atoms if each in self.definitions]
        while waiting:
            each = waiting.pop()
            if each not in wanted:
                wanted.add(each)
                waiting += [below for below in symbols_of(self.definitions[each]) if below in self.definitions]
        return [each for each in self.definitions if each in wanted]

    def definitions_of(self, atoms: Iterable[Expr]) -> list[tuple[Expr, Expr]]:
        """The same with what they stand for."""
        return [(each, self.definitions[each]) for each in self.needed(atoms)]

    def symbols(self, atoms: Iterable[Expr]) -> set[Expr]:
        """The symbols that are not defined here of which atoms are functions."""
        atoms = list(atoms)
        parts = [*atoms, *(self.definitions[each] for each in self.needed(atoms))]
        return {each for part in parts for each in symbols_of(part) if each not in self.definitions}

    def derivative(self, atom: Expr, direction: str, seeds: Seeds) -> Expr:
        """The atom of the derivative in a direction, in which symbols that are not defined here change by `seeds`."""
        for each in self.needed([atom]):  # in order, so that no recursion goes deep
            if (each, direction) not in self._derivatives:
                self._derivatives[each, direction] = self._along(self.definitions[each], direction, seeds)
        return self._derivatives[atom, direction] if atom in self.definitions else seeds(atom)

    def _along(self, expression: Expr, direction: str, seeds: Seeds) -> Expr:
        terms, containing = list[Expr](), defaultdict[Expr, list[Expr]](list)
        for term in sympy.Add.make_args(expression):
            for symbol in symbols_of(term):
                containing[symbol].append(term)
        for symbol in sorted(containing, key=lambda each: each.name):
            rate = self._derivatives[symbol, direction] if symbol in self.definitions else seeds(symbol)
            if rate != 0:
                slope = sympy.Add(*(diff(term, symbol) for term in containing[symbol]))
                if slope.has(sympy.DiracDelta):  # of sign: as `choose`, it is differentiated on each side by itself
                    slope = slope.replace(sympy.DiracDelta, lambda *_: ZERO)
                terms.append(slope * rate)
        return self.define(sympy.Add(*terms))

    def dot(self, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
        """The atom of the sum of products."""
        return self.define(sympy.Add(*(x * y for x, y in zip(a, b, strict=True))))

    def solve_symmetric(self, M: Sequence[Sequence[Expr]], columns: Sequence[Sequence[Expr]]) -> list[list[Expr]]:
        """The atoms of the solutions of M X = columns, M symmetric and positive definite, by L D L^T."""
        n = len(M)
        L = [[ZERO] * n for _ in range(n)]
        D: list[Expr] = []
        for j in range(n):
            D.append(self.define(M[j][j] - sympy.Add(*(L[j][k] ** 2 * D[k] for k in range(j)))))
            for i in range(j + 1, n):
                L[i][j] = self.define((M[i][j] - sympy.Add(*(L[i][k] * L[j][k] * D[k] for k in range(j)))) / D[j])
        return [self._substituted(L, D, column) for column in columns]

    def _substituted(self, L: list[list[Expr]], D: list[Expr], column: Sequence[Expr]) -> list[Expr]:
        n, y = len(D), list[Expr]()
        for i in range(n):
            y.append(self.define(column[i] - sympy.Add(*(L[i][k] * y[k] for k in range(i)))))
        x = [ZERO] * n
        for i in reversed(range(n)):
            x[i] = self.define(y[i] / D[i] - sympy.Add(*(L[k][i] * x[k] for k in range(i + 1, n))))
        return x

    def expanded(self, atom: Expr, most: int) -> Expr | None:
        """What an atom stands for, written out; None where that has more than `most` operations."""
        return written_out(atom, self.definitions_of([atom]), most)

    def named(self, atom: Expr) -> Expr:
        """What an atom stands for, with auxiliary symbols for the definitions below it."""
        meant: dict[Expr, Expr] = {}
        for each in self.needed([atom]):
            meant[each] = named(self.definitions[each].xreplace(meant))
        return meant.get(atom, atom)

    def emit(self, block: Block, atoms: Iterable[Expr], done: set[Expr]) -> None:
        """Emit the definitions on which the atoms stand, but for those that are done."""
        new = [each for each in self.needed(atoms) if each not in done]
        for each in counted("deriving", "definition", new):
            block.define(each, self.definitions[each])
        done.update(new)


@lru_cache(maxsize=REMEMBERED)
def _size(node: Expr) -> int:
    return sum(map(_size, node.args)) if node.args else 1


class Motion:
    """a0 (n_v,) and R (n_tau, n_v), by inputs, of v' = a0 + R^T u, as atoms of a straight-line program."""

    def __init__(self, equations: Equations, resolved: Resolution, orders: int) -> None:
        """`orders`: of the derivatives of targets and signals that may come."""
        self.constants, self.velocities = equations.model.parameters, equations.model.velocities
        self.line = StraightLine(self.constants)
        n_v, define = len(self.velocities), self.line.define
        M = [[define(equations.M_r[i, j]) for j in range(n_v)] for i in range(n_v)]
        free = [define(-each) for each in equations.h_r]
        inputs = [[define(each) for each in equations.B_r[:, k]] for k in range(equations.B_r.shape[1])]
        self.a0, *self.R = self.line.solve_symmetric(M, [free, *inputs])
        rates = {each: define(resolved.put_in(rate)) for each, rate in moving_of(equations, resolved, orders).items()}
        self._drift = rates | dict(zip(self.velocities, self.a0, strict=True))

    def drift(self, atom: Expr) -> Expr:
        """Its rate under zero inputs, without the rates of the law's own integrators."""
        return self.line.derivative(atom, "drift", lambda each: self._drift.get(each, ZERO))

    def partial(self, atom: Expr, symbol: Expr) -> Expr:
        """Its partial derivative by a state."""
        return self.line.derivative(atom, symbol.name, lambda each: ONE if each == symbol else ZERO)

    def gradient(self, atom: Expr) -> list[Expr]:
        """Its derivatives by the velocities (n_v,)."""
        return [self.partial(atom, each) for each in self.velocities]

    def by_input(self, k: int, gradient: Sequence[Expr]) -> Expr:
        """What a unit of input k adds to the rate of an atom with this gradient."""
        return self.line.dot(gradient, self.R[k])
