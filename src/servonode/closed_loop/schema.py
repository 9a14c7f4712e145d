"""The keys of launch files for editors: the JSON Schema."""

import json
from typing import Any

import msgspec
from msgspec.structs import fields

from servonode.closed_loop.added_sections import all_sections
from servonode.closed_loop.key_table import nature, sections
from servonode.plants.drivers import driver_names


def launch_schema(installed: bool = False) -> str:
    """The JSON Schema of a launch file, for editors; what TOML cannot say (null) is left out.

    installed: the drivers and sections of packages that are installed here belong to it too.
    """
    schema = msgspec.json.schema(all_sections(installed))
    definitions = schema["$defs"]
    if installed:
        definitions["Plant"]["properties"]["driver"]["enum"] = driver_names()
    for struct in (each for _, each in sections(installed)):
        for field in fields(struct):
            if unit := nature(field).unit:
                # a struct has its module before its name where another has the same name
                of_struct = definitions.get(struct.__name__) or definitions[f"{struct.__module__}.{struct.__name__}"]
                stated = of_struct["properties"][field.name]
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
    called = {key for key, value in part.items() if isinstance(value, dict) and "description" in value}  # properties
    says = {
        k: value for k, value in part.items() if k in called or k != "default" or not isinstance(value, dict | None)
    }
    kept = {key: _without_null(value) for key, value in says.items()}
    return kept | kept.pop("anyOf")[0] if len(kept.get("anyOf", ())) == 1 else kept
