"""The functions that define a machine: symbols, bodies, constraints, outputs, conditions.

All expressions are sympy expressions of the symbols made here; `symbol.rate` is the time derivative of a coordinate or
velocity. A `Model` puts them together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from servonode.mechanics.description import ModelError, Quantity, Requirement, derivative_name
from servonode.mechanics.differentiate import diff
from servonode.mechanics.functions import COMPILED
from servonode.mechanics.source_location import Place, here

WORDS = True  # lines of this module are not a user's, see source_location.here
LONGEST_SIDE = 120  # characters of an expression that an error shows
time = sympy.Symbol("t", real=True)
_WITHOUT_VALUE = {sympy.I, sympy.nan, sympy.zoo, sympy.oo, -sympy.oo}
Expr = Any  # sympy ships no types; every expression is a sympy.Expr


def check_name(kind: str, name: str) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise ModelError(f"{kind} name {name!r}: names are ASCII identifiers (phi, m1, c_w)", here())


def listed(what: str, keyword: str, given: Any, place: Place) -> tuple[Any, ...]:
    """The entries of an argument that is a sequence.

    Raises:
        ModelError: it is not a sequence, such as one symbol where a tuple is meant.
    """
    if isinstance(given, str | sympy.Basic | Mapping) or not isinstance(given, Iterable):
        text = f"{what}: {keyword}= is not a sequence; write {keyword}=(..., ) with a comma for a single one"
        raise ModelError(text, place.argument(keyword, follow=False))
    return tuple(given)


def check_kinds(what: str, keyword: str, entries: Iterable[Any], kind: type, place: Place) -> None:
    """Check that every entry was made by the function of its kind.

    Raises:
        ModelError: one was not.
    """
    for i, each in enumerate(entries):
        if not isinstance(each, kind):
            word = kind.__name__.lower() + ("_" if kind.__name__ == "Input" else "")
            text = f"{what}: {each!r} in {keyword}= was not made by {word}(...); make it so"
            raise ModelError(text, place.argument(keyword, i))


def refuse_uncompilable(what: str, expression: Any, place: Place) -> None:
    """An expression must consist of numbers, symbols, sums, products, powers and functions that can be compiled.

    Raises:
        ModelError: it is a text or None, has no real value, or contains something else.
    """
    if expression is None or isinstance(expression, str | bool):
        raise ModelError(f"{what}: {expression!r} is no expression; state it in symbols and numbers", place)
    stated = sympy.sympify(expression)
    if not isinstance(stated, sympy.Expr):
        raise ModelError(f"{what}: {expression!r} is no expression; state one", place)
    nodes = nodes_of(stated)
    if not _WITHOUT_VALUE.isdisjoint(nodes):
        raise ModelError(f"{what}: {expression} has no finite real value; correct it", place)
    for node in nodes:
        known = isinstance(node, sympy.Add | sympy.Mul | sympy.Pow | sympy.Number | sympy.NumberSymbol | sympy.Symbol)
        if not known and type(node).__name__ not in COMPILED:
            text = f"{what} contains {node}, which cannot be compiled; use {', '.join(sorted(COMPILED))}"
            raise ModelError(text, place)


def nodes_of(expression: Expr) -> dict[Expr, None]:
    """The different nodes of an expression, each before its arguments."""
    found: dict[Expr, None] = {}
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += reversed(node.args)
    return found


class Rate(sympy.Symbol):  # type: ignore[misc]
    """A time derivative as a symbol of its own."""

    def __new__(cls, name: str, order: int) -> "Rate":
        rate: Rate = sympy.Symbol.__xnew__(cls, derivative_name(name, order), real=True)
        return rate


class Named(sympy.Symbol):  # type: ignore[misc]
    """A real symbol that carries its quantity (description, unit, default, bounds) and where it was made."""

    quantity: Quantity
    place: Place
    vector: str | None = None  # the vector of which it is an entry

    def __new__(cls, quantity: Quantity) -> "Named":
        name = quantity.name
        if not (name.isascii() and name.isidentifier()) or name.endswith(("_dot", "_ddot")) or name == "t":
            raise ModelError(
                f"{cls.__name__.lower()} name {name!r}: names are ASCII identifiers (phi, m1, c_w), "
                "not 't' and without the endings _dot and _ddot, which mark rates",
                here(),
            )
        return cls._made(quantity)

    @classmethod
    def _made(cls, quantity: Quantity) -> "Named":
        symbol: Named = sympy.Symbol.__xnew__(cls, quantity.name, real=True)
        symbol.quantity, symbol.place = quantity, here()
        return symbol

    def __getnewargs_ex__(self) -> tuple[tuple[Quantity], dict[str, Any]]:
        return (self.quantity,), {}

    @property
    def rate(self) -> Expr:
        """The time derivative, as a symbol of its own."""
        return Rate(self.name, 1)


class Coordinate(Named):
    """A generalized coordinate q."""

    @property
    def acceleration(self) -> Expr:
        """The second time derivative, for outputs."""
        return Rate(self.name, 2)

    def own_velocity(self) -> "Velocity":
        """The rate of this coordinate as a velocity: what a coordinate without kinematics moves with."""
        unit = "1/s" if self.quantity.unit == "1" else f"{self.quantity.unit}/s"
        own = Velocity._made(Quantity(f"{self.name}_dot", f"rate of {self.name}", unit))
        assert isinstance(own, Velocity)
        own.of, own.place = self, self.place
        return own


class Velocity(Named):
    """An independent quasi-velocity v, with q' = G v; `of` is the coordinate whose rate it is, if it is one."""

    of: Coordinate | None = None

    @property
    def rate(self) -> Expr:
        """The acceleration, as a symbol of its own."""
        return self.of.acceleration if self.of is not None else Rate(self.name, 1)


