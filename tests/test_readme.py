"""README.md: its machine runs, what it quotes is printed, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import servonode
from tests.helpers.links import broken_links, links_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
RAW = "https://raw.githubusercontent.com/servonode/servonode/main/"
BLOB = "https://github.com/servonode/servonode/blob/main/"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the machine and the launch file of the README."""
    made = tmp_path_factory.mktemp("readme")
    for language, name in (("python", "arm.py"), ("toml", "arm.toml")):
        (text,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)
        (made / name).write_text(text, "utf-8")
    return made


def checked(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "servonode.cli.main", "check", "arm.toml", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_machine_of_the_readme_is_checked_as_it_says(folder: Path) -> None:
    done = checked(folder)
    assert done.returncode == 0, done.stderr
    (excerpt,) = re.findall(r"^```text\n(.*?)^```$", README, re.M | re.S)
    printed = done.stdout.splitlines()
    places = [printed.index(line) for line in excerpt.splitlines()]
    assert places == sorted(places)


def test_its_arm_stays_as_near_to_the_sine_as_it_says(folder: Path) -> None:
    run = servonode.simulate(folder / "arm.toml")
    stated = re.search(r"stays within (\S+) rad", README)
    assert stated is not None
    assert f"{np.abs(run.residual['arm']).max():.1e}" == f"{float(stated[1]):.1e}"


def test_a_low_rate_is_refused_with_the_one_that_works_as_it_says(folder: Path) -> None:
    assert "With `gains.lambda = 2.0`" in README
    done = checked(folder, "--set", "controller.gains.lambda=2.0")
    assert done.returncode == 1
    assert 'give controller.gains.lambda = "auto" (34.1 1/s), which reaches the goal' in done.stdout


def test_links_of_the_readme_are_addresses() -> None:
    links = links_of(ROOT / "README.md")  # a package index has no files beside it
    assert len(links) > 25
    assert [each for each in links if not each.startswith(("https://", "#"))] == []


def test_every_link_of_every_page_leads_to_a_file_and_heading() -> None:
    hidden = ("_build", "node_modules")
    pages = [each for each in ROOT.rglob("*.md") if not any(p.startswith(".") or p in hidden for p in each.parts)]
    assert {ROOT / "CHANGELOG.md", ROOT / "docs/validation/gallery.md", ROOT / "firmware/README.md"} <= {*pages}
    assert [f"{page.relative_to(ROOT)}: {link}" for page in pages for link in broken_links(page)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A b\n[1](a.md) [2](b.md) [3](#a-b) [4](#c)\n[5]: " + f"{BLOB}no.md\n")
    assert list(broken_links(tmp_path / "a.md")) == ["b.md", "#c", f"{BLOB}no.md"]


def test_pictures_show_on_a_package_index() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    assert [each for each in pictures if not each.startswith(RAW)] == []
