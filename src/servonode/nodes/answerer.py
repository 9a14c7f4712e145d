"""The servo law of a run, evaluated at one state after the other: with the goals received, and delays foreseen."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.bus import State, Target
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.hosts import is_networked
from servonode.controllers import ServoLaw
from servonode.controllers.engine.layout import Answer
from servonode.controllers.engine.signals import Signals
from servonode.controllers.inversion.feedforward import Feedforward
from servonode.mechanics.machine import Machine
from servonode.plants.limits import SoftStart

LONGEST = 64  # largest latency of link and network, with the age of a state, that is compensated [control periods]
MOST_GOALS = 2048  # that are kept for states still to come


def goal_step(state: State) -> int:
    """The step of the goal for a state; goal time stands still while no command acts."""
    return state.goal_k if state.goal_k >= 0 else state.k


class ReceivedGoals:
    """The goals of the present run in the order of their steps, and of the next run those that precede its states."""

    def __init__(self, names: Sequence[str], steps_per_period: int) -> None:
        self.names = names
        self._needed = frozenset(names)
        self._every = steps_per_period
        self._goals: dict[int, Target] = {}
        self._early: dict[int, Target] = {}  # of a run whose first state has not come yet
        self._run = 0  # run id; 0: none yet

    def begin_run(self, run: int) -> None:
        """Keep the goals of this run alone: the plant has started, or restarted."""
        self._run = run
        self._goals = {k: goal for k, goal in self._early.items() if goal.run == run}
        self._early = {}

    def add(self, target: Target) -> bool:
        """Keep a goal; False where it lacks a name."""
        if not self._needed <= target.target.keys():
            return False
        goals = self._goals if target.run == self._run else self._early
        goals.pop(target.k, None)
        goals[target.k] = target
        if len(goals) > MOST_GOALS:
            del goals[next(iter(goals))]
        return True

    def have(self, k: int, ahead: int) -> bool:
        """Whether the goals of step k and of the control instants around step k + ahead have arrived."""
        if not self.names:
            return True
        before = k + ahead - ahead % self._every
        after = before + (self._every if before < k + ahead else 0)
        return k in self._goals and before in self._goals and after in self._goals

    def seq(self, k: int) -> int:
        """The number of the goal of step k; -1 where it has none."""
        goal = self._goals.get(k)
        return goal.seq if goal else -1

    def values(self, k: int) -> list[float]:
        """The goal of step k by `names`; between two control instants it is interpolated linearly."""
        goal = self._goals.get(k)
        if goal is not None:
            return [goal.target[name] for name in self.names]
        passed = k % self._every
        before, after = self._goals[k - passed].target, self._goals[k - passed + self._every].target
        share = passed / self._every
        return [before[name] + share * (after[name] - before[name]) for name in self.names]

    def drop_before(self, k: int) -> None:
        """Drop the goals before step k."""
        while self._goals and (oldest := next(iter(self._goals))) < k:
            del self._goals[oldest]


def link_periods(closed_loop: ClosedLoop) -> int:
    """The most control periods that a predictor looks beyond `controller.delay`; 0 where no latency is measured."""
    launch = closed_loop.launch
    measured = launch.run.mode == "realtime" and (is_networked(launch) or not closed_loop.driver.simulated)
    return LONGEST if measured and launch.controller is not None and launch.controller.predictor else 0


class Predictor:
    """Predicts the state at which an input computed now will act: `delay` control periods and a measured latency later.

    With an exact model the law then sees no delay, and the limits of the sampled law without delay apply. The latency
    is what the plant has measured (`State.latency`), and a state contains its age (`State.age`). What the guard has
    made of the newest input is known from the state; over a network some inputs are still on their way, and of those
    that act it is not known which command they were, so all are taken as sent.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        launch, control = closed_loop.launch, closed_loop.known_control
        assert launch.controller is not None
        assert launch.steps_per_period is not None
        machine = control.law.machine
        self.delay = launch.controller.delay
        self.steps_per_period, self.step_ns = launch.steps_per_period, launch.step_ns
        self._names = machine.description.input_names
        self._advance = machine.advancer(launch.plant.integrator)
        self._limits = np.array(closed_loop.safety.limits.value)
        kept = self.delay + link_periods(closed_loop)
        self._sees_applied = not is_networked(launch)
        self._longest = link_periods(closed_loop) * self.steps_per_period
        self._sent = deque((np.zeros(machine.n_inputs) for _ in range(kept)), maxlen=kept)  # one for each instant
        self._last = -1  # control instant of the newest input
        self._x = np.zeros(machine.n_state + 1)

    def latency(self, state: State) -> int:
        """By how many steps an input acts later than `delay` says; 0 where it is not measured."""
        return min(round(state.latency * 1e9 / self.step_ns), self._longest)

    def ahead(self, state: State) -> int:
        """The number of steps from a state to the instant at which its answer acts."""
        return self.delay * self.steps_per_period + self.latency(state)

    def predict(self, state: State, x: Array, machine: Machine) -> Array:
        """The state (n_x,) at which the answer to `state` acts, whose values are x. One array, reused.

        machine: of the kind with which this was made, with the parameters that are assumed.
        """
        k, every = state.k, self.steps_per_period
        instant, late = k // every, self.latency(state)
        self._hold_until(instant)
        at = k
        if late:
            if self._sees_applied:  # as limited by the guard
                self._sent[-1 - self.delay] = np.array([state.input[name] for name in self._names])
            at -= min(round(state.age * 1e9 / self.step_ns), self._longest - late)
        self._x[: len(x)] = x
        end = k + self.delay * every + late
        while at < end:
            acts = (at - late) // every - self.delay  # control instant whose answer acts
            until = min((acts + 1 + self.delay) * every + late, end)
            u = self._sent[-min(instant - acts, len(self._sent))]
            self._advance(at, until - at, self.step_ns, self._x, u, machine.c)
            at = until
        return self._x

    def _hold_until(self, instant: int) -> None:
        """Fill in the instants before `instant` without an answer, at which inputs were held."""
        for _ in range(instant - self._last - 1):
            self._sent.append(self._sent[-1])
        self._last = max(self._last, instant - 1)

    def sent(self, k: int, inputs: Array) -> None:
        """Remember the inputs that answer step k, as the plant will limit them."""
        self._hold_until(k // self.steps_per_period)
        self._last = k // self.steps_per_period
        self._sent.append(np.minimum(np.maximum(inputs, -self._limits), self._limits))


class GoalVector:
    """The vector y of a law, with its parts as views."""

    def __init__(self, law: ServoLaw) -> None:
        part = law.goal_layout
        self.y = np.zeros(part.size)
        self.targets, self.signals = self.y[part.targets], self.y[part.signals]
        self.states, self.integrals = self.y[part.states], self.y[part.integrals]


@dataclass
class Progress:
    """What the next evaluation needs of the one before."""

    memory: Array  # of the program's own states
    t: float | None = None  # goal time [s] that these have followed to; None: they have not begun
    determinant: tuple[int, float] = (-1, 0.0)  # step of the goal and det W there, whose sign is compared; 0: none
    residuals_k: int = -1  # step of the goal whose residuals are still to be integrated; -1: none
    clipped: int = 0  # control periods in a row for which inputs that keep all were sought in vain


class Handover:
    """Leads the inputs from those of the law before a change of numbers to those of the law that has them.

    Both laws answer the same state; their difference fades with the profile of a soft start, armed or not. Where
    the law before has no answer the last difference fades on.
    """

    def __init__(self, law: ServoLaw, signals: Signals | Feedforward, soft: SoftStart) -> None:
        self._goal, self._answer, self._soft = GoalVector(law), law.answer(), soft
        self._law: ServoLaw | None = None  # the law before; None: nothing fades
        self._signals, self._first = signals, -1  # its functions of time; control instant of the new law's first answer
        self._answered = False  # whether the present law has answered: one that has not is nothing to fade from
        self._difference, self._left, self._held = np.zeros((3, law.machine.n_inputs))  # now, its rest, that of before

    def leave(self, law: ServoLaw, signals: Signals | Feedforward) -> None:
        """Note that other numbers act from the next answer on; these have acted up to now."""
        if self._answered:
            self._law, self._signals, self._held[:], self._answered = law, signals, self._left, False
            self._difference[:] = self._left  # until the law before has answered: no rest of earlier changes

    def before(self, instant: int) -> ServoLaw | None:
        """The law from which the answer at this control instant is still to be led; None: nothing fades."""
        if not self._answered:
            self._answered, self._first = True, instant
        if not 0 <= instant - self._first < self._soft.ramp - 1:  # negative: the plant has begun again
            self._law, self._left[:] = None, 0.0
        return self._law

    def lead(self, law: ServoLaw, instant: int, t: float, x: Array, goal: Array, inputs: Array) -> None:
        """Add the rest of the difference to the new law's inputs; x, goal: what `law`, the one before, answers too."""
        self._goal.y[:] = goal
        if len(self._goal.signals):
            self._signals.evaluate(t, self._goal.signals)
        if not law.compute(t, x, self._goal.y, self._answer):
            self._difference[:] = self._answer.inputs + self._held - inputs
        self._left[:] = (1.0 - self._soft.share(instant - self._first + 1)) * self._difference
        inputs += self._left


class Answerer:
    """Answers states by the law: with the goals received, the program's own states, integrals, and a prediction.

    measured: the law's answer to the newest state itself. goal: y of the newest evaluation.
    """

    def __init__(self, closed_loop: ClosedLoop, goals: ReceivedGoals) -> None:
        control = closed_loop.known_control
        self.law = control.law.begin()
        self.measured = self.law.answer()
        self._foreseen = self.law.answer()  # answer to the state predicted from it
        self.goal = GoalVector(self.law)
        self._goals, self._signals = goals, control.signals
        self._progress = Progress(self.law.memory())
        self._step_ns, self._period = control.times.step_ns, control.times.period
        self._every = control.times.steps_per_period or 1
        late = control.stated.delay > 0 or link_periods(closed_loop) > 0
        self._predictor = Predictor(closed_loop) if control.stated.predictor and late else None
        self._clipped = closed_loop.safety.clipped
        self._handover = Handover(self.law, self._signals, closed_loop.safety.soft_start)

    def reset(self) -> None:
        """What the law keeps begins again, and no sign of det W is compared with an earlier one."""
        self.law.reset()
        self._progress = Progress(self.law.memory())
        self.goal.integrals[:] = 0.0

    def use(self, numbers: Array) -> None:
        """Compute with these numbers of the law and of its functions of time from the next answer on.

        Raises:
            ValueError: there are not as many, or a parameter is out of its bounds.
        """
        n = max(len(numbers) - len(self._signals.pieces), 0)
        law, signals = self.law.with_numbers(numbers[:n]), self._signals.with_pieces(numbers[n:])
        self._handover.leave(self.law, self._signals)
        self.law, self._signals = law, signals

    def ahead(self, state: State) -> int:
        """Number of steps from a state to the instant for which the law is evaluated."""
        return self._predictor.ahead(state) if self._predictor else 0

    def answer(self, state: State, k: int, x: Array) -> Answer:
        """The law's answer at step k of the goal, to x or to the state predicted from it; updates the integrals."""
        answer, progress = self.measured, self._progress
        if self._predictor and self.law.description.own:
            return self._answer_once(self._predictor, state, k, x)
        if len(self.goal.integrals) and progress.residuals_k not in (-1, k):  # not while goal time stands still
            self.goal.integrals += self._period * answer.residuals
        progress.residuals_k, (compared_k, _) = -1, progress.determinant
        if self.follow(k, x):
            return answer
        progress.residuals_k = k
        ahead = self.ahead(state)
        if self._predictor and ahead:
            answer = self._foreseen
            self._take_goal(k + ahead)
            foreseen = self._predictor.predict(state, x, self.law.machine)
            self.law.compute(self._time(k + ahead), foreseen, self.goal.y, answer)
        progress.clipped = answer.count_clipped(0 if compared_k == k else progress.clipped, self._clipped)
        if answer.status:
            return answer
        instant = state.k // self._every
        if (before := self._handover.before(instant)) is not None:
            if self._predictor and ahead:
                x = self._predictor.predict(state, x, before.machine)
            self._handover.lead(before, instant, self._time(k + ahead), x, self.goal.y, answer.inputs)
        if self._predictor:
            self._predictor.sent(state.k, answer.inputs)
        return answer

    def _answer_once(self, predictor: Predictor, state: State, k: int, x: Array) -> Answer:
        """The answer of a controller in Python, which may keep what it is given: it gets the predicted state alone."""
        ahead = predictor.ahead(state)
        self._take_goal(k + ahead)
        foreseen = predictor.predict(state, x, self.law.machine)
        self.law.compute(self._time(k + ahead), foreseen, self.goal.y, self.measured)
        if not self.measured.status:
            predictor.sent(state.k, self.measured.inputs)
        return self.measured

    def follow(self, k: int, x: Array) -> int:
        """Evaluate the law at x and step k of the goal, to which its own states go on; returns its status."""
        t, progress = self._time(k), self._progress
        self._take_goal(k)
        if len(self.goal.states):
            passed = 0.0 if progress.t is None else t - progress.t
            if k > 0 and passed == 0.0:  # the first state after a restart, or no command acts
                self.law.fit_integrators(t, x, self.goal.y, progress.memory)
            self.law.follow(t, x, self.goal.y, passed, progress.memory)
            progress.t = t
        self.law.compute(t, x, self.goal.y, self.measured)
        compared_k, before = progress.determinant
        if compared_k == k:  # goal time stands still: no command acts, and the machine may be anywhere
            before = 0.0
        progress.determinant = k, self.measured.compare(before)
        return self.measured.status

    def _time(self, k: int) -> float:
        return k * self._step_ns / 1e9

    def _take_goal(self, k: int) -> None:
        """Set targets and signals to those of step k."""
        if self._goals.names:
            self.goal.targets[:] = self._goals.values(k)
        if len(self.goal.signals):
            self._signals.evaluate(self._time(k), self.goal.signals)
