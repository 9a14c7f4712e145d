"""Tables and pictures of docs/systems: all are there, links lead somewhere, numbers are those of runs."""

import importlib
import io
import re
import runpy
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import matplotlib as mpl
import pytest
from PIL import Image

import servonode
from servonode.closed_loop.launch_file import packaged

DOCS = Path(__file__).parents[1] / "docs"
GALLERY = DOCS / "validation"
PAGES = {file.stem: file.read_text("utf-8") for file in (DOCS / "systems").glob("*.md")}
TEXT = "\n".join(PAGES.values())
LARGEST, ALL = 200_000, 4_500_000  # bytes of a picture in all its colours, of all


def printed(*arguments: str, script: Path = GALLERY / "gallery.py") -> str:
    """What the script prints, which is what differs where it checks."""
    said, code = io.StringIO(), None
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context(), redirect_stdout(said), redirect_stderr(io.StringIO()):
        patch.syspath_prepend(str(GALLERY))
        patch.setattr(sys, "argv", [str(script), *arguments])
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    assert int(code or 0) == int("--check" in arguments and bool(said.getvalue()))
    return said.getvalue()


def mode(file: Path) -> str:
    with Image.open(file) as image:
        return str(image.mode)


@pytest.mark.slow
def test_residuals_in_pictures_of_the_hoop_have_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(GALLERY))
    hoop = importlib.import_module("gallery_entries.hoop")
    rolled = servonode.simulate("hoop_decay", run__duration=0.01)
    (sizes,) = hoop.draw_sizes(dict.fromkeys((1.0, 10.0, 100.0), rolled)).axes
    assert sizes.get_title(loc="left") == "largest size of each residual in 10 s [m, J, m/s]".replace(", ", ",\u00a0")
    first, _ = hoop.draw_decay({10.0: rolled, 100.0: rolled}).axes
    assert first.get_ylabel().endswith("[m,\u00a0J,\u00a0m/s]")
    _, contact = hoop.draw_unstabilised(rolled, rolled).axes
    assert contact.get_title(loc="left").endswith("[m]")


def test_every_packaged_launch_file_is_linked_from_a_machines_page() -> None:
    names = packaged() | packaged(robots=True)
    assert [name for name in names if f"](../../src/servonode/launch/{name}.toml)" not in TEXT] == []


def test_all_entries_of_the_command_are_shown_and_no_others() -> None:
    names = set(printed("--list").split())
    assert len(names) > 50
    tables = re.findall(r"<!-- computed: (\S+) -->\n\n\| .*?<!-- end -->", TEXT, re.DOTALL)
    assert len(tables) > 15
    assert len(set(tables)) == len(tables)
    assert set(tables) <= names
    shown = re.findall(r"\]\(\.\./images/gallery/(\w+)\.png\)", TEXT)
    assert names - set(tables) <= set(shown)


def test_every_section_with_a_figure_of_a_paper_is_in_the_gallery() -> None:
    listed = set(re.findall(r"\]\((\w+)\.md#([^)]+)\)", PAGES["index"]))
    missing = []
    for page, text in PAGES.items():
        for section in re.split(r"^#+ ", text, flags=re.M):
            if re.search(r"^!\[.+\]\(\.\./images/gallery/\w+\.png\)", section, re.M):
                heading = section.splitlines()[0].lower()
                anchor = re.sub(r"[^\w -]", "", heading).replace(" ", "-")
                missing += [] if (page, anchor) in listed else [(page, anchor)]
    assert len(listed) > 15
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_no_heading_stands_twice_on_a_page(page: str) -> None:
    headings = re.findall(r"^#+ (.*)$", PAGES[page], re.MULTILINE)
    assert len(set(headings)) == len(headings)


def test_the_pictures_are_those_of_the_pages_and_small() -> None:
    files = list((DOCS / "images" / "gallery").glob("*.png"))
    assert {each.name for each in files} == set(re.findall(r"\]\(\.\./images/gallery/([^)]+)\)", TEXT))
    assert {mode(each) for each in files} == {"RGB"}  # no palette, in which an arrow takes the colour of a path
    assert max(each.stat().st_size for each in files) <= LARGEST
    assert sum(each.stat().st_size for each in files) <= ALL


def test_the_commands_name_packaged_launch_files() -> None:
    commands = re.findall(r"^servonode (?:run|simulate|check) (\w+) ", TEXT, re.MULTILINE)
    assert len(commands) > 10
    assert set(commands) <= packaged().keys() | packaged(robots=True).keys()


def test_the_numbers_of_an_entry_are_those_of_its_runs() -> None:
    assert printed("--check", "ball_circle") == ""


@pytest.mark.soak
def test_all_numbers_are_those_of_the_runs() -> None:
    assert printed("--check") == ""


@pytest.mark.slow
def test_a_number_that_is_another_one_is_found_and_computed_anew(tmp_path: Path) -> None:
    script, page = tmp_path / "validation" / "gallery.py", tmp_path / "systems" / "trailer.md"
    script.parent.mkdir()
    shutil.copy(GALLERY / "gallery.py", script)
    right = PAGES["diff_drive_trailer"]
    assert "−0.262" in right
    page.parent.mkdir()
    page.write_text(right.replace("−0.262", "−0.263"), "utf-8")
    assert "+| largest real part of the roots [1/s] | negative | −0.262 |" in printed(
        "--check", "theory_lyapunov", script=script
    )
    printed("theory_lyapunov", script=script)
    assert page.read_text("utf-8") == right
    assert (tmp_path / "images" / "gallery" / "theory_lyapunov.png").is_file()
