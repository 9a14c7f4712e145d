"""`servonode region`: from which starts, or for which other numbers, a run reaches its goal, and why not elsewhere."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.variation import Variation
from servonode.definitions.progress import task
from servonode.errors import StatementError
from servonode.mechanics.description import Quantity
from servonode.tables import Row, Tabular, valued
from servonode.wings.explore.sweeps.intervals import LEVEL, wilson
from servonode.wings.explore.sweeps.outcomes import DO, KEEPS_ALL, Judge
from servonode.wings.explore.sweeps.ranges import Range, numbers_at, quantities_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from servonode.wings.explore.sweeps.figures import Rates, Side

Nodes = npt.NDArray[np.int64]  # (n, dimensions) whole numbers
Kinds = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
UNKNOWN = -1


@dataclass(frozen=True)
class Refined:
    """A grid of kinds: which kind each node is of, and whether it was computed or lies among nodes of one kind."""

    kinds: Kinds
    computed: Marks


def refined(kinds_of: Callable[[Nodes], Sequence[int]], coarse: int, dimensions: int, levels: int) -> Refined:
    """The kinds of all nodes of a grid with (coarse - 1) 2^levels + 1 nodes along each dimension.

    All nodes of the coarse grid are computed. Each level halves the cells whose corners differ; what is new in other
    cells takes the kind of their corners. A region that lies between the nodes of the coarse grid is not found.
    """
    shape = ((coarse - 1) * 2**levels + 1,) * dimensions
    found = Refined(np.full(shape, UNKNOWN, dtype=np.int64), np.zeros(shape, dtype=bool))
    step = 2**levels
    _compute(found, kinds_of, step, np.ones(shape, dtype=bool))
    while step > 1:
        divided = _divided(found.kinds, step)
        step //= 2
        _compute(found, kinds_of, step, divided)
    return found


def _compute(found: Refined, kinds_of: Callable[[Nodes], Sequence[int]], step: int, where: Marks) -> None:
    """Compute the nodes of the grid with this step that lie where it is wanted and are not computed yet."""
    on_grid = np.zeros(where.shape, dtype=bool)
    on_grid[(slice(None, None, step),) * where.ndim] = True
    nodes = np.argwhere(on_grid & where & ~found.computed)
    if len(nodes):
        place = tuple(nodes.T)
        found.kinds[place], found.computed[place] = kinds_of(nodes), True


def _divided(kinds: Kinds, step: int) -> Marks:
    """Which nodes belong to cells of this step whose corners differ; the others that are unknown get their kind."""
    divided = np.zeros(kinds.shape, dtype=bool)
    for low in product(range(0, kinds.shape[0] - 1, step), repeat=kinds.ndim):
        corners = {int(kinds[each]) for each in product(*((a, a + step) for a in low))}
        cell = tuple(slice(a, a + step + 1) for a in low)
        if len(corners) > 1:
            divided[cell] = True
        else:
            np.copyto(kinds[cell], corners.pop(), where=kinds[cell] == UNKNOWN)
    return divided


COARSE = {1: 33, 2: 17}  # nodes along each range that are computed first
HALVINGS = {1: 5, 2: 3}  # of cells at a boundary
MOST_ON_GRID = 2  # ranges; more of them are tried at random
AT_RANDOM = 1000  # runs of more ranges
LEAST_POINTS, MOST_POINTS = 3, 257
MOST_RUNS = 1_000_000
BINS = 10  # of a range, in which success rates are counted


@dataclass(frozen=True, repr=False)
class Region(Tabular):
    """Where in a box of values runs reach their goal, and why not elsewhere.

    ranges: of the varied keys. quantities: what they are. start: their values in the launch file. values (n, n_keys):
    of all runs. outcomes: of each run, `kinds[0]` where it reaches the goal (or keeps all), else the reason. kinds: all
    outcomes.
    grid: of each node of a grid over one or two ranges its place in `kinds`; None where values were drawn at random.
    computed: which nodes were.
    """

    file: str
    ranges: tuple[Range, ...]
    quantities: tuple[Quantity, ...]
    start: tuple[float, ...]
    values: Array
    outcomes: tuple[str, ...]
    kinds: tuple[str, ...]
    grid: npt.NDArray[np.int64] | None
    computed: npt.NDArray[np.bool_] | None

    @property
    def shares(self) -> dict[str, float]:
        """The share of the box of each outcome: of the area of a grid, of the runs at random."""
        if self.grid is None:
            counts = Counter(self.outcomes)
            return {kind: counts[kind] / len(self.outcomes) for kind in self.kinds}
        weights = _trapezoid(self.grid.shape)
        return {kind: float(weights[self.grid == i].sum()) for i, kind in enumerate(self.kinds)}

    @property
    def interval(self) -> tuple[float, float]:
        """Between which the share of the starts that reach the goal lies.

        Of runs at random it is Wilson's interval of 95 %; of a grid the share of the cells all of whose corners reach
        the goal, and of those with one that does.
        """
        if self.grid is None:
            return wilson(Counter(self.outcomes)[self.kinds[0]], len(self.outcomes))
        reached = self.grid == 0
        corners = [reached]
        for axis in range(reached.ndim):
            corners = [np.take(c, range(a, c.shape[axis] - 1 + a), axis) for c in corners for a in (0, 1)]
        return float(np.mean(np.all(corners, axis=0))), float(np.mean(np.any(corners, axis=0)))

    def table(self) -> tuple[str, list[Row]]:
        """The ranges, the share that reaches the goal, the shares of the reasons why not."""
        named = zip(self.ranges, self.quantities, strict=True)
        rows: list[Row] = [
            ("over", f"{valued(r.key, r.low, '1')} to {r.high:.4g} {_unit(of)}".strip()) for r, of in named
        ]
        rows += [("runs", f"{len(self.values)}")]
        shares, (low, high) = self.shares, self.interval
        how = f"{100 * LEVEL:.0f} % interval" if self.grid is None else "by the cells at the boundary"
        text = f"{100 * shares[self.kinds[0]]:.1f} % of the box, {100 * low:.1f} to {100 * high:.1f} % ({how})"
        rows += [(self.kinds[0], text)]
        others = sorted(self.kinds[1:], key=lambda kind: -shares[kind])
        rows += [
            ("not kept" if self.kinds[0] == KEEPS_ALL else "not reached", f"{100 * shares[kind]:.1f} %: {kind}")
            for kind in others
        ]
        return f"Region of {self.file}", rows

    def as_dict(self) -> dict[str, Any]:
        """All of it, as `servonode region --json` prints it."""
        named = zip(self.ranges, self.quantities, strict=True)
        over = [{"key": r.key, "low": r.low, "high": r.high, "unit": of.unit} for r, of in named]
        runs = [{"values": v, "outcome": o} for v, o in zip(self.values.tolist(), self.outcomes, strict=True)]
        return {"file": self.file, "over": over, "shares": self.shares, "interval": list(self.interval), "runs": runs}

    def plot(self) -> "Figure":
        """The picture: a map of two ranges, a strip of one, success rates over more, as a matplotlib Figure."""
        from servonode.wings.explore.sweeps.figures import Kind, Side, map_figure, rates_figure

        figure: Figure
        names = zip(self.ranges, self.quantities, self.start, strict=True)
        sides = [Side(quantity, each.low, each.high, start) for each, quantity, start in names]
        kinds = [Kind(kind, share, kind == self.kinds[0]) for kind, share in self.shares.items()]
        title = f"{self.file}: runs that {DO[self.kinds[0]]}, and why the others do not"
        if self.grid is not None:
            note = f"{len(self.values)} runs: a grid, refined where the outcomes of neighbours differ."
            figure = map_figure(title, sides, kinds, self.grid, note)
        else:
            note = f"{len(self.values)} runs at random; bars: {LEVEL:.0%} intervals (Wilson)."
            figure = rates_figure(title, [self._rates(i, side) for i, side in enumerate(sides)], kinds, note)
        return figure

    def _rates(self, i: int, side: "Side") -> "Rates":
        """The success rate over one of the ranges, in bins of even width."""
        from servonode.wings.explore.sweeps.figures import Rates

        edges = np.linspace(side.low, side.high, BINS + 1)
        bins = np.clip(np.digitize(self.values[:, i], edges) - 1, 0, BINS - 1)
        reached = np.array([each == self.kinds[0] for each in self.outcomes])
        counts = [(int(reached[bins == b].sum()), int((bins == b).sum())) for b in range(BINS)]
        ends = np.array([wilson(*each) for each in counts])
        shares = np.array([k / n if n else np.nan for k, n in counts])
        return Rates(side, (edges[1:] + edges[:-1]) / 2, shares, *ends.T)


def region(
    closed_loop: ClosedLoop,
    ranges: Sequence[Range],
    require: Sequence[str] = (),
    points: int | None = None,
    runs: int | None = None,
    threads: int | None = None,
) -> Region:
    """The region over these ranges; see `Loop.region`."""
    _check_counts(len(ranges), points, runs)
    variation = Variation(closed_loop, [each.key for each in ranges])
    judge = _Outcomes(Judge(variation, require, threads), ranges)
    grid = None
    if runs is None and len(ranges) <= MOST_ON_GRID:
        grid = judge.on_grid(points)
    else:
        count = AT_RANDOM if runs is None else runs
        task().plan(count)
        judge.kinds_at(np.random.default_rng(1).random((count, len(ranges))))  # the same values each time
    return Region(
        closed_loop.launch.file,
        tuple(ranges),
        quantities_of(variation),
        tuple(numbers_at(closed_loop, variation.keys)),
        np.array(judge.values),
        tuple(judge.kinds[kind] for kind in judge.found),
        tuple(judge.kinds),
        None if grid is None else grid.kinds,
        None if grid is None else grid.computed,
    )


def _check_counts(dimensions: int, points: int | None, runs: int | None) -> None:
    if points is not None and not LEAST_POINTS <= points <= MOST_POINTS:
        raise StatementError(f"points = {points} are no grid; give {LEAST_POINTS} to {MOST_POINTS}")
    if runs is not None and not 1 <= runs <= MOST_RUNS:
        raise StatementError(f"runs = {runs} are not possible; give 1 to {MOST_RUNS}")
    if points is not None and (runs is not None or dimensions > MOST_ON_GRID):
        text = f"points = {points} belong to a grid, which runs at random (runs, or three ranges and more) do not have"
        raise StatementError(f"{text}; leave them out")


class _Outcomes:
    """The outcomes of runs at values within ranges, and all values that were tried."""

    def __init__(self, judge: Judge, ranges: Sequence[Range]) -> None:
        self.judge, self.ranges = judge, ranges
        self.values: list[Array] = []
        self.found: list[int] = []
        self.kinds = [judge.good]

    def kinds_at(self, shares: Array) -> list[int]:
        """The kinds at these shares (n, n_keys) of the ranges, numbers of `self.kinds`."""
        values = np.column_stack([each.at(column) for each, column in zip(self.ranges, shares.T, strict=True)])
        reasons = [reason or self.kinds[0] for reason in self.judge.reasons(values)]
        self.kinds += [reason for reason in dict.fromkeys(reasons) if reason not in self.kinds]
        kinds = [self.kinds.index(reason) for reason in reasons]
        self.values += list(values)
        self.found += kinds
        return kinds

    def on_grid(self, points: int | None) -> Refined:
        """A grid that is refined where neighbours differ."""
        dimensions = len(self.ranges)
        coarse, levels = points or COARSE[dimensions], HALVINGS[dimensions]
        last = (coarse - 1) * 2**levels
        finer = iter(range(levels, -1, -1))  # how many levels come after this one

        def kinds_of(nodes: Nodes) -> list[int]:
            left = next(finer)  # each has as many new nodes as the one before, on a curve twice as many
            beyond = sum(2 ** (level * (dimensions - 1)) for level in range(1, left + 1)) if left < levels else 0
            words = f"runs, {'with' if left < levels else 'then'} the boundaries of the grid"
            task().plan(len(nodes) * (1 + beyond), words, about=bool(beyond))
            return self.kinds_at(nodes / last)

        return refined(kinds_of, coarse, dimensions, levels)


def _trapezoid(shape: tuple[int, ...]) -> Array:
    """The share of the box that belongs to each node of a grid."""
    weights = np.ones(shape)
    for axis, size in enumerate(shape):
        line = np.full(size, 1 / (size - 1))
        line[[0, -1]] /= 2
        weights *= line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return weights


def _unit(quantity: Quantity) -> str:
    return "" if quantity.unit == "1" else quantity.unit
