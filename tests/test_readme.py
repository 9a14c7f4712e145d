"""README.md: its machine runs, what it quotes is printed, and its links lead somewhere."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from tests.helpers.links import broken_links, links_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
RAW = "https://raw.githubusercontent.com/servonode/servonode/main/"
BLOB = "https://github.com/servonode/servonode/blob/main/"


def block(language: str) -> str:
    """The one block of this language in the README."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)
    return str(text)


def test_its_twelve_lines_print_and_draw_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(block("python"), "README.md", "exec"), names)  # noqa: S102  (the README's own)
    assert capsys.readouterr().out == block("text")
    assert (tmp_path / "arm.png").stat().st_size > 20_000
    assert np.abs(servonode.simulate(names["goal"]).residual["arm"]).max() < 1e-4


def test_links_of_the_readme_are_addresses() -> None:
    links = links_of(ROOT / "README.md")  # a package index has no files beside it
    assert len(links) > 25
    assert [each for each in links if not each.startswith(("https://", "#"))] == []


def test_every_link_of_every_page_leads_to_a_file_and_heading() -> None:
    hidden = ("_build", "node_modules")
    pages = [each for each in ROOT.rglob("*.md") if not any(p.startswith(".") or p in hidden for p in each.parts)]
    assert {ROOT / "CHANGELOG.md", ROOT / "docs/systems/index.md", ROOT / "firmware/README.md"} <= {*pages}
    assert [f"{page.relative_to(ROOT)}: {link}" for page in pages for link in broken_links(page)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A b\n[1](a.md) [2](b.md) [3](#a-b) [4](#c)\n[5]: " + f"{BLOB}no.md\n")
    assert list(broken_links(tmp_path / "a.md")) == ["b.md", "#c", f"{BLOB}no.md"]


def test_pictures_show_on_a_package_index() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    assert [each for each in pictures if not each.startswith((RAW, "https://img.shields.io/badge/"))] == []
