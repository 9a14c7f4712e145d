"""The pictures and movies that `Run.plot` and `Run.movie` give."""

import contextlib
import io
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from servonode.errors import StatementError, short
from servonode.record.movie import Movie
from servonode.record.run import Run, is_truth

FORMATS = {"png"}  # in which a notebook shows a figure
NUMBERS = (int, float, np.integer, np.floating)


def run_figure(run: Run, chosen: Sequence[Any], against: str, ax: Any, look: Mapping[str, Any]) -> Any:
    """An axis for each of the quantities, or the report's picture without any, or a comparison; see `Run.plot`."""
    others = [each for each in chosen if isinstance(each, Run)]
    groups = [_names(each) for each in chosen if not isinstance(each, Run)]
    if not groups or others:
        for word, stated in (("against", against != "t"), ("ax", ax is not None), (next(iter(look), ""), bool(look))):
            if stated:
                text = "has no place in the picture of whole runs" if others else "needs quantities"
                raise StatementError(f"{word}= {text}; write for example plot('X', {word}=...)")
    if others:
        figure = _comparison([run, *others], groups)
    elif ax is not None:
        from servonode.views.quantity_plot import draw_quantities

        draw_quantities(run, groups, against, list(np.ravel(ax)), **look)
        return ax
    elif groups:
        from servonode.views.quantity_plot import quantity_figure

        figure = quantity_figure(run, groups, against, **look)
    else:
        from servonode.views.report import report_figure

        _check_views(run)
        figure = report_figure(run, run.closed_loop.launch.name)
    _show_in_notebooks()
    return figure


def _names(group: Any) -> list[str]:
    """The names of one axis: a text with commas between them, or a sequence of names."""
    names = group.split(",") if isinstance(group, str) else group
    if not (isinstance(names, Sequence | np.ndarray) and len(names) and all(isinstance(each, str) for each in names)):
        raise StatementError(f"{short(group)} is not the name of a quantity; give a name, or a list of names")
    return [name.strip() for name in names]


def _comparison(runs: Sequence[Run], groups: Sequence[Sequence[str]]) -> Figure:
    """Runs over each other, each by the name of its launch file, with a number where several have one."""
    from servonode.analysis.comparison import Compared
    from servonode.views.comparison import check_sources, compared_panels, comparison_figure

    check_sources(runs)
    names = [run.closed_loop.launch.name for run in runs]
    numbered = [f"{name} {i}" if names.count(name) > 1 else name for i, name in enumerate(names, 1)]
    sources = [Compared.of_run(name, run) for name, run in zip(numbered, runs, strict=True)]
    figure: Figure = comparison_figure(sources, compared_panels(sources, [",".join(group) for group in groups]))
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
