"""The states that a plant publishes; those at control instants expect an answer."""

from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from servonode.bus import State
from servonode.bus.durations import Durations
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.mechanics.description import packed
from servonode.nodes.answers import AskedState
from servonode.nodes.guard import Guard
from servonode.nodes.node import Outbox
from servonode.nodes.plant_time import GoalTime
from servonode.plants.plant import EstimateOf, Plant, Reading


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
        message = self._outbox.send(
            State, reading.k, reading.t, state=values, input=self._guard.output.by_name, control=control,
            final=reading.k == self._steps, goal_k=self._goal.k, age=reading.age,
            latency=self.latency, readings=reading.readings or UNSET, extra=self._speeds(),
            **_estimate_fields(reading.estimate),
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

    def _speeds(self) -> dict[str, float] | UnsetType:
        """The speeds that are sent to drives that take speeds."""
        speeds = self._guard.output.speeds
        return UNSET if speeds is None else dict(speeds.by_name())

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


def _estimate_fields(estimate: EstimateOf | None) -> dict[str, Any]:
    """The fields of a state that hold the quality of its estimate."""
    return {} if estimate is None else asdict(estimate) | {"rejected": estimate.rejected or UNSET}
