"""The functions that define a program: servo-constraint residuals in the machine's symbols.

A program is a function `program(machine, **options)` that returns a `Program`. The law brings the residuals to zero;
servonode finds their relative degree, Jacobian and drift from the machine's equations.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import sympy

from servonode.controllers.engine.keeping import TOLERANCE, KeepNumbers
from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError
from servonode.mechanics.description import Quantity, derivative_name
from servonode.mechanics.stated import Expressed
from servonode.mechanics.switches import settled
from servonode.mechanics.symbols import (
    Condition,
    Input,
    OwnSymbol,
    Parameter,
    check_kinds,
    check_mapping,
    check_name,
    check_texts,
    listed,
    quantity_of,
    refuse_uncompilable,
    rows_of_quantities,
)
from servonode.tables import Row, Tabular, named

Expr = Any
late = sympy.Symbol("late", real=True)  # mean age of the held input [s], for requirements and warnings


class _Signal(OwnSymbol):
    """A function of time with derivatives: name, name_dot, name_ddot, ..."""

    quantity: Quantity
    default: str
    place: Place

    def __new__(cls, quantity: Quantity, default: str = "") -> Self:
        return cls.made(quantity.name, quantity=quantity, default=default, place=here())

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
    """A function of time from the settings of the program, evaluated in the controller."""


def target(name: str, description: str, unit: str = "1") -> Target:
    """A moving goal: its value and derivatives come from [target] of the launch file, over the bus.

    >>> from servonode.controllers import target
    >>> target("x", "position of the target", "m").rate
    x_dot
    """
    return Target(quantity_of("target", name, description, unit))


def signal(name: str, description: str, unit: str = "1", *, default: str) -> Signal:
    """A function of time, set in [controller.settings]; `default` is an expression of t.

    >>> from servonode.controllers import signal
    >>> signal("g", "wanted angle", "rad", default="0.3*sin(t)").derivative(2)
    g_ddot
    """
    return Signal(quantity_of("signal", name, description, unit), default)


class State(OwnSymbol):
    """A state of the program itself, integrated beside the machine's; `start` is an expression."""

    quantity: Quantity
    start: Expr
    place: Place

    def __new__(cls, quantity: Quantity, start: Expr) -> Self:
        return cls.made(quantity.name, quantity=quantity, start=start, place=here())


def state(name: str, description: str, unit: str = "1", *, start: Expr = 0) -> State:
    """A state of the program, such as an arc length; Program(states=) gives its rate.

    `start`, its initial value, may contain initial states of the machine, parameters and targets. Between two measured
    states it is integrated by Heun's method.

    Raises:
        ModelError: the name is not valid, or `start` cannot be compiled.

    >>> from servonode.controllers import state
    >>> state("s", "arc length driven", "m").start
    0
    """
    quantity = quantity_of("state", name, description, unit)
    refuse_uncompilable(f"state {name}: start", start, here())
    return State(quantity, sympy.sympify(start))


class Setpoint(OwnSymbol):
    """A symbol for an expression whose time derivatives count as zero."""

    expression: Expr
    place: Place

    def __new__(cls, name: str, expression: Expr) -> Self:
        return cls.made(name, expression=expression, place=here())


def setpoint(name: str, expression: Expr) -> Setpoint:
    """The set value of an inner loop: `expression`, taken as constant wherever residuals are differentiated.

    The inner loop must be much faster than the expression changes; the goal is then met approximately.

    >>> from servonode.controllers import setpoint, target
    >>> v = target("v", "wanted speed", "m/s")
    >>> setpoint("tilt", 0.2 * v).expression
    0.2*v
    """
    check_name("setpoint", name)
    refuse_uncompilable(f"setpoint {name}", expression, here())
    return Setpoint(name, sympy.sympify(expression))


@dataclass(frozen=True)
class Watch(Expressed):
    """A quantity of the law that is recorded; in other expressions it stands for its own."""

    quantity: Quantity
    expression: Expr
    place: Place = field(default_factory=here)


def watch(name: str, description: str, expression: Expr, unit: str = "1") -> Watch:
    """A quantity that a run records beside its residuals, such as a reference speed; Program(watches=) lists it.

    It is an expression of states, rates, targets, signals, settings and time, evaluated at the true recorded states.

    Raises:
        ModelError: the name is not valid, or the expression cannot be compiled.

    >>> from servonode.controllers import watch
    >>> from servonode.mechanics import coordinate
    >>> theta = coordinate("theta", "angle", "rad")
    >>> watch("swing", "square of the angle", theta**2, "rad^2").expression
    theta**2
    """
    quantity = quantity_of("watch", name, description, unit)
    refuse_uncompilable(f"watch {name}", expression, here(), switches=True)
    return Watch(quantity, settled(expression))


