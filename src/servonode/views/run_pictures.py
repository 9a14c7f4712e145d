"""The pictures and movies that `Run.plot` and `Run.movie` give."""

import contextlib
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from servonode.errors import StatementError
from servonode.record.movie import Movie
from servonode.record.run import Run, is_truth

FORMATS = {"png"}  # in which a notebook shows a figure
NUMBERS = (int, float, np.integer, np.floating)


def run_figure(run: Run, quantities: Sequence[str], against: str) -> Figure:
    """An axis for each of the quantities, or the report's picture without any; see `Run.plot`."""
    if quantities:
        from servonode.views.quantity_plot import quantity_figure

        figure = quantity_figure(run, quantities, against)
    elif against != "t":
        raise StatementError(f"against={against!r} needs quantities; write for example plot('X', against={against!r})")
    else:
        from servonode.views.report import report_figure

        _check_views(run)
        figure = report_figure(run, run.closed_loop.launch.name)
    _show_in_notebooks()
    return figure


def run_movie(run: Run, path: str | Path | None, fps: float | None, speed: float | None) -> Movie:
    """A movie, in a file or in memory; see `Run.movie`."""
    for word, value in (("fps", fps), ("speed", speed)):
        if value is not None and not (isinstance(value, NUMBERS) and not is_truth(value) and 0 < value < np.inf):
            raise StatementError(f"{word}={value!r} is not a positive number; give one, or leave it out")
    fps, speed = (None if value is None else float(value) for value in (fps, speed))
    if path is not None:
        return Movie(_filmed(run, Path(path), fps, speed), Path(path))
    from servonode.views.movie import ffmpeg

    with tempfile.TemporaryDirectory() as folder:
        return Movie(_filmed(run, Path(folder) / ("run.mp4" if ffmpeg() else "run.gif"), fps, speed))


def _check_views(run: Run) -> None:
    """Refuse views of a user's machine that cannot be drawn."""
    if not run.closed_loop.source.packaged:
        from servonode.views.view_checks import check_view

        check_view(run.closed_loop)


def _filmed(run: Run, file: Path, fps: float | None, speed: float | None) -> bytes:
    """The bytes of a movie that was written into a file."""
    from servonode.views.movie import plan, write_movie

    planned = plan(file, fps, speed, run.closed_loop)
    _check_views(run)
    quiet = contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO())
    with quiet:  # a terminal shows the progress
        write_movie(run, run.closed_loop.launch.name, planned)
    return file.read_bytes()


def _show_in_notebooks() -> None:
    """Have IPython show a figure that is a cell's last value, which it does by itself only after pyplot is loaded."""
    if "IPython" not in sys.modules:
        return
    from IPython.core.getipython import get_ipython
    from IPython.core.pylabtools import select_figure_formats

    shell: Any = get_ipython()
    if shell is not None and Figure not in shell.display_formatter.formatters["image/png"].type_printers:
        select_figure_formats(shell, FORMATS)  # type: ignore[no-untyped-call]
