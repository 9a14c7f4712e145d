"""A run in progress as window, page and bridges show it: which one is meant, its messages as rows, how it stands.

What is kept of the messages is bounded.
"""

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import Command, Estimate, Message, Report, State, Status, Target
from servonode.bus.durations import EXTRA, extras
from servonode.bus.topology import CONTROLLER, NODES, PLANT, publishers
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import Control
from servonode.closed_loop.hosts import on_one_computer
from servonode.controllers.engine.layout import kept_columns
from servonode.mechanics.description import unpacked
from servonode.operator.find_runs import find_run, find_runs
from servonode.operator.listener import Listener
from servonode.operator.run_parameters import stored_closed_loop
from servonode.plants.drawn import path_columns, path_values
from servonode.views.panel_specs import TIMING, extra_columns

ROWS = 8192  # rows kept
GOALS = 4096  # targets kept for states that are still to come
EXTRAS = 4  # of them the title shows
STATES = 512  # states whose publishing time is kept for the answers to them; estimates and rows that wait
MARK_NS = 100_000_000  # how often a state is kept to compute the rate from
TOPICS = ("state", "command", "target", "report", "estimate", "status")
BAND = 2.0  # standard deviations on each side of an estimate
SHOWN_S = 20.0  # s (wall clock) that the panels show unless asked otherwise
ENDED = {"finished": "finished", "fault": "ended by a fault"}


class Ring:
    """The newest `size` rows of named columns, the first of them the time `t`; older ones are overwritten.

    Every value is written twice, `size` apart, so that the newest rows always lie side by side and are read
    without being copied.
    """

    def __init__(self, names: Sequence[str], size: int) -> None:
        self.names = ("t", *names)
        self.size = size
        self.count = 0  # rows ever added since the last `clear`
        self._data = np.full((len(self.names), 2 * size), np.nan)

    def __len__(self) -> int:
        return min(self.count, self.size)

    def add(self, row: Array) -> None:
        """Append a row: t, then the columns in their order."""
        at = self.count % self.size
        self._data[:, at] = row
        self._data[:, at + self.size] = row
        self.count += 1

    def clear(self) -> None:
        """Drop all rows."""
        self.count = 0

    @property
    def columns(self) -> dict[str, Array]:
        """The rows there are, oldest first, by name; views that the next `add` may overwrite."""
        end = self.count if self.count < self.size else self.count % self.size + self.size
        begin = end - len(self)
        return {name: self._data[i, begin:end] for i, name in enumerate(self.names)}


