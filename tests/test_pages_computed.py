"""Pages that compute, followed word for word: files are written, commands typed, outputs compared."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.followed import DOCS, Done, Page, check

Follow = Callable[[str], tuple[Path, list[Done]]]
pytestmark = pytest.mark.slow  # a dozen machines and laws are derived and compiled
PAGES = {
    "own_machine": Page("tutorials/own_machine.md", installs=1),
    "unreachable_goals": Page("tutorials/unreachable_goals.md"),
    "own_laws": Page("how_to/own_laws.md"),
    "stable_inversion": Page("how_to/stable_inversion.md"),
    "extended": Page("systems/extended.md"),
}
FILES = {
    "own_machine": ["car.py", "car.toml", "nose.py", "eight.toml", "changes.py", "look.py"],
    "unreachable_goals": ["crane.py", "crane.toml"],
    "own_laws": ["pendulum.py", "last.py", "pid.py", "pid.toml", "observer.py", "observer.toml", "swing_up.py",
                 "swing_up.toml", "cascade.py", "cascade.toml"],
}  # fmt: skip
LEAST = {"own_machine": 12, "unreachable_goals": 7, "own_laws": 5}  # steps
STEPS = [(name, number) for name, page in PAGES.items() for number in range(len(page.steps))]
EXAMPLES = DOCS.parent / "examples"


@pytest.fixture(scope="module")
def follow(tmp_path_factory: pytest.TempPathFactory) -> Follow:
    """The reader's folder and all steps of a page, done in its order; each page once."""

    @cache
    def follow(name: str) -> tuple[Path, list[Done]]:
        folder = tmp_path_factory.mktemp(name)
        return folder, PAGES[name].follow(folder, tmp_path_factory.mktemp("bin"))

    return follow


@pytest.mark.parametrize(("name", "number"), STEPS, ids=[f"{name}: {PAGES[name].names[n]}" for name, n in STEPS])
def test_a_step_does_what_its_page_prints(follow: Follow, name: str, number: int) -> None:
    check(PAGES[name].steps[number], follow(name)[1][number])


@pytest.mark.parametrize("name", FILES)
def test_a_page_has_its_files_and_steps(name: str) -> None:
    assert list(PAGES[name].files) == FILES[name]
    assert len(PAGES[name].steps) >= LEAST[name]


@pytest.mark.parametrize("piece", PAGES["own_machine"].pieces)
def test_a_piece_is_part_of_a_file_of_the_page(piece: str) -> None:
    assert len(PAGES["own_machine"].pieces) >= 5
    assert any(f"\n{piece}\n" in text for text in PAGES["own_machine"].files.values())


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("own_machine", "car.png", b"\x89PNG"),
        ("own_machine", "tutorial_car.png", b"\x89PNG"),
        ("own_machine", "car.tex", b"\\begin{document}"),
        ("own_machine", "car.c", b"#include <math.h>"),
        ("unreachable_goals", "crane.txt", b"demanded_M_w"),
        ("unreachable_goals", "crane.c", b"#include <math.h>"),
    ],
)
def test_commands_leave_the_files_of_the_page(follow: Follow, name: str, file: str, text: bytes) -> None:
    assert text in (follow(name)[0] / file).read_bytes()


def test_the_tutorial_shows_a_small_picture() -> None:
    page = PAGES["own_machine"].path
    (name,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text("utf-8"))
    assert (page.parent / name).stat().st_size < 250_000


@pytest.mark.parametrize(
    "name", ["inverted_pendulum/cart_pendulum.py", "inverted_pendulum/cart.toml", "reversing.toml"]
)
def test_the_page_on_stable_inversion_shows_the_examples_files(name: str) -> None:
    assert PAGES["stable_inversion"].files[name.rpartition("/")[2]] == (EXAMPLES / name).read_text("utf-8")
