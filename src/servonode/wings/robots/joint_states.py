"""A machine's state as positions and rates of its robot's joints in MuJoCo, and back."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.mechanics.machine import Machine
from servonode.wings.robots.robot import Joint, Robot, identifier

Values = Mapping[str, float]
Joints = Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]  # positions, rates


@dataclass(frozen=True)
class Named:
    """The names of a joint's coordinates and motions in the machine, in MuJoCo's order.

    in_angles: whether the last three are yaw, pitch and roll, in place of a quaternion.
    """

    joint: str
    coordinates: tuple[str, ...]
    motions: tuple[str, ...]
    in_angles: bool = False


class JointStates:
    """Writes a machine's state into joints and reads it there; methods as the functions of a `PhysicalModel`.

    A free or ball joint has a quaternion, and its angular velocity in the body's axes, in both; where something holds
    the robot the machine has angles, which count turns from where they were last. watched: joints that the machine does
    not have, such as the height of a base on a floor, on which it comes to rest before the run.
    """

    def __init__(self, robot: Robot, machine: Machine, watched: tuple[str, ...] = ()) -> None:
        self._machine, self._watched = machine, watched
        self.rest = 2.0 if watched else 0.0  # s
        self.begins: dict[str, float] = {}  # where joints that are watched begin to come to rest
        described = machine.description
        self._joints = named(robot, described.coordinates)
        self.angles: dict[str, Array] = {}  # yaw, pitch and roll (3,) at which each joint that has them was last
        known = {motion for each in self._joints for motion in each.motions}
        self._coordinates = [described.state_names.index(name) for name in described.coordinates]
        self._mixed = [name for name in described.velocities if name not in known and name not in described.first_order]

    def place(self, joints: Joints, state: Values, parameters: Values) -> None:  # noqa: ARG002
        """Write a state into the machine's joints, with the rates that its constraints leave."""
        machine, names = self._machine, self._machine.description.state_names
        rates = machine.derivatives(0.0, machine.state(state), np.zeros(machine.n_inputs))
        by_name = dict(zip(names, rates.tolist(), strict=False))
        for each in self._joints:
            positions, motions = joints[each.joint]
            stated = [state[name] for name in each.coordinates]
            found = [by_name[name] for name in each.coordinates]
            if each.in_angles:
                self.angles[each.joint] = angles = np.array(stated[-3:])
                stated[-3:], found[-3:] = _quaternion(angles), to_spin(angles) @ found[-3:]
            elif len(found) > 1:
                found[-4:] = _spin(np.array(stated[-4:]), np.array(found[-4:]))
            positions[:], motions[:] = stated, found

    def hold(self, joints: Joints, state: Values, parameters: Values) -> None:
        """Write a state into the machine's joints, at rest."""
        self.place(joints, state, parameters)
        for each in self._joints:
            joints[each.joint][1][:] = 0.0

    def state(self, joints: Joints, parameters: Values) -> Values:  # noqa: ARG002
        """The machine's state as the joints have it."""
        found: dict[str, float] = {}
        for each in self._joints:
            positions, motions = joints[each.joint]
            places, rates = positions.tolist(), motions.tolist()
            if each.in_angles:
                places[-4:] = angles = self._turned_on(each.joint, positions[-4:])
                rates[-3:] = np.linalg.lstsq(to_spin(angles), motions[-3:], rcond=None)[0]
            found |= zip(each.coordinates, places, strict=True)
            found |= zip(each.motions, rates, strict=True)
        return {**found, **self._mixtures(joints, found)} if self._mixed else found

    def extra(self, joints: Joints, parameters: Values) -> Values:  # noqa: ARG002
        """The places of joints that the machine does not have."""
        return {name: float(joints[name][0][0]) for name in self._watched}

    def _mixtures(self, joints: Joints, found: Values) -> Values:
        """Velocities that are rates of no one joint: those with which the coordinates move most nearly as they do."""
        described = self._machine.description
        still = {name: 0.0 if name in described.velocities else found[name] for name in described.state_names}
        columns = [self._moved({**still, name: 1.0}) for name in described.velocities]
        rest, rates = self._moved(still), dict[str, float]()
        for each in self._joints:
            positions, motions = joints[each.joint]
            moved = motions.tolist()
            if each.in_angles:
                moved = [found[name] for name in each.motions]
            elif len(moved) > 1:
                moved[-3:] = _turned(positions[-4:], motions[-3:])
            rates |= zip(each.coordinates, moved, strict=True)
        wanted = np.array([rates[name] for name in described.coordinates]) - rest
        v = np.linalg.lstsq(np.array(columns).T - rest[:, None], wanted, rcond=None)[0]
        values = dict(zip(described.velocities, v.tolist(), strict=True))
        return {name: values[name] for name in self._mixed}

    def _turned_on(self, joint: str, q: Array) -> Array:
        """The angles (3,) of a joint's quaternion that are next to its last ones."""
        last = self.angles[joint]
        self.angles[joint] = angles = last + np.remainder(_angles(q) - last + np.pi, 2 * np.pi) - np.pi
        return angles

    def _moved(self, state: Values) -> Array:
        """The rates of the coordinates."""
        machine = self._machine
        return machine.derivatives(0.0, machine.state(state), np.zeros(machine.n_inputs))[self._coordinates]


