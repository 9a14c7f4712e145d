"""The table of promises in tests/safety/README.md: numbered without gaps, each with tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "tests/safety/README.md").read_text("utf-8")
ROWS = {int(n): tests for n, tests in re.findall(r"^\| (\d+) \|.*\|(.*)\|$", PAGE, re.MULTILINE)}
SUITE = "tests/soak/suite.py"


def promised(file: Path) -> set[int]:
    """The numbers of promises that the tests of a file have in their names."""
    names = re.findall(r"def test_promises?_(\d\d(?:_and_\d\d)*)_", file.read_text("utf-8"))
    return {int(number) for name in names for number in name.split("_and_")}


def files(tests: str) -> list[Path]:
    """The test files that a row of the table names."""
    named = re.findall(r"`([\w/]+\.py)`", tests)
    return [ROOT / (each if "/" in each else f"tests/safety/{each}") for each in named]


def test_the_promises_are_numbered_without_gaps() -> None:
    assert list(ROWS) == list(range(1, len(ROWS) + 1))
    assert len(ROWS) == 29


def test_the_suite_has_tests_of_the_promises_that_the_table_says_it_has() -> None:
    said = {number for number, tests in ROWS.items() if "suite" in tests and "every driver" not in tests}
    assert {number for number in said if f"suite {number:02d}" not in ROWS[number]} == set()
    assert promised(ROOT / SUITE) == said


def test_the_page_lists_the_promises_that_the_suite_has_no_test_of() -> None:
    text = re.search(r"The other promises, ([\d, to and]+), do not depend", " ".join(PAGE.split()))
    assert text is not None
    listed: set[int] = set()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", text[1]):
        listed |= set(range(int(first), int(last or first) + 1))
    assert listed == ROWS.keys() - promised(ROOT / SUITE)


@pytest.mark.parametrize("number", ROWS)
def test_every_promise_has_a_test_and_every_file_it_names_is_there(number: int) -> None:
    named = files(ROWS[number])
    assert [str(each) for each in named if not each.is_file()] == []
    assert number in promised(ROOT / SUITE) or any("def test_" in each.read_text("utf-8") for each in named)


def test_no_test_keeps_a_promise_that_is_not_in_the_table() -> None:
    kept = {number for file in (ROOT / "tests").rglob("*.py") for number in promised(file)}
    assert kept <= ROWS.keys()
