"""The reference page of the launch file, made from the structs that read it.

`python docs/_extensions/launch_reference.py` prints the page.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import NODEFAULT, Struct, inspect

from servonode.closed_loop.connection import PASSED_OVER
from servonode.closed_loop.key_table import keys_of, sections
from servonode.plants.drivers.driver import Driver
from servonode.plants.drivers.installed import our_drivers
from servonode.plants.injection import KINDS, SIZES

HEAD = """\
# The launch file

A launch file is a TOML file; its first line says what to look at. This page is made from the code.

```toml
# Watch for: the cart follows a sine.
[run]
duration = 10.0

[plant]
machine = "./cart.py:model"

[controller]
residuals = { place = "x - sin(t)" }
```

Unknown keys, wrong types and impossible values are errors: one line names the file, the section and the key. A key
without = is absent unless stated. `--set section.key=value` overrides any key on the command line. Editors complete and
check launch files with [launch_file.schema.json](launch_file.schema.json): `servonode new schema launch` writes it, and
the comment `#:schema ./launch.json` refers to it.

Times are rounded to nanoseconds; `step` must divide `period` and `duration` exactly.

Expressions (in `[target]`, and in settings that are functions of time) consist of numbers, `t`, `pi`, `+ - * / **`,
parentheses and the functions `abs atan2 cos exp max min sin sqrt tan tanh wrap` (`wrap` maps an angle to -pi..pi). They
are differentiated as often as the program needs; a function without that derivative (`abs`, `min`, `max`) is an error.
"""
MACHINE = """
### plant.machine, controller.program

