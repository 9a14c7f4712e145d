"""The keys of [plant.mujoco]."""

from typing import Annotated

from msgspec import Meta, Struct

from servonode.plants.keys import Seconds, key

Substeps = Annotated[int, Meta(ge=1, le=10_000)]
Coefficient = Annotated[float, Meta(ge=0, le=1e3)]
Gravity = Annotated[float, Meta(gt=0, le=1e3)]


class Contact(Struct, frozen=True, forbid_unknown_fields=True):
    """[plant.mujoco]: the floor under a machine that MuJoCo moves, and how finely it steps."""

    friction: Annotated[Coefficient, key("the coefficient of sliding friction of the floor")] = 0.8
    gravity: Annotated[Gravity, key("gravity where the machine's parameters have no g", "m/s^2")] = 9.81
    substeps: Annotated[Substeps, key("steps of the physics in each plant step")] = 2
    contact_time: Annotated[
        Seconds | None,
        key("the time constant of a contact, shorter is harder (absent: two steps of the physics, the least)", "s"),
    ] = None
