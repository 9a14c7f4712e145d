"""Dimensions, the texts of units, `kg m^2`, `1/(m s)`, and the dimensions of expressions from their symbols' units.

A dimension is the powers of kg, m, s, A, K, mol and cd; rad has none. All units here are coherent: no factor hides in
them, so that equations in them hold as they stand.

What is not known stays silent: a symbol of unit 1 (which may be an unstated one), a number that may carry a unit (9.81,
or a term that is a number alone), a term without parameters (x.rate**2/2 of a mass of 1 kg that is not seen) unless it
is a symbol by itself, and time. What remains is sure, and a mismatch of it is an error in the equation or in a stated
unit.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import sympy

from servonode.definitions.source_location import NOWHERE, Place
from servonode.mechanics.model import Model
from servonode.mechanics.sensors import Sensor
from servonode.mechanics.symbols import Named, Output, Parameter, time

BASE = ("kg", "m", "s", "A", "K", "mol", "cd")
Dimension = tuple[Fraction, ...]
NONE: Dimension = (Fraction(0),) * len(BASE)
_TOKEN = re.compile(r"\s*(\*\*|[A-Za-z]+|[-+]?\d+(?:\.\d+)?|\^|[*/()]|.)")
Expr = Any
LONGEST_TERM = 60  # characters of a term that a mismatch shows
PURE = (1, 2, 3, 4)  # numerators and denominators of numbers without a unit, such as 1/2 m v^2; others may have one
_NUMBERS = {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log"}
_ALIKE = {"Abs", "wrap", "Max", "Min", "atan2"}  # whose arguments have one dimension


class UnitError(ValueError):
    """A text that is no unit; it says why, and what is known."""


def _of(**powers: int) -> Dimension:
    return tuple(Fraction(powers.get(name, 0)) for name in BASE)


KNOWN: Mapping[str, Dimension] = MappingProxyType(
    {name: _of(**{name: 1}) for name in BASE}
    | {
        "rad": NONE,
        "sr": NONE,
        "Hz": _of(s=-1),
        "N": _of(kg=1, m=1, s=-2),
        "Pa": _of(kg=1, m=-1, s=-2),
        "J": _of(kg=1, m=2, s=-2),
        "W": _of(kg=1, m=2, s=-3),
        "C": _of(A=1, s=1),
        "V": _of(kg=1, m=2, s=-3, A=-1),
        "F": _of(kg=-1, m=-2, s=4, A=2),
        "ohm": _of(kg=1, m=2, s=-3, A=-2),
        "Ohm": _of(kg=1, m=2, s=-3, A=-2),
        "S": _of(kg=-1, m=-2, s=3, A=2),
        "Wb": _of(kg=1, m=2, s=-2, A=-1),
        "T": _of(kg=1, s=-2, A=-1),
        "H": _of(kg=1, m=2, s=-2, A=-2),
    }
)
_NAMED = ("J", "W", "N", "V", "Pa")  # in which a dimension is printed where it is theirs


def times(first: Dimension, second: Dimension, power: Fraction = Fraction(1)) -> Dimension:
    """The dimension of first * second^power."""
    return tuple(a + power * b for a, b in zip(first, second, strict=True))


def raised(dimension: Dimension, power: Fraction) -> Dimension:
    """The dimension to a power."""
    return times(NONE, dimension, power)


def parse_unit(text: str) -> Dimension:
    """The dimension of a unit's text. Factors side by side or with * multiply; / divides by the next factor alone.

    Raises:
        UnitError: a unit is not known, or the text is ambiguous or no product of powers.
    """
    reader = _Reader(text)
    dimension = reader.product()
    if reader.left:
        raise UnitError(f"unit {text!r}: {reader.left[0]!r} is not expected here; write a product of powers, kg m^2/s")
    return dimension


class _Reader:
    """The tokens of a unit's text that are still to be read."""

    def __init__(self, text: str) -> None:
        self.text, self.left = text, [token for token in _TOKEN.findall(text) if token.strip()]

    def product(self) -> Dimension:
        dimension, divided = self._power(), False
        while self.left and self.left[0] != ")":
            sign = self.left.pop(0) if self.left[0] in ("*", "/") else ""
            if divided and sign != "/":
                text = f"unit {self.text!r}: what the / divides by is ambiguous; write 1/(m s), or put the factor"
                raise UnitError(f"{text} before")
            divided = divided or sign == "/"
            dimension = times(dimension, self._power(), Fraction(-1 if sign == "/" else 1))
        return dimension

    def _power(self) -> Dimension:
        factor = self._factor()
        if self.left and self.left[0] in ("^", "**"):
            self.left.pop(0)
            exponent = self.left.pop(0) if self.left else ""
            try:
                return raised(factor, Fraction(exponent))
            except ValueError:
                raise UnitError(f"unit {self.text!r}: {exponent!r} is not a power; write m^2 or m^-1") from None
        return factor

    def _factor(self) -> Dimension:
        token = self.left.pop(0) if self.left else ""
        if token == "(":
            inside = self.product()
            if not self.left or self.left.pop(0) != ")":
                raise UnitError(f"unit {self.text!r}: a bracket is not closed; close it")
            return inside
        if token == "1":
            return NONE
        if token not in KNOWN:
            text = f"unit {self.text!r}: {token!r} is not known; known are {', '.join(KNOWN)} and their powers and"
            text += " products, such as kg m^2/s^2, and 1 (servonode calculates in SI units and radians)"
            raise UnitError(text)
        return KNOWN[token]


