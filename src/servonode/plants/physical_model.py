"""The physical model of a machine for a physics engine instead of its equations: bodies, joints, contacts as MJCF."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = Mapping[str, float]
Joint = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]  # positions, rates
Joints = Mapping[str, Joint]


@dataclass(frozen=True)
class Floor:
    """The floor under a machine, as MJCF words it.

    friction: the coefficient of sliding friction. gravity [m/s^2]. hardness: attributes of a `geom` that say how hard
    a contact is.
    """

    friction: float
    gravity: float
    hardness: str

    @property
    def geom(self) -> str:
        """The floor itself, at height 0."""
        return f'<geom name="floor" type="plane" size="0 0 1" contype="1" conaffinity="0" {self._smooth}/>'

    @property
    def rolls(self) -> str:
        """The attributes of a `geom` that touches nothing but the floor, with friction against sliding alone."""
        rough = f'{self.hardness} condim="3" friction="{self.friction!r} 0 0"'
        return f'contype="0" conaffinity="1" {rough if self.friction else self._smooth}'

    @property
    def glides(self) -> str:
        """The same without friction."""
        return f'contype="0" conaffinity="1" {self._smooth}'

    @property
    def _smooth(self) -> str:
        return f'{self.hardness} condim="1" friction="0 0 0"'


@dataclass(frozen=True)
class PhysicalModel:
    """A machine as bodies, joints and contacts. A machine has one as its `PHYSICS`, beside `VIEW`.

    mjcf: from the parameters by name and the floor, `worldbody` and `actuator`. Every joint has a name. A motor is
    driven by the input whose name it has, up to a slash: `Q_x/shell` is one of those that Q_x drives.

    Joints are given by name as positions and rates, views of the engine's own numbers: one each for a hinge or a slide,
    a quaternion and the angular velocity in the body's own axes for a ball. place: writes into them what a state of
    the machine is, where nothing slips; how deep the machine stands in the floor is left as it has settled. state: the
    machine's state of them, by name. extra: what else of them is worth watching, such as slip, by name. rest: how long
    it comes to rest on the floor before a run [s].
    """

    mjcf: Callable[[Values, Floor], str]
    place: Callable[[Joints, Values, Values], None]
    state: Callable[[Joints, Values], Values]
    extra: Callable[[Joints, Values], Values] = lambda *_: {}
    rest: float = 2.0
