"""What annotates a key of a launch file: bounds, unit, one sentence, its nature. And the tables of plants' own keys."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

MAX_SECONDS = 9e9  # 285 years; in nanoseconds within 64 bits

Seconds = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
Wait = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class Nature:
    """What a key of a launch file is, beside its type and its sentence."""

    unit: str = ""
    of: str = ""  # what the names of its table are, such as an input, whose units entries have unless `unit` is one
    derived: str = ""  # of which derived equations it is part, so that it cannot vary
    live: str = ""  # the node that takes new numbers of it while a run is in progress
    fixed: str = ""  # why it, or an entry of it, stays as it is then; empty: as its section says
    here: bool = False  # whether it concerns one computer alone of two
    times: bool = False  # whether the times of a run depend on it
    sizes: bool = False  # whether other arrays of a run do, such as what waits for its time
    apart: bool = False  # whether it is a table with a text of its own on the page


def key(sentence: str, unit: str = "", **more: Any) -> Meta:
    """What a key is, and its unit; behind the type in its annotation. more: of its nature."""
    return Meta(description=sentence, extra={"unit": unit, "nature": Nature(unit, **more)})


class Impairments(Struct, frozen=True, forbid_unknown_fields=True):
    """[plant.link]: faults of the link to a loopback machine, in each direction; probabilities are per message."""

    delay: Annotated[Wait, key("the transit time of a message", "s (wall clock)")] = 0.0
    jitter: Annotated[Wait, key("the largest random addition to that time", "s (wall clock)")] = 0.0
    loss: Annotated[Share, key("the probability that a message is lost")] = 0.0
    duplicate: Annotated[Share, key("the probability that a message comes twice")] = 0.0
    reorder: Annotated[Share, key("the probability that the next message overtakes it")] = 0.0
    corrupt: Annotated[Share, key("the probability that some bytes of a message are changed")] = 0.0
    cut: Annotated[
        Literal["none", "both", "state", "applied"],
        key("the direction in which no message passes while the link is cut"),
    ] = "none"
    cut_at: Annotated[Wait, key("the time from the handshake to the cut", "s (wall clock)")] = 0.0
    cut_for: Annotated[Seconds, key("the duration of the cut", "s (wall clock)")] = MAX_SECONDS


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
