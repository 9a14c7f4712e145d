"""Each refusal of the tables beside this file is one line that says what is wrong, where, and how to fix it.

A table has `files` (names and texts of what stands in the folder of each row) and groups; a group has rows and what
they share. Of these keys a row has those that it needs:
  verb    one or several: load (a launch file read and resolved), check, simulate, run, show (commands on a launch
          file), command (any command line, `words`), python (`call`, a statement in user.py of `files`), machine (its
          `parameters`), inside (`call`, a statement after those of `given`, of any function; it raises an `error`)
  launch  a packaged launch file or a file of the table; of a row with `text` this text is the launch file
  set     one override or several; `words`: other words of the command line, a text that is split or a list
  edit    `old -> new` in the text of `file`; of a module the answer names the changed line, or the first with `at`,
          unless `line` is false
  place   what stands in the answer between the launch file and what is said
  says    passages in their order, parted by ` ... `; behind a place or a line the first one begins there, unless
          `... ` stands before it
  code    the exit code, if it is not 2
  needs   a module without which the row is skipped; `wing`: a wing of servonode
In every row nothing is written, and no traceback is shown.
"""

import re
import tomllib
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import read_launch
from servonode.errors import ServonodeError
from servonode.mechanics.machine import ParameterError
from tests.helpers.packaged import load_machine
from tests.helpers.refusals import command, has_passages, line_of
from tests.helpers.wings import needs_wing

Row = dict[str, Any]
SOURCES = Path(__file__).parents[2] / "src"
COMMANDS = ("check", "simulate", "run", "show")
CHANGES = ("edit", "call", "text", "words", "set", "parameters", "launch")  # by the first of which a row is called
KEYS = {
    *("verb", "launch", "text", "set", "words", "edit", "file", "at", "line", "call", "machine", "parameters"),
    *("place", "says", "code", "files", "given", "error", "needs", "wing"),
}
SUBJECT = re.compile(r"(machine|program) \w+(: |, (?!constraint))")  # before what is said of a line of a module


def rows() -> Iterator[Any]:
    """Every row with what its group and its table share, called by its table, its verb and its change."""
    for table in sorted(Path(__file__).parent.glob("*.toml")):
        found = tomllib.loads(table.read_text("utf-8"))
        for group in found["groups"]:
            shared = {key: value for key, value in group.items() if key != "rows"}
            for row in (shared | each for each in group["rows"]):
                assert row.keys() <= KEYS, row
                assert row["says"], row
                change = next(str(row[key]) for key in CHANGES if key in row)
                for verb in words_of(row["verb"]):
                    called = f"{table.stem} {verb}: {change[:80]}"
                    marks = [needs_wing(row["wing"])] if "wing" in row else []
                    whole = row | {"files": found.get("files", {}), "verb": verb}
                    yield pytest.param(table, whole, id=called, marks=marks)


def words_of(given: str | list[str]) -> list[str]:
    """The words of a command line."""
    return given.split() if isinstance(given, str) else given


def overrides(row: Row) -> list[str]:
    """What follows --set."""
    given = row.get("set", [])
    return [given] if isinstance(given, str) else given


def edited(row: Row) -> tuple[str, int]:
    """The text of the changed file, and the line that is to be named."""
    good, (old, _, new) = row["files"][row["file"]], row["edit"].partition(" -> ")
    assert good.count(old) == 1, f"{old!r} does not stand once in {row['file']}"
    bad = good.replace(old, new)
    if "at" in row:
        return bad, 1 + bad[: bad.index(row["at"])].count("\n")
    lines = zip(good.splitlines(), bad.splitlines(), strict=False)
    return bad, next(n for n, (before, after) in enumerate(lines, 1) if before != after)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below the folder but byte code."""
    files = (each for each in folder.rglob("*") if each.is_file() and "__pycache__" not in each.parts)
    return {str(each.relative_to(folder)): each.read_bytes() for each in files}


def of_command(row: Row) -> str:
    """The line with which a command ends."""
    words = words_of(row.get("words", []))
    if row["verb"] in COMMANDS:
        words = [row["verb"], row["launch"], *words, *(word for each in overrides(row) for word in ("--set", each))]
    return line_of(command(*words), row.get("code", 2))


def of_load(row: Row) -> str:
    """The text of a launch file's error, whose section and key are those of the place."""
    with pytest.raises(LaunchError) as caught:
        resolve(read_launch(row["launch"], overrides(row)))
    error = caught.value
    assert error.exit_code == row.get("code", 2)
    if row.get("place", "").startswith("["):
        named = " ".join(part for part in (error.section and f"[{error.section}]", error.key) if part)
        assert row["place"] == named.replace("\n", r"\n").replace("\0", r"\x00")
    return str(error)


