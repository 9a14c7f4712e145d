"""The words in which a machine is stated: coordinates, quasi-velocities, energies, constraints, inputs.

A machine is a function `model()` that returns a `Model`. All expressions are sympy expressions of the symbols
made here; `symbol.rate` is the time derivative of a coordinate or velocity. Equation numbers refer to
mechanics/README.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from servonode.mechanics.description import ModelError as ModelError
from servonode.mechanics.description import Quantity, Requirement, derivative_name
from servonode.mechanics.functions import COMPILED
from servonode.mechanics.place import Place, here

WORDS = True  # lines of this module are not a user's, see place.here
time = sympy.Symbol("t", real=True)
Expr = Any  # sympy ships no types; every expression is a sympy.Expr


def check_name(kind: str, name: str) -> None:
    if not (name.isascii() and name.isidentifier()):
        raise ModelError(f"{kind} name {name!r}: names are ASCII identifiers (phi, m1, c_w)", here())


_ENERGIES = ("kinetic", "potential", "dissipation")
_MAPPINGS = {"kinematics": "{x: v * cos(psi)}", "inputs": "{F: x.rate}", "identities": '{"norm": q.dot(q) - 1}',
             "safe": "{F: -c_b * x.rate}"}  # fmt: skip


def listed(what: str, keyword: str, given: Any, place: Place) -> tuple[Any, ...]:
    """The entries of an argument that is a sequence.

    Raises:
        ModelError: it is none, such as one symbol where a tuple is meant.
    """
    if isinstance(given, str | sympy.Basic | Mapping) or not isinstance(given, Iterable):
        text = f"{what}: {keyword}= is not a sequence; write {keyword}=(..., ) with a comma for a single one"
        raise ModelError(text, place.argument(keyword, follow=False))
    return tuple(given)


def check_kinds(what: str, keyword: str, entries: Iterable[Any], kind: type, place: Place) -> None:
    """Every entry must have been made by the word of its kind.

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
    if stated.has(sympy.I, sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise ModelError(f"{what}: {expression} has no finite real value; correct it", place)
    for node in sympy.preorder_traversal(stated):
        known = isinstance(node, sympy.Add | sympy.Mul | sympy.Pow | sympy.Number | sympy.NumberSymbol | sympy.Symbol)
        if not known and type(node).__name__ not in COMPILED:
            text = f"{what} contains {node}, which cannot be compiled; use {', '.join(sorted(COMPILED))}"
            raise ModelError(text, place)


class Rate(sympy.Symbol):  # type: ignore[misc]
    """A time derivative as a symbol of its own."""

    def __new__(cls, name: str, order: int) -> "Rate":
        rate: Rate = sympy.Symbol.__xnew__(cls, derivative_name(name, order), real=True)
        return rate


class _Named(sympy.Symbol):  # type: ignore[misc]
    """A real symbol that carries its quantity (description, unit, default, bounds) and where it was made."""

    quantity: Quantity
    place: Place
    vector: str | None = None  # the vector of which it is an entry

    def __new__(cls, quantity: Quantity) -> "_Named":
        name = quantity.name
        if not (name.isascii() and name.isidentifier()) or name.endswith(("_dot", "_ddot")) or name == "t":
            raise ModelError(
                f"{cls.__name__.lower()} name {name!r}: names are ASCII identifiers (phi, m1, c_w), "
                "not 't' and without the endings _dot and _ddot, which mark rates",
                here(),
            )
        return cls._made(quantity)

    @classmethod
    def _made(cls, quantity: Quantity) -> "_Named":
        symbol: _Named = sympy.Symbol.__xnew__(cls, quantity.name, real=True)
        symbol.quantity, symbol.place = quantity, here()
        return symbol

    def __getnewargs_ex__(self) -> tuple[tuple[Quantity], dict[str, Any]]:
        return (self.quantity,), {}

    @property
    def rate(self) -> Expr:
        """The time derivative, as a symbol of its own."""
        return Rate(self.name, 1)


class Coordinate(_Named):
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


class Velocity(_Named):
    """An independent quasi-velocity v, with q' = G v; `of` is the coordinate whose rate it is, if it is one."""

    of: Coordinate | None = None

    @property
    def rate(self) -> Expr:
        """The acceleration, as a symbol of its own."""
        return self.of.acceleration if self.of is not None else Rate(self.name, 1)


class Parameter(_Named):
    """A constant of the machine or of a program.

    A launch file may state it as a function of time; `rate` is then its derivative, else zero.
    """


class Input(_Named):
    """A generalized force that the controller commands."""


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
        return sympy.Add(*(sympy.diff(finite, q) * q.rate for q in coordinates), sympy.diff(finite, time))

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


def coordinate(name: str, description: str, unit: str = "1", *, start: float = 0.0) -> Coordinate:
    """A generalized coordinate; its rate is `.rate`. `start` is its value at t = 0 unless the launch file says else."""
    return Coordinate(Quantity(name, description, unit, start))


def velocity(name: str, description: str, unit: str = "1", *, start: float = 0.0) -> Velocity:
    """An independent quasi-velocity; its rate (an acceleration, for outputs) is `.rate`. `start` as of a coordinate."""
    return Velocity(Quantity(name, description, unit, start))


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
    """A condition `margin > 0` (strict) or `margin >= 0`, with the sentence that explains a violation."""

    margin: Expr
    requirement: Requirement
    place: Place = field(default_factory=here)


def condition(relation: Expr, text: str) -> Condition:
    """A condition from a sympy relation such as `I1 >= m1 * d1**2`; `text` says what a violation means."""
    if not isinstance(relation, (sympy.Ge, sympy.Gt, sympy.Le, sympy.Lt)):
        raise ModelError(f"condition {relation!r}: state it as a relation, for example I1 >= m1*d1**2", here())
    names = sorted(s.name for s in relation.free_symbols if isinstance(s, Parameter))
    strict = isinstance(relation, (sympy.Gt, sympy.Lt))
    return Condition(relation.gts - relation.lts, Requirement(text, strict, tuple(names)))


@dataclass(frozen=True)
class Model:
    """A machine: kinetic energy T(q, q', t), potential U(q, t), losses, constraints A q' = b, inputs, outputs.

    `coordinates` may be left out where `kinematics` lists them all. `kinematics` gives coordinates' rates as linear
    expressions of the velocities, q' = G v + g0, so that the constraints hold identically (the minimal form); a
    coordinate without kinematics has its own rate as velocity, called `q_dot`. `inputs` gives for each input the
    rate on which it does work: the power is the sum of input times rate. `dissipation` is a Rayleigh function
    R(q, q') with generalized forces -dR/dq'. `requirements` bound the parameters, `warnings` watch the run. `faults`
    are conditions of the state whose violation ends a run; `safe` gives inputs as expressions of the state that then
    act, such as a brake's (default: zero input). `panels`
    name the quantities worth a plot, one tuple an axis. `order` is the order of the state (default: coordinates, then
    velocities).

    `bodies` add their kinetic energies; where one is stated in velocities, momentum takes the place of Lagrange's
    equations, which is how motions that are the rate of no coordinate enter. Such a machine has no multipliers: state
    contact forces as outputs. `identities` are expressions of coordinates that the kinematics keep at zero and rounding
    does not, such as the norm of a quaternion less one; each step restores them.

    `varying` are parameters that a launch file states as functions of time, `disturbances` the generalized forces
    it adds, by coordinate or input; see `servonode.mechanics.changes`.

    Raises:
        ModelError: a name is used twice, a parameter has no default, or `order` leaves out a state.
    """

    name: str
    description: str
    kinetic: Expr = 0
    bodies: Sequence[Body] = ()
    parameters: Sequence[Parameter] = ()
    coordinates: Sequence[Coordinate] = ()
    kinematics: Mapping[Coordinate, Expr] = field(default_factory=dict)
    velocities: Sequence[Velocity] = ()
    inputs: Mapping[Input, Expr] = field(default_factory=dict)
    potential: Expr = 0
    dissipation: Expr = 0
    constraints: Sequence[Constraint] = ()
    identities: Mapping[str, Expr] = field(default_factory=dict)
    outputs: Sequence[Output] = ()
    requirements: Sequence[Condition] = ()
    warnings: Sequence[Condition] = ()
    faults: Sequence[Condition] = ()
    safe: Mapping[Input, Expr] = field(default_factory=dict)
    panels: Sequence[Sequence[str]] = ()
    order: Sequence[Any] = field(default=())
    varying: Mapping[Parameter, Expr] = field(default_factory=dict)
    disturbances: Mapping[Any, Expr] = field(default_factory=dict)
    place: Place = field(default_factory=here)
    kinematics_order: Sequence[Coordinate] = ()  # as they were stated, for the lines of errors

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_expressions()
        self._complete_kinematics()
        self._check_names()
        if set(self.state) != {*self.coordinates, *self.velocities}:
            missing = ", ".join(sorted({each.name for each in (*self.coordinates, *self.velocities)}))
            text = f"machine {self.name}: order must list each coordinate and velocity once ({missing})"
            raise ModelError(text, self.place.argument("order"))
        for name, entries in self.vectors.items():
            first = self.state.index(entries[0])
            if self.state[first : first + len(entries)] != entries:
                text = f"machine {self.name}: the entries of the vector {name} must follow each other in the state"
                raise ModelError(text, self.place.argument("order"))

    def _complete_kinematics(self) -> None:
        """Give each coordinate its rate: the stated one, or a velocity of its own."""
        coordinates = tuple(self.coordinates) or tuple(self.kinematics)
        unlisted = [q.name for q in self.kinematics if q not in coordinates]
        if unlisted:
            text = f"machine {self.name}: kinematics of {unlisted[0]!r}, which coordinates= does not list; add it there"
            raise ModelError(text, self.place.argument("coordinates"))
        if not self.kinematics_order:
            object.__setattr__(self, "kinematics_order", tuple(self.kinematics))
        known = {q.name: q for q in self.velocities}
        own = {
            q.rate: known.get(f"{q.name}_dot") or q.own_velocity()
            for q in coordinates
            if self.kinematics.get(q, q.rate) == q.rate
        }
        kinematics = {q: sympy.sympify(self.kinematics.get(q, q.rate)).xreplace(own) for q in coordinates}
        velocities = (*self.velocities, *(v for v in own.values() if v not in self.velocities))
        order = tuple(own.get(each, each) for each in self.order)
        completed = {"coordinates": coordinates, "kinematics": kinematics, "velocities": velocities, "order": order}
        for name, value in completed.items():
            object.__setattr__(self, name, value)

    def _check_kinds(self) -> None:
        """What is listed must have been made by the word of its kind."""
        what = f"machine {self.name}"
        for keyword in _MAPPINGS:
            if not isinstance(getattr(self, keyword), Mapping):
                text = f"{what}: {keyword}= is not a mapping; state it as {_MAPPINGS[keyword]}"
                raise ModelError(text, self.place.argument(keyword))
        kinds: dict[str, type] = {"coordinates": Coordinate, "kinematics": Coordinate, "velocities": Velocity}
        kinds |= {"parameters": Parameter, "inputs": Input, "bodies": Body, "constraints": Constraint}
        kinds |= {"outputs": Output, "requirements": Condition, "warnings": Condition, "faults": Condition}
        kinds |= {"safe": Input}
        stranger = (
            next((u for u in self.safe if u not in self.inputs), None) if isinstance(self.safe, Mapping) else None
        )
        if stranger is not None:
            text = f"{what}: safe= states {stranger}, which is no input of inputs=; state those alone"
            raise ModelError(text, self.place.argument("safe"))
        for keyword, kind in kinds.items():
            if keyword not in _MAPPINGS:
                object.__setattr__(self, keyword, listed(what, keyword, getattr(self, keyword), self.place))
            check_kinds(what, keyword, getattr(self, keyword), kind, self.place)

    def _check_expressions(self) -> None:
        """Energies and rates must be expressions that can be compiled."""
        stated = [(word, getattr(self, word), self.place.argument(word)) for word in _ENERGIES]
        for keyword in _MAPPINGS:
            entries = enumerate(getattr(self, keyword).items())
            stated += [(f"{keyword} of {key}", each, self.place.argument(keyword, i)) for i, (key, each) in entries]
        stated += [(f"constraint {each.quantity.name}", each.row, each.place) for each in self.constraints]
        stated += [(f"output {each.quantity.name}", each.expression, each.place) for each in self.outputs]
        conditions = (*self.requirements, *self.warnings, *self.faults)
        stated += [("a condition", each.margin, each.place) for each in conditions]
        for what, expression, place in stated:
            refuse_uncompilable(f"machine {self.name}: {what}", expression, place)

    def _check_names(self) -> None:
        seen: dict[str, object] = {}
        for name, place in self._named():
            if name in seen:
                text = f"machine {self.name}: the name {name!r} is used twice (first: {seen[name]}); rename one of them"
                raise ModelError(text, place)
            seen[name] = place
        shown = {each.name for each in (*self.state, *self.inputs)}
        shown |= {each.quantity.name for each in self.constraints} | {each.quantity.name for each in self.outputs}
        for panel in self.panels:  # a single text would be taken letter by letter
            unknown = [panel] if isinstance(panel, str) else [each for each in panel if each not in shown]
            if unknown:
                text = f"machine {self.name}: panels= has {unknown[0]!r}; give tuples of names, an axis each, from "
                raise ModelError(text + ", ".join(sorted(shown)), self.place.argument("panels"))
        for symbol in self.parameters:
            if symbol.quantity.default is None:
                text = f"machine {self.name}: parameter {symbol.name!r} has no default; give it one with default="
                raise ModelError(text, symbol.place)

    def _named(self) -> list[tuple[str, Place]]:
        """All names with the places where they were given."""
        named = [(symbol.name, symbol.place) for symbol in self.symbols]
        named += [(each.quantity.name, each.place) for each in self.constraints]
        return named + [(each.quantity.name, each.place) for each in self.outputs]

    def place_of_kinematics(self, q: Coordinate) -> Place:
        """Where the kinematics of a coordinate are stated."""
        entry = list(self.kinematics_order).index(q) if q in self.kinematics_order else None
        return self.place.argument("kinematics", entry)

    @property
    def state(self) -> tuple[_Named, ...]:
        """Coordinates and velocities in the order of the state array."""
        return tuple(self.order) or (*self.coordinates, *self.velocities)

    @property
    def symbols(self) -> tuple[_Named, ...]:
        return (*self.state, *self.inputs, *self.parameters)

    @property
    def held(self) -> dict[str, Expr]:
        """What every step brings back to zero: holonomic constraints and identities, by name."""
        constraints = {each.quantity.name: each.finite for each in self.constraints if each.finite is not None}
        return constraints | {name: sympy.sympify(each) for name, each in self.identities.items()}

    @property
    def speaks_in_velocities(self) -> bool:
        """Whether energies, losses or powers are stated in velocities, so that the full form does not know them."""
        stated = [sympy.sympify(each) for each in (self.dissipation, *self.inputs.values())]
        return any(each.free_symbols & set(self.velocities) for each in (*self.bodies, *stated))

    def mapped(self, change: Callable[[Expr], Expr]) -> "Model":
        """The same machine with every expression changed, but those of the requirements."""

        def changed(expression: Expr) -> Expr:
            return change(sympy.sympify(expression))

        return replace(
            self,
            kinetic=changed(self.kinetic),
            bodies=tuple(each.mapped(changed) for each in self.bodies),
            identities={name: changed(each) for name, each in self.identities.items()},
            potential=changed(self.potential),
            dissipation=changed(self.dissipation),
            kinematics={q: changed(rate) for q, rate in self.kinematics.items()},
            inputs={u: changed(on) for u, on in self.inputs.items()},
            constraints=tuple(each.mapped(changed) for each in self.constraints),
            outputs=tuple(replace(each, expression=changed(each.expression)) for each in self.outputs),
            warnings=tuple(replace(each, margin=changed(each.margin)) for each in self.warnings),
            faults=tuple(replace(each, margin=changed(each.margin)) for each in self.faults),
            safe={u: changed(each) for u, each in self.safe.items()},
        )

    @property
    def vectors(self) -> dict[str, tuple[_Named, ...]]:
        """The vectors among the states, with their entries."""
        found: dict[str, tuple[_Named, ...]] = {}
        for symbol in self.state:
            if symbol.vector is not None:
                found[symbol.vector] = (*found.get(symbol.vector, ()), symbol)
        return found

    def __getitem__(self, name: str) -> Any:
        """The symbol of this name, for programs: `machine["psi"]`; a column for a vector."""
        by_name: dict[str, Any] = {symbol.name: symbol for symbol in self.symbols}
        by_name |= {vector: sympy.Matrix(entries) for vector, entries in self.vectors.items()}
        if name not in by_name:
            known = ", ".join(sorted(by_name))
            raise ModelError(f"machine {self.name} has no symbol {name!r}; it has {known}", here())
        return by_name[name]

    @property
    def rates(self) -> dict[Expr, Expr]:
        """The rate symbol of each coordinate -> its expression G v + g0."""
        return {q.rate: sympy.sympify(rate) for q, rate in self.kinematics.items()}