def unit_text(dimension: Dimension) -> str:
    """A dimension as a unit: `J`, `kg m^2/s`, `1/s`, `1`."""
    for name in _NAMED:
        if KNOWN[name] == dimension:
            return name
    above = [_factor_text(name, power) for name, power in zip(BASE, dimension, strict=True) if power > 0]
    below = [_factor_text(name, -power) for name, power in zip(BASE, dimension, strict=True) if power < 0]
    under = f"({' '.join(below)})" if len(below) > 1 else "".join(below)
    return (" ".join(above) or "1") + (f"/{under}" if under else "")


def _factor_text(name: str, power: Fraction) -> str:
    return name if power == 1 else f"{name}^{power}"


PER_SECOND = raised(KNOWN["s"], Fraction(-1))


def pure(number: Expr) -> bool:
    """Whether a factor is a number without a unit."""
    if isinstance(number, sympy.NumberSymbol):
        return True
    fraction = Fraction(float(number)).limit_denominator(12)
    exact = float(fraction) == float(number)
    return exact and abs(fraction.numerator) in PURE and (fraction.denominator <= PURE[-1] or fraction.numerator == 1)


def only_signs(number: Expr) -> bool:
    """Whether a factor is 1 or -1: in a law any other number may be a gain."""
    return bool(number in (1, -1)) or isinstance(number, sympy.NumberSymbol)


