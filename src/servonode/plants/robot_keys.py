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
        key("how the root link of a URDF moves: not, freely, or in the plane; an MJCF file says so itself"),
    ] = "fixed"
    ignore: Annotated[list[Ignored], key("the kinds of elements to leave out although they change the motion")] = []
    wheels: Annotated[
        dict[str, str],
        key("the wheels that roll without slipping, each name with its joint"),
    ] = {}
    radius: Annotated[
        float | dict[str, float] | None,
        key("the radius of the wheels, or of each by name (absent: that of its shape)", "m"),
    ] = None
    casters: Annotated[list[str], key("the joints that are left out, so that their links are fixed")] = []
    feet: Annotated[list[str], key("the links or frames that stay where a run starts them")] = []
    friction: Annotated[
        float | None, key("the coefficient of friction under the feet; beyond it a warning is given")
    ] = None
    motors: Annotated[
        list[str],
        key(
            "the joints whose motors are inputs (absent: all that an MJCF file has; of a URDF all but its base's and "
            "`<mimic>`)"
        ),
    ] = []
    independent: Annotated[
        list[str], key("the joints whose rates are the velocities, if loops, wheels or feet hold others")
    ] = []
