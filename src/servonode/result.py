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

from servonode.errors import StatementError, did_you_mean, plain
from servonode.mechanics.description import Quantity
from servonode.record.run import Array
from servonode.record.run import Run as Columns
from servonode.tables import Row, Tabular

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANEL = (7.0, 2.1)  # in; of each axis of a plot
ACROSS = PANEL[0] - 0.9  # in; of such an axis beside its ticks
FORMATS = {"png"}  # in which a notebook shows a figure
BY_NAME = ("state", "input", "residual", "residual_max", "scale", "program_state")  # of the fields of a run
NUMBERS = (int, float, np.integer, np.floating)


class NoQuantity(StatementError, KeyError):
    """A run holds no quantity of this name; the text says which it holds."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotation marks


class Named(dict[str, Any]):
    """Values by name; a name that is not there is answered with those that are."""

    def __missing__(self, name: object) -> Any:
        near = did_you_mean(name, self, most=3) if isinstance(name, str) else ""
        raise NoQuantity(f"{name!r} is not among these; {near}choose from {', '.join(self) or 'none'}")


class Run(Columns):
    """A finished run or simulation: arrays with one entry for each recorded row, in SI units and radians.

    `t` [s] is the time of the rows; `state`, `input` and `residual` hold arrays by name, `energy` [J] is an array.
    `fault` is None, or what ended the run. `columns` has all of them by name, `units` their units.
    """

    @classmethod
    def of(cls, run: Columns) -> Self:
        """The same run with pictures and movies."""
        held: dict[str, Any] = {each.name: getattr(run, each.name) for each in fields(run)}
        held.update({name: Named(held[name]) for name in BY_NAME})
        return cls(**held)

    @property
    def columns(self) -> dict[str, Array]:
        """All rows by column: t, states, inputs, `residual_NAME`, `scale_LIMIT`, program states, watches, energy.

        Then `goal_t` where goal time stood for a while, and `state_age` of a machine behind a link.
        """
        return Named(super().columns)

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column of `columns`, by its name."""
        return Named(super().units)

    def outputs(self) -> dict[str, Array]:
        """Contact forces and other monitored values of every row, by name."""
        return Named(super().outputs())

    def targets(self) -> dict[str, Array]:
        """Position of each target at every row, by name; not a number where it came over a topic."""
        return Named(super().targets())

    @plain
    def plot(self, *quantities: str, against: str = "t") -> "Figure":
        """The report's picture of the run, or an axis for each of the chosen quantities, as a matplotlib Figure.

        Args:
            quantities: names of states, inputs, outputs, residuals (`residual_NAME`), targets (`target_NAME`), watches
                or `energy`; several with commas between share an axis, as in `run.plot("phi", "U1,U2")`. Above each
                axis stands what it shows, in words with symbol and unit.
                None: the report's picture, with the machine's views.
            against: the quantity on the horizontal axis; by default the time t [s].

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
        figure = _panels(self, quantities, against) if quantities else _report(self)
        _show_in_notebooks()
        return figure

    @plain
    def movie(self, path: str | Path | None = None, *, fps: float | None = None, speed: float | None = None) -> "Movie":
        """A movie of the machine and its panels: written to a file, and shown by a notebook as the cell's last value.

        Args:
            path: the file, ending with .mp4 or .gif; None: in memory alone.
            fps: frames per second; default 30.
            speed: plant seconds per second of the movie; default: the launch file's, more where it would be long.

        Raises:
            NoMovie: the ending is unknown, the folder is not there, or neither ffmpeg nor pillow is installed;
            ModelError: the machine's views cannot be drawn.

        >>> import servonode
        >>> run = servonode.simulate("trailer_pursuit", run__duration=0.2)
        >>> run.movie(fps=5, speed=1).data[:3] in (b"GIF", b"\\0\\0\\0")
        True
        """
        for word, value in (("fps", fps), ("speed", speed)):
            if value is not None and not (isinstance(value, NUMBERS) and not _is_truth(value) and 0 < value < np.inf):
                raise StatementError(f"{word}={value!r} is not a positive number; give one, or leave it out")
        fps, speed = (None if value is None else float(value) for value in (fps, speed))
        if path is not None:
            return Movie(_filmed(self, Path(path), fps, speed), Path(path))
        with tempfile.TemporaryDirectory() as folder:
            return Movie(_filmed(self, Path(folder) / f"run{_usual_ending()}", fps, speed))

    @plain
    def write_csv(self, file: str | Path, every: int = 1) -> None:
        """Write t, states, inputs, residuals and energy as CSV, every `every`-th row, all digits.

        A file that stands there is replaced when the new one is complete, and not touched before.

        Raises:
            StatementError: the folder is not there, or `every` is not 1 or more; OSError: the file cannot be written.
        """
        path = Path(file)
        if not path.parent.is_dir() or path.is_dir():
            raise StatementError(f"{path}: the folder is not there, or this is one; name a file in a folder that is")
        if not isinstance(every, int | np.integer) or _is_truth(every) or every < 1:
            raise StatementError(f"every={every!r} is not a number of rows; give 1 or more")
        super().write_csv(path, every)

    @plain
    def to_dataframe(self) -> Any:
        """The columns as a pandas DataFrame with index t [s]; `.attrs["units"]` has the units.

        Raises:
            NotInstalled (an ImportError): pandas is not installed.

        >>> import servonode
        >>> frame = servonode.simulate("trailer_pursuit", run__duration=0.1, every=10).to_dataframe()
        >>> frame.shape, frame.attrs["units"]["U1"]
        ((11, 13), 'N m')
        """
        return super().to_dataframe()


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


def _is_truth(value: Any) -> bool:
    """Whether it is True or False, which count as 1 and 0 in Python and are no numbers here."""
    return isinstance(value, bool | np.bool_)


def _report(run: Columns) -> "Figure":
    import matplotlib as mpl

    from servonode.views.report import STYLE, report_figure

    _check_views(run)
    with mpl.rc_context():
        mpl.rcParams.update(STYLE)
        figure: Figure = report_figure(run, run.closed_loop.launch.name)
    return figure


def _check_views(run: Columns) -> None:
    """Refuse views of a user's machine that cannot be drawn."""
    if not run.closed_loop.source.packaged:
        from servonode.views.view_checks import check_view

        check_view(run.closed_loop)


