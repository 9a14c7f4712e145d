"""Derived expressions made readable without a change of value: angle sums, signs, abbreviations for long sums."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import sympy
from sympy.simplify.fu import TR10i

from servonode.mechanics.equations import Equations
from servonode.mechanics.straight_line import auxiliaries_of
from servonode.mechanics.trig_reduce import is_large, trig_reduce

Expr = Any
LONG = 160  # characters of sympy's own text, beyond which repeated sums get a name
FACTORED = 1000  # characters up to which the search for factors is a matter of milliseconds
LONGEST_W = 400  # characters of an entry of W that is still written out


def neat(expression: Expr) -> Expr:
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


def input_matrix(equations: Equations, J: Expr) -> Expr | None:
    """W = J M_r^-1 B_r (n_s, n_tau), or None where the system is large or an entry long."""
    model = equations.model
    if len(model.velocities) > 3 or len(model.inputs) > 2 or max(map(_length, J), default=0) > LONGEST_W:
        return None
    inverse = _inverse(equations.M_r, set(model.parameters))
    names = _named(inverse)
    values = {name: entry for name, entry in zip(names, inverse, strict=True) if name != 0}
    W = (J * names * equations.B_r).applyfunc(lambda entry: neat(entry).xreplace(values))
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
        return sympy.Mul(
            number, *(_shortest(trig_reduce(base.xreplace(values), constants)) ** n for base, n in factors)
        )

    def quotient(entry: Expr) -> Expr:
        above, below = sympy.fraction(sympy.cancel(entry))
        return valued(above) / valued(below)

    return names.inv(method="ADJ").applyfunc(quotient)


def _named(matrix: Expr) -> Expr:
    """A matrix of symbols in place of the entries that are not 0."""
    return matrix.applyfunc(lambda entry: sympy.Dummy() if entry != 0 else sympy.Integer(0))


def _shortest(expression: Expr) -> Expr:
    """The expression or its factors, whichever is shorter."""
    return min((expression, sympy.factor(expression)), key=_length)


def _length(expression: Expr) -> int:
    return len(str(expression))


class Abbreviations:
    """Names s1, s2, ... for sums: those that long expressions repeat, and those that fill a line alone."""

    def __init__(self, taken: Collection[str], too_wide: Callable[[Expr], bool]) -> None:
        """`taken`: names that are in use; `too_wide`: whether a term runs off the line."""
        self._free = (name for name in (f"s{i}" for i in range(1, 10**6)) if name not in taken)
        self._too_wide = too_wide
        self._known: dict[Expr, Expr] = {}  # the sums of earlier names

    def applied(self, expressions: list[Expr]) -> tuple[dict[Expr, Expr], list[Expr]]:
        """New definitions, each in terms of earlier ones, and the expressions in terms of all."""
        found: dict[Expr, Expr] = {}
        expressions = [_renamed(each, self._known) for each in expressions]
        if any(_length(each) > LONG for each in expressions):
            found, expressions = _repeated(expressions)
        found, expressions = self._narrowed(found, expressions)
        names = {dummy: sympy.Symbol(next(self._free), real=True) for dummy in found}
        definitions = {names[dummy]: value.xreplace(names) for dummy, value in found.items()}
        self._known |= {value: name for name, value in definitions.items()}
        return definitions, [each.xreplace(names) for each in expressions]

    def _narrowed(self, found: dict[Expr, Expr], expressions: list[Expr]) -> tuple[dict[Expr, Expr], list[Expr]]:
        """The same with a name for the longest sum inside each term that is too wide."""
        definitions: dict[Expr, Expr] = {}
        for dummy, value in found.items():
            definitions[dummy] = self._narrow(value, definitions)
        expressions = [self._narrow(each, definitions) for each in expressions]
        return _in_order(definitions), expressions

    def _narrow(self, expression: Expr, definitions: dict[Expr, Expr]) -> Expr:
        wide = next((term for term in sympy.Add.make_args(expression) if self._too_wide(term)), None)
        inner = [] if wide is None else [each for each in _sums(wide) if each != wide]
        if not inner:
            return expression
        longest = max(inner, key=_length)
        known = {value: dummy for dummy, value in definitions.items()}
        if longest not in known:
            dummy = sympy.Dummy(real=True)
            definitions[dummy] = longest
            definitions[dummy] = self._narrow(longest, definitions)
            known[longest] = dummy
        return self._narrow(expression.xreplace({longest: known[longest]}), definitions)


def _sums(expression: Expr) -> Iterator[Expr]:
    """Every sum in an expression that is worth a name; the angle of a sine is not."""
    if expression.is_Add:
        yield expression
    if not isinstance(expression, (sympy.sin, sympy.cos, sympy.tan)):
        for argument in expression.args:
            yield from _sums(argument)


def _repeated(expressions: list[Expr]) -> tuple[dict[Expr, Expr], list[Expr]]:
    """Names for the sums that occur twice or more, innermost first, in all expressions together."""
    counts = Counter(each for expression in expressions for each in _sums(expression) if each not in expressions)
    often = sorted((each for each, n in counts.items() if n > 1), key=lambda each: (_length(each), str(each)))
    definitions: dict[Expr, Expr] = {}
    for each in often:
        names = {value: dummy for dummy, value in definitions.items()}
        definitions[sympy.Dummy(real=True)] = _renamed(each, names)
    names = {value: dummy for dummy, value in definitions.items()}
    return _used_twice(definitions, [_renamed(each, names) for each in expressions])


def _renamed(expression: Expr, names: dict[Expr, Expr]) -> Expr:
    """Every named sum replaced by its name, from the inside out."""
    if not expression.args:
        return expression
    inner = expression.func(*(_renamed(argument, names) for argument in expression.args))
    return names.get(inner, inner)


def _used_twice(definitions: dict[Expr, Expr], expressions: list[Expr]) -> tuple[dict[Expr, Expr], list[Expr]]:
    """Without the names that, after all others are in place, occur only once."""
    for dummy in reversed(definitions):
        value = definitions[dummy]
        uses = sum(each.count(dummy) for each in (*definitions.values(), *expressions))
        if uses < 2:
            definitions = {name: each.xreplace({dummy: value}) for name, each in definitions.items() if name != dummy}
            expressions = [each.xreplace({dummy: value}) for each in expressions]
    return definitions, expressions


def _in_order(definitions: dict[Expr, Expr]) -> dict[Expr, Expr]:
    """Definitions sorted so that each speaks of earlier ones only."""
    ordered: dict[Expr, Expr] = {}

    def place(dummy: Expr) -> None:
        for needed in sorted(definitions[dummy].free_symbols & definitions.keys() - ordered.keys(), key=str):
            place(needed)
        ordered.setdefault(dummy, definitions[dummy])

    for dummy in definitions:
        place(dummy)
    return ordered
