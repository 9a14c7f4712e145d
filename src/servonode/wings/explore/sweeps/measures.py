"""What is kept of each run of a sweep: its measures, numbers of the run, and its histories on request."""

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.variation import Variation
from servonode.controllers.engine.layout import kept_columns
from servonode.errors import StatementError
from servonode.kernels.syntax import syntax_tree
from servonode.mechanics.expression import MAX_LENGTH, OPERATIONS, Apply, ExpressionError, Node, Symbol, parse
from servonode.plants.record_layout import PlantRecordLayout
from servonode.record.run import Run
from servonode.record.run_rows import held_index

Columns = Callable[[str], Array]  # a column of the run by its name


def column_units(closed_loop: ClosedLoop) -> dict[str, str]:
    """The unit of each column that measures may use, by its name: t, states, work, inputs, residuals and so on."""
    description, control = closed_loop.machine.description, closed_loop.control
    units = {"t": "s"} | {each.name: each.unit for each in description.state} | {"work": "J"}
    units |= {each.name: each.unit for each in description.inputs}
    units |= {f"residual_{each.name}": each.unit for each in closed_loop.residuals}
    if control is not None:
        program = control.law.description
        units |= {f"scale_{each.name}": "1" for each in program.limits}
        units |= {each.name: each.unit for each in (*kept_columns(program), *program.states)}
    return units | {"energy": "J"}


def columns_of_run(run: Run) -> dict[str, Array]:
    """The columns of a run by the names of `column_units`."""
    columns: dict[str, Any] = {"t": run.t, **run.state, "work": run.work, **run.input}
    columns |= {f"residual_{name}": values for name, values in run.residual.items()}
    columns |= {f"scale_{name}": values for name, values in run.scale.items()}
    return columns | run.kept | run.program_state | {"energy": run.energy}


def known_rows(columns: Sequence[Array], t: Array) -> tuple[Sequence[Array], Array]:
    """The columns and times without the rows at which a column is nan, as a residual is where the state was lost.

    All rows where none is left.
    """
    if not any(np.isnan(each).any() for each in columns):
        return columns, t
    known = ~np.any([np.isnan(each) for each in columns], axis=0)
    return ([each[known] for each in columns], t[known]) if known.any() else (columns, t)


class RecordedColumns:
    """The columns of a run in the two records that the compiled loop has filled: views where that is possible.

    table: the plant's rows. answers: the controller's, of a run that came to its end.
    """

    def __init__(self, closed_loop: ClosedLoop, places: Mapping[str, tuple[bool, int]], table: Array, answers: Array):
        """places: see `places_of`."""
        self._closed_loop, self._places, self._table, self._answers = closed_loop, places, table, answers
        self._part = PlantRecordLayout.of(closed_loop.machine.description)
        self.t: Array = table[:, 0] * closed_loop.launch.step_ns / 1e9
        self._held: Any = None  # the answer of each row, where it is not the answer of the same number

    def __call__(self, name: str) -> Array:
        """The column of this name."""
        if name in self._places:
            answered, at = self._places[name]
            return self._answered(at) if answered else self._table[:, at]
        if name == "t":
            return self.t
        machine = self._closed_loop.machine
        x = np.ascontiguousarray(self._table[:, self._part.x])
        if name == "energy":
            return machine.energy_of_rows(self.t, x)
        reactions = [f"residual_{each.name}" for each in machine.description.stabilised]
        at = len(machine.description.constraints) + reactions.index(name)
        return machine.residuals_of_rows(self.t, x)[:, at]

    def _answered(self, at: int) -> Array:
        """A column of the controller's record, repeated until the next answer."""
        if np.array_equal(self._answers[:, 0], self._table[:, 0]):
            return self._answers[:, at]
        if self._held is None:
            k, period = self._table[:, 0].astype(np.int64), self._closed_loop.launch.steps_per_period or 1
            self._held = held_index(k, self._answers[:, 0], period)
        index, answered = self._held
        return np.where(answered, self._answers[index, at], np.nan)


def places_of(closed_loop: ClosedLoop) -> dict[str, tuple[bool, int]]:
    """Where the compiled loop records a column: whether in the controller's record, and in which column of it."""
    machine, control = closed_loop.machine.description, closed_loop.control
    columns = PlantRecordLayout.of(machine).columns(machine)
    part = PlantRecordLayout.of(machine).computed
    places = {name: (False, i) for i, name in enumerate(columns[part]) if i > 0}
    if control is None:
        return places
    program, kept = control.law.description, control.law.record_layout
    for prefix, quantities, columns_of in (
        ("residual_", program.residuals, kept.residuals),
        ("scale_", program.limits, kept.scales),
        ("", kept_columns(program), kept.margins),
        ("", program.states, kept.states),
    ):
        places |= {f"{prefix}{each.name}": (True, columns_of.start + i) for i, each in enumerate(quantities)}
    return places


