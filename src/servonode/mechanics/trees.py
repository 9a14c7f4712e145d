"""Kinematic trees: links that hinges, slides and balls join, for machines that are derived by recursion (`recursion`).

A free body hangs on the ground by three slides and a ball.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import sympy

from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError, checked
from servonode.mechanics import recursion
from servonode.mechanics.differentiate import gradient
from servonode.mechanics.recursion import Motion, Node, Recursion, Turn, Vector
from servonode.mechanics.straight_line import exact, named, symbols_of
from servonode.mechanics.symbols import Coordinate, Velocity, check_kinds, listed, refuse_uncompilable, time

Expr = Any
Entries = Any  # of a vector or matrix: nested sequences, an array of numpy, a matrix of sympy
Change = Callable[[Expr], Expr]
Held = tuple[int, Turn, Vector]  # the node to which something is fixed, its axes and origin there
NEAR = 1e-12  # of 0, 1 and -1: rounding of a quarter turn; one that a file has with 12 digits is taken as it stands
_UNIT = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
_NOTHING = ((0, 0, 0),) * 3


@dataclass(frozen=True)
class _Stated:
    """What consists of expressions, names and such."""

    def mapped(self, change: Change) -> Self:
        """The same with its expressions changed."""
        return replace(self, **{each.name: _mapped(getattr(self, each.name), change) for each in fields(self)})

    @property
    def free_symbols(self) -> set[Expr]:
        """The symbols of all its expressions."""
        found = list[Expr]()
        self.mapped(lambda each: found.append(each) or each)  # type: ignore[func-returns-value]
        return set().union(*(each.free_symbols for each in found))


def _mapped(stated: Any, change: Change) -> Any:
    if isinstance(stated, tuple):
        return tuple(_mapped(each, change) for each in stated)
    if isinstance(stated, _Stated):
        return stated.mapped(change)
    return change(stated) if isinstance(stated, sympy.Basic) else stated


@dataclass(frozen=True)
class Joint(_Stated):
    """A joint, as `hinge`, `slide` or `ball` makes it; axis in the link's axes."""

    kind: str
    coordinates: tuple[Expr, ...]
    motions: tuple[Expr, ...]  # rates, or the spin of a ball
    axis: tuple[Expr, ...]
    armature: Expr
    place: Place = field(default_factory=here)

    @property
    def rates(self) -> dict[Expr, Expr]:
        """Each coordinate -> its rate: that of a quaternion is q' = q (0, w) / 2."""
        if self.kind != "ball":
            return dict(zip(self.coordinates, self.motions, strict=True))
        (q, x, y, z), (a, b, c) = self.coordinates, self.motions
        turned = (-x * a - y * b - z * c, q * a + y * c - z * b, q * b + z * a - x * c, q * c + x * b - y * a)
        return {each: rate / 2 for each, rate in zip(self.coordinates, turned, strict=True)}

    @property
    def rotation(self) -> Turn:
        """From the axes that move to those before the joint."""
        if self.kind == "slide":
            return recursion.UNIT
        if self.kind == "ball":
            q, x, y, z = self.coordinates
            squares = (q * q + x * x - y * y - z * z, q * q - x * x + y * y - z * z, q * q - x * x - y * y + z * z)
            return [
                [squares[0], 2 * (x * y - q * z), 2 * (x * z + q * y)],
                [2 * (x * y + q * z), squares[1], 2 * (y * z - q * x)],
                [2 * (x * z - q * y), 2 * (y * z + q * x), squares[2]],
            ]
        s, c, a = sympy.sin(self.coordinates[0]), sympy.cos(self.coordinates[0]), self.axis
        skew = ((0, -a[2], a[1]), (a[2], 0, -a[0]), (-a[1], a[0], 0))
        return [
            [(c if i == k else 0) + s * skew[i][k] + a[i] * a[k] - c * a[i] * a[k] for k in range(3)] for i in range(3)
        ]

    @property
    def degrees(self) -> tuple[Motion, ...]:
        """Its motions with their axes."""
        if self.kind == "ball":
            axes = zip(self.motions, recursion.UNIT, strict=True)
            return tuple(Motion(w, axis, recursion.ZERO, self.armature) for w, axis in axes)
        turn, slide = list(self.axis), recursion.ZERO
        return (Motion(self.motions[0], *((turn, slide) if self.kind == "hinge" else (slide, turn)), self.armature),)


@dataclass(frozen=True)
class Link(_Stated):
    """A rigid body of a tree, as `link` makes it."""

    name: str
    parent: str
    position: tuple[Expr, ...]
    rotation: tuple[tuple[Expr, ...], ...]
    joints: tuple[Joint, ...]
    mass: Expr
    centre: tuple[Expr, ...]
    inertia: tuple[tuple[Expr, ...], ...]
    place: Place = field(default_factory=here)