class Parameter(Named):
    """A constant of the machine or of a program.

    A launch file may state it as a function of time; `rate` is then its derivative, else zero.
    """


class Input(Named):
    """A generalized force that the controller commands."""


class Reaction(Named):
    """An unknown that rows of the machine itself determine: a contact force, or the rate of a contact point."""


class Constraint:
    """A passive constraint, its multiplier a force: `row = 0` linear in the rates, the row of A q' - b.

    A holonomic one is stated as `finite = 0`, an expression of coordinates and time; its row is the derivative.
    """

    def __init__(self, quantity: Quantity, stated: Expr) -> None:
        check_name("constraint", quantity.name)
        self.quantity, self.place = quantity, here()
        self.multiplier = sympy.Symbol(quantity.name, real=True)
        refuse_uncompilable(f"constraint {quantity.name}", stated, self.place)
        stated = sympy.sympify(stated)
        moves = any(isinstance(symbol, Rate) for symbol in stated.free_symbols)
        self.finite: Expr | None = None if moves else stated
        self.row = stated if moves else self._derivative(stated)

    def _sympy_(self) -> Expr:
        """Its multiplier, so that the constraint itself can stand in an output: Abs(N)."""
        return self.multiplier

    def _derivative(self, finite: Expr) -> Expr:
        coordinates = sorted((q for q in finite.free_symbols if isinstance(q, Coordinate)), key=lambda q: q.name)
        if not coordinates:
            text = f"constraint {self.quantity.name}: it contains no coordinate and no rate; state what it holds"
            raise ModelError(text, self.place)
        return sympy.Add(*(diff(finite, q) * q.rate for q in coordinates), diff(finite, time))

    def mapped(self, change: Callable[[Expr], Expr]) -> "Constraint":
        """The same constraint with its expression changed."""
        other = Constraint.__new__(Constraint)
        other.__dict__ |= self.__dict__
        if self.finite is None:
            other.row = change(self.row)
        else:
            other.finite = change(self.finite)
            other.row = other._derivative(other.finite)
        return other


@dataclass(frozen=True)
class Body:
    """A rigid body by its motion: velocity of the centre of mass and angular velocity, in axes that do not turn.

    Each is linear in rates and velocities. `inertia` is the central one in the same axes, a matrix that turns with
    the body; a number for a plane body or a ball.
    """

    name: str
    mass: Expr
    velocity: sympy.MatrixBase
    inertia: sympy.MatrixBase
    angular_velocity: sympy.MatrixBase
    place: Place = field(default_factory=here)

    @property
    def momenta(self) -> tuple[tuple[Expr, Expr], ...]:
        """Each motion u with its inertia N; the momentum is N u."""
        return (
            (self.velocity, self.mass * sympy.eye(len(self.velocity))),
            (self.angular_velocity, self.inertia),
        )

    @property
    def kinetic(self) -> Expr:
        """Its kinetic energy [J]."""
        return sympy.Add(*((u.T * N * u)[0] for u, N in self.momenta if len(u))) / 2

    @property
    def free_symbols(self) -> set[Any]:
        parts = (sympy.sympify(self.mass), self.velocity, self.inertia, self.angular_velocity)
        return set().union(*(part.free_symbols for part in parts))

    def mapped(self, change: Callable[[Expr], Expr]) -> "Body":
        """The same body with its expressions changed."""
        parts = {"velocity": self.velocity, "inertia": self.inertia, "angular_velocity": self.angular_velocity}
        changed = {name: part.applyfunc(change) for name, part in parts.items()}
        return replace(self, mass=change(self.mass), **changed)