@dataclass(frozen=True)
class Residual:
    """A servo-constraint: the expression that must vanish; `quantity.default` is its default convergence rate [1/s],
    None: auto. `damping` is subtracted from the demanded highest derivative. `output`: what follows the rest of it;
    None: see `law_description.splits`.
    """

    quantity: Quantity
    expression: Expr
    damping: Expr = 0
    output: Expr | None = None
    place: Place = field(default_factory=here)
    priority: int = 1  # of its equation where not all can be followed: 1 first

    @property
    def gain(self) -> Expr:
        """The symbol of its convergence rate lambda [1/s], for requirements and warnings."""
        return gain_symbol(self.quantity.name)


def gain_symbol(name: str) -> Expr:
    """The symbol of the convergence rate of the residual of this name."""
    return sympy.Symbol(f"lambda_{name}", real=True)


def weight_symbol(name: str) -> Expr:
    """The symbol of the weight of the input of this name in the least norm."""
    return sympy.Symbol(f"weight_{name}", positive=True)


def keep_symbols(name: str) -> tuple[Expr, Expr, Expr, Expr]:
    """The symbols of the numbers of the keep of this name: rate, brake, margin, tolerance."""
    rate, brake, margin, tolerance = (sympy.Symbol(f"keep_{word}_{name}", real=True) for word in KeepNumbers._fields)
    return rate, brake, margin, tolerance


def limit_symbols(name: str) -> tuple[Expr, Expr]:
    """The symbols of the limits, lower and upper, of the input of this name."""
    return sympy.Symbol(f"lower_limit_{name}", real=True), sympy.Symbol(f"upper_limit_{name}", real=True)


def residual(
    name: str, expression: Expr, description: str, unit: str = "1", *, rate: float | None = None, damping: Expr = 0,
    output: Expr | None = None, priority: int = 1,
) -> Residual:  # fmt: skip
    """A servo-constraint `expression = 0`; `rate`: the default of its convergence rate [1/s]; 0: not stabilised.

    None: the rate that control period and delay allow, as `lambda = "auto"` of a launch file.

    `damping` acts on motions that the servo-constraints leave free: f' = -lambda f - damping (relative degree 1), or
    f'' = -2 lambda f' - lambda^2 f - damping. The residual is then zero only up to the size of the damping.

    Pictures show `output` with its goal, which is output - expression. None: the output is the terms with states alone,
    if there are others.

    priority: where what is kept leaves not all residuals their equations, those of priority 1 are followed as well as
    can be, then those of 2 as far as that leaves them free, and so on.

    Raises:
        ModelError: the name is not valid, an expression cannot be compiled, or the rate is negative.

    >>> from servonode.controllers import residual, signal
    >>> from servonode.mechanics import coordinate
    >>> theta, g = coordinate("theta", "angle", "rad"), signal("g", "wanted angle", "rad", default="sin(t)")
    >>> angle = residual("angle", theta - g, "angle less the wanted one", "rad", rate=4.0)
    >>> angle.expression, angle.gain
    (theta - g, lambda_angle)
    """
    quantity = quantity_of("residual", name, description, unit, default=rate, at_least=0)
    for each in (expression, damping, 0 if output is None else output):
        refuse_uncompilable(f"residual {name}", each, here())
    if rate is not None and (complaint := quantity.complaint(rate)):
        text = "give 1/s, 0 for none, or leave rate= out: period and delay decide"
        raise ModelError(f"residual {name}: its convergence rate {complaint}; {text}", here())
    _check_priority(f"residual {name}", priority)
    stated = None if output is None else sympy.sympify(output)
    return Residual(quantity, sympy.sympify(expression), sympy.sympify(damping), stated, priority=priority)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_priority(what: str, priority: int) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or priority < 1:
        raise ModelError(f"{what}: its priority is {priority!r}; give a whole number, 1 for the first", here())


@dataclass(frozen=True)
class Keep:
    """A unilateral servo-constraint: the expression that stays at or above zero, with the numbers of `keep`."""

    quantity: Quantity
    expression: Expr
    rate: float | None = None
    brake: float | None = None
    margin: float = 0.0
    tolerance: float = TOLERANCE
    priority: int = 1
    place: Place = field(default_factory=here)


