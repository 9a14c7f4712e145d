"""What a machine states so that a physics engine can stand in for its equations: bodies, joints, contacts as MJCF."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Values = Mapping[str, float]
Joint = tuple[float, float]  # position and rate of a joint of one degree of freedom


@dataclass(frozen=True)
class Floor:
    """The floor under a machine, as MJCF words it.

    friction: the coefficient of sliding friction. gravity [m/s^2]. stiffness: the attributes of a `geom` that say how
    soft a contact is, to be put into the geoms that touch.
    """

    friction: float
    gravity: float
    stiffness: str


@dataclass(frozen=True)
class PhysicalModel:
    """A machine as bodies, joints and contacts. A machine has one as its `PHYSICS`, beside `VIEW`.

    mjcf: from the parameters and the floor, both as they are at t = 0, the `worldbody` and what belongs to it (all but
    `compiler`, `option` and `size`), in which every joint is a hinge or a slide and each input has a `motor` of its
    name. joints: from state and parameters, both by name, the position and rate of each joint by name; those that are
    not named (how deep it stands in the floor) keep where the machine has settled at rest. state: back from the
    joints to the machine's state, by name; turns are counted, for joints are. extra: what of the joints the state does
    not say and what is worth watching, such as slip, by name.
    """

    mjcf: Callable[[Values, Floor], str]
    joints: Callable[[Values, Values], Mapping[str, Joint]]
    state: Callable[[Mapping[str, Joint], Values], Values]
    extra: Callable[[Mapping[str, Joint], Values], Values] = lambda *_: {}
