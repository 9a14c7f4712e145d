"""The environments that `gymnasium.make` knows; it is imported when gymnasium and servonode are."""

from typing import Any

from gymnasium.envs.registration import register, registry

ANY = "servonode/launch-v0"  # of any launch file, by launch=
LIMITS: dict[str, Any] = {  # of the inputs, for launch files that state none: what an action's share is of
    "base_rates": {"F": 1.0, "M": 0.05},
    "snowboarder_carve": 100.0,
    "sphero_pursuit": 0.2,
    "sphero_trajectory": 1.0,
    "trailer_look_ahead": 0.5,
    "trailer_pursuit": 0.5,
    "trailer_reverse": 2.0,
}


def id_of(launch: object) -> str:
    """The id under which an environment of this launch file is made."""
    return f"servonode/{launch}-v0" if isinstance(launch, str) and launch in LIMITS else ANY


def register_all() -> None:
    """Register them, unless that is done."""
    for name in (None, *LIMITS):
        if (key := id_of(name)) not in registry:
            stated = {"launch": name, "plant__safety__limit": LIMITS[name]} if name else {}
            register(key, "servonode:Env", vector_entry_point="servonode:VectorEnv", kwargs=stated)