def keep(
    name: str, expression: Expr, description: str, unit: str = "1", *, rate: float | None = None,
    brake: float | None = None, margin: float = 0.0, tolerance: float = TOLERANCE, priority: int = 1,
) -> Keep:  # fmt: skip
    """A unilateral servo-constraint `expression >= 0`, which the law keeps before it follows its residuals.

    The expression may contain states, outputs, time, targets, settings and, linearly, contact forces, accelerations and
    inputs. `Min(a, b)` and `-Abs(a)` in it count as their parts, which are kept one by one.

    rate: how fast it may approach `margin` [1/s]: the law keeps h' + rate (h - margin) >= 0, or its like of a higher
    relative degree; None: what period and delay allow. brake: of relative degree 2, the deceleration that stopping
    takes at most [unit/s^2]; None: half of what the limits of the inputs allow. tolerance: a value below its negative
    is a fault of the run. priority: where not all can be kept, the largest number gives way first, the limits of
    inputs never.

    Raises:
        ModelError: the name is not valid, the expression cannot be compiled, or a number is out of its range.

    >>> from servonode.controllers import keep
    >>> from servonode.mechanics import coordinate
    >>> phi = coordinate("phi", "angle of the elbow", "rad")
    >>> keep("elbow", 1.2 - phi, "the elbow's end of travel", "rad", rate=8.0).expression
    1.2 - phi
    """
    quantity = quantity_of("keep", name, description, unit)
    refuse_uncompilable(f"keep {name}", expression, here(), switches=True)
    numbers = {"rate": rate, "brake": brake, "tolerance": tolerance}
    for word, number in numbers.items():
        if number is not None and not (_is_number(number) and 0 < number < math.inf):
            text = f"keep {name}: its {word} is {number!r}; give a finite number above 0, or leave it out"
            raise ModelError(text, here())
    if not (_is_number(margin) and 0 <= margin < math.inf):
        text = f"keep {name}: its margin is {margin!r}; give a finite number, 0 or more, in its unit, {unit}"
        raise ModelError(text, here())
    _check_priority(f"keep {name}", priority)
    return Keep(quantity, sympy.sympify(expression), rate, brake, margin, tolerance, priority)


@dataclass(frozen=True)
class Limit:
    """A bound on the norm of a vector: of residuals' demand, of inputs, or of expressions."""

    quantity: Quantity
    of: tuple[Any, ...]
    at_most: Expr
    place: Place = field(default_factory=here)

    @property
    def kind(self) -> str:
        """What it bounds: "demand", "inputs" or "expressions"."""
        if isinstance(self.of[0], Residual):
            return "demand"
        return "inputs" if isinstance(self.of[0], Input) else "expressions"

    @property
    def scale(self) -> Expr:
        """The symbol of the factor in (0, 1] that brings the vector within the bound."""
        return sympy.Symbol(f"scale_{self.quantity.name}", real=True)


def limit(name: str, of: Sequence[Any], at_most: Expr, description: str) -> Limit:
    """A bound `at_most` on the norm of a vector, which is scaled down to it with its direction kept.

    `of` is a list of residuals (the vector is J v', the part of their highest derivatives due to accelerations), of
    inputs, or of expressions, which are scaled only where a residual or setpoint contains the symbol `.scale`. While a
    limit acts, the residuals do not follow their equations, and the run reports this.

    Raises:
        ModelError: the name is not valid, or `of` mixes kinds or is empty.

    >>> from servonode.controllers import limit
    >>> from servonode.mechanics import input_
    >>> U1, U2 = input_("U1", "left torque", "N m"), input_("U2", "right torque", "N m")
    >>> limit("torque", (U1, U2), 2.0, "what the motors give").kind
    'inputs'
    """
    quantity = quantity_of("limit", name, description)
    entries = listed(f"limit {name}", "of", list(of) if isinstance(of, sympy.MatrixBase | Mapping) else of, here())
    mixed = len({Residual if isinstance(e, Residual) else Input if isinstance(e, Input) else None for e in entries}) > 1
    if not entries or mixed:
        raise ModelError(f"limit {name}: of= must list residuals, inputs, or expressions, one kind of them", here())
    for each in (at_most, *(e for e in entries if not isinstance(e, Residual))):
        refuse_uncompilable(f"limit {name}", each, here())
    made = tuple(e if isinstance(e, Residual) else sympy.sympify(e) for e in entries)
    return Limit(quantity, made, sympy.sympify(at_most))


def _described(residual: Residual) -> str:
    """What a residual is, its unit and its convergence rate."""
    quantity = residual.quantity
    rate = "auto" if quantity.default is None else f"{quantity.default:g} 1/s"
    return f"{named(quantity.description, quantity.unit)}, convergence rate {rate}"


