"""From a robot in numbers to a machine: a tree with parameters, its inputs, losses, springs and limits.

What is exactly zero in the file stays a number: the programs are shorter, and there is nothing to identify.
"""

from collections.abc import Mapping
from typing import Any

import sympy

from servonode.definitions.source_location import Place
from servonode.errors import CallError, ModelError
from servonode.mechanics import links, trees
from servonode.mechanics.description import JOINT_LIMIT
from servonode.mechanics.model import Model
from servonode.mechanics.symbols import (
    Condition,
    Coordinate,
    Input,
    Parameter,
    condition,
    coordinate,
    input_,
    parameter,
    vector,
    velocity,
)
from servonode.robots.contacts import Contacts, held, prepared
from servonode.robots.file_text import RobotError
from servonode.robots.robot import Body, Joint, Robot, identifier

Expr = Any
UNITS = {"hinge": ("rad", "N m"), "slide": ("m", "N"), "ball": ("rad", "N m"), "free": ("rad", "N m")}
SMOOTH = {"hinge": 0.05, "slide": 0.005}  # rad/s, m/s: the speed at which dry friction has 76 % of its size
AXES = ("x", "y", "z")


def model(robot: Robot, contacts: Contacts | None = None) -> Model:
    """The machine of a robot.

    Raises:
        RobotError: names become equal, or what is stated of contacts, motors or loops does not fit.
    """
    try:
        return _Machine(robot, contacts or Contacts()).model()
    except (ModelError, CallError) as error:
        raise RobotError(f"{robot.file.name}: {getattr(error, 'text', error)}") from error


