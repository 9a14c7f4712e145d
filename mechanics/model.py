"""The words in which a machine is stated: coordinates, quasi-velocities, energies, constraints, inputs.

A machine is a function `model()` that returns a `Model`. All expressions are sympy expressions of the symbols
made here; `symbol.rate` is the time derivative of a coordinate or velocity. Equation numbers refer to
mechanics/README.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from servonode.mechanics.description import ModelError as ModelError
from servonode.mechanics.description import Quantity, Requirement

time = sympy.Symbol("t", real=True)
Expr = Any  # sympy ships no types; every expression is a sympy.Expr


def _check_name(kind: str, name: str) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise ModelError(f"{kind} name {name!r}: names are ASCII identifiers (phi, m1, c_w)")


class _Named(sympy.Symbol):  # type: ignore[misc]
    """A real symbol that carries its quantity (description, unit, default, bounds)."""

    quantity: Quantity

    def __new__(cls, quantity: Quantity) -> "_Named":
        name = quantity.name
        if not (name.isascii() and name.isidentifier()) or name.endswith(("_dot", "_ddot")) or name == "t":
            raise ModelError(
                f"{cls.__name__.lower()} name {name!r}: names are ASCII identifiers (phi, m1, c_w), "
                "not 't' and without the endings _dot and _ddot, which mark rates"
            )
        symbol: _Named = sympy.Symbol.__xnew__(cls, name, real=True)
        symbol.quantity = quantity
        return symbol

    def __getnewargs_ex__(self) -> tuple[tuple[Quantity], dict[str, Any]]:
        return (self.quantity,), {}

    @property
    def rate(self) -> Expr:
        """The time derivative, as a symbol of its own."""
        return sympy.Symbol(f"{self.name}_dot", real=True)


class Coordinate(_Named):
    """A generalized coordinate q."""


class Velocity(_Named):
    """An independent quasi-velocity v, with q' = G v."""


class Parameter(_Named):
    """A constant of the machine or of a program."""


class Input(_Named):
    """A generalized force that the controller commands."""


class Constraint:
    """A passive constraint `row = 0`, linear in the rates: the row of A q' - b; its multiplier is a force."""

    def __init__(self, quantity: Quantity, row: Expr) -> None:
        _check_name("constraint", quantity.name)
        self.quantity = quantity
        self.row = sympy.sympify(row)
        self.multiplier = sympy.Symbol(quantity.name, real=True)


def coordinate(name: str, description: str, unit: str = "1") -> Coordinate:
    """A generalized coordinate; its rate is `.rate`."""
    return Coordinate(Quantity(name, description, unit))


def velocity(name: str, description: str, unit: str = "1") -> Velocity:
    """An independent quasi-velocity; its rate (an acceleration, for outputs) is `.rate`."""
    return Velocity(Quantity(name, description, unit))


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
        raise ModelError(f"parameter {name}: its default {complaint}; correct the default or the bound")
    return Parameter(quantity)


def input_(name: str, description: str, unit: str = "1") -> Input:
    """A commanded generalized force; the model's `inputs` say on which rate it does work."""
    return Input(Quantity(name, description, unit))


def constraint(name: str, description: str, row: Expr, unit: str = "N") -> Constraint:
    """A passive constraint row = 0 on velocity level; `name`, `description`, `unit` are its multiplier's."""
    return Constraint(Quantity(name, description, unit), row)


@dataclass(frozen=True)
class Output:
    """A monitored value: an expression of states, rates, accelerations, inputs and multipliers."""

    quantity: Quantity
    expression: Expr


def output(name: str, description: str, expression: Expr, unit: str = "1") -> Output:
    """A monitored value, never fed back."""
    _check_name("output", name)
    return Output(Quantity(name, description, unit), sympy.sympify(expression))


@dataclass(frozen=True)
class Condition:
    """A condition `margin > 0` (strict) or `margin >= 0`, with the sentence that explains a violation."""

    margin: Expr
    requirement: Requirement


def condition(relation: Expr, text: str) -> Condition:
    """A condition from a sympy relation such as `I1 >= m1 * d1**2`; `text` says what a violation means."""
    if not isinstance(relation, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)):
        raise ModelError(f"condition {relation!r}: state it as a relation, for example I1 >= m1*d1**2")
    names = sorted(s.name for s in relation.free_symbols if isinstance(s, Parameter))
    strict = isinstance(relation, (sympy.Gt, sympy.Lt))
    return Condition(relation.gts - relation.lts, Requirement(text, strict, tuple(names)))


@dataclass(frozen=True)
class Model:
    """A machine: kinetic energy T(q, q'), potential U(q), losses, constraints A q' = b, inputs, outputs.

    `kinematics` gives every coordinate's rate as a linear expression of the velocities, q' = G v + g0, so that
    the constraints hold identically (the minimal form). `inputs` gives for each input the rate on which it
    does work: the power is the sum of input times rate. `dissipation` is a Rayleigh function R(q, q') with
    generalized forces -dR/dq'. `requirements` bound the parameters, `warnings` watch the run. `panels` name
    the quantities worth a plot, one tuple an axis. `order` is the order of the state (default: coordinates,
    then velocities).
    """

    name: str
    description: str
    parameters: Sequence[Parameter]
    kinematics: Mapping[Coordinate, Expr]
    velocities: Sequence[Velocity]
    kinetic: Expr
    inputs: Mapping[Input, Expr]
    potential: Expr = 0
    dissipation: Expr = 0
    constraints: Sequence[Constraint] = ()
    outputs: Sequence[Output] = ()
    requirements: Sequence[Condition] = ()
    warnings: Sequence[Condition] = ()
    panels: Sequence[tuple[str, ...]] = ()
    order: Sequence[_Named] = field(default=())

    def __post_init__(self) -> None:
        names = [symbol.name for symbol in self.symbols]
        names += [each.quantity.name for each in self.constraints]
        names += [each.quantity.name for each in self.outputs]
        for name in names:
            if names.count(name) > 1:
                raise ModelError(f"machine {self.name}: the name {name!r} is used twice; rename one of them")
        for symbol in self.parameters:
            if symbol.quantity.default is None:
                raise ModelError(
                    f"machine {self.name}: parameter {symbol.name!r} has no default; give it one with default="
                )
        if self.order and set(self.order) != set(self.coordinates) | set(self.velocities):
            raise ModelError(f"machine {self.name}: order must list each coordinate and velocity once")

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        return tuple(self.kinematics)

    @property
    def state(self) -> tuple[_Named, ...]:
        """Coordinates and velocities in the order of the state array."""
        return tuple(self.order) or (*self.coordinates, *self.velocities)

    @property
    def symbols(self) -> tuple[_Named, ...]:
        return (*self.state, *self.inputs, *self.parameters)

    def __getitem__(self, name: str) -> Any:
        """The symbol of this name, for programs: `machine["psi"]`."""
        by_name = {symbol.name: symbol for symbol in self.symbols}
        if name not in by_name:
            raise ModelError(f"machine {self.name} has no symbol {name!r}; it has {', '.join(sorted(by_name))}")
        return by_name[name]

    @property
    def rates(self) -> dict[Expr, Expr]:
        """The rate symbol of each coordinate -> its expression G v + g0."""
        return {q.rate: sympy.sympify(rate) for q, rate in self.kinematics.items()}
