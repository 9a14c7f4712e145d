"""Times that a page prints of a run do not go back: tests that follow a page do not compare them."""

import re
from pathlib import Path

import pytest

from tests.helpers.followed import DOCS, Page

NOW = re.compile(
    r"^\S+ (?P<bar>\d+\.\d)/[\d.]+ s  |^  plant +[a-z]+ .* t = (?P<status>[\d.]+) s"
    r"|after (?P<end>[\d.]+) s of plant time|: paused at t = (?P<paused>[\d.]+) s"
)
PAST = re.compile(r"at t = ([\d.]+) s")
ROUNDED = 0.05  # s; the bar of a run has one digit after the point
PAGES = sorted(
    str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md") if "**Terminal 2**" in file.read_text("utf-8")
)


def backwards(page: Page) -> list[str]:
    """Lines of runs whose time is less than that of a line before, or that tell of what comes later."""
    wrong, now = [], 0.0
    for step in page.steps:
        if any(verb in command for command in step.commands for verb in ("servonode run", "servonode simulate")):
            now = 0.0
        for line in step.lines:
            if found := NOW.search(line):
                t = float(next(value for value in found.groups() if value))
                wrong += [line] * (t < now - ROUNDED)
                now = max(now, t)
            wrong += [line for t in PAST.findall(line) if float(t) > now + ROUNDED]
    return wrong


def test_the_pages_with_terminals_are_read() -> None:
    assert "tutorials/first_robot.md" in PAGES


@pytest.mark.parametrize("name", PAGES)
def test_no_time_of_a_page_goes_back(name: str) -> None:
    assert backwards(Page(name)) == []


@pytest.mark.parametrize(
    "line", ["x 1.0/9 s  FAULT", "  plant  active   t = 1.500 s   process 1", "  fault at t = 3.0 s"]
)
def test_a_time_that_goes_back_is_found(line: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"## A run\n\n```sh\nservonode run x\n```\n\n```text\nx 2.0/9 s  1x\n{line}\n```\n")
    assert backwards(Page(str(page))) == [line]
