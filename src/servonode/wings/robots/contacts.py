"""What holds a robot beside its joints: loops, wheels that roll, feet that stay; and the velocities that are left."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy
from scipy.spatial.transform import Rotation

from servonode.definitions.source_location import here
from servonode.mechanics.independent import Mobility, mobility
from servonode.mechanics.straight_line import exact
from servonode.mechanics.symbols import (
    Condition,
    Constraint,
    Coordinate,
    Parameter,
    Velocity,
    condition,
    constraint,
    parameter,
)
from servonode.mechanics.trees import Tree
from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.inertia import rotation_of
from servonode.wings.robots.robot import Body, Joint, Loop, Numbers, Robot, identifier
from servonode.wings.robots.wheels import Rolling, Wheel, linkage, rolling, wheels_of

Expr = Any
Matrix = Any  # of sympy
AXES = "xyz"
PLACES = (("x", 0), ("y", 1), ("z", 2), ("yaw", 2), ("pitch", 1), ("roll", 0))  # of a free joint, with their axes
CLOSED = 1e-6  # m


@dataclass(frozen=True)
class Contacts:
    """What [plant.robot] says of a robot's contacts.

    wheels: names -> joints that roll. radius: of all of them, or by their names [m]; else of their shapes. rollers:
    angles of wheels' rollers [rad], in the same way. feet: links or frames that stay. friction: coefficient of the
    feet's warnings. independent: joints whose rates are velocities. motors: joints, tendons or sites whose motors are
    inputs; else all that the file has, of a URDF one per joint.
    """

    wheels: Mapping[str, str] = field(default_factory=dict)
    radius: Numbers = None
    rollers: Numbers = None
    feet: Sequence[str] = ()
    friction: float | None = None
    independent: Sequence[str] = ()
    motors: Sequence[str] = ()


@dataclass(frozen=True)
class Held:
    """What contacts and loops add to a machine."""

    constraints: tuple[Constraint, ...] = ()
    independent: Mapping[Velocity, Expr] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    kinetic: Expr = 0
    warnings: tuple[Condition, ...] = ()
    notes: tuple[str, ...] = ()


def prepared(robot: Robot, contacts: Contacts) -> Robot:
    """The robot with its motors, and in angles where something holds it.

    Raises:
        RobotError: `motors` names something without an actuator.
    """
    base = {each.name for each in robot.bodies[0].joints} if contacts.wheels else set()
    driven = {each.target for each in robot.actuators}
    strange = next((each for each in contacts.motors if each not in driven), None)
    if strange is not None:
        text = f"[plant.robot] motors: {strange!r} is not a joint, tendon or site that a motor drives; choose from"
        raise RobotError(f"{robot.file.name}: {text} {', '.join(sorted(driven - base))}")
    following = {each.first for each in robot.loops if each.kind == "joint" and robot.motorless}  # by <mimic>
    kept = set(contacts.motors) or driven - base - following
    others = () if contacts.motors else ("tendon", "site", "crank")
    motors = tuple(each for each in robot.actuators if each.target in kept or each.kind in others)
    return _in_angles(replace(robot, actuators=motors), contacts)


def _in_angles(robot: Robot, contacts: Contacts) -> Robot:
    """The robot with its free and ball joints as hinges where something holds it: yaw, pitch and roll, one by one.

    Constraints are solved for rates of coordinates, which a quaternion's are not. At a pitch of 90 degrees yaw and roll
    turn about one axis.
    """
    if not (robot.loops or contacts.feet):
        return robot
    several = sum(joint.kind in ("free", "ball") for joint in robot.joints) > 1
    bodies = tuple(replace(body, joints=tuple(_hinged(body, several))) for body in robot.bodies)
    return replace(robot, bodies=bodies)


def _hinged(body: Body, several: bool) -> Iterator[Joint]:
    for joint in body.joints:
        if joint.kind not in ("free", "ball"):
            yield joint
            continue
        prefix = f"{body.name}_" if several or joint.kind == "ball" else ""
        starts = (*joint.start[:-4], *Rotation.from_quat(joint.start[-4:], scalar_first=True).as_euler("ZYX"))
        for (name, axis), start in zip(PLACES[-len(starts) :], starts, strict=True):
            kind, whole = "slide" if name in AXES else "hinge", joint if name == "roll" else None
            yield Joint(prefix + name, kind, np.eye(3)[axis], (float(start),), whole=whole)


def held(
    robot: Robot, contacts: Contacts, tree: Tree, coordinates: Mapping[str, Coordinate],
    lengths: Mapping[str, tuple[Expr, str]], parameters: Sequence[Parameter],
) -> Held:  # fmt: skip
    """The constraints of loops, wheels and feet, those left out that follow from others, and the velocities.

    coordinates: by the names of their joints. lengths: of tendons by their names, with units.

    Raises:
        RobotError, ModelError: something stated is not there, or cannot hold the robot.
    """
    for key, needed in (("radius", "wheels"), ("rollers", "wheels"), ("friction", "feet")):
        if getattr(contacts, key) is not None and not getattr(contacts, needed):
            raise RobotError(f"{robot.file.name}: [plant.robot] {key}: {needed} names none; remove it or name some")
    wheels = wheels_of(robot, contacts.wheels, contacts.radius, contacts.rollers)
    missed = {each.name: linkage(robot.file.name, each, wheels, robot.motorless) for each in robot.loops if wheels}
    gaps = {name: gap for name, gap in missed.items() if gap is not None}
    linked = [f"{name}: left out, the wheels steer alike to {gap:.2g} rad" for name, gap in gaps.items()]
    robot = replace(robot, loops=tuple(each for each in robot.loops if each.name not in gaps))
    rolled = rolling(wheels, robot.bodies[0], tree, coordinates) if wheels else Rolling()
    feet = tuple(feet_constraints(robot.file.name, contacts.feet, tree))
    constraints = (*loop_constraints(robot, tree, coordinates, lengths), *rolled.constraints, *feet)
    if not constraints and contacts.independent:
        text = "[plant.robot] independent: no loop, wheel or foot holds the robot, so all joints are; remove it"
        raise RobotError(f"{robot.file.name}: {text}")
    if not constraints:
        return Held()
    friction = [parameter("friction", "friction of feet", default=contacts.friction, at_least=0)
                if contacts.friction is not None else None]  # fmt: skip
    own = tuple(each for each in (*rolled.parameters, *friction) if each is not None)
    choices = _choices(robot, contacts, rolled, wheels, coordinates, constraints)
    found = mobility(
        "loops, wheels and feet", (*parameters, *own), list(coordinates.values()), constraints, choices, here()
    )
    _check_drives(robot, wheels, rolled, found)
    warnings = tuple(feet_warnings(contacts.feet, found.constraints, friction[0]))
    notes = (f"{each}: left out, it follows from the other constraints" for each in found.redundant)
    return Held(found.constraints, found.independent, own, rolled.kinetic, warnings, (*linked, *notes))


def _choices(
    robot: Robot, contacts: Contacts, rolled: Rolling, wheels: Sequence[Wheel],
    coordinates: Mapping[str, Coordinate], constraints: Sequence[Constraint],
) -> list[dict[Velocity, Expr]]:  # fmt: skip
    """Velocities to choose from, the first before the others: stated ones, speeds of the base, actuated joints, on
    feet the base's coordinates.

    A second choice begins with the coordinates that stand beside most others in constraints, which then part.
    """
    if contacts.independent:
        strange = next((each for each in contacts.independent if each not in coordinates), None)
        if strange is not None:
            text = f"[plant.robot] independent: {strange!r} is no joint; choose from {', '.join(coordinates)}"
            raise RobotError(f"{robot.file.name}: {text}")
        return [_own(coordinates[each] for each in contacts.independent)]
    last = {wheel.joint.name for wheel in wheels}
    base = {each.name for each in robot.bodies[0].joints}
    moved = base if contacts.feet else set().union(*map(robot.moved_by, robot.actuators))
    names = sorted(coordinates, key=lambda name: (name in last, name not in moved))
    symbols = [each.row.free_symbols for each in constraints]
    beside = {name: set().union(*(row for row in symbols if q.rate in row)) for name, q in coordinates.items()}
    shared = sorted(names, key=lambda name: (name in last, -len(beside[name])))
    return [rolled.velocities | _own(coordinates[name] for name in order) for order in (names, shared)]


def _own(coordinates: Any) -> dict[Velocity, Expr]:
    return {q.own_velocity(): q.rate for q in coordinates}


def _check_drives(robot: Robot, wheels: Sequence[Wheel], rolled: Rolling, found: Mobility) -> None:
    """Refuse wheels that let the base not drive or not turn."""
    stuck = [v.name for v in rolled.velocities if v in found.fixed]
    if stuck:
        does, joints = "turn" if stuck[0] == "Omega" else "drive", {each.joint.name for each in wheels}
        text = f"[plant.robot] wheels: with all of them rolling without slipping the base cannot {does}"
        reason = "the axles of wheels that do not turn to the side have to stand on one line, and those of steered"
        reason += " ones to meet it in one point; put the joints of others into casters"
        locked = next((each for each in robot.loops if {each.first, each.second} <= joints), None)
        if locked:
            reason = f"{locked.name} couples {locked.first} to {locked.second}, which turn at different speeds in a"
            reason += " curve; remove it, or put one of the joints into casters"
        raise RobotError(f"{robot.file.name}: {text}: {reason}")


# loops: the equalities that join two bodies, or two joints


def loop_constraints(
    robot: Robot, tree: Tree, coordinates: Mapping[str, Coordinate], lengths: Mapping[str, tuple[Expr, str]]
) -> Iterator[Constraint]:
    """The constraints of all loops. coordinates: by joints. lengths: of tendons by their names, with units."""
    travels = {name: (q, q.quantity.unit) for name, q in coordinates.items()}
    for loop in robot.loops:
        if loop.kind in ("joint", "tendon"):
            yield _coupled(loop, travels if loop.kind == "joint" else lengths)
            continue
        link, ((p, R), (r, S)) = tree.joined(*(each and identifier(each) for each in (loop.first, loop.second)))
        points = loop.places if loop.kind == "connect" else (loop.places[0], (0.0, 0.0, 0.0))
        here, there = (sympy.Matrix([exact(each) for each in point]) for point in points)
        yield from _points(identifier(loop.name), p + R * here - r - S * there, link and f" of {link}")
        if loop.kind == "weld":
            turned = sympy.Matrix(3, 3, [exact(each) for each in rotation_of(loop.places[1]).flat])
            yield from _axes(identifier(loop.name), R * turned, S)


def _points(name: str, gap: Matrix, of: str) -> Iterator[Constraint]:
    """Two points that stay together; what depends on no coordinate must be closed by itself.

    Raises:
        RobotError: it is not.
    """
    for axis, entry in zip(AXES, gap, strict=True):
        if _moves(entry):
            text = f"force of the loop {name} on its first body along {axis}{of}"
            yield constraint(f"{name}_force_{axis}", text, entry)
        elif abs(entry) > CLOSED:
            raise RobotError(f"loop {name}: its ends are {float(entry):.3g} m apart along {axis} at every pose")


def _axes(name: str, R: Matrix, S: Matrix) -> Iterator[Constraint]:
    """Two sets of axes that stay parallel: each axis of one is at a right angle to another one of the other."""
    for i in range(3):
        entry = R.col((i + 1) % 3).dot(S.col((i + 2) % 3))
        if _moves(entry):
            text = f"torque of the loop {name} on its first body about its axis {AXES[i]}"
            yield constraint(f"{name}_torque_{AXES[i]}", text, entry, "N m")


def _moves(entry: Any) -> bool:
    return any(isinstance(symbol, Coordinate) for symbol in sympy.sympify(entry).free_symbols)


def _coupled(loop: Loop, lengths: Mapping[str, tuple[Expr, str]]) -> Constraint:
    """A joint or tendon that is a polynomial of another one, or stays at a value."""
    factors, zeros = loop.places
    moved, unit = lengths[loop.first]
    other = lengths[loop.second][0] - exact(zeros[1]) if loop.second else sympy.Integer(0)
    wanted = sympy.Add(*(exact(factor) * other**power for power, factor in enumerate(factors) if factor))
    text = f"force of {loop.name} on {loop.first}"
    stated = moved - exact(zeros[0]) - wanted
    return constraint(f"{identifier(loop.name)}_force", text, stated, "N" if unit == "m" else "N m")


# feet: points of the robot without velocity


def feet_constraints(file: str, feet: Sequence[str], tree: Tree) -> Iterator[Constraint]:
    """Three for each foot, in rates: it stays where a run starts it.

    Raises:
        RobotError: there is no such link or frame, or it stays by itself.
    """
    names = [*(each.name for each in tree.links), *(each.name for each in tree.frames)]
    for foot in feet:
        if foot not in names:
            text = f"{foot!r} is no link or frame of the file; choose from {', '.join(names)}"
            raise RobotError(f"{file}: [plant.robot] feet: {text}")
        velocity = tree[foot].velocity
        if not all(rate.free_symbols for rate in velocity):
            text = f"{foot} cannot move along every axis by itself, so nothing is to be held there"
            raise RobotError(f'{file}: [plant.robot] feet: {text}; name a foot that can, or state base = "free"')
        for i, axis in enumerate("xyz"):
            yield constraint(f"{foot}_force_{axis}", f"force of the ground on {foot} along {axis}", velocity[i])


def feet_warnings(
    feet: Sequence[str], constraints: Sequence[Constraint], friction: Parameter | None
) -> Iterator[Condition]:
    """The ground only pushes, and its force stays in the cone of friction where a coefficient is stated."""
    forces = {each.quantity.name: each.multiplier for each in constraints}
    for foot in feet:
        x, y, z = (forces.get(f"{foot}_force_{axis}", 0) for axis in "xyz")
        yield condition(z >= 0, f"the ground would have to pull {foot}: a real foot lifts")
        if friction is not None:
            yield condition(friction * z >= sympy.sqrt(x**2 + y**2), f"{foot} would slip (friction)")