@dataclass(frozen=True)
class Frame(_Stated):
    """A place on a link with axes of its own, as `frame` makes it."""

    name: str
    link: str
    position: tuple[Expr, ...]
    rotation: tuple[tuple[Expr, ...], ...]
    place: Place = field(default_factory=here)


@checked
def hinge(q: Coordinate, axis: Entries = (0, 0, 1), armature: Expr = 0) -> Joint:
    """A joint that turns by the angle q about an axis through the link's origin.

    `axis` is in the link's axes, numbers of any length. `armature` is the inertia of a rotor that is geared to the
    joint, seen from the joint [kg m^2].

    Raises:
        ModelError: the axis is not of three numbers, or is zero.

    >>> from servonode.mechanics import coordinate, hinge
    >>> hinge(coordinate("elbow", "angle of the elbow", "rad"), axis=(0, 1, 0)).motions
    (elbow_dot,)
    """
    return Joint("hinge", (q,), (q.rate,), _axis(q.name, axis), _armature(q.name, armature))


@checked
def slide(q: Coordinate, axis: Entries = (0, 0, 1), armature: Expr = 0) -> Joint:
    """A joint that moves by q along an axis; arguments as of `hinge`, the armature in kg.

    >>> from servonode.mechanics import coordinate, slide
    >>> slide(coordinate("lift", "height of the fork", "m")).motions
    (lift_dot,)
    """
    return Joint("slide", (q,), (q.rate,), _axis(q.name, axis), _armature(q.name, armature))


@checked
def ball(quaternion: Entries, spin: Entries, armature: Expr = 0) -> Joint:
    """A joint that turns freely about the link's origin.

    `quaternion` is a vector of 4 coordinates (w, x, y, z), its start (1, 0, 0, 0); `spin` a vector of 3 velocities,
    the angular velocity relative to the parent in the link's axes [rad/s].

    Raises:
        ModelError: there are not four coordinates, or not three velocities.

    >>> from servonode.mechanics import ball, coordinate, vector, velocity
    >>> q = vector(coordinate, "q", "orientation", start=(1, 0, 0, 0))
    >>> ball(q, vector(velocity, "w", "spin", "rad/s")).motions
    (w_0, w_1, w_2)
    """
    kinds = (("quaternion", quaternion, 4, Coordinate), ("spin", spin, 3, Velocity))
    for word, entries, n, kind in kinds:
        stated = list(entries) if hasattr(entries, "__len__") else [entries]
        if len(stated) != n or not all(isinstance(each, kind) for each in stated):
            text = f"ball: {word}= is {stated}; give a vector({kind.__name__.lower()}, ...) of {n}"
            raise ModelError(text, here())
    zero = (sympy.Integer(0),) * 3
    return Joint("ball", tuple(quaternion), tuple(spin), zero, _armature("a ball", armature))


@checked
def link(
    name: str,
    parent: str = "",
    *,
    position: Entries = (0, 0, 0),
    rotation: Entries = _UNIT,
    joints: Sequence[Joint] = (),
    mass: Expr = 0,
    centre: Entries = (0, 0, 0),
    inertia: Entries = _NOTHING,
) -> Link:
    """A rigid body of a `tree`; without joints it is fixed to its parent.

    `parent` is the name of a link, "" the ground. `position` [m] and `rotation` (3, 3) are those of the link's axes in
    its parent's, with the joints at zero: numbers or expressions of parameters. Joints act one behind the other through
    the link's origin. `centre` of mass [m] and `inertia` (3, 3) about it [kg m^2] are in the link's axes.

    Raises:
        ModelError: a shape is wrong; numbers are no rotation, or are of a mass or an inertia that no body has.

    >>> from servonode.mechanics import coordinate, hinge, link
    >>> theta = coordinate("theta", "angle from below", "rad")
    >>> rod = link("rod", joints=(hinge(theta, (0, 1, 0)),), mass=2, centre=(0, 0, -0.5))
    >>> rod.mass, rod.parent
    (2, '')
    """
    what = f"link {name}"
    check_kinds(what, "joints", joints, Joint, here())
    place, turn = _vector(f"{what}: position", position), _rotation(what, rotation)
    made = Link(name, parent, place, turn, tuple(joints), _expression(f"{what}: mass", mass),
                _vector(f"{what}: centre", centre), _table(f"{what}: inertia", inertia))  # fmt: skip
    _check_body(made)
    return made