A name from `servonode list machines` or `list programs`, `"package.module:function"`, or `"./file.py:function"` beside
the launch file ([machines and programs](machines_and_programs.md)). Arguments of the function with defaults are
options: `[plant.settings]` sets them. A machine may also be a [robot's file](../how_to/robots.md),
`machine = "panda.urdf"`, or the table [plant.machine](#plantmachine), which needs no Python.

**Trust a launch file only as far as you would trust code.** It may name Python code, which runs with your rights, in
`simulate`, `check` and `show` too. `--no-code` (`code=False` in Python) refuses such a file before any of it runs. No
code is read from a folder in which every user of the computer can write.

### [plant.parameters], [plant.initial], [controller.parameters]

Values by name, in SI units and radians; `servonode show FILE` prints the names. `[controller.parameters]` has those of
the controller's model that differ from the plant's. Names with dots are joined: `link3.mass` is `link3_mass`.

A parameter may be a function of time, `l = "1 + 0.1*sin(t)"`, twice differentiable. Its derivatives act as well: a
growing mass decelerates, because the added mass was at rest.

With `on_program = true` in `[plant.initial]`, servonode chooses the states that are not given so that the residuals
vanish.

### [plant.disturbance]

Forces that the law does not know: `x = "0.5*sin(2*t)"` acts on the coordinate x, `U1 = "-0.02"` adds to the input U1.
They are expressions of t, states and parameters, with `abs`, `min` and `max` too. The energy check includes their work.
"""
DRIVER_HEAD = f"""
### plant.driver

Keys that only other drivers read are errors, except in `[plant.{PASSED_OVER}]`. There `run` and `check` report that
they are ignored, so that the launch file of a real machine can be tried with a simulation. Packages add
[drivers](../how_to/hardware.md#write-a-driver), with their keys in `[plant.{PASSED_OVER}.settings]`;
`servonode list drivers` lists them.

| driver | connection between plant node and machine | keys of `[plant]` that it reads |
|---|---|---|
"""
CONTROLLER = """
### controller.residuals

A goal without a Python file: `residuals = { speed = "V - v", phi = "phi - 0.1*t" }`. The law brings each expression
to zero. It may contain t, states, rates (`X_dot`), parameters of the machine,
[frames](../how_to/robots.md#goals-of-a-tool), names in `[target]` and in `[controller.settings]`; numbers there are
constants, texts functions of time. Give as many residuals as inputs, or fewer and a posture or weights. A program
file can do more (relations between inputs, guards).

### [controller.settings]

Options, parameters and functions of time of the program; the machine's page lists them. A parameter without default,
such as `rho0` of `pursuit`, is computed from the initial state.

### [controller.gains]

`lambda` is the convergence rate of all residuals [1/s], `lambda_NAME` that of one; 0 switches the stabilisation off,
`"auto"` takes the rate that period and delay allow. The default is the program's own (`rate=` of its residual), else
`"auto"`. [Gains](../explanation/check.md#gains) has matrices and integral action.

### [controller.weights]

The least norm completes a law with fewer residuals than inputs (`least_norm=True` of its program, or weights here).
`weights = { U1 = 2.0 }` weighs the square of `U1` twice. Inputs of different units need weights to be compared.

### [controller.priority]

`priority = { angle = 1, place = 2 }`: where what is [kept](#controllerkeepname) leaves not all residuals their
equations, `angle` is followed as well as can be, then `place` as far as that leaves it free.
"""
STATED = """
A machine without Python: it is part of the launch file, of a recording and of what two computers compare, and no code.

```toml
[plant.machine]
name = "cart"
coordinates = { x = "m", theta = { unit = "rad", description = "angle of the rod, 0 hangs down" } }
parameters = { M = 2.0, m = 0.5, g = 9.81, L = { default = 0.8, unit = "m", above = 0 } }
inputs = { F = "x_dot" }                        # or { acts_on = "x_dot", unit = "N", limit = 20.0 }
terms = { load = "x + L*sin(theta)", height = "-L*cos(theta)" }
kinetic = "(M*x_dot**2 + m*(load_dot**2 + height_dot**2))/2"
potential = "m*g*height"
dissipation = "0.5*x_dot**2"
outputs = { tip = { expression = "load", unit = "m" } }
faults = { swung_up = { relation = "abs(theta) < 1.5", text = "the load is above the rail" } }
safe = { F = "-20*x_dot" }
drawing = [{ line = [["x", 0], ["load", "height"]] }, { circle = ["load", "height"], radius = 0.05 }]
```

Expressions are like [residuals](#controllerresiduals): `x_dot` is the rate of the coordinate `x`, `x_ddot` its
acceleration, for outputs. `[plant.parameters]` and `[plant.initial]` change its numbers, as of any machine, in sweeps
too. With constraints on rates, such as `constraints = { N = "y_dot*cos(psi) - x_dot*sin(psi)" }`, either name as many
`independent` coordinates as are free, or state `velocities` and the `kinematics` in them. What a table cannot say
(bodies, trees of links, sensors, jumps) is for a [Python file](machines_and_programs.md#functions-for-a-machine).
"""
PROSE = {  # what stands below the keys of a section
    "plant.machine": STATED,
    "controller.goal.NAME": """
Each coordinate is one residual: `position` gives `NAME_x`, `NAME_y`, `NAME_z`, `orientation` gives `NAME_rx`,
`NAME_ry`, `NAME_rz` ([goals of a tool](../how_to/robots.md#goals-of-a-tool)).
""",
    "controller.keep.NAME": """
`[controller.keep]` has an expression for each, `elbow = "1.2 - phi"`, or such a table. It may contain what
[residuals](#controllerresiduals) may, and contact forces, accelerations and inputs, linearly; each part of `min(a, b)`
and of `-abs(a)` is kept. With `limits = "keep"` the law keeps the limits of the inputs too, and the ranges and speeds
of the joints that a robot's file has, as `NAME_range` and `NAME_speed`, where an input moves the joint:
`[controller.keep.elbow_range]` then has their numbers. Of relative degree 0, as forces, rate and brake have no
meaning. `servonode param` changes the numbers during a run, `servonode sweep` between runs; the limits that the law
knows are those of the start.
""",
    "controller.inversion": """
For a goal that is known in advance and has unstable zero dynamics; the section may be empty
([stable inversion](../how_to/hard_goals.md#stable-inversion)).
""",
    "target.NAME": """
Each [goal](machines_and_programs.md#goals) that the program needs is an expression of t, `x = "6*sin(0.05*t)"`, or such
a table in `[target]`.
""",
}
TAIL = """
## [robots.NAME]

Several robots in one launch ([how to](../how_to/several_computers.md)). `include` names a robot's launch file; all
other keys are what differs from it, as `plant.initial.X = -2.0`. Beside these tables only `[run]` may stand, for all
robots. A goal may be a state of another robot, `target.x = "leader.X"`.
"""
KINDS_HEAD = """
[Faults on demand](../how_to/hardware.md#faults-on-demand) shows how a record tells it. The kinds:

| kind | of | `size` |
|---|---|---|
"""
COLUMNS = "| key and default | what it is |\n|---|---|\n"


def launch_reference() -> str:
    """The page as Markdown."""
    prose = PROSE | {
        "plant": MACHINE + DRIVER_HEAD + "".join(map(_driver_row, our_drivers().values())),
        "controller": CONTROLLER,
        "[fault]": KINDS_HEAD + "".join(map(_kind_row, dict.fromkeys(kind for of in KINDS.values() for kind in of))),
    }
    return "".join([HEAD, *(_section(name, struct) + prose.get(name, "") for name, struct in sections()), TAIL])


def _section(name: str, struct: type[Struct]) -> str:
    """The heading of a section, what it is, and its keys."""
    sentence = (struct.__doc__ or "").partition(":")[2].strip()
    rows = "".join(_row(field) for field in keys_of(struct))
    return f"\n## [{name}]\n\n{sentence[:1].upper()}{sentence[1:]}\n\n{COLUMNS}{rows}"


def _kind_row(kind: str) -> str:
    """A kind of fault: what can fail so, and its size."""
    return f"| `{kind}` | {', '.join(of for of, kinds in KINDS.items() if kind in kinds)} | {SIZES.get(kind, '')} |\n"


def _driver_row(driver: Driver) -> str:
    return f"| `{driver.name}` | {driver.summary} | {', '.join(f'`{key}`' for key in driver.reads)} |\n"


def _row(field: Any) -> str:
    kind = inspect.type_info(field.type)
    unit = (getattr(kind, "extra", None) or {}).get("unit")
    schema = getattr(kind, "extra_json_schema", None) or {}
    required = "; required" if field.default is NODEFAULT and field.default_factory is NODEFAULT else ""
    what = f"{schema.get('description', '').removeprefix('the ')}{_choices(kind, schema)}{unit and f' [{unit}]'}"
    return f"| `{field.name}{_default(field)}` | {what}{required} |\n"


def _default(field: Any) -> str:
    """As it would be written behind the key; empty for keys that are absent, or empty tables, without it."""
    value = field.default
    if value is None or value is NODEFAULT:
        return ""
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
    return f" = {text}"


def _choices(kind: Any, schema: Mapping[str, Any]) -> str:
    inner = getattr(kind, "type", kind)
    values = getattr(inner, "values", None) or schema.get("enum")
    return f" ({', '.join(f'`{each}`' for each in values)})" if values else ""


if __name__ == "__main__":
    print(launch_reference(), end="")  # noqa: T201
