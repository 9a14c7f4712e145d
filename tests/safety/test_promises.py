"""Promises of the runtime that do not depend on the driver; those that do are in suite.py."""

import ast
import py_compile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

import servonode
from servonode.cli.main import main
from servonode.closed_loop.launch_file import LaunchError
from servonode.nodes import answers, fault_ladder, guard, input_limiter
from servonode.plants import limits
from tests.helpers.refusals import refused_command

LAUNCH = "trailer_pursuit"
FILTER = (answers, fault_ladder, guard, input_limiter, limits)  # before the plant
# 14


@pytest.mark.parametrize("module", FILTER, ids=lambda module: module.__name__)
def test_promise_14_the_filter_does_not_ask_for_the_driver(module: ModuleType) -> None:
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    words = [each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)]
    words += [each.id for each in ast.walk(tree) if isinstance(each, ast.Name)]
    words += [str(each.value) for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    assert not {"driver", "loopback", "external"} & set(words)
    asked = [each for each in ast.walk(tree) if isinstance(each, ast.Assign) and "simulated" in ast.unparse(each)]
    branches = [each for each in ast.walk(tree) if isinstance(each, ast.If) and "simulated" in ast.unparse(each.test)]
    # two places, neither of which spares a simulation a check: the state of a device is not known before it has
    # answered, and it is told once more what it holds already, so that it knows that somebody lives
    found = {ast.unparse(each) for each in (*asked, *(statement for each in branches for statement in each.body))}
    assert found <= {"self.state_unknown = not plant.simulated", "self._send()"}
    assert words.count("simulated") == len(asked) + len(branches) == (2 if module is guard else 0)


# 16


@pytest.mark.parametrize(("speed", "timeout"), [(1.0, 0.0), (1.0, 10.1), (6.0, 60.1), (0.1, 1.1)])
def test_promise_16_a_watch_that_never_acts_is_refused(speed: float, timeout: float) -> None:
    options: dict[str, Any] = {"run__speed": speed, "plant__safety__command_timeout": timeout}
    with pytest.raises(LaunchError, match=r"without a watchdog; give more than 0.*plant\.safety\.unsafe = true"):
        servonode.load(LAUNCH, **options)
    servonode.load(LAUNCH, plant__safety__unsafe=True, **options)
    servonode.load(LAUNCH, run__speed=speed, plant__safety__command_timeout=10.0 * speed)


# 26

EVIL = """
from pathlib import Path
Path({flag!r}).touch()
"""
MODEL = "\n\ndef model():\n    pass\n"


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """A file that somebody else's code makes when it is run."""
    return tmp_path / "was run"


@pytest.mark.parametrize("verb", ["run", "simulate", "check", "show"])
def test_promise_26_no_code_refuses_code_in_a_launch_file(
    tmp_path: Path, flag: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    (tmp_path / "evil.py").write_text(EVIL.format(flag=str(flag)) + MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    for key, reference in (
        ("plant.machine", "./evil.py:model"),
        ("plant.machine", "evil:model"),
        ("plant.machine", "servonode.cli.main:main"),
        ("controller.program", f"{tmp_path}/evil.py:program"),
        ("controller.program", "evil.deeper:program"),
    ):
        result = CliRunner().invoke(main, [verb, LAUNCH, "--no-code", "--set", f"{key}={reference}"])
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
        assert f"{key.partition('.')[2]}: '{reference}' is Python code, which --no-code" in result.stderr
        assert not flag.exists()
    table = {"run": {"duration": 1.0}, "plant": {"machine": lambda: flag.touch()}}
    with pytest.raises(LaunchError, match=r"is Python code, which --no-code \(code=False\) refuses"):
        servonode.load(table, code=False)
    assert not flag.exists()


def test_promise_26_without_code_everything_packaged_runs() -> None:
    assert servonode.simulate(LAUNCH, run__duration=0.1, code=False).t[-1] == pytest.approx(0.1)
    named = {"plant__machine": "servonode.plants.diff_drive_trailer:model"}
    named["controller__program"] = "servonode.controllers.diff_drive_trailer_pursuit:program"
    assert servonode.load(LAUNCH, code=False, **named).machine.description.name == "diff_drive_trailer"


def test_promise_26_code_in_a_world_writable_folder_is_not_run(tmp_path: Path, flag: Path) -> None:
    (tmp_path / "evil.py").write_text(EVIL.format(flag=str(flag)) + MODEL)
    (tmp_path / "evil.toml").write_text('run = {duration = 1}\nplant = {machine = "./evil.py:model"}\n')
    tmp_path.chmod(0o1777)
    said = refused_command("check", str(tmp_path / "evil.toml"))
    assert f"every user of this computer can put files into {tmp_path.resolve()}, so no code is run" in said
    assert not flag.exists()
    tmp_path.chmod(0o700)
    assert "returned NoneType, not a Model" in refused_command("check", str(tmp_path / "evil.toml"))
    assert flag.exists()


def test_promise_26_what_was_compiled_beside_a_machine_is_not_run(tmp_path: Path, flag: Path) -> None:
    machine = tmp_path / "robot.py"
    machine.write_text(EVIL.format(flag=str(flag)) + MODEL)
    py_compile.compile(str(machine), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    machine.write_text(MODEL)
    (tmp_path / "robot.toml").write_text('run = {duration = 1}\nplant = {machine = "./robot.py:model"}\n')
    assert "returned NoneType, not a Model" in refused_command("check", str(tmp_path / "robot.toml"))
    assert not flag.exists()
