"""Kinematic trees: links that joints join, for machines that are derived by recursion (`recursion`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import sympy

from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError
from servonode.mechanics import recursion
from servonode.mechanics.computed import LEAST, TreeData
from servonode.mechanics.links import UNIT, Entries, Frame, Joint, Link, triple
from servonode.mechanics.recursion import Node, Recursion, Turn, Vector
from servonode.mechanics.stated import Stated
from servonode.mechanics.straight_line import gradient, named, symbols_of
from servonode.mechanics.symbols import Velocity, check_kinds, listed, time

Expr = Any
Held = tuple[int, Turn, Vector]  # the node to which something is fixed, its axes and origin there


def tree(links: Sequence[Link], gravity: Entries = (0, 0, -9.81), frames: Sequence[Frame] = ()) -> "Tree":
    """Links in any order; `gravity` [m/s^2] in the ground's axes. `Model(tree=...)` adds its energies to the machine.

    Coordinates, kinematics of quaternions and the identity of their norm are taken from the tree where the Model does
    not state them.

    Raises:
        ModelError: a name or a joint is used twice, a parent is unknown, or links hang on one another in a circle.

    >>> from servonode.mechanics import Model, coordinate, frame, hinge, link, tree
    >>> theta = coordinate("theta", "angle from below", "rad")
    >>> rod = link("rod", joints=(hinge(theta, (0, 1, 0)),), mass=2, centre=(0, 0, -0.5))
    >>> pendulum = Model(
    ...     name="pendulum", description="a rod", tree=tree([rod], frames=[frame("tip", "rod", (0, 0, -1))])
    ... )
    >>> list(pendulum.tree["tip"].position)
    [-sin(theta), 0, -cos(theta)]
    """
    what = "tree"
    links, frames = listed(what, "links", links, here()), listed(what, "frames", frames, here())
    for keyword, entries, wanted in (("links", links, Link), ("frames", frames, Frame)):
        check_kinds(what, keyword, entries, wanted, here())
    _check_names(links, frames)
    _check_joints(links)
    return Tree(_sorted(links), triple("tree: gravity", gravity), tuple(frames))


@dataclass(frozen=True)
class Located:
    """A link, frame or point in the ground's axes, in coordinates and motions: columns (3, 1), rotation (3, 3)."""

    position: sympy.MatrixBase
    rotation: sympy.MatrixBase
    velocity: sympy.MatrixBase
    angular_velocity: sympy.MatrixBase
    motions: tuple[Expr, ...]  # of the tree

    @property
    def jacobian(self) -> sympy.MatrixBase:
        """The derivatives (6, n) of velocity and angular velocity by the motions of the tree."""
        return sympy.Matrix([gradient(each, self.motions) for each in (*self.velocity, *self.angular_velocity)])


