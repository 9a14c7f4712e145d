"""Wheels that roll on the ground without slipping: their constraints, and the base's speed and yaw rate.

The base moves in the plane (x, y, psi). A wheel is a joint whose axis is horizontal, on the base or on what turns on it
about vertical axes, such as a trailer or a steered fork. Its angle is a coordinate, its body does not turn in the tree:
it is round, so that its angle changes no inertia, and its spin adds I theta'^2 / 2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy

from servonode.arrays import Array
from servonode.mechanics.straight_line import definitions_of, exact, written_out
from servonode.mechanics.symbols import Constraint, Coordinate, Parameter, Velocity, constraint, parameter, velocity
from servonode.mechanics.trees import Tree
from servonode.mechanics.trig_reduce import trig_reduce
from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.robot import Body, Joint, Robot, identifier

Expr = Any
LEVEL = 1e-3  # of an axis, by which it may miss the vertical or the horizontal
ROUND = 0.05  # of a wheel's inertia or radius, by which it may miss a round one
TOUCHES = 0.02  # of its radius, by which a wheel may stand above the ground
SHORT = 500  # operations of a row that is written out


@dataclass(frozen=True)
class Wheel:
    """A wheel in numbers: axis (3,) in its body's axes, height of the axis over the base's origin, radius [m].

    forward: 1 where a turn about the axis drives towards the base's x axis, else -1.
    """

    name: str
    joint: Joint
    body: str
    radius: float
    forward: int
    on_base: bool


def wheels_of(robot: Robot, names: Mapping[str, str], radius: float | Mapping[str, float] | None) -> list[Wheel]:
    """The wheels of a robot. names: of wheels -> joints; radius [m]: of all, or by their names.

    Raises:
        RobotError: a joint is none of the robot's, does not roll, or its wheel does not touch the ground.
    """
    return _Reading(robot, names, radius).wheels if names else []


class _Reading:
    """The wheels of a robot, held against its pose at zero angles."""

    def __init__(self, robot: Robot, names: Mapping[str, str], radius: float | Mapping[str, float] | None) -> None:
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
        given = dict(radius) if isinstance(radius, Mapping) else {} if radius is None else dict.fromkeys(names, radius)
        radii = self._radii(names, heights, given)
        self.wheels = [self._wheel(name, joint, radii[name]) for name, joint in names.items()]

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
        strange = next((each for each in given if each not in names), None)
        if strange is not None:
            self._refuse(f"{strange} is no wheel", f"choose from {', '.join(names)}", "radius")
        flat = next((each for each, radius in given.items() if not radius > 0), None)
        if flat is not None:
            self._refuse(f"that of {flat} is {given[flat]:g} m", "give one above 0", "radius")
        shapes = dict(self.robot.radii)
        of_shapes = {name: shapes[self.owners[joint].name] for name, joint in names.items()
                     if self.owners[joint].name in shapes}  # fmt: skip
        radii: dict[str, float] = {**of_shapes, **given}
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
        _, R, _ = self.places[body.parent]
        self._check_round(name, body, radius)
        axis = R @ body.rotation @ body.joints[0].axis
        towards = axis[1] if abs(axis[1]) > LEVEL else -axis[0]  # axis x vertical, seen along x, else along y
        on_base = all(not self.bodies[each].joints for each in self._between(body))
        return Wheel(identifier(name), body.joints[0], identifier(body.name), radius, 1 if towards > 0 else -1, on_base)

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


@dataclass(frozen=True)
class Rolling:
    """What rolling wheels add to a machine; velocities: V and Omega, in rates."""

    constraints: tuple[Constraint, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    velocities: dict[Velocity, Expr] = field(default_factory=dict)
    kinetic: Expr = 0


def rolling(wheels: list[Wheel], base: Body, tree: Tree, coordinates: Mapping[str, Coordinate]) -> Rolling:
    """Rolling without slipping: the point of contact has no velocity along the wheel, and none across it."""
    links = {each.name: each for each in tree.links}
    constraints, parameters, kinetic = list[Constraint](), list[Parameter](), sympy.Integer(0)
    x, y, psi = (coordinates[each.name] for each in base.joints)
    towards = None
    for wheel in wheels:
        theta, axis = coordinates[wheel.joint.name], sympy.Matrix([exact(each) for each in wheel.joint.axis])
        r = parameter(f"{wheel.name}_radius", f"radius of the wheel {wheel.name}", "m", default=wheel.radius, above=0)
        located = tree[wheel.body]
        across = wheel.forward * located.rotation * axis
        along = sympy.Matrix([across[1], -across[0], 0])
        name, v = wheel.name, located.velocity
        constraints += [
            constraint(f"{name}_traction", f"force on the wheel {name}, forward",
                       _short(along.dot(v) - wheel.forward * r * theta.rate)),
            constraint(f"{name}_side", f"force on the axle of the wheel {name}, to the left", _short(across.dot(v))),
        ]  # fmt: skip
        parameters.append(r)
        spun = (axis.T * sympy.Matrix(links[wheel.body].inertia) * axis)[0]
        kinetic += spun * theta.rate**2 / 2
        if wheel.on_base and towards is None:
            towards = _short(along[0] * x.rate + along[1] * y.rate)
    V = velocity("V", "forward speed of the base", "m/s")
    Omega = velocity("Omega", "yaw rate of the base", "rad/s")
    speed = {V: towards} if towards is not None else {}
    return Rolling(tuple(constraints), tuple(parameters), speed | {Omega: psi.rate}, kinetic)


def _short(expression: Expr) -> Expr:
    """A row without names of its parts, reduced, where it is short."""
    written = written_out(sympy.sympify(expression), definitions_of([expression]), SHORT)
    constants = {each for each in expression.free_symbols if isinstance(each, Parameter)}
    return expression if written is None else trig_reduce(written, constants)
