"""The controller node: answers each control state with the inputs of its servo law."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from servonode.bus import BusFace, Command, Report, State, Target, Wanted
from servonode.bus.durations import Durations
from servonode.bus.topology import CONTROLLER
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.controllers.engine.layout import Answer
from servonode.mechanics.description import unpacked
from servonode.nodes.node import Clock, EventNode
from servonode.nodes.observing import Observing
from servonode.nodes.predictor import Predictor, link_periods
from servonode.record.recorder import Recorder
from servonode.record.shared_memory import Ring

Array = npt.NDArray[np.float64]
GOALS = 2048  # targets kept for states that are still to come


def goal_step(state: State) -> int:
    """The step of the goal for a state; goal time stands still while no command acts."""
    return state.goal_k if state.goal_k >= 0 else state.k


class ControllerNode(EventNode):
    """Event-driven: `work` handles what has arrived and returns; only the newest control state is answered.

    simulated: the plant is a simulation in this process, whatever the driver, so that no timeout applies.
    """

    def __init__(
        self,
        closed_loop: ClosedLoop,
        bus: BusFace,
        listeners: Sequence[Wanted],
        clock: Clock = time.monotonic_ns,
        ring: Ring | None = None,
        simulated: bool = False,
    ) -> None:
        super().__init__(CONTROLLER, bus, listeners, clock)
        assert closed_loop.control is not None
        self.closed_loop = closed_loop
        self.control = closed_loop.control
        self.law = closed_loop.control.law
        description = closed_loop.machine.description
        self.state_names, self.input_names = description.state_names, description.input_names
        self.residual_names = [each.name for each in self.law.description.residuals]
        self.goal_names = closed_loop.targets.entries
        self._goal_set = frozenset(self.goal_names)
        self.limit_names = [each.name for each in self.law.description.limits]
        launch = closed_loop.launch
        self.record = Recorder(closed_loop.answer_columns[1:], launch.steps // (launch.steps_per_period or 1) + 2, ring)
        self.compute_time, self.period = Durations(), Durations()
        self._x, self._layout = np.zeros(len(self.state_names)), description.layout
        part = self.law.goal_layout
        self._y = np.zeros(part.size)
        self._goal, self._signals = self._y[part.targets], self._y[part.signals]
        self._states, self._integrals = self._y[part.states], self._y[part.integrals]
        device = closed_loop.device_law
        self._n_goal = device.n_goal if device else None  # of a law in the firmware; None: it has none
        self._measured = self.law.answer()  # answer to a measured state
        self._foreseen = self.law.answer()  # answer to the state predicted from it
        self._memory = self.law.memory()
        self._followed: float | None = None  # s, plant time of the state that was answered before; None: of none yet
        self._compared = -1, 0.0  # step of the goal and determinant of the law, to compare its sign with; 0: none yet
        self._measured_k = -1  # step of the goal in the newest answer, whose residuals are still to be integrated
        self._period = (launch.period_ns or 0) / 1e9
        wanted = launch.controller is not None and launch.controller.predictor
        late = launch.controller is not None and (launch.controller.delay > 0 or link_periods(closed_loop) > 0)
        self._predictor = Predictor(closed_loop) if wanted and late else None
        self._steps_per_period = launch.steps_per_period or 1
        self._observing = (
            Observing(closed_loop, self.outbox, self.counts, simulated) if closed_loop.estimation else None
        )
        self._observing_ns = 0  # spent on the estimate since the last answer
        self._goals: dict[int, Target] = {}
        self._early: dict[int, Target] = {}  # goals of a run whose first state has not come yet
        self._k = 0  # step of the newest answered state; `t` is its time
        self._waiting: State | None = None  # a state that waits for its target
        self._answer: Command | None = None
        self._run = 0  # run id; 0: none yet
        in_real_time = (
            launch.run.mode == "realtime" and not simulated and closed_loop.safety.command_timeout is not None
        )
        self._silence_ns = round((closed_loop.safety.command_timeout or 0.0) * 1e9) if in_real_time else None
        self._state_ns = 0  # time of the newest control state [ns]

    def work(self) -> float:
        """Take what has arrived, and answer the newest control state once its target is there."""
        for topic, message in self.inbox.receive():
            if topic == "state":
                assert isinstance(message, State)
                self._on_state(message)
            else:
                assert isinstance(message, Target)
                self._on_target(message)
        state = self._waiting
        if state is not None and self._has_goals(k := goal_step(state), self._ahead(state)):
            self._waiting = None
            self._respond(state, k)
            if self._observing is not None:
                self._observing.take_held()
        return self._watch_plant()

    def _watch_plant(self) -> float:
        """The time until the plant counts as silent [s]; then the law's memory is cleared, and a status says so.

        Nothing has to be stopped, because commands are only answers. In lockstep there is no such timeout.
        """
        if self._silence_ns is None or not self.active:
            return np.inf
        left = self._state_ns + self._silence_ns - self.clock()
        if left > 0:
            return left / 1e9
        self.active = False
        self._clear_memory()
        self.counts["plant_silent"] += 1
        self.publish_status(self._k, self.t)
        return np.inf

    def _clear_memory(self) -> None:
        """The program's own states and integrals begin again, and no sign of det W is compared with an earlier one."""
        self._memory, self._followed, self._compared = self.law.memory(), None, (-1, 0.0)
        self._integrals[:], self._measured_k = 0.0, -1

    def _ahead(self, state: State) -> int:
        """Number of steps from a state to the instant for which the law is evaluated."""
        return self._predictor.ahead(state) if self._predictor else 0

    def _has_goals(self, k: int, ahead: int) -> bool:
        """Whether the goals of step k and of the control instants around step k + ahead have arrived."""
        if not self.goal_names:
            return True
        before = k + ahead - ahead % self._steps_per_period
        after = before + (self._steps_per_period if before < k + ahead else 0)
        return k in self._goals and before in self._goals and after in self._goals

    def _on_state(self, state: State) -> None:
        if state.run != self._run:  # the plant has started, or restarted
            self._run = self.outbox.run = state.run
            self._goals = {k: goal for k, goal in self._early.items() if goal.run == state.run}
            self._early = {}
            self._answer = self.failed = None
            self._clear_memory()
        if self._observing is not None:
            begin = self.clock()
            self._observing.receive(state, self._waiting)
            self._observing_ns += self.clock() - begin
        if not state.control:
            return
        if self._answer is not None and state.seq == self._answer.re:
            self.outbox.send(
                Command, self._answer.k, self._answer.t, seq=self._answer.seq, re=self._answer.re,
                target_seq=self._answer.target_seq, input=self._answer.input, fault=self._answer.fault,
                goal=self._answer.goal,
            )  # fmt: skip
            return
        now = self.clock()
        if self.active:
            self.period.add((now - self._state_ns) / 1e9)
        self._state_ns, self.active = now, True
        if self._waiting is not None and self._waiting.seq != state.seq:
            self.counts["skipped_states"] += 1
        self._waiting = state

    def _on_target(self, target: Target) -> None:
        if not self._goal_set <= target.target.keys():
            self.counts["refused_shape"] += 1
            return
        goals = self._goals if target.run == self._run else self._early  # the goals of a new run may precede its state
        goals.pop(target.k, None)
        goals[target.k] = target
        if len(goals) > GOALS:
            del goals[next(iter(goals))]

    def _respond(self, state: State, k: int) -> None:
        """Evaluate the law at a state with the goal of step k; publish command and report, record the residuals."""
        begin = self.clock()
        self._k, self.t = state.k, state.t
        if not self._know_state(state):
            self.counts["refused_shape"] += 1
            return
        goal = self._goals.get(k)
        answer = self._answer_to(state, k)
        lost = self._observing.lost if self._observing is not None else ""
        asked = answer.inputs.tolist() if not (answer.status or lost) else [0.0] * len(self.input_names)
        self.compute_time.add((self.clock() - begin + self._observing_ns) / 1e9)
        self._observing_ns = 0
        fault = lost or (self.law.explain(answer) if answer.status else "")
        if fault and self.failed is None:  # reset when the plant is armed again
            self.fail("estimate" if lost else "law", fault, state.t)
        self._answer = self.outbox.send(  # type: ignore[assignment]
            Command, state.k, state.t, re=state.seq, target_seq=goal.seq if goal else -1,
            input=dict(zip(self.input_names, asked, strict=True)), fault=fault,
            goal=self._y[: self._n_goal].tolist() if self._n_goal is not None else UNSET,
        )  # fmt: skip
        estimate = self._observing.publish(state) if self._observing is not None else ()
        # after the answer, for which the plant waits
        self.record.add(state.k, self._measured.recorded, self._states, *estimate)
        if self.status_is_due():
            self._report(state, answer)
        self._drop_goals(k)

    def _know_state(self, state: State) -> bool:
        """Set x to the state for the law, the estimate or else the measured state; False where it has another shape."""
        try:
            observing = self._observing
            self._x[:] = observing.mean(state) if observing else unpacked(self._layout, state.state)
        except (KeyError, ValueError):  # a name is missing, or a value has another size
            return False
        return True

    def _answer_to(self, state: State, k: int) -> Answer:
        """The law's answer at step k of the goal, to a state or to the one predicted from it; updates the integrals."""
        answer = self._measured
        if len(self._integrals) and self._measured_k not in (-1, k):  # not while goal time stands still
            self._integrals += self._period * answer.residuals
        self._measured_k = -1
        if self._compute(answer, k, self._x, follow=True):
            return answer
        self._measured_k = k
        if self._predictor:
            if ahead := self._predictor.ahead(state):
                answer = self._foreseen
                self._compute(answer, k + ahead, self._predictor.predict(state, self._x))
            if not answer.status:
                self._predictor.sent(state.k, answer.inputs)
        return answer

    def _compute(self, answer: Answer, k: int, x: Array, follow: bool = False) -> int:
        """Evaluate the law at step k of the goal into `answer`; returns its status. follow: program's states too."""
        t = k * self.closed_loop.launch.step_ns / 1e9
        if self.goal_names:
            self._take_goal(k)
        if len(self._signals):
            self.control.signals.evaluate(t, self._signals)
        if follow and len(self._states):
            passed = 0.0 if self._followed is None else t - self._followed
            if k > 0 and passed == 0.0:  # the first state after a restart, or no command acts
                self.law.fit_integrators(t, x, self._y, self._memory)
            self.law.follow(t, x, self._y, passed, self._memory)
            self._followed = t
        self.law.compute(t, x, self._y, answer)
        if follow:
            compared_k, before = self._compared
            if compared_k == k:  # goal time stands still: no command acts, and the machine may be anywhere
                before = 0.0
            self._compared = k, answer.compare(before)
        return answer.status

    def _take_goal(self, k: int) -> None:
        """Set the goal of step k; between two control instants it is interpolated linearly."""
        goal = self._goals.get(k)
        if goal is not None:
            self._goal[:] = [goal.target[name] for name in self.goal_names]
            return
        passed = k % self._steps_per_period
        before, after = self._goals[k - passed].target, self._goals[k - passed + self._steps_per_period].target
        share = passed / self._steps_per_period
        self._goal[:] = [before[name] + share * (after[name] - before[name]) for name in self.goal_names]

    def _report(self, state: State, answer: Answer) -> None:
        residuals = dict(zip(self.residual_names, answer.residuals.tolist(), strict=True))
        condition = min(abs(answer.condition), 1e300)
        scales = dict(zip(self.limit_names, answer.scales.tolist(), strict=True))
        self.outbox.send(
            Report, state.k, state.t, residual=residuals, condition=condition, scale=scales,
            saturated=any(scale < 1.0 for scale in scales.values()), compute_s=self.compute_time.recent(1),
            re=state.seq,
        )  # fmt: skip
        self.publish_status(self._k, self.t, **residuals)

    def values(self) -> dict[str, float]:
        return self.compute_time.flat("execution") | self.period.flat("period")

    def _drop_goals(self, k: int) -> None:
        """Drop the goals before step k; they are in the order of their steps."""
        while self._goals and (oldest := next(iter(self._goals))) < k:
            del self._goals[oldest]

    def summary(self) -> dict[str, Any]:
        return super().summary() | {
            "compute_s": self.compute_time.percentiles(),
            "times": {"period_s": self.period.percentiles(), "execution_s": self.compute_time.percentiles()},
        }
