"""What a simulation or a run gives in Python: its columns, and pictures and movies of them."""

import base64
import contextlib
import io
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from servonode.errors import StatementError
from servonode.record.run import Run as RecordedRun
from servonode.record.run import is_truth
from servonode.tables import Row, Tabular

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = {"png"}  # in which a notebook shows a figure
NUMBERS = (int, float, np.integer, np.floating)


class Run(RecordedRun):
    """A finished run or simulation: arrays with one entry for each recorded row, in SI units and radians.

    `t` [s] is the time of the rows; `state`, `input` and `residual` hold arrays by name, `energy` [J] is an array.
    `fault` is None, or what ended the run. `columns` has all of them by name, `units` their units.
    """

    @classmethod
    def of(cls, run: RecordedRun) -> Self:
        """The same run with pictures and movies."""
        return cls(**{each.name: getattr(run, each.name) for each in fields(run)})

    def plot(self, *quantities: str, against: str = "t") -> "Figure":
        """The report's picture of the run, or an axis for each of the chosen quantities, as a matplotlib Figure.

        Args:
            quantities: names of states, inputs, outputs, residuals (`residual_NAME`), targets (`target_NAME`), watches
                or `energy`; what has a goal is drawn with it, dashed, and the NAME of a residual draws both. Several
                with commas between share an axis, as in `run.plot("phi", "U1,U2")`. Above each axis stands what it
                shows, in words with symbol and unit.
                None: the report's picture, with the machine's views.
            against: the quantity on the horizontal axis; by default the time t [s]. Equal units have equal scales.

        The figure does not belong to pyplot: no window is opened, a notebook shows it once, and `figure.savefig(file)`
        writes it.

        Raises:
            StatementError: the run has no such quantity, or `against` is given without any;
            ModelError: the machine's views cannot be drawn.

        >>> import servonode
        >>> run = servonode.simulate("trailer_pursuit", run__duration=2.0)
        >>> figure = run.plot("phi", "U1,U2")
        >>> figure.axes[0].get_title(loc="left"), figure.axes[1].get_legend().get_texts()[0].get_text()
        ('hitch angle $\\\\varphi$ [rad]', '$U_{1}$')
        """
        if not quantities and against != "t":
            raise StatementError(
                f"against={against!r} needs quantities; write for example plot('X', against={against!r})"
            )
        figure = _quantities(self, quantities, against) if quantities else _report(self)
        _show_in_notebooks()
        return figure

    def movie(self, path: str | Path | None = None, *, fps: float | None = None, speed: float | None = None) -> "Movie":
        """A movie of the machine and its panels: written to a file, and shown by a notebook as the cell's last value.

        Args:
            path: the file, ending with .mp4 or .gif; None: in memory alone.
            fps: frames per second; default 30.
            speed: plant seconds per second of the movie; default: the launch file's, more where it would be long.

        Raises:
            NoMovie: the ending is unknown, the folder is not there, or ffmpeg is not, which writes an mp4;
            ModelError: the machine's views cannot be drawn.

        >>> import servonode
        >>> run = servonode.simulate("trailer_pursuit", run__duration=0.2)
        >>> run.movie(fps=5, speed=1).data[:3] in (b"GIF", b"\\0\\0\\0")
        True
        """
        for word, value in (("fps", fps), ("speed", speed)):
            if value is not None and not (isinstance(value, NUMBERS) and not is_truth(value) and 0 < value < np.inf):
                raise StatementError(f"{word}={value!r} is not a positive number; give one, or leave it out")
        fps, speed = (None if value is None else float(value) for value in (fps, speed))
        if path is not None:
            return Movie(_filmed(self, Path(path), fps, speed), Path(path))
        with tempfile.TemporaryDirectory() as folder:
            return Movie(_filmed(self, Path(folder) / f"run{_usual_ending()}", fps, speed))


@dataclass(frozen=True, repr=False)
class Movie(Tabular):
    """A movie: `data` holds the bytes of the file, `file` says where it was written (None: nowhere)."""

    data: bytes
    file: Path | None = None

    @property
    def media(self) -> str:
        """The media type: video/mp4 or image/gif."""
        return "image/gif" if self.data[:4] == b"GIF8" else "video/mp4"

    def table(self) -> tuple[str, list[Row]]:
        where = str(self.file) if self.file else "in memory; movie.save(file) writes it"
        return f"Movie {self.media}", [("size", f"{len(self.data) / 1e6:.2f} MB"), ("file", where)]

    def _repr_html_(self) -> str:
        """The movie itself, within the page."""
        source = f"data:{self.media};base64,{base64.b64encode(self.data).decode()}"
        if self.media == "image/gif":
            return f'<img alt="movie of the run" style="max-width:100%" src="{source}">'
        return f'<video controls loop muted style="max-width:100%" src="{source}"></video>'

    def save(self, file: str | Path) -> Path:
        """Write the movie into a file; its path. OSError where it cannot be written."""
        path = Path(file)
        path.write_bytes(self.data)
        return path


def _quantities(run: RecordedRun, groups: Sequence[str], against: str) -> "Figure":
    from servonode.views.quantity_plot import quantity_figure

    figure: Figure = quantity_figure(run, groups, against)
    return figure


def _report(run: RecordedRun) -> "Figure":
    import matplotlib as mpl

    from servonode.views.report import STYLE, report_figure

    _check_views(run)
    with mpl.rc_context():
        mpl.rcParams.update(STYLE)
        figure: Figure = report_figure(run, run.closed_loop.launch.name)
    return figure


def _check_views(run: RecordedRun) -> None:
    """Refuse views of a user's machine that cannot be drawn."""
    if not run.closed_loop.source.packaged:
        from servonode.views.view_checks import check_view

        check_view(run.closed_loop)


def _filmed(run: RecordedRun, file: Path, fps: float | None, speed: float | None) -> bytes:
    """The bytes of a movie that was written into a file."""
    from servonode.views.movie import plan, write_movie

    planned = plan(file, fps, speed, run.closed_loop)
    _check_views(run)
    quiet = contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO())
    with quiet:  # a terminal shows the progress
        write_movie(run, run.closed_loop.launch.name, planned)
    return file.read_bytes()


def _usual_ending() -> str:
    """mp4 where there is ffmpeg, else gif, which pillow writes."""
    from servonode.views.movie import ffmpeg

    return ".mp4" if ffmpeg() else ".gif"


def _show_in_notebooks() -> None:
    """Have IPython show a figure that is a cell's last value, which it does by itself only after pyplot is loaded."""
    if "IPython" not in sys.modules:
        return
    from IPython.core.getipython import get_ipython
    from IPython.core.pylabtools import select_figure_formats
    from matplotlib.figure import Figure

    shell: Any = get_ipython()
    if shell is not None and Figure not in shell.display_formatter.formatters["image/png"].type_printers:
        select_figure_formats(shell, FORMATS)  # type: ignore[no-untyped-call]
