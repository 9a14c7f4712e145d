"""The keys of launch files for editors and shells: the JSON Schema, and the names that are completed."""

import json
from typing import Any

import msgspec
from msgspec import Struct, inspect
from msgspec.structs import FieldInfo, fields

from servonode.closed_loop.launch_keys import (
    Actuator,
    Controller,
    Device,
    Estimator,
    FrameGoal,
    Goal,
    Hosts,
    InjectedFault,
    Inversion,
    Plant,
    Posture,
    Run,
    Safety,
    Sections,
    Sensor,
    SensorErrors,
    Supervision,
    Sweep,
    Vary,
)
from servonode.plants.drivers.installed import driver_names
from servonode.plants.drivers.mujoco_keys import Contact
from servonode.plants.link_keys import Impairments
from servonode.plants.robot_keys import RobotKeys

SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    ("run", Run),
    ("plant", Plant),
    ("plant.actuator", Actuator),
    ("plant.sensor", Sensor),
    ("plant.sensors.NAME", SensorErrors),
    ("plant.safety", Safety),
    ("plant.device", Device),
    ("plant.link", Impairments),
    ("plant.mujoco", Contact),
    ("plant.robot", RobotKeys),
    ("supervision", Supervision),
    ("hosts", Hosts),
    ("controller", Controller),
    ("controller.goal.NAME", FrameGoal),
    ("controller.posture", Posture),
    ("controller.inversion", Inversion),
    ("estimator", Estimator),
    ("target.NAME", Goal),
    ("sweep", Sweep),
    ("sweep.vary.NAME", Vary),
    ("[fault]", InjectedFault),
)
TABLES = {  # keys that are tables, each with a text of its own on the page: section -> keys
    "plant": {"parameters", "settings", "disturbance", "initial"}
    | {"actuator", "sensor", "sensors", "safety", "device", "link", "mujoco", "robot"},
    "plant.device": {"settings"},
    "controller": {"residuals", "parameters", "gains", "settings", "inversion", "goal", "posture"},
}


def keys_of_launch_files() -> dict[str, str]:
    """Every key that has a name of its own, dotted as in `--set`, with what it is."""
    return {
        f"{section}.{field.name}": str(
            (getattr(inspect.type_info(field.type), "extra_json_schema", None) or {}).get("description", "")
        )
        for section, struct in SECTIONS
        for field in keys_of(section, struct)
        if "NAME" not in section and "[" not in section
    }


def keys_of(section: str, struct: type[Struct]) -> list[FieldInfo]:
    """The keys of a section that are no tables with a text of their own."""
    return [field for field in fields(struct) if field.name not in TABLES.get(section, ())]


def launch_schema(installed: bool = False) -> str:
    """The JSON Schema of a launch file, for editors; what TOML cannot say (null) is left out.

    installed: the drivers of packages that are installed here belong to it too.
    """
    schema = msgspec.json.schema(Sections)
    definitions = schema["$defs"]
    if installed:
        definitions["Plant"]["properties"]["driver"]["enum"] = driver_names()
    for struct in (each for _, each in SECTIONS):
        for field in fields(struct):
            unit = (getattr(inspect.type_info(field.type), "extra", None) or {}).get("unit")
            if unit:
                stated = definitions[struct.__name__]["properties"][field.name]
                stated["description"] = f"{stated['description']} [{unit}]"
    for name in ("Plant", "Controller"):  # link3.mass is a table in TOML
        stated = definitions[name]["properties"]["parameters"]
        stated["additionalProperties"] = {"anyOf": [stated["additionalProperties"], {"type": "object"}]}
    several = {"type": "object", "required": ["include"], "properties": {"include": {"type": "string"}}}
    definitions["Sections"]["properties"]["robots"] = {"type": "object", "additionalProperties": several}
    needed = definitions["Sections"].pop("required")
    definitions["Sections"]["anyOf"] = [{"required": needed}, {"required": ["robots"]}]
    definitions["Controller"]["oneOf"] = [
        {"required": ["program"]},
        {"anyOf": [{"required": ["residuals"]}, {"required": ["goal"]}]},
    ]
    heading = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "servonode launch file"}
    return json.dumps(heading | _without_null(schema), indent=1) + "\n"


def _without_null(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_null(each) for each in part if each != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    kept = {key: _without_null(value) for key, value in part.items() if not _is_no_default(key, value)}
    return kept | kept.pop("anyOf")[0] if len(kept.get("anyOf", ())) == 1 else kept


def _is_no_default(key: str, value: Any) -> bool:
    """Defaults that say nothing: null, and those of whole sections."""
    return key == "default" and (value is None or isinstance(value, dict))
