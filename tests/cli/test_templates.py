"""`servonode new`: what it writes runs as it is, with the very command that it prints."""

import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from servonode.cli.create import COPIES, copy
from tests.helpers.links import broken_links
from tests.helpers.refusals import command, refused_command

MADE = {"machine": ["toml"], "machine --python": ["py", "toml"], "program": ["py", "toml"], "run": ["toml"]}
every_kind = pytest.mark.parametrize("kind", MADE)


def servonode(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "servonode.cli.main", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@every_kind
def test_nothing_of_the_template_is_left_in_the_files(tmp_path: Path, kind: str) -> None:
    assert servonode(tmp_path, "new", *kind.split(), "crab").returncode == 0
    for file in tmp_path.iterdir():
        text = file.read_text("utf-8")
        assert "crab" in text
        assert not re.search(r"\bNAME\b", text)
        assert max(map(len, text.splitlines())) <= 120


def test_every_template_names_what_it_is_filled_with() -> None:
    for template in files("servonode.cli.templates").iterdir():
        if template.name.endswith((".py", ".toml")) and template.name != "__init__.py":
            assert re.search(r"\bNAME\b", template.read_text("utf-8")), template.name


@pytest.mark.parametrize("name", ["2fast", "my-crab", "../crab", "cr ab", "käfer", "", "_", "crab.py"])
def test_new_refuses_what_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert "use ASCII letters, digits and _, beginning with a letter" in refused_command("new", "machine", name)
    assert not list(tmp_path.iterdir())


@every_kind
def test_what_is_made_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("new", *kind.split(), "crab").exit_code == 0
    run = command("simulate", "crab.toml", "--set", "run.duration=2")
    assert run.exit_code == 0, run.stderr
    assert run.stdout.startswith("crab: completed after 2.000 s of plant time")


@every_kind
def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    last = tmp_path / f"crab.{MADE[kind][-1]}"
    last.write_text("mine")
    line = refused_command("new", *kind.split(), "crab")
    assert line.endswith(f"{last.name} exists already; choose another name, or move the file away")
    assert last.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [last]


@pytest.mark.parametrize(
    ("kind", "file"),
    [("examples", "segway/place.toml"), ("launch", "trailer_pursuit_serial.toml"), ("firmware", "device.c")],
)
def test_examples_and_firmware_are_copied_into_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    made = command("new", kind, "mine")
    assert (made.exit_code, made.stdout) == (0, "wrote mine\n")
    assert (tmp_path / "mine" / file).read_bytes() == (Path(__file__).parents[2] / kind / file).read_bytes()
    assert refused_command("new", kind, "mine") == "mine is there already; choose another name, or move it away"


@pytest.mark.parametrize("kind", COPIES)
def test_a_link_in_what_is_copied_leads_somewhere_from_there(tmp_path: Path, kind: str) -> None:
    """To a file of the copy, or to one of the project, at its heading."""
    made = copy(kind, tmp_path / "mine")
    pages = list(made.rglob("*.md"))
    assert bool(pages) == (kind == "firmware")
    assert [link for page in pages for link in broken_links(page)] == []
