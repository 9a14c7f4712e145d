"""Derived expressions made readable without a change of value: angle sums, signs, abbreviations for long sums."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import sympy
from sympy.simplify.fu import TR10i

from servonode.export.blocks import Block, Line, Lines, Matrix, Words, equations
from servonode.mechanics.equations import Equations
from servonode.mechanics.straight_line import Auxiliary, auxiliaries_of, ordered
from servonode.mechanics.trig_reduce import is_large, trig_reduce

Expr = Any
LONG = 160  # characters of sympy's own text, beyond which repeated sums get a name
FACTORED = 1000  # characters up to which the search for factors is a matter of milliseconds
_ANGLE_FUNCTIONS = (sympy.sin, sympy.cos, sympy.tan)
LONGEST_W = 400  # characters of an entry of W that is still written out


def factored(expression: Expr) -> Expr:
    """The expression with sums of one sign each and common factors taken out; its own terms stay apart."""
    one_sign: Expr = sympy.signsimp(expression)
    return sympy.Add(*(sympy.factor_terms(term) for term in sympy.Add.make_args(one_sign)))


def contracted(expression: Expr, constants: Collection[Expr]) -> Expr:
    """The shortest of the expression, its canonical sum, and that sum in angle sums, with and without factors."""
    expression = sympy.sympify(expression)
    if auxiliaries_of(expression) or is_large(expression, constants):
        return expression
    canonical = trig_reduce(expression, constants)
    angles = TR10i(canonical)
    forms = [angles, canonical, expression]
    if _length(angles) < FACTORED:
        functions = sorted(angles.atoms(sympy.sin, sympy.cos), key=str)
        forms += [sympy.factor(angles), sympy.collect(angles, functions, func=sympy.factor)]
    return min(forms, key=_length)


def input_matrix(derived: Equations, J: Expr) -> Expr | None:
    """W = J M_r^-1 B_r (n_s, n_tau), or None where the system is large or an entry long."""
    model = derived.model
    if len(model.velocities) > 3 or len(model.inputs) > 2 or max(map(_length, J), default=0) > LONGEST_W:
        return None
    inverse = _inverse(derived.M_r, set(model.parameters))
    names = _named(inverse)
    values = {name: entry for name, entry in zip(names, inverse, strict=True) if name != 0}
    W = (J * names * derived.B_r).applyfunc(lambda entry: factored(entry).xreplace(values))
    return None if max(map(_length, W), default=0) >= LONGEST_W else W


def _inverse(M_r: Expr, constants: Collection[Expr]) -> Expr:
    """M_r^-1 from cofactors; entries that are 0 stay 0, the determinant is one tidy sum."""
    names = _named(M_r)
    for i in range(M_r.rows):
        for k in range(i):
            names[i, k] = names[k, i]
    values = {name: entry for name, entry in zip(names, M_r, strict=True) if name != 0}

    def valued(entry: Expr) -> Expr:
        number, factors = sympy.factor_list(entry)
        powers = ((trig_reduce(base.xreplace(values), constants), n) for base, n in factors)
        return sympy.Mul(number, *(min((base, sympy.factor(base)), key=_length) ** n for base, n in powers))

    def quotient(entry: Expr) -> Expr:
        above, below = sympy.fraction(sympy.cancel(entry))
        return valued(above) / valued(below)

    return names.inv(method="ADJ").applyfunc(quotient)


def _named(matrix: Expr) -> Expr:
    """A matrix of symbols in place of the entries that are not 0."""
    return matrix.applyfunc(lambda entry: sympy.Dummy() if entry != 0 else sympy.Integer(0))


def _length(expression: Expr) -> int:
    return len(str(expression))


class Abbreviations:
    """Names s1, s2, ... for sums: those that long expressions repeat, and those that fill a line alone."""

    def __init__(self, taken: Collection[str], too_wide: Callable[[Expr], bool]) -> None:
        """`taken`: names that are in use; `too_wide`: whether a term runs off the line."""
        self._free = (name for name in (f"s{i}" for i in range(1, 10**6)) if name not in taken)
        self._too_wide = too_wide
        self._names: dict[Expr, Expr] = {}  # by sums in terms of earlier names, in the order of definition

    def applied(self, expressions: list[Expr]) -> tuple[list[Block], list[Expr]]:
        """What shows new definitions, each in terms of earlier ones, and the expressions in terms of all."""
        earlier = len(self._names)
        if any(_length(self._renamed(each)) > LONG for each in expressions):
            for each in sorted(_repeated_sums(expressions), key=lambda each: (_length(each), str(each))):
                self._name(self._renamed(each))
        shown = [self._narrowed(self._renamed(each)) for each in expressions]
        return equations({name: value for value, name in [*self._names.items()][earlier:]}, "Abbreviations:"), shown

    def _name(self, total: Expr) -> Expr:
        value = self._narrowed(total)
        if value.is_Add and value not in self._names:
            self._names[value] = sympy.Symbol(next(self._free), real=True)
        return self._names.get(value, value)

    def _narrowed(self, expression: Expr) -> Expr:
        """The same with a name for the longest sum inside each term that is too wide."""
        while True:
            wide = next((term for term in sympy.Add.make_args(expression) if self._too_wide(term)), None)
            inner = [] if wide is None else [each for each in _sums(wide) if each != wide]
            if not inner:
                return expression
            longest = max(inner, key=_length)
            expression = expression.xreplace({longest: self._name(longest)})

    def _renamed(self, expression: Expr) -> Expr:
        """Every named sum replaced by its name, from the inside out."""
        if not expression.args:
            return expression
        inner = expression.func(*map(self._renamed, expression.args))
        return self._names.get(inner, inner)


def _sums(expression: Expr) -> Iterator[Expr]:
    """Every sum in an expression that is worth a name; the angle of a sine is not."""
    if expression.is_Add:
        yield expression
    if not isinstance(expression, _ANGLE_FUNCTIONS):
        for argument in expression.args:
            yield from _sums(argument)


def _repeated_sums(expressions: list[Expr]) -> set[Expr]:
    """The sums that occur twice or more in all expressions together, other than inside another such sum."""
    met: set[Expr] = set(expressions)
    repeated: set[Expr] = set()

    def visit(expression: Expr) -> None:
        if expression.is_Add and expression in met:
            repeated.add(expression)
            return
        met.add(expression)
        if not isinstance(expression, _ANGLE_FUNCTIONS):
            for argument in expression.args:
                visit(argument)

    for expression in expressions:
        for argument in expression.args:
            visit(argument)
    return repeated - set(expressions)


def with_definitions(blocks: list[Block], taken: Collection[str]) -> list[Block]:
    """The blocks, before each the definitions of the auxiliary symbols that are new in it; `taken`: names in use.

    What is used once, and is short, stands where it is used instead.
    """
    names = _Names([each for block in blocks for each in _expressions(block)], taken)
    shown: list[Block] = []
    for block in blocks:
        lines = [Line(*each) for each in names.defined(list(_expressions(block)))]
        if lines:
            shown += [Words("Auxiliary symbols, each in terms of those before it:"), Lines(tuple(lines))]
        shown.append(names.put_into(block))
    return shown


class _Names:
    """The names of auxiliary symbols, and what has been defined."""

    def __init__(self, expressions: list[Expr], taken: Collection[str]) -> None:
        self._free = (name for name in (f"z{i}" for i in range(1, 10**9)) if name not in taken)
        chain = ordered(expressions)
        self._uses = Counter(each for shown in (*expressions, *(z.definition for z in chain)) for each in _uses(shown))
        self._shown: dict[Expr, Expr] = {}  # a name, or the definition of what is used once

    def defined(self, expressions: list[Expr]) -> Iterator[tuple[Expr, Expr]]:
        """Names and definitions of the auxiliary symbols that expressions need and that have not been met yet."""
        for each in ordered(expressions):
            if each in self._shown:
                continue
            definition = each.definition.xreplace(self._shown)
            if self._uses[each] == 1 and len(str(definition)) <= LONG:
                self._shown[each] = definition
            else:
                self._shown[each] = sympy.Symbol(next(self._free), real=True)
                yield self._shown[each], definition

    def put_into(self, block: Block) -> Block:
        """The block with names for its auxiliary symbols."""
        if isinstance(block, Matrix):
            return replace(block, entries=block.entries.applyfunc(self._named))
        if isinstance(block, Lines):
            tails = [line.tail and (line.tail[0], self._named(line.tail[1])) for line in block.lines]
            shown = zip(block.lines, tails, strict=True)
            return Lines(tuple(replace(line, right=self._named(line.right), tail=tail) for line, tail in shown))
        return block

    def _named(self, expression: Expr) -> Expr:
        return sympy.sympify(expression).xreplace(self._shown)


def _expressions(block: Block) -> Iterator[Expr]:
    """The expressions of a block that may contain auxiliary symbols."""
    if isinstance(block, Matrix):
        yield from (block.entries[place] for place in block.shown())
    if isinstance(block, Lines):
        for line in block.lines:
            yield from map(sympy.sympify, (line.right, *(line.tail or ())[1:]))


def _uses(expression: Expr) -> Iterator[Auxiliary]:
    """The auxiliary symbols of an expression, each as often as it occurs."""
    for each in auxiliaries_of(expression):
        yield from [each] * expression.count(each)
