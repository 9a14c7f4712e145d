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
from servonode.mechanics.symbols import Body as MovingBody
from servonode.mechanics.symbols import (
    Condition,
    Coordinate,
    Input,
    Parameter,
    body,
    condition,
    coordinate,
    input_,
    parameter,
    vector,
    velocity,
)
from servonode.wings.robots.contacts import Contacts, held, prepared
from servonode.wings.robots.file_text import RobotError
from servonode.wings.robots.robot import WRENCH, Actuator, Body, Joint, Range, Robot, Tendon, identifier
from servonode.wings.robots.transmission import Transmissions, Twist

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
        self.twists: dict[str, Twist] = {}  # of free and ball joints
        self.sites: dict[str, str] = {}  # the tree's frames, by the names of sites
        self.kinetic: Expr = 0
        self.bodies: list[MovingBody] = []
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
        moved = Transmissions(robot, made, self.coordinates, self.twists, self.sites, self._factors())
        lengths = {each.name: self._add_tendon(each, moved) for each in robot.tendons}
        inputs = self._inputs(moved)
        added = held(robot, self.contacts, made, self.coordinates, lengths, self.parameters)
        return Model(
            name=identifier(robot.name),
            description=f"{robot.name}, as {robot.file.name} describes it",
            tree=made,
            coordinates=tuple(self.coordinates.values()) if self.contacts.wheels else (),
            kinetic=self.kinetic + added.kinetic,
            bodies=tuple(self.bodies),
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
        found = []
        for each in self.robot.frames:
            name = self._place(each.name, "site")  # bodies come before sites
            name = self._place(f"{name}_site", "frame") if name in self.sites.values() else name
            self.sites[each.name] = name
            found.append(links.frame(name, each.body and identifier(each.body), each.position, each.rotation))
        return found

    def _joints(self, joint: Joint, body: Body) -> list[links.Joint]:
        """The joints of the tree for one joint of the robot, with what acts at them."""
        if joint.kind in ("hinge", "slide"):
            q = self._coordinate(joint)
            self.coordinates[joint.name] = q
            armature = self._losses(identifier(joint.name), joint.kind, joint, [q.rate])
            self._add_spring(identifier(joint.name), joint.kind, joint, (joint.rest, joint.rest), q)
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
        ball = links.ball(quaternion, spin, armatures[1])
        self.twists[joint.name] = [q.rate for q in places], list(spin), sympy.Matrix(ball.rotation)
        return [*slides, ball]

    def _add_whole(self, joint: Joint) -> None:
        """Add what acts at a ball or free joint that its last three, or six, coordinates state by angles."""
        *places, yaw, pitch, roll = list(self.coordinates.values())[-6 if joint.kind == "free" else -3 :]
        c, s = sympy.cos(roll), sympy.sin(roll)
        turn = sympy.cos(pitch) * yaw.rate
        spin = [roll.rate - sympy.sin(pitch) * yaw.rate, c * pitch.rate + s * turn, c * turn - s * pitch.rate]
        halves = [(sympy.cos(q / 2), sympy.sin(q / 2)) for q in (yaw, pitch, roll)]
        self._limit_turn(joint, sum(sympy.prod(each) for each in zip(*halves, strict=True)))
        rates = [q.rate for q in places]
        turns = zip((yaw, pitch, roll), ((0, 0, 1), (0, 1, 0), (1, 0, 0)), strict=True)
        turned = sympy.prod([sympy.Matrix(links.hinge(q, axis).rotation) for q, axis in turns])
        self.twists[joint.name] = rates, spin, turned
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
        self._add_ends(name, unit, joint.range, q)
        return q

    def _add_ends(self, name: str, unit: str, ends: Range | None, q: Expr) -> None:
        """Add the faults of what leaves its range."""
        for side, value in zip(("lower", "upper"), ends or (), strict=False):
            end = parameter(f"{name}_{side}", f"{side} limit of {name}", unit, default=value)
            self.parameters.append(end)
            beyond = "below" if side == "lower" else "above"
            text = f"{name} is {beyond} {end}, its limit in {self.robot.file.name}"
            self.faults.append(condition(q >= end if side == "lower" else q <= end, text, JOINT_LIMIT))

    def _losses(self, name: str, kind: str, joint: Joint | Tendon, rates: Sequence[Expr]) -> Expr:
        """Add damping and friction of a joint in motions of one kind; its armature in these."""
        unit, force = UNITS[kind]
        damping = self._parameter(f"{name}_damping", f"damping of {name}", f"{force} s/{unit}", joint.damping)
        self.dissipation += sympy.Add(*(damping * rate**2 / 2 for rate in rates))
        for power, value in enumerate(joint.more_damping, 2):
            text, of = f"damping of {name} by the {power}-th power of its speed", f"{force} s^{power}/{unit}^{power}"
            factor = self._parameter(f"{name}_damping{power}", text, of, value)
            self.forces += [(-factor * abs(rate) ** (power - 1) * rate, rate) for rate in rates if value]
        friction = self._parameter(f"{name}_friction", f"dry friction of {name}", force, joint.friction, at_least=0)
        if joint.friction:
            self.forces += [(-friction * sympy.tanh(rate / SMOOTH[kind]), rate) for rate in rates]
        inertia = "kg m^2" if kind == "hinge" else "kg"
        return self._parameter(f"{name}_armature", f"armature of {name}", inertia, joint.armature, at_least=0)

    def _add_spring(self, name: str, kind: str, sprung: Joint | Tendon, rest: Range, q: Expr) -> None:
        """Add the spring of a hinge, slide or tendon, which is relaxed between the ends of rest."""
        unit, force = UNITS[kind]
        stiffness = self._parameter(f"{name}_stiffness", f"stiffness of {name}", f"{force}/{unit}", sprung.stiffness)
        factors = {2: stiffness} if sprung.stiffness else {}
        for power, value in enumerate(sprung.more_stiffness, 2):
            text = f"stiffness of {name} by the {power}-th power of its deflection"
            factor = self._parameter(f"{name}_stiffness{power}", text, f"{force}/{unit}^{power}", value)
            factors |= {power + 1: factor} if value else {}
        if not factors:
            return
        text = f"{name} where its spring is relaxed"
        if rest[0] == rest[1]:
            deflection = q - self._parameter(f"{name}_rest", text, unit, rest[0])
        else:
            low, high = (
                self._parameter(f"{name}_rest_{side}", f"{side} end of {text}", unit, end)
                for side, end in zip(("lower", "upper"), rest, strict=True)
            )
            deflection = sympy.Max(q - high, 0) + sympy.Min(q - low, 0)
        self.potential += sympy.Add(*(factor * deflection**power / power for power, factor in factors.items()))

    def _factors(self) -> dict[tuple[str, str], Expr]:
        """What multiplies the angle of a joint that a tendon adds to travels; other factors are numbers."""
        kinds = {joint.name: joint.kind for joint in self.robot.joints}
        found = {}
        for each in (tendon for tendon in self.robot.tendons if self.robot.kind(tendon) == "slide"):
            for joint, value in each.coefficients:
                if kinds[joint] == "hinge":
                    name, text = f"{self.robot.named(each)}_{joint}", f"length of {each.name} by {joint}"
                    found[each.name, joint] = self._parameter(name, text, "m/rad", value)
        return found

    def _add_tendon(self, tendon: Tendon, moved: Transmissions) -> tuple[Expr, str]:
        """Add what a tendon has of its own: losses, a spring, a range. Its length, with the unit."""
        length, rate = moved.tendon(tendon.name)
        name, kind = self.robot.named(tendon), self.robot.kind(tendon)
        armature = self._losses(name, kind, tendon, [rate])
        if tendon.armature and kind == "hinge":
            self.bodies.append(body(name, inertia=armature, angular_velocity=rate))
        elif tendon.armature:
            self.bodies.append(body(name, mass=armature, velocity=(rate,)))
        self._add_spring(name, kind, tendon, tendon.rest, length)
        self._add_ends(name, UNITS[kind][0], tendon.range, length)
        return length, UNITS[kind][0]

    def _inputs(self, moved: Transmissions) -> Mapping[Input, Expr]:
        inputs: dict[Input, Expr] = {}
        kinds = {joint.name: joint.kind for joint in self.robot.joints}
        tendons = {each.name: self.robot.kind(each) for each in self.robot.tendons}
        for motor in self.robot.actuators:
            rates = moved.rates(motor)
            turns = len(rates) == 3 or (len(rates) == 6 and not any(motor.gear[:3]))
            named = tendons if motor.kind == "tendon" else kinds if motor.kind in ("joint", "parent") else {}
            unit = "N m" if turns or named.get(motor.target) == "hinge" else "N"
            word = "torque" if unit == "N m" else "force"
            stated = motor.name
            if self._taken.get(identifier(stated), "").startswith(("joint ", "parameter ")):  # as many files call both
                stated += f"_{word}"
            name = self._name(stated, f'actuator "{motor.name}"')
            limits: dict[str, Any] = {"limit": self._limit(motor)}
            if motor.range and motor.range[0] == 0:
                limits["at_least"] = 0
            made = input_(name, f"{word} at {motor.target}", unit, **limits)
            axes = ("",) if len(rates) == 1 else tuple(f"_{axis}" for axis in WRENCH[-len(rates) :])
            arm = "1" if turns else "m"
            gears = [
                self._parameter(f"{name}_gear{axis}", f"gear of {name}", arm if "r" in axis else "1", gear)
                if gear != 1
                else 1
                for axis, gear in zip(axes, motor.gear, strict=True)
            ]
            inputs[made] = sympy.Add(*(gear * rate for gear, rate in zip(gears, rates, strict=True)))
            if inputs[made] == 0:
                text = f'actuator "{motor.name}" moves nothing: its gear is zero, or {motor.target} stands still'
                raise RobotError(f"{self.robot.file.name}: {text}; remove it, or give it what moves")
        self._note_servos()
        return inputs

    def _note_servos(self) -> None:
        """Say what of servos the equations do not have, and which of them have no limit."""
        servos = [each for each in self.robot.actuators if each.servo]
        ranged = [each.name for each in servos if each.servo and each.servo.range]
        if ranged:
            text = f"servos {', '.join(ranged)}: the file limits their commands"
            self.notes.append(f'{text}, which driver = "mujoco" and hardware keep, and the equations do not')
        free = [each.name for each in servos if each.range is None]
        if free:
            text = f"servos {', '.join(free)}: no forcerange limits their forces, which are the inputs"
            self.notes.append(f"{text}; give plant.safety.limit")

    def _limit(self, motor: Actuator) -> float | None:
        """The largest magnitude of a motor's input within its range; None without any.

        Raises:
            RobotError: the range lets no input act in one direction, or bounds several motors together.
        """
        where = f'{self.robot.file.name}: actuator "{motor.name}"'
        self._check_sums(motor, where)
        if motor.servo and not motor.servo.rests:
            text = "it holds a speed, and its ctrlrange has none at which it rests; give it one that has zero"
            raise RobotError(f"{where}: {text}")
        if motor.range is None:
            return None
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

    def _check_sums(self, motor: Actuator, where: str) -> None:
        """Refuse a motor of whose force a joint or tendon limits the sum with that of others, or only a part."""
        robot = self.robot
        limited = {each.name: "joint" for each in robot.joints if each.effort}
        limited |= {each.name: "tendon" for each in robot.tendons if each.limited}
        acting = {each.name: {each.target, *robot.moved_by(each)} for each in robot.actuators}
        sites = {each.name for each in robot.tendons if each.segments}
        for name in sorted(limited.keys() & acting[motor.name]):
            what, others = limited[name], [each for each in acting if each != motor.name and name in acting[each]]
            if others or (what == "joint" and (motor.kind in ("site", "crank") or motor.target in sites)):
                text = f"together with {', '.join(others)}, and the {what} limits their sum"
                text = text if others else f"by a force that changes with the pose, and the {what} limits it"
                remedy = f"give each motor a forcerange of its own, and the {what} no actuatorfrcrange"
                raise RobotError(f"{where} acts on {name} {text}; {remedy}")
