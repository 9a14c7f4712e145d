"""Wheels that roll on the ground without slipping: their constraints, and the base's speed and yaw rate.

The base moves in the plane (x, y, psi). A wheel is a joint whose axis is horizontal, on the base or on what turns on it
about vertical axes, such as a trailer or a steered fork. Its angle is a coordinate, its body does not turn in the tree:
it is round, so that its angle changes no inertia, and its spin adds I theta'^2 / 2.

Rollers let the point of contact move at right angles to their axes. The axles of wheels without rollers meet in the
point about which the base turns. Two of them give that point, so that each further wheel that is steered follows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.mechanics.straight_line import definitions_of, exact, written_out
from servonode.mechanics.symbols import Constraint, Coordinate, Parameter, Velocity, constraint, parameter, velocity
from servonode.mechanics.trees import Tree
from servonode.mechanics.trig_reduce import trig_reduce
from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.robot import Body, Joint, Loop, Numbers, Robot, by_name, identifier

Expr = Any
LEVEL = 1e-3  # of an axis, by which it may miss the vertical or the horizontal
ROUND = 0.05  # of a wheel's inertia or radius, by which it may miss a round one
TOUCHES = 0.02  # of its radius, by which a wheel may stand above the ground
SHORT = 500  # operations of a row that is written out
TRAIL = 1e-6  # of its radius, by which a wheel may stand behind the axis that steers it
ALIKE = 1e-6  # to which lines are the same
LINKAGE = 0.02  # rad, by which a linkage of the file may miss the angle that lets wheels roll
STEERED = (-0.5, 0.5)  # rad, over which a linkage is judged whose joint has no range


def _line(c: Expr, s: Expr, a: Expr, b: Expr, x: Expr, y: Expr) -> list[Expr]:
    """The line through (x, y) along (a, b), which is turned there by an angle of this cosine and sine."""
    ahead, left = c * a - s * b, s * a + c * b
    return [ahead, left, left * x - ahead * y]


@dataclass(frozen=True)
class Axle:
    """The line of a wheel's axle in the base's plane, seen from above.

    across (2,): its direction, to the left. place (2,): a point of it, which stays where the wheel is steered.
    steering: the joint that turns it about that point, counterclockwise where up is 1, clockwise where it is -1.
    """

    across: Array
    place: Array
    steering: Joint | None = None
    up: int = 1

    def line(self, angle: Expr = 0) -> Any:
        """The line (3,): with the base's speeds ahead, to the left and its yaw rate, the speed along the axle."""
        entries = (exact(round(float(each), 12)) for each in (*self.across, *self.place))
        return sympy.Matrix(_line(sympy.cos(self.up * angle), sympy.sin(self.up * angle), *entries))

    def numbers(self, angle: float | None = None) -> Array:
        """The line in numbers, where a run starts if no angle is given."""
        start = self.steering.start[0] if self.steering else 0.0
        turn = self.up * (start if angle is None else angle)
        return np.array(_line(np.cos(turn), np.sin(turn), *self.across, *self.place))

    def angle(self, centre: Array, near: float) -> float:
        """The angle of its steering next to another one at which a line goes through a point (3,)."""
        found = np.arctan2(-self.numbers(0.0) @ centre, self.numbers(np.pi / 2) @ centre)
        return float(found + np.pi * np.round((near - found) / np.pi))


@dataclass(frozen=True)
class Wheel:
    """A wheel in numbers: radius [m]; forward: 1 where a turn about the axis drives towards the base's x axis, else -1.

    rollers: the angle from the axle to the axis of the roller on the ground [rad], counterclockwise seen from above.
    axle: of a wheel on the base, or that is steered without trail.
    """

    name: str
    joint: Joint
    body: str
    radius: float
    forward: int
    axle: Axle | None = None
    rollers: float | None = None


def wheels_of(robot: Robot, names: Mapping[str, str], radius: Numbers, rollers: Numbers) -> list[Wheel]:
    """The wheels of a robot. names: of wheels -> joints; radius [m], rollers [rad]: of all, or by their names.

    Raises:
        RobotError: a joint is none of the robot's, does not roll, or its wheel does not touch the ground.
    """
    return _Reading(robot, names, radius, rollers).wheels if names else []