class Dimensions:
    """The dimensions of expressions of symbols; `mismatches` collects what does not fit, as sentences."""

    def __init__(self, known: Mapping[str, Dimension], pure: Callable[[Expr], bool] = pure) -> None:
        self.known, self.mismatches, self._pure = known, list[str](), pure

    def expect(
        self, what: str, expression: Expr, wanted: Dimension | None, place: Place = NOWHERE, bare: bool = False
    ) -> None:
        """Note where `expression` contradicts itself, and where it is sure not to have the wanted dimension.

        bare: it has no coefficients that could be a number, such as the kinematics v*cos(psi).
        """
        found, stated = self.of(what, expression, place), sympy.sympify(expression)
        if (bare or stated.is_Add or sure(stated)) and None not in (found, wanted) and found != wanted:
            text = f"{what} is {shortened(expression)}, in {_unit(found)}; it must be in {_unit(wanted)}"
            self._note(text, place)

    def of(self, what: str, expression: Expr, place: Place = NOWHERE) -> Dimension | None:
        """The dimension of an expression; None where it is not sure. Sums that do not fit are noted."""
        found: dict[Expr, Dimension | None] = {}
        waiting = [(sympy.sympify(expression), False)]
        while waiting:
            node, ready = waiting.pop()
            if node in found:
                continue
            if ready or not node.args:
                found[node] = self._node(what, node, found, place)
            else:
                waiting += [(node, True), *((each, False) for each in node.args)]
        return found[sympy.sympify(expression)]

    def _node(self, what: str, node: Expr, found: Mapping[Expr, Dimension | None], place: Place) -> Dimension | None:
        if node.is_Symbol:
            return self.known.get(node.name)
        if node.is_number:
            return NONE if self._pure(node) else None
        if node.is_Add:
            return self._alike(what, [each for each in node.args if not each.is_number], found, "is added to", place)
        if node.is_Mul:
            return _product(found[each] for each in node.args)
        name = type(node).__name__
        if node.is_Pow or name == "root":
            exponent = sympy.Rational(1, 2) if name == "root" else node.args[1]
            return _power(found[node.args[0]], exponent)
        if name in _ALIKE:
            alike = self._alike(what, [each for each in node.args if not each.is_number], found, "stands beside", place)
            return NONE if name == "atan2" else alike
        if name == "choose":  # of a condition and its two values
            return self._alike(what, [each for each in node.args[1:] if not each.is_number], found, "or", place)
        if name in _NUMBERS:
            return self._number(what, node, found[node.args[0]], place)
        return NONE if name == "sign" else None

    def _number(self, what: str, node: Expr, argument: Dimension | None, place: Place) -> Dimension:
        if argument not in (None, NONE) and has_parameters(node):
            name, of = type(node).__name__, shortened(node.args[0])
            self._note(f"{what}: {name} is taken of {of} ({_unit(argument)}), which is not a number or angle", place)
        return NONE

    def _alike(
        self, what: str, terms: Iterable[Expr], found: Mapping[Expr, Dimension | None], how: str, place: Place
    ) -> Dimension | None:
        known = [each for each in terms if found[each] is not None and sure(each)]
        if not known:
            return None
        first = known[0]
        for each in known[1:]:
            if found[each] != found[first]:
                text = f"{shortened(each)} ({_unit(found[each])}) {how} {shortened(first)} ({_unit(found[first])})"
                self._note(f"{what}: {text}", place)
                return None
        return found[first]

    def _note(self, text: str, place: Place) -> None:
        self.mismatches.append(f"{text} ({place})" if place else text)


def has_parameters(expression: Expr) -> bool:
    return any(isinstance(each, Parameter) for each in expression.free_symbols)


def sure(term: Expr) -> bool:
    """Whether no number can hide in a term: it has parameters, or is a symbol by itself."""
    return has_parameters(term) or term.is_Symbol or (-term).is_Symbol


def _product(factors: Iterable[Dimension | None]) -> Dimension | None:
    dimension = NONE
    for each in factors:
        if each is None:
            return None
        dimension = times(dimension, each)
    return dimension


def _power(base: Dimension | None, exponent: Expr) -> Dimension | None:
    if base is None:
        return None
    if exponent.is_Rational:
        return raised(base, Fraction(int(exponent.p), int(exponent.q)))
    return NONE if base == NONE else None


def _unit(dimension: Dimension | None) -> str:
    return "no sure unit" if dimension is None else unit_text(dimension)


def shortened(expression: Expr) -> str:
    """An expression as a text of limited length."""
    text = str(expression)
    return text if len(text) <= LONGEST_TERM else f"{text[: LONGEST_TERM - 4]} ..."


def stated_dimension(name: str, unit: str, unknown: list[str]) -> Dimension | None:
    """The dimension of a stated unit; None for 1, which may be an unstated one, and for one that goes to `unknown`."""
    try:
        return None if unit == "1" else parse_unit(unit)
    except UnitError as error:
        unknown.append(f"{name}: {error}")
        return None


def known_dimensions(model: Model) -> tuple[dict[str, Dimension], list[str]]:
    """The dimensions of a machine's symbols and of their rates, by name, where they are sure; and the unknown units.

    Places of links are numbers as a rule, whose unit nobody states: what follows from a tree is not sure.
    """
    known, unknown = dict[str, Dimension](), list[str]()
    for symbol in model.symbols:
        dimension = stated_dimension(symbol.name, symbol.quantity.unit, unknown)
        if dimension is not None:
            known[symbol.name] = dimension
            known |= _rates(symbol, dimension)
    for each in model.constraints if model.tree is None else ():
        row = Dimensions(known).of("", each.row)
        if row is not None:
            known[each.quantity.name] = times(KNOWN["W"], row, Fraction(-1))  # its power is that of the row
    return known, unknown


