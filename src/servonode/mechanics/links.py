"""Links, joints and frames, of which a kinematic tree (`trees`) consists.

A free body hangs on the ground by three slides and a ball.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy

from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError
from servonode.mechanics import recursion
from servonode.mechanics.recursion import Motion, Turn
from servonode.mechanics.stated import Stated
from servonode.mechanics.straight_line import exact
from servonode.mechanics.symbols import Coordinate, Velocity, check_kinds, refuse_uncompilable

Entries = Any  # of a vector or matrix: nested sequences, an array of numpy, a matrix of sympy
NEAR = 1e-12  # of 0, 1 and -1: rounding of a quarter turn; one that a file has with 12 digits is taken as it stands
Expr = Any
UNIT = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
_NOTHING = ((0, 0, 0),) * 3


@dataclass(frozen=True)
class Joint(Stated):
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
            return recursion.turn_of(*self.coordinates)
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
class Link(Stated):
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
class Frame(Stated):
    """A place on a link with axes of its own, as `frame` makes it."""

    name: str
    link: str
    position: tuple[Expr, ...]
    rotation: tuple[tuple[Expr, ...], ...]
    place: Place = field(default_factory=here)


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
    return Joint("hinge", (q,), (q.rate,), unit_axis(q.name, axis), armature_of(q.name, armature))


def slide(q: Coordinate, axis: Entries = (0, 0, 1), armature: Expr = 0) -> Joint:
    """A joint that moves by q along an axis; arguments as of `hinge`, the armature in kg.

    >>> from servonode.mechanics import coordinate, slide
    >>> slide(coordinate("lift", "height of the fork", "m")).motions
    (lift_dot,)
    """
    return Joint("slide", (q,), (q.rate,), unit_axis(q.name, axis), armature_of(q.name, armature))


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
    return Joint("ball", tuple(quaternion), tuple(spin), zero, armature_of("a ball", armature))


def link(
    name: str,
    parent: str = "",
    *,
    position: Entries = (0, 0, 0),
    rotation: Entries = UNIT,
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
    place, turn = triple(f"{what}: position", position), rotation_rows(what, rotation)
    made = Link(name, parent, place, turn, tuple(joints), entry(f"{what}: mass", mass),
                triple(f"{what}: centre", centre), rows_of(f"{what}: inertia", inertia))  # fmt: skip
    _check_body(made)
    return made


def frame(name: str, link: str, position: Entries = (0, 0, 0), rotation: Entries = UNIT) -> Frame:
    """A place on a link, such as a tool: arguments as of `link`.

    >>> from servonode.mechanics import frame
    >>> frame("tool", "hand", position=(0, 0, 0.1)).link
    'hand'
    """
    return Frame(name, link, triple(f"frame {name}: position", position), rotation_rows(f"frame {name}", rotation))


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


def entry(what: str, stated: Any) -> Expr:
    refuse_uncompilable(what, stated, here())
    expression = sympy.sympify(stated)
    return exact(expression) if expression.is_Float else expression


def armature_of(name: str, stated: Any) -> Expr:
    armature = entry(f"armature of {name}", stated)
    if armature.is_number and armature < 0:
        raise ModelError(f"armature of {name} is {float(armature):g}; an inertia is not negative", here())
    return armature


def triple(what: str, entries: Entries) -> tuple[Expr, ...]:
    if not hasattr(entries, "__len__") or isinstance(entries, str) or len(entries) != 3:
        raise ModelError(f"{what} is {entries!r}; give three entries", here())
    return tuple(entry(what, each) for each in entries)


def rows_of(what: str, rows: Entries) -> tuple[tuple[Expr, ...], ...]:
    stated = rows.tolist() if isinstance(rows, sympy.MatrixBase) else rows
    if not hasattr(stated, "__len__") or isinstance(stated, str) or len(stated) != 3:
        raise ModelError(f"{what} is {rows!r}; give three rows of three entries", here())
    return tuple(triple(what, row) for row in stated)


def unit_axis(name: str, axis: Entries) -> tuple[Expr, ...]:
    entries = triple(f"axis of {name}", axis)
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


def rotation_rows(what: str, rows: Entries) -> tuple[tuple[Expr, ...], ...]:
    table = rows_of(f"{what}: rotation", rows)
    if all(each.is_number for row in table for each in row):
        R = np.array(table, dtype=float)
        if not np.allclose(R @ R.T, np.eye(3), rtol=0, atol=1e-6) or np.linalg.det(R) < 0:
            text = f"{what}: rotation {R.tolist()} is not one; give three rows of length 1, at right angles, "
            raise ModelError(f"{text}right-handed", here())
    return tuple(tuple(_rounded(each) for each in row) for row in table)
