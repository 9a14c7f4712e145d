"""docs/validation/gallery.md: everything is in it, its links lead somewhere, and its numbers are those of the runs."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import servonode
from servonode.closed_loop.launch_file import packaged

DOCS = Path(__file__).parents[1] / "docs" / "validation"
LARGEST, ALL = 200_000, 4_500_000  # bytes of a picture in all its colours, of all


@pytest.fixture(scope="module")
def page() -> str:
    return (DOCS / "gallery.md").read_text("utf-8")


def checked(*names: str) -> str:
    """What differs between the page and the numbers of now."""
    command = [sys.executable, str(DOCS / "gallery.py"), "--check", *names]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode in (0, 1), result.stderr
    return result.stdout


def mode(file: Path) -> str:
    with Image.open(file) as image:
        return str(image.mode)


def entries(page: str) -> list[str]:
    return re.findall(r"<!-- entry: (\S+) -->", page)


def test_residuals_in_pictures_of_the_hoop_have_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    hoop = importlib.import_module("gallery_entries.hoop")
    rolled = servonode.simulate("hoop_decay", run__duration=0.01)
    (sizes,) = hoop.draw_sizes(dict.fromkeys((1.0, 10.0, 100.0), rolled)).axes
    assert sizes.get_title(loc="left") == "largest size of each residual in 10 s [m, J, m/s]".replace(", ", ",\u00a0")
    first, _ = hoop.draw_decay({10.0: rolled, 100.0: rolled}).axes
    assert first.get_ylabel().endswith("[m,\u00a0J,\u00a0m/s]")
    _, contact = hoop.draw_unstabilised(rolled, rolled).axes
    assert contact.get_title(loc="left").endswith("[m]")


def test_every_packaged_launch_file_is_in_it(page: str) -> None:
    names = packaged() | packaged(robots=True)
    assert [name for name in names if f"](../../src/servonode/launch/{name}.toml)" not in page] == []


def test_all_entries_of_the_command_are_in_it_and_no_others(page: str) -> None:
    listed = subprocess.run(
        [sys.executable, str(DOCS / "gallery.py"), "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert sorted(entries(page)) == sorted(listed)


def test_no_heading_stands_twice(page: str) -> None:
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    assert len(set(headings)) == len(headings)


def test_the_pictures_are_those_of_the_page_and_small(page: str) -> None:
    files = list((DOCS.parent / "images" / "gallery").glob("*.png"))
    assert {each.name for each in files} == set(re.findall(r"\]\(../images/gallery/([^)]+)\)", page))
    assert {mode(each) for each in files} == {"RGB"}  # no palette, in which an arrow takes the colour of a path
    assert max(each.stat().st_size for each in files) <= LARGEST
    assert sum(each.stat().st_size for each in files) <= ALL


def test_the_commands_name_packaged_launch_files(page: str) -> None:
    commands = re.findall(r"^servonode (?:run|simulate|check) (\S+)", page, re.MULTILINE)
    assert len(commands) > 30
    assert set(commands) <= packaged().keys() | packaged(robots=True).keys()


def test_the_numbers_of_an_entry_are_those_of_its_runs() -> None:
    assert checked("ball_circle") == ""


@pytest.mark.slow
def test_all_numbers_are_those_of_the_runs() -> None:
    assert checked() == ""


def test_a_number_that_is_another_one_is_found(tmp_path: Path, page: str) -> None:
    copy = tmp_path / "docs"
    (copy / "gallery_entries").mkdir(parents=True)
    for file in (DOCS / "gallery.py", *(DOCS / "gallery_entries").glob("*.py")):
        (copy / file.relative_to(DOCS)).write_text(file.read_text("utf-8"), "utf-8")
    assert "−0.262" in page
    (copy / "gallery.md").write_text(page.replace("−0.262", "−0.263"), "utf-8")
    command = [sys.executable, str(copy / "gallery.py"), "--check", "theory_lyapunov"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "+| largest real part of the roots [1/s] | negative | −0.262 |" in result.stdout
