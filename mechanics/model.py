"""A machine: coordinates, quasi-velocities, energies, constraints, inputs, reactions.

A machine is a function `model()` that returns a `Model` of the symbols of `symbols.py`. Equation numbers refer to
mechanics/README.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from servonode.mechanics.description import ModelError
from servonode.mechanics.sensors import Sensor
from servonode.mechanics.source_location import Place, here
from servonode.mechanics.symbols import (
    Body,
    Condition,
    Constraint,
    Coordinate,
    Expr,
    Input,
    Jump,
    Named,
    Output,
    Parameter,
    Reaction,
    Stabilised,
    Velocity,
    check_kinds,
    listed,
    refuse_uncompilable,
)

WORDS = True  # lines of this module are not a user's, see source_location.here
_ENERGIES = ("kinetic", "potential", "dissipation")
_MAPPINGS = {
    "kinematics": "{x: v * cos(psi)}",
    "inputs": "{F: x.rate}",
    "reactions": "{R: x.rate}",
    "identities": '{"norm": q.dot(q) - 1}',
    "safe": "{F: -c_b * x.rate}",
}


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

    `reactions` are unknowns, each with the rate on which it does work (0: none), that the rows of `stabilised`
    determine: constraints that are not built into the kinematics but held by a stable equation of their residuals.
    `jumps` set states at the end of a step.

    `sensors` say what can be measured of it, and how well; they have no effect on the motion.

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
    reactions: Mapping[Reaction, Expr] = field(default_factory=dict)
    stabilised: Sequence[Stabilised] = ()
    jumps: Sequence[Jump] = ()
    potential: Expr = 0
    dissipation: Expr = 0
    constraints: Sequence[Constraint] = ()
    identities: Mapping[str, Expr] = field(default_factory=dict)
    outputs: Sequence[Output] = ()
    sensors: Sequence[Sensor] = ()
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
        """Check that each entry was made by the function of its kind."""
        what = f"machine {self.name}"
        for keyword in _MAPPINGS:
            if not isinstance(getattr(self, keyword), Mapping):
                text = f"{what}: {keyword}= is not a mapping; state it as {_MAPPINGS[keyword]}"
                raise ModelError(text, self.place.argument(keyword))
        kinds: dict[str, type] = {"coordinates": Coordinate, "kinematics": Coordinate, "velocities": Velocity}
        kinds |= {"parameters": Parameter, "inputs": Input, "bodies": Body, "constraints": Constraint}
        kinds |= {"outputs": Output, "requirements": Condition, "warnings": Condition, "faults": Condition}
        kinds |= {"sensors": Sensor, "safe": Input, "reactions": Reaction, "stabilised": Stabilised, "jumps": Jump}
        unknown = next((u for u in self.safe if u not in self.inputs), None) if isinstance(self.safe, Mapping) else None
        if unknown is not None:
            text = f"{what}: safe= states {unknown}, which is not an input of inputs=; state those alone"
            raise ModelError(text, self.place.argument("safe"))
        for keyword, kind in kinds.items():
            if keyword not in _MAPPINGS:
                object.__setattr__(self, keyword, listed(what, keyword, getattr(self, keyword), self.place))
            check_kinds(what, keyword, getattr(self, keyword), kind, self.place)

    def _check_expressions(self) -> None:
        """Check that energies and rates are expressions that can be compiled."""
        stated = [(word, getattr(self, word), self.place.argument(word)) for word in _ENERGIES]
        for keyword in _MAPPINGS:
            entries = enumerate(getattr(self, keyword).items())
            stated += [(f"{keyword} of {key}", each, self.place.argument(keyword, i)) for i, (key, each) in entries]
        stated += [(f"constraint {each.quantity.name}", each.row, each.place) for each in self.constraints]
        stated += [
            ("a jump", each, jump.place) for jump in self.jumps for each in (jump.margin, *jump.changes.values())
        ]
        stated += [(f"output {each.quantity.name}", each.expression, each.place) for each in self.outputs]
        stated += [(f"sensor {each.quantity.name}", each.expression, each.place) for each in self.sensors]
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
        shown |= {each.name for each in self.reactions}
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
        named += [(each.quantity.name, each.place) for each in self.stabilised]
        named += [(each.quantity.name, each.place) for each in self.sensors]
        return named + [(each.quantity.name, each.place) for each in self.outputs]

    def place_of_kinematics(self, q: Coordinate) -> Place:
        """Where the kinematics of a coordinate are stated."""
        entry = list(self.kinematics_order).index(q) if q in self.kinematics_order else None
        return self.place.argument("kinematics", entry)

    @property
    def state(self) -> tuple[Named, ...]:
        """Coordinates and velocities in the order of the state array."""
        return tuple(self.order) or (*self.coordinates, *self.velocities)

    @property
    def symbols(self) -> tuple[Named, ...]:
        return (*self.state, *self.inputs, *self.reactions, *self.parameters)

    @property
    def forces(self) -> dict[Any, Expr]:
        """Inputs, then reactions, with the rates on which they do work."""
        return {**self.inputs, **self.reactions}

    @property
    def held(self) -> dict[str, Expr]:
        """What every step brings back to zero: holonomic constraints and identities, by name."""
        constraints = {each.quantity.name: each.finite for each in self.constraints if each.finite is not None}
        return constraints | {name: sympy.sympify(each) for name, each in self.identities.items()}

    @property
    def speaks_in_velocities(self) -> bool:
        """Whether energies, losses or powers are stated in velocities, so that the full form does not know them."""
        stated = [sympy.sympify(each) for each in (self.dissipation, *self.forces.values())]
        return any(each.free_symbols & set(self.velocities) for each in (*self.bodies, *stated))

    @property
    def moved_by_reactions(self) -> tuple[Coordinate, ...]:
        """The coordinates whose rate contains a reaction."""
        stated = {q: sympy.sympify(rate).free_symbols for q, rate in self.kinematics.items()}
        return tuple(q for q, symbols in stated.items() if symbols & set(self.reactions))

    @property
    def has_full_form(self) -> bool:
        """Whether its motion can also be had with multipliers, in rates alone."""
        return not self.speaks_in_velocities and not self.reactions

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
            reactions={N: changed(on) for N, on in self.reactions.items()},
            stabilised=tuple(
                replace(each, residual=changed(each.residual), row=changed(each.row)) for each in self.stabilised
            ),
            jumps=tuple(
                replace(each, margin=changed(each.margin), changes={x: changed(to) for x, to in each.changes.items()})
                for each in self.jumps
            ),
            constraints=tuple(each.mapped(changed) for each in self.constraints),
            outputs=tuple(replace(each, expression=changed(each.expression)) for each in self.outputs),
            sensors=tuple(each.mapped(changed(each.expression)) for each in self.sensors),
            warnings=tuple(replace(each, margin=changed(each.margin)) for each in self.warnings),
            faults=tuple(replace(each, margin=changed(each.margin)) for each in self.faults),
            safe={u: changed(each) for u, each in self.safe.items()},
        )

    @property
    def vectors(self) -> dict[str, tuple[Named, ...]]:
        """The vectors among the states, with their entries."""
        found: dict[str, tuple[Named, ...]] = {}
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
