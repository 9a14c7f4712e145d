"""Exports and views of an installed package: used, listed for completion; broken and missing ones are one line."""

import re
import sys
from pathlib import Path

import pytest

from servonode.cli import complete
from servonode.extensions import ExtensionError
from servonode.views.run_view import RunView, drawing, endings, reporting, showing
from tests.helpers.packages import install_groups
from tests.helpers.recorded import recorded
from tests.helpers.refusals import command, refused_command
from tests.helpers.wings import wing

SOURCE = """
from pathlib import Path
from servonode.errors import NotInstalled
from servonode.export.exports import Export
from servonode.nodes.node_process import ProcessBeside
from servonode.views.run_view import RunView

def write(bag, closed_loop, file):
    file.write_text(bag.about["run"])
    return 1

def report(run, name, file):
    file.write_text(f"{name} {len(run.t)}")

def lacking():
    raise NotInstalled("it needs a lamp")

def drawn(bag, closed_loop):
    raise KeyError("no colour")

NAMES = Export("Write FILE.name.", write, ".name", "names")
TEXTS = Export("Print.", text=lambda closed_loop: "")
REPORT = RunView(endings=(".note",), report=report)
LAMP = RunView(check=lacking, beside=lambda name, port: ProcessBeside("lamp", ("true",)))
DRAWN = RunView(drawn=drawn)
VOID = RunView(beside=lambda name, port: None)
RAISES = RunView(beside=lambda name, port: 1 / 0)
UNREADY = RunView(check=lambda: 1 / 0, beside=lambda name, port: None)
"""
GROUPS = {
    "servonode.exports": {"names": "added_views:NAMES", "texts": "added_views:TEXTS", "lost": "added_lost:LOST"},
    "servonode.views": {"note": "added_views:REPORT", "lamp": "added_views:LAMP", "inked": "added_views:DRAWN"}
    | {word.lower(): f"added_views:{word}" for word in ("VOID", "RAISES", "UNREADY")},
}
SHORT = ("--set", "run.duration=0.1")
LOST = "package lost 1.0: its view 'lost' (added_lost:LOST) cannot be imported (ModuleNotFoundError"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, on the import path."""
    folder = install_groups(tmp_path / "site", "added", GROUPS, added_views=SOURCE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "added_views", raising=False)
    return folder


def test_a_report_whose_ending_another_package_has_is_written_by_it(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.note"
    assert command("simulate", "trailer_pursuit", "--report", str(file), *SHORT).exit_code == 0
    assert file.read_text().startswith("trailer_pursuit ")
    assert endings() == [".html"] * wing("web")
    assert "added_views" in sys.modules


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("void", "the view 'void' gives NoneType in place of a ProcessBeside; repair the package that adds it"),
        ("raises", "the view 'raises' fails (ZeroDivisionError: division by zero); repair the package that adds it"),
        ("unready", "the view 'unready' fails (ZeroDivisionError: division by zero); repair the package that adds it"),
    ],
)
def test_a_view_that_fails_is_one_line(name: str, text: str) -> None:
    with pytest.raises(ExtensionError, match=re.escape(text)):
        showing(name)("run", 0)


def test_endings_of_another_type_are_told_where_they_are_stated() -> None:
    with pytest.raises(ValueError, match="endings = None is no tuple of endings"):
        RunView(endings=None)  # type: ignore[arg-type]


def test_only_the_ending_of_an_unknown_report_asks_other_packages(installed: Path, tmp_path: Path) -> None:
    install_groups(installed, "lost", {"servonode.views": {"lost": "added_lost:LOST"}})
    if wing("web"):
        assert reporting(tmp_path / "a.HTM") is not None
        assert "added_views" not in sys.modules
    assert reporting(tmp_path / "a.note") is not None
    line = refused_command("simulate", "trailer_pursuit", "--report", str(tmp_path / "a.text"), *SHORT)
    assert line.startswith(LOST)


def test_an_export_of_another_package_is_written_by_its_name(installed: Path, tmp_path: Path) -> None:
    bag = str(recorded(tmp_path / "run.mcap", "trailer_pursuit_lockstep", "run.duration=0.1"))
    file = tmp_path / "a.name"
    done = command("bag", "export", bag, str(file), "--to", "names")
    assert done.stdout == f"{file} (1 names)\n"
    assert file.read_text() == "run"
    other = tmp_path / "b.txt"
    assert refused_command("bag", "export", bag, str(other), "--to", "names") == (
        f"{other}: an export with --to names is an .name file; name it b.name"
    )
    assert "'nams' is no export that is installed; did you mean names?" in refused_command(
        "bag", "export", bag, str(other), "--to", "nams"
    )
    assert refused_command("bag", "export", bag, str(other), "--to", "texts") == (
        "the export 'texts' writes no recordings; servonode show prints it"
    )
    lost = refused_command("bag", "export", bag, str(other), "--to", "lost")
    assert lost.startswith("package added 1.0: its export 'lost' (added_lost:LOST) cannot be imported")


def test_a_view_beside_a_run_is_refused_before_it_begins(installed: Path) -> None:
    install_groups(installed, "lost", {"servonode.views": {"lost": "added_lost:LOST"}})
    run = ("run", "trailer_pursuit", "--no-report", "--view")
    assert refused_command(*run, "lamp") == "it needs a lamp"
    assert refused_command(*run, "note") == "the view 'note' shows no run in progress, but what is recorded"
    assert "'lmap' is no view that is installed; did you mean lamp?" in refused_command(*run, "lmap")
    assert refused_command(*run, "lost").startswith(LOST)


def test_names_of_exports_and_views_are_completed(installed: Path) -> None:
    assert [each.value for each in complete.views(None, None, "n")] == ["note"]  # type: ignore[arg-type]
    assert [each.value for each in complete.exports(None, None, "n")] == ["names"]  # type: ignore[arg-type]


def test_a_wing_that_is_not_there_takes_its_views_along(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("servonode.extensions._of_wings", dict)
    assert endings() == []
    assert drawing() == []
    line = refused_command("simulate", "trailer_pursuit", "--report", str(tmp_path / "a.html"), *SHORT)
    assert line == f"{tmp_path / 'a.html'}: unknown ending of a report; choose .png, .pdf, .svg, .jpg"
    assert refused_command("run", "trailer_pursuit", "--page", "--no-report").startswith(
        "'page' is no view that is installed; install the package that adds it"
    )
