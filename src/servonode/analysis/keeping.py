"""What a law keeps, judged at states: where rows have no input, conflict with limits or each other; starts that keep.

A row is a tau >= b (see `ServoLaw.keep_rows`); a face is one smooth part of a keep, with one row.
"""

from collections.abc import Callable
from math import comb

import numpy as np

from servonode.analysis.linear_system import slope
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.keeping import Stopping, approach, least_inputs, most_of, stopping
from servonode.closed_loop.near_states import DIFFERENCE, reached, step_to
from servonode.closed_loop.static_checks import SPREAD, Examination
from servonode.tables import several

EDGE = 0.05  # of the way to the edge of all starts that keep: half of the starts lie within so much of it
SCANNED, HALVINGS, TRIES = 8, 12, 20  # of a way to the edge; draws for each start
ROUNDING = 1e-9
STATES, SEEDS = 50, 30  # random states; of them those from which the edge is looked for
EVALUATIONS = 20_000  # of rows at most, in that search
VANISHED = 1e-6  # of its typical size: a row without input
VARIES = 0.5  # of its typical size: a row that is nowhere less has no place where it vanishes
ITERATIONS = 12
DECISIVE = 1e-3  # of the largest effect of a state on what is looked at, from which on it is named
SHOWN = 6  # states of a place that are named
GIVEN = 0.9  # of the deceleration that inputs give at every state: a brake that is advised