def of_machine(row: Row) -> str:
    """The text of the error of a machine with these parameters, each called by its name."""
    ((name, value),) = row["parameters"].items()
    with pytest.raises(ParameterError) as caught:
        load_machine(row["machine"], {name: value}, {})
    assert caught.value.name == name
    return str(caught.value)


@cache
def called(table: Path) -> tuple[dict[str, Callable[[], None]], TemporaryDirectory[str]]:
    """A user's file with a function for each call of the table, in a folder of its own."""
    found = tomllib.loads(table.read_text("utf-8"))
    calls = [row["call"] for group in found["groups"] for row in group["rows"] if "call" in row]
    folder = TemporaryDirectory()
    file, text, names = Path(folder.name, "user.py"), found["files"]["user.py"], dict[str, Any]()
    text += "".join(f"\n\ndef call_{i}():\n    {call}\n" for i, call in enumerate(calls))
    file.write_text(text)
    exec(compile(text, str(file), "exec"), names)  # noqa: S102  (a user's file)
    return {call: names[f"call_{i}"] for i, call in enumerate(calls)}, folder


def of_python(table: Path, row: Row) -> str:
    """The last line of the traceback, which shows the call and no other error."""
    with pytest.raises(Exception) as caught:  # whichever it is, its text counts
        called(table)[0][row["call"]]()
    error = caught.value
    assert error.__traceback__ is not None
    shown = "".join(traceback.format_exception(error.with_traceback(error.__traceback__.tb_next)))
    assert shown.count("Traceback (most recent call last)") == 1, shown
    assert "During handling" not in shown
    assert "direct cause" not in shown
    assert row["call"].replace(" ", "") in shown.replace(" ", "").replace("\n", "")
    if isinstance(error, ServonodeError):
        assert error.exit_code == row.get("code", 2)
    return shown.strip().splitlines()[-1]


@cache
def given_names(given: str) -> dict[str, Any]:
    """What these statements name."""
    names = dict[str, Any]()
    exec(given, names)  # noqa: S102  (of a table of tests)
    return names


def of_inside(row: Row) -> str:
    """The text of what the call raises, whose class is the row's."""
    names = dict(given_names(row["given"]))
    with pytest.raises(Exception) as caught:  # which it is, is compared
        exec(row["call"], names)  # noqa: S102  (likewise)
    assert row["error"] in [each.__name__ for each in type(caught.value).__mro__], repr(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("table", "row"), list(rows()))
def test_what_is_refused_is_one_line_with_its_remedy(
    table: Path, row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec(row.get("needs", "servonode")) is None:
        pytest.skip(f"needs {row['needs']}")
    files, line = dict(row["files"]), 0
    if "edit" in row:
        files[row["file"]], line = edited(row)
    if "text" in row:
        files["a.toml"], row["launch"] = row["text"], "a.toml"
    for name, text in files.items():
        Path(tmp_path, name).write_text(text, "utf-8")
    folder = Path(called(table)[1].name) if row["verb"] == "python" else tmp_path
    monkeypatch.chdir(folder)
    before = contents(folder)
    answers: dict[str, Callable[[], str]] = {
        "load": lambda: of_load(row), "machine": lambda: of_machine(row), "python": lambda: of_python(table, row),
        "inside": lambda: of_inside(row),
    }  # fmt: skip
    answer = answers.get(row["verb"], lambda: of_command(row))()
    assert contents(folder) == before
    assert answer.isprintable()
    assert len(answer) < 2000
    begin, says = "", row["says"]
    if "place" in row:
        begin = " ".join(filter(None, (row.get("launch"), row["place"]))) + ": "
    if module := row.get("file", "").endswith(".py") and row.get("line", True):
        begin += f"{row['file']} line {line}: "
    assert answer.startswith(begin), f"{answer} -- instead of {begin}"
    said = answer.removeprefix(begin)
    if module and not SUBJECT.match(says):
        said = SUBJECT.sub("", said, count=1)
    anywhere = not begin or says.startswith("... ")
    assert has_passages(said, f" ... {says.removeprefix('... ')}" if anywhere else says), answer


def test_no_row_is_there_twice() -> None:
    seen = [f"{each.values[0]} { ({**each.values[1], 'files': 0}) }" for each in rows()]
    assert len(set(seen)) == len(seen)