def coordinate(
    name: str,
    description: str,
    unit: str = "1",
    *,
    start: float = 0.0,
    limit: float | None = None,
    rate_limit: float | None = None,
) -> Coordinate:
    """A generalized coordinate; its rate is `.rate`. `start` is its value at t = 0 unless the launch file says else.

    limit: the largest magnitude that a machine's reading of it is believed to have, rate_limit: its fastest believable
    change [unit per s]; beyond them a machine behind a driver is in fault (`plant.safety.state_limit` overrides).
    """
    return Coordinate(Quantity(name, description, unit, start, **_reading(name, limit, rate_limit)))


def velocity(
    name: str,
    description: str,
    unit: str = "1",
    *,
    start: float = 0.0,
    limit: float | None = None,
    rate_limit: float | None = None,
) -> Velocity:
    """An independent quasi-velocity; its rate (an acceleration, for outputs) is `.rate`. Else as a coordinate."""
    return Velocity(Quantity(name, description, unit, start, **_reading(name, limit, rate_limit)))


def _reading(name: str, limit: float | None, rate_limit: float | None) -> dict[str, Any]:
    """The limits of a state's readings.

    Raises:
        ModelError: one is not a positive number.
    """
    for word, value in (("limit", limit), ("rate_limit", rate_limit)):
        if value is not None and not 0 < value < float("inf"):
            raise ModelError(f"{name}: {word}={value} is not a positive number; give one, or leave it out", here())
    return {"limit": limit, "rate_limit": rate_limit}


def vector(
    word: Callable[..., Any], name: str, description: str, unit: str = "1", *, start: Sequence[float] = (0, 0, 0)
) -> sympy.MatrixBase:
    """A column of coordinates or velocities called name_0, name_1, ...; outside they go as one list `name`.

    `word` is `coordinate` or `velocity`; `start` has as many entries as the vector.
    """
    entries = [word(f"{name}_{i}", f"{description}, entry {i}", unit, start=float(s)) for i, s in enumerate(start)]
    for entry in entries:
        entry.vector = name
    return sympy.Matrix(entries)


def body(
    name: str,
    *,
    mass: Expr = 0,
    velocity: Sequence[Expr] = (),
    inertia: Expr = 0,
    angular_velocity: Expr | Sequence[Expr] = (),
) -> Body:
    """A rigid body: `velocity` of its centre of mass, `angular_velocity`, both in axes that do not turn.

    Plane bodies have one angular velocity, others three. `inertia` is a number, or a 3 by 3 matrix that turns with the
    body. Stated in rates alone it is the same as its kinetic energy; in velocities it also serves motions that are the
    rate of no coordinate, such as the spin of a ball.

    Raises:
        ModelError: the inertia does not fit the angular velocity.
    """
    spin = sympy.Matrix(list(angular_velocity) if isinstance(angular_velocity, Sequence | sympy.MatrixBase)
                        else [angular_velocity])  # fmt: skip
    N = inertia if isinstance(inertia, sympy.MatrixBase) else sympy.sympify(inertia) * sympy.eye(len(spin))
    if N.shape != (len(spin), len(spin)):
        text = f"body {name}: an inertia of {N.shape[0]} by {N.shape[1]} for {len(spin)} angular velocities"
        raise ModelError(f"{text}; state a number, or as many rows as angular velocities", here())
    return Body(name, sympy.sympify(mass), sympy.Matrix(list(velocity)), N, spin)


