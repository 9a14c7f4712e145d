"""The functions that define a machine: symbols, bodies, constraints, outputs, conditions.

All expressions are sympy expressions of the symbols made here; `symbol.rate` is the time derivative of a coordinate or
velocity. A `Model` puts them together.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import sympy
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.printing.str import StrPrinter

from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError, short, unshown
from servonode.mechanics.description import Quantity, Requirement, derivative_name
from servonode.mechanics.functions import COMPILED, TO_STATE, choose
from servonode.mechanics.stated import Change, Expressed, Stated
from servonode.mechanics.straight_line import diff
from servonode.tables import Row, named, several

ARTICLE = re.compile(r"(the|a|an|its)\b")  # with which a description may begin
LONGEST_NAME = 100  # characters
LONGEST_SIDE = 120  # characters of an expression that an error shows
time = t = sympy.Symbol("t", real=True)
_WITHOUT_VALUE = {sympy.I, sympy.nan, sympy.zoo, sympy.oo, -sympy.oo}
_SWITCHES = (sympy.Piecewise, sympy.Heaviside, ExprCondPair, sympy.logic.boolalg.Boolean)
Expr = Any  # sympy ships no types; every expression is a sympy.Expr


def check_name(kind: str, name: str) -> None:
    if not (isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= LONGEST_NAME):
        text = f"names are ASCII identifiers (phi, m1, c_w) of at most {LONGEST_NAME} characters"
        raise ModelError(f"{kind} name {short(name)}: {text}", here())


def check_texts(what: str, **texts: Any) -> None:
    """Check that each is one line of characters that every terminal shows.

    Raises:
        ModelError: one is not.
    """
    for word, text in texts.items():
        if not isinstance(text, str):
            raise ModelError(f"{what}: {word}={short(text)} is not a text; give one", here())
        if complaint := unshown(text):
            raise ModelError(f"{what}: {word}={complaint}", here())


def quantity_of(kind: str, name: str, description: str, unit: str = "1", **numbers: float | None) -> Quantity:
    """What a user states of a quantity: `start` or `default`, bounds and limits.

    Raises:
        ModelError: the name is no ASCII identifier, a text is not one line, or a number is not one or not in its range.
    """
    check_name(kind, name)
    check_texts(f"{kind} {name}", description=description, unit=unit)
    for word, value in numbers.items():
        if value is not None and not _is_number(value):
            raise ModelError(f"{kind} {name}: {word}={short(value)} is not a number; give one", here())
        if value is not None and word.endswith("limit") and not 0 < value < float("inf"):
            raise ModelError(f"{name}: {word}={value} is not a positive number; give one, or leave it out", here())
    if "start" in numbers:
        numbers["default"] = numbers.pop("start")
    return Quantity(name, description, unit, **numbers)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str | bytes)


def listed(what: str, keyword: str, given: Any, place: Place) -> tuple[Any, ...]:
    """The entries of an argument that is a sequence.

    Raises:
        ModelError: it is not a sequence, such as one symbol where a tuple is meant.
    """
    if isinstance(given, str | sympy.Basic | Mapping) or not isinstance(given, Iterable):
        text = f"{what}: {keyword}= is not a sequence; write {keyword}=(..., ) with a comma for a single one"
        raise ModelError(text, place.argument(keyword, follow=False))
    return tuple(given)


def check_mapping(what: str, keyword: str, given: Any, example: str, place: Place) -> None:
    """Check that an argument is a mapping.

    Raises:
        ModelError: it is not.
    """
    if not isinstance(given, Mapping):
        text = f"{what}: {keyword}= is not a mapping; write it as {example}"
        raise ModelError(text, place.argument(keyword))


def check_kinds(what: str, keyword: str, entries: Iterable[Any], kind: type, place: Place) -> None:
    """Check that every entry was made by the function of its kind.

    Raises:
        ModelError: one was not.
    """
    for i, each in enumerate(entries):
        if not isinstance(each, kind):
            words = {"Input": "input_", "FirstOrder": "first_order", "Joint": "hinge, slide or ball"}
            word = words.get(kind.__name__, kind.__name__.lower())
            text = f"{what}: {each!r} in {keyword}= was not made by {word}(...); make it so"
            raise ModelError(text, place.argument(keyword, i))


def refuse_uncompilable(what: str, expression: Any, place: Place, *, switches: bool = False) -> None:
    """An expression must consist of numbers, symbols, sums, products, powers and functions that can be compiled.

    With `switches` it may also contain Piecewise and Heaviside, which `switches.settled` brings into a form of ours.

    Raises:
        ModelError: it is a text or None, has no real value, or contains something else.
    """
    if expression is None or isinstance(expression, str | bool):
        raise ModelError(f"{what}: {expression!r} is not an expression; state it in symbols and numbers", place)
    stated = sympy.sympify(expression)
    if not isinstance(stated, sympy.Expr):
        raise ModelError(f"{what}: {expression!r} is not an expression; give one", place)
    nodes = nodes_of(stated)
    if not _WITHOUT_VALUE.isdisjoint(nodes):
        raise ModelError(f"{what}: {expression} has no finite real value; correct it", place)
    for node in nodes:
        known = isinstance(node, sympy.Add | sympy.Mul | sympy.Pow | sympy.Number | sympy.NumberSymbol | sympy.Symbol)
        known = known or isinstance(node, choose) or (switches and isinstance(node, _SWITCHES))
        if not known and type(node).__name__ not in COMPILED:
            text = f"{what} contains {node}, which cannot be compiled; use {TO_STATE}"
            text += ", Piecewise, Heaviside" if switches else ""
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


class OwnSymbol(sympy.Symbol):  # type: ignore[misc]
    """A real symbol that is made of other things than its name, its attributes."""

    @classmethod
    def made(cls, name: str, **attributes: Any) -> Self:
        """The symbol with this name and these attributes."""
        symbol: Self = sympy.Symbol.__xnew__(cls, name, real=True)
        symbol.__dict__.update(attributes)
        return symbol

    def __reduce__(self) -> Any:
        return type(self).made, (self.name,), vars(self)


def rows_of_quantities(stated: Any, *words: str) -> list[Row]:
    """The names and units of what has a quantity, a row for each of these attributes that has any."""
    quantities = ((word, [each.quantity for each in getattr(stated, word)]) for word in words)
    return [(word, several(named(each.name, each.unit) for each in found)) for word, found in quantities if found]


class Rate(OwnSymbol):
    """A time derivative as a symbol of its own."""

    def __new__(cls, name: str, order: int) -> Self:
        return cls.made(derivative_name(name, order))


class Named(OwnSymbol):
    """A real symbol that carries its quantity (description, unit, default, bounds) and where it was made."""

    quantity: Quantity
    place: Place
    vector: str | None = None  # the vector of which it is an entry

    def __new__(cls, quantity: Quantity) -> Self:
        name = quantity.name
        kind = cls.__name__.lower()
        check_name(kind, name)
        if name.endswith(("_dot", "_ddot")) or name == "t":
            taken = "'t' is the time" if name == "t" else "the endings _dot and _ddot mark rates"
            raise ModelError(f"{kind} name {name!r}: {taken}; choose another name", here())
        return cls.made(name, quantity=quantity, place=here())

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
        # "hitch angle, trailer relative to robot" -> "rate of the hitch angle"; by name without a description
        words = re.split(r"[,:;(]", self.quantity.description)[0].strip()
        what = (words if ARTICLE.match(words) else f"the {words}") if words else self.name
        quantity = Quantity(f"{self.name}_dot", f"rate of {what}", unit)
        return Velocity.made(quantity.name, quantity=quantity, of=self, place=self.place)


class Velocity(Named):
    """An independent quasi-velocity v, with q' = G v; `of` is the coordinate whose rate it is, if it is one."""

    of: Coordinate | None = None

    @property
    def rate(self) -> Expr:
        """The acceleration, as a symbol of its own."""
        return self.of.acceleration if self.of is not None else Rate(self.name, 1)


