"""The sections of launch files for robots: how a robot's file is read, and how MuJoCo simulates a machine."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from servonode.plants.keys import AddedSection, Seconds, key

if TYPE_CHECKING:
    from servonode.plants.drivers.driver import Stated

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


class RobotKeys(AddedSection, frozen=True):
    """[plant.robot]: how a robot's file (URDF, MJCF) is read."""

    base: Annotated[
        Literal["fixed", "free", "planar"],
        key("how the root link of a URDF moves: not, freely, or in the plane; an MJCF file says so itself"),
    ] = "fixed"
    ignore: Annotated[list[Ignored], key("the kinds of elements to leave out although they change the motion")] = []
    wheels: Annotated[dict[str, str], key("the wheels that roll without slipping, each name with its joint")] = {}
    radius: Annotated[
        float | dict[str, float] | None,
        key("the radius of the wheels, or of each by name (absent: that of its shape)", "m"),
    ] = None
    rollers: Annotated[
        float | dict[str, float] | None,
        key(
            "the angle from the axle to the axis of the roller on the ground, counterclockwise seen from above, of the "
            "wheels, or of each by name: pi/4 and -pi/4 of mecanum wheels, pi/2 of omnidirectional ones (absent: no "
            "rollers)",
            "rad",
        ),
    ] = None
    casters: Annotated[list[str], key("the joints that are left out, so that their links are fixed")] = []
    feet: Annotated[list[str], key("the links or frames that stay where a run starts them")] = []
    friction: Annotated[
        float | None, key("the coefficient of friction under the feet; beyond it a warning is given")
    ] = None
    motors: Annotated[
        list[str],
        key(
            "the joints, tendons or sites whose motors are inputs (absent: all that an MJCF file has; of a URDF all "
            "but its base's and `<mimic>`)"
        ),
    ] = []
    independent: Annotated[
        list[str], key("the joints whose rates are the velocities, if loops, wheels or feet hold others")
    ] = []


Substeps = Annotated[int, Meta(ge=1, le=10_000)]
Coefficient = Annotated[float, Meta(ge=0, le=1e3)]
Gravity = Annotated[float, Meta(gt=0, le=1e3)]


class Contact(AddedSection, frozen=True):
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


def contact_of(stated: "Stated") -> Contact:
    """What a launch file states in [plant.mujoco] for the driver, defaults where it does not."""
    found = stated.more.get("plant.mujoco", Contact())
    assert isinstance(found, Contact)
    return found