@dataclass(frozen=True, repr=False)
class Program(Tabular):
    """A goal: the residuals that the law holds at zero, with their targets, parameters and guards.

    With fewer residuals than inputs, the program must be completed: by `relations`, linear expressions of the inputs
    that vanish (such as U1 + U2), by `least_norm`, the smallest inputs that realise the residuals, by `ideal`,
    generalized forces along the gradients of the residuals, as contact forces would act, or by a `posture`, which maps
    coordinates or velocities to the accelerations wanted of them as far as the residuals leave them free (absent: 0).
    The motion depends on this choice.

    `start` maps parameters without default to expressions of the initial state and targets, which give their values; a
    parameter with neither must be in the launch file. `inputs` gives the inputs directly; the residuals are then only
    monitored. If a `guard` is violated, the law stops with its text. `states` maps the states of the program to their
    rates; `setpoints` are the set values of inner loops; `limits` bound demands and inputs; `watches` are recorded.
    What is in `keep` stays at or above zero, before the residuals are followed.

    `requirements` must hold at the initial state, else the run is refused; violated `warnings` are reported. Both are
    conditions on parameters, on the `gain` of residuals, on `late`, and on the initial state.

    Raises:
        ModelError: an entry was not made by the function of its kind, or the program is completed in two ways.

    >>> from servonode.controllers import Program, residual, signal
    >>> from servonode.mechanics import Model, coordinate, input_
    >>> x, F = coordinate("x", "place", "m"), input_("F", "force", "N")
    >>> cart = Model(name="cart", description="a cart", coordinates=(x,), kinetic=x.rate**2 / 2, inputs={F: x.rate})
    >>> g = signal("g", "wanted position", "m", default="sin(t)")
    >>> Program(
    ...     name="follow",
    ...     description="the cart follows g",
    ...     residuals=(residual("place", cart["x"] - g, "place less the wanted one", "m"),),
    ...     signals=(g,),
    ... )
    Program follow: the cart follows g
      place    place less the wanted one [m], convergence rate auto
      signals  g [m]
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
    ideal: bool = False
    posture: Mapping[Any, Expr] = field(default_factory=dict)
    states: Mapping[State, Expr] = field(default_factory=dict)
    setpoints: Sequence[Setpoint] = ()
    limits: Sequence[Limit] = ()
    watches: Sequence[Watch] = ()
    requirements: Sequence[Condition] = ()
    warnings: Sequence[Condition] = ()
    keep: Sequence[Keep] = ()
    place: Place = field(default_factory=here)

    def table(self) -> tuple[str, list[Row]]:
        """The residuals, and what the goal is stated with, each with its unit."""
        rows = [(each.quantity.name, _described(each)) for each in self.residuals]
        rows += rows_of_quantities(self, "targets", "signals", "parameters", "states", "limits", "keep", "watches")
        return f"Program {self.name}: {self.description}", rows

    def __post_init__(self) -> None:
        check_texts("Program()", name=self.name, description=self.description)
        self._check_kinds()
        self._check_completion()

    def _check_kinds(self) -> None:
        """Check that each entry was made by the function of its kind."""
        what = f"program {self.name}"
        kinds: dict[str, type] = {"residuals": Residual, "parameters": Parameter, "targets": Target}
        kinds |= {"signals": Signal, "guards": Condition, "setpoints": Setpoint, "limits": Limit}
        kinds |= {"requirements": Condition, "warnings": Condition, "watches": Watch, "keep": Keep}
        for keyword, kind in kinds.items():
            object.__setattr__(self, keyword, listed(what, keyword, getattr(self, keyword), self.place))
            check_kinds(what, keyword, getattr(self, keyword), kind, self.place)
        object.__setattr__(self, "relations", listed(what, "relations", self.relations, self.place))
        mapped = {"start": Parameter, "inputs": Input, "states": State, "posture": object}
        for keyword, kind in mapped.items():  # whether the machine has the keys of a posture is asked later
            stated = getattr(self, keyword)
            check_mapping(what, keyword, stated, "{symbol: expression}", self.place)
            check_kinds(what, keyword, stated, kind, self.place)
        entries = [*self.relations, *self.start.values(), *self.inputs.values(), *self.states.values()]
        entries += self.posture.values()
        for expression in entries:
            refuse_uncompilable(f"{what}: a relation, start value, rate or input", expression, self.place)

    def _check_completion(self) -> None:
        """One way of completing the program, and limits of its own residuals."""
        stated = {"relations": bool(self.relations), "least_norm": self.least_norm, "ideal": self.ideal}
        stated["posture"] = bool(self.posture)
        if sum(stated.values()) > 1:
            chosen = " and ".join(word for word, given in stated.items() if given)
            raise ModelError(f"program {self.name}: {chosen} are given; complete it in one way", self.place)
        for each in self.limits:
            if each.kind == "demand" and self.inputs:
                text = f"program {self.name}, limit {each.quantity.name}: inputs= are given and residuals only watched"
                raise ModelError(f"{text}; limit the inputs", each.place)
            if each.kind == "demand" and any(row not in self.residuals for row in each.of):
                text = f"program {self.name}, limit {each.quantity.name}: of= has a residual that residuals= lacks"
                raise ModelError(f"{text}; list it there", each.place)