def _integral(values: Array, t: Array) -> float:
    return float(np.trapezoid(values, t))


def _mean(values: Array, t: Array) -> float:
    span = float(t[-1] - t[0])
    return _integral(values, t) / span if span > 0.0 else float(values[-1])


TAKEN: Mapping[str, Callable[[Array, Array], float]] = {
    "max": lambda values, _: float(np.max(values)),
    "min": lambda values, _: float(np.min(values)),
    "final": lambda values, _: float(values[-1]),
    "mean": _mean,
    "integral": _integral,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("cos", "exp", "sin", "sqrt", "tan", "tanh")},
    "abs": np.abs,
    "atan2": np.arctan2,
    "max": lambda *terms: reduce(np.maximum, terms),
    "min": lambda *terms: reduce(np.minimum, terms),
    "wrap": lambda angle: angle - 2 * np.pi * np.floor((angle + np.pi) / (2 * np.pi)),
}


class StatedMeasure:
    """A number of a run, such as "max(abs(phi)) + 0.1*integral(U1**2)".

    max(), min(), final(), mean() over time and integral() over time (by the trapezoidal rule) of one argument take a
    number of an expression of columns, row by row; around them stand arithmetic and the functions of launch files.
    """

    def __init__(self, name: str, text: str, columns: Collection[str]) -> None:
        """Raises StatementError: the text is no such expression, or a column is unknown."""
        self.name, self.text = name, text
        self._taken: list[tuple[str, Node, tuple[str, ...]]] = []
        self._columns = tuple(columns)
        try:
            if len(text) > MAX_LENGTH:
                raise ExpressionError(f"it has more than {MAX_LENGTH} characters; use fewer")
            self._tree = self._outer(text)
        except ExpressionError as error:
            raise StatementError(f"measure {name}: {error}") from error

    def of(self, t: Array, columns: Columns) -> float:
        """The number of a run with these columns, whose rows are at times t [s]."""
        with np.errstate(all="ignore"):
            taken = {f"taken_{i}": np.float64(_number(*each, t, columns)) for i, each in enumerate(self._taken)}
            return float(_value(self._tree, taken))

    def _outer(self, text: str) -> Node:
        """The expression of the numbers that are taken."""
        try:
            syntax = syntax_tree(text.strip(), mode="eval")
            for each in ast.walk(syntax):
                if isinstance(each, ast.Name) and each.id.startswith("taken_"):  # as numbers are named here
                    parse(each.id, self._columns)
            outer = ast.unparse(_Taking(self._take).visit(syntax))
        except ExpressionError:
            raise
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            outer = text  # which is refused with its place
        self._check_names(outer)
        return parse(outer, [f"taken_{i}" for i in range(len(self._taken))]).tree

    def _check_names(self, outer: str) -> None:
        """Refuse columns, and unknown names, outside of what takes a number of them."""
        try:
            names = [each.id for each in ast.walk(syntax_tree(outer, mode="eval")) if isinstance(each, ast.Name)]
        except (SyntaxError, RecursionError, MemoryError, ValueError):
            return
        for name in names:
            if name in _FUNCTIONS or name == "pi" or name.startswith("taken_"):
                continue
            parse(name, self._columns)  # refused where it is unknown
            uses = ", ".join(f"{how}({name})" for how in TAKEN)
            raise ExpressionError(f"{name} is a column with a value at each row; say which number of it: {uses}")

    def _take(self, how: str, inner: str) -> str:
        """The name of a number that is taken of the columns."""
        expression = parse(inner, self._columns)
        self._taken.append((how, expression.tree, tuple(sorted(expression.names))))
        return f"taken_{len(self._taken) - 1}"


@dataclass(frozen=True)
class ColumnMeasure:
    """A number that is taken of one column, whose values (n,) at times t (n,) [s] are changed before."""

    how: str  # of TAKEN
    column: str
    change: Callable[[Array, Array], Array]

    def of(self, t: Array, columns: Columns) -> float:
        (values,), times = known_rows([columns(self.column)], t)
        return TAKEN[self.how](self.change(values, times), times)


def _number(how: str, tree: Node, names: Sequence[str], t: Array, columns: Columns) -> float:
    """The number that is taken of an expression of columns."""
    known, times = known_rows([columns(name) for name in names], t)
    values = _value(tree, dict(zip(names, known, strict=True)))
    return TAKEN[how](np.broadcast_to(values, times.shape), times)


class _Taking(ast.NodeTransformer):
    """Replaces max(...) and the like, with one argument, by names."""

    def __init__(self, take: Callable[[str, str], str]) -> None:
        self._take = take

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in TAKEN and len(node.args) == 1 and not node.keywords:
            return ast.Name(self._take(node.func.id, ast.unparse(node.args[0])))
        return self.generic_visit(node)


