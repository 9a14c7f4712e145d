"""The reference page and the JSON Schema of the launch file, made from the structs that read it.

`python -m servonode.closed_loop.reference` prints the page, with `schema` behind it the schema.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, inspect
from msgspec.structs import fields

from servonode.closed_loop.driver_checks import PASSED_OVER
from servonode.closed_loop.launch_keys import (
    Actuator,
    Controller,
    Device,
    Estimator,
    Plant,
    Run,
    Safety,
    Sections,
    Sensor,
    SensorErrors,
    Supervision,
)
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import Driver
from servonode.plants.drivers.installed import driver_names
from servonode.plants.drivers.link_keys import Impairments
from servonode.plants.drivers.mujoco_keys import Contact

HEAD = """\
# The launch file

A launch file is TOML. Its first line, `# Watch for: ...`, says what to look at. Unknown keys, wrong types, non-finite
and impossible values are refused with one line that names file, section and key. This page is made from the code.

Times are rounded to nanoseconds; `step` must divide `period` and `duration` exactly. Plant time is
`k * step` with a whole k, computed anew at each step.

Expressions (in `[target]`, and in settings that are functions of time) know numbers, `t`, `pi`, `+ - * / **`,
parentheses and the functions `abs atan2 cos exp max min sin sqrt tan tanh wrap` (`wrap` brings an angle to -pi..pi).
They are differentiated symbolically as often as the program needs; what has no such derivative (`abs`, `min`, `max`)
is refused there.

Editors complete and check launch files with the JSON Schema beside this page,
[launch_file.schema.json](launch_file.schema.json): `servonode new schema launch` writes it, and a comment
`#:schema ./launch.json` in the launch file names it.

From the command line `--set section.key=value` overrides any key.
"""
TAIL = """
## plant.machine, controller.program

A name from `servonode list machines` or `list programs` (packages add to them by entry points in the groups
`servonode.machines` and `servonode.programs`), `"package.module:function"`, or `"./file.py:function"` beside the launch
file. The function returns a `Model` or, of a model, a `Program`. Its arguments with defaults are options, set in
`[plant.settings]` or `[controller.settings]`.

**A launch file is to be trusted like code.** It may name Python code, and that code runs with all the rights of
whoever runs the file, in `run`, `simulate`, `check` and `show` alike. With `--no-code` (`code=False` in Python) a file
that names code, in a file or a module, is refused before anything of it runs: what remains are machines and programs
that came with servonode or that installed packages have registered. Expressions are data, never executed. Code is not
read from a folder in which every user of the computer can put files.

## [plant.parameters], [plant.initial], [controller.parameters]

Values by the machine's names, in SI units and radians; see the machine's page or `servonode show FILE`.
`[controller.parameters]` is what the law believes where that differs from the plant's.

A parameter may be a function of time, `l = "1 + 0.1*sin(t)"`. It is put into the Lagrangian before the derivation, so
its derivatives act as well: a growing mass brakes, for what is added was at rest. It must be twice differentiable.

`on_program = true` in `[plant.initial]` lets servonode choose the states that are not given, so that residuals vanish.

## [plant.disturbance]

Forces that act on the plant and that the law does not know: `x = "0.5*sin(2*t)"` is a generalized force on the
coordinate x, `U1 = "-0.02"` acts beside the input U1. Expressions of t, states and parameters; `abs`, `min`, `max` are
welcome here. Their work is part of the energy check.

## controller.residuals

A goal without a Python file: `residuals = { speed = "V - v", phi = "phi - 0.1*t" }`. Each expression of t, states,
rates (`X_dot`), the machine's parameters, `[target]` names and `[controller.settings]` is to become zero. Numbers in
the settings are constants, texts are functions of time. As many residuals as inputs; a program file can do more
(relations between inputs, guards, least norm).

## [controller.gains]

`lambda = 2.0` stabilises all residuals at that rate [1/s], `lambda_NAME` one of them; 0 switches the stabilisation
off, `"auto"` lets servonode choose. Defaults are the program's. Instead: matrices `K0`, `K1`, or `inertia`,
`dissipation`, `stiffness`. `integral`, `integral_NAME` add integral action. See [check.md](check.md).

## [controller.settings]

The program's own: options, parameters and functions of time, on the machine's page. What has no default (such as
`rho0` of `pursuit`) is computed from the initial state.

## [target]

One expression of t for each name that the program asks for.
"""
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
    ("supervision", Supervision),
    ("controller", Controller),
    ("estimator", Estimator),
)
COLUMNS = "| key | default | unit | what it is |\n|---|---|---|---|\n"
DRIVER_HEAD = f"""
## plant.driver

What only other drivers read is refused. In `[plant.{PASSED_OVER}]` it is passed over, and `run` and `check` say so: the
launch file of a machine can be rehearsed with a simulation. Installed packages add drivers, with keys of their own in
`[plant.{PASSED_OVER}.settings]`: `servonode list drivers` shows them, [drivers.md](drivers.md) says how to write one.

| driver | what stands behind the plant node | what it reads, where drivers differ |
|---|---|---|
"""
_TABLES = {"parameters", "initial", "settings", "disturbance", "residuals", "gains"}
_TABLES |= {"actuator", "sensor", "sensors", "safety", "device", "link", "mujoco"}


def launch_reference() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for name, struct in SECTIONS:
        heading = (struct.__doc__ or "").partition(":")[2].strip()
        parts.append(f"\n## [{name}]\n\n{heading[:1].upper()}{heading[1:]}\n\n{COLUMNS}")
        parts += [_row(field) for field in fields(struct) if field.name not in _TABLES]
    assert {field.name for field in fields(Sections)} == {
        "run", "plant", "controller", "estimator", "supervision", "target",
    }  # fmt: skip
    parts += [DRIVER_HEAD, *map(_driver_row, DRIVERS.values())]
    return "".join([*parts, TAIL])


def _driver_row(driver: Driver) -> str:
    return f"| `{driver.name}` | {driver.summary} | {', '.join(f'`plant.{key}`' for key in driver.reads)} |\n"


def _row(field: Any) -> str:
    kind = inspect.type_info(field.type)
    extra = getattr(kind, "extra", None) or {}
    schema = getattr(kind, "extra_json_schema", None) or {}
    default = "required" if field.default is NODEFAULT and field.default_factory is NODEFAULT else _default(field)
    what = f"{schema.get('description', '')}{_choices(kind, schema)}"
    return f"| `{field.name}` | {default} | {extra.get('unit', '')} | {what} |\n"


def _default(field: Any) -> str:
    value = field.default
    if value is None:
        return "absent"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _choices(kind: Any, schema: Mapping[str, Any]) -> str:
    inner = getattr(kind, "type", kind)
    values = getattr(inner, "values", None) or schema.get("enum")
    return f": {', '.join(map(str, values))}" if values else ""


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
    definitions["Controller"]["oneOf"] = [{"required": ["program"]}, {"required": ["residuals"]}]
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


if __name__ == "__main__":
    print(launch_schema() if sys.argv[1:] == ["schema"] else launch_reference(), end="")  # noqa: T201
