"""The keys of [plant.robot]."""

from typing import Annotated, Literal

from msgspec import Struct

from servonode.plants.keys import key

Ignored = Literal[
    "activation",
    "equality",
    "flex",
    "fluid",
    "gravcomp",
    "muscle",
    "plugin",
    "servo",
    "spring",
    "tendon",
    "transmission",
]


class RobotKeys(Struct, frozen=True, forbid_unknown_fields=True):
    """[plant.robot]: how a robot's file (URDF, MJCF) is read."""

    base: Annotated[
        Literal["fixed", "free", "planar"],
        key("how the root link of a URDF moves: not at all, freely, or in the plane; an MJCF file says so itself"),
    ] = "fixed"
    ignore: Annotated[list[Ignored], key("the kinds of elements to leave out although they change the motion")] = []
