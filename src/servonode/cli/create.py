"""`servonode new`: commented files that run unchanged, and copies of packaged folders, to start from."""

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from servonode.cli import verb
from servonode.cli.command import Choice, argument, command, option
from servonode.cli.options import AsJson, Overrides
from servonode.errors import ServonodeError, did_you_mean
from servonode.version import TOP

if TYPE_CHECKING:
    from servonode.mechanics.model import Model
    from servonode.plants.servos import Servo

SCHEMA = "schema"
COPIES = ("examples", "launch", "firmware")  # folders of a checkout, which an installed package holds as well
IN_PYTHON = "machine in Python"
FILES = {
    "machine": ("machine_table.toml",),
    IN_PYTHON: ("machine.py", "machine.toml"),
    "program": ("program.py", "program.toml"),
    "run": ("run.toml",),
}
CONTROLLER = "controller"
CONTROLLERS = ("lqr", "pid", "mpc", "policy")
FILES |= {f"{CONTROLLER} {each}": (f"{CONTROLLER}_{each}.py", f"{CONTROLLER}_{each}.toml") for each in CONTROLLERS}
KEEPING = 'limits = "keep"                # the law keeps the limits of inputs and joints; "clip": inputs are cut'
ENDS = ("lower", "upper")
KINDS = dict.fromkeys(kind.partition(" ")[0] for kind in FILES)


class NotMade(ServonodeError, ValueError):
    """A file cannot be written, or what is given makes none; the text says why and how to fix it."""


@command(
    (
        "servonode new machine crane",
        "servonode new machine crane --python",
        "servonode new machine --from panda.urdf",
        "servonode new machine duck --from duck.urdf --set plant.robot.base=free",
        "servonode new program chase",
        "servonode new run serpentine",
        "servonode new controller lqr",
        "servonode new controller mpc parking",
        "servonode new examples my_examples",
        "servonode new launch my_launch_files",
        "servonode new firmware my_board",
    ),
    {0: "done", **verb.BAD_USAGE},
)
def new(
    kind: Annotated[str, argument(type=Choice([*KINDS, SCHEMA, *COPIES]))],
    name: Annotated[str | None, argument(required=False)],
    file: Annotated[str | None, argument(required=False)],
    robot: Annotated[Path | None, option("Write the machine of this URDF or MJCF file.", "FILE", flag="--from")],
    python: Annotated[bool, option("Write the machine as a Python file, beside its launch file.")],
    overrides: Overrides,
    as_json: AsJson,
) -> None:
    """Write commented files: machine, program, controller, run.

    The files run unchanged; edit them for your own purpose. A machine is a launch file that states its coordinates and
    energies; with --python, for what such a table cannot say, a Python file and its launch file, as a program has
    them; run writes only a launch file. A controller in Python is of a kind, lqr, pid, mpc or policy, which is its
    name too where no FILE is given. schema writes the JSON Schema of launch files, for editors; examples, launch and
    firmware copy the examples, the packaged launch files, or the sources of the firmware in C, into a new folder NAME.

    With --from, the machine is that of a robot's file, link by link, with the same equations; its launch file holds
    the joints where they start. --set plant.robot.base=free and its like state what [plant.robot] states in a launch
    file.
    """
    if file is not None and kind != CONTROLLER:
        raise NotMade(f"{file!r} is one name too many: a {kind} has one; leave it out")
    if python and (kind != "machine" or robot is not None):
        raise NotMade("--python is of a new machine alone; leave it out, for all others are as they are")
    if robot is not None:
        if kind != "machine":
            raise NotMade(f"--from is of a machine, not of {kind}; write servonode new machine --from {robot}")
        model, servos = robot_model(robot, overrides)
        name = name or model.name
        made = _write(name, Path(), contents(model, name, robot, servos))
    elif overrides:
        raise NotMade("--set is of --from alone; change keys in the file that is written")
    elif name is None:
        raise click.UsageError("Missing argument 'NAME'.")
    elif kind in COPIES:
        made = [copy(kind, Path(name))]
    else:
        if kind == CONTROLLER:
            if name not in CONTROLLERS:
                near, kinds = did_you_mean(name, CONTROLLERS), ", ".join(CONTROLLERS)
                raise NotMade(f"{name!r} is no kind of controller; {near}give {kinds}, and then a name for its file")
            kind, name = f"{CONTROLLER} {name}", file or name
        made = make(IN_PYTHON if python else kind, name, Path())
    lines = [f"wrote {each}" for each in made]
    if kind not in COPIES:
        schema = f"name it in a launch file: #:schema ./{made[0]}"
        lines.append(schema if kind == SCHEMA else f"now: servonode run {made[-1]}")
    verb.show({"files": [*map(str, made)]}, as_json, "\n".join(lines))


