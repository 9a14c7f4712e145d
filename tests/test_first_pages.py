"""docs/tutorials/first_run.md and docs/tutorials/faults.md: what they say is typed, killed, reset and compared."""

import re
from pathlib import Path

import pytest

from tests.helpers.followed import Done, Page, check

pytestmark = pytest.mark.slow  # runs in real time
PAGES = {"first_run": Page("tutorials/first_run.md", installs=1), "faults": Page("tutorials/faults.md")}
STEPS = [(name, number) for name, page in PAGES.items() for number in range(len(page.steps))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder."""
    return tmp_path_factory.mktemp("first_pages")


@pytest.fixture(scope="module")
def followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Done]]:
    """All steps of both pages."""
    return {name: page.follow(folder, tmp_path_factory.mktemp("bin")) for name, page in PAGES.items()}


@pytest.mark.parametrize(
    ("name", "number"), STEPS, ids=[f"{name}: {PAGES[name].names[number]}" for name, number in STEPS]
)
def test_a_step_does_what_its_page_prints(followed: dict[str, list[Done]], name: str, number: int) -> None:
    check(PAGES[name].steps[number], followed[name][number])


@pytest.mark.parametrize("file", ["trailer_pursuit.png", "turn.png", "turn.csv", "compare.png", "short.html"])
def test_what_the_page_promises_lies_in_the_folder(followed: dict[str, list[Done]], folder: Path, file: str) -> None:
    assert (folder / file).stat().st_size > 10_000


def test_every_row_that_a_run_prints_is_explained() -> None:
    page = PAGES["first_run"]
    rows = re.compile(r"^  (?:plant |controller )? *([a-z][a-z ]*?)(?: \[ms\])?  ", re.MULTILINE)
    printed = set(rows.findall(page.steps[0].printed or ""))
    explained = set(re.findall(r"^\| `([^`]+)` \|", page.path.read_text("utf-8"), re.MULTILINE))
    assert len(printed) >= 9
    assert printed <= explained