class _Reading:
    """The wheels of a robot, held against its pose at zero angles."""

    def __init__(self, robot: Robot, names: Mapping[str, str], radius: Numbers, rollers: Numbers) -> None:
        self.robot = robot
        self.bodies = {body.name: body for body in robot.bodies}
        self.owners = {joint.name: body for body in robot.bodies for joint in body.joints}
        self.base = robot.bodies[0]
        kinds = [(each.kind, *np.round(each.axis)) for each in self.base.joints]
        if kinds != [("slide", 1, 0, 0), ("slide", 0, 1, 0), ("hinge", 0, 0, 1)]:
            self._refuse("the robot's base does not move in the plane", 'state base = "planar"')
        self.places = dict(self._places())
        twice = next((each for each in names.values() if list(names.values()).count(each) > 1), None)
        if twice is not None:
            self._refuse(f"{twice!r} stands there twice", "name each joint once")
        heights = {name: self._height(name, joint) for name, joint in names.items()}
        given, self.rollers = by_name(names, radius), by_name(names, rollers)
        for key, stated in (("radius", given), ("rollers", self.rollers)):
            strange = next((each for each in stated if each not in names), None)
            if strange is not None:
                self._refuse(f"{strange} is no wheel", f"choose from {', '.join(names)}", key)
        for name, angle in self.rollers.items():
            if not LEVEL < abs(angle) < np.pi / 2 + LEVEL:
                text = f"those of {name} are at {angle:g} rad to the axle"
                remedy = "give radians between -pi/2 and pi/2, such as pi/4 of mecanum wheels, and not 0, which drives"
                self._refuse(text, f"{remedy} nothing", "rollers")
        radii = self._radii(names, heights, given)
        self.wheels = [self._wheel(name, joint, radii[name]) for name, joint in names.items()]
        self._check_axles()

    def _refuse(self, what: str, remedy: str, key: str = "wheels") -> None:
        raise RobotError(f"{self.robot.file.name}: [plant.robot] {key}: {what}; {remedy}")

    def _places(self) -> Iterator[tuple[str, tuple[Array, Array, bool]]]:
        """Each body on the base: position and rotation in the base's axes, and whether only verticals turn it."""
        found = {self.base.name: (np.zeros(3), np.eye(3), True)}
        for body in self.robot.bodies:
            if body.parent in found:
                p, R, level = found[body.parent]
                p, R = p + R @ body.position, R @ body.rotation
                upright = all(each.kind == "hinge" and abs((R @ each.axis)[2]) > 1 - LEVEL for each in body.joints)
                found[body.name] = p, R, level and upright
        yield from found.items()

    def _height(self, name: str, joint: str) -> float:
        """The height of a wheel's axis over the base's origin [m]."""
        if joint not in self.owners:
            choices = ", ".join(each for each, body in self.owners.items() if body is not self.base)
            self._refuse(f"{name} = {joint!r} is not a joint of the file", f"choose from {choices}")
        body = self.owners[joint]
        kinds = [each.kind for each in body.joints]
        if kinds != ["hinge"]:
            what = f"is a {kinds[0]} joint" if len(kinds) == 1 else f"shares its body with {len(kinds) - 1} others"
            self._refuse(f"{name} = {joint!r} {what}", "a wheel turns about one axis")
        if body.parent not in self.places or not self.places[body.parent][2]:
            text = f"{name} = {joint!r} hangs on a joint that tilts or lifts it"
            self._refuse(text, "a wheel hangs on the base or on what turns on it about vertical axes")
        p, R, _ = self.places[body.parent]
        axis = R @ body.rotation @ body.joints[0].axis
        if abs(axis[2]) > LEVEL:
            shown = ", ".join(f"{each:.3g}" for each in axis)
            self._refuse(f"{name} = {joint!r} has the axis ({shown})", "the axis of a wheel is horizontal")
        if any(each.parent == body.name for each in self.robot.bodies):
            self._refuse(f"{name} = {joint!r} carries other bodies by joints", "a wheel carries none")
        return float((p + R @ body.position)[2])

    def _radii(
        self, names: Mapping[str, str], heights: Mapping[str, float], given: Mapping[str, float]
    ) -> dict[str, float]:
        """The radius of each wheel: the stated one, that of its shape, or the height of its axis over the ground.

        Where no wheel's radius is known the base's origin is on the ground.
        """
        flat = next((each for each, radius in given.items() if not radius > 0), None)
        if flat is not None:
            self._refuse(f"that of {flat} is {given[flat]:g} m", "give one above 0", "radius")
        shapes = {name: self.robot.radii.get(self.owners[joint].name) for name, joint in names.items()}
        radii = {name: radius for name, radius in shapes.items() if radius is not None}
        radii |= given
        ground = min((heights[name] - radius for name, radius in radii.items()), default=0.0)
        for name, height in heights.items():
            above = height - ground - radii.setdefault(name, height - ground)
            if not radii[name] > 0:
                text = f"the wheel {name} has no cylinder or sphere as its shape"
                self._refuse(f"{text}, and its axis is not above the base's origin", "state radius = ...")
            if above > TOUCHES * radii[name]:
                text = f"the wheel {name} does not touch the ground: it ends {above:.3g} m above the lowest wheel"
                self._refuse(text, "correct radius = ... or the file, or leave it out and name its joint in casters")
        return radii

    def _wheel(self, name: str, joint: str, radius: float) -> Wheel:
        body = self.owners[joint]
        p, R, _ = self.places[body.parent]
        self._check_round(name, body, radius)
        axis = R @ body.rotation @ body.joints[0].axis
        towards = axis[1] if abs(axis[1]) > LEVEL else -axis[0]  # axis x vertical, seen along x, else along y
        forward = 1 if towards > 0 else -1
        axle = self._axle(body, (p + R @ body.position)[:2], forward * axis[:2], radius)
        stated = self.rollers.get(name)
        return Wheel(identifier(name), body.joints[0], identifier(body.name), radius, forward, axle, stated)

    def _axle(self, body: Body, centre: Array, across: Array, radius: float) -> Axle | None:
        """The axle of a wheel on the base, or on one joint that steers it about a point of its axle; None of others."""
        turning = [self.bodies[each] for each in self._between(body) if self.bodies[each].joints]
        if not turning:
            return Axle(across, centre)
        (p, R, _), joint = self.places[turning[0].name], turning[0].joints[0]
        trail = across @ [[0, -1], [1, 0]] @ (centre - p[:2])
        if len(turning) > 1 or len(turning[0].joints) > 1 or abs(trail) > TRAIL * radius:
            return None
        return Axle(across, p[:2], joint, 1 if (R @ joint.axis)[2] > 0 else -1)

    def _between(self, body: Body) -> Iterator[str]:
        """The bodies between a wheel and the base."""
        while body.parent != self.base.name:
            body = self.bodies[body.parent]
            yield body.name

    def _check_round(self, name: str, body: Body, radius: float) -> None:
        axis = body.joints[0].axis
        off = np.linalg.norm(body.centre - axis * (axis @ body.centre))
        across = np.eye(3) - np.outer(axis, axis)
        moments = np.linalg.eigvalsh(across @ body.inertia @ across)[1:]
        largest = np.abs(body.inertia).max()
        coupled = np.abs(across @ body.inertia @ axis).max()
        if off > ROUND * radius and body.mass:
            self._refuse(f"the wheel {name} has its centre of mass {off:.3g} m off its axis", "correct its <inertial>")
        if max(abs(moments[1] - moments[0]), coupled) > ROUND * largest:
            text = f"the wheel {name} is not round: its moments of inertia across the axis are {moments[0]:g} and"
            self._refuse(f"{text} {moments[1]:g} kg m^2", "correct its <inertial>")

    def _check_axles(self) -> None:
        """Refuse wheels that are not steered and do not turn about one line, as those of skid-steer drives."""
        fixed = [each for each in self.wheels if each.axle and not each.axle.steering and each.rollers is None]
        lines = [each.axle.numbers() for each in fixed if each.axle]
        for wheel, line in zip(fixed[1:], lines[1:], strict=True):
            centre = np.cross(lines[0], line)
            if np.linalg.norm(centre) > LEVEL * np.linalg.norm(line):
                does = "cannot drive" if abs(centre[2]) > LEVEL * np.linalg.norm(centre) else "cannot turn"
                text = f"{fixed[0].name} and {wheel.name} are not steered and stand on different axes, so that the base"
                text += f" {does} without slipping, as skid-steer drives slip"
                remedy = "name those of one axis and put the joints of others into casters, or state the rollers of"
                self._refuse(text, f"{remedy} mecanum and omnidirectional wheels")


