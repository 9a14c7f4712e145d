"""The views that this wing adds: the page on a run in progress, and reports as HTML."""

from pathlib import Path
from typing import TYPE_CHECKING

from servonode.views.run_view import RunView

if TYPE_CHECKING:
    from servonode.nodes.node_process import ProcessBeside
    from servonode.record.run import Run


def _check() -> None:
    from servonode.wings.web.page import check_libraries

    check_libraries()


def _beside(name: str, port: int) -> "ProcessBeside":
    from servonode.wings.web.page import page_process

    return page_process(name, port)


def _report(run: "Run", name: str, file: Path) -> None:
    from servonode.wings.web.html_report import write_html_report

    write_html_report(run, name, file)


PAGE = RunView(check=_check, beside=_beside)
HTML = RunView(endings=(".html", ".htm"), report=_report)
