"""Many machines of one launch file that move together, a control period at a time: arrays with a row for each."""

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import StatementError
from servonode.simulation.fused_loop import GoalTables, goal_tables
from servonode.simulation.reading_errors import ReadingErrors
from servonode.wings.explore.environments.kernel import GOES_ON, N_WORK, PAUSE, SHARE, period_of
from servonode.wings.explore.environments.quick import Numbers
from servonode.wings.explore.environments.stated import Stated

SHARES = 8  # of the work of a thread, so that who is late does less
LEAST_OF_THREAD = 16  # machines for which a thread is worth its while
MOST_BYTES = 2 * 2**30  # of the goals of all machines
IDLE = 10_000  # turns of waiting for more, about a tenth of a millisecond
SHORT = 1_000  # of waiting for the last share, without leaving the processor to others
Work = Callable[[bool, int], bool]  # compiled: begins or not, does shares of what there is, waits so many turns


class Batch:
    """n machines; `place` says which closed loop each of them is.

    status (n,): GOES_ON, or why an episode has ended (see `kernel`). instants (n,): control periods since its start. x
    (n, n_x): kernel states. observed (n, n_observed), rewards (n,): what the newest step has left.
    """

    def __init__(self, base: ClosedLoop, stated: Stated, n: int, threads: int | None, apart: bool) -> None:
        """apart: whether the machines' goals differ. Raises StatementError where these take too much memory."""
        launch, control = base.launch, base.known_control
        self.base, self.n, self._has_law = base, n, stated.has_residuals
        self.periods = launch.steps // (launch.steps_per_period or 1)
        self._noisy = any(base.sensor.noise)
        self._n_noise = len(ReadingErrors(base, every=False).noise) if self._noisy else 1
        self._errors: dict[int, ReadingErrors] = {}
        self._goals: dict[int, GoalTables] = {}
        self._placed, self._c_law = np.full(n, False), control.law.c if self._has_law else np.zeros(0)
        self._kernel, rows = period_of(base, stated), self.periods + 1
        goals, n_goal = n if apart else 1, self._kernel.n_goal
        if goals * rows * n_goal * 8 > MOST_BYTES:
            text = f"the goals of {goals} machines at {rows} instants take more than {MOST_BYTES >> 30} GB"
            raise StatementError(f"{text}; shorten run.duration, or take fewer environments")
        arguments = self._kernel.arguments(
            "period", n, per_period=launch.steps_per_period or 1, step_ns=launch.step_ns, least=base.safety.least,
            periods=self.periods, scale=np.array(base.safety.limits.value), n_noise=self._n_noise,
            noise=np.zeros((n * self._n_noise, base.machine.n_state)), goals=np.zeros((goals * rows, n_goal)),
            goal_from=np.arange(n) * rows if apart else np.zeros(n, np.int64),
        )  # fmt: skip
        self.arrays, self._arguments = arguments, list(arguments.values())[3:]
        self.status, self.instants, self.x, self.observed, self.rewards = (
            arguments[name] for name in ("status", "instants", "x", "observed", "rewards")
        )
        threads = len(os.sched_getaffinity(0)) if threads is None else threads
        threads = max(1, min(threads, n // LEAST_OF_THREAD))
        work = np.zeros(N_WORK, dtype=np.int64)
        work[:PAUSE] = n  # all are moved
        work[SHARE] = max(1, n // (SHARES * threads))
        self._team = Team(threads, partial(self._kernel.share, work, *self._arguments))

    def place(self, e: int, closed_loop: ClosedLoop | Numbers) -> None:
        """Put machine e at the start of this closed loop, whose times are those of the others, and look at it.

        Numbers are those of the closed loop of all, but for where they differ.
        """
        if closed_loop is self.base and self._placed[e]:
            self._place_start(e, Numbers(self.base.start, self.base.machine.c, self._c_law))
        elif not isinstance(closed_loop, Numbers):
            self._place_whole(e, closed_loop)
        else:
            if not self._placed[e]:
                self._place_whole(e, self.base)
            self._place_start(e, closed_loop)
        self._placed[e] = True
        self._kernel.period(e, e + 1, False, *self._arguments)

    def _place_start(self, e: int, numbers: Numbers) -> None:
        part = self.arrays
        for name in ("u", "queue", "newest", "slewed", "pipe", "counts", "before", "y", "status", "instants"):
            part[name][e] = 0
        part["late"][e] = part["x"][e] = part["measured"][e] = numbers.start
        part["c"][e], part["since"][e] = numbers.c, -1.0
        if self._has_law:
            part["c_law"][e], part["memory"][e] = numbers.c_law, 0.0

    def _place_whole(self, e: int, closed_loop: ClosedLoop) -> None:
        safety, control, part = closed_loop.safety, closed_loop.known_control, self.arrays
        law, drives, step = control.law, closed_loop.actuator, closed_loop.launch.step_ns / 1e9
        self._place_start(e, Numbers(closed_loop.start, closed_loop.machine.c, law.c if self._has_law else law.c[:0]))
        part["power"][e] = safety.limits.power
        part["bounds"][e] = safety.limits.value, safety.limits.rate
        part["drive"][e], part["depths"][e] = drives.numbers(step), drives.late_by(step)
        part["dynamic"][e] = drives.dynamic
        part["judged"][e] = safety.plausible(own=False) is not None
        part["believed"][e] = safety.stated_readings.value, safety.stated_readings.rate
        if self._has_law:
            part["memory"][e] = law.memory()
            part["y"][e, law.goal_layout.states] = law.initial_states
        self._place_goal(int(part["goal_from"][e]), goal_tables(closed_loop))
        self._place_errors(e, ReadingErrors(closed_loop, every=False))

    def _place_goal(self, first: int, tables: GoalTables) -> None:
        """Write the goal at each instant to the rows from `first` on, unless it stands there."""
        if self._goals.get(first) is not tables:
            self._goals[first], rows = tables, self.periods + 1
            whole = np.hstack([tables.targets[:rows], tables.signals[:rows]])
            self.arrays["goals"][first : first + rows] = whole

    def _place_errors(self, e: int, errors: ReadingErrors) -> None:
        """Take the errors of machine e's readings, and draw the first of them."""
        self.arrays["errors"][e], rows = errors.fixed, slice(e * self._n_noise, (e + 1) * self._n_noise)
        self.arrays["noise"][rows] = errors.noise[: self._n_noise]
        if self._noisy:
            errors.noise, self._errors[e] = self.arrays["noise"][rows], errors
            errors.draw()

    def step(self, actions: Array) -> None:
        """Let a control period pass for the machines whose episodes go on; actions (n, n_tau): shares of the limits.

        Raises:
            StatementError: an action is not a finite number.
        """
        given = self.arrays["actions"]
        given[:] = actions
        if not np.isfinite(given).all():
            e, i = np.argwhere(~np.isfinite(given))[0]
            name = self.base.machine.description.input_names[i]
            text = f"the action for {name} of environment {e} is {given[e, i]}; give numbers from -1 to 1"
            raise StatementError(text)
        if self._noisy:
            for e in np.flatnonzero((self.instants + 1) % self._n_noise == 0).tolist():
                if self.status[e] == GOES_ON:
                    self._errors[e].draw()
        self._team.run()


class Team:
    """So many threads, the caller's among them; the others are started when they are first needed."""

    def __init__(self, threads: int, work: Work) -> None:
        self._threads, self._work = threads, work
        self._helpers: list[_Helper] = []
        self._process = 0

    def run(self) -> None:
        """Do the whole work once."""
        if self._process != os.getpid():  # threads do not go into a fork
            self._start()
        for each in self._helpers:
            each.wake()
        done = self._work(True, SHORT)
        while not done:  # a helper still has a share, and perhaps no processor
            os.sched_yield()
            done = self._work(False, 0)

    def _start(self) -> None:
        self._process = os.getpid()
        self._helpers = [_Helper(self._work) for _ in range(self._threads - 1)]
        weakref.finalize(self, _end, self._helpers, self._process)


class _Helper:
    """A thread that works with the others, and sleeps where there is nothing to do for a while."""

    def __init__(self, work: Work) -> None:
        self._asleep, self._ended = threading.Lock(), False
        self._asleep.acquire()
        threading.Thread(target=self._serve, args=(work,), daemon=True, name="servonode environments").start()

    def _serve(self, work: Work) -> None:
        while not self._ended:
            work(False, IDLE)
            self._asleep.acquire()

    def wake(self) -> None:
        """Have it look for work again if it sleeps, or before it next would."""
        if self._asleep.locked():
            self._asleep.release()

    def end(self) -> None:
        """Have the thread end."""
        self._ended = True
        self.wake()


def _end(helpers: list[_Helper], process: int) -> None:
    if process == os.getpid():
        for each in helpers:
            each.end()
