"""The reference page of the launch file, made from the structs that read it: `python -m servonode.nodes.reference`."""

from typing import Any

from msgspec import NODEFAULT, Struct, inspect
from msgspec.structs import fields

from servonode.nodes.launch_keys import Actuator, Controller, Plant, Run, Safety, Sections, Sensor

HEAD = """\
# The launch file

A launch file is TOML. Its first line, `# Watch for: ...`, says what to look at. Unknown keys, wrong types, non-finite
and impossible values are refused with one line that names file, section and key. This page is made from the code.

Times are rounded to nanoseconds; `step` must divide `period` and `duration` exactly. Plant time is
`k * step` with a whole k, computed anew at each step.

Expressions (in `[target]`, and in settings that are functions of time) know numbers, `t`, `pi`, `+ - * / **`,
parentheses and the functions `abs atan2 cos exp max min sin sqrt tan tanh`. They are differentiated symbolically as
often as the program needs; what has no such derivative (`abs`, `min`, `max`) is refused there.

From the command line `--set section.key=value` overrides any key.
"""
TAIL = """
## [plant.parameters], [plant.initial], [controller.parameters]

Values by the machine's names, in SI units and radians; see the machine's page. `[controller.parameters]` is what the
law believes where that differs from the plant's.

## [controller.gains]

`lambda = 2.0` stabilises all residuals at that rate [1/s], `lambda_NAME` one of them; 0 switches the stabilisation
off, `"auto"` lets servonode choose. Defaults are the program's. Instead: matrices `K0`, `K1`, or `inertia`,
`dissipation`, `stiffness`. `integral`, `integral_NAME` add integral action. See [check.md](check.md).

## [controller.settings]

The program's own: options, parameters and functions of time, on the machine's page. What has no default (such as
`rho0` of `pursuit`) is computed from the start.

## [target]

One expression of t for each name that the program asks for.
"""
SECTIONS: tuple[tuple[str, type[Struct]], ...] = (
    ("run", Run),
    ("plant", Plant),
    ("plant.actuator", Actuator),
    ("plant.sensor", Sensor),
    ("plant.safety", Safety),
    ("controller", Controller),
)
COLUMNS = "| key | default | unit | what it is |\n|---|---|---|---|\n"
_TABLES = {"parameters", "initial", "settings", "actuator", "sensor", "safety", "gains"}


def launch_reference() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for name, struct in SECTIONS:
        heading = (struct.__doc__ or "").partition(":")[2].strip()
        parts.append(f"\n## [{name}]\n\n{heading[:1].upper()}{heading[1:]}\n\n{COLUMNS}")
        parts += [_row(field) for field in fields(struct) if field.name not in _TABLES]
    assert {field.name for field in fields(Sections)} == {"run", "plant", "controller", "target"}
    return "".join([*parts, TAIL])


def _row(field: Any) -> str:
    kind = inspect.type_info(field.type)
    extra = getattr(kind, "extra", None) or {}
    schema = getattr(kind, "extra_json_schema", None) or {}
    default = "required" if field.default is NODEFAULT and field.default_factory is NODEFAULT else _default(field)
    return (
        f"| `{field.name}` | {default} | {extra.get('unit', '')} | {schema.get('description', '')}{_choices(kind)} |\n"
    )


def _default(field: Any) -> str:
    value = field.default
    if value is None:
        return "absent"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _choices(kind: Any) -> str:
    inner = getattr(kind, "type", kind)
    values = getattr(inner, "values", None)
    return f": {', '.join(map(str, values))}" if values else ""


if __name__ == "__main__":
    print(launch_reference(), end="")  # noqa: T201
