"""Reports and comparisons: which writer makes a file, by its ending."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from servonode.cli.start_checks import PICTURES, StartError, check_views, check_writable

if TYPE_CHECKING:
    from servonode.analysis.compared import Compared
    from servonode.analysis.comparison import Measures
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.record.run import Run
    from servonode.views.comparison import ComparedPanel

PAGES = (".html", ".htm")
ReportWriter = Callable[["Run", str, Path], None]
ComparisonWriter = Callable[["Sequence[Compared]", "Sequence[ComparedPanel]", "Sequence[Measures]", Path], None]


def check_reports(files: Sequence[Path], closed_loop: "ClosedLoop") -> None:
    """Refuse reports that cannot be written or drawn."""
    for file in files:
        _check(file)
    if files:
        check_views(closed_loop)


def report_writer(file: Path) -> ReportWriter:
    """The function that writes the report of a run into a file of this ending."""
    if _is_page(file):
        from servonode.web.html_report import write_html_report

        return write_html_report
    from servonode.views.report import write_report

    return write_report


def comparison_writer(file: Path) -> ComparisonWriter:
    """The function that writes a comparison into a file, once it is checked that it can be."""
    _check(file)
    if _is_page(file):
        from servonode.web.html_comparison import write_html_comparison

        return write_html_comparison
    from servonode.views.comparison import write_comparison

    return lambda sources, panels, _, file: write_comparison(sources, panels, file)


def _is_page(file: Path) -> bool:
    return file.suffix.lower() in PAGES


def _check(file: Path) -> None:
    check_writable(file)
    if file.suffix.lower() not in (*PICTURES, *PAGES):
        raise StartError(f"{file}: unknown ending of a report; choose {', '.join((*PICTURES, PAGES[0]))}")
    if not _is_page(file):
        from servonode.views.display import check_backend

        check_backend()