def make(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the files of `kind` (a key of FILES, or SCHEMA) called `name` into a folder; their paths.

    Raises:
        NotMade: see `_write`.
    """
    if kind == SCHEMA:
        from servonode.closed_loop.schema import launch_schema

        return _write(name, folder, [(".json", launch_schema(installed=True))])
    texts = {each: (files("servonode.cli.templates") / each).read_text("utf-8") for each in FILES[kind]}
    return _write(name, folder, ((Path(each).suffix, re.sub(r"\bNAME\b", name, text)) for each, text in texts.items()))


def _write(name: str, folder: Path, contents: Iterable[tuple[str, str]]) -> list[Path]:
    """Write files of a name into a folder, each given by its suffix and text; their paths.

    Raises:
        NotMade: the name is not an identifier, or a file is there already.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise NotMade(f"{name!r} is not a valid name; use ASCII letters, digits and _, beginning with a letter")
    texts = {folder / f"{name}{suffix}": text for suffix, text in contents}
    for file in texts:
        if file.exists():
            raise NotMade(f"{file} exists already; choose another name, or move the file away")
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
    return list(texts)


def copy(kind: str, folder: Path) -> Path:
    """Copy the examples, the launch files or the firmware's sources (one of COPIES) into a new folder; the folder.

    Raises:
        NotMade: the folder is there already.
    """
    if folder.exists():
        raise NotMade(f"{folder} is there already; choose another name, or move it away")
    installed = Path(str(files("servonode"))) / kind
    source = installed if installed.is_dir() else TOP.parent / kind
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("build", "__pycache__"))
    return folder


def robot_model(robot: Path, overrides: Sequence[str]) -> "tuple[Model, Mapping[str, Servo]]":
    """The machine of a URDF or MJCF file, and its servos; overrides of [plant.robot] as KEY=VALUE.

    Raises:
        NotMade: another ending, or another section's key; LaunchError: as of a launch file that names the file.
    """
    from servonode.closed_loop.launch_error import naming_file, stated_in
    from servonode.closed_loop.launch_file import launch_of_table
    from servonode.closed_loop.machine_section import plant_source
    from servonode.definitions.references import NotFound
    from servonode.plants.machine_files import machine_files

    try:
        section = machine_files(str(robot)).section
    except NotFound as error:
        raise NotMade(f"--from {error}") from error
    strange = next((each for each in overrides if not section or not each.startswith(f"{section}.")), None)
    if strange is not None:
        text = f"--from has the keys of [{section}] alone" if section else "--from takes none"
        raise NotMade(f"--set {strange}: {text}; change others in the launch file")
    table = {"run": {"duration": 1.0}, "plant": {"machine": str(robot)}}
    with naming_file(robot), stated_in("plant", "machine"):
        launch = launch_of_table(table, overrides, file=str(robot))
        source = plant_source(launch.plant, launch.path.parent, launch.more)
        return source.build(), source.servos()


def contents(model: "Model", name: str, robot: Path, servos: "Mapping[str, Servo]") -> Iterator[tuple[str, str]]:
    """Suffix and text of the machine's file and of its launch file."""
    from servonode.plants.machine_files import machine_files

    write = machine_files(robot.name).source
    if write is None:
        raise NotMade(f"--from {robot}: such a machine cannot be written as Python; name the file in a launch file")
    head, function, rest = write(model, name, robot.name).partition("\n\n\ndef model")
    if servos:  # which only a driver for servos may then move
        head += "\nfrom servonode.plants.servos import Servo"
        rest += "".join(["\n\nSERVOS = {\n", *(f'    "{each}": {servos[each]},\n' for each in servos), "}\n"])
    yield ".py", head + function + rest
    goals = dict(_goals(model))
    starts = [f"{each.name} = {each.quantity.default or 0.0!r}" for each in model.coordinates if not each.vector]
    parts = {
        "# INITIAL": ["", "[plant.initial]                # states at t = 0; the others are 0", *starts, ""],
        "# KEEPING": [KEEPING, ""] if _keeps(model) else [""],
        "# RESIDUALS": [*(f'{q} = "{q} - {q}_goal"' for q in goals), ""],
        "# SETTINGS": [*(f"{q}_goal = {goal!r}" for q, goal in goals.items()), ""],
        "NAME": [name],
    }
    text = (files("servonode.cli.templates") / "robot.toml").read_text("utf-8")
    if not goals:
        watched, law = "the joints of NAME stay where they start, against gravity", text.index("\n[controller]")
        text = text[:law].replace(watched, "NAME moves without a law, for no input moves a joint")
    yield ".toml", re.sub(r"NAME\b|# [A-Z]{7,}\b", lambda found: "\n".join(parts[found[0]]), text)


def _keeps(model: "Model") -> bool:
    """Whether inputs or joints that they move have limits, not more than a law can keep."""
    from servonode.controllers.engine.keeping import MOST_INPUTS, MOST_ROWS
    from servonode.mechanics.description import JOINT_LIMIT

    moved = {symbol for power in model.inputs.values() for symbol in power.free_symbols}
    joints = [q for q in model.coordinates if q.rate in moved]
    ends = {name for each in model.faults if each.requirement.name == JOINT_LIMIT for name in each.requirement.names}
    rows = sum(2 * bool(q.quantity.rate_limit) + sum(f"{q.name}_{end}" in ends for end in ENDS) for q in joints)
    any_limits = rows or any(each.quantity.limit for each in model.inputs)
    return bool(any_limits) and rows <= MOST_ROWS and len(model.inputs) <= MOST_INPUTS


def _goals(model: "Model") -> Iterator[tuple[str, float]]:
    """What is held where the start has it: coordinates that inputs move; with constraints, what is independent."""
    moved = {symbol for power in model.inputs.values() for symbol in power.free_symbols}
    if not model.constraints:
        yield from ((q.name, q.quantity.default or 0.0) for q in model.coordinates if q.rate in moved)
        return
    for v in list(model.independent_rates)[: len(model.inputs)]:
        yield (v.name, 0.0) if v.of is None else (v.of.name, v.of.quantity.default or 0.0)
