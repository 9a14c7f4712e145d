"""The reference page of the launch file, made from the structs that read it.

`python docs/_extensions/launch_reference.py` prints the page.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import NODEFAULT, inspect

from servonode.closed_loop.connection import PASSED_OVER
from servonode.closed_loop.schema import SECTIONS, keys_of
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.driver import Driver
from servonode.plants.injection import KINDS, SIZES

HEAD = """\
# The launch file

A launch file is a TOML file. Its first line, `# Watch for: ...`, says what to look at. Unknown keys, wrong types,
non-finite and impossible values are errors: one line names the file, the section and the key. This page is generated
from the code.

Times are rounded to nanoseconds; `step` must divide `period` and `duration` exactly. Plant time is
`k * step` with an integer k, so that no rounding errors accumulate.

Expressions (in `[target]`, and in settings that are functions of time) consist of numbers, `t`, `pi`, `+ - * / **`,
parentheses and the functions `abs atan2 cos exp max min sin sqrt tan tanh wrap` (`wrap` maps an angle to -pi..pi).
servonode differentiates them symbolically as often as the program needs; a function without such a derivative (`abs`,
`min`, `max`) is an error there.

Editors complete and check launch files with the JSON Schema
[launch_file.schema.json](launch_file.schema.json): `servonode new schema launch` writes it, and the comment
`#:schema ./launch.json` in the launch file refers to it.

On the command line, `--set section.key=value` overrides any key.
"""
TAIL = """
## [robots.NAME]