def parameter(
    name: str,
    description: str,
    unit: str = "1",
    *,
    default: float | None = None,
    above: float | None = None,
    at_least: float | None = None,
) -> Parameter:
    """A constant with its default [unit] and bounds (`above`: strict, `at_least`: inclusive)."""
    quantity = Quantity(name, description, unit, default, above, at_least)
    complaint = None if default is None else quantity.complaint(default)
    if complaint:
        raise ModelError(f"parameter {name}: its default {complaint}; correct the default or the bound", here())
    return Parameter(quantity)


def input_(name: str, description: str, unit: str = "1") -> Input:
    """A commanded generalized force; the model's `inputs` say on which rate it does work."""
    return Input(Quantity(name, description, unit))


def reaction(name: str, description: str, unit: str = "N") -> Reaction:
    """An unknown that the `stabilised` rows of the machine determine at every evaluation of the right-hand side.

    The model's `reactions` say on which rate it does work, 0 for none. It may be the rate of a coordinate.
    """
    return Reaction(Quantity(name, description, unit))


def constraint(name: str, description: str, stated: Expr, unit: str = "N") -> Constraint:
    """A passive constraint `stated` = 0; `name`, `description`, `unit` are its multiplier's.

    Holonomic if `stated` contains no rate, such as x**2 + y**2 - l**2; else linear in the rates. Its right-hand side
    may move: terms of time and coordinates alone, such as alpha.rate - w*time.
    """
    return Constraint(Quantity(name, description, unit), stated)


@dataclass(frozen=True)
class Output:
    """A monitored value: an expression of states, rates, accelerations, inputs and multipliers."""

    quantity: Quantity
    expression: Expr
    place: Place = field(default_factory=here)


def output(name: str, description: str, expression: Expr, unit: str = "1") -> Output:
    """A monitored value, never fed back."""
    check_name("output", name)
    refuse_uncompilable(f"output {name}", expression, here())
    return Output(Quantity(name, description, unit), sympy.sympify(expression))


@dataclass(frozen=True)
class Condition:
    """A condition `margin > 0` (strict) or `margin >= 0`, with the sentence that explains a violation.

    sides: what must be greater, and what it must be greater than; their difference is the margin.
    """

    margin: Expr
    requirement: Requirement
    sides: tuple[Expr, Expr]
    place: Place = field(default_factory=here)


def condition(relation: Expr, text: str, name: str = "machine") -> Condition:
    """A condition from a sympy relation such as `I1 >= m1 * d1**2`; `text` says what a violation means.

    name: what the fault is called, where a violation is one: "fallen", "contact_lost".
    """
    check_name("fault", name)
    if not isinstance(relation, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)):
        raise ModelError(f"condition {relation!r}: state it as a relation, for example I1 >= m1*d1**2", here())
    names = sorted(s.name for s in relation.free_symbols if isinstance(s, Parameter))
    strict = isinstance(relation, (sympy.Gt, sympy.Lt))
    requirement = Requirement(text, strict, tuple(names), name, _relation_text(relation, strict))
    return Condition(relation.gts - relation.lts, requirement, (relation.gts, relation.lts))


def margins_and_sides(conditions: Sequence[Condition]) -> list[Expr]:
    """The margins of all conditions, then their greater sides, then what these must be greater than."""
    return [
        *(each.margin for each in conditions),
        *(each.sides[0] for each in conditions),
        *(each.sides[1] for each in conditions),
    ]


def _relation_text(relation: Expr, strict: bool) -> str:
    """The relation in words about one side: a symbol or with one as a term, where there is such a side.

    {0} is the value of the side that must be greater, {1} that of the other.
    """
    sides = [(relation.lhs, relation.rhs), (relation.rhs, relation.lhs)]
    first, second = max(sides, key=lambda each: (each[0].is_Symbol, bool(_unit_of(each[0]))))
    values = {relation.gts: "{0}", relation.lts: "{1}"}
    words = (("at least", "greater than") if first == relation.gts else ("at most", "less than"))[strict]
    return f"{_side_text(first, values)}{_unit_of(first)}, must be {words} {_side_text(second, values)}"


class _SidePrinter(StrPrinter):  # type: ignore[misc]
    def _print_Abs(self, expr: Expr) -> str:
        return f"|{self._print(expr.args[0])}|"