def joints_of(data: Any, model: Any) -> dict[str, Any]:
    """Positions and rates of each joint by name, views of the engine's own numbers."""
    found = (data.joint(i) for i in range(model.njnt))
    return {each.name: (each.qpos, each.qvel) for each in found}


def named(robot: Robot, coordinates: Collection[str]) -> list[Named]:
    """The names that the machine of a robot with these coordinates has for each joint, see `model` and `contacts`."""
    kinds = Counter(each.kind for each in robot.joints)
    several, angles = kinds["free"] > 1, kinds["free"] + kinds["ball"] > 1
    pairs = ((body.name, joint) for body in robot.bodies for joint in body.joints)
    return [_named(joint, body, coordinates, several, angles) for body, joint in pairs]


def _named(joint: Joint, body: str, coordinates: Collection[str], several: bool, angles: bool) -> Named:
    if joint.kind in ("hinge", "slide"):
        name = identifier(joint.name)
        return Named(joint.name, (name,), (f"{name}_dot",))
    axes = "xyz" if joint.kind == "free" else ""
    prefix = f"{body}_" if angles or joint.kind == "ball" else ""
    turned = tuple(identifier(f"{prefix}{word}") for word in (*axes, "yaw", "pitch", "roll"))
    if turned[-1] in coordinates:
        return Named(joint.name, turned, tuple(f"{name}_dot" for name in turned), in_angles=True)
    prefix = f"{body}_" if several or joint.kind == "ball" else ""
    *places, q, omega = (identifier(f"{prefix}{word}") for word in (*axes, "q", "omega"))
    motions = (*(f"{name}_dot" for name in places), *(f"{omega}_{i}" for i in range(3)))
    return Named(joint.name, (*places, *(f"{q}_{i}" for i in range(4))), motions)


def _spin(q: Array, rate: Array) -> Array:
    """The angular velocity in the body's axes (3,) of a quaternion (w, x, y, z) with a rate: 2 q* q'."""
    w, v = q[0], q[1:]
    found: Array = 2 * (w * rate[1:] - rate[0] * v - np.cross(v, rate[1:]))
    return found


def _turned(q: Array, spin: Array) -> Array:
    """The rate (4,) of a quaternion of a body that turns so in its axes: q w / 2."""
    w, v = q[0], q[1:]
    return np.array([-v @ spin, *(w * spin + np.cross(v, spin))]) / 2


def _quaternion(angles: Array) -> Array:
    """The quaternion (w, x, y, z) of yaw, pitch and roll."""
    (c, p, r), (s, b, a) = np.cos(angles / 2), np.sin(angles / 2)
    return np.array([
        c * p * r + s * b * a,
        c * p * a - s * b * r,
        c * b * r + s * p * a,
        s * p * r - c * b * a,
    ])  # fmt: skip


def _angles(q: Array) -> Array:
    """Yaw, pitch and roll (3,) of a quaternion (w, x, y, z)."""
    w, x, y, z = q
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    return np.array([yaw, np.arcsin(np.clip(2 * (w * y - x * z), -1, 1)), roll])


def to_spin(angles: Array) -> Array:
    """From the rates of yaw, pitch and roll to the angular velocity in the body's axes (3, 3)."""
    _, pitch, roll = angles
    c, s = np.cos(roll), np.sin(roll)
    return np.array([[-np.sin(pitch), 0.0, 1.0], [np.cos(pitch) * s, c, 0.0], [np.cos(pitch) * c, -s, 0.0]])


def to_spin_rate(angles: Array, rates: Array) -> Array:
    """The rate (3, 3) of `to_spin` where the angles move so."""
    (_, pitch, roll), (_, p, r) = angles, rates
    c, s, C, S = np.cos(roll), np.sin(roll), np.cos(pitch), np.sin(pitch)
    return np.array([[-C * p, 0.0, 0.0], [C * c * r - S * s * p, -s * r, 0.0], [-C * s * r - S * c * p, -c * r, 0.0]])
