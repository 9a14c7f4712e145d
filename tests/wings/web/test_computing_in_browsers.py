"""The reports of all packaged launch files compute their runs in Chromium and Firefox, under the policy of the file."""

from pathlib import Path
from typing import Any

import pytest

import servonode
from servonode.closed_loop.launch_file import packaged
from servonode.errors import ServonodeError
from servonode.simulation.simulate import can_fuse
from servonode.wings.web.embedded import json_text
from servonode.wings.web.html_report import html_report
from tests.helpers.firefox import firefox, needs_firefox
from tests.helpers.html_files import HtmlFile
from tests.helpers.pages import browser, needs_browser

FIRST = (
    "LiveRun.open(report.data.live).then((run) => run.first())"
    ".then(({ largest, ok, column }) => ({ largest, ok, column }))"
)
ALIKE = 1e-9  # of a column's range
LARGEST = 300_000  # bytes of a report beside its rows
COMPUTED = (
    "const done = arguments[arguments.length - 1]; "
    "{}.then(done, (error) => done({{ ok: false, column: String(error) }}))"
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports that compute, by launch file."""
    folder, found = tmp_path_factory.mktemp("reports"), {}
    for name in packaged():
        try:
            loop = servonode.load(name)
        except ServonodeError:
            continue
        if can_fuse(loop.closed_loop):
            found[name] = folder / f"{name}.html"
            found[name].write_text(html_report(loop.simulate(), name), encoding="utf-8")
    return found


def check(answers: dict[str, Any]) -> None:
    """Each first run is that of Python; the largest differences are printed."""
    for name, found in answers.items():
        print(f"{name}: {found}")
    assert {name: found["column"] for name, found in answers.items() if not found["ok"]} == {}
    assert max(found["largest"] for found in answers.values()) <= ALIKE


@needs_browser
def test_chromium_computes_the_runs_of_all_reports(reports: dict[str, Path]) -> None:
    with browser() as driver:
        driver.set_script_timeout(300)
        answers = {}
        for name, file in reports.items():
            driver.get(file.as_uri())
            answers[name] = driver.execute_async_script(COMPUTED.format(FIRST))
            assert [each for each in driver.get_log("browser") if each["level"] == "SEVERE"] == []
    check(answers)


@needs_firefox
def test_firefox_computes_the_runs_of_all_reports(reports: dict[str, Path]) -> None:
    with firefox() as page:
        answers = {}
        for name, file in reports.items():
            page.open(file.as_uri())
            answers[name] = page.evaluate(FIRST)
    check(answers)


def test_what_reports_carry_to_compute_is_small(reports: dict[str, Path]) -> None:
    for name, file in reports.items():
        text = file.read_text("utf-8")
        data = HtmlFile(text).data
        rows = sum(len(json_text(data[part])) for part in ("t", "columns", "views", "paths"))
        assert len(text.encode()) - rows <= LARGEST, name