def _side_text(side: Expr, values: Mapping[Expr, str]) -> str:
    """`a*b = VALUE`; a number is its own value, and what is too long to be read is given by its value alone."""
    text = str(_SidePrinter({"full_prec": False}).doprint(side))
    if side.is_Integer or side.is_Float:
        return text
    return f"{text} = {values[side]}" if len(text) <= LONGEST_SIDE else values[side]


def _unit_of(side: Expr) -> str:
    """The unit of a term of the side that is a symbol by itself, with a space before it; empty where it has none."""
    quantities = (getattr(term, "quantity", None) for term in sympy.Add.make_args(side))
    unit = next((each.unit for each in quantities if each), "1")
    return "" if unit == "1" else f" {unit}"


@dataclass(frozen=True)
class Stabilised:
    """A constraint `residual` = 0 that reactions hold by obeying `row` = 0, linear in reactions and accelerations."""

    quantity: Quantity
    residual: Expr
    row: Expr
    place: Place = field(default_factory=here)


def stabilised(name: str, description: str, residual: Expr, row: Expr, unit: str = "1") -> Stabilised:
    """A constraint that is held by reactions, themselves determined by a stable equation of its residual.

    `residual` is an expression of states, rates, parameters and time; it is monitored. `row` is an expression that is
    linear in the reactions and may contain accelerations, such as derivative(f) + lam*f; the rows of all constraints
    together determine all reactions. Off the constraint the residual then decays instead of drifting (Baumgarte 1972).

    Raises:
        ModelError: the name is not valid, or an expression cannot be compiled.
    """
    check_name("constraint", name)
    for word, stated in (("residual", residual), ("row", row)):
        refuse_uncompilable(f"constraint {name}: its {word}", stated, here())
    return Stabilised(Quantity(name, description, unit), sympy.sympify(residual), sympy.sympify(row))


def derivative(expression: Expr) -> Expr:
    """The total time derivative in rates: q -> q.rate, q.rate -> q.acceleration, v -> v.rate, p -> p.rate, and of t."""
    refuse_uncompilable("derivative", expression, here())
    stated = sympy.sympify(expression)
    result = diff(stated, time)
    for symbol in sorted(stated.free_symbols - {time}, key=str):
        result += diff(stated, symbol) * _rate_of(symbol)
    return result


def _rate_of(symbol: Expr) -> Expr:
    if isinstance(symbol, Rate):
        if symbol.name.endswith("_dot"):
            return Rate(symbol.name.removesuffix("_dot"), 2)
    elif isinstance(symbol, Coordinate | Velocity | Parameter):
        return symbol.rate
    raise ModelError(f"derivative of {symbol}: it has no rate here; differentiate states, rates and parameters", here())


@dataclass(frozen=True)
class Jump:
    """Where `margin` is positive (not negative, unless strict) at the end of a step, states are set at once."""

    margin: Expr
    strict: bool
    changes: Mapping[Any, Expr]
    description: str
    place: Place = field(default_factory=here)


def jump(relation: Expr, changes: Mapping[Any, Expr], description: str) -> Jump:
    """States that are set at the end of each plant step where `relation` holds, such as at an impact.

    Its expressions see the states at the end of the step, and by `before(symbol)` those at its beginning.

    Raises:
        ModelError: `relation` is no inequality.
    """
    if not isinstance(relation, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)):
        raise ModelError(f"jump {relation!r}: state when it happens as a relation, for example z <= 0", here())
    strict = isinstance(relation, (sympy.Gt, sympy.Lt))
    if not changes:
        raise ModelError(f"jump {description!r}: it sets no state; state some, such as {{v: -e*v}}", here())
    for symbol, value in changes.items():
        refuse_uncompilable(f"jump {description!r}: the value of {symbol}", value, here())
    set_to = {symbol: sympy.sympify(value) for symbol, value in changes.items()}
    return Jump(relation.gts - relation.lts, strict, set_to, description)


class Before(sympy.Symbol):  # type: ignore[misc]
    """The value of a state at the beginning of the step, for jumps."""

    def __new__(cls, state: Named) -> "Before":
        symbol: Before = sympy.Symbol.__xnew__(cls, f"before_{state.name}", real=True)
        return symbol


def before(state: Named) -> Expr:
    """The value that a state had at the beginning of the step, for the expressions of a `jump`."""
    if not isinstance(state, Coordinate | Velocity):
        raise ModelError(f"before({state}): it takes a coordinate or a velocity; combine the results", here())
    return Before(state)
