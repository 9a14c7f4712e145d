"""What a plant publishes: its states, of which some expect an answer, and its statuses; the summary of its run."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import UNSET
from msgspec.structs import asdict

from servonode.bus import Lifecycle, State, Status
from servonode.bus.durations import EXTRA, Durations
from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import packed
from servonode.nodes.answers import AskedState
from servonode.nodes.fault_ladder import ESTOP
from servonode.nodes.guard import Guard
from servonode.nodes.input_limiter import WOULD_SEND
from servonode.nodes.node import STATUS_PERIOD_NS, Outbox
from servonode.nodes.plant_time import GoalTime, Pace, Pause
from servonode.plants.plant import Plant, Reading

STATUS_INSTANTS = 128  # control instants after which a status is due at the latest: the target node needs it


class StatePublisher:
    """Publishes readings of the plant, and tells the guard which of them expect an answer.

    asked_ns: time of the newest control state; 0 before the first. period: the times between control states [s]. It has
    more than a dozen attributes: constants of the run, computed once.
    """

    def __init__(self, closed_loop: ClosedLoop, plant: Plant, outbox: Outbox, guard: Guard, goal: GoalTime) -> None:
        launch = closed_loop.launch
        self.asked_ns = 0
        self.period = Durations()
        self._asked: State | None = None  # the newest control state
        self._steps, self._layout = launch.steps, closed_loop.machine.description.layout
        self.set_speed(launch.run.speed)
        self._step, self._step_ns = launch.step_ns / 1e9, launch.step_ns
        self._external = not plant.simulated
        self._machine_step = -1  # own step of an external machine in the newest control state
        self._remote = plant.remote
        self._outbox, self._guard, self._goal = outbox, guard, goal

    def publish(self, reading: Reading, instant: int | None) -> None:
        """Publish a reading; an answer is expected where `instant` is given, the number of its control instant."""
        control = instant is not None
        values = packed(self._layout, reading.state.tolist())
        speeds = self._guard.output.speeds  # that are sent to drives that take speeds
        estimate = reading.estimate
        quality: dict[str, Any] = {}
        if estimate is not None:
            quality = asdict(estimate) | {"rejected": estimate.rejected or UNSET}
        message = self._outbox.send(
            State, reading.k, reading.t, state=values, input=self._guard.output.by_name, control=control,
            final=reading.k == self._steps, goal_k=self._goal.k, age=reading.age,
            latency=self.latency, readings=reading.readings or UNSET,
            extra=UNSET if speeds is None else dict(speeds.by_name()), **quality,
        )  # fmt: skip
        if instant is None:
            return
        if self._external:
            self._guard.counts["slow_states"] += reading.step == self._machine_step
            self._machine_step = reading.step
        self._asked = message  # type: ignore[assignment]
        measured = message.mono - round(reading.age * self._wall_ns)
        goal_at = max(reading.step + round(reading.age / self._step), 0)
        asked = AskedState(instant, message.mono, measured, goal_at, self._goal.k)
        self._guard.answers.expect(message.seq, asked, self._guard.lifecycle)
        if self.asked_ns:
            self.period.add((message.mono - self.asked_ns) / 1e9)
        self.asked_ns = message.mono

    def has_asked(self, k: int) -> bool:
        """Whether the newest control state is that of step k."""
        return self._asked is not None and self._asked.k == k

    def set_speed(self, speed: float) -> None:
        """Take ages of readings at this speed from now on."""
        self._wall_ns = 1e9 / speed  # ns (wall clock) in a second of plant time

    def postpone(self, passed_ns: int) -> None:
        """Leave a pause of so long [ns] out of the times between control states."""
        self.asked_ns += passed_ns if self.asked_ns else 0

    @property
    def latency(self) -> float:
        """By how much later than `controller.delay` says an answer acts [s of plant time]; 0: not measured."""
        network = self._guard.network
        link = self._remote.latency if self._remote else 0.0
        return link if network is None else link + network.steps * self._step_ns / 1e9

    def publish_again(self) -> None:
        """Publish the newest control state again, as the same message: in lockstep a lost one would stop the run."""
        if self._asked is not None:
            self._outbox.resend(self._asked)
            self._guard.counts["resent_states"] += 1


class ReportingNode(Protocol):
    """The parts of the plant node that a status needs; a protocol, because its file imports this one."""

    closed_loop: ClosedLoop
    goal: GoalTime
    guard: Guard
    outbox: Outbox
    pace: Pace
    pause: Pause
    plant: Plant
    reset_ns: int | None
    states: StatePublisher

    @property
    def machine_obstacle(self) -> str | None: ...

    def all_counts(self) -> dict[str, int]: ...

    def tell_new_readers(self) -> None: ...


class PlantStatus:
    """The statuses of a plant node. execution: from each wake-up until its state is published [s], in real time."""

    def __init__(self, node: ReportingNode, show_life: Callable[[], None]) -> None:
        """show_life: called wherever a status may be due, which is in every loop of the plant."""
        self._node, self._show_life = node, show_life
        self.execution = Durations()
        self._steps_per_period = node.closed_loop.launch.steps_per_period or 1
        self._due = self._k = self._values_due = 0
        self._values: dict[str, float] = {}

    def publish(self, lifecycle: Lifecycle | None = None) -> None:
        """Publish lifecycle, the latched fault, the safe state, counters and measured values."""
        node = self._node
        latched = node.guard.ladder.latched
        node.tell_new_readers()
        node.outbox.send(
            Status,
            node.plant.k,
            node.plant.t,
            lifecycle=lifecycle or node.guard.lifecycle.published,
            fault=latched[0].name if latched else "",
            safe_state=node.guard.safe_state.name.lower(),
            counts=node.all_counts(),
            values=self._fresh_values() | self._armed(),
            goal_k=node.goal.k,
        )
        self._due = node.outbox.clock() + STATUS_PERIOD_NS
        self._k = node.plant.k

    def if_due(self) -> None:
        """Publish a status a few times a second, and at least every STATUS_INSTANTS control instants."""
        self._show_life()
        passed = (self._node.plant.k - self._k) // self._steps_per_period
        if self._node.outbox.clock() >= self._due or passed >= STATUS_INSTANTS:
            self.publish()

    def describe(self) -> dict[str, Any]:
        """The state of the plant, in words and numbers: the answer to the operator."""
        guard, plant = self._node.guard, self._node.plant
        latched = guard.ladder.latched
        return {
            "node": PLANT,
            "lifecycle": guard.lifecycle.published,
            "fault": latched[0].name if latched else "",
            "text": latched[0].text if latched else self._node.machine_obstacle or "",
            "faults": [fault.as_dict() for fault in latched],
            "safe_state": guard.safe_state.name.lower(),
            **self._preview(),
            "unsafe": list(self._node.closed_loop.safety.unsafe),
            "t": plant.t,
            "paused": self._node.pause.paused,
            "pauses_at": self._node.pause.until,
            "reset_ago": None
            if (reset_ns := self._node.reset_ns) is None
            else (self._node.outbox.clock() - reset_ns) / 1e9,
            "counts": self._node.all_counts(),
            "values": self._measured() | self._armed(),
        }

    def summary(self) -> dict[str, Any]:
        """The measurements of the whole run."""
        plant = self._node.plant
        return {
            **({"link_latency_s": self._node.states.latency} if self._node.states.latency else {}),
            "round_trip_s": self._node.guard.answers.round_trip.percentiles(),
            "times": {f"{name}_s": each.percentiles() for name, each in self._times().items() if each.count},
            **({"readonly": True} if self._node.guard.preview is not None else {}),
            **({"extra": dict(plant.extra)} if plant.extra else {}),
        }

    def _times(self) -> dict[str, Durations]:
        guard = self._node.guard
        return {
            "round_trip": guard.answers.round_trip,
            "command_age": guard.output.age,
            "period": self._node.states.period,
            "execution": self.execution,
        }

    def _measured(self) -> dict[str, float]:
        """The measured times, by flat names, and other values that the machine measures."""
        flat = {name: value for key, each in self._times().items() for name, value in each.flat(key).items()}
        extra = {f"{EXTRA}{name}": value for name, value in self._node.plant.extra.items()}
        if latency := self._node.states.latency:
            extra["link_latency"] = latency
        return {"round_trip": self._node.guard.answers.round_trip.recent(), **flat} | self._node.pace.values() | extra

    def _fresh_values(self) -> dict[str, float]:
        """The values of a status, computed only a few times a second: in lockstep statuses are far more frequent."""
        now = self._node.outbox.clock()
        if now >= self._values_due:
            self._values_due = now + STATUS_PERIOD_NS
            self._values = self._measured()
        return self._values

    def _armed(self) -> dict[str, float]:
        """Flags for the operator, as numbers: whether it is armed, and stopped by an emergency stop."""
        guard = self._node.guard
        stopped = any(fault.name == ESTOP for fault in guard.ladder.latched)
        found = {"armed": float(guard.lifecycle.accepts_commands), ESTOP: float(stopped), **self._node.pause.values()}
        found |= {"insecure": 1.0} if self._node.closed_loop.insecure else {}
        if guard.preview is None:
            return found
        would = {f"{WOULD_SEND}{name}": value for name, value in guard.preview.inputs().items()}
        return found | {"readonly": 1.0} | would

    def _preview(self) -> dict[str, Any]:
        """For a run that only observes: the inputs that arming would send now, and the limits that change them."""
        preview = self._node.guard.preview
        if preview is None:
            return {}
        return {"readonly": True, "would_send": preview.inputs(), "would_send_reasons": preview.reasons}
