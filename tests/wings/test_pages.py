"""What the pages with commands say: steps, files, pieces and numbers are those of what the soak follows."""

import re
from pathlib import Path

import pytest

from servonode.mechanics import discrete
from tests.helpers.followed import DOCS, Page
from tests.soak.test_pages import HOW_TO, OUTSIDE, ROOT, how_tos, page_of

# what the pages say


def test_what_is_not_typed_stands_on_a_page() -> None:
    texts = [(DOCS / f"{name}.md").read_text("utf-8") for name in how_tos()]
    assert [each for each in OUTSIDE if not any(f"\n{each}\n" in text for text in texts)] == []


COUNTS = {  # the steps and files of pages
    "tutorials/first_run": (6, 0),
    "tutorials/first_robot": (33, 0),
    "tutorials/own_machine": (9, 1),
    "systems/extended": (8, 0),
    "reference/python": (6, 6),
    "how_to/own_laws": (8, 2),
}

PIECES = ("tutorials/own_machine", "how_to/own_laws", "how_to/extend")  # pages that show parts of files of examples/


def test_a_page_has_its_steps_and_files() -> None:
    pages = {name: page_of(name) for name in COUNTS}
    assert {name: (len(page.steps), len(page.files)) for name, page in pages.items()} == COUNTS


@pytest.mark.parametrize("name", [*how_tos(), *(each for each in COUNTS if not each.startswith("how_to/"))])
def test_nothing_of_a_page_stands_outside_what_is_followed(name: str) -> None:
    text, page = (DOCS / f"{name}.md").read_text("utf-8"), Page(f"{name}.md")
    assert name in PIECES or page.pieces == []  # whose pieces have a test of their own below
    typed = "\n".join(command for step in page.steps for command in step.commands)
    others = "\n".join(page.files.values())
    unused = [each for each in page.files if each.endswith((".py", ".toml")) and Path(each).stem not in typed + others]
    assert unused == []
    assert not re.search(r"^```(bash|shell)$", text, re.MULTILINE)
    shown = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [each for each in shown if re.search(r"^\$ ", each, re.MULTILINE)] == []
    if not name.startswith("how_to/"):
        return
    first = text.split("\n## ")[0]
    assert "**You get**" in first
    assert "**You need**" in first.replace("\n", " ")


def test_the_pieces_of_pages_are_parts_of_the_examples_and_the_picture_of_the_tutorial_is_small() -> None:
    for name in PIECES:
        files = [each.read_text("utf-8") for each in (ROOT / "examples").glob("*/*.py")]
        page = page_of(name)
        assert len(page.pieces) >= 4
        assert [each for each in page.pieces if not any(f"\n{each}\n" in text for text in files)] == []
    tutorial = page_of("tutorials/own_machine").path
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", tutorial.read_text("utf-8"))
    assert (tutorial.parent / picture).stat().st_size < 250_000


def test_every_row_that_a_run_prints_is_explained() -> None:
    page = page_of("tutorials/first_run")
    rows = re.compile(r"^  (?:plant |controller )? *([a-z][a-z ]*?)(?: \[ms\])?  ", re.MULTILINE)
    printed = set(rows.findall(page.steps[0].printed or ""))
    assert len(printed) >= 9
    assert printed <= set(re.findall(r"^\* `([^`]+)`: ", page.path.read_text("utf-8"), re.MULTILINE))


def test_the_limits_that_tuning_prints_are_those_of_the_sampled_law() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| (.*) \|$", (HOW_TO / "many_runs.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 4
    for delay, numbers in rows:
        found = []
        for relative_degree in (1, 2):
            found += [discrete.limit(relative_degree, float(delay)), discrete.best(relative_degree, float(delay))[0]]
        printed = [float(each) for each in numbers.split(" | ")]
        assert printed == pytest.approx(found, rel=2e-3)


def test_the_menu_names_every_how_to() -> None:
    menu = re.findall(r"^.+ <(how_to/\w+)>$", (DOCS / "index.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(menu) == how_tos()