@dataclass(frozen=True)
class Rolling:
    """What rolling wheels add to a machine; velocities: those to choose first, in rates."""

    constraints: tuple[Constraint, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    velocities: dict[Velocity, Expr] = field(default_factory=dict)
    kinetic: Expr = 0


def rolling(wheels: list[Wheel], base: Body, tree: Tree, coordinates: Mapping[str, Coordinate]) -> Rolling:
    """Rolling without slipping: the point of contact has no velocity along the wheel, and none across it.

    With rollers it has none along their axes.
    """
    links = {each.name: each for each in tree.links}
    plane = tuple(coordinates[each.name] for each in base.joints)
    leading, following = steering(wheels)
    constraints = [_steered(leading, each, coordinates) for each in following]
    parameters, kinetic, towards = list[Parameter](), sympy.Integer(0), None
    # what is implied comes last
    ordered = [*leading, *(each for each in wheels if each not in leading)] if following else wheels
    for wheel in ordered:
        theta, axis = coordinates[wheel.joint.name], sympy.Matrix([exact(each) for each in wheel.joint.axis])
        r = parameter(f"{wheel.name}_radius", f"radius of the wheel {wheel.name}", "m", default=wheel.radius, above=0)
        located = tree[wheel.body]
        across = wheel.forward * located.rotation * axis
        along = sympy.Matrix([across[1], -across[0], 0])
        name, v = wheel.name, located.velocity
        sliding, side = along.dot(v) - wheel.forward * r * theta.rate, across.dot(v)
        if wheel.rollers is not None:
            share = exact(round(1 / np.tan(wheel.rollers), 12))
            text = f"forward part of the force on the wheel {name} along the axis of its roller"
            constraints.append(constraint(f"{name}_traction", text, _short(sliding - share * side)))
        else:
            constraints += [
                constraint(f"{name}_traction", f"force on the wheel {name}, forward", _short(sliding)),
                constraint(f"{name}_side", f"force on the axle of the wheel {name}, to the left", _short(side)),
            ]
            if towards is None and wheel.axle and not wheel.axle.steering:
                towards = _short(along[0] * plane[0].rate + along[1] * plane[1].rate)
        parameters.append(r)
        spun = (axis.T * sympy.Matrix(links[wheel.body].inertia) * axis)[0]
        kinetic += spun * theta.rate**2 / 2
    turned = [each.axle.steering for each in leading if each.axle and each.axle.steering]
    first = [coordinates[each.name] for each in (*(wheel.joint for wheel in leading[:1]), *turned)]
    return Rolling(tuple(constraints), tuple(parameters), _velocities(plane, towards, first), kinetic)


def _velocities(plane: Sequence[Coordinate], towards: Expr | None, first: Sequence[Coordinate]) -> dict[Velocity, Expr]:
    """The velocities to choose first. towards: the speed along wheels that are not steered; first: where all are."""
    x, y, psi = plane
    V = velocity("V", "forward speed of the base", "m/s")
    Omega = velocity("Omega", "yaw rate of the base", "rad/s")
    if towards is not None:
        return {V: towards, Omega: psi.rate}
    if first:  # the base has no direction of its own
        return {q.own_velocity(): q.rate for q in first}
    c, s = sympy.cos(psi), sympy.sin(psi)
    side = velocity("V_side", "speed of the base to its left", "m/s")
    return {V: x.rate * c + y.rate * s, Omega: psi.rate, side: y.rate * c - x.rate * s}


# steering: the axles of wheels without rollers meet in one point


def steering(wheels: Sequence[Wheel]) -> tuple[tuple[Wheel, ...], list[Wheel]]:
    """Two wheels whose axles give the point about which the base turns, and those whose steering follows from it.

    The first of the two is not steered if there is such a wheel, else they stand as far from each other as possible.
    """
    lines = {each.name: each.axle for each in wheels if each.axle and each.rollers is None}
    plain = [each for each in wheels if each.name in lines]
    steered = [each for each in plain if lines[each.name].steering]
    fixed = [each for each in plain if each not in steered][:1]

    def parted(pair: tuple[Wheel, ...]) -> float:
        one, other = (lines[each.name] for each in pair)
        size = np.linalg.norm(np.cross(one.numbers(), other.numbers()))
        return float(np.round(size if fixed else size * np.linalg.norm(one.place - other.place), 9))

    pairs = [(fixed[0], each) for each in steered] if fixed else list(combinations(steered, 2))
    leading: tuple[Wheel, ...] = max(pairs, key=parted, default=())
    known, following = [lines[each.name] for each in leading], list[Wheel]()
    for each in steered:
        own = lines[each.name]
        if each in leading or any(own.steering is one.steering and _alike(own, one) for one in known):
            continue  # beside another wheel on one axle
        known.append(own)
        following.append(each)
    return leading, following if leading else []


def _alike(one: Axle, other: Axle) -> bool:
    """Whether two axles are one line."""
    return bool(np.linalg.norm(np.cross(one.numbers(), other.numbers())) < ALIKE)


def _steered(leading: Sequence[Wheel], wheel: Wheel, coordinates: Mapping[str, Coordinate]) -> Constraint:
    """That the axle of a wheel goes through the point in which two others meet, by a determinant of their lines."""
    axles = [each.axle for each in (*leading, wheel) if each.axle]
    angles = [coordinates[each.steering.name] if each.steering else 0 for each in axles]
    gap = sympy.Matrix([axle.line(angle).T for axle, angle in zip(axles, angles, strict=True)]).det()
    one, other, own = axles
    assert own.steering is not None
    slope = np.cross(one.numbers(), other.numbers()) @ own.numbers(own.steering.start[0] + np.pi / 2)
    unit = exact(float(f"{slope:.6g}")) if abs(slope) > ALIKE else 1  # with which the force is the torque at the start
    text = f"torque on the steering of the wheel {wheel.name}, whose axle meets the others in one point"
    return constraint(f"{wheel.name}_steering", text, _short(gap / unit), "N m")


def linkage(file: str, loop: Loop, wheels: Sequence[Wheel], urdf: bool) -> float | None:
    """By how much a linkage of two steering joints misses that their wheels roll [rad]; None of other loops.

    Raises:
        RobotError: it is so much that they would slip.
    """
    axles = [each.axle for each in wheels if each.axle and each.rollers is None]
    steered = {axle.steering.name: axle for axle in axles if axle.steering}
    leading = steering(wheels)[0]
    if loop.kind != "joint" or not {loop.first, loop.second} <= set(steered) or not leading:
        return None
    fixed, own, other = leading[0].axle, steered[loop.first], steered[loop.second]
    if fixed is None or fixed.steering or own.steering is None or other.steering is None:
        return None
    factors, (zero, from_) = loop.places
    angles = np.linspace(*(other.steering.range or STEERED), 101)
    given = zero + np.polynomial.Polynomial(factors)(angles - from_)
    centres = [np.cross(fixed.numbers(), other.numbers(each)) for each in angles]
    wanted = np.array([own.angle(centre, near) for centre, near in zip(centres, given, strict=True)])
    low, high = own.steering.range or (-np.inf, np.inf)
    within = (low <= wanted) & (wanted <= high)
    if not within.any():
        return None
    angles, given, wanted = (each[within] for each in (angles, given, wanted))
    at = int(np.abs(wanted - given).argmax())
    missed = float(abs(wanted - given)[at])
    if missed > LINKAGE:
        fitted = np.polynomial.Polynomial.fit(angles - from_, wanted - zero, 4).convert().coef
        remedy = "remove the <mimic>" if urdf else f'state polycoef="{" ".join(f"{each:.4g}" for each in fitted)}"'
        text = f"with {loop.second} at {angles[at]:.3g} rad {loop.name} puts {loop.first} at {given[at]:.3g} rad"
        text += f", and only at {wanted[at]:.3g} rad its wheel does not slip"
        raise RobotError(f"{file}: [plant.robot] wheels: {text}; {remedy}, or name its wheel in casters")
    return missed


def _short(expression: Expr) -> Expr:
    """A row without names of its parts, reduced, where it is short."""
    written = written_out(sympy.sympify(expression), definitions_of([expression]), SHORT)
    constants = {each for each in expression.free_symbols if isinstance(each, Parameter)}
    return expression if written is None else trig_reduce(written, constants)
