"""`servonode robustness`: how wrong the law's parameters may be, how much noise, delay and period a run bears."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.gains import MATRICES, PERTURBATION
from servonode.closed_loop.variation import Variation
from servonode.definitions.progress import task
from servonode.errors import StatementError
from servonode.mechanics.description import Quantity
from servonode.record.run import default_every
from servonode.simulation.simulate import simulate_fused
from servonode.tables import Row, Tabular
from servonode.wings.explore.sweeps.intervals import clopper_pearson
from servonode.wings.explore.sweeps.outcomes import DO, KEEPS_ALL, KEPT, REACHED, Judge, is_random

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from servonode.wings.explore.sweeps.figures import Chart

TARGET = 0.9  # success rate that a size must have
PRECISION = 0.01  # of a size, to which a margin is found
MOST_ROUNDS = 12
BISECTED = 6  # sizes that find a margin between two of a grid, about

Trial = Callable[[Array], list[str]]  # values (n, n_keys) -> why each run fails, "" where it succeeds


@dataclass(frozen=True)
class Deviation:
    """One number that deviates, by sizes above 0: on a coarse grid first, then in between.

    values: of the varied keys at a size, a row for each seed. grid: the sizes tried first, in rising order. step: sizes
    are its multiples; 0: any size. least: the size at which nothing deviates. group: what it belongs to.
    """

    name: str
    group: str
    quantity: Quantity
    values: Callable[[float], list[list[float]]]
    grid: tuple[float, ...]
    step: float = 0.0
    least: float = 0.0


@dataclass(frozen=True)
class Tried:
    """The runs at a size: how many succeed, and the most frequent reason why others do not; empty: all succeed."""

    size: float
    successes: int
    runs: int
    reason: str

    @property
    def rate(self) -> float:
        return self.successes / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of 95 % of the success rate."""
        return clopper_pearson(self.successes, self.runs)


@dataclass(frozen=True)
class Margin:
    """The largest size of a deviation up to which at least 90 % of the runs succeed, at each size that was tried.

    low, high: of one run for each size, the sizes between which the first failure lies. Of random runs, the size up to
    which the interval of the success rate lies above 90 %, and that from which it lies below. failed: False where no
    size fails, so that the margin is at least as large. reason: why runs fail beyond it.
    """

    name: str
    group: str
    quantity: Quantity
    least: float
    tried: tuple[Tried, ...]

    @property
    def size(self) -> float:
        """The margin: the last size before the first that fails."""
        return self._last_before(lambda each: each.rate >= TARGET)

    @property
    def low(self) -> float:
        """The lower end of what the margin may be."""
        if self._single:
            return self.size
        return self._last_before(lambda each: each.interval[0] >= TARGET)

    @property
    def high(self) -> float:
        """The upper end of what the margin may be; infinite where no size fails for sure."""
        rates = ((each.size, each.rate if self._single else each.interval[1]) for each in self.tried)
        return next((size for size, rate in rates if rate < TARGET), np.inf)

    @property
    def failed(self) -> bool:
        """Whether a size fails."""
        return any(each.rate < TARGET for each in self.tried)

    @property
    def reason(self) -> str:
        """Why runs fail at the first size that fails; empty: none does."""
        return next((each.reason for each in self.tried if each.rate < TARGET), "")

    @property
    def _single(self) -> bool:
        return all(each.runs == 1 for each in self.tried)

    def _last_before(self, holds: Callable[[Tried], bool]) -> float:
        """The last size before the first one for which something does not hold."""
        last = self.least
        for each in self.tried:
            if not holds(each):
                break
            last = each.size
        return last


def margins(trial: Trial, deviations: Sequence[Deviation]) -> list[Margin]:
    """The margins of deviations that vary the same keys; each round of sizes is one sweep."""
    lines = [_Line(each) for each in deviations]
    wanted = [list(each.deviation.grid) for each in lines]
    for _ in range(MOST_ROUNDS):
        if not any(wanted):
            break
        _try(trial, lines, wanted)
        wanted = [each.next_sizes() for each in lines]
    return [
        Margin(d.name, d.group, d.quantity, d.least, tuple(line.tried))
        for d, line in zip(deviations, lines, strict=True)
    ]


