"""The words in which a goal is stated: servo-constraint residuals in the machine's own symbols.

A program is a function `program(machine, **options)` that returns a `Program`. The residuals must vanish; their
relative degree, Jacobian and drift are found from the machine's equations, nothing else is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from servonode.mechanics.description import Quantity, derivative_name
from servonode.mechanics.model import (
    Condition,
    Input,
    ModelError,
    Parameter,
    check_kinds,
    check_name,
    listed,
    refuse_uncompilable,
)
from servonode.mechanics.place import Place, here

WORDS = True  # lines of this module are not a user's, see place.here
Expr = Any


class _Signal(sympy.Symbol):  # type: ignore[misc]
    """A function of time with derivatives: name, name_dot, name_ddot, ..."""

    quantity: Quantity
    default: str
    place: Place

    def __new__(cls, quantity: Quantity, default: str = "") -> "_Signal":
        symbol: _Signal = sympy.Symbol.__xnew__(cls, quantity.name, real=True)
        symbol.quantity, symbol.default, symbol.place = quantity, default, here()
        return symbol

    def __getnewargs_ex__(self) -> tuple[tuple[Quantity, str], dict[str, Any]]:
        return (self.quantity, self.default), {}

    def derivative(self, order: int) -> Expr:
        """The symbol of the order-th time derivative."""
        return sympy.Symbol(derivative_name(self.name, order), real=True) if order else self

    @property
    def rate(self) -> Expr:
        """The first time derivative, as a symbol of its own."""
        return self.derivative(1)


class Target(_Signal):
    """A moving goal, published by the target node."""


class Signal(_Signal):
    """A function of time that the program's own settings state, evaluated in the controller."""


def target(name: str, description: str, unit: str = "1") -> Target:
    """A goal that moves: its value and derivatives come from the launch file's [target] through the bus."""
    return Target(Quantity(name, description, unit))


def signal(name: str, description: str, unit: str = "1", *, default: str) -> Signal:
    """A function of time stated in [controller.settings]; `default` is an expression of t."""
    return Signal(Quantity(name, description, unit), default)


@dataclass(frozen=True)
class Residual:
    """A servo-constraint: the expression that must vanish; `quantity.default` is its default rate [1/s]."""

    quantity: Quantity
    expression: Expr
    place: Place = field(default_factory=here)


def residual(name: str, expression: Expr, description: str, unit: str = "1", *, rate: float = 2.0) -> Residual:
    """A servo-constraint `expression = 0`, stabilised at `rate` [1/s] (0: plain) unless the launch file says else."""
    check_name("residual", name)
    refuse_uncompilable(f"residual {name}", expression, here())
    quantity = Quantity(name, description, unit, rate, at_least=0)
    if complaint := quantity.complaint(rate):
        raise ModelError(f"residual {name}: its rate {complaint}; give 1/s, 0 for none", here())
    return Residual(quantity, sympy.sympify(expression))


@dataclass(frozen=True)
class Program:
    """A goal: residuals to be held at zero, with their targets, parameters, guards.

    With fewer residuals than inputs the program must be completed: by `relations`, linear expressions of the inputs
    that vanish (such as U1 + U2), or by `least_norm`, the smallest inputs that serve the residuals. The motion
    depends on that choice.

    `start` gives parameters that have no default their value at the start of the run (expressions of state and
    targets). `inputs` states the inputs directly; the residuals are then only watched. Where a guard's margin is
    not positive the law stops with its text.
    """

    name: str
    description: str
    residuals: Sequence[Residual]
    parameters: Sequence[Parameter] = ()
    targets: Sequence[Target] = ()
    signals: Sequence[Signal] = ()
    guards: Sequence[Condition] = ()
    start: Mapping[Parameter, Expr] = field(default_factory=dict)
    inputs: Mapping[Any, Expr] = field(default_factory=dict)
    relations: Sequence[Expr] = ()
    least_norm: bool = False
    place: Place = field(default_factory=here)

    def __post_init__(self) -> None:
        self._check_kinds()
        for each in self.parameters:
            if each.quantity.default is None and each not in self.start:
                raise ModelError(
                    f"program {self.name}: parameter {each.name!r} has neither default= nor a value in start=",
                    each.place,
                )

    def _check_kinds(self) -> None:
        """What is listed must have been made by the word of its kind."""
        what = f"program {self.name}"
        kinds: dict[str, type] = {"residuals": Residual, "parameters": Parameter, "targets": Target}
        kinds |= {"signals": Signal, "guards": Condition}
        for keyword, kind in kinds.items():
            object.__setattr__(self, keyword, listed(what, keyword, getattr(self, keyword), self.place))
            check_kinds(what, keyword, getattr(self, keyword), kind, self.place)
        object.__setattr__(self, "relations", listed(what, "relations", self.relations, self.place))
        for keyword, kind in (("start", Parameter), ("inputs", Input)):
            stated = getattr(self, keyword)
            if not isinstance(stated, Mapping):
                text = f"{what}: {keyword}= is not a mapping; state it as {{symbol: expression}}"
                raise ModelError(text, self.place.argument(keyword))
            check_kinds(what, keyword, stated, kind, self.place)
        entries = [*self.relations, *self.start.values(), *self.inputs.values()]
        for expression in entries:
            refuse_uncompilable(f"{what}: a relation, start value or input", expression, self.place)
