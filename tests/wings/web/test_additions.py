"""What is added to the core in one place is on the page and in the HTML report."""

from pathlib import Path

from tests.test_additions import PANEL, Copy

PICTURES = """
import servonode
from servonode.wings.web.frames import layout_of
from servonode.wings.web.html_report import html_report
run = servonode.simulate("trailer_pursuit", run__duration=0.2)
print([panel["title"] for panel in layout_of(run.closed_loop, "page")["panels"]])
print("the new panel" in html_report(run, "report"))
"""


def test_panel_of_page_and_report_is_a_line(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    copy.line("views/panel_specs.py", "return [*sorted(specs", PANEL)
    page, report = copy.python("-c", PICTURES).splitlines()
    assert "the new panel" in page
    assert report == "True"
