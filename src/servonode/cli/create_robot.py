"""`servonode new machine --from`: the machine of a robot's file in Python, and a launch file that holds its joints."""

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from servonode.definitions.references import ROBOTS
from servonode.errors import ServonodeError

if TYPE_CHECKING:
    from servonode.mechanics.model import Model

SECTION = "plant.robot."


class NotFrom(ServonodeError, ValueError):
    """Not a robot's file, or a key that says nothing of one; the text says what to give."""


def robot_model(robot: Path, overrides: Sequence[str]) -> "Model":
    """The machine of a URDF or MJCF file; overrides of [plant.robot] as KEY=VALUE.

    Raises:
        NotFrom: another ending, or another section's key; LaunchError: as of a launch file that names the file.
    """
    from servonode.closed_loop.launch_error import stated_in, worded
    from servonode.closed_loop.launch_file import launch_of_table
    from servonode.closed_loop.machine_section import plant_source

    if robot.suffix.lower() not in ROBOTS:
        raise NotFrom(f"--from {robot}: give a URDF or MJCF file, whose name ends in {', '.join(ROBOTS[:-1])}")
    strange = next((each for each in overrides if not each.startswith(SECTION)), None)
    if strange is not None:
        raise NotFrom(f"--set {strange}: --from has the keys of [plant.robot] alone; change others in the launch file")
    table = {"run": {"duration": 1.0}, "plant": {"machine": str(robot)}}
    with worded(robot), stated_in("plant", "machine"):
        launch = launch_of_table(table, overrides, file=str(robot))
        model: Model = plant_source(launch.plant, launch.path.parent).build()
    return model


def contents(model: "Model", name: str, robot: Path) -> Iterator[tuple[str, str]]:
    """Suffix and text of the machine's file and of its launch file."""
    from servonode.robots.source import source

    yield ".py", source(model, name, robot.name)
    goals = dict(_goals(model))
    starts = [f"{each.name} = {each.quantity.default or 0.0!r}" for each in model.coordinates if not each.vector]
    parts = {
        "# INITIAL": ["", "[plant.initial]                # states at t = 0; the others are 0", *starts, ""],
        "# RESIDUALS": [*(f'{q} = "{q} - {q}_goal"' for q in goals), ""],
        "# SETTINGS": [*(f"{q}_goal = {goal!r}" for q, goal in goals.items()), ""],
        "NAME": [name],
    }
    text = (files("servonode.cli.templates") / "robot.toml").read_text("utf-8")
    if not goals:
        watched, law = "the joints of NAME stay where they start, against gravity", text.index("\n[controller]")
        text = text[:law].replace(watched, "NAME moves without a law, for no input moves a joint")
    yield ".toml", re.sub(r"NAME\b|# [A-Z]{7,}\b", lambda found: "\n".join(parts[found[0]]), text)


def _goals(model: "Model") -> Iterator[tuple[str, float]]:
    """What is held where the start has it: coordinates that inputs move; with constraints, what is independent."""
    moved = {symbol for power in model.inputs.values() for symbol in power.free_symbols}
    if not model.constraints:
        yield from ((q.name, q.quantity.default or 0.0) for q in model.coordinates if q.rate in moved)
        return
    for v in list(model.independent_rates)[: len(model.inputs)]:
        yield (v.name, 0.0) if v.of is None else (v.of.name, v.of.quantity.default or 0.0)