class _Machine:
    """Collects what a Model is made of while it goes through a robot's bodies and joints."""

    def __init__(self, robot: Robot, contacts: Contacts) -> None:
        self.robot, self.contacts = prepared(robot, contacts), contacts
        self.coordinates: dict[str, Coordinate] = {}  # by their joints
        self.parameters: list[Parameter] = []
        self.rates: dict[str, tuple[Expr, Joint]] = {}  # of hinges and slides by the joint's name
        self.kinetic: Expr = 0
        self.dissipation: Expr = 0
        self.potential: Expr = 0
        self.forces: list[tuple[Expr, Expr]] = []
        self.faults: list[Condition] = []
        self._taken: dict[str, str] = {}
        self._several = sum(each.kind == "free" for each in robot.joints) > 1

    def model(self) -> Model:
        robot = self.robot
        made = trees.tree([self._link(each) for each in robot.bodies], self._gravity(), self._frames())
        inputs = self._inputs()
        added = held(robot, self.contacts, made, self.coordinates, self.parameters)
        return Model(
            name=identifier(robot.name),
            description=f"{robot.name}, as {robot.file.name} describes it",
            tree=made,
            coordinates=tuple(self.coordinates.values()) if self.contacts.wheels else (),
            kinetic=self.kinetic + added.kinetic,
            constraints=added.constraints,
            independent=added.independent,
            parameters=(*self.parameters, *added.parameters),
            inputs=inputs,
            dissipation=self.dissipation,
            potential=self.potential,
            forces=tuple(self.forces),
            faults=tuple(self.faults),
            warnings=added.warnings,
            notes=(*robot.dropped, *added.notes),
            place=Place(str(robot.file), 1),
        )

    def _name(self, stated: str, what: str) -> str:
        """The identifier of something, which nothing else has."""
        name = identifier(stated)
        before = self._taken.setdefault(name, what)
        if before != what:
            text = f"{before} and {what} would both be called {name}; rename one of them"
            raise RobotError(f"{self.robot.file.name}: {text}")
        return name

    def _parameter(self, name: str, description: str, unit: str, value: float, **bounds: float) -> Expr:
        """A parameter, or 0 where its value is."""
        if value == 0:
            return sympy.Integer(0)
        made = parameter(self._name(name, f"parameter {name}"), description, unit, default=float(value), **bounds)
        self.parameters.append(made)
        return made

    def _gravity(self) -> list[Expr]:
        """Gravity in the ground's axes, its magnitude a parameter."""
        size = float(sum(self.robot.gravity**2) ** 0.5)
        g = self._parameter("g", "gravity", "m/s^2", size, at_least=0)
        return [g * sympy.nsimplify(each / size, rational=True) if size else 0 for each in self.robot.gravity]

    def _link(self, body: Body) -> links.Link:
        joints = [each for joint in body.joints for each in self._joints(joint, body)]
        name = self._place(body.name, "body")
        entries = {(i, k): self._inertia(name, body, i, k) for i in range(3) for k in range(i, 3)}
        centre = [
            self._parameter(f"{name}_centre_{axis}", f"centre of mass of {name} along {axis}", "m", value)
            for axis, value in zip(AXES, body.centre, strict=True)
        ]
        return links.link(
            name,
            body.parent and identifier(body.parent),
            position=body.position,
            rotation=body.rotation,
            joints=joints,
            mass=self._parameter(f"{name}_mass", f"mass of {name}", "kg", body.mass, above=0),
            centre=centre,
            inertia=[[entries[min(i, k), max(i, k)] for k in range(3)] for i in range(3)],
        )

    def _inertia(self, name: str, body: Body, i: int, k: int) -> Expr:
        axes = AXES[i] + AXES[k]
        bounds = {"above": 0.0} if i == k else {}
        text = f"inertia of {name} about its centre of mass, entry {axes}"
        value = body.inertia[i, k]
        return self._parameter(f"{name}_inertia_{axes}", text, "kg m^2", value, **(bounds if value > 0 else {}))

    def _place(self, stated: str, what: str) -> str:
        """The name of a link or frame; these have names of their own kind."""
        name = identifier(stated)
        key, mine = f"place {name}", f'{what} "{stated}"'
        before = self._taken.setdefault(key, mine)
        if before != mine and what == "site":
            return self._place(f"{stated}_site", "frame")
        if before != mine:
            raise RobotError(f"{self.robot.file.name}: {before} and {mine} would both be called {name}; rename one")
        return name

    def _frames(self) -> list[links.Frame]:
        return [
            links.frame(
                self._place(each.name, "site"), each.body and identifier(each.body), each.position, each.rotation
            )
            for each in self.robot.frames
        ]

    def _joints(self, joint: Joint, body: Body) -> list[links.Joint]:
        """The joints of the tree for one joint of the robot, with what acts at them."""
        if joint.kind in ("hinge", "slide"):
            q = self._coordinate(joint)
            self.coordinates[joint.name], self.rates[joint.name] = q, (q.rate, joint)
            armature = self._at_joint(joint, q, q.rate)
            if joint.name in self.contacts.wheels.values():  # its body does not turn in the tree
                self.kinetic += armature * q.rate**2 / 2
                return []
            make = links.hinge if joint.kind == "hinge" else links.slide
            return [make(q, joint.axis.tolist(), armature)]
        prefix = f"{body.name}_" if self._several or joint.kind == "ball" else ""
        own = f"{joint.kind} joint {joint.name}"
        names = {word: self._name(f"{prefix}{word}", own) for word in ("x", "y", "z", "q", "omega")}
        quaternion = vector(coordinate, names["q"], f"orientation of {body.name}, quaternion", start=joint.start[-4:])
        spin = vector(velocity, names["omega"], f"angular velocity of {body.name} in its axes", "rad/s")
        armature = self._parameter(f"{joint.name}_armature", f"armature of {joint.name}", "kg m^2", joint.armature)
        damping = self._parameter(f"{joint.name}_damping", f"damping of {joint.name}", "N m s", joint.damping)
        slides = []
        if joint.kind == "free":
            for i, axis in enumerate(AXES):
                q = coordinate(names[axis], f"place of {body.name} along {axis}", "m", start=joint.start[i])
                slides.append(links.slide(q, [int(i == k) for k in range(3)], armature))
        motions = (*(each.motions[0] for each in slides), *spin)
        self.dissipation += sympy.Add(*(damping * each**2 for each in motions)) / 2
        return [*slides, links.ball(quaternion, spin, armature)]

    def _coordinate(self, joint: Joint) -> Coordinate:
        unit = UNITS[joint.kind][0]
        word = "angle" if joint.kind == "hinge" else "travel"
        name = self._name(joint.name, f'joint "{joint.name}"')
        q = coordinate(name, f"{word} of {name}", unit, start=joint.start[0], rate_limit=joint.speed)
        if joint.range:
            for side, value in zip(("lower", "upper"), joint.range, strict=True):
                end = parameter(f"{name}_{side}", f"{side} limit of {name}", unit, default=value)
                self.parameters.append(end)
                beyond = "below" if side == "lower" else "above"
                text = f"{name} is {beyond} {end}, its limit in {self.robot.file.name}"
                self.faults.append(condition(q >= end if side == "lower" else q <= end, text, JOINT_LIMIT))
        return q

    def _at_joint(self, joint: Joint, q: Expr, rate: Expr) -> Expr:
        """Add damping, friction and spring of a hinge or slide; its armature."""
        name, (unit, force) = identifier(joint.name), UNITS[joint.kind]
        damping = self._parameter(f"{name}_damping", f"damping of {name}", f"{force} s/{unit}", joint.damping)
        self.dissipation += damping * rate**2 / 2
        friction = self._parameter(f"{name}_friction", f"dry friction of {name}", force, joint.friction, at_least=0)
        if joint.friction:
            self.forces.append((-friction * sympy.tanh(rate / SMOOTH[joint.kind]), rate))
        stiffness = self._parameter(f"{name}_stiffness", f"stiffness of {name}", f"{force}/{unit}", joint.stiffness)
        if joint.stiffness:
            rest = self._parameter(f"{name}_rest", f"{name} where its spring is relaxed", unit, joint.rest)
            self.potential += stiffness * (q - rest) ** 2 / 2
        inertia = "kg m^2" if joint.kind == "hinge" else "kg"
        return self._parameter(f"{name}_armature", f"armature of {name}", inertia, joint.armature, at_least=0)

    def _inputs(self) -> Mapping[Input, Expr]:
        inputs: dict[Input, Expr] = {}
        for motor in self.robot.actuators:
            rate, joint = self.rates[motor.joint]
            word = "torque" if joint.kind == "hinge" else "force"
            stated, most = motor.name, max(map(abs, motor.range or (0.0,)))
            if self._taken.get(identifier(stated), "").startswith("joint "):  # as many files call both the same
                stated += f"_{word}"
            name = self._name(stated, f'actuator "{motor.name}"')
            gear = self._parameter(f"{name}_gear", f"gear of {name}", "1", motor.gear) if motor.gear != 1 else 1
            made = input_(name, f"{word} at {joint.name}", UNITS[joint.kind][1], limit=most or None)
            inputs[made] = gear * rate
        return inputs