@dataclass
class _Line:
    """A deviation with the sizes that were tried, in rising order."""

    deviation: Deviation
    tried: list[Tried] = field(default_factory=list)

    def next_sizes(self) -> list[float]:
        """The size between the last that succeeds and the first that fails, as long as they differ enough."""
        first = next((i for i, each in enumerate(self.tried) if each.rate < TARGET), None)
        if first is None:
            return []
        high = self.tried[first].size
        low = self.tried[first - 1].size if first else self.deviation.least
        step = self.deviation.step
        middle = float(np.sqrt(low * high)) if low else high / 2
        if step:
            middle = step * round(middle / step)
        close = high - low <= PRECISION * high or not low < middle < high
        return [] if close else [middle]


def _try(trial: Trial, lines: Sequence[_Line], wanted: Sequence[Sequence[float]]) -> None:
    """Run all wanted sizes of all lines at once."""
    sizes = [(line, size) for line, own in zip(lines, wanted, strict=True) for size in own]
    rows = [line.deviation.values(size) for line, size in sizes]
    reasons = iter(trial(np.array([row for each in rows for row in each])))
    for (line, size), each in zip(sizes, rows, strict=True):
        found = [next(reasons) for _ in each]
        failures = Counter(reason for reason in found if reason)
        reason = failures.most_common(1)[0][0] if failures else ""
        line.tried.append(Tried(size, found.count(""), len(found), reason))
    for line in lines:
        line.tried.sort(key=lambda each: each.size)


SEEDS = 40  # runs at each size where noise acts
FACTORS = (1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0)  # of a parameter, and their reciprocals
NOISE = tuple(2.0**k for k in range(-1, 10))  # of the stated noise
SHARES = tuple(10.0 ** (k / 2) for k in range(-4, 5))  # percent of the range of each state, where no noise is stated
PERIODS = (1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0)  # of the control period
DELAYS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)  # of the control period
LEAST_PERIODS = 20  # control periods that a run must keep
SMALLER, LARGER = "smaller", "larger"  # groups of the deviations of parameters


@dataclass(frozen=True, repr=False)
class Robustness(Tabular):
    """The margins of a closed loop: by group those of parameters that are smaller or larger than the law believes
    (sizes are factors), of noise, of a delay that the law does not know [s], of the control period [s].

    seeds: runs at each size where noise acts, 1 where nothing is random.
    """

    file: str
    margins: tuple[Margin, ...]
    seeds: int
    require: tuple[str, ...]

    def of(self, group: str) -> list[Margin]:
        """The margins of one group."""
        return [each for each in self.margins if each.group == group]

    def table(self) -> tuple[str, list[Row]]:
        """The margins of parameters, the narrowest first, then those of noise, delay and period."""
        rows = [(small.name, _sides(small, large)) for small, large in self._ordered()]
        rows += [(each.name, _plain(each)) for each in self.margins if each.group not in (SMALLER, LARGER)]
        return f"Margins of {self.file}", rows

    def as_dict(self) -> dict[str, Any]:
        """All of it, as `servonode robustness --json` prints it."""
        return {"file": self.file, "seeds": self.seeds, "margins": [_entry(each) for each in self.margins]}

    def plot(self) -> "Figure":
        """The picture: the factors by which parameters may be wrong, the success rates over the other sizes."""
        from servonode.wings.explore.sweeps.figures import Strip, margins_figure

        figure: Figure
        strips = [Strip(low.name, 1 / low.size, high.size, low.reason, high.reason) for low, high in self._ordered()]
        charts = [_chart(each) for each in self.margins if each.group not in (SMALLER, LARGER)]
        title = f"{self.file}: how wrong parameters may be, and how much noise, delay and period a run bears"
        done = f"runs {DO[KEEPS_ALL if KEPT in self.require else REACHED]}"
        figure = margins_figure(title, strips, FACTORS[-1], charts, self._note(), done)
        return figure

    def _ordered(self) -> list[tuple[Margin, Margin]]:
        """Both margins of each parameter, the narrowest first."""
        sides = zip(self.of(SMALLER), self.of(LARGER), strict=True)
        return sorted(sides, key=lambda pair: min(each.size if each.failed else np.inf for each in pair))

    def _note(self) -> str:
        most = max(each.runs for margin in self.margins for each in margin.tried)
        return (
            f"Dashed: the margin, up to which {100 * TARGET:.0f} % succeed. Bars and grey: 95 % intervals "
            f"(Clopper-Pearson), at most {most} runs for each size."
        )


