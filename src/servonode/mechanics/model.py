"""A machine: coordinates, quasi-velocities, energies, constraints, inputs, reactions.

A machine is a function `model()` that returns a `Model` of the symbols of `symbols.py`. Equation numbers refer to
docs/explanation/mathematics.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import sympy

from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError
from servonode.mechanics.description import DrawnView
from servonode.mechanics.drawing import Picture, drawn, pictures
from servonode.mechanics.independent import solved
from servonode.mechanics.sensors import Sensor
from servonode.mechanics.stated import Change, Stated, mapped
from servonode.mechanics.switches import PIECEWISE, settled, without_signs
from servonode.mechanics.symbols import (
    Assembly,
    Body,
    Condition,
    Constraint,
    Coordinate,
    Expr,
    FirstOrder,
    Input,
    Jump,
    Named,
    Output,
    Parameter,
    Reaction,
    Stabilised,
    Velocity,
    check_kinds,
    check_mapping,
    check_texts,
    listed,
    refuse_uncompilable,
    rows_of_quantities,
)
from servonode.mechanics.trees import Tree
from servonode.tables import Row, Tabular, several

Part = tuple[str, str, Any, Place]
Forces = tuple[tuple[Expr, Expr], ...]  # force, rate on which it does work
ENERGIES = ("kinetic", "potential", "dissipation")
SEQUENCES: dict[str, type] = {
    "coordinates": Coordinate,
    "velocities": Velocity,
    "parameters": Parameter,
    "bodies": Body,
}
SEQUENCES |= {"constraints": Constraint, "outputs": Output, "sensors": Sensor, "stabilised": Stabilised, "jumps": Jump}
SEQUENCES |= {"drawing": Picture} | dict.fromkeys(("requirements", "warnings", "faults"), Condition)
MAPPINGS: dict[str, tuple[type, str]] = {  # the kind of their keys, an example
    "kinematics": (Coordinate, "{x: v * cos(psi)}"),
    "inputs": (Input, "{F: x.rate}"),
    "reactions": (Reaction, "{R: x.rate}"),
    "first_order": (FirstOrder, "{i: (u - R*i)/L}"),
    "identities": (object, '{"norm": q.dot(q) - 1}'),
    "safe": (Input, "{F: -c_b * x.rate}"),
}
_SWITCHING = {"potential", "dissipation", "outputs", "first_order"}  # may contain Piecewise
_COUPLING = {*ENERGIES, *SEQUENCES, *MAPPINGS, "independent", "forces", "panels"} - {"reactions", "stabilised", "jumps"}


@dataclass(frozen=True, repr=False)
class Model(Tabular):
    """A machine: kinetic energy T(q, q', t), potential U(q, q', t), losses, constraints A q' = b, inputs, outputs.

    `coordinates` may be left out if `kinematics` lists them all. `kinematics` maps each coordinate to its rate, a
    linear expression of the velocities, q' = G v + g0, so that the constraints hold identically (the minimal form); a
    coordinate without kinematics has its own rate as velocity, called `q_dot`. `inputs` maps each input to the rate on
    which it does work: its power is input times rate. `forces` maps known forces, such as a thrust as an expression of
    state and time, to the rates on which they do work. `first_order` maps states that are not motions, such as the
    current of a motor, to their rates, which are linear in the inputs. `dissipation` is a Rayleigh function R(q, q')
    with the generalized forces -dR/dq'. `requirements` are conditions on the parameters, `warnings` are conditions that
    are monitored during a run. `faults` are conditions on the state; a violation ends the run. `safe` maps inputs to
    expressions of the state that then act, such as a brake (default: zero input). `panels` has the names of the
    quantities to plot, one tuple per axis. `order` is the order of the state (default: coordinates, then velocities).

    With `independent` coordinates instead of `kinematics`, closed loops are possible: the constraints are solved for
    the rates of all other coordinates. At a dead point, where this is impossible, a run ends with a fault. A mapping
    of velocities to linear expressions of rates, `independent={V: x.rate * cos(psi) + y.rate * sin(psi), ...}`, has
    these as the velocities.

    `bodies` add their kinetic energies. If a body is given in velocities, the balance of momentum replaces Lagrange's
    equations; this allows motions that are not the rate of a coordinate. Such a machine has no multipliers: define
    contact forces as outputs. `identities` are expressions of coordinates that are zero except for rounding, such as
    the norm of a quaternion less one; each step restores them.

    `reactions` maps unknown forces to the rates on which they do work (0: none). The rows of `stabilised` determine
    them: constraints that are not part of the kinematics but hold by a stable equation of their residuals.
    `jumps` set states at the end of a step.

    `sensors` are the measured quantities with their errors; they have no effect on the motion.

    The energies of a `tree` of links add to the stated ones; coordinates, kinematics of quaternions and the identities
    of their norms are taken from it where they are not stated.

    `drawing` is how the machine is drawn: shapes such as `line((0, 0), (l*sin(th), -l*cos(th)))`, or views of such; see
    `servonode.mechanics.drawing`.

    `notes` are what `check` says of the machine, a line each, such as what it leaves out.

    `varying` are parameters that a launch file specifies as functions of time, `disturbances` the generalized forces
    it adds, by coordinate or input; see `servonode.mechanics.changes`.

    It is large because one call states all of a machine, and a derivation asks it for what follows from that alone.

    Raises:
        ModelError: a name is used twice, a parameter has no default, or `order` leaves out a state.

    >>> from sympy import cos
    >>> from servonode.mechanics import Model, coordinate, input_, parameter
    >>> theta = coordinate("theta", "angle from below", "rad")
    >>> m, l = parameter("m", "mass", "kg", default=1.0, above=0), parameter("l", "length", "m", default=0.5, above=0)
    >>> N = input_("N", "torque", "N m")
    >>> Model(
    ...     name="pendulum",
    ...     description="a pendulum with a motor",
    ...     coordinates=(theta,),
    ...     parameters=(m, l),
    ...     kinetic=m * (l * theta.rate) ** 2 / 2,
    ...     potential=-m * 9.81 * l * cos(theta),
    ...     inputs={N: theta.rate},
    ... )
    Model pendulum: a pendulum with a motor
      coordinates  theta [rad]
      velocities   theta_dot [rad/s]
      inputs       N [N m]
      parameters   m [kg], l [m]
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
    forces: Mapping[Expr, Expr] | Sequence[tuple[Expr, Expr]] = ()
    first_order: Mapping[FirstOrder, Expr] = field(default_factory=dict)
    independent: Sequence[Coordinate] | Mapping[Velocity, Expr] = ()
    varying: Mapping[Parameter, Expr] = field(default_factory=dict)
    disturbances: Mapping[Any, Expr] = field(default_factory=dict)
    tree: Tree | None = None
    notes: Sequence[str] = ()
    drawing: Sequence[Any] = ()
    place: Place = field(default_factory=here)
    kinematics_order: Sequence[Coordinate] = ()  # as they were given, for the lines of errors

    def table(self) -> tuple[str, list[Row]]:
        """Coordinates, velocities, parameters, inputs, constraints and what can be measured, each with its unit."""
        words = ("coordinates", "velocities", "inputs", "parameters", "constraints", "stabilised", "outputs", "sensors")
        rows = rows_of_quantities(self, *words)
        bodies = [("bodies", several(each.name for each in self.bodies))] if self.bodies else []
        return f"Model {self.name}: {self.description}", [*rows, *bodies]

    def __post_init__(self) -> None:
        self._complete(drawing=pictures(self.drawing, self.place, f"machine {self.name}"))
        self._check_kinds()
        texts = {"identities": " ".join(map(str, self.identities)), "notes": " ".join(map(str, self.notes))}
        check_texts("Model()", name=self.name, description=self.description, **texts)
        self._complete(forces=stated_forces(self.name, self.forces, self.place))
        if self.tree is not None:
            self._take_from_tree(self.tree)
        self._check_expressions()
        self._settle()
        self._complete_kinematics()
        self._complete(jumps=tuple(self._in_states(each) for each in self.jumps))
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

    def _complete(self, **values: Any) -> None:
        """Put what follows from the stated arguments in their place, while the machine is made."""
        vars(self).update(values)

    def _take_from_tree(self, tree: Tree) -> None:
        """Complete coordinates, kinematics, velocities and identities by those of the tree.

        Raises:
            ModelError: it has balls beside constraints, whose rows are in rates.
        """
        if tree.balls and (self.constraints or self.independent):
            names = ", ".join(each.name for each in tree.links if any(j in tree.balls for j in each.joints))
            text = f"machine {self.name}: constraints are in rates of coordinates"
            text += f", which the spin of a ball is not ({names}); state it as three hinges"
            raise ModelError(text, self.place.argument("constraints"))
        stated = tuple(self.coordinates) or tuple(self.kinematics)
        coordinates = (*stated, *(q for q in tree.rates if q not in stated))
        if not coordinates:
            text = f"machine {self.name}: nothing moves, as no link of its tree has a joint; give one with joints="
            raise ModelError(text, self.place.argument("tree"))
        turning = {q: rate for q, rate in tree.rates.items() if rate != q.rate and q not in self.kinematics}
        self._complete(
            coordinates=coordinates,
            kinematics={**self.kinematics, **turning},
            velocities=self._with_motions(tree),
            identities={**tree.identities, **self.identities},
        )

    def _with_motions(self, tree: Tree) -> tuple[Velocity, ...]:
        """The stated velocities, then the motions of the tree that are velocities, in its order."""
        known = {v.name for v in self.velocities}
        found: list[Velocity] = []
        for joint in tree.joints:
            free = joint.kind == "ball" or not (self.independent or joint.coordinates[0] in self.kinematics)
            own = joint.motions if joint.kind == "ball" else [q.own_velocity() for q in joint.coordinates]
            found += [v for v in own if free and v.name not in known]
        return (*self.velocities, *found)

    def _settle(self) -> None:
        """Bring expressions that may switch into one form."""
        self._complete(
            potential=settled(self.potential),
            dissipation=settled(self.dissipation),
            first_order={state: without_signs(rate) for state, rate in self.first_order.items()},
            outputs=tuple(
                replace(each, expression=settled(each.expression)) if each.expression.has(*PIECEWISE) else each
                for each in self.outputs
            ),
        )

    def _complete_kinematics(self) -> None:
        """Give each coordinate its rate: the stated one, or a velocity of its own."""
        coordinates = tuple(self.coordinates) or tuple(self.kinematics)
        if not coordinates:
            text = f"machine {self.name}: nothing moves; give it at least one coordinate in coordinates="
            raise ModelError(text, self.place.argument("coordinates"))
        unlisted = [q.name for q in self.kinematics if q not in coordinates]
        if unlisted:
            text = f"machine {self.name}: kinematics of {unlisted[0]!r}, which coordinates= does not list; add it there"
            raise ModelError(text, self.place.argument("coordinates"))
        if self.independent:
            self._solve_loops(coordinates)
        if not self.kinematics_order:
            self._complete(kinematics_order=tuple(self.kinematics))
        known = {q.name: q for q in self.velocities}
        own = {
            q.rate: known.get(f"{q.name}_dot") or q.own_velocity()
            for q in coordinates
            if self.kinematics.get(q, q.rate) == q.rate
        }
        kinematics = {q: sympy.sympify(self.kinematics.get(q, q.rate)).xreplace(own) for q in coordinates}
        more = (*own.values(), *self.first_order)
        velocities = (*self.velocities, *(v for v in more if v not in self.velocities))
        order = tuple(own.get(each, each) for each in self.order)
        self._complete(coordinates=coordinates, kinematics=kinematics, velocities=velocities, order=order)

    def _in_states(self, jump: Jump) -> Jump:
        """The jump in states: rates of coordinates are what the kinematics say, and are set where they are a state."""
        states = {rate: v for rate, v in self.rates.items() if v in self.velocities}
        changes = {states.get(x, x): sympy.sympify(to).xreplace(self.rates) for x, to in jump.changes.items()}
        if len(changes) < len(jump.changes):
            twice = next(states[x] for x in jump.changes if states.get(x) in jump.changes)
            text = f"machine {self.name}: the jump {jump.description!r} sets {twice} twice, once as a rate; do so once"
            raise ModelError(text, jump.place)
        return replace(jump, margin=jump.margin.xreplace(self.rates), changes=changes)

    def _solve_loops(self, coordinates: Sequence[Coordinate]) -> None:
        """Find the kinematics of the dependent coordinates, and what ends a run at their dead points."""
        what, place = f"machine {self.name}", self.place.argument("independent")
        stated = self.independent_rates
        others = [v for v in self.velocities if v not in stated]
        if not all(isinstance(v, FirstOrder) for v in others) or (self.kinematics and not self.velocities):
            text = f"{what}: independent= finds the kinematics; leave out velocities= and kinematics=, or independent="
            raise ModelError(text, place)
        found = solved(what, tuple(coordinates), tuple(stated.items()), self.constraints, self.place)
        faults = tuple(each for each in self.faults if each.requirement.name != "dead_point")
        self._complete(kinematics=found.rates, velocities=(*stated, *others), faults=(*found.dead_points, *faults))

    def _check_kinds(self) -> None:
        """Check that each entry was made by the function of its kind."""
        what = f"machine {self.name}"
        mappings, sequences = {keyword: kind for keyword, (kind, _) in MAPPINGS.items()}, dict(SEQUENCES)
        for keyword, (_, example) in MAPPINGS.items():
            check_mapping(what, keyword, getattr(self, keyword), example, self.place)
        if isinstance(self.independent, Mapping):
            mappings["independent"] = Velocity
        else:
            sequences["independent"] = Coordinate
        unknown = next((u for u in self.safe if u not in self.inputs), None) if isinstance(self.safe, Mapping) else None
        if unknown is not None:
            text = f"{what}: safe= states {unknown}, which is not an input of inputs=; state those alone"
            raise ModelError(text, self.place.argument("safe"))
        for keyword in sequences:
            self._complete(**{keyword: listed(what, keyword, getattr(self, keyword), self.place)})
        for keyword, kind in (sequences | mappings).items():
            check_kinds(what, keyword, getattr(self, keyword), kind, self.place)

    def _check_expressions(self) -> None:
        """Check that energies and rates are expressions that can be compiled."""
        for word, what, stated, place in self.parts:
            if not isinstance(stated, Stated):
                refuse_uncompilable(f"machine {self.name}: {what}", stated, place, switches=word in _SWITCHING)

    @property
    def parts(self) -> Iterator[Part]:
        """All that is stated with expressions: the argument's name, what it is called, itself, where it is given."""
        at = self.place.argument
        energies = {"kinetic": "the kinetic energy", "potential": "the potential", "dissipation": "the dissipation"}
        yield from ((word, what, getattr(self, word), at(word)) for word, what in energies.items())
        for q, rate in self.kinematics.items():
            yield "kinematics", f"the rate of {q.name}", rate, self.place_of_kinematics(q)
        by_key = {"inputs": "the rate of input", "reactions": "the rate of reaction", "first_order": "the rate of"}
        for word, what in (by_key | {"identities": "the identity", "safe": "the safe action of"}).items():
            for i, (key, each) in enumerate(getattr(self, word).items()):
                yield word, f"{what} {key}", each, at(word, i)
        yield from (
            ("independent", f"independent {v}", e, at("independent")) for v, e in self.independent_rates.items()
        )
        for i, (force, on) in enumerate(self.forces):
            yield "forces", f"the force on {on}", force, at("forces", i)
            yield "acts_on", "the rate of a force", on, at("forces", i)
        yield from (("bodies", f"the body {each.name}", each, each.place) for each in self.bodies)
        links = self.tree.links if self.tree else ()
        yield from (("links", f"the link {each.name}", each, each.place) for each in links)
        yield from (("constraints", f"the constraint {e.quantity.name}", e.row, e.place) for e in self.constraints)
        for held in self.stabilised:
            yield "residuals", f"the constraint {held.quantity.name}", held.residual, held.place
            yield "stabilised", f"the constraint {held.quantity.name}", held.row, held.place
        for jump in self.jumps:
            stated = (jump.margin, *jump.changes.values())
            yield from (("jumps", f"the jump {jump.description!r}", each, jump.place) for each in stated)
        for word in ("outputs", "sensors"):
            for seen in getattr(self, word):
                yield word, f"the {word[:-1]} {seen.quantity.name}", seen.expression, seen.place
        for word in ("requirements", "warnings", "faults"):
            for condition in getattr(self, word):
                yield word, f"the {word[:-1]} {condition.requirement.text!r}", condition.margin, condition.place

        yield from (part for each in self.drawing for part in each.parts(self._recorded))

    @property
    def _recorded(self) -> dict[Expr, str]:
        """States and outputs, with their names."""
        outputs = {each.expression: each.quantity.name for each in self.outputs}
        return outputs | {symbol: symbol.name for symbol in self.state}

    @cached_property
    def drawn(self) -> tuple[tuple[DrawnView, ...], list[Expr]]:
        """The views of the drawing, and the expressions of their numbers."""
        return drawn(self.drawing, self._recorded)

    def _check_names(self) -> None:
        seen: dict[str, object] = {}
        named: tuple[Any, ...] = (*self.symbols, *self.constraints, *self.stabilised, *self.sensors, *self.outputs)
        for name, place in ((each.quantity.name, each.place) for each in named):
            if name in seen:
                text = f"machine {self.name}: the name {name!r} is used twice (first: {seen[name]}); rename one of them"
                raise ModelError(text, place)
            seen[name] = place
        shown = {each.name for each in (*self.state, *self.inputs)}
        others: tuple[Any, ...] = (*self.constraints, *self.outputs, *self.reactions)
        shown |= {each.quantity.name for each in others}
        for panel in self.panels:  # a single text would be taken letter by letter
            unknown = [panel] if isinstance(panel, str) else [each for each in panel if each not in shown]
            if unknown:
                text = f"machine {self.name}: panels= has {unknown[0]!r}; give tuples of names, an axis each, from "
                raise ModelError(text + ", ".join(sorted(shown)), self.place.argument("panels"))
        for symbol in self.parameters:
            if symbol.quantity.default is None:
                text = f"machine {self.name}: parameter {symbol.name!r} has no default; give it one with default="
                raise ModelError(text, symbol.place)

    def place_of_kinematics(self, q: Coordinate) -> Place:
        """Where the kinematics of a coordinate are given."""
        order = [*(self.kinematics_order or self.kinematics)]
        entry = order.index(q) if q in order else None
        return self.place.argument("kinematics", entry)

    @property
    def state(self) -> tuple[Named, ...]:
        """Coordinates and velocities in the order of the state array."""
        return tuple(self.order) or (*self.coordinates, *self.velocities)

    @property
    def symbols(self) -> tuple[Named, ...]:
        return (*self.state, *self.inputs, *self.reactions, *self.parameters)

    @property
    def independent_rates(self) -> dict[Velocity, Expr]:
        """The velocities of `independent`, each with what it is in rates."""
        if isinstance(self.independent, Mapping):
            return dict(self.independent)
        present = {v.of: v for v in self.velocities if v.of is not None}
        return {present.get(q) or q.own_velocity(): q.rate for q in self.independent}

    @property
    def acting(self) -> dict[Any, Expr]:
        """Inputs, then reactions, with the rates on which they do work."""
        return {**self.inputs, **self.reactions}

    @property
    def held(self) -> dict[str, Expr]:
        """What every step brings back to zero: holonomic constraints and identities, by name."""
        constraints = {each.quantity.name: each.finite for each in self.constraints if each.finite is not None}
        return constraints | {name: sympy.sympify(each) for name, each in self.identities.items()}

    @property
    def assemblies(self) -> dict[Assembly, Expr]:
        """The determinant of each group of closed loops, by the symbol for its sign at the start of a run."""
        stated = ((each.margin, each.margin.atoms(Assembly)) for each in self.faults)
        return {sign: margin.xreplace({sign: sympy.Integer(1)}) for margin, found in stated for sign in found}

    @property
    def speaks_in_velocities(self) -> bool:
        """Whether energies, losses or powers are given in velocities, so that the full form does not know them."""
        stated = [sympy.sympify(each) for each in (self.dissipation, *self.acting.values())]
        stated += [on for _, on in self.forces]
        if self.tree is not None and self.tree.spins:
            return True
        return any(each.free_symbols & set(self.own_motions) for each in (*self.bodies, *stated))

    @property
    def own_motions(self) -> tuple[Velocity, ...]:
        """The velocities that are motions, first-order states left out."""
        return tuple(v for v in self.velocities if v not in self.first_order)

    @property
    def motions(self) -> list[Expr]:
        """All symbols of motions: rates of coordinates, velocities."""
        return [*(q.rate for q in self.coordinates), *self.own_motions]

    @property
    def moved_by_reactions(self) -> tuple[Coordinate, ...]:
        """The coordinates whose rate contains a reaction."""
        stated = {q: sympy.sympify(rate).free_symbols for q, rate in self.kinematics.items()}
        return tuple(q for q, symbols in stated.items() if symbols & set(self.reactions))

    @property
    def has_full_form(self) -> bool:
        """Whether the machine also has the full form, in rates with multipliers."""
        return not self.speaks_in_velocities and not self.reactions

    def mapped(self, change: Change) -> "Model":
        """The same machine with every expression changed, but those of the requirements."""
        words = {*ENERGIES, *SEQUENCES, *MAPPINGS, "tree", "forces"} - {"coordinates", "velocities", "parameters"}
        words |= {"independent"} if isinstance(self.independent, Mapping) else set()
        return replace(self, **{word: mapped(getattr(self, word), change) for word in words - {"requirements"}})

    def coupled(self, **more: Any) -> "Model":
        """The machine with additions, by arguments of Model: energies are added, sequences and mappings are extended.

        The arguments `independent`, or `kinematics` and `velocities`, replace the present ones, as a constraint between
        two parts requires.

        Raises:
            ModelError: there is no such argument, or the result is not a valid machine.

        >>> from servonode.mechanics import Model, coordinate, parameter, together
        >>> x = coordinate("x", "place", "m")
        >>> cart = Model(name="cart", description="a cart", coordinates=(x,), kinetic=x.rate**2 / 2)
        >>> pair = together("pair", "two carts", left=cart, right=cart)
        >>> c = parameter("c", "stiffness of the spring between", "N/m", default=3.0)
        >>> coupled = pair.coupled(potential=c * (pair["left_x"] - pair["right_x"]) ** 2 / 2, parameters=(c,))
        >>> coupled.potential
        c*(left_x - right_x)**2/2
        """
        added: dict[str, Any] = {"place": here()}
        for word, stated in more.items():
            present = getattr(self, word, None) if word in _COUPLING else None
            if present is None:
                text = f"machine {self.name}: coupled({word}=...) is not known; give {', '.join(sorted(_COUPLING))}"
                raise ModelError(text, here())
            if word in ENERGIES:
                refuse_uncompilable(f"machine {self.name}: {word}", stated, here(), switches=word in _SWITCHING)
                added[word] = present + sympy.sympify(stated)
            elif word in ("independent", "kinematics", "velocities"):
                added[word] = stated
            elif isinstance(present, Mapping):
                added[word] = {**present, **stated}
            else:
                more_of_it = stated.items() if isinstance(stated, Mapping) else stated
                added[word] = (*present, *listed(f"machine {self.name}", word, more_of_it, here()))
        if added.keys() & {"independent", "kinematics"}:
            added = {"kinematics": {}, "velocities": tuple(self.first_order)} | added
        if added.keys() & {"independent", "kinematics", "coordinates", "first_order"}:
            added["order"] = ()
        return replace(self, kinematics_order=(), **added)

    @property
    def vectors(self) -> dict[str, tuple[Named, ...]]:
        """The vectors among the states, with their entries."""
        found: dict[str, tuple[Named, ...]] = {}
        for symbol in self.state:
            if symbol.vector is not None:
                found[symbol.vector] = (*found.get(symbol.vector, ()), symbol)
        return found

    def __getitem__(self, name: str) -> Any:
        """The symbol of this name, for programs: `machine["psi"]`; a column for a vector, an output's expression."""
        by_name: dict[str, Any] = {each.quantity.name: each.expression for each in self.outputs}
        by_name |= {symbol.name: symbol for symbol in self.symbols}
        by_name |= {vector: sympy.Matrix(entries) for vector, entries in self.vectors.items()}
        if name not in by_name:
            known = ", ".join(sorted(by_name))
            raise ModelError(f"machine {self.name} has no symbol {name!r}; it has {known}", here())
        return by_name[name]

    def not_served(self, expression: Expr) -> str:
        """Why no goal can contain this expression; empty where one can."""
        kinds: dict[str, Any] = {"input": self.inputs, "reaction": self.reactions}
        kinds |= {"contact force": {each.multiplier for each in self.constraints}}
        kinds |= {"acceleration": {q.acceleration for q in self.coordinates} | {v.rate for v in self.velocities}}
        found = ((kind, each) for kind, symbols in kinds.items() for each in symbols if each in expression.free_symbols)
        kind, symbol = next(found, ("", None))
        if not kind:
            return ""
        text = f"it contains the {kind} {symbol}, which the inputs change at once, so that nothing of it can decay"
        return f"{text}; use only states, rates, parameters and time"

    @property
    def rates(self) -> dict[Expr, Expr]:
        """The rate symbol of each coordinate -> its expression G v + g0."""
        return {q.rate: sympy.sympify(rate) for q, rate in self.kinematics.items()}


def stated_forces(machine: str, stated: Any, place: Place) -> Forces:
    """The forces of a model's argument, a mapping or pairs, in one form.

    Raises:
        ModelError: it is neither, two keys of the mapping are the same, or an expression cannot be compiled.
    """
    what, where = f"machine {machine}", place.argument("forces")
    pairs = list(stated.items() if isinstance(stated, Mapping) else stated) if isinstance(stated, Iterable) else None
    if pairs is None or not all(isinstance(each, tuple | list) and len(each) == 2 for each in pairs):
        text = f"{what}: forces= is neither a mapping nor pairs; write it as {{-c*v**2: x.rate}}"
        raise ModelError(f"{text} or as ((-c*v**2, x.rate), ...)", where)
    if isinstance(stated, Mapping) and (place.entries("forces") or 0) > len(stated):
        text = f"{what}: two of forces= are the same expression, of which a mapping keeps one; give pairs,"
        raise ModelError(f"{text} forces=((expression, rate), ...)", where)
    for i, (force, on) in enumerate(pairs):
        refuse_uncompilable(f"{what}: the force on {on}", force, place.argument("forces", i), switches=True)
        refuse_uncompilable(f"{what}: the rate of the force {force}", on, place.argument("forces", i))
    return tuple((without_signs(force), sympy.sympify(on)) for force, on in pairs)