@checked
def frame(name: str, link: str, position: Entries = (0, 0, 0), rotation: Entries = _UNIT) -> Frame:
    """A place on a link, such as a tool: arguments as of `link`.

    >>> from servonode.mechanics import frame
    >>> frame("tool", "hand", position=(0, 0, 0.1)).link
    'hand'
    """
    return Frame(name, link, _vector(f"frame {name}: position", position), _rotation(f"frame {name}", rotation))


@checked
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
    return Tree(_sorted(links), _vector("tree: gravity", gravity), tuple(frames))


@dataclass(frozen=True)
class Located:
    """A link or frame in the ground's axes, in coordinates and motions: columns (3, 1), the rotation (3, 3)."""

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
class Tree(_Stated):
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
        return self.recursion.kinetic

    @property
    def potential(self) -> Expr:
        """The potential energy of gravity [J]."""
        return self.recursion.potential

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

    @cached_property
    def recursion(self) -> Recursion:
        """The programs of its mass matrix, bias and energies."""
        return Recursion(self._nodes[0], list(self.gravity))

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
            _add_mass(nodes, each, _fixed(nodes, held[each.name], each.centre, _UNIT))
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


def _expression(what: str, stated: Any) -> Expr:
    refuse_uncompilable(what, stated, here())
    expression = sympy.sympify(stated)
    return exact(expression) if expression.is_Float else expression


def _armature(name: str, stated: Any) -> Expr:
    armature = _expression(f"armature of {name}", stated)
    if armature.is_number and armature < 0:
        raise ModelError(f"armature of {name} is {float(armature):g}; an inertia is not negative", here())
    return armature


def _vector(what: str, entries: Entries) -> tuple[Expr, ...]:
    if not hasattr(entries, "__len__") or isinstance(entries, str) or len(entries) != 3:
        raise ModelError(f"{what} is {entries!r}; give three entries", here())
    return tuple(_expression(what, each) for each in entries)


def _table(what: str, rows: Entries) -> tuple[tuple[Expr, ...], ...]:
    stated = rows.tolist() if isinstance(rows, sympy.MatrixBase) else rows
    if not hasattr(stated, "__len__") or isinstance(stated, str) or len(stated) != 3:
        raise ModelError(f"{what} is {rows!r}; give three rows of three entries", here())
    return tuple(_vector(what, row) for row in stated)


def _axis(name: str, axis: Entries) -> tuple[Expr, ...]:
    entries = _vector(f"axis of {name}", axis)
    numbers = [float(each) for each in entries if each.is_number]
    length = sympy.sqrt(sympy.Add(*(each**2 for each in entries))) if len(numbers) == 3 else sympy.Integer(0)
    if length == 0:
        text = f"axis of {name} is {tuple(map(str, entries))}; give three numbers that are not all zero, as (0, 0, 1)"
        raise ModelError(text, here())
    return tuple(_rounded(each / length) for each in entries)


def _rounded(entry: Expr) -> Expr:
    """A number as a fraction: 0, 1 or -1 where it is so but for rounding."""
    if not entry.is_number:
        return entry
    near = round(float(entry))
    return sympy.Integer(near) if abs(float(entry) - near) < NEAR else exact(entry)


def _rotation(what: str, rows: Entries) -> tuple[tuple[Expr, ...], ...]:
    table = _table(f"{what}: rotation", rows)
    if all(each.is_number for row in table for each in row):
        R = np.array(table, dtype=float)
        if not np.allclose(R @ R.T, np.eye(3), rtol=0, atol=1e-6) or np.linalg.det(R) < 0:
            text = (
                f"{what}: rotation {R.tolist()} is not one; give three rows of length 1, at right angles, right-handed"
            )
            raise ModelError(text, here())
    return tuple(tuple(_rounded(each) for each in row) for row in table)


def _check_body(made: Link) -> None:
    """A body has a positive mass, and principal inertias of which none is larger than the sum of the others."""
    if made.mass.is_number and made.mass < 0:
        raise ModelError(f"link {made.name}: its mass {float(made.mass):g} kg is negative", here())
    entries = [each for row in made.inertia for each in row]
    numbers = all(each.is_number for each in entries)
    inertia = np.array(entries, dtype=float if numbers else object).reshape(3, 3)
    if not (
        np.allclose(inertia, inertia.T, atol=1e-6 * abs(inertia).max()) if numbers else (inertia == inertia.T).all()
    ):
        raise ModelError(f"link {made.name}: its inertia {inertia.tolist()} is not symmetric; correct it", here())
    a, b, c = np.linalg.eigvalsh(inertia) if numbers else (0.0, 0.0, 0.0)
    if a < -1e-9 * c or a + b < c * (1 - 1e-6):
        text = f"link {made.name}: no body has the principal inertias {a:.4g}, {b:.4g}, {c:.4g} kg m^2"
        raise ModelError(f"{text}: none is negative, none larger than the sum of the others; correct inertia=", here())
