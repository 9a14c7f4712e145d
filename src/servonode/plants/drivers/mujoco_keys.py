"""The keys of [plant.mujoco]."""

from typing import Annotated

from msgspec import Meta, Struct

from servonode.plants.keys import Seconds, key

Substeps = Annotated[int, Meta(ge=1, le=10_000)]
Coefficient = Annotated[float, Meta(ge=0, le=1e3)]
Gravity = Annotated[float, Meta(gt=0, le=1e3)]


class Contact(Struct, frozen=True, forbid_unknown_fields=True):
    """[plant.mujoco]: the floor under a machine that MuJoCo simulates, and the steps of the physics engine."""

    friction: Annotated[Coefficient, key("the coefficient of sliding friction of the floor")] = 0.8
    floor: Annotated[
        bool | None,
        key("whether a robot's file gets a floor at height 0 (absent: if it has none and its base moves)"),
    ] = None
    gravity: Annotated[Gravity, key("gravity, if neither a parameter g nor a robot's file says it", "m/s^2")] = 9.81
    substeps: Annotated[Substeps, key("the physics steps per plant step")] = 2
    contact_time: Annotated[
        Seconds | None,
        key(
            "the time constant of a contact; shorter is stiffer (absent: two physics steps, the least, or that of a "
            "robot's file)",
            "s",
        ),
    ] = None
