"""The links of Markdown pages: to files of the project, and to their headings."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
INLINE, NAMED = re.compile(r"\]\(([^)\s]+)\)"), re.compile(r"^\[[^\]]+\]: (\S+)", re.MULTILINE)
PROJECT = re.compile(
    r"https://(?:raw\.githubusercontent\.com/servonode/servonode|github\.com/servonode/servonode/(?:blob|tree))/main/"
)


def links_of(page: Path) -> list[str]:
    """All addresses on a page."""
    text = page.read_text("utf-8")
    return INLINE.findall(text) + NAMED.findall(text)


def broken_links(page: Path) -> Iterator[str]:
    """The links of a page to files or headings of the project that are not there."""
    for link in links_of(page):
        address, _, heading = link.partition("#")
        within = PROJECT.match(address)
        if ":" in address and not within:
            continue
        file = (ROOT / address[within.end() :] if within else page.parent / address) if address else page
        if not file.exists() or (heading and file.suffix == ".md" and heading not in headings(file)):
            yield link


@cache
def headings(page: Path) -> set[str]:
    """What a fragment may name: the headings of a page."""
    found = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in found}