class Rows:
    """The rows of all that a closed loop's law keeps, and the limits of the plant's inputs."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.loop, self.control = closed_loop, closed_loop.known_control
        self.law = self.control.law
        self.machine, self.keeps = self.law.machine, self.law.description.keeps
        self.of, self.degrees = np.array(self.law.description.faces, dtype=int).reshape(-1, 2).T
        self.names, self.numbers = list(self.law.keep_numbers), list(self.law.keep_numbers.values())
        free = np.full(self.machine.n_inputs, np.inf)
        most, inputs = np.array(closed_loop.safety.limits.value), self.machine.description.inputs
        least = least_inputs(inputs, most)
        extension = self.law.description.extension
        self.integrates = bool(extension and extension.integrators)  # the rows have rates of these in place of inputs
        self.lower: Array = -free if self.integrates else least
        self.upper: Array = free if self.integrates else most
        self._at_start = closed_loop.goal(0.0)
        self._advance = self.machine.advancer(closed_loop.launch.plant.integrator)

    def reached(self, x: Array) -> Array:
        """The state next to x that the machine reaches from its start."""
        return reached(self.machine, self.loop.start, x)

    def goal(self, t: float, x: Array) -> Array:
        """y at a state on which the program's own states begin."""
        y = self.loop.goal(t) if t else self._at_start
        if self.law.description.states:
            y = self.loop.goal(t, self.law.with_own_states(t, x, y).initial_states)
        return y

    def at(self, t: float, x: Array, y: Array | None = None) -> Array:
        """The rows (n_rows, 4 + n_tau) there."""
        return self.law.keep_rows(t, x, self.goal(t, x) if y is None else y)

    def most(self, rows: Array) -> Array:
        """The largest a tau of each row that the limits of the inputs allow."""
        return most_of(rows[:, 4:], self.lower, self.upper)

    def conflict(self, rows: Array, tau: Array | None = None) -> list[int]:
        """The rows that no inputs within their limits keep together; none: some do, such as these."""
        a, b = rows[:, 4:], rows[:, 2]
        fine = 1e-7 * (np.abs(b) + np.linalg.norm(a, axis=1) + ROUNDING)
        alone = np.flatnonzero(self.most(rows) < b - fine)
        if len(alone):
            return [int(i) for i in alone]
        moved = np.flatnonzero(a.any(axis=1))
        if len(moved) < 2 or (tau is not None and (a @ tau >= b - fine).all()):
            return []
        from scipy.optimize import linprog

        sizes = np.linalg.norm(a[moved], axis=1)
        unit = np.where(np.isfinite(self.upper), np.maximum(np.abs(self.upper), np.abs(self.lower)), 1.0)
        unit = np.where(unit > 0.0, unit, 1.0)
        scaled = np.column_stack([-a[moved] * unit / sizes[:, None], np.ones(len(moved))])
        bounds = [*zip(self.lower / unit, self.upper / unit, strict=True), (None, 1.0)]
        found = linprog(np.append(np.zeros(len(unit)), -1.0), scaled, -b[moved] / sizes, bounds=bounds)
        if found.status != 0 or found.x[-1] >= -1e-7 * (1.0 + np.abs(b[moved] / sizes).max()):
            return []
        return [int(i) for i in moved[np.asarray(found.ineqlin.marginals) < -ROUNDING]]

    def keeps_at(self, x: Array) -> bool:
        """Whether all can be kept from a state at t = 0, and from where no inputs move it before a command acts.

        Each h and all inner functions of barriers are 0 or above, some inputs keep all rows, the law answers, the
        machine has no fault.
        """
        kept, delay, times = self._keeps(0.0, x), self.control.stated.delay, self.control.times
        if kept and delay and times.period_ns:
            states, u = x.copy(), np.zeros(len(self.upper))
            self._advance(0, delay, times.period_ns, states, u, self.machine.c)
            kept = self._keeps(delay * times.period, states)
        return kept

    def _keeps(self, t: float, x: Array) -> bool:
        y = self.goal(t, x)
        rows = self.law.keep_rows(t, x, y)
        if not np.isfinite(rows).all() or (rows[self.degrees > 0, :2] < 0.0).any() or (self._inner(x, y) < 0.0).any():
            return False
        answer = self.law.evaluate(t, x, y)
        return not answer.status and not self.conflict(rows, answer.inputs) and self.loop.machine.fault(t, x) is None

    def _inner(self, x: Array, y: Array) -> Array:
        """(d/dt + k)^j h, 0 < j < r - 1, of faces of relative degree r > 2: by a motion without inputs, which do not
        move these.
        """
        deep = np.flatnonzero(self.degrees > 2)
        if not len(deep):
            return np.ones(0)
        step = self.control.times.period_ns or 10**6
        states, u = x.copy(), np.zeros(len(self.upper))
        values = [self.law.keep_rows(0.0, x, y)[deep, 0]]
        for i in range(1, 5):
            self._advance(i - 1, 1, step, states, u, self.machine.c)
            values.append(self.at(i * step / 1e9, states)[deep, 0])
        series = np.linalg.solve(np.vander(np.arange(5) * step / 1e9, 5, increasing=True), np.array(values))
        found = []
        for face, h in zip(deep, series.T, strict=True):
            k, derivatives = self.numbers[self.of[face]].rate, h * [1, 1, 2, 6, 24]
            for j in range(1, min(int(self.degrees[face]) - 1, 4)):
                found.append(sum(comb(j, m) * k ** (j - m) * derivatives[m] for m in range(j + 1)))
        return np.array(found)

    def named(self, x: Array, effects: Array | None = None) -> str:
        """The decisive states by name and value: those with the largest effects, else coordinates and velocities."""
        described = self.machine.description.state
        sizes = np.ones(len(described)) if effects is None else np.abs(effects)
        which = np.flatnonzero(sizes >= DECISIVE * max(sizes.max(initial=0.0), ROUNDING))
        return ", ".join(f"{described[i].name} = {x[i]:.3g}" for i in which[:SHOWN])

    def limited_inputs(self, a: Array) -> str:
        """The inputs of a row, with their limits."""
        inputs, found = self.machine.description.inputs, []
        for each, coefficient, low, high in zip(inputs, a, self.lower, self.upper, strict=True):
            if coefficient:
                size = f"{high:.4g}" if low == -high else f"{high:.4g} and at least {low:.4g}"
                found.append(f"{each.name} at most {size} {each.unit}")
        return several(found) or "no input"