def robustness(
    closed_loop: ClosedLoop, require: Sequence[str] = (), seeds: int = SEEDS, threads: int | None = None
) -> Robustness:
    """The margins of a closed loop; see `Loop.robustness`."""
    loop = _pinned(closed_loop)
    noisy = is_random(loop)
    _check_run(loop, require)
    found: list[Margin] = []
    questions = _questions(loop, seeds if noisy else 1, seeds)
    sizes = (len(each.values(1.0)) * (len(each.grid) + BISECTED) for _, deviations in questions for each in deviations)
    task().plan(sum(sizes), about=True)
    for keys, deviations in questions:
        judge = Judge(Variation(loop, keys), require, threads)
        found += margins(judge.reasons, deviations)
    return Robustness(closed_loop.launch.file, tuple(found), seeds if noisy else 1, tuple(require))


def _pinned(closed_loop: ClosedLoop) -> ClosedLoop:
    """The closed loop whose law keeps the parameters and rates that it has, whatever the plant's become."""
    control, stated = closed_loop.control, closed_loop.stated.controller
    if control is None or stated is None:
        return closed_loop
    own = [each for each in closed_loop.machine.parameters if each not in control.believed.changes.varying]
    believed = closed_loop.machine.parameters | stated.parameters
    values = {f"controller.parameters.{name}": believed[name] for name in own}
    if not any(key in stated.gains for key in (*MATRICES, *PERTURBATION)) and not control.law.description.explicit:
        names = [each.name for each in control.law.description.residuals]
        rates = zip(names, control.gains.rates.tolist(), strict=True)
        values |= {f"controller.gains.lambda_{name}": rate for name, rate in rates}
    return Variation(closed_loop, list(values)).at(list(values.values()))


def _check_run(loop: ClosedLoop, require: Sequence[str]) -> None:
    """Refuse a launch file whose own run fails.

    Raises:
        StatementError: that is so.
    """
    reason = Judge(Variation(loop, ["run.seed"]), require, 1).reasons(np.array([[float(loop.launch.run.seed)]]))[0]
    if reason:
        raise StatementError(f"{loop.launch.file}: the run itself fails ({reason}), so nothing has a margin; see check")


def _questions(loop: ClosedLoop, seeds: int, noise_seeds: int) -> list[tuple[list[str], list[Deviation]]]:
    """What is asked: the keys that vary together, and their deviations."""
    asked = [_of_parameters(loop, seeds), _of_noise(loop, noise_seeds)]
    if loop.control is not None:
        asked += [_of_delay(loop, seeds), _of_period(loop, seeds)]
    return [(keys, deviations) for keys, deviations in asked if deviations]


def _seeded(values: Callable[[float], list[float]], seeds: int) -> Callable[[float], list[list[float]]]:
    """The values at a size for each seed, which is the last one."""
    return lambda size: [[*values(size), float(seed)] for seed in range(1, seeds + 1)]


def _of_parameters(loop: ClosedLoop, seeds: int) -> tuple[list[str], list[Deviation]]:
    """Each parameter of the plant that is no zero, made smaller and larger; the law goes on believing its value."""
    varying = loop.source.changes.varying
    known = {each.name: each for each in loop.machine.description.parameters if each.name not in varying}
    base = {name: value for name, value in loop.machine.parameters.items() if name in known and value}
    names = list(base)
    deviations = []
    for group, sign in ((SMALLER, -1.0), (LARGER, 1.0)):
        for i, name in enumerate(names):

            def values(factor: float, i: int = i, sign: float = sign) -> list[float]:
                row = list(base.values())
                row[i] *= factor**sign
                return row

            deviations.append(Deviation(name, group, known[name], _seeded(values, seeds), FACTORS, least=1.0))
    return [*(f"plant.parameters.{name}" for name in names), "run.seed"], deviations


def _of_noise(loop: ClosedLoop, seeds: int) -> tuple[list[str], list[Deviation]]:
    """White noise, times what is stated: of the sensors that an estimator reads, else of all states together.

    Where no noise of states is stated it is in percent of the range that each state has in the run.
    """
    text, grid, unit = "noise, times the stated one", NOISE, "1"
    if loop.estimation is not None and loop.sensing is not None:
        effects = {each.description.quantity.name: each.description.noise for each in loop.sensing.effects}
        noisy = {f"plant.sensors.{name}.noise": noise for name, noise in effects.items() if noise}
    else:
        stated = np.array(loop.sensor.noise)
        if not stated.any():
            run = simulate_fused(loop, default_every(loop))
            stated = np.array([float(np.ptp(values)) for values in run.state.values()]) / 100
            text, grid, unit = "noise, of the range of each state", SHARES, "%"
        named = zip(loop.machine.description.state_names, stated.tolist(), strict=False)
        noisy = {f"plant.sensor.noise.{name}": noise for name, noise in named if noise}

    def values(size: float) -> list[float]:
        return [size * each for each in noisy.values()]

    deviation = Deviation("noise", "noise", Quantity("noise", text, unit), _seeded(values, seeds), grid)
    return [*noisy, "run.seed"], [deviation] if noisy else []


