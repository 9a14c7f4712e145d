"""A robot's description in numbers: bodies, joints, actuators, frames. SI units, radians; no sympy.

Rotations (3, 3) turn axes of a body into those of its parent.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servonode.arrays import Array
from servonode.plants.servos import Servo

Range = tuple[float, float]
Numbers = float | Mapping[str, float] | None  # of all wheels, or by their names
DEGREES = {"hinge": 1, "slide": 1, "ball": 3, "free": 6}  # of freedom, of a joint of each kind
WRENCH = ("x", "y", "z", "rx", "ry", "rz")  # what a gear of six numbers is: force, torque


@dataclass(frozen=True)
class Joint:
    """A joint at the origin of its body.

    kind: "hinge", "slide", "ball" or "free". axis (3,): in the body's axes. start: of the coordinate; of a free joint
    the position (x, y, z) and the quaternion (w, x, y, z), of a ball the quaternion. rest: where the spring is relaxed.
    more_damping, more_stiffness: the factors of squares and cubes of speed and deflection, as for tendons.
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
    more_damping: Range = (0.0, 0.0)
    more_stiffness: Range = (0.0, 0.0)


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
    """A motor: its power is the input times the rate of what it moves, which is `gear` times that of its target.

    kind: what the target is, "joint", "parent" (a ball or free joint, whose gear is in its parent's axes), "tendon",
    "site" or "crank". gear: one number of hinges, slides, tendons and cranks; three of balls; six of free joints and
    sites, force before torque, in the axes of the site, or of `reference`, from which its motion is counted then. A
    crank is a site that a rod [m] joins to an axis, z of the site `reference`. range: of the input. servo: how its
    force, which is the input, follows from a command; None: the input is its command.
    """

    name: str
    target: str
    gear: tuple[float, ...]
    range: Range | None = None
    kind: str = "joint"
    reference: str = ""
    rod: float = 0.0
    servo: Servo | None = None


@dataclass(frozen=True)
class Tendon:
    """A length with losses and a spring. coefficients: of joints whose sum it is; else segments between sites.

    segments: by what their length is divided, and both ends. rest: between its ends the spring is relaxed. limited:
    whether it limits the sum of all forces of motors.
    """

    name: str
    coefficients: tuple[tuple[str, float], ...] = ()
    segments: tuple[tuple[float, str, str], ...] = ()
    start: float = 0.0  # its length in the file's pose
    armature: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    stiffness: float = 0.0
    rest: Range = (0.0, 0.0)
    range: Range | None = None
    limited: bool = False
    more_damping: Range = (0.0, 0.0)
    more_stiffness: Range = (0.0, 0.0)


@dataclass(frozen=True)
class Loop:
    """An equality that closes a loop. kind: "connect", "weld" (of two bodies), "joint" or "tendon" (of two; "": none).

    places: of connect the points in both bodies; of weld position and rotation (quaternion) of the second body in the
    first; else the five coefficients of first = polynomial(second), then the values from which both are counted.
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
    tendons: tuple[Tendon, ...] = ()
    loops: tuple[Loop, ...] = ()
    frames: tuple[Frame, ...] = ()
    meshes: tuple[tuple[str, str], ...] = ()  # name of a body or frame, file
    radii: Mapping[str, float] = field(default_factory=dict)  # of bodies with a round shape, by their names [m]
    dropped: tuple[str, ...] = ()
    motorless: bool = False  # whether its format knows no motors, as URDF; the actuators are one of each joint then

    @property
    def joints(self) -> Iterator[Joint]:
        """All joints, in the order of their bodies."""
        return (joint for body in self.bodies for joint in body.joints)

    def named(self, tendon: Tendon) -> str:
        """What a tendon's parameters begin with, which those of no joint do."""
        name = identifier(tendon.name)
        return f"{name}_tendon" if name in {identifier(each.name) for each in self.joints} else name

    def kind(self, tendon: Tendon) -> str:
        """Whether the length of a tendon is an angle, as that of a hinge, or a travel, as that of a slide."""
        kinds = {joint.name: joint.kind for joint in self.joints}
        turns = [kinds[name] == "hinge" for name, _ in tendon.coefficients]
        return "hinge" if turns and all(turns) else "slide"

    def chain(self, site: str) -> list[Body]:
        """The bodies that carry a site, from the one it is on to the ground."""
        bodies, found = {each.name: each for each in self.bodies}, list[Body]()
        at = next(each.body for each in reversed(self.frames) if each.name == site)
        while at:
            found.append(bodies[at])
            at = bodies[at].parent
        return found

    def moved_by(self, motor: Actuator) -> set[str]:
        """The joints on which a motor acts."""
        if motor.kind in ("joint", "parent"):
            return {motor.target}
        tendon = next((each for each in self.tendons if motor.kind == "tendon" and each.name == motor.target), None)
        if tendon and tendon.coefficients:
            return {name for name, _ in tendon.coefficients}
        pairs = [each[1:] for each in tendon.segments] if tendon else [(motor.target, motor.reference)]
        chains = [[self.chain(site) if site else [] for site in pair] for pair in pairs]
        apart = (body for one, other in chains for body in (*one, *other) if body not in one or body not in other)
        return {joint.name for body in apart for joint in body.joints}


def by_name(names: Mapping[str, str], stated: Numbers) -> dict[str, float]:
    """What is stated of all wheels, or by their names, for each of them."""
    return dict(stated) if isinstance(stated, Mapping) else {} if stated is None else dict.fromkeys(names, stated)


def identifier(stated: str) -> str:
    """A name of a file as an identifier: "left-wheel" is left_wheel."""
    name = re.sub(r"\W", "_", stated, flags=re.ASCII)
    name = f"_{name}" if name[:1].isdigit() else name
    return f"{name}_" if name in ("t", "") or name.endswith(("_dot", "_ddot")) else name