def starts(closed_loop: ClosedLoop, n: int, seed: int = 1, spread: float | Array = SPREAD) -> Array:
    """So many states (n, n_x) from which all can be kept, within `spread` of the initial state (in each entry its own).

    Each lies on a straight way in a random direction to the edge of what `Rows.keeps_at` and the spread allow: half of
    them within EDGE of the way's length from its end, the others anywhere on it. Fewer come out where there are hardly
    any.
    """
    rows, rng, center = Rows(closed_loop), np.random.default_rng(seed), closed_loop.start
    reach = np.append(np.broadcast_to(spread, len(center) - 1), 0.0)
    found: list[Array] = []
    for _ in range(TRIES * n):
        if len(found) == n:
            break
        way = rng.uniform(-1.0, 1.0, len(center) - 1)
        far = center + reach * np.append(way / np.abs(way).max(), 0.0)
        share = 1.0 - EDGE * rng.random() if len(found) % 2 == 0 else rng.random() ** (1 / len(way))
        x = _on_way(rows, far, share * _edge(rows, far))
        if rows.keeps_at(x):
            found.append(x)
    return np.array(found).reshape(-1, len(center))


def _on_way(rows: Rows, far: Array, share: float) -> Array:
    start = rows.loop.start
    return rows.reached(start + share * (far - start))


