"""The version stands in one place, and what repeats it for others agrees."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from servonode.cli.main import main
from servonode.version import VERSION

ROOT = Path(__file__).parents[1]
CHANGES = (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_changelog_has_the_version_and_is_in_order() -> None:
    headings = re.findall(r"^## (.*)$", CHANGES, re.M)
    assert headings[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", each) for each in headings[1:]]
    assert all(released)
    numbers = [tuple(map(int, each.groups()[:3])) for each in released if each]
    assert numbers == sorted(numbers, reverse=True)
    assert ".".join(map(str, numbers[0])) == VERSION
    assert set(re.findall(r"^## \[([^\]]+)\]", CHANGES, re.M)) == set(
        re.findall(r"^\[([^\]]+)\]: https", CHANGES, re.M)
    )


def test_the_citation_is_of_this_version() -> None:
    yaml = pytest.importorskip("yaml", reason="needs yaml: uv sync --group release")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == VERSION
    assert f"## [{VERSION}] - {cited['date-released']}" in CHANGES
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert cited["license"] == project["license"]
    assert cited["repository-code"] == project["urls"]["Repository"]


def test_on_the_day_of_a_release_the_pages_install_from_the_index() -> None:
    names = runpy.run_path(str(ROOT / "packaging" / "release.py"))
    for page in names["PAGES"]:
        text = (ROOT / page).read_text("utf-8")
        assert names["CLONE"] in text, page
        assert "pip install servonode" not in text, f"{page}: the package is not on the index"
        changed = names["from_index"](text)
        assert "git clone" not in changed
        assert re.search(r"^```sh\n(python3 .*\n)?pip install servonode\n", changed, re.M)
        assert "not on the package index" not in changed
        assert names["from_index"](changed) == changed


def test_the_changelog_counts_what_there_is() -> None:
    listed = json.loads(CliRunner().invoke(main, ["list", "programs", "--json"]).stdout)
    programs = sum(map(len, listed.values()))
    assert f"- {programs} programs for the six machines" in CHANGES