class FirstOrder(Velocity):
    """A state of the machine that is no motion, such as a current; enters like a velocity of unit mass."""


class Parameter(Named):
    """A constant of the machine or of a program.

    A launch file may state it as a function of time; `rate` is then its derivative, else zero.
    """


class Input(Named):
    """A generalized force that the controller commands."""


class Reaction(Named):
    """An unknown that rows of the machine itself determine: a contact force, or the rate of a contact point."""


class Assembly(OwnSymbol):
    """Which way a closed loop is assembled: the sign of its determinant at a run's start, 0 while none is known."""

    def __new__(cls, name: str) -> Self:
        return cls.made(name)


class Constraint:
    """A passive constraint, its multiplier a force: `row = 0` linear in the rates, the row of A q' - b.

    A holonomic one is given as `finite = 0`, an expression of coordinates and time; its row is the derivative.
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

    def identity(self) -> tuple[Any, ...]:
        """What tells it from other constraints, whatever line states it."""
        return self.quantity.name, repr(self.quantity), self.row, self.finite

    def _sympy_(self) -> Expr:
        """Its multiplier, so that the constraint itself can stand in an output: Abs(N)."""
        return self.multiplier

    def _derivative(self, finite: Expr) -> Expr:
        coordinates = sorted((q for q in finite.free_symbols if isinstance(q, Coordinate)), key=lambda q: q.name)
        if not coordinates:
            text = f"constraint {self.quantity.name}: it contains no coordinate and no rate; say what it holds"
            raise ModelError(text, self.place)
        return sympy.Add(*(diff(finite, q) * q.rate for q in coordinates), diff(finite, time))

    def mapped(self, change: Change) -> "Constraint":
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
class Body(Stated):
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
        return ((self.velocity, self.mass * sympy.eye(len(self.velocity))), (self.angular_velocity, self.inertia))

    @property
    def kinetic(self) -> Expr:
        """Its kinetic energy [J]."""
        return sympy.Add(*((u.T * N * u)[0] for u, N in self.momenta if len(u))) / 2


def coordinate(
    name: str,
    description: str,
    unit: str = "1",
    *,
    start: float = 0.0,
    limit: float | None = None,
    rate_limit: float | None = None,
) -> Coordinate:
    """A generalized coordinate; its rate is `.rate`. `start` is the default of its initial value.

    limit: the largest plausible magnitude of a measured value. rate_limit: its fastest plausible change [unit per s].
    Beyond them, a machine behind a driver is in fault (`plant.safety.state_limit` overrides).

    Raises:
        ModelError: the name is no ASCII identifier, or a limit is not a positive number.

    >>> from servonode.mechanics import coordinate
    >>> theta = coordinate("theta", "angle from below", "rad", start=0.1)
    >>> theta.rate, theta.acceleration
    (theta_dot, theta_ddot)
    """
    return Coordinate(
        quantity_of("coordinate", name, description, unit, start=start, limit=limit, rate_limit=rate_limit)
    )


def velocity(
    name: str,
    description: str,
    unit: str = "1",
    *,
    start: float = 0.0,
    limit: float | None = None,
    rate_limit: float | None = None,
) -> Velocity:
    """An independent quasi-velocity; its rate, an acceleration for outputs, is `.rate`. Arguments: as `coordinate`.

    >>> from servonode.mechanics import velocity
    >>> velocity("v", "forward speed", "m/s").rate
    v_dot
    """
    return Velocity(quantity_of("velocity", name, description, unit, start=start, limit=limit, rate_limit=rate_limit))


def first_order(
    name: str,
    description: str,
    unit: str = "1",
    *,
    start: float = 0.0,
    limit: float | None = None,
    rate_limit: float | None = None,
) -> FirstOrder:
    """A state of the machine that is not a motion, such as the current of a motor; `Model(first_order=)` has its rate.

    Its rate, for use in outputs, is `.rate`. Arguments: as `coordinate`.

    >>> from servonode.mechanics import Model, coordinate, first_order, input_, parameter
    >>> x, i = coordinate("x", "place", "m"), first_order("i", "current", "A")
    >>> m = parameter("m", "mass", "kg", default=1.0, above=0)
    >>> R, L, k = (parameter(name, name, default=1.0, above=0) for name in ("R", "L", "k"))
    >>> u = input_("u", "voltage", "V")
    >>> motor = Model(
    ...     name="motor",
    ...     description="a mass that a linear motor pulls",
    ...     coordinates=(x,),
    ...     parameters=(m, R, L, k),
    ...     kinetic=m * x.rate**2 / 2,
    ...     forces={k * i: x.rate},
    ...     first_order={i: (u - R * i - k * x.rate) / L},
    ...     inputs={u: 0},
    ... )
    >>> [each.name for each in motor.state]
    ['x', 'x_dot', 'i']
    """
    return FirstOrder(
        quantity_of("first_order", name, description, unit, start=start, limit=limit, rate_limit=rate_limit)
    )


def vector(
    word: Callable[..., Any], name: str, description: str, unit: str = "1", *, start: Sequence[float] = (0, 0, 0)
) -> sympy.MatrixBase:
    """A column of coordinates or velocities name_0, name_1, ...; files and messages have them as one list `name`.

    `word` is `coordinate` or `velocity`; `start` has as many entries as the vector.

    >>> from servonode.mechanics import coordinate, vector
    >>> list(vector(coordinate, "p", "place", "m"))
    [p_0, p_1, p_2]
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

    Plane bodies have one angular velocity, others three. `inertia` is a number, or a 3 by 3 matrix (of sympy, numpy or
    lists) that turns with the body. In rates, a body is equivalent to its kinetic energy; in velocities, it also allows
    motions that are not the rate of a coordinate, such as the spin of a ball.

    Raises:
        ModelError: the velocity is no sequence, or the inertia does not fit the angular velocity.

    >>> from servonode.mechanics import body, coordinate, parameter
    >>> x, phi = coordinate("x", "place", "m"), coordinate("phi", "angle", "rad")
    >>> m, J = parameter("m", "mass", "kg", default=1.0), parameter("J", "inertia", "kg m^2", default=0.1)
    >>> body("wheel", mass=m, velocity=(x.rate,), inertia=J, angular_velocity=phi.rate).kinetic
    J*phi_dot**2/2 + m*x_dot**2/2
    """
    check_texts("body", name=name)
    spin = sympy.Matrix(list(angular_velocity) if isinstance(angular_velocity, Sequence | sympy.MatrixBase)
                        else [angular_velocity])  # fmt: skip
    stated = sympy.Matrix(inertia) if hasattr(inertia, "__len__") else inertia
    N = stated if isinstance(stated, sympy.MatrixBase) else sympy.sympify(stated) * sympy.eye(len(spin))
    if N.shape != (len(spin), len(spin)):
        text = f"body {name}: an inertia of {N.shape[0]} by {N.shape[1]} for {len(spin)} angular velocities"
        raise ModelError(f"{text}; give a number, or as many rows as angular velocities", here())
    moves = velocity if isinstance(velocity, sympy.MatrixBase) else listed(f"body {name}", "velocity", velocity, here())
    for word, entries in (("mass", [mass]), ("velocity", moves), ("angular velocity", spin), ("inertia", N)):
        for entry in entries:
            refuse_uncompilable(f"body {name}: {word}", entry, here())
    return Body(name, sympy.sympify(mass), sympy.Matrix(list(moves)), N, spin)


def parameter(
    name: str,
    description: str,
    unit: str = "1",
    *,
    default: float | None = None,
    above: float | None = None,
    at_least: float | None = None,
) -> Parameter:
    """A constant with its default [unit] and bounds (`above`: strict, `at_least`: inclusive).

    Raises:
        ModelError: the name is no ASCII identifier, or the default is out of the bounds.

    >>> from servonode.mechanics import parameter
    >>> m = parameter("m", "mass", "kg", default=2.0, above=0)
    >>> m.quantity.default, m.quantity.unit
    (2.0, 'kg')
    """
    quantity = quantity_of("parameter", name, description, unit, default=default, above=above, at_least=at_least)
    complaint = None if default is None else quantity.complaint(default)
    if complaint:
        raise ModelError(f"parameter {name}: its default {complaint}; correct the default or the bound", here())
    return Parameter(quantity)


def input_(
    name: str, description: str, unit: str = "1", *, limit: float | None = None, at_least: float | None = None
) -> Input:
    """A commanded generalized force; `Model(inputs=)` has the rate on which it does work.

    limit: the largest magnitude that may reach the machine (`plant.safety.limit` overrides). at_least: the least
    value, 0 of what only pushes or pulls: a law then needs `controller.limits = "keep"`.

    Raises:
        ModelError: the limit is not a positive number, or the least value is above 0, where a stop is.

    >>> from servonode.mechanics import input_
    >>> input_("N", "torque of the motor", "N m").quantity.unit
    'N m'
    """
    made = Input(quantity_of("input", name, description, unit, limit=limit, at_least=at_least))
    if at_least is not None and not at_least <= 0:
        raise ModelError(f"input {name}: at_least={at_least}, but a stop is 0; give 0, or less", here())
    return made


def reaction(name: str, description: str, unit: str = "N") -> Reaction:
    """An unknown that the `stabilised` rows of the machine determine at every evaluation of the right-hand side.

    `Model(reactions=)` has the rate on which it does work, 0 for none. It may be the rate of a coordinate.
    """
    return Reaction(quantity_of("reaction", name, description, unit))


def constraint(name: str, description: str, stated: Expr, unit: str = "N") -> Constraint:
    """A passive constraint `stated` = 0; `name`, `description` and `unit` belong to its multiplier, a force.

    It is holonomic if `stated` contains no rate, such as x**2 + y**2 - l**2; else it must be linear in the rates. It
    may contain terms of time and coordinates, such as alpha.rate - w*time.

    Raises:
        ModelError: the name is not valid, or `stated` contains neither a coordinate nor a rate.

    >>> from sympy import cos, sin
    >>> from servonode.mechanics import constraint, coordinate
    >>> x, y, psi = coordinate("x", "", "m"), coordinate("y", "", "m"), coordinate("psi", "heading", "rad")
    >>> constraint("N", "side force of the blade", y.rate * cos(psi) - x.rate * sin(psi)).row
    -x_dot*sin(psi) + y_dot*cos(psi)
    >>> constraint("S", "force of the rod", x**2 + y**2 - 1).row
    2*x*x_dot + 2*y*y_dot
    """
    return Constraint(quantity_of("constraint", name, description, unit), stated)


@dataclass(frozen=True)
class Output(Expressed):
    """A monitored value: an expression of states, rates, accelerations, inputs and multipliers.

    In other expressions it stands for its own.
    """

    quantity: Quantity
    expression: Expr
    place: Place = field(default_factory=here)


def output(name: str, description: str, expression: Expr, unit: str = "1") -> Output:
    """A monitored value. A goal may contain it if it consists of states, rates, parameters and time.

    Raises:
        ModelError: the name is not valid, or the expression cannot be compiled.

    >>> from sympy import sin
    >>> from servonode.mechanics import coordinate, output
    >>> theta = coordinate("theta", "angle", "rad")
    >>> output("height", "height of the tip", 1 - sin(theta), "m").expression
    1 - sin(theta)
    """
    quantity = quantity_of("output", name, description, unit)
    refuse_uncompilable(f"output {name}", expression, here(), switches=True)
    return Output(quantity, sympy.sympify(expression))


@dataclass(frozen=True)
class Condition(Stated):
    """A condition `margin > 0` (strict) or `margin >= 0`, with the sentence that explains a violation.

    sides: what must be greater, and what it must be greater than; their difference is the margin.
    """

    margin: Expr
    requirement: Requirement
    sides: tuple[Expr, Expr]
    place: Place = field(default_factory=here)


def condition(relation: Expr, text: str, name: str = "machine") -> Condition:
    """A condition from a sympy relation such as `I1 >= m1 * d1**2`; `text` explains a violation.

    name: the name of the fault if a violation is a fault: "fallen", "contact_lost".

    Raises:
        ModelError: it is no relation, or the name is not valid.

    >>> from servonode.mechanics import condition, coordinate
    >>> theta = coordinate("theta", "lean", "rad")
    >>> condition(theta < 1.2, "the rider has fallen", "fallen").margin
    1.2 - theta
    """
    check_name("fault", name)
    check_texts(f"condition {relation}", text=text)
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
class Stabilised(Stated):
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
    quantity = quantity_of("constraint", name, description, unit)
    for word, stated in (("residual", residual), ("row", row)):
        refuse_uncompilable(f"constraint {name}: its {word}", stated, here())
    return Stabilised(quantity, sympy.sympify(residual), sympy.sympify(row))


def derivative(expression: Expr) -> Expr:
    """The total time derivative in rates: q -> q.rate, q.rate -> q.acceleration, v -> v.rate, p -> p.rate, and of t.

    Raises:
        ModelError: the expression contains something without a rate, such as an input.

    >>> from sympy import sin
    >>> from servonode.mechanics import coordinate, derivative
    >>> theta = coordinate("theta", "angle", "rad")
    >>> derivative(sin(theta))
    theta_dot*cos(theta)
    """
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
class Jump(Stated):
    """Where `margin` becomes positive (not negative, unless strict), states are set at once."""

    margin: Expr
    strict: bool
    changes: Mapping[Any, Expr]
    description: str
    place: Place = field(default_factory=here)

    @property
    def compares(self) -> bool:
        """Whether it depends on the states at the beginning of the step."""
        return any(each.has(Before) for each in self.changes.values())


def jump(relation: Expr, changes: Mapping[Any, Expr], description: str) -> Jump:
    """New values of states where `relation` begins to hold, for example at an impact; the same in all modes.

    States are coordinates and velocities, also as rates of coordinates, `z.rate`. The relation may not hold at the
    start. With `--control continuous` its beginning is located to the integrator's tolerance, else the jump acts at
    the end of the plant step in which it begins. All are then looked at again at that instant, in the order of
    `jumps=`, until none acts. One acts again once its relation has ceased, or at once where another jump has turned
    the motion back to it. Impacts without end, as of a ball that comes to rest, end the run.

    The values are those at that instant, and as `before(symbol)` those at the beginning of the plant step, which
    `--control continuous` has not. The result goes to the nearest coordinates that holonomic constraints and
    identities allow. `And` and `Or` of relations are Min and Max of their margins.

    Raises:
        ModelError: `relation` is not made of inequalities, or switches, or no state is set.

    >>> from servonode.mechanics import coordinate, jump
    >>> z = coordinate("z", "height", "m", start=1.0)
    >>> jump(z <= 0, {z.rate: -0.8 * z.rate}, "the ball bounces").margin
    -z
    """
    check_texts("jump", description=description)
    margin, strict = _margin(relation)
    check_mapping(f"jump {description!r}", "changes", changes, "{v: -e*v}", here())
    if not changes:
        raise ModelError(f"jump {description!r}: it sets no state; give some, such as {{v: -e*v}}", here())
    for symbol, value in changes.items():
        refuse_uncompilable(f"jump {description!r}: the value of {symbol}", value, here())
    if margin.has(Before, sympy.sign, sympy.Heaviside, sympy.Piecewise):
        text = f"jump {description!r}: {relation} contains before() or a function that switches"
        raise ModelError(f"{text}; give a margin without them, such as Min(-z, -z.rate) > 0", here())
    return Jump(margin, strict, {symbol: sympy.sympify(value) for symbol, value in changes.items()}, description)


def _margin(relation: Expr) -> tuple[Expr, bool]:
    """What is positive, or not negative, where a relation holds; whether it must be positive."""
    if isinstance(relation, (sympy.And, sympy.Or)):
        margins, strict = zip(*(_margin(each) for each in relation.args), strict=True)
        return (sympy.Min if isinstance(relation, sympy.And) else sympy.Max)(*margins), any(strict)
    if not isinstance(relation, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)):
        text = "state when it happens as a relation, for example z < 0, or Min(-z, -z.rate) > 0 for both"
        raise ModelError(f"jump {relation!r}: {text}", here())
    return relation.gts - relation.lts, isinstance(relation, (sympy.Gt, sympy.Lt))


class Before(OwnSymbol):
    """The value of a state at the beginning of the step, for jumps."""

    def __new__(cls, state: Expr) -> Self:
        return cls.made(f"before_{state.name}")


def before(state: Expr) -> Expr:
    """The value that a state had at the beginning of the plant step, for what a `jump` sets."""
    if not isinstance(state, Coordinate | Velocity | Rate):
        text = f"before({state}): it takes a coordinate, a rate or a velocity; combine the results"
        raise ModelError(text, here())
    return Before(state)