def _panels(run: Columns, groups: Sequence[str], against: str) -> "Figure":
    """A figure with an axis for each group of quantities, over a common horizontal axis."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from servonode.views.sheet import PRINT
    from servonode.views.titles import Head

    known = _Quantities.of(run)
    across = known.values(against)
    named = [[name.strip() for name in group.split(",")] for group in groups]
    for name in (name for group in named for name in group):
        known.values(name)
    with mpl.rc_context():
        mpl.rcParams.update(PRINT)
        figure = Figure(figsize=(PANEL[0], PANEL[1] * len(named) + 0.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(named), 1, sharex=True, squeeze=False)[:, 0]
        for axis, names in zip(axes, named, strict=True):
            lines = [axis.plot(across, known.values(name), label=known.symbol(name))[0] for name in names]
            axis.ticklabel_format(useOffset=False)
            axis.margins(x=0)
            symbols = [line.get_label() for line in lines] if len(lines) > 1 else []
            Head.of(known.title(names), symbols, ACROSS).draw(axis, lines)
        axes[-1].set_xlabel(known.title([against]))
    return figure


@dataclass(frozen=True)
class _Quantities:
    """What can be plotted of a run: its columns, outputs and targets by name, and what each of them is."""

    columns: dict[str, Array]
    known: dict[str, Quantity]

    @classmethod
    def of(cls, run: Columns) -> Self:
        description, control = run.closed_loop.machine.description, run.closed_loop.control
        columns = {**run.columns, **run.state, **run.outputs()}
        columns |= {f"target_{name}": values for name, values in run.targets().items()}
        known = {name: Quantity(name, "", run.units.get(name, "1")) for name in columns}
        stated = [*description.state, *description.inputs, *description.outputs]
        stated += [*control.law.description.states, *control.law.description.watches] if control else []
        stated += [Quantity("t", "time", "s"), Quantity("energy", "energy", "J")]
        return cls(columns, known | {each.name: each for each in stated})

    def values(self, name: str) -> Array:
        """A column. StatementError where there is none of this name."""
        if name not in self.columns:
            near = did_you_mean(name, self.columns, most=3)
            raise StatementError(f"{name!r} is not a quantity of this run; {near}choose from {', '.join(self.columns)}")
        return self.columns[name]

    def title(self, names: Sequence[str]) -> str:
        """Words, symbol and unit of a single quantity; words and units of several, which the legend names."""
        from servonode.views.symbols import titles

        return titles([self._worded(name) for name in names])[0]

    def symbol(self, name: str) -> str:
        """The symbol of a quantity; of a residual or a target it is a word and the symbol of its own name."""
        from servonode.views.symbols import mathtext

        word, own = _split(name)
        return f"{word} {mathtext(own)}" if word else mathtext(own)

    def _worded(self, name: str) -> Quantity:
        """What a quantity is; a residual or a target is worded by its own name."""
        from servonode.views.symbols import plain as characters

        word, own = _split(name)
        return Quantity(name, f"{word} {characters(own)}", self.known[name].unit) if word else self.known[name]


def _split(name: str) -> tuple[str, str]:
    """`residual_phi` -> residual, phi; `phi` -> "", phi."""
    word, _, own = name.partition("_")
    return (word, own) if word in ("residual", "target") and own else ("", name)


def _filmed(run: Columns, file: Path, fps: float | None, speed: float | None) -> bytes:
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