@dataclass(frozen=True)
class Tree(Stated):
    """A kinematic tree, as `tree` makes it; `tree["tool"]` is a frame or a link by its name."""

    links: tuple[Link, ...]  # parents first
    gravity: tuple[Expr, ...]
    frames: tuple[Frame, ...]
    place: Place = field(default_factory=here)

    @property
    def joints(self) -> list[Joint]:
        return [joint for each in self.links for joint in each.joints]

    @property
    def balls(self) -> list[Joint]:
        return [joint for joint in self.joints if joint.kind == "ball"]

    @property
    def rates(self) -> dict[Expr, Expr]:
        """Each coordinate -> its rate."""
        return {q: rate for joint in self.joints for q, rate in joint.rates.items()}

    @property
    def spins(self) -> tuple[Velocity, ...]:
        """The velocities of balls."""
        return tuple(w for joint in self.balls for w in joint.motions)

    @property
    def identities(self) -> dict[str, Expr]:
        """The norm of each quaternion less one, by name."""
        quaternions = (joint.coordinates for joint in self.balls)
        return {f"norm_{q[0].vector or q[0].name}": sympy.Add(*(each**2 for each in q)) - 1 for q in quaternions}

    @property
    def kinetic(self) -> Expr:
        """The kinetic energy [J]."""
        return self.recursion.kinetic if self.data is None else self.data.entries("tree_kinetic", self.data.motions)[0]

    @property
    def potential(self) -> Expr:
        """The potential energy of gravity [J]."""
        return self.recursion.potential if self.data is None else self.data.entries("tree_potential")[0]

    @property
    def mass(self) -> Expr:
        """The mass of all links [kg]."""
        return self.recursion.composites[0][0]

    @property
    def centre_of_mass(self) -> sympy.MatrixBase:
        """The centre of mass of all links in the ground's axes (3, 1) [m]."""
        return sympy.Matrix([named(each / self.mass) for each in self.recursion.composites[0][1]])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of links and frames."""
        return tuple(self._held)

    def __getitem__(self, name: str) -> Located:
        """A link or frame in the ground's axes.

        Raises:
            ModelError: there is none of this name.
        """
        if name not in self._held:
            text = f"tree: it has no link or frame {name!r}; it has {', '.join(self._held)}"
            raise ModelError(text, here())
        node, turn, at = self._held[name]
        (R, p), (w, v) = self.recursion.places[node], self.recursion.velocities[node]
        moved = recursion.add(v, recursion.cross(w, at))
        columns = (recursion.add(p, recursion.times(R, at)), recursion.times(R, moved), recursion.times(R, w))
        position, velocity, angular = (sympy.Matrix([named(each) for each in column]) for column in columns)
        rotation = sympy.Matrix(recursion.product(R, turn)).applyfunc(named)
        motions = tuple(each for joint in self.joints for each in joint.motions)
        return Located(position, rotation, velocity, angular, motions)

    def held(self, name: str) -> Held:
        """The node to which a link or frame is fixed, its axes and origin there."""
        return self._held[name]

    def joined(self, *names: str) -> tuple[str, list[tuple[sympy.MatrixBase, sympy.MatrixBase]]]:
        """The last link on which all of these links and frames hang, and their positions and rotations in its axes.

        The name is empty for the ground, and may be so among `names`.
        """
        held = [self._held[name] if name else (0, recursion.UNIT, recursion.ZERO) for name in names]
        above = [list(self._above(node)) for node, _, _ in held]
        last = max(set(above[0]).intersection(*above))
        seen, found = self.recursion.places_seen_from(last), []
        for node, turn, at in held:
            R, p = seen[node]
            position = [named(entry) for entry in recursion.add(p, recursion.times(R, at))]
            found.append((sympy.Matrix(position), sympy.Matrix(recursion.product(R, turn)).applyfunc(named)))
        return next((each.name for each in self.links if last and self._held[each.name][0] == last), ""), found

    def _above(self, node: int) -> Iterator[int]:
        """A node and those on which it hangs."""
        while node:
            yield node
            node = self.recursion.nodes[node].parent
        yield 0

    @cached_property
    def recursion(self) -> Recursion:
        """The programs of its mass matrix, bias and energies."""
        return Recursion(self._nodes[0], list(self.gravity))

    @cached_property
    def data(self) -> TreeData | None:
        """The tree for functions of the kernel; None where it is small, or changes with time by itself."""
        made, moves = TreeData(self.recursion), {time, *(q.rate for q in self.rates)}
        return made if len(made.motions) >= LEAST and not made.fixed & moves else None

    @property
    def _held(self) -> dict[str, Held]:
        """Each link and frame: the node to which it is fixed, its axes and origin there."""
        return self._nodes[1]

    @cached_property
    def _nodes(self) -> tuple[list[Node], dict[str, Held]]:
        nodes, held = [Node(0, recursion.UNIT, recursion.ZERO)], {"": (0, recursion.UNIT, recursion.ZERO)}
        for each in self.links:
            node, turn, at = _fixed(nodes, held[each.parent], each.position, each.rotation)
            for joint in each.joints:
                p = recursion.add(at, recursion.times(turn, [a * joint.coordinates[0] for a in joint.axis]))
                R = [[named(entry) for entry in row] for row in recursion.product(turn, joint.rotation)]
                nodes.append(Node(node, R, p if joint.kind == "slide" else at, joint.degrees, joint.rates))
                node, turn, at = len(nodes) - 1, recursion.UNIT, recursion.ZERO
            held[each.name] = node, turn, at
            _add_mass(nodes, each, _fixed(nodes, held[each.name], each.centre, UNIT))
        held |= {each.name: _fixed(nodes, held[each.link], each.position, each.rotation) for each in self.frames}
        del held[""]
        return nodes, held


def _fixed(nodes: list[Node], held: Held, position: Sequence[Expr], rotation: Any) -> Held:
    """What is fixed to something that is fixed to a node; a node of its own where its place changes with time."""
    node, turn, at = held
    turn, at = recursion.product(turn, rotation), recursion.add(at, recursion.times(turn, position))
    if not any(time in symbols_of(each) for each in (*at, *turn[0], *turn[1], *turn[2])):
        return node, turn, at
    nodes.append(Node(node, turn, at))
    return len(nodes) - 1, recursion.UNIT, recursion.ZERO


def _add_mass(nodes: list[Node], each: Link, held: Held) -> None:
    """Give the mass of a link, with its centre there, to the node to which it is fixed."""
    node, turn, centre = held
    about = recursion.product(recursion.product(turn, each.inertia), list(zip(*turn, strict=True)))
    moved = recursion.add_rows(about, recursion.shifted(each.mass, recursion.ZERO, centre))
    known = nodes[node]
    first = recursion.add(known.first, recursion.scaled(each.mass, centre))
    inertia = recursion.add_rows(known.inertia, moved)
    nodes[node] = replace(known, mass=known.mass + each.mass, first=first, inertia=inertia)


def _sorted(links: Sequence[Link]) -> tuple[Link, ...]:
    """The links in their order, as far as parents come first.

    Raises:
        ModelError: see `tree`.
    """
    found: dict[str, Link | None] = {"": None}
    while left := [each for each in links if each.name not in found]:
        before = len(found)
        for each in left:
            if each.parent in found:
                found[each.name] = each
        if len(found) == before:
            text = f"links {', '.join(each.name for each in left)}: they hang on one another in a circle"
            raise ModelError(f"{text}; give one of them another parent", left[0].place)
    return tuple(each for each in found.values() if each)


def _check_names(links: Sequence[Link], frames: Sequence[Frame]) -> None:
    """Each link and frame has a name of its own, and hangs on a link or the ground."""
    names = [each.name for each in links]
    known, seen = {"", *names}, {""}
    for word, name, on, place in (
        *(("link", each.name, each.parent, each.place) for each in links),
        *(("frame", each.name, each.link, each.place) for each in frames),
    ):
        if name in seen:
            text = "another link or frame has this name" if name else "it has no name"
            raise ModelError(f"{word} {name!r}: {text}; give it one of its own", place)
        if on not in known:
            text = f"{word} {name}: there is no link {on!r} that it could hang on"
            raise ModelError(f"{text}; choose from {', '.join(names)}, or leave it out for the ground", place)
        seen.add(name)


def _check_joints(links: Sequence[Link]) -> None:
    used: dict[Expr, str] = {}
    for each in links:
        for symbol in (symbol for joint in each.joints for symbol in (*joint.coordinates, *joint.motions)):
            if symbol in used:
                text = f"link {each.name}: {symbol} moves link {used[symbol]} already"
                raise ModelError(f"{text}; give each joint a coordinate of its own", each.place)
            used[symbol] = each.name
