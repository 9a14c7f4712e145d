"""What it takes to add to servonode: a machine, a program, a driver, a key of a launch file, a field of a message,
a panel, a command, each in one place.

Each test adds to a copy of the package what docs/how_to/extend.md says, a file and a line, and uses it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import servonode

SOURCES = Path(servonode.__file__).parent
TEMPLATES = SOURCES / "cli" / "templates"
NULL_DRIVER = Path(__file__).parent / "helpers" / "null_driver.py"
SCHEMAS = """
import json, servonode
from servonode.record.write import schemas
print(json.dumps(schemas(servonode.load("trailer_pursuit").closed_loop)["target/target"]["properties"]["frame"]))
"""
PANEL = '    specs.append(PanelSpec("new", {"phi": "phi"}, title="the new panel", maths="the new panel"))'
PICTURES = """
import servonode
from servonode.views.panels import panels_of
run = servonode.simulate("trailer_pursuit", run__duration=0.2)
print([panel.words for panel in panels_of(run, {**run.state, **run.outputs, **run.input})])
"""
COMMAND = '''"""`servonode hello`."""

import click

from servonode.cli import verb
from servonode.cli.command import command


@command(("servonode hello",), {0: "done", **verb.BAD_USAGE})
def hello() -> None:
    """Greet the user."""
    click.echo("hello")
'''


class Copy:
    """A copy of the package in a folder, and the command line that uses it."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "servonode"
        shutil.copytree(SOURCES, self.package)  # byte code too

    def add(self, file: str, text: str) -> None:
        """Add a new file."""
        assert not (self.package / file).exists()
        (self.package / file).write_text(text)

    def line(self, file: str, before: str, new: str) -> None:
        """Add one line, before the only one that begins so."""
        lines = (self.package / file).read_text().splitlines()
        (at,) = (i for i, each in enumerate(lines) if each.lstrip().startswith(before))
        (self.package / file).write_text("\n".join([*lines[:at], new, *lines[at:]]) + "\n")

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Python with these words, which imports the copy."""
        folder = self.package.parent
        env = os.environ | {"PYTHONPATH": str(folder)}
        return subprocess.run(
            [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
        )

    def python(self, *words: str) -> str:
        """What Python prints that imports the copy."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __call__(self, *words: str) -> str:
        """What the command line prints."""
        return self.python("-m", "servonode.cli.main", *words)

    def simulate(self, launch: str) -> str:
        """What a short simulation prints."""
        return self("simulate", launch, "--set", "run.duration=0.2")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def template(file: str, name: str) -> str:
    """A file that `servonode new` writes, as it stands inside the package: it refers to no file beside it."""
    text = (TEMPLATES / file).read_text().replace("./NAME.py:model", name).replace("./NAME.py:program", name)
    return text.replace("NAME", name)


def test_machine_is_a_file_and_a_line(copy: Copy) -> None:
    copy.add("plants/crane.py", template("machine.py", "crane"))
    copy.line("plants/__init__.py", '"diff_drive_trailer":', '    "crane": "trolley with a hanging load",')
    copy.add("launch/crane_swing.toml", template("machine.toml", "crane"))
    assert "trolley with a hanging load" in copy("list", "machines")
    assert "crane_swing" in copy("list", "launch")
    assert "residual" in copy.simulate("crane_swing")


def test_program_is_a_file_and_a_line(copy: Copy) -> None:
    copy.add("controllers/diff_drive_trailer_look.py", template("program.py", "look"))
    copy.line("controllers/__init__.py", '"pursuit": "the heading points', '            "look": "look at a target",')
    copy.add("launch/trailer_look.toml", template("program.toml", "look"))
    assert "look at a target" in copy("list", "programs")
    assert "heading" in copy.simulate("trailer_look")


def test_driver_is_a_file_and_its_name(copy: Copy) -> None:
    copy.add("plants/drivers/null.py", NULL_DRIVER.read_text())
    table = copy.package / "plants" / "drivers" / "__init__.py"
    table.write_text(
        table.read_text().replace(
            '    "loopback"', '    "null": "servonode.plants.drivers.null:DRIVER",\n    "loopback"'
        )
    )
    run = ("--set", "run.duration=0.2", "--set", "plant.driver=null", "--no-report")
    copy("run", "trailer_pursuit_lockstep", *run)
    copy("new", "schema", "launch")
    assert '"null"' in (copy.package.parent / "launch.json").read_text()


def test_key_of_a_launch_file_is_a_line(copy: Copy) -> None:
    key = '    rest: Annotated[Seconds, key("the time after the run in which nothing happens", "s")] = 0.5'
    copy.line("closed_loop/launch_keys.py", "pin: Annotated[bool", key)
    copy.simulate("trailer_pursuit")
    copy("new", "schema", "launch")
    assert "in which nothing happens [s]" in (copy.package.parent / "launch.json").read_text()
    done = copy.run("-m", "servonode.cli.main", "check", "trailer_pursuit", "--set", "run.rest=-1")
    assert done.returncode == 2
    assert "run.rest" in done.stderr


def test_field_of_a_message_is_a_line(copy: Copy) -> None:
    field = '    frame: Annotated[Text, what("the frame of the goal")] = "world"'
    lines = (copy.package / "bus" / "messages.py").read_text().splitlines()
    at = next(i for i, each in enumerate(lines) if each.startswith("class Target("))
    end = next(i for i in range(at, len(lines)) if lines[i].startswith("    target: "))
    (copy.package / "bus" / "messages.py").write_text("\n".join([*lines[: end + 1], field, *lines[end + 1 :]]) + "\n")
    assert "the frame of the goal" in copy("topic", "info", "target/target")
    assert '"type": "string"' in copy.python("-c", SCHEMAS)


def test_panel_of_a_picture_is_a_line(copy: Copy) -> None:
    copy.line("views/panel_specs.py", "return [*sorted(specs", PANEL)
    assert "the new panel" in copy.python("-c", PICTURES)


def test_command_is_a_file_and_a_line(copy: Copy) -> None:
    copy.add("cli/hello.py", COMMAND)
    copy.line("cli/main.py", '"completion": "inspect"', '        "hello": "hello",')
    assert "Greet the user." in copy("--help")
    assert copy("hello") == "hello\n"
    assert "servonode hello" in copy("hello", "--help")
