"""Exports and views of an installed package beside those of this wing."""

from pathlib import Path

from servonode.cli import complete
from servonode.cli.deliver import _drawings
from servonode.record.bag import read_bag
from servonode.views.run_view import drawing
from tests.cli.test_added_views import installed
from tests.helpers.recorded import recorded
from tests.helpers.refusals import refused_command

__all__ = ["installed"]


def test_a_view_that_fails_to_draw_leaves_the_other_drawings(installed: Path, tmp_path: Path) -> None:
    file = recorded(tmp_path / "run.mcap", "trailer_pursuit_lockstep", "run.duration=0.1")
    read = read_bag(file)
    closed_loop = read.closed_loop()
    ours, without = _drawings(drawing(), read, closed_loop)
    assert ours
    assert without == ""
    found, without = _drawings(drawing(["inked"]), read, closed_loop)
    assert found == ours
    assert without == "; without drawings: KeyError: 'no colour'"


def test_the_own_word_of_an_export_and_the_name_of_another_exclude_each_other(installed: Path, tmp_path: Path) -> None:
    bag = str(recorded(tmp_path / "run.mcap", "trailer_pursuit_lockstep", "run.duration=0.1"))
    both = refused_command("bag", "export", bag, str(tmp_path / "b.txt"), "--to", "names", "--ros2")
    assert both.startswith("--ros2 and --to exclude each other; give one of them")


def test_names_of_exports_are_completed() -> None:
    assert [each.value for each in complete.exports(None, None, "r")] == ["rerun", "ros2"]  # type: ignore[arg-type]
