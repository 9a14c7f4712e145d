"""Reports as pages, as the command line writes them by their endings."""

from pathlib import Path

import pytest

from tests.cli.test_command_line import SHORT
from tests.helpers.refusals import command, refused_command


def test_reports_are_pictures_and_pages_by_their_endings(tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.PNG"
    result = command("simulate", "trailer_pursuit", "--report", str(page), "--report", str(picture), *SHORT)
    assert result.exit_code == 0
    assert result.stdout.endswith(f"  report            {page}\n  report            {picture}\n")
    assert page.read_text().startswith("<!doctype html>")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    assert len(content) > 20_000


def test_a_report_of_another_ending_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    page, other = tmp_path / "a.html", tmp_path / "a.txt"
    line = refused_command("simulate", "trailer_pursuit", "--report", str(page), "--report", str(other), *SHORT)
    assert line == f"{other}: unknown ending of a report; choose .png, .pdf, .svg, .jpg, .html"
    assert not page.exists()


def test_two_reports_that_cannot_be_written_are_both_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "a.html", tmp_path / "b.html"]
    monkeypatch.setattr("servonode.wings.web.html_report.html_report", lambda *_: 1 / 0)
    result = command("simulate", "trailer_pursuit", *(f"--report={file}" for file in files), *SHORT)
    assert result.exit_code == 1
    assert [line.partition(": cannot be made (ZeroDivisionError")[0] for line in result.stderr.splitlines()] == [
        f"servonode: {file}" for file in files
    ]
