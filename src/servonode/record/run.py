"""A finished run: columns by name, the final values, the summary that is printed and drawn."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop import run_warnings
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.goal_reached import limited_share
from servonode.closed_loop.run_warnings import RunWarning
from servonode.controllers.engine.layout import kept_columns
from servonode.errors import NotInstalled, StatementError, did_you_mean
from servonode.mechanics.description import Quantity, packed
from servonode.plants.drawn import path_columns, path_values
from servonode.record.files import replaced_file, write_csv
from servonode.record.movie import Movie
from servonode.record.run_estimate import RunEstimate
from servonode.tables import Result, Row

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

A = TypeVar("A")
Steps = npt.NDArray[np.int64]
ROWS = 20_000  # rows a run keeps unless asked for more
BY_NAME = ("state", "input", "residual", "residual_max", "scale", "kept", "program_state")  # of the fields of a run


def _restored(kind: "type[Run]", content: dict[str, Any]) -> "Run":
    """A run of a pickle."""
    run = kind.__new__(kind)
    vars(run).update(content)
    return run


class NoQuantity(StatementError, KeyError):
    """A run holds no quantity of this name; the text says which it holds."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotation marks


class Named(dict[str, Any]):
    """Values by name; a name that is not there is answered with those that are."""

    def __missing__(self, name: object) -> Any:
        near = did_you_mean(name, self, most=3) if isinstance(name, str) else ""
        raise NoQuantity(f"{name!r} is not among these; {near}choose from {', '.join(self) or 'none'}")