class Feed:
    """Takes messages of one run of `closed_loop` and keeps the newest `span` [s] of plant time and more.

    States that come closer together than the animation can show are skipped. extra: columns (`extra_NAME`) of what
    an external plant measures beside its state. estimates: where a run estimates its state, the columns
    `estimate_NAME`, `low_NAME` and `high_NAME` have the estimate and its band; a row then waits for it, see `settle`.

    It has many attributes: where each kind of value stands in a row, and what is kept of each kind of message for the
    next row, so that taking a message allocates nothing that grows.
    """

    def __init__(
        self, closed_loop: ClosedLoop, span: float, extra: Sequence[str] = (), estimates: bool = False
    ) -> None:
        description = closed_loop.machine.description
        self._machine, self._layout = closed_loop.machine, description.layout
        self._inputs, self._targets = description.input_names, closed_loop.targets.names
        self._traced = closed_loop.traced
        outputs = [*(each.name for each in description.outputs), *path_columns(closed_loop.machine, self._traced)]
        self._control, self._step_s = closed_loop.control, closed_loop.launch.step_ns * 1e-9
        law = self._control.law if self._control else None
        differences = law.description.tracked if law else ()  # residuals that are an output less its goal
        tracked = [f"{word}_{each.residual}" for word in ("output", "goal") for each in differences]
        self._y = np.full(law.goal_layout.size if law else 0, np.nan)  # the goal; what nobody publishes is NaN
        rare = [f"residual_{each.name}" for each in closed_loop.residuals]
        rare += [each.name for each in kept_columns(law.description)] if law else []
        rare += [*TIMING.values(), *extra]
        self.estimated = description.state_names if estimates and closed_loop.estimation else ()
        bands = [f"{word}_{name}" for word in ("estimate", "low", "high") for name in self.estimated]
        goals = [f"target_{name}" for name in self._targets]
        parts = (description.state_names, outputs, self._inputs, goals, tracked, rare, bands)
        self.ring = Ring([*chain(*parts)], ROWS)
        self._row = np.zeros(len(self.ring.names))
        ends = np.cumsum([1, *map(len, parts)]).tolist()
        *self._parts, self._goal, self._both, self._rare, self._band = (slice(*each) for each in pairwise(ends))
        self._columns = description.columns
        self._waiting: deque[Array] = deque()  # rows that wait for their estimate, and those behind them
        self._waited = 0  # how many of them waited at the `settle` before too
        self._early: dict[float, Estimate] = {}  # by time: a subscriber reads its publishers in turn
        self._index = {name: i for i, name in enumerate(rare)}
        self._held = len(description.constraints)
        self._one_clock = on_one_computer(closed_loop.launch, PLANT, CONTROLLER)
        self._stabilised = len(description.stabilised)  # the first residuals: they follow from the state
        self._pending = np.full(len(rare), np.nan)  # for the next row
        self._period = closed_loop.launch.steps_per_period or 1
        self._spacing = 2 * span / ROWS
        # only states at control instants have an estimate: another one has no row where one of these is to come
        self._sparse = self._spacing + (1.5e-9 * (closed_loop.launch.period_ns or 0) if self.estimated else 0.0)
        self._x, self._u = np.zeros(len(description.state_names) + 1), np.zeros(len(self._inputs))
        self.statuses: dict[str, tuple[Status, float]] = {}  # the newest of each node, when it came [monotonic s]
        self._begin(0)

    def _begin(self, run: int) -> None:
        """Clear everything for a plant with this start id; 0: that of the first message."""
        self.run = run
        self.t, self.mono, self.lifecycle, self.fault, self.refused = -np.inf, 0, "waiting", "", 0
        self.extra = ""  # what an external plant measures beside its state, as text
        self.final, self.taken = False, 0  # whether the last state has come; states that came
        self._fault_text = ""
        self._goals: deque[Target] = deque(maxlen=GOALS)
        self._aim: Target | None = None
        self._sent: dict[int, int] = {}  # seq of a state -> when it was published [ns]
        self._marks: deque[tuple[float, int]] = deque(maxlen=12)
        self._pending[:] = np.nan
        self._waiting.clear()
        self._early.clear()
        self._waited = 0
        self.statuses.clear()
        self.ring.clear()

    @property
    def rate(self) -> float:
        """Plant seconds per second of wall-clock time, over the last second; 0 while unknown."""
        (t0, mono0), (t1, mono1) = (self._marks[0], self._marks[-1]) if self._marks else ((0.0, 0), (0.0, 0))
        return (t1 - t0) / (mono1 - mono0) * 1e9 if mono1 > mono0 else 0.0

    @property
    def fault_text(self) -> str:
        """The fault by name, and in words where these are known."""
        words = self._fault_text
        if self.fault in {each.name for each in self._machine.description.faults}:
            violated = self._machine.fault(self.t, self._x)
            words = violated.text if violated else words
        return f"{self.fault}: {words}" if words and self.fault else self.fault or words

    def take(self, message: Message) -> None:
        """Take one message; those of another run than the newest plant's are ignored, but for the nodes' statuses."""
        if not self.run:
            self.run = message.run
        if message.run != self.run:
            if not isinstance(message, State):
                self.refused += 1
                self._keep_status(message)
                return
            self._begin(message.run)  # the plant has started anew
        self._keep_status(message)
        match message:
            case State():
                self._on_state(message)
            case Target():
                self._goals.append(message)
            case Report():
                self._on_report(message)
            case Estimate():
                self._on_estimate(message)
            case Status():
                self._on_status(message)
            case Command():
                self._fault_text = self._fault_text or message.fault
            case _:
                pass

    def _keep_status(self, message: Message) -> None:
        if isinstance(message, Status) and message.node in NODES:
            self.statuses[message.node] = (message, time.monotonic())

    def _on_state(self, state: State) -> None:
        self.taken += 1
        if state.control:
            self._sent[state.seq] = state.mono
            if len(self._sent) > STATES:
                del self._sent[next(iter(self._sent))]
        if not self._marks or state.mono - self._marks[-1][1] >= MARK_NS:
            self._marks.append((state.t, state.mono))
        self.final = self.final or state.final
        if state.t - self.t < (self._spacing if state.control else self._sparse) and not (
            state.final and state.t > self.t
        ):
            return
        try:
            self._x[:-1] = unpacked(self._layout, state.state)
            self._u[:] = [state.input[name] for name in self._inputs]
        except (KeyError, ValueError):  # a name is missing, or has a list for its value
            self.refused += 1
            return
        self.t, self.mono = state.t, state.mono
        k = state.goal_k if state.goal_k >= 0 else state.k
        self._aim_at(k)
        self._add(k)

    def _add(self, k: int) -> None:
        """A row of the state that was just read."""
        row, (state, outputs, inputs) = self._row, self._parts
        row[0], row[state], row[inputs] = self.t, self._x[:-1], self._u
        monitored = self._machine.monitor(self.t, self._x, self._u)[: len(self._machine.description.outputs)]
        paths = path_values(self._machine, self._traced, np.array([self.t]), self._x[None])
        row[outputs] = [*monitored, *paths[0]]
        row[self._goal] = [self._aim.target.get(name, np.nan) for name in self._targets] if self._aim else np.nan
        if self._control and row[self._both].size:
            row[self._both] = self._outputs_and_goals(self._control, k)
        if self._stabilised:
            missed = self._machine.constraint_residual(self.t, self._x)
            self._pending[: self._stabilised] = missed[self._held : self._held + self._stabilised]
        row[self._rare], row[self._band] = self._pending, np.nan
        self._pending[:] = np.nan
        if not self.estimated:
            self.ring.add(row)
            return
        self._waiting.append(row.copy())
        if self.t in self._early:
            self._fill(self._waiting[-1], self._early.pop(self.t))
        if len(self._waiting) > STATES:
            self._release()

    def _outputs_and_goals(self, control: Control, k: int) -> Array:
        """Outputs, then goals, at the present state, whose goal is that of step k, by the newest goal published."""
        part, published = control.law.goal_layout, self._aim.target if self._aim else {}
        self._y[part.targets] = [published.get(name, np.nan) for name in control.targets.entries]
        control.signals.evaluate(k * self._step_s, self._y[part.signals])
        return control.law.tracked(k * self._step_s, self._x, self._y).ravel()

    def settle(self) -> None:
        """Complete the rows that have their estimate, or waited for it when this was called before.

        Whoever wants estimates calls this once a frame; an estimate that comes later is not shown.
        """
        while self._waiting and (self._waited or np.isfinite(self._waiting[0][self._band]).any()):
            self._release()
        self._waited = len(self._waiting)

    def _release(self) -> None:
        """The oldest row waits no longer."""
        self.ring.add(self._waiting.popleft())
        self._waited = max(self._waited - 1, 0)

    def _on_estimate(self, estimate: Estimate) -> None:
        if not self.estimated:
            return
        if estimate.t > self.t:
            self._early[estimate.t] = estimate
            if len(self._early) > STATES:
                del self._early[next(iter(self._early))]
        for row in self._waiting:
            if row[0] == estimate.t:
                self._fill(row, estimate)

    def _fill(self, row: Array, estimate: Estimate) -> None:
        """Write an estimate into its row."""
        try:
            mean = np.array(unpacked(self._layout, estimate.state))
            half = BAND * np.array([estimate.std[name] for name in self._columns])
        except (KeyError, ValueError):  # as of a state
            self.refused += 1
            return
        row[self._band] = np.concatenate([mean, mean - half, mean + half])

    def _aim_at(self, k: int) -> None:
        """The newest target for a step up to k; none where it is older than a period, as after targets were lost."""
        while self._goals and self._goals[0].k <= k:
            goal = self._goals.popleft()
            if self._aim is None or goal.k >= self._aim.k:
                self._aim = goal
        if self._aim is not None and k - self._aim.k > self._period:
            self._aim = None

    def _on_report(self, report: Report) -> None:
        values = {f"residual_{name}": value for name, value in report.residual.items()}
        if report.keeping is not UNSET:
            for word in ("margin", "active"):
                values |= {f"{word}_{name}": value for name, value in getattr(report, word).items()}
            values["keeping"] = report.keeping
        values[TIMING["law"]] = 1e3 * report.compute_s
        if self._one_clock and report.re in self._sent:
            values[TIMING["age"]] = (report.mono - self._sent[report.re]) / 1e6
        self._remember(values)

    def _on_status(self, status: Status) -> None:
        if status.fault and not self.fault:
            self.fault = status.fault
        if status.node != PLANT:
            return
        self.lifecycle = status.lifecycle
        times = {"round_trip": TIMING["round trip"], "lateness": TIMING["lateness"]}
        self._remember({column: 1e3 * status.values[name] for name, column in times.items() if name in status.values})
        self._remember({name: value for name, value in status.values.items() if name.startswith(EXTRA)})
        self.extra = extras(dict(islice(((n, v) for n, v in status.values.items() if n.startswith(EXTRA)), EXTRAS)))

    def _remember(self, values: dict[str, Any]) -> None:
        """Keep values that come only now and then for the next row."""
        for name, value in values.items():
            if name in self._index:
                self._pending[self._index[name]] = value


