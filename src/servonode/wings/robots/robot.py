"""A robot's description in numbers: bodies, joints, actuators, frames. SI units, radians; no sympy.

Rotations (3, 3) turn axes of a body into those of its parent.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from servonode.arrays import Array

Range = tuple[float, float]


@dataclass(frozen=True)
class Joint:
    """A joint at the origin of its body.

    kind: "hinge", "slide", "ball" or "free". axis (3,): in the body's axes. start: of the coordinate; of a free joint
    the position (x, y, z) and the quaternion (w, x, y, z), of a ball the quaternion. rest: where the spring is relaxed.
    range: of a ball that of its turn from the file's pose. whole: of the last of three angles, the ball or free joint
    that they are, to which losses belong.
    """

    name: str
    kind: str
    axis: Array
    start: tuple[float, ...] = (0.0,)
    armature: float = 0.0  # kg m^2, of a slide kg
    damping: float = 0.0  # N m s, of a slide N s/m
    friction: float = 0.0  # N m, of a slide N
    stiffness: float = 0.0  # N m/rad, of a slide N/m
    rest: float = 0.0
    range: Range | None = None
    effort: float | None = None  # largest magnitude
    whole: "Joint | None" = None
    speed: float | None = None  # largest magnitude


@dataclass(frozen=True)
class Body:
    """A rigid body whose origin is where its joints act, one behind the other; the first is next to the parent.

    position (3,), rotation (3, 3): in the parent's axes with the joints at zero; the parent of "" is the ground.
    centre (3,), inertia (3, 3): centre of mass, and the inertia about it, in the body's axes.
    """

    name: str
    parent: str
    position: Array
    rotation: Array
    joints: tuple[Joint, ...]
    mass: float
    centre: Array
    inertia: Array


@dataclass(frozen=True)
class Actuator:
    """A motor: its force on the joint is `gear` times the input. range: of the input."""

    name: str
    joint: str
    gear: float
    range: Range | None = None


@dataclass(frozen=True)
class Loop:
    """An equality that closes a loop. kind: "connect", "weld" (of two bodies) or "joint" (of two joints; "": none).

    places: of connect the points in both bodies; of weld position and rotation (quaternion) of the second body in the
    first; of joint the five coefficients of first = polynomial(second), then the values from which both are counted.
    """

    name: str
    kind: str
    first: str
    second: str
    places: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Frame:
    """A place on a body: a site, a body that is merged with another, or the origin that a body has in its file."""

    name: str
    body: str
    position: Array
    rotation: Array


@dataclass(frozen=True)
class Robot:
    """A robot as its file describes it. dropped: what of the file has no counterpart, a line each."""

    name: str
    file: Path
    gravity: Array
    bodies: tuple[Body, ...]  # parents first
    actuators: tuple[Actuator, ...] = ()
    loops: tuple[Loop, ...] = ()
    frames: tuple[Frame, ...] = ()
    meshes: tuple[tuple[str, str], ...] = ()  # name of a body or frame, file
    radii: tuple[tuple[str, float], ...] = ()  # name of a body with a round shape [m]
    dropped: tuple[str, ...] = ()
    motorless: bool = False  # whether its format knows no motors, as URDF; the actuators are one of each joint then

    @property
    def joints(self) -> Iterator[Joint]:
        """All joints, in the order of their bodies."""
        return (joint for body in self.bodies for joint in body.joints)


def identifier(stated: str) -> str:
    """A name of a file as an identifier: "left-wheel" is left_wheel."""
    name = re.sub(r"\W", "_", stated, flags=re.ASCII)
    name = f"_{name}" if name[:1].isdigit() else name
    return f"{name}_" if name in ("t", "") or name.endswith(("_dot", "_ddot")) else name