def _value(node: Node, values: Mapping[str, Any]) -> Any:
    """The value of a tree where its names have these values."""
    if isinstance(node, Symbol):
        return values[node.name]
    if not isinstance(node, Apply):
        return float(node.value)
    if node.value is not None:
        return node.value
    function = OPERATIONS.get(node.function) or _FUNCTIONS.get(node.function)
    if function is None:  # pi
        return np.pi
    return function(*(_value(each, values) for each in node.arguments))


SETTLED = 0.02  # share of its largest magnitude within which a residual has settled
ROUNDING = 1e-6  # magnitude of a residual that has never been disturbed
TEXTS = ("fault",)  # the measures that are texts
STORED = ("run", "reason", "progress")  # names that stand beside measures in the results of a sweep
REFUSED = "refused"  # the fault of a run that was refused before it began


class Measures:
    """The measures of a run, by name.

    residual_NAME_largest, residual_NAME_final: the largest and the last magnitude of each residual. effort_INPUT: the
    integral of the square of each input, held over each row [its unit squared s]. settle_time [s]: from when on each
    residual stays within 2 % of its largest magnitude; nan where one has not settled at the end. duration [s]: of the
    run. fault: the name of the fault that ended it, "" where it completed, "refused" where it could not begin;
    fault_time [s]. Then the stated ones, see `StatedMeasure`. Rows whose state was lost have no residuals, and count
    for none of it. All of them but duration, fault and fault_time are nan for a run that a fault ended. histories:
    whether the columns of each run are kept too.
    """

    def __init__(
        self, variation: Variation, stated: Mapping[str, str | ColumnMeasure], histories: bool = False
    ) -> None:
        """Raises StatementError: a stated measure is no expression of columns, or has the name of another one."""
        base = variation.base
        self.histories = histories
        self.columns = column_units(base)
        self._residuals = [f"residual_{each.name}" for each in base.residuals]
        self._inputs = {each.name: each.unit for each in base.machine.description.inputs}
        units: dict[str, str] = {}
        for name in self._residuals:
            units |= {f"{name}_largest": self.columns[name], f"{name}_final": self.columns[name]}
        units |= {f"effort_{name}": f"({unit})^2 s" for name, unit in self._inputs.items()}
        units |= {"settle_time": "s", "duration": "s", "fault": "", "fault_time": "s"}
        for name in stated:
            if text := self._unfit(name, units):
                raise StatementError(f"measure {name}: {text}; give it another name")
        self._stated = {
            name: StatedMeasure(name, each, self.columns) if isinstance(each, str) else each
            for name, each in stated.items()
        }
        self._units = units | dict.fromkeys(stated, "")

    def _unfit(self, name: str, known: Mapping[str, str]) -> str:
        """Why a stated measure cannot have this name; empty where it can."""
        if name in self.columns:
            return "is a column of the run"
        if name in known or name in STORED:
            return "there is such a measure already"
        return "" if name.isidentifier() else "not a name of letters, digits and _"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._units)

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each measure; "" of texts and of stated ones."""
        return tuple(self._units.values())

    def of_run(self, run: Run) -> dict[str, float | str]:
        """The measures of a run."""
        if run.fault is not None:
            return self.of_fault(str(run.fault["name"]), float(run.fault["t"]))
        return self.of_columns(run.t, columns_of_run(run).__getitem__)

    def of_fault(self, fault: str, time: float) -> dict[str, float | str]:
        """The measures of a run that a fault ended at this time [s]; nan: it never began."""
        found: dict[str, float | str] = dict.fromkeys(self._units, np.nan)
        return found | {"fault": fault, "fault_time": time, "duration": 0.0 if np.isnan(time) else time}

    def of_columns(self, t: Array, columns: Columns) -> dict[str, float | str]:
        """The measures of a run that completed, whose rows are at times t [s]."""
        found: dict[str, float | str] = {}
        settled = [0.0]
        for name in self._residuals:
            (column,), times = known_rows([columns(name)], t)
            size = np.abs(column)
            largest = float(np.max(size))
            found |= {f"{name}_largest": largest, f"{name}_final": float(size[-1])}
            settled.append(_settled(times, size, largest))
        held = np.diff(t)
        for name in self._inputs:
            found[f"effort_{name}"] = float(np.square(columns(name)[:-1]) @ held)
        found |= {"settle_time": float(np.max(settled)), "duration": float(t[-1]), "fault": "", "fault_time": np.nan}
        return found | {name: each.of(t, columns) for name, each in self._stated.items()}


def _settled(t: Array, size: Array, largest: float) -> float:
    """The time [s] from which on a residual of these magnitudes stays within its band; nan: it has not settled."""
    outside = np.flatnonzero(~(size <= SETTLED * largest))
    if largest <= ROUNDING or not len(outside):
        return 0.0
    return float(t[outside[-1] + 1]) if outside[-1] + 1 < len(t) else np.nan
