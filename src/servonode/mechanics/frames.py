"""Quantities of a tree's frames, as goals contain them: places, errors of rotation, distances, angles (README eq. 11).

All are straight-line programs (`straight_line`), which the law differentiates twice along the motion.
"""

from dataclasses import replace
from typing import Any

import sympy

from servonode.errors import ModelError
from servonode.mechanics.expression import AXES, PLACES, RATES_OF_TURN
from servonode.mechanics.functions import root
from servonode.mechanics.model import Model
from servonode.mechanics.straight_line import along, named
from servonode.mechanics.trees import Located

Matrix = Any  # sympy.Matrix
Expr = Any
GROUND, CENTRE = "ground", "com"  # the names of what a tree has beside its own frames
UNITS = dict.fromkeys(PLACES[:3], "m") | dict.fromkeys(PLACES[3:], "m/s") | dict.fromkeys(RATES_OF_TURN, "rad/s")
UNITS |= {"distance": "m", "angle": "rad"}


def rotation_error(rotation: Matrix, wanted: Matrix) -> Matrix:
    """The turn (3,) [rad] from the wanted axes to the present ones, in the axes in which both (3, 3) are given.

    For a turn by an angle a about a unit vector n it is 4 tan(a/4) n, which is a n for small angles and 4 n at half a
    turn, where n jumps. Its rate is the relative angular velocity times a rotation and 1 + tan(a/4)^2: it is regular
    in all directions alike, at 0 as well, so that a law which lets it decay lets the angle decay from anywhere below
    half a turn.

    >>> from sympy import eye, rot_axis3
    >>> from servonode.mechanics import rotation_error
    >>> [round(float(each), 6) for each in rotation_error(rot_axis3(-0.01), eye(3))]
    [0.0, 0.0, 0.01]
    """
    E = (rotation * wanted.T).applyfunc(named)
    square = named(1 + E.trace())  # 4 cos(a/2)^2
    scale = named(4 / (square + 2 * root(square)))
    return sympy.Matrix([E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1]]).applyfunc(lambda e: named(e * scale))


def axis_error(axis: Matrix, wanted: Matrix) -> Matrix:
    """The shortest turn (3,) [rad] from the wanted direction to the present one, both unit vectors (3,).

    For an angle a it is 2 tan(a/2) n: like `rotation_error` regular below half a turn.
    """
    return (wanted.cross(axis) * named(2 / (1 + wanted.dot(axis)))).applyfunc(named)


def distance(one: Any, other: Any) -> Expr:
    """The distance [m] of two frames of a tree; as a goal it must not be 0, where it has no derivative."""
    between = one.position - other.position
    return root(named(between.dot(between)))


def angle_between(one: Matrix, other: Matrix) -> Expr:
    """The angle [rad] between two unit vectors (3,); as a goal it must not be 0 or pi, where it has no derivative.

    >>> from sympy import Matrix
    >>> from servonode.mechanics import angle_between
    >>> angle_between(Matrix([1, 0, 0]), Matrix([0, 1, 0])).evalf(4)
    1.571
    """
    across = one.cross(other)
    return sympy.atan2(root(named(across.dot(across))), named(one.dot(other)))


def frame_names(model: Model) -> dict[str, tuple[str, ...]]:
    """The frames of a machine, each with the attributes that expressions may contain; none for one without a tree."""
    tree = model.tree
    if tree is None:
        return {}
    own = dict.fromkeys(tree.names, (*PLACES, *RATES_OF_TURN, *AXES))
    return own | {GROUND: AXES, CENTRE: PLACES}


def find_frame(model: Model, name: str) -> Any:
    """The frame of this name, one of `frame_names`.

    Raises:
        ModelError: it is the name of a frame and of something that each tree has.
    """
    tree, zero = model.tree, sympy.zeros(3, 1)
    assert tree is not None  # it has names
    if name not in (GROUND, CENTRE):
        return tree[name]
    if name in tree.names:
        what = "the ground's axes" if name == GROUND else "the centre of mass"
        raise ModelError(f"{name!r} stands for {what}, and is a frame of the machine as well; rename the frame")
    if name == GROUND:
        return Located(zero, sympy.eye(3), zero, zero, ())
    rates, centre = {q: q.rate for q in model.coordinates}, tree.centre_of_mass
    return Located(centre, sympy.eye(3), centre.applyfunc(lambda each: along(each, rates)), zero, ())


def quantity(model: Model, text: str) -> Expr:
    """What a text of an expression stands for, such as `tool.x`, `com.z_dot` or `distance(tool, ground)`."""
    function, _, inside = text.partition("(")
    if not inside:
        frame, _, attribute = text.partition(".")
        return named(_attribute(find_frame(model, frame), attribute))
    one, _, other = inside.removesuffix(")").partition(", ")
    if function == "distance" and other.startswith("("):
        place = sympy.Matrix([sympy.Float(each, 17) for each in other.strip("()").split(", ")])
        return distance(find_frame(model, one), replace(find_frame(model, GROUND), position=place))
    if function == "distance":
        return distance(find_frame(model, one), find_frame(model, other))
    stated = ((find_frame(model, frame), axis) for frame, _, axis in (one.partition("."), other.partition(".")))
    return angle_between(*(frame.rotation[:, AXES.index(axis)] for frame, axis in stated))


def unit_of(text: str) -> str:
    """The unit of what a text of an expression stands for."""
    function, _, inside = text.partition("(")
    return UNITS[function if inside else text.partition(".")[2]]


def _attribute(frame: Any, attribute: str) -> Expr:
    if attribute in RATES_OF_TURN:
        return frame.angular_velocity[RATES_OF_TURN.index(attribute)]
    at = PLACES.index(attribute)
    return (*frame.position, *frame.velocity)[at]
