"""Inertias of bodies: moved, added, and judged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from servonode.arrays import Array
from servonode.wings.robots.file_text import RobotError

ROUNDED = 1e-6  # by which the moments of a file's rounded numbers may miss the triangle inequality, of the largest
TINY = 1e-15  # kg m^2
RESIDUE = 1e-14  # of the largest entry, below which one of a sum is rounding


def rotation_of(quaternion: Sequence[float] | Array) -> Array:
    """The rotation (3, 3) of a quaternion (w, x, y, z) of any length."""
    rotation: Array = Rotation.from_quat(quaternion, scalar_first=True).as_matrix()
    return rotation


@dataclass(frozen=True)
class Inertia:
    """Mass [kg], centre of mass (3,) [m] and inertia about it (3, 3) [kg m^2], in the axes of some body."""

    mass: float
    centre: Array
    inertia: Array

    def placed(self, position: Array, rotation: Array) -> "Inertia":
        """The same in other axes, in which those of now stand at `position`, turned by `rotation`."""
        return Inertia(self.mass, position + rotation @ self.centre, rotation @ self.inertia @ rotation.T)


def total(parts: Iterable[Inertia]) -> Inertia:
    """The inertia of parts that are one body, all in the same axes; a part alone keeps its bits.

    What is rounding alone, such as of rollers around a wheel, is zero.
    """
    parts = [each for each in parts if each.mass or each.inertia.any()]
    if len(parts) == 1:
        return parts[0]
    mass = sum(each.mass for each in parts)
    centre = sum((each.mass * each.centre for each in parts), np.zeros(3)) / (mass or 1.0)
    inertia = np.zeros((3, 3))
    for each in parts:
        arm = each.centre - centre
        inertia += each.inertia + each.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    reach = max((float(abs(each.centre).max()) for each in parts), default=0.0)
    centre = np.where(abs(centre) < RESIDUE * reach, 0.0, centre)
    inertia = np.where(abs(inertia) < RESIDUE * abs(inertia).max(), 0.0, inertia)
    return Inertia(mass, centre, inertia)


def check(inertia: Inertia, where: str) -> None:
    """Refuse what no body has.

    Raises:
        RobotError: a number is not finite, the mass is negative, or the moments violate the triangle inequality.
    """
    if not np.isfinite([inertia.mass, *inertia.centre, *inertia.inertia.flat]).all():
        raise RobotError(f"{where}: mass, centre or inertia is not finite; correct its <inertial>")
    if inertia.mass < 0:
        raise RobotError(f"{where}: the mass {inertia.mass:g} kg is negative; correct its <inertial>")
    moments = np.linalg.eigvalsh(inertia.inertia)
    least, most = moments[0], max(abs(moments))
    if least < -ROUNDED * most - TINY:
        text = f"a principal moment of inertia is {least:g} kg m^2, and none can be negative"
        raise RobotError(f"{where}: {text}; correct its <inertial>")
    if moments[2] - moments[0] - moments[1] > ROUNDED * most + TINY:
        shown = ", ".join(f"{each:g}" for each in moments)
        text = f"no body has the principal moments of inertia {shown} kg m^2: the largest exceeds the sum of the others"
        raise RobotError(f"{where}: {text}; correct its <inertial>")