def _edge(rows: Rows, far: Array) -> float:
    """The share of the way from the initial state to `far` that keeps."""
    low, high = 0.0, 1.0
    for share in np.linspace(0.0, 1.0, SCANNED + 1)[1:]:
        if not rows.keeps_at(_on_way(rows, far, share)):
            high = float(share)
            break
        low = float(share)
    for _ in range(HALVINGS if high > low else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if rows.keeps_at(_on_way(rows, far, middle)) else (low, middle)
    return low


def judge_rows(rows: Rows, states: Array, found: Examination) -> None:
    """Add what can be said of each keep at states: its numbers, where its rows have no input, what stops it.

    states (n, n_x): some near the run and near its starts.
    """
    start, table = rows.loop.start, np.array([rows.at(0.0, x) for x in states])
    table, here = table[np.isfinite(table).all(axis=(1, 2))], rows.at(0.0, start)
    stops = stopping(rows.law, start, rows.goal(0.0, start), rows.lower, rows.upper)
    for i, each in enumerate(rows.keeps):
        kept = found.numbers.setdefault("keeps", {}).setdefault(rows.names[i], {})
        kept |= {"relative_degrees": list(each.degrees), **rows.numbers[i]._asdict()}
        kept["brake"] = kept["brake"] if np.isfinite(kept["brake"]) else None
        found.add("good", f"keep {rows.names[i]}", _line(rows, i))
        for face in np.flatnonzero(rows.of == i):
            _judge_edge(rows, int(face), states, table, found)
        if np.isfinite(stops[i].gives) and not rows.integrates:
            second = np.flatnonzero((rows.of == i) & (rows.degrees == 2))
            distance = max(float(here[second, 0].min()), 0.0) or float(table[:, second, 0].max())
            _judge_stops(rows, i, stops[i], distance, found)


def of(value: float, unit: str, digits: int = 3) -> str:
    """A number with its unit."""
    return f"{value:.{digits}g}" if unit == "1" else f"{value:.{digits}g} {unit}"


def _line(rows: Rows, i: int) -> str:
    """What is kept, and by which numbers."""
    each, numbers = rows.keeps[i], rows.numbers[i]
    unit, stated = each.quantity.unit, rows.control.stated.keeps.get(each.quantity.name)
    degrees = sorted(set(each.degrees))
    text = f"{each.quantity.description}, relative degree {' and '.join(map(str, degrees))}"
    if any(degrees):
        text += f", rate {numbers.rate:.4g} 1/s"
    if 2 in degrees and np.isfinite(numbers.brake):
        auto = each.brake is None and (stated is None or stated.brake is None)
        text += f", brake {numbers.brake:.4g} {unit}/s^2{' (auto)' if auto else ''}"
    return f"{text}, margin {of(numbers.margin, unit)}, tolerance {of(numbers.tolerance, unit)}"


def _judge_edge(rows: Rows, face: int, states: Array, table: Array, found: Examination) -> None:
    """Whether the row of a face contains an input everywhere on its edge."""
    typical = float(np.median(np.linalg.norm(table[:, face, 4:], axis=1))) if len(table) else 0.0
    size = float(np.abs(table[:, face, 0]).max(initial=0.0)) or 1.0

    def h(at: Array) -> Array:
        return rows.at(0.0, at)[face, :1] / size

    edge = np.array([x if rows.degrees[face] == 0 else _zero_of(rows, h, x) for x in states[:SEEDS]])
    least = min(float(np.linalg.norm(rows.at(0.0, x)[face, 4:])) for x in edge)
    if least > VARIES * typical > 0.0:
        return
    most = int(EVALUATIONS / (len(rows.degrees) * ITERATIONS * edge.shape[1]))
    box = edge.min(axis=0), edge.max(axis=0)
    looked = (_vanishing(rows, face, x, typical or 1.0, size, box) for x in edge[: most + 1])
    here = [x for x in looked if x is not None]
    if not here:
        return
    free = [x for x in here if rows.at(0.0, x)[face, 2] > 1e-6]
    x = (free or here)[0]
    effects = slope(lambda at: np.delete(rows.at(0.0, at)[face], [1, 2, 3]), x, np.full(len(x) - 1, DIFFERENCE))
    where = rows.named(x, np.abs(effects).max(axis=0))
    what = "so that nothing keeps it there" if free else "where it is kept by the motion alone"
    text = f"no input moves its edge at {where}, {what}; keep another expression, such as one with its velocity in it"
    found.add("warn", f"keep {rows.names[rows.of[face]]}", f"{text}, or give a margin that leaves this place out")
    found.numbers["keeps"][rows.names[rows.of[face]]]["without_input"] = dict(
        zip(rows.machine.description.state_names, x.tolist(), strict=False)
    )


def _zero_of(rows: Rows, errors: Callable[[Array], Array], x: Array) -> Array:
    """The state near x at which these errors are 0, or as near to that as ITERATIONS steps come."""
    for _ in range(ITERATIONS):
        e = errors(x)
        step = step_to(errors, x) if np.isfinite(e).all() and np.abs(e).max() >= VANISHED else None
        if step is None:
            break
        x = rows.reached(x + step * min(1.0, SPREAD / max(float(np.abs(step).max()), SPREAD)))
    return x


def _vanishing(rows: Rows, face: int, x: Array, typical: float, size: float, box: tuple[Array, Array]) -> Array | None:
    """A state near x and the box on the edge of a face where its row is 0; None where no such state is found."""
    degree = min(int(rows.degrees[face]), 2)

    def errors(at: Array) -> Array:
        row = rows.at(0.0, at)[face]
        return np.append(row[:degree] / size, row[4:] / typical)

    x = _zero_of(rows, errors, x)
    e, (low, high) = errors(x), box
    near = ((low - SPREAD <= x) & (x <= high + SPREAD))[:-1].all()
    return x if np.isfinite(e).all() and np.abs(e).max() < 1e2 * VANISHED and near else None


def _judge_stops(rows: Rows, i: int, stops: Stopping, distance: float, found: Examination) -> None:
    """Add from which speed on what approaches a keep from a distance cannot be stopped, and whether its brake fits."""
    name, unit, brake = rows.names[i], rows.keeps[i].quantity.unit, rows.numbers[i].brake
    a, gives = rows.at(0.0, stops.at)[(rows.of == i) & (rows.degrees == 2), 4:], stops.gives
    kept, limits = found.numbers["keeps"][name], rows.limited_inputs(np.abs(a).sum(axis=0))
    if gives <= 0.0:
        text = f"{limits} cannot stop it at {rows.named(stops.at)}; keep less, start slower, or give stronger drives"
        found.add("warn", f"keep {name}", text)
        return
    fine = min(brake, rows.numbers[i].rate ** 2 * distance) <= gives
    speed = approach(distance, rows.numbers[i]) if fine else float(np.sqrt(2.0 * gives * distance))
    kept |= {"stops_from": speed, "stops_within": distance, "deceleration": gives}
    text = f"with {limits} it can stop from {speed:.3g} {unit}/s within {of(distance, unit)}"
    if fine:
        text += f", as fast as its barrier lets it come; they give {gives:.3g} {unit}/s^2 at least"
        found.add("good", f"keep {name}", text)
        return
    kept["brake_that_fits"] = fits = GIVEN * gives
    asks = f"a brake of {brake:.3g} {unit}/s^2" if np.isfinite(brake) else "a barrier without brake"
    text += f": {asks} is more than they give at {rows.named(stops.at)} ({gives:.3g}); give brake = {fits:.2g}"
    found.add("warn", f"keep {name}", text)
