"""A machine that is a tree of links as URDF, with the numbers of its parameters.

URDF has one joint between two links: a link with several joints gets a massless link before each but the first.
What it cannot say stands in a comment at its top.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import sympy
from scipy.spatial.transform import Rotation

from servonode.arrays import Array
from servonode.errors import StatementError
from servonode.mechanics.links import Frame, Joint, Link
from servonode.mechanics.model import Model
from servonode.mechanics.trees import Tree

Expr = Any
GROUND = "ground"
FAR = 1e6  # m or rad; of a slide without a range, which URDF must have
STRONG = 1e6  # N m, N, and rad/s, m/s: the same of what has no limit


def urdf_text(model: Model, parameters: Mapping[str, float]) -> str:
    """The URDF of a machine.

    parameters: their values by name.

    Raises:
        StatementError: the machine is no tree of links, or has a ball joint that is not that of a free body.
    """
    if model.tree is None:
        raise StatementError(
            f"machine {model.name} has no bodies: it is stated by its energies, and URDF needs masses, inertias and "
            "joints; state it as a tree of links, Model(tree=...), or take a machine from a robot's file"
        )
    return _Writer(model, model.tree, parameters).text()


class _Writer:
    def __init__(self, model: Model, tree: Tree, parameters: Mapping[str, float]) -> None:
        self._model, self._tree = model, tree
        self._values = {each: parameters[each.name] for each in model.parameters}
        self._ranges = dict(self._stated_ranges())
        self._inputs = dict(self._alone())
        self._taken = set(tree.names)
        self._ground = self._fresh(GROUND)

    def text(self) -> str:
        robot = ET.Element("robot", name=self._model.name)
        for line in self._left_out():
            robot.append(ET.Comment(f" {line.replace('--', '- -')} "))
        ET.SubElement(robot, "link", name=self._ground)
        for link in self._tree.links:
            self._add_link(robot, link)
        for frame in self._tree.frames:
            ET.SubElement(robot, "link", name=frame.name)
            self._add_joint(robot, f"{frame.name}_fixed", "fixed", frame.link or self._ground, frame.name, frame)
        ET.indent(robot)
        return '<?xml version="1.0"?>\n' + ET.tostring(robot, encoding="unicode")

    def _fresh(self, name: str) -> str:
        """A name that no link has."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _number(self, expression: Expr) -> float:
        """An expression of parameters as a number."""
        return float(sympy.sympify(expression).subs(self._values))

    def _numbers(self, rows: Any) -> Array:
        return np.array([[self._number(each) for each in row] for row in rows])

    def _add_link(self, robot: ET.Element, link: Link) -> None:
        """A link with the joints before it."""
        joints = _checked(link)
        parent: str = link.parent or self._ground
        placed: Link | None = link
        for joint in joints[:-1]:
            between = self._fresh(f"{link.name}_{joint.coordinates[0]}")
            ET.SubElement(robot, "link", name=between)
            self._add_moving(robot, joint, parent, between, placed)
            parent, placed = between, None
        self._add_body(robot, link)
        if joints:
            self._add_moving(robot, joints[-1], parent, link.name, placed)
        else:
            self._add_joint(robot, f"{link.name}_fixed", "fixed", parent, link.name, link)

    def _add_body(self, robot: ET.Element, link: Link) -> None:
        element = ET.SubElement(robot, "link", name=link.name)
        mass, inertia = self._number(link.mass), self._numbers(link.inertia)
        if mass or inertia.any():
            inertial = ET.SubElement(element, "inertial")
            ET.SubElement(inertial, "origin", xyz=_texts(self._numbers([link.centre])[0]), rpy="0 0 0")
            ET.SubElement(inertial, "mass", value=repr(mass))
            entries = {f"i{'xyz'[i]}{'xyz'[k]}": repr(float(inertia[i, k])) for i in range(3) for k in range(i, 3)}
            ET.SubElement(inertial, "inertia", entries)

    def _add_moving(self, robot: ET.Element, joint: Joint, parent: str, child: str, placed: Link | None) -> None:
        """A joint that moves, called as its coordinate."""
        if joint.kind == "ball":
            self._add_joint(robot, f"{child}_free", "floating", parent, child, placed)
            return
        q = joint.coordinates[0]
        hinge, ends = joint.kind == "hinge", self._ranges.get(q)
        kind = ("revolute" if ends else "continuous") if hinge else "prismatic"
        element = self._add_joint(robot, q.name, kind, parent, child, placed)
        ET.SubElement(element, "axis", xyz=_texts(self._numbers([joint.axis])[0]))
        low, high = ends or (-FAR, FAR)
        effort, speed = self._inputs.get(joint.motions[0], STRONG), q.quantity.rate_limit or STRONG
        limit = {"effort": repr(effort), "velocity": repr(float(speed))}
        reach = {} if kind == "continuous" else {"lower": repr(low), "upper": repr(high)}
        ET.SubElement(element, "limit", {**reach, **limit})
        if damping := self._damping(joint.motions[0]):
            ET.SubElement(element, "dynamics", damping=repr(damping))

    def _add_joint(
        self, robot: ET.Element, name: str, kind: str, parent: str, child: str, placed: Link | Frame | None
    ) -> ET.Element:
        """A joint with its ends; placed: what gives the axes of the child at zero, None: the parent's own."""
        element = ET.SubElement(robot, "joint", name=name, type=kind)
        if placed is not None:
            place = self._numbers([placed.position])[0]
            ET.SubElement(element, "origin", xyz=_texts(place), rpy=_texts(angles(self._numbers(placed.rotation))))
        ET.SubElement(element, "parent", link=parent)
        ET.SubElement(element, "child", link=child)
        return element

    def _stated_ranges(self) -> Iterator[tuple[Expr, tuple[float, float]]]:
        """The range of each coordinate of which two faults of the machine name the ends."""
        ends: dict[Expr, dict[str, float]] = {}
        for each in self._model.faults:
            greater, lesser = each.sides
            for side, end, word in ((greater, lesser, "lower"), (lesser, greater, "upper")):
                if side in self._model.coordinates and end.free_symbols <= set(self._values):
                    ends.setdefault(side, {})[word] = self._number(end)
        yield from ((q, (found["lower"], found["upper"])) for q, found in ends.items() if len(found) == 2)

    def _alone(self) -> Iterator[tuple[Expr, float]]:
        """The largest force on each rate on which one input with a limit acts alone."""
        rates = [rate for joint in self._tree.joints for rate in joint.motions]
        for each, acts_on in self._model.inputs.items():
            moved = [rate for rate in rates if acts_on.has(rate)]
            if len(moved) == 1 and each.quantity.limit:
                yield moved[0], abs(self._number(acts_on.coeff(moved[0]))) * each.quantity.limit

    def _damping(self, rate: Expr) -> float:
        """The viscous damping of a joint; 0 if its losses are no such damping."""
        second = sympy.diff(self._model.dissipation, rate, 2)
        return self._number(second) if second.free_symbols <= set(self._values) else 0.0

    def _left_out(self) -> Iterator[str]:
        """What of the machine URDF cannot say, a line each."""
        model, tree = self._model, self._tree
        yield f"{model.description}; joints have the names of the machine's coordinates"
        armatures = [str(j.coordinates[0]) for j in tree.joints if sympy.sympify(j.armature) != 0]
        apart = [q.name for q in model.coordinates if q not in tree.rates]
        rest = {
            "armature of joints": armatures,
            "constraints": [each.multiplier.name for each in model.constraints],
            "coordinates that are no joint of the tree, such as of wheels": apart,
        }
        yield from (f"left out: {what}: {', '.join(names)}" for what, names in rest.items() if names)
        if model.potential != 0 or model.forces:
            yield "left out: springs, dry friction and other forces of the machine"
        if model.kinetic != 0:
            yield "left out: kinetic energy of the machine beside that of its links"


def _checked(link: Link) -> tuple[Joint, ...]:
    """The joints of a link as URDF has them: three slides and a ball are one floating joint."""
    balls = [each for each in link.joints if each.kind == "ball"]
    if not balls:
        return link.joints
    if link.parent or [each.kind for each in link.joints] != ["slide"] * 3 + ["ball"]:
        raise StatementError(
            f"link {link.name} has a ball joint, which URDF lacks; state it as three hinges, or as a free body: three "
            "slides and a ball on the ground"
        )
    return link.joints[-1:]


def _texts(numbers: Array) -> str:
    return " ".join(repr(float(each) + 0.0) for each in numbers)


def angles(rotation: Array) -> Array:
    """Roll, pitch and yaw (3,) of a rotation (3, 3), as URDF has them: about the fixed x, then y, then z axis."""
    if np.array_equal(rotation, np.eye(3)):
        return np.zeros(3)
    found: Array = Rotation.from_matrix(rotation).as_euler("xyz")
    return found
