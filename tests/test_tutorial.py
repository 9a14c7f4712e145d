"""docs/tutorials/own_machine.md: its files are written, its commands typed, its output compared."""

import re
from pathlib import Path

import pytest

from tests.helpers.followed import Done, Page, check

pytestmark = pytest.mark.slow  # deriving and compiling everything that the page does takes a minute
PAGE = Page("tutorials/own_machine.md", installs=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder."""
    return tmp_path_factory.mktemp("tutorial")


@pytest.fixture(scope="module")
def followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """All steps, done in the page's order."""
    return PAGE.follow(folder, tmp_path_factory.mktemp("bin"))


def test_the_page_has_files_pieces_and_steps() -> None:
    assert list(PAGE.files) == ["car.py", "car.toml", "nose.py", "eight.toml", "changes.py", "look.py"]
    assert len(PAGE.pieces) >= 5
    assert len(PAGE.steps) >= 12


@pytest.mark.parametrize("piece", PAGE.pieces)
def test_a_piece_is_part_of_a_file_of_the_page(piece: str) -> None:
    assert any(f"\n{piece}\n" in text for text in PAGE.files.values())


@pytest.mark.parametrize("number", range(len(PAGE.steps)), ids=PAGE.names)
def test_a_step_does_what_the_page_prints(followed: list[Done], number: int) -> None:
    check(PAGE.steps[number], followed[number])


@pytest.mark.parametrize("picture", ["car.png", "tutorial_car.png"])
def test_the_runs_leave_pictures(followed: list[Done], folder: Path, picture: str) -> None:
    assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_the_equations_are_written_as_a_document_and_as_c(followed: list[Done], folder: Path) -> None:
    assert "\\begin{document}" in (folder / "car.tex").read_text("utf-8")
    assert "#include <math.h>" in (folder / "car.c").read_text("utf-8")


def test_the_page_shows_a_small_picture() -> None:
    (name,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.path.read_text("utf-8"))
    assert (PAGE.path.parent / name).stat().st_size < 250_000
