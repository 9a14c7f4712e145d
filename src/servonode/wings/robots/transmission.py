"""What motors move and how long tendons are, as expressions of a machine's tree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from servonode.mechanics.straight_line import exact, named
from servonode.mechanics.symbols import Coordinate
from servonode.mechanics.trees import Located, Tree
from servonode.wings.robots.robot import Actuator, Robot, identifier

Expr = Any
Matrix = Any  # of sympy
Twist = tuple[Sequence[Expr], Sequence[Expr], Matrix]  # of a free or ball joint: rates of its slides, spin, its turn


@dataclass(frozen=True)
class Transmissions:
    """The motions of a robot's targets. coordinates, twists: by joints. sites: names of the tree's frames.

    factors: symbols for those of joints in tendons, by both names.
    """

    robot: Robot
    tree: Tree
    coordinates: Mapping[str, Coordinate]
    twists: Mapping[str, Twist]
    sites: Mapping[str, str]
    factors: Mapping[tuple[str, str], Expr]

    def rates(self, motor: Actuator) -> Sequence[Expr]:
        """The rates of a motor's target, one for each number of its gear."""
        if motor.kind == "tendon":
            return [self.tendon(motor.target)[1]]
        if motor.kind == "crank":
            return [self._crank(self._site(motor.target), self._site(motor.reference), exact(motor.rod))]
        if motor.kind == "site":
            return self._motion(motor)
        if motor.target in self.coordinates:
            return [self.coordinates[motor.target].rate]
        slides, spin, turn = self.twists[motor.target]
        return [*slides, *(turn * sympy.Matrix(spin) if motor.kind == "parent" else spin)]

    def tendon(self, name: str) -> tuple[Expr, Expr]:
        """The length of a tendon and its rate."""
        tendon = next(each for each in self.robot.tendons if each.name == name)
        if tendon.coefficients:
            factors = {joint: self.factors.get((name, joint), exact(c)) for joint, c in tendon.coefficients}
            moved = [(c, self.coordinates[joint]) for joint, c in factors.items()]
            return sympy.Add(*(c * q for c, q in moved)), sympy.Add(*(c * q.rate for c, q in moved))
        found = [self._segment(*each) for each in tendon.segments]
        return sympy.Add(*(length for length, _ in found)), sympy.Add(*(rate for _, rate in found))

    def _site(self, name: str) -> Located:
        return self.tree[self.sites[name]]

    def _segment(self, divisor: float, one: str, other: str) -> tuple[Expr, Expr]:
        """The length of a straight piece of a tendon and its rate, divided as by a pulley."""
        frames = {each.name: each for each in self.robot.frames}  # sites come last
        if frames[one].body == frames[other].body:
            apart = float(np.linalg.norm(frames[other].position - frames[one].position))
            return exact(apart / divisor), sympy.Integer(0)
        here, there = self._site(one), self._site(other)
        gap = (there.position - here.position).applyfunc(named)
        if gap.is_zero_matrix:
            return sympy.Integer(0), sympy.Integer(0)
        length = sympy.sqrt(named(gap.dot(gap)))
        return length / exact(divisor), gap.dot(there.velocity - here.velocity) / length / exact(divisor)

    def _motion(self, motor: Actuator) -> Sequence[Expr]:
        """Velocity and spin of a site, in its axes or in those of a reference, from which both are counted then.

        What carries both does not move one from the other.
        """
        here = self._site(motor.target)
        velocity, spin, R = here.velocity, here.angular_velocity, here.rotation
        if motor.reference:
            there, carriers = self._site(motor.reference), self.robot.chain(motor.reference)
            velocity, spin, R = velocity - there.velocity, spin - there.angular_velocity, there.rotation
            common = next((each for each in self.robot.chain(motor.target) if each in carriers), None)
            if common:
                turned = self.tree[identifier(common.name)].angular_velocity
                velocity -= turned.cross(here.position - there.position)
        return [*(R.T * velocity), *(R.T * spin)]

    def _crank(self, pin: Located, slider: Located, rod: Expr) -> Expr:
        """The rate of the place along an axis where a rod from a pin meets it."""
        gap, axis = (pin.position - slider.position).applyfunc(named), slider.rotation.col(2)
        along, speed = named(gap.dot(axis)), pin.velocity - slider.velocity
        rate = named(speed.dot(axis) + gap.dot(slider.angular_velocity.cross(axis)))
        return rate - (along * rate - gap.dot(speed)) / sympy.sqrt(named(along**2 + rod**2 - gap.dot(gap)))
