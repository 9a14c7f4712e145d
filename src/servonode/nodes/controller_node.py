"""The controller node: answers each control state with the inputs of its servo law."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import AnyBus, Command, Estimate, Report, State, Status, Target, Wanted
from servonode.bus.durations import Clock, Durations
from servonode.bus.topology import CONTROLLER
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.safety_settings import command_timeout
from servonode.controllers.engine.layout import Answer
from servonode.estimators.kalman import consistency
from servonode.mechanics.description import packed, unpacked
from servonode.nodes.answerer import Answerer, ReceivedGoals, goal_step
from servonode.nodes.node import EventNode, Outbox
from servonode.nodes.plant_time import PAUSED, SPEED
from servonode.record.recorder import Recorder
from servonode.record.shared_memory import Ring

NOT_FINITE = (
    "the estimate is no longer finite: the filter has diverged; give sensors that observe what drifts, an "
    "initial state nearer to the truth, or another process_noise"
)


class Observing:
    """An estimator that takes readings, and the inputs that acted, from the plant's messages.

    The state in a message, which a simulation knows, is only compared with the estimate, never used for it. A state
    with standard deviations is itself an estimate, made by the plant node from readings. It has more attributes than a
    dozen, because it keeps the estimate, its errors and what they are compared with in memory that does not grow.
    """

    def __init__(self, closed_loop: ClosedLoop, outbox: Outbox, counts: Counter[str], simulated: bool) -> None:
        estimation = closed_loop.estimation
        assert estimation is not None
        self.estimator = estimation.estimator()
        self._diverged = False  # the estimate cannot be used until the plant restarts
        settings = estimation.settings
        used = [settings.sensors[i] for i in settings.used]
        slowest = max(1e9 / each.rate / settings.step_ns if each.rate else 0.0 for each in used)
        self._most_steps = settings.horizon + round(slowest)  # steps within which the first reading must come
        self._names = ", ".join(each.name for each in used)
        self._begun, self._has_read = 0, False  # the step at which it began, and whether a reading has come since
        self._awaits = False  # none has come for longer than the first may take
        description = estimation.observer.machine.description
        self._layout, self._columns, self._inputs = description.layout, description.columns, description.input_names
        self._outbox, self._counts = outbox, counts
        self._run = 0  # run id; 0: none yet
        self._held: list[State] = []  # states that came while another waits for its answer
        self._u = np.zeros(len(self._inputs))
        self._deviations = np.zeros(len(self._columns))
        self._consistency = np.zeros(4)
        self._gated = settings.gated
        self._rejected = np.zeros(len(self._gated))  # in all
        self._knows_truth = (simulated or closed_loop.driver.simulated) and closed_loop.sensor.ideal

    def receive(self, state: State, waiting: State | None) -> None:
        """Take a state of the plant; one that comes after a state that still waits for its answer is held back.

        So the answer to a state uses only what was known at that state, however late it is computed.
        """
        if waiting is None or state.run != waiting.run or (state.control and state.seq > waiting.seq):
            self.take_held()
            self._take(state)
        else:
            self._held.append(state)

    def take_held(self) -> None:
        """Take the states that were held back."""
        for state in self._held:
            self._take(state)
        self._held.clear()

    def _take(self, state: State) -> None:
        """Update the estimate by a message: by the inputs that acted until then and the readings, not by its state."""
        estimator = self.estimator
        if not self._run or (state.run != self._run and state.k < estimator.k):  # the plant has restarted
            estimator.begin(state.k)
            self._diverged, self._begun, self._has_read, self._awaits = False, state.k, False, False
        self._run = state.run
        if state.std is not UNSET:  # the plant node has made an estimate
            self._has_read = True
            return
        try:
            self._u[:] = [state.input[name] for name in self._inputs]
        except KeyError:
            self._counts["refused_shape"] += 1
            return
        readings = {} if state.readings is UNSET else state.readings
        self._diverged = not estimator.advance(state.k, self._u, readings) or self._diverged
        self._has_read = self._has_read or bool(estimator.came)
        self._awaits = not self._has_read and state.k - self._begun > self._most_steps
        for name, number in estimator.counts.items():
            self._counts[name] = number

    @property
    def lost(self) -> str:
        """Why the estimate cannot be used now; empty: it can."""
        if self._diverged:
            return NOT_FINITE
        if self._awaits:
            return f"no reading of {self._names} has come yet; check that the machine's state messages contain them"
        return self.estimator.persistent_rejection

    def mean(self, state: State) -> Array:
        """The estimate at a state (n,): the plant node's, where it has made one, else our own.

        Raises:
            KeyError, ValueError: the plant's has other names or sizes.
        """
        return self.estimator.x[:-1] if state.std is UNSET else self._stated(state)

    def publish(self, state: State) -> tuple[Array, Array, Array, Array]:
        """Publish the estimate at a state; what is recorded of it, in the order of `Estimation.columns`."""
        mean, nees, dimensions = self.mean(state), 0.0, 0
        if state.std is UNSET:
            stats = self.estimator.take_stats()
            self._deviations[:], innovations, nis, taken, rejected = self.estimator.deviations, *stats
            if self._knows_truth:
                nees, dimensions = consistency(mean, self.estimator.P, self._stated(state))
        else:
            self._deviations[:] = [state.std.get(name, np.nan) for name in self._columns]
            innovations = {} if state.innovation is UNSET else state.innovation
            quality = {} if state.consistency is UNSET else state.consistency
            nis, taken = quality.get("nis", 0.0), round(quality.get("readings", 0.0))
            rejected = {} if state.rejected is UNSET else state.rejected
        self._consistency[:] = nis, taken, nees, dimensions
        self._rejected += [rejected.get(name, 0.0) for name in self._gated]
        self._outbox.send(
            Estimate, state.k, state.t, state=packed(self._layout, mean.tolist()),
            std=dict(zip(self._columns, self._deviations.tolist(), strict=True)),
            innovation=innovations, nis=nis, readings=taken, nees=nees, dimensions=dimensions, re=state.seq,
            rejected=rejected or UNSET,
        )  # fmt: skip
        return mean, self._deviations, self._consistency, self._rejected

    def _stated(self, state: State) -> Array:
        return np.array(unpacked(self._layout, state.state))


class ControllerNode(EventNode):
    """Event-driven: `work` handles what has arrived and returns; only the newest control state is answered.

    simulated: the plant is a simulation in this process, whatever the driver, so that no timeout applies.
    It has more attributes than a dozen, because it joins goals, estimate, law, record and the watch over the plant.
    """

    def __init__(
        self,
        closed_loop: ClosedLoop,
        bus: AnyBus,
        listeners: Sequence[Wanted],
        clock: Clock = time.monotonic_ns,
        ring: Ring | None = None,
        simulated: bool = False,
    ) -> None:
        super().__init__(CONTROLLER, bus, listeners, clock)
        times = closed_loop.launch.times
        self.closed_loop = closed_loop
        self.goals = ReceivedGoals(closed_loop.targets.entries, times.steps_per_period or 1)
        self.answerer = Answerer(closed_loop, self.goals)
        self.record = Recorder(closed_loop.answer_columns[1:], times.steps // (times.steps_per_period or 1) + 2, ring)
        self.compute_time, self.period = Durations(), Durations()
        estimated = closed_loop.estimation is not None
        self._observing = Observing(closed_loop, self.outbox, self.counts, simulated) if estimated else None
        self._observing_ns = 0  # spent on the estimate since the last answer
        self._every, self._step_ns = times.steps_per_period or 1, times.step_ns
        self._layout, self._x = closed_loop.machine.description.layout, np.zeros(closed_loop.machine.n_state)
        self._input_names = closed_loop.machine.description.input_names
        device = closed_loop.device_law
        self._n_goal = device.n_goal if device else None  # of a law in the firmware; None: it has none
        self._k = self._next_k = 0  # step of the newest answered state, whose time is `t`, and of the next one
        self._waiting: State | None = None  # a state that waits for its target
        self._answer: Command | None = None
        self._speed = closed_loop.launch.run.speed
        self._silence_ns = None if simulated else _silence_ns(closed_loop, self._speed)
        self._state_ns = 0  # time of the newest control state [ns]

    def work(self) -> float:
        """Take what has arrived, and answer the newest control state once its target is there."""
        for topic, message in self.inbox.receive():
            if topic == "state":
                assert isinstance(message, State)
                self._on_state(message)
            elif topic == "status":
                assert isinstance(message, Status)
                self._on_plant_status(message)
            else:
                assert isinstance(message, Target)
                if not self.goals.add(message):
                    self.counts["refused_shape"] += 1
        state = self._waiting
        if state is not None and self.goals.have(k := goal_step(state), self.answerer.ahead(state)):
            self._waiting = None
            self._respond(state, k)
            if self._observing is not None:
                self._observing.take_held()
        return self._watch_plant()

    def use(self, numbers: list[float]) -> tuple[int, float]:
        self.answerer.use(np.array(numbers))
        k = self._next_k if self._waiting is None else self._waiting.k
        return k, k * self._step_ns / 1e9

    def _on_plant_status(self, status: Status) -> None:
        """Take a pause, or another speed, for what it is: the time up to the next state is no silence."""
        speed = status.values.get(SPEED, self._speed)
        if speed != self._speed and self._silence_ns is not None:
            self._silence_ns = _silence_ns(self.closed_loop, speed)
        if speed != self._speed or status.values.get(PAUSED):
            self.active = False
        self._speed = speed

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
        self.answerer.reset()
        self.counts["plant_silent"] += 1
        self.publish_status(self._k, self.t)
        return np.inf

    def _on_state(self, state: State) -> None:
        if state.run != self.outbox.run:  # the plant has started, or restarted
            self.outbox.run = state.run
            self.goals.begin_run(state.run)
            self._answer = self.failed = None
            self._next_k = state.k
            self.answerer.reset()
        if self._observing is not None:
            begin = self.clock()
            self._observing.receive(state, self._waiting)
            self._observing_ns += self.clock() - begin
        if not state.control:
            return
        if self._answer is not None and state.seq == self._answer.re:
            self.outbox.resend(self._answer)
            return
        now = self.clock()
        if self.active:
            self.period.add((now - self._state_ns) / 1e9)
        self._state_ns, self.active = now, True
        if self._waiting is not None and self._waiting.seq != state.seq:
            self.counts["skipped_states"] += 1
        self._waiting = state

    def _respond(self, state: State, k: int) -> None:
        """Evaluate the law at a state with the goal of step k; publish command and report, record the residuals."""
        begin = self.clock()
        self._k, self.t = state.k, state.t
        self._next_k = state.k + self._every
        if not self._know_state(state):
            self.counts["refused_shape"] += 1
            return
        law, names = self.answerer.law, self._input_names
        answer = self.answerer.answer(state, k, self._x)
        lost = self._observing.lost if self._observing is not None else ""
        inputs = answer.inputs.tolist() if not (answer.status or lost) else [0.0] * len(names)
        self.compute_time.add((self.clock() - begin + self._observing_ns) / 1e9)
        self._observing_ns = 0
        fault = lost or (law.explain(answer) if answer.status else "")
        name = law.fault_name(answer) if answer.status and not lost else "law"
        if fault and self.failed is None:  # reset when the plant is armed again
            self.fail("estimate" if lost else name, fault, state.t)
        self._answer = self.outbox.send(  # type: ignore[assignment]
            Command, state.k, state.t, re=state.seq, target_seq=self.goals.seq(k),
            input=dict(zip(names, inputs, strict=True)), fault=fault, fault_name=UNSET if name == "law" else name,
            goal=UNSET if self._n_goal is None else self.answerer.goal.y[: self._n_goal].tolist(),
            parameters_seq=UNSET if self.changed is None else self.changed.seq,
        )  # fmt: skip
        estimate = self._observing.publish(state) if self._observing is not None else ()
        # after the answer, for which the plant waits
        self.record.add(state.k, self.answerer.measured.recorded, self.answerer.goal.states, *estimate)
        if self.status_is_due():
            self._report(state, answer)
        self.goals.drop_before(k)

    def _know_state(self, state: State) -> bool:
        """Set x to the state for the law, the estimate or else the measured state; False where it has another shape."""
        try:
            observing = self._observing
            self._x[:] = observing.mean(state) if observing else unpacked(self._layout, state.state)
        except (KeyError, ValueError):  # a name is missing, or a value has another size
            return False
        return True

    def _report(self, state: State, answer: Answer) -> None:
        program = self.answerer.law.description
        residuals = dict(zip((each.name for each in program.residuals), answer.residuals.tolist(), strict=True))
        condition = min(abs(answer.condition), 1e300)
        scales = dict(zip((each.name for each in program.limits), answer.scales.tolist(), strict=True))
        names = [each.quantity.name for each in program.keeps]
        kept = (
            {
                "margin": dict(zip(names, answer.margins.tolist(), strict=True)),
                "active": dict(zip(names, answer.active.tolist(), strict=True)),
                "keeping": answer.keeping,
            }
            if program.keeping
            else {}
        )
        self.outbox.send(
            Report, state.k, state.t, residual=residuals, condition=condition, scale=scales,
            saturated=any(scale < 1.0 for scale in scales.values()), compute_s=self.compute_time.recent(1),
            re=state.seq, **kept,
        )  # fmt: skip
        self.publish_status(self._k, self.t, **residuals)

    def values(self) -> dict[str, float]:
        return self.compute_time.flat("execution") | self.period.flat("period")

    def summary(self) -> dict[str, Any]:
        return super().summary() | {
            "compute_s": self.compute_time.percentiles(),
            "times": {"period_s": self.period.percentiles(), "execution_s": self.compute_time.percentiles()},
        }


def _silence_ns(closed_loop: ClosedLoop, speed: float) -> int | None:
    """For how long no state may come before the plant counts as silent [ns]; None: for any time, as in lockstep."""
    launch = closed_loop.launch
    timeout = command_timeout(launch.plant.safety, speed, launch.period_ns)
    in_real_time = launch.run.mode == "realtime"
    return round(timeout * 1e9) if in_real_time and timeout is not None else None
