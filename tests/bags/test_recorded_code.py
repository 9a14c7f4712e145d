"""A recording is data: Python code that it names runs only where it is known, or where its reader says so."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import servonode
from servonode.cli.create import IN_PYTHON, make
from servonode.cli.main import main
from servonode.closed_loop.known_code import digest
from servonode.closed_loop.launch_error import LaunchError
from servonode.record.typed import STORED_LAUNCH, plain
from tests.helpers.recorded import recorded as in_memory
from tests.helpers.wings import needs_wing

READERS = (
    ("replay",),
    ("simulate",),
    ("check",),
    ("show",),
    pytest.param(("identify", "--parameters", "m"), marks=needs_wing("explore")),
    pytest.param(("bag", "export", "--ros2"), marks=needs_wing("neighbours")),
)
ROWS = (("bag", "info"), ("bag", "export"), ("bag", "report", "--report", "rows.png"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of a machine of one's own; what its code does when it runs again stands in a file `flag`."""
    folder = tmp_path_factory.mktemp("crane")
    file, launch = make(IN_PYTHON, "crane", folder)
    in_memory(folder / "crane.mcap", launch, "run.mode=lockstep", "run.duration=0.1")
    assert file.name == "crane.py"
    return folder


def answered(*words: str, bag: Path) -> Result:
    at = 2 if words[0] == "bag" else 1
    out = ["rows.csv" if "--ros2" not in words else "ros2.mcap"] if "export" in words else []
    return CliRunner().invoke(main, [*words[:at], str(bag), *out, *words[at:]])


def test_code_below_the_working_directory_runs_as_it_was_recorded(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded.parent)
    assert "0 differ" in answered("replay", bag=recorded / "crane.mcap").stdout
    assert servonode.read_recording(recorded / "crane.mcap").t[-1] == pytest.approx(0.1)


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_code_elsewhere_is_refused_with_its_file_and_digest(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = answered(*words, bag=recorded / "crane.mcap")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    code = recorded / "crane.py"
    assert f"{code} (SHA-256 {digest(code)}) stands outside of the working directory" in result.stderr
    assert "run it with --code" in result.stderr
    with pytest.raises(LaunchError, match="stands outside of the working directory"):
        servonode.read_recording(recorded / "crane.mcap")


@pytest.mark.parametrize("words", ROWS, ids=lambda words: words[1])
@pytest.mark.slow
def test_rows_come_without_the_code(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = answered(*words, bag=recorded / "crane.mcap")
    assert result.exit_code == 0, result.output
    if words[1] == "export":
        assert (tmp_path / "rows.csv").read_text().startswith("t,k,x,")
    if words[1] == "report":
        assert (tmp_path / "rows.png").stat().st_size > 10_000


@pytest.mark.slow
def test_code_that_has_changed_runs_only_where_the_reader_says_so(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded)
    code, flag = recorded / "crane.py", tmp_path / "flag"
    before = code.read_text()
    try:
        code.write_text(f"{before}\nopen({str(flag)!r}, 'w').close()\n")
        for words in (("replay",), ("replay", "--no-code"), *ROWS):
            answered(*words, bag=recorded / "crane.mcap")
            assert not flag.exists()
        assert "is not what was recorded" in answered("replay", bag=recorded / "crane.mcap").stderr
        assert answered("replay", "--code", bag=recorded / "crane.mcap").exit_code == 0
        assert flag.exists()
    finally:
        code.write_text(before)


@pytest.mark.parametrize("reference", ["crane:model", "os:getcwd"])
def test_a_module_that_a_recording_names_is_not_imported(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    monkeypatch.chdir(recorded)
    result = answered("replay", "--set", f"plant.machine={reference}", bag=recorded / "crane.mcap")
    assert result.exit_code == 2
    assert f"{reference!r} is Python code without a file that a recording could hold" in result.stderr


def test_a_function_of_servonode_itself_is_no_machine_of_a_recording(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recorded)
    reference = f"{Path(servonode.__file__).parent}/definitions/references.py:reference_to"
    result = answered("replay", "--set", f"plant.machine={reference}", bag=recorded / "crane.mcap")
    assert result.exit_code == 2
    assert "is not what was recorded" in result.stderr


def test_a_path_that_no_file_can_have_is_damage() -> None:
    table = {"plant": {"machine": "m"}, "run": {"mode": "lockstep", "seed": 0}}
    with pytest.raises(ValueError, match="path"):
        plain(json.dumps({"table": table, "path": "a\0b", "file": None}).encode(), STORED_LAUNCH)