def usual_span(closed_loop: ClosedLoop) -> float:
    """Plant time [s] that the panels show: 20 s of the wall's clock; in lockstep, which has none, the whole run."""
    run = closed_loop.launch.run
    return run.duration if run.mode == "lockstep" else min(SHOWN_S * run.speed, run.duration)


class LiveRun(Listener):
    """The run of a name: its launch file, and what its nodes say, as rows and statuses.

    where: its name or its folder, which is looked for; absent: the name. who: what shows it. span [s]: of the rows;
    absent: the usual one. panels: names that are to be shown beside the usual ones. estimates: as for Feed.
    """

    def __init__(
        self,
        name: str,
        where: str = "",
        who: str = "window",
        *,
        span: float | None = None,
        panels: Sequence[str] = (),
        estimates: bool = False,
    ) -> None:
        super().__init__(where or name, partial(publishers, TOPICS), who=who)
        self.name = name
        self.closed_loop: ClosedLoop | None = None
        self.feed: Feed | None = None
        self._span, self._panels, self._estimates = span, panels, estimates
        self._stored: Any = None

    def prepare(self, registry: dict[str, Any]) -> None:
        """Read the launch file of the run that was found."""
        if registry["launch"] != self._stored:
            self.closed_loop, self._stored = stored_closed_loop(registry), registry["launch"]
        self.name = registry["run"]
        assert self.closed_loop is not None
        self.begin(self.closed_loop)

    def begin(self, closed_loop: ClosedLoop) -> None:
        """Keep what the messages of a run of this closed loop say; what was kept of another run is dropped."""
        self.closed_loop = closed_loop
        extra = extra_columns(closed_loop, self._panels)
        self.feed = Feed(closed_loop, self._span or usual_span(closed_loop), extra, self._estimates)

    def take_in(self) -> list[Message]:
        """Keep what the messages say that have come, at most a bounded batch of them; these."""
        messages = [message for _, message in self.receive()]
        if self.feed is not None:
            for message in messages:
                self.feed.take(message)
        return messages

    @property
    def plant_status(self) -> str:
        """Where the plant stands, or how it ended."""
        lifecycle = self.feed.lifecycle if self.feed else ""
        return lifecycle if self.alive else ENDED.get(lifecycle, "ended")


def run_shown(asked: str | None) -> str:
    """The name of the run that is meant: a name, a launch file of that name, or the only run in progress.

    Where two have the same name it is the folder of one of them.

    Raises:
        BusError: there is no such run, or several; the text has their names.
    """
    names = (None,) if asked is None else (asked, Path(asked).stem)
    named = names[-1] if asked is None or asked.endswith(".toml") else asked
    found = find_run(next((name for name in names if find_runs(name)), named))
    return str(found.path) if asked == str(found.path) else found.name