def _rates(symbol: Named, dimension: Dimension) -> dict[str, Dimension]:
    """The first and second rate of a symbol, by name."""
    rates = {symbol.rate.name: times(dimension, PER_SECOND)}
    acceleration = getattr(symbol, "acceleration", None)
    if acceleration is not None:
        rates[acceleration.name] = times(dimension, PER_SECOND, Fraction(2))
    return rates


def machine_mismatches(model: Model, rows: bool = True) -> tuple[list[str], list[str]]:
    """What does not fit in a machine's equations, and the units that are not known, as sentences.

    `rows`: look at constraints, conditions, jumps, outputs and sensors too.
    """
    known, unknown = known_dimensions(model)
    found = Dimensions(known)
    for word, wanted in (("kinetic", "J"), ("potential", "J"), ("dissipation", "W")):
        found.expect(word, getattr(model, word), KNOWN[wanted], model.place.argument(word))
    for body in model.bodies:
        found.expect(f"mass of body {body.name}", body.mass, KNOWN["kg"], body.place)
        found.expect(f"kinetic energy of body {body.name}", body.kinetic, KNOWN["J"], body.place)
    for q, rate in model.kinematics.items() if model.tree is None else ():
        wanted_rate = times(known[q.name], PER_SECOND) if q.name in known else None
        if not sympy.sympify(rate).free_symbols <= {time}:
            found.expect(f"rate of {q.name}", rate, wanted_rate, model.place_of_kinematics(q), bare=True)
    for force, rate in model.acting.items():
        _power_of(found, force, rate, model.place)
    for i, (known_force, rate) in enumerate(model.forces):
        found.expect("power of a force", known_force * rate, KNOWN["W"], model.place.argument("forces", i))
    for state, rate in model.first_order.items():
        wanted_rate = times(known[state.name], PER_SECOND) if state.name in known else None
        found.expect(f"rate of {state.name}", rate, wanted_rate, model.place.argument("first_order"))
    for u, action in model.safe.items():
        found.expect(f"safe action of {u.name}", action, known.get(u.name), model.place.argument("safe"))
    if rows:
        _expect_rows(found, model)
    return list(dict.fromkeys(found.mismatches)), unknown


def _power_of(found: Dimensions, force: Named, rate: Expr, place: Place) -> None:
    """An input times the rate on which it does work is a power."""
    of, mine = found.of(f"rate of {force.name}", rate, place), found.known.get(force.name)
    if None in (of, mine) or sympy.sympify(rate) == 0:
        return
    wanted = times(KNOWN["W"], of, Fraction(-1))  # type: ignore[arg-type]
    if mine != wanted:
        text = f"input {force.name} ({force.quantity.unit}) does work on {shortened(rate)} ({_unit(of)}): the power is "
        text += f"in {_unit(times(mine, of))}, it must be in W, the input in {_unit(wanted)}"  # type: ignore[arg-type]
        found.mismatches.append(text)


def _expect_rows(found: Dimensions, model: Model) -> None:
    """Constraints, conditions, jumps, outputs and sensors."""
    for constraint in model.constraints if model.tree is None else ():
        what = f"constraint {constraint.quantity.name}"
        for row in (constraint.finite, constraint.row):
            found.expect(what, 0 if row is None else row, None, constraint.place)
    for stabilised in model.stabilised:
        what = f"constraint {stabilised.quantity.name}"
        found.expect(what, stabilised.residual, stated_dimension(what, stabilised.quantity.unit, []), stabilised.place)
    for name, identity in model.identities.items():
        found.expect(f"identity {name}", identity, None, model.place.argument("identities"))
    for condition in (*model.requirements, *model.warnings, *model.faults):
        found.expect("a condition", condition.margin, None, condition.place)
    for jump in model.jumps:
        for symbol, value in jump.changes.items():
            found.expect(f"value of {symbol} after a jump", value, found.known.get(symbol.name), jump.place)
    seen: list[tuple[str, Output | Sensor]] = [(f"output {each.quantity.name}", each) for each in model.outputs]
    seen += [(f"sensor {each.quantity.name}", each) for each in model.sensors]
    for what, value in seen:
        found.expect(what, value.expression, stated_dimension(what, value.quantity.unit, []), value.place)