Several robots in one launch. `include` names the launch file of the robot, one that comes with servonode or a path from
this file; all other keys are what differs from it, as `plant.initial.X = -2.0`. Beside these tables only `[run]` may
stand, which is that of all robots. A goal may be a state of another robot, `target.x = "leader.X"`. See
[several robots](../how_to/several_computers.md#several-robots-in-one-launch).

## plant.machine, controller.program

A name from `servonode list machines` or `list programs` (packages add to them by entry points in the groups
`servonode.machines` and `servonode.programs`), `"package.module:function"`, or `"./file.py:function"` beside the launch
file. The function of a machine returns a `Model`; that of a program takes a model and returns a `Program`. Arguments
with defaults are options; `[plant.settings]` and `[controller.settings]` set them.

A machine may also be the path of a URDF or MJCF file, `machine = "panda.urdf"`, see
[robots from files](../how_to/robots.md).

**Trust a launch file only as far as you would trust code.** It may name Python code, which runs with your rights, in
`run`, `simulate`, `check` and `show` alike. With `--no-code` (`code=False` in Python), servonode refuses a file that
names code before any of that code runs; only machines and programs of servonode and of installed packages are allowed.
Expressions are data and are never executed. servonode reads no code from a folder in which every user of the computer
can write.

## [plant.parameters], [plant.initial], [controller.parameters]

These sections give values by name, in SI units and radians; the names are on the machine's page and in the output of
`servonode show FILE`. `[controller.parameters]` gives the parameters of the controller's model that differ from the
plant's. Names with dots are joined: `link3.mass` is `link3_mass`, and only one of them may be given.

A parameter may be a function of time, `l = "1 + 0.1*sin(t)"`, which must be twice differentiable. servonode puts it
into the Lagrangian before the derivation, so that its derivatives act as well: a growing mass decelerates, because the
added mass was at rest.

With `on_program = true` in `[plant.initial]`, servonode chooses the states that are not given so that the residuals
vanish.

## [plant.disturbance]

These forces act on the plant and are unknown to the law: `x = "0.5*sin(2*t)"` is a generalized force on the
coordinate x, and `U1 = "-0.02"` adds to the input U1. They are expressions of t, states and parameters, which may
contain `abs`, `min` and `max`. The energy check includes their work.

## controller.residuals

This key defines a goal without a Python file: `residuals = { speed = "V - v", phi = "phi - 0.1*t" }`. The law brings
each expression to zero; it may contain t, states, rates (`X_dot`), parameters of the machine, names in `[target]` and
names in `[controller.settings]`. Numbers in the settings are constants, texts are functions of time. Of a machine with
frames it may contain their places, as `tool.x`, see [goals of a tool](../how_to/robots.md#goals-of-a-tool). Give as many residuals
as inputs, or fewer and a posture or weights; a program file can do more (relations between inputs, guards).

## [controller.goal.NAME], [controller.posture], in words

A goal of a frame is one residual for each coordinate: `position` gives `NAME_x`, `NAME_y`, `NAME_z`, `orientation`
gives `NAME_rx`, `NAME_ry`, `NAME_rz`. The posture says what joints do as far as the residuals leave them free. See
[goals of a tool](../how_to/robots.md#goals-of-a-tool).

## [controller.gains]

`lambda = 2.0` is the convergence rate of all residuals [1/s], `lambda_NAME` that of one residual; 0 switches the
stabilisation off, and `"auto"` takes the rate that period and delay allow. Where the file gives none the program's own
acts (`rate=` of its residual), else `"auto"`. Instead of rates, give the matrices
`K0` and `K1`, or `inertia`, `dissipation` and `stiffness`. `integral` and `integral_NAME` add integral action. See
[check.md](../explanation/check.md).

## [controller.weights]

A law with fewer residuals than inputs may be completed by the least norm (`least_norm=True` of its program): the inputs
whose sum of squares is least. `weights = { U1 = 2.0 }` weighs the square of `U1` twice, so that the other inputs take
more of the work; an input without a weight has 1. Inputs of different units, such as N and N m, need weights to be
compared. Residuals of a launch file that are fewer than the inputs are completed so where the file has weights.

## [controller.inversion], in words

This section is for a goal that is known in advance and has unstable zero dynamics. servonode computes the bounded
solution before the run and tracks it with feedback of the whole state. The section may be empty. See
[stable inversion](../how_to/hard_goals.md#stable-inversion).

## [controller.settings]

The settings of a program are its options, parameters and functions of time; the machine's page lists them. A parameter
without default, such as `rho0` of `pursuit`, is computed from the initial state.

## [target]

Each name that the program needs gets an expression of t, or a table: a goal through points, through samples in a CSV
file, or from outside during the run, see [goals.md](goals.md). A goal must have as many derivatives as the law uses, at
most 8.
"""
FAULTS = """
## [[fault]], in words

Each such section injects a fault into the run, and the record tells it with the fault that was found after it:
[rehearse your safety case](../how_to/rehearsal.md). These kinds there are, with their sizes:

| kind | drive | sensor | link | node | `size` |
|---|---|---|---|---|---|
"""
COLUMNS = "| key | default | unit | what it is |\n|---|---|---|---|\n"
DRIVER_HEAD = f"""
## plant.driver

Keys that only other drivers read are errors, except in `[plant.{PASSED_OVER}]`, where `run` and `check` only report
that they are ignored: the launch file of a real machine can be tried with a simulation. Installed packages add drivers,
with their own keys in `[plant.{PASSED_OVER}.settings]`: `servonode list drivers` lists them, and
[own drivers](../how_to/drivers.md) explains how to write one.

| driver | connection between plant node and machine | keys that this driver reads |
|---|---|---|
"""


def launch_reference() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for name, struct in SECTIONS:
        heading = (struct.__doc__ or "").partition(":")[2].strip()
        parts.append(f"\n## [{name}]\n\n{heading[:1].upper()}{heading[1:]}\n\n{COLUMNS}")
        parts += [_row(field) for field in keys_of(name, struct)]
    parts += [DRIVER_HEAD, *map(_driver_row, DRIVERS.values())]
    return "".join([*parts, TAIL, FAULTS, *map(_kind_row, dict.fromkeys(kind for of in KINDS.values() for kind in of))])


def _kind_row(kind: str) -> str:
    """A kind of fault: what can fail so, and its size."""
    marks = " | ".join("yes" if kind in of else "" for of in KINDS.values())
    return f"| `{kind}` | {marks} | {SIZES.get(kind, '')} |\n"


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
    if value is None or value is NODEFAULT:  # a table that is empty without its key
        return "absent"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _choices(kind: Any, schema: Mapping[str, Any]) -> str:
    inner = getattr(kind, "type", kind)
    values = getattr(inner, "values", None) or schema.get("enum")
    return f"; one of {', '.join(f'`{each}`' for each in values)}" if values else ""


if __name__ == "__main__":
    print(launch_reference(), end="")  # noqa: T201
