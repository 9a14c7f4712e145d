"""docs/tutorials/unreachable_goals.md: its files are written, its commands typed, its output compared."""

from pathlib import Path

import pytest

from tests.helpers.followed import Done, Page, check

pytestmark = pytest.mark.slow  # a machine and two laws are derived and compiled
PAGE = Page("tutorials/unreachable_goals.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder."""
    return tmp_path_factory.mktemp("crane")


@pytest.fixture(scope="module")
def followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """All steps, done in the page's order."""
    return PAGE.follow(folder, tmp_path_factory.mktemp("bin"))


def test_the_page_has_files_and_steps() -> None:
    assert list(PAGE.files) == ["crane.py", "crane.toml"]
    assert len(PAGE.steps) == 7


@pytest.mark.parametrize("number", range(len(PAGE.steps)), ids=PAGE.names)
def test_a_step_does_what_the_page_prints(followed: list[Done], number: int) -> None:
    check(PAGE.steps[number], followed[number])


def test_the_law_is_written_as_text_and_as_c(followed: list[Done], folder: Path) -> None:
    assert "demanded_M_w" in (folder / "crane.txt").read_text("utf-8")
    assert "#include <math.h>" in (folder / "crane.c").read_text("utf-8")