@dataclass(repr=False)
class Run(Result):
    """A finished run or simulation: arrays with one entry for each recorded row, in SI units and radians.

    `t` [s] is the time of the rows; `state`, `input` and `residual` hold arrays by name. `columns` has all of them by
    name, `units` their units. energy [J]: kinetic plus potential. energy_error [J]: change of
    energy less the work of inputs and losses, at the end. fault: None, or name, text, t, node of the first one.
    What nobody computed is NaN, such as a residual after a fault. scale: of each limit of the program, below 1 while it
    acts; kept: `margin_NAME` and `active_NAME` of each keep (1 while the inputs are changed for it, -1 while it gives
    way), and `keeping`; program_state: the program's own states; all as they were at control instants. limits: of each
    limit, at how many control instants it acted and when first [s]; keeps: of each keep its least `margin`, the time
    `at` which [s], at how many instants it `acted`, where it `gave_way`; clipped: where inputs that keep all were
    sought in vain.
    estimate: what the law worked on, where there is an estimator; the residuals are then those that the law saw.
    goal_t [s]: goal time, which stands while no command acts. state_age [s]: how old each state is; None if simulated.
    stats: what only a run on processes has (rate, misses, round_trip_s, counts). It is large because reports, exports
    and users take all that a run knows from this one class.
    """

    closed_loop: ClosedLoop
    control: str
    t: Array
    k: Steps
    state: dict[str, Array]
    input: dict[str, Array]
    residual: dict[str, Array]
    energy: Array
    work: Array
    steps: int
    wall_s: float
    faults: list[dict[str, Any]] = field(default_factory=list)
    residual_max: dict[str, float] = field(default_factory=dict)
    scale: dict[str, Array] = field(default_factory=dict)
    kept: dict[str, Array] = field(default_factory=dict)
    program_state: dict[str, Array] = field(default_factory=dict)
    limits: dict[str, dict[str, float | None]] = field(default_factory=dict)
    keeps: dict[str, dict[str, Any]] = field(default_factory=dict)
    clipped: dict[str, float | None] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    goal_t: Array = field(default_factory=lambda: np.zeros(0))
    state_age: Array | None = None
    estimate: RunEstimate | None = None

    def __reduce__(self) -> Any:
        """Pickle the numbers, and what was stated of the closed loop, which is resolved when it is asked for."""
        numbers = {name: value for name, value in vars(self).items() if name != "closed_loop"}
        stated = self.closed_loop.__reduce__() if "closed_loop" in vars(self) else vars(self)["_stated"]
        return _restored, (type(self), {**numbers, "_stated": stated})

    def __copy__(self) -> "Run":
        """A copy with the same closed loop."""
        return _restored(type(self), vars(self))

    def __getattr__(self, name: str) -> Any:
        """The closed loop of an unpickled run; nothing else is missing."""
        if name != "closed_loop" or "_stated" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        make, arguments = vars(self)["_stated"]  # which stays: the machine may be missing yet, or another thread asks
        self.closed_loop = make(*arguments)
        return self.closed_loop

    def __post_init__(self) -> None:
        if not len(self.goal_t):
            self.goal_t = self.t
        for word in BY_NAME:
            setattr(self, word, Named(getattr(self, word)))

    def table(self) -> tuple[str, list[Row]]:
        """What was run, how it ended, its largest residuals, where the machine stands at the end."""
        launch, machine = self.closed_loop.launch, self.closed_loop.machine.description
        program = self.closed_loop.control.law.description.name if self.closed_loop.control else "no program"
        rows: list[Row] = self.by_view("views.summary.short_rows")
        return f"Run {launch.name}: {machine.name}, {program}, {self.control}", rows

    def __getitem__(self, name: str) -> Array:
        """A quantity at every row, as `run["phi"]`: by the names that `quantities` has.

        >>> import servonode
        >>> run = servonode.simulate("trailer_pursuit", duration=0.5)
        >>> run["phi"] is run.state["phi"], run["target_x"].shape, "phi" in run
        (True, (51,), True)
        """
        if isinstance(name, str) and name in self.state:  # which needs no closed loop
            return self.state[name]
        return self.quantity_columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.quantity_columns)

    def __contains__(self, name: object) -> bool:
        return name in self.quantity_columns

    def keys(self) -> list[str]:
        """The names of all quantities, so that `dict(run)` has them."""
        return list(self)

    @overload
    def plot(self, *quantities: str | Sequence[str], against: str = "t", ax: A, **look: Any) -> A: ...

    @overload
    def plot(self, *quantities: "str | Sequence[str] | Run", against: str = "t", **look: Any) -> "Figure": ...

    def plot(self, *quantities: Any, against: str = "t", ax: Any = None, **look: Any) -> Any:
        """The report's picture of the run, or an axis for each of the chosen quantities, as a matplotlib Figure.

        Args:
            quantities: names of states, inputs, outputs, residuals (`residual_NAME`), targets (`target_NAME`), watches
                or `energy`; what has a goal is drawn with it, dashed, and the NAME of a residual draws both. Several in
                a list, or with commas between, share an axis, as in `run.plot("phi", ["U1", "U2"])`. Above each axis
                stands what it shows, in words with symbol and unit.
                None: the report's picture, with the machine's views. Other runs: a comparison with them.
            against: the quantity on the horizontal axis; by default the time t [s]. Equal units have equal scales.
            ax: an axis of your own figure for all quantities, or one for each of them; it is returned.
            look: of the lines, as matplotlib's plot() takes it: `color="k"`, `label="slow"`.

        Chosen quantities look as matplotlib's rcParams say, with its width. The figure does not belong to pyplot: no
        window is opened, a notebook shows it once, `figure.savefig(file)` writes it, and `figure.show()` shows it.

        Raises:
            StatementError: the run has no such quantity, or `against`, `ax` or a look is given without any;
            CompareError: the runs have nothing in common; ModelError: the machine's views cannot be drawn.

        >>> import servonode
        >>> run = servonode.simulate("trailer_pursuit", run__duration=2.0)
        >>> figure = run.plot("phi", "U1,U2")
        >>> figure.axes[0].get_title(loc="left"), figure.axes[1].get_legend().get_texts()[0].get_text()
        ('hitch angle $\\\\varphi$ [rad]', '$U_{1}$')
        """
        return self.by_view("views.run_pictures.run_figure", quantities, against, ax, look)

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
        movie: Movie = self.by_view("views.run_pictures.run_movie", path, fps, speed)
        return movie

    @property
    def fault(self) -> dict[str, Any] | None:
        return self.faults[0] if self.faults else None

    @property
    def energy_error(self) -> float:
        """The largest |E(t) - E(0) - work(t)| over the rows [J]."""
        if not len(self.energy):
            return 0.0
        with np.errstate(invalid="ignore"):  # inf - inf where the motion escaped
            return float(np.max(np.abs(self.energy - self.energy[0] - self.work)))

    @property
    def inputs(self) -> Array:
        """The inputs as one array (n_tau, rows)."""
        return np.array(list(self.input.values())).reshape(len(self.input), len(self.t))

    @cached_property
    def outputs(self) -> dict[str, Array]:
        """Contact forces, other monitored values, paths of a tree and of a drawing, of every row, by name."""
        names = [each.name for each in self.closed_loop.machine.description.outputs]
        monitored = {name: self._monitored[:, j] for j, name in enumerate(names)}
        loop = self.closed_loop
        paths = path_values(loop.machine, loop.traced, self.t, self._kernel_states).T
        return Named(monitored | dict(zip(path_columns(loop.machine, loop.traced), paths, strict=True)))

    @property
    def _kernel_states(self) -> Array:
        """The states of every row as kernels take them, without the work."""
        return np.column_stack([*self.state.values(), np.zeros(len(self.t))])

    @property
    def _monitored(self) -> Array:
        """Outputs, then the margins of the machine's warnings, of every row."""
        states, inputs = self._kernel_states, np.ascontiguousarray(self.inputs.T)
        return self.closed_loop.machine.monitored_rows(self.t, states, inputs)

    @cached_property
    def warnings(self) -> list[RunWarning]:
        """What speaks against the run and is no fault: missed goals, the machine's warnings, limits that acted."""
        loop, counts = self.closed_loop, self.stats.get("counts", {})
        if not len(self.t):
            return []
        return [
            *(self._missed_goals() if loop.control else []),
            *run_warnings.unused_settings(loop.launch),
            *run_warnings.machine_warnings(loop.machine.description, self.t, self._monitored),
            *run_warnings.faults_let_pass(loop, self.k, self._kernel_states, self.inputs.T),
            *run_warnings.input_warnings(loop, self.t, self.input, self.limited_share, counts),
            *run_warnings.law_warnings(self.limits, self.keeps, self.clipped),
            *run_warnings.network_warnings(loop, self.stats.get("round_trip_s", {})),
        ]

    @property
    def limited_share(self) -> dict[str, float]:
        """Of each input that has a limit the share of the rows at which it is at it; until the first fault."""
        end = int(np.searchsorted(self.t, self.fault["t"], side="right")) if self.fault else None
        return limited_share(self.closed_loop, self.input, slice(end))

    def _missed_goals(self) -> list[RunWarning]:
        """The goals that are not reached, of a run that came to its end and whose goals are known."""
        loop = self.closed_loop
        if self.faults or self.steps < loop.launch.steps or loop.live or self.stats.get("readonly"):
            return []
        true, spread = (self.estimate.residual, self.estimate.std) if self.estimate else ({}, {})
        known = true or self.residual
        return run_warnings.missed_goals(loop, self.goal_t, self.input, known, self.program_state, spread)

    @cached_property
    def watched(self) -> dict[str, Array]:
        """What the program watches, at every row, by name."""
        control = self.closed_loop.control
        if control is None or not control.law.description.watches:
            return {}
        table = np.array([control.law.watched(*row) for row in self._law_rows(control)])
        names = [each.name for each in control.law.description.watches]
        return {name: table[:, j] for j, name in enumerate(names)}

    @cached_property
    def tracked(self) -> dict[str, Array]:
        """Output and goal (2, rows) of each residual that is an output of the machine less its goal, by its name."""
        control = self.closed_loop.control
        if control is None or not control.law.description.tracked or not len(self.t):
            return {}
        table = np.array([control.law.tracked(*row) for row in self._law_rows(control)])
        names = [each.residual for each in control.law.description.tracked]
        return Named({name: table[:, :, j].T for j, name in enumerate(names)})

    def _law_rows(self, control: Control) -> Iterator[tuple[float, Array, Array]]:
        """Goal time, state and goal y of every row."""
        own = np.array(list(self.program_state.values())).reshape(len(self.program_state), len(self.t)).T
        states = np.column_stack(list(self.state.values()))
        return zip(self.goal_t.tolist(), states, control.goals(self.goal_t, own), strict=True)

    @cached_property
    def targets(self) -> dict[str, Array]:
        """Position of each target at every row, by name; not a number where it came from outside."""
        signals = self.closed_loop.targets
        table = signals.table(self.goal_t)[:, signals.positions]
        table[:, [signals.names.index(each.name) for each in self.closed_loop.live]] = np.nan
        return Named({name: table[:, j] for j, name in enumerate(signals.names)})

    def final(self) -> dict[str, Any]:
        """The object that `--json` prints: values at the final time, fault, counts."""

        def last(columns: Mapping[str, Array]) -> dict[str, Any]:
            return {name: json_number(column[-1]) for name, column in columns.items() if len(column)}

        machine = self.closed_loop.machine
        t, u = float(self.t[-1]), np.ascontiguousarray(self.inputs[:, -1])
        outputs = {name: json_number(value) for name, value in machine.outputs(t, self._kernel_states[-1], u).items()}
        return {
            "t": t,
            "state": packed(machine.description.layout, list(last(self.state).values())),
            "input": last(self.input),
            "residual": last(self.residual),
            "output": outputs,
            "program_state": last(self.program_state),
            **({"watched": last(self.watched)} if self.watched else {}),
            "energy": json_number(self.energy[-1]),
            "fault": self.fault,
            "steps": self.steps,
            "wall_s": self.wall_s,
            "residual_max": {name: json_number(value) for name, value in self.residual_max.items()},
            "energy_error": json_number(self.energy_error),
            "limits": self.limits,
            **({"keeps": self.keeps, "clipped": self.clipped} if self.kept else {}),
            "warnings": [each.as_dict() for each in self.warnings],
            **self.by_view("views.summary.measures"),
            "limited_share": self.limited_share,
            **self._estimated(),
            **self.stats,
        }

    def _estimated(self) -> dict[str, Any]:
        if self.estimate is None:
            return {}
        found = self.estimate
        largest = {name: json_number(value) for name, value in found.residual_max.items()}
        known = {"true_residual_max": largest, "nees": found.nees_mean, "nis": found.nis_mean}
        return {"estimate": known | ({"rejected": found.rejected_total} if found.rejected else {})}

    @property
    def tracked_columns(self) -> dict[str, Array]:
        """Of each residual that is an output less its goal, both: `output_NAME`, `goal_NAME`; no goal after a fault."""
        followed = self.t <= (self.fault["t"] if self.fault else np.inf)
        outputs = {f"output_{name}": output for name, (output, _) in self.tracked.items()}
        return outputs | {f"goal_{name}": np.where(followed, goal, np.nan) for name, (_, goal) in self.tracked.items()}

    @property
    def quantity_columns(self) -> dict[str, Array]:
        """All that the run knows by name: columns, states, outputs, targets; residuals with their outputs and goals."""
        found = {**self.columns, **self.state, **self.outputs}
        found |= {f"target_{name}": values for name, values in self.targets.items()} | self.tracked_columns
        names = [each.residual for each in self.closed_loop.tracked]
        return Named({name: found[f"output_{name}"] for name in names if name not in found} | found)

    @property
    def quantities(self) -> dict[str, Quantity]:
        """What each of `quantity_columns` is: its description and unit."""
        description, control = self.closed_loop.machine.description, self.closed_loop.control
        units = self.units
        own = {each.name: each.unit for each in self.closed_loop.residuals}
        names = self.quantity_columns
        known = {name: Quantity(name, "", units.get(name) or own.get(name.partition("_")[2], "1")) for name in names}
        stated = [*description.state, *description.inputs, *description.outputs]
        stated += [*control.law.description.states, *control.law.description.watches] if control else []
        stated += kept_columns(control.law.description) if control else []
        stated += [Quantity("t", "time", "s"), Quantity("energy", "energy", "J")]
        return Named(known | {each.name: each for each in stated})

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column of `columns`, by its name."""
        description, control = self.closed_loop.machine.description, self.closed_loop.control
        quantities = dict(zip(description.columns, (each.unit for each in description.state), strict=True))
        quantities |= {each.name: each.unit for each in description.inputs}
        quantities |= {f"residual_{each.name}": each.unit for each in self.closed_loop.residuals}
        if control:
            quantities |= {f"scale_{each.name}": "1" for each in control.law.description.limits}
            quantities |= {each.name: each.unit for each in kept_columns(control.law.description)}
            quantities |= {each.name: each.unit for each in control.law.description.states}
            quantities |= {each.name: each.unit for each in control.law.description.watches}
        quantities |= self._estimate_units()
        return Named({"t": "s", **quantities, "energy": "J", **dict.fromkeys(self._stamps, "s")})

    def _estimate_units(self) -> dict[str, str]:
        if self.estimate is None:
            return {}
        description = self.closed_loop.machine.description
        units = dict(zip(description.columns, (each.unit for each in description.state), strict=True))
        found = {f"{word}_{name}": unit for word in ("estimate", "std") for name, unit in units.items()}
        residuals = {f"true_residual_{each.name}": each.unit for each in self.closed_loop.residuals}
        return {name: (found | residuals).get(name, "1") for name in self.estimate.columns}

    @property
    def columns(self) -> dict[str, Array]:
        """All rows by column: t, states, inputs, `residual_NAME`, `scale_LIMIT`, program states, watches, energy.

        Behind the scales `kept`; last `goal_t` where goal time stood for a while, and `state_age` of a machine behind a
        link.
        """
        residuals = {f"residual_{name}": values for name, values in self.residual.items()}
        states = dict(zip(self.closed_loop.machine.description.columns, self.state.values(), strict=True))
        scales = {f"scale_{name}": values for name, values in self.scale.items()}
        more = {
            **residuals,
            **scales,
            **self.kept,
            **self.program_state,
            **self.watched,
            **(self.estimate.columns if self.estimate else {}),
        }
        return Named({"t": self.t, **states, **self.input, **more, "energy": self.energy, **self._stamps})

    @property
    def _stamps(self) -> dict[str, Array]:
        """Times beside t, where they say something."""
        stamps = {"goal_t": self.goal_t} if np.any(self.goal_t != self.t) else {}
        return stamps | ({"state_age": self.state_age} if self.state_age is not None else {})

    def to_dataframe(self) -> Any:
        """The columns as a pandas DataFrame with index t [s]; `.attrs["units"]` has the units.

        Raises:
            NotInstalled (an ImportError): pandas is not installed.

        >>> import servonode
        >>> frame = servonode.simulate("trailer_pursuit", run__duration=0.1, every=10).to_dataframe()
        >>> frame.shape, frame.attrs["units"]["U1"]
        ((11, 13), 'N m')
        """
        try:
            import pandas as pd
        except ImportError:
            raise NotInstalled("to_dataframe() needs pandas: pip install pandas, or use run.columns") from None
        frame = pd.DataFrame(self.columns).set_index("t")
        frame.attrs["units"] = self.units
        return frame

    def to_xarray(self) -> "xarray.Dataset":
        """The columns as an xarray Dataset over the coordinate t, each with `units` and `long_name` in its attributes.

        Raises:
            NotInstalled (an ImportError): xarray is not installed.

        >>> import servonode
        >>> found = servonode.simulate("trailer_pursuit", duration=0.1, every=10).to_xarray()
        >>> dict(found.sizes), found.phi.attrs["units"], found.phi.attrs["long_name"]
        ({'t': 11}, 'rad', 'hitch angle, trailer relative to robot, unwrapped')
        """
        try:
            import xarray
        except ImportError:
            raise NotInstalled("to_xarray() needs xarray: pip install xarray, or use run.columns") from None
        units, known = self.units, self.quantities
        stated = {
            name: {"units": units[name], **({"long_name": known[name].description} if known[name].description else {})}
            for name in self.columns
        }
        columns = {name: ("t", values, stated[name]) for name, values in self.columns.items()}
        return xarray.Dataset(columns, attrs={"title": self.table()[0]}).set_coords("t")

    def write_csv(self, file: str | Path, every: int = 1) -> None:
        """Write t, states, inputs, residuals and energy as CSV, every `every`-th row, all digits.

        A file that stands there is replaced when the new one is complete, and not touched before.

        Raises:
            StatementError: the folder is not there, or `every` is not 1 or more; OSError: the file cannot be written.
        """
        path = Path(file)
        if not path.parent.is_dir() or path.is_dir():
            raise StatementError(f"{path}: the folder is not there, or this is one; name a file in a folder that is")
        if not isinstance(every, int | np.integer) or is_truth(every) or every < 1:
            raise StatementError(f"every={every!r} is not a number of rows; give 1 or more")
        self.save_csv(path, every)

    def save_csv(self, file: Path, every: int = 1) -> None:
        """The same, where the arguments are known to be right."""
        columns, is_device = self.columns, file.exists() and not file.is_file()  # or a pipe
        with nullcontext(file) if is_device else replaced_file(file.resolve()) as draft:
            write_csv(draft, columns, [column[::every] for column in columns.values()])


def default_every(closed_loop: ClosedLoop) -> int:
    """Steps per recorded row: at most ROWS rows, on control instants where there are any."""
    launch = closed_loop.launch
    unit = launch.steps_per_period or 1
    periods = -(-launch.steps // unit)
    return unit * max(1, -(-periods // ROWS))


def json_number(value: float) -> float | str | None:
    """A float for JSON: None where nobody knows the number, infinite ones as text, which JSON cannot carry."""
    number = float(value)
    return None if np.isnan(number) else number if np.isfinite(number) else str(number)


def is_truth(value: Any) -> bool:
    """Whether it is True or False, which count as 1 and 0 in Python and are no numbers here."""
    return isinstance(value, bool | np.bool_)
