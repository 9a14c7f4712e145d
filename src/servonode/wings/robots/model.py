"""From a robot in numbers to a machine: a tree with parameters, its inputs, losses, springs and limits.

What is exactly zero in the file stays a number: the programs are shorter, and there is nothing to identify.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from servonode.definitions.source_location import Place
from servonode.errors import ModelError
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
from servonode.wings.robots.contacts import Contacts, held, prepared
from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.robot import Actuator, Body, Joint, Robot, identifier

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
    except ModelError as error:
        raise RobotError(f"{robot.file.name}: {error.text}") from None


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
        self.notes: list[str] = []
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
            notes=(*robot.dropped, *self.notes, *added.notes),
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
        g = self._parameter("gravity" if "g" in self._taken else "g", "gravity", "m/s^2", size, at_least=0)
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
            armature = self._losses(identifier(joint.name), joint.kind, joint, [q.rate])
            self._add_spring(joint, q)
            if joint.whole:
                self._add_whole(joint.whole)
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
        places = [
            coordinate(names[axis], f"place of {body.name} along {axis}", "m", start=start)
            for axis, start in zip(AXES, joint.start[:-4], strict=bool(joint.start[:-4]))
        ]
        self._limit_turn(joint, quaternion[0])
        armatures = self._losses_of_whole(joint, [q.rate for q in places], spin)
        slides = [links.slide(q, np.eye(3, dtype=int)[i].tolist(), armatures[0]) for i, q in enumerate(places)]
        return [*slides, links.ball(quaternion, spin, armatures[1])]

    def _add_whole(self, joint: Joint) -> None:
        """Add what acts at a ball or free joint that its last three, or six, coordinates state by angles."""
        *places, yaw, pitch, roll = list(self.coordinates.values())[-6 if joint.kind == "free" else -3 :]
        c, s = sympy.cos(roll), sympy.sin(roll)
        turn = sympy.cos(pitch) * yaw.rate
        spin = [roll.rate - sympy.sin(pitch) * yaw.rate, c * pitch.rate + s * turn, c * turn - s * pitch.rate]
        halves = [(sympy.cos(q / 2), sympy.sin(q / 2)) for q in (yaw, pitch, roll)]
        self._limit_turn(joint, sum(sympy.prod(each) for each in zip(*halves, strict=True)))
        rates = [q.rate for q in places]
        armatures = self._losses_of_whole(joint, rates, spin)
        for armature, motions in zip(armatures, (rates, spin), strict=True):
            self.kinetic += armature * sympy.Add(*(each**2 for each in motions)) / 2

    def _losses_of_whole(self, joint: Joint, rates: Sequence[Expr], spin: Sequence[Expr]) -> tuple[Expr, Expr]:
        """Add damping and friction of a ball or free joint; its armatures, of its slides and of its turn."""
        name = identifier(joint.name)
        slides = self._losses(f"{name}_slide", "slide", joint, rates) if rates else sympy.Integer(0)
        return slides, self._losses(name, "hinge", joint, spin)

    def _limit_turn(self, joint: Joint, w: Expr) -> None:
        """Add the fault of a ball that leaves its range; w: of its quaternion, the cosine of half its turn."""
        if joint.range:
            name = identifier(joint.name)
            end = self._parameter(f"{name}_upper", f"upper limit of {name}", "rad", joint.range[1], above=0)
            text = f"{name} is turned by more than {end}, its limit in {self.robot.file.name}"
            self.faults.append(condition(w**2 >= sympy.cos(end / 2) ** 2, text, JOINT_LIMIT))

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

    def _losses(self, name: str, kind: str, joint: Joint, rates: Sequence[Expr]) -> Expr:
        """Add damping and friction of a joint in motions of one kind; its armature in these."""
        unit, force = UNITS[kind]
        damping = self._parameter(f"{name}_damping", f"damping of {name}", f"{force} s/{unit}", joint.damping)
        self.dissipation += sympy.Add(*(damping * rate**2 / 2 for rate in rates))
        friction = self._parameter(f"{name}_friction", f"dry friction of {name}", force, joint.friction, at_least=0)
        if joint.friction:
            self.forces += [(-friction * sympy.tanh(rate / SMOOTH[kind]), rate) for rate in rates]
        inertia = "kg m^2" if kind == "hinge" else "kg"
        return self._parameter(f"{name}_armature", f"armature of {name}", inertia, joint.armature, at_least=0)

    def _add_spring(self, joint: Joint, q: Expr) -> None:
        """Add the spring of a hinge or slide."""
        name, (unit, force) = identifier(joint.name), UNITS[joint.kind]
        stiffness = self._parameter(f"{name}_stiffness", f"stiffness of {name}", f"{force}/{unit}", joint.stiffness)
        if joint.stiffness:
            rest = self._parameter(f"{name}_rest", f"{name} where its spring is relaxed", unit, joint.rest)
            self.potential += stiffness * (q - rest) ** 2 / 2

    def _inputs(self) -> Mapping[Input, Expr]:
        inputs: dict[Input, Expr] = {}
        for motor in self.robot.actuators:
            rate, joint = self.rates[motor.joint]
            word = "torque" if joint.kind == "hinge" else "force"
            stated = motor.name
            if self._taken.get(identifier(stated), "").startswith(("joint ", "parameter ")):  # as many files call both
                stated += f"_{word}"
            name = self._name(stated, f'actuator "{motor.name}"')
            gear = self._parameter(f"{name}_gear", f"gear of {name}", "1", motor.gear) if motor.gear != 1 else 1
            limits: dict[str, Any] = {"limit": self._limit(motor, joint)}
            if motor.range and motor.range[0] == 0:
                limits["at_least"] = 0
            made = input_(name, f"{word} at {joint.name}", UNITS[joint.kind][1], **limits)
            inputs[made] = gear * rate
        return inputs

    def _limit(self, motor: Actuator, joint: Joint) -> float | None:
        """The largest magnitude of a motor's input within its range; None without any.

        Raises:
            RobotError: the range lets no input act in one direction, or bounds several motors together.
        """
        if motor.range is None:
            return None
        where = f'{self.robot.file.name}: actuator "{motor.name}"'
        others = [each.name for each in self.robot.actuators if each.joint == motor.joint and each != motor]
        if joint.effort and others:
            text = f"acts on {joint.name} together with {', '.join(others)}, and the joint limits their sum"
            raise RobotError(
                f"{where} {text}; give each motor a forcerange of its own, and the joint no actuatorfrcrange"
            )
        low, high = motor.range
        shown = f"its input has the range {low:g} to {high:g}"
        if low == 0 < high:
            return high
        if not low < 0 < high:
            text = "an input acts in both directions or upwards, and a stop is zero"
            remedy = "give a range from zero or less to above it, or name the joints of other motors in [plant.robot] "
            remedy += "motors"
            raise RobotError(f"{where}: {shown}; {text}: {remedy}")
        if -low != high:
            self.notes.append(f'actuator "{motor.name}": {shown}, of which {min(-low, high):g} acts in both directions')
        return min(-low, high)
