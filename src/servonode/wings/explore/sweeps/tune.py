"""`servonode tune`: rates, period or other numbers for which a stated cost is least, and which pass `check`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.analysis.check import report
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_error import LaunchError
from servonode.closed_loop.launch_file import with_values
from servonode.closed_loop.variation import Variation
from servonode.definitions.progress import task
from servonode.errors import StatementError
from servonode.mechanics.description import Quantity
from servonode.record.run import default_every
from servonode.simulation.simulate import simulate_fused
from servonode.tables import Row, Tabular
from servonode.wings.explore.sweeps.design import is_whole
from servonode.wings.explore.sweeps.outcomes import Judge, is_random
from servonode.wings.explore.sweeps.ranges import Range, numbers_at, quantities_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EFFORT = 0.1  # weight of the inputs' effort beside the residuals in the default cost
SEEDS = 5  # runs of each candidate where noise acts
RUNS = 600  # at most, unless the user wants more
FAILED = 1e150  # cost of a candidate whose run fails: above all others, and its square is a number
CANDIDATES = 12  # of the best that are checked
EDGE = 0.01  # of a range, at either end of which a best value may be better beyond
APART = 0.05  # of a range, by which candidates that are checked differ in one key at least
WIDE = 10.0  # high over low from which a range is searched by its logarithm
STEPPED = ("controller.period", "plant.step")  # keys in whole plant steps


@dataclass(frozen=True, repr=False)
class Tuned(Tabular):
    """The values of least cost that pass `check`, and all candidates that were tried.

    best: by key; the launch file's own where no candidate is better. cost: of them; own_cost: of the launch file's own
    values, NaN where its run fails; where runs are random both on seeds on which nothing was chosen. expression: what
    is the least. values (n, n_keys), costs (n,): of all candidates, NaN where a run fails, for the reason in `reasons`.
    refused: better candidates that are refused, with the reason. lines: of a launch file with the best values, none
    where its own stay.
    """

    file: str
    ranges: tuple[Range, ...]
    quantities: tuple[Quantity, ...]
    start: tuple[float, ...]
    expression: str
    best: dict[str, float]
    cost: float
    own_cost: float
    values: Array
    costs: Array
    reasons: tuple[str, ...]
    refused: tuple[str, ...]
    seeds: int
    lines: tuple[str, ...]

    def table(self) -> tuple[str, list[Row]]:
        """The cost, the best values as lines of a launch file, what `check` refused."""
        failed = int(np.isnan(self.costs).sum())
        rows: list[Row] = [("cost", self.expression)]
        where = f", on {self.seeds} seeds that chose nothing" if self.seeds > 1 else ""
        rows += [("least", f"{self.cost:.4g}; the launch file has {self.own_cost:.4g}{where}")]
        rows += [("candidates", f"{len(self.costs)}, {failed} of them fail; {self.seeds} runs each")]
        rows += [("refused", each) for each in self.refused]
        rows += [("note", each) for each in self.notes]
        rows += [("launch file" if i == 0 else "", line) for i, line in enumerate(self.lines)]
        return f"Tuned {self.file}, which passes check", rows

    @property
    def notes(self) -> list[str]:
        """Where the best is what the launch file has, or at an end of a range, beyond which it may be better."""
        if not self.lines:
            return ["no candidate that passes check is better than the launch file, whose values stay"]
        found = []
        for of, value in zip(self.ranges, self.best.values(), strict=True):
            if not EDGE < (share := _share(of, value)) < 1 - EDGE:
                end, bound = ("lower", of.low) if share <= EDGE else ("upper", of.high)
                found.append(f"{of.key} is at the {end} end of its range, {bound:g}; beyond it the cost may be less")
        return found

    def as_dict(self) -> dict[str, Any]:
        """All of it, as `servonode tune --json` prints it."""
        costs = [None if np.isnan(each) else float(each) for each in self.costs]
        tried = zip(self.values.tolist(), costs, self.reasons, strict=True)
        own = None if np.isnan(self.own_cost) else self.own_cost
        return {
            "file": self.file,
            "cost": self.expression,
            "best": {key: None if np.isnan(value) else value for key, value in self.best.items()},
            "least": self.cost,
            "own": own,
            "lines": list(self.lines),
            "notes": self.notes,
            "refused": list(self.refused),
            "candidates": [{"values": v, "cost": c, "why": why} for v, c, why in tried],
        }

    def plot(self) -> "Figure":
        """The picture: the cost over the varied keys, with the best values, as a matplotlib Figure."""
        from servonode.wings.explore.sweeps.figures import Side, costs_figure

        figure: Figure
        named = zip(self.ranges, self.quantities, self.start, strict=True)
        sides = [Side(quantity, each.low, each.high, start) for each, quantity, start in named]
        logs = [_logarithmic(each) for each in self.ranges]
        note = f"Cost: {self.expression}."
        title = f"{self.file}: cost over the numbers that were tuned"
        best = np.array(list(self.best.values()))
        figure = costs_figure(title, sides, logs, self.values, self.costs, (best, self.cost), self.own_cost, note)
        return figure


def tune(
    closed_loop: ClosedLoop,
    ranges: Sequence[Range],
    cost: str | None = None,
    require: Sequence[str] = (),
    runs: int = RUNS,
    seeds: int = SEEDS,
    threads: int | None = None,
) -> Tuned:
    """The best values within these ranges; see `Loop.tune`."""
    expression = cost or default_cost(closed_loop)
    seeds = seeds if is_random(closed_loop) else 1
    search = _Search(closed_loop, ranges, expression, require, seeds, threads)
    search.evolve(runs)
    best, least, refused = search.passing()
    if best is None:
        raise StatementError(f"{closed_loop.launch.file}: {search.failure(refused)}")
    keys, own = list(best), search.own_cost()
    start = numbers_at(closed_loop, keys)
    stays = own <= least and not _refusal(closed_loop, {})  # not where its run fails, which gives NaN
    if stays:
        best, least = dict(zip(keys, start, strict=True)), own
    return Tuned(
        closed_loop.launch.file,
        tuple(ranges),
        quantities_of(search.judge.variation)[: len(ranges)],
        tuple(start),
        expression,
        best,
        least,
        own,
        np.array(search.values),
        np.array(search.costs),
        tuple(search.reasons),
        tuple(refused),
        seeds,
        () if stays else tuple(launch_lines(best)),
    )


def default_cost(closed_loop: ClosedLoop) -> str:
    """The integrals of the residuals' magnitudes, and a tenth of the inputs' effort, both over those of the own run.

    Raises:
        StatementError: the run of the launch file fails, or has no residual.
    """
    run = simulate_fused(closed_loop, default_every(closed_loop))
    file = closed_loop.launch.file
    remedy = 'state a cost, as --cost "integral(abs(residual_NAME)) + 0.1*integral(U**2)"'
    if run.fault or not run.residual:
        why = f"the run ends by a fault ({run.fault['text']})" if run.fault else "there is no residual"
        raise StatementError(f"{file}: {why}, so there is no default cost; {remedy}")
    sizes = {name: float(np.trapezoid(np.abs(values), run.t)) for name, values in run.residual.items()}
    efforts = {name: float(np.trapezoid(values**2, run.t)) for name, values in run.input.items()}
    terms = [f"integral(abs(residual_{name}))/{size:.4g}" for name, size in sizes.items() if size]
    terms += [f"{EFFORT}*integral({name}**2)/{effort:.4g}" for name, effort in efforts.items() if effort]
    if not terms:
        raise StatementError(f"{file}: residuals and inputs are zero, so there is no default cost; {remedy}")
    return " + ".join(terms)


def launch_lines(values: dict[str, float]) -> list[str]:
    """The lines of a launch file with these values by dotted key."""
    sections: dict[str, list[str]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(f"{name} = {value:.6g}")
    return [line for section, lines in sections.items() for line in (f"[{section}]", *lines)]


class _Search:
    """Candidates, their costs, and the search among them."""

    def __init__(
        self,
        closed_loop: ClosedLoop,
        ranges: Sequence[Range],
        expression: str,
        require: Sequence[str],
        seeds: int,
        threads: int | None,
    ) -> None:
        self.loop, self.ranges, self.seeds, self.expression = closed_loop, ranges, seeds, expression
        self.require = require
        variation = Variation(closed_loop, [*(each.key for each in ranges), "run.seed"])
        self.judge = Judge(variation, require, threads, {"cost": expression})
        self.values: list[Array] = []
        self.costs: list[float] = []
        self.reasons: list[str] = []

    def evolve(self, runs: int) -> None:
        """Search by differential evolution (R. Storn, K. Price, J. Global Optim. 11, 1997), the same way each time.

        Raises:
            StatementError: so few runs are no search.
        """
        from scipy.optimize import differential_evolution

        n = len(self.ranges)
        size = max(5, min(15, runs // (10 * n * self.seeds)))  # candidates per key in a generation
        generation = 2 ** ceil(log2(size * n)) * self.seeds  # runs: Sobol points are a power of 2
        if runs < generation:
            text = f"runs = {runs} are fewer than the {generation} of one generation of candidates"
            raise StatementError(f"{text}; give at least so many" + (", or fewer seeds" if self.seeds > 1 else ""))
        task().plan(runs // generation * generation + 2 * self.seeds, about=True)
        differential_evolution(
            lambda x: np.nan_to_num(self.costs_at(x.reshape(n, -1).T), nan=FAILED, posinf=FAILED),
            [(0.0, 1.0)] * n,
            maxiter=runs // generation - 1,
            popsize=size,
            tol=1e-3,
            rng=np.random.default_rng(1),
            init="sobol",
            polish=False,
            updating="deferred",
            vectorized=True,
        )

    def costs_at(self, shares: Array) -> Array:
        """The costs of candidates at these shares (n, n_keys) of the ranges; NaN where a run fails."""
        columns = [_values(each, column, self.loop) for each, column in zip(self.ranges, shares.T, strict=True)]
        values: Array = np.column_stack(columns)
        costs, reasons = _tried(self.judge, values, self.seeds, self.loop.launch.run.seed)
        self.values += list(values)
        self.costs += costs.tolist()
        self.reasons += reasons
        return costs

    def own_cost(self) -> float:
        """The cost of the launch file as it is; NaN where its run fails."""
        own = Judge(Variation(self.loop, ["run.seed"]), self.require, self.judge.threads, {"cost": self.expression})
        return self._fresh(own, [])[0]

    def _fresh(self, judge: Judge, values: Sequence[float]) -> tuple[float, str]:
        """The cost of values on seeds that chose nothing, and why a run fails: the least of many means is too low."""
        first = self.loop.launch.run.seed + (self.seeds if is_random(self.loop) else 0)
        costs, reasons = _tried(judge, np.array([values]), self.seeds, first)
        return float(costs[0]), reasons[0]

    @property
    def order(self) -> list[int]:
        """The candidates that succeed, the best first."""
        return [int(i) for i in np.argsort(self.costs) if not np.isnan(self.costs[i])]

    def passing(self) -> tuple[dict[str, float] | None, float, list[str]]:
        """The best candidate that `check` passes and that bears other seeds, its cost, why better ones are refused."""
        refused: list[str] = []
        for i in self._distinct():
            values = {each.key: value for each, value in zip(self.ranges, self.values[i].tolist(), strict=True)}
            shown = ", ".join(f"{key} = {value:.4g}" for key, value in values.items())
            why, cost = _refusal(self.loop, values), np.nan
            if not why:
                cost, failed = self._fresh(self.judge, list(values.values()))
                why = f"a run with another seed fails: {failed}" if failed else ""
            if not why:
                return values, cost, refused
            refused.append(f"{shown} (cost {self.costs[i]:.4g}): {why}")
        return None, np.nan, refused

    def _distinct(self) -> Iterator[int]:
        """The best candidates that differ from each other, the best first."""
        chosen: list[int] = []
        widths = np.array([each.high - each.low for each in self.ranges])
        for i in self.order:
            near = [np.all(np.abs(self.values[i] - self.values[j]) < APART * widths) for j in chosen]
            if len(chosen) == CANDIDATES:
                return
            if not any(near):
                chosen.append(i)
                yield i

    def failure(self, refused: Sequence[str]) -> str:
        """Why there is no best candidate."""
        if refused:
            return f"the {len(refused)} best candidates are refused, first {refused[0]}; give other ranges"
        reasons = dict.fromkeys(self.reasons)
        return f"all {len(self.costs)} candidates fail: {'; '.join(reasons)}; give other ranges"


def _tried(judge: Judge, values: Array, seeds: int, first: int) -> tuple[Array, list[str]]:
    """The mean cost of each candidate over the seeds from the first one on, NaN where a run fails, and why it does."""
    rows = [[*row, first + seed] for row in values.tolist() for seed in range(seeds)]
    chunk = judge.run(np.array(rows, dtype=float))
    why = np.array(judge.judged(chunk), dtype=object).reshape(-1, seeds)
    costs = chunk.measures["cost"].reshape(-1, seeds).mean(axis=1)
    reasons = [next((each for each in row if each), "") for row in why]
    return np.where([not each for each in reasons], costs, np.nan), reasons


def _values(of: Range, share: Array, loop: ClosedLoop) -> Array:
    """The values of a key at these shares of its range: whole numbers, or whole plant steps, where it takes such."""
    values = of.low * (of.high / of.low) ** share if _logarithmic(of) else of.at(share)
    step = loop.launch.step_ns / 1e9 if of.key in STEPPED else 1.0
    if (whole := is_whole(of.key)) or of.key in STEPPED:
        values = np.round(np.maximum(np.round(values / step), 0.0 if whole else 1.0) * step, 9)
    return np.asarray(values)


def _share(of: Range, value: float) -> float:
    """Where in its range a value is, from 0 to 1, on the scale on which it is searched."""
    low, high, at = np.log([of.low, of.high, max(value, 1e-300)]) if _logarithmic(of) else (of.low, of.high, value)
    return float((at - low) / (high - low))


def _logarithmic(of: Range) -> bool:
    return of.low > 0 and of.high >= WIDE * of.low


def _refusal(loop: ClosedLoop, values: dict[str, float]) -> str:
    """Why `check` refuses the launch file with these values; empty: it does not."""
    try:
        found = report(resolve(with_values(loop.stated, values), strict=False))
    except LaunchError as error:
        return str(error)
    return "; ".join(f"{each.subject}: {each.text}" for each in found.findings if each.level == "refuse")