def _of_delay(loop: ClosedLoop, seeds: int) -> tuple[list[str], list[Deviation]]:
    """A dead time of all drives, beside their own, that the law does not know."""
    names, own = loop.machine.description.input_names, loop.actuator.delay
    period, step = _period(loop), loop.launch.step_ns / 1e9
    grid = _whole(step, [each * period for each in DELAYS], loop.launch.duration_ns / 1e9 / 4)

    def values(size: float) -> list[float]:
        return [each + size for each in own]

    quantity = Quantity("delay", "delay of all inputs that the law does not know", "s")
    keys = [*(f"plant.actuator.delay.{name}" for name in names), "run.seed"]
    return keys, [Deviation("delay", "delay", quantity, _seeded(values, seeds), grid, step)]


def _of_period(loop: ClosedLoop, seeds: int) -> tuple[list[str], list[Deviation]]:
    """A longer control period with the same gains."""
    step = loop.launch.step_ns / 1e9
    grid = _whole(step, [each * _period(loop) for each in PERIODS], loop.launch.duration_ns / 1e9 / LEAST_PERIODS)
    quantity = Quantity("period", "control period", "s")
    values = _seeded(lambda size: [size], seeds)
    deviation = Deviation("period", "period", quantity, values, grid, step, least=_period(loop))
    return ["controller.period", "run.seed"], [deviation]


def _period(loop: ClosedLoop) -> float:
    assert loop.launch.period_ns is not None
    return loop.launch.period_ns / 1e9


def _whole(step: float, sizes: Sequence[float], most: float) -> tuple[float, ...]:
    """The sizes in whole steps, each once, up to the most."""
    found = dict.fromkeys(round(step * max(round(each / step), 1), 9) for each in sizes)
    return tuple(each for each in found if each <= most)


def _chart(margin: Margin) -> "Chart":
    """The success rates of a deviation for its picture."""
    from servonode.wings.explore.sweeps.figures import Chart, Rates, Side

    sizes = np.array([each.size for each in margin.tried])
    rates = np.array([each.rate for each in margin.tried])
    ends = np.array([each.interval if each.runs > 1 else (each.rate, each.rate) for each in margin.tried])
    short = Quantity(margin.name, margin.name, margin.quantity.unit)
    side = Side(short, sizes[0] / 1.15, sizes[-1] * 1.15, np.nan)
    title = margin.quantity.description
    known = (margin.size, (margin.low, margin.high)) if margin.failed else (np.nan, (np.inf, np.inf))
    return Chart(title, Rates(side, sizes, rates, *ends.T), *known)


# texts


def _sides(small: Margin, large: Margin) -> str:
    """Both margins of a parameter, in percent of what the law believes."""
    down = 100 * (1 - 1 / max(small.size, 1.0))
    up = 100 * (large.size - 1)
    texts = [f"-{down:.3g} %" if small.failed else f"-{down:.3g} % or more"]
    texts += [f"+{up:.3g} %" if large.failed else f"+{up:.3g} % or more"]
    reasons = dict.fromkeys(each.reason for each in (small, large) if each.failed)
    return ", ".join(texts) + (f" ({'; '.join(reasons)})" if reasons else "")


def _plain(margin: Margin) -> str:
    unit = "" if margin.quantity.unit == "1" else f" {margin.quantity.unit}"
    text = f"{margin.size:.3g}{unit}{'' if margin.failed else ' or more'}"
    if margin.failed and np.isfinite(margin.high):
        text += f" (between {margin.low:.3g} and {margin.high:.3g}{unit}: {margin.reason})"
    return f"{text}; {margin.quantity.description}"


def _entry(margin: Margin) -> dict[str, Any]:
    """A margin as JSON has it."""
    tried = [
        {
            "size": each.size,
            "successes": each.successes,
            "runs": each.runs,
            "interval": each.interval,
            "why": each.reason,
        }
        for each in margin.tried
    ]
    high = float(margin.high) if np.isfinite(margin.high) else None
    more = {"margin": margin.size, "low": margin.low, "high": high, "failed": margin.failed, "reason": margin.reason}
    named = {"name": margin.name, "group": margin.group, "unit": margin.quantity.unit}
    return named | more | {"target": TARGET, "tried": tried}
