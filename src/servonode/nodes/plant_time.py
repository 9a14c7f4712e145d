"""The time of a plant: the grid of its steps, the step of the goal, the pace at which a run goes through them.

And how an operator stops and paces the time of a simulated plant. It stands still only at an instant, before its state
is published: nothing is asked of the controller meanwhile, and the plant's times, states and inputs are those of a run
without a pause.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servonode.bus.durations import Clock
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.launch_error import KeyRefused
from servonode.closed_loop.safety_settings import command_timeout
from servonode.nodes.guard import Guard
from servonode.plants.plant import Plant

VERBS = ("pause", "resume", "step", "speed")
PAUSED, SPEED = "paused", "speed"  # in the values of a plant's status
PAUSED_NS = 100_000_000  # the longest sleep of a paused plant
LOOK_NS = 2_000_000  # that of one that is paused with other robots
MOST_PERIODS = 1_000_000_000  # of one request
MOST_SPEED = 1e6
LONGEST_PERIOD_S = 1.0  # wall clock, of a period at the slowest speed: a status and a pause wait for its end
MOST_SPEEDS = 100  # that the record names


@dataclass(frozen=True, slots=True)
class StepGrid:
    """The plant steps of a run. steps_per_period: None without a controller."""

    steps: int
    steps_per_period: int | None
    publish_every: int

    def is_control(self, k: int) -> bool:
        """Whether step k is a control instant."""
        return self.steps_per_period is not None and k % self.steps_per_period == 0

    def instant(self, k: int) -> int:
        """The number of the control instant at or before step k."""
        return k // (self.steps_per_period or 1)

    def next_event(self, k: int) -> int:
        """The next step after k at which a state is published: for telemetry, for control, or the last one."""
        following = k - k % self.publish_every + self.publish_every
        if self.steps_per_period:
            following = min(following, k - k % self.steps_per_period + self.steps_per_period)
        return min(following, self.steps)


class GoalTime:
    """The present step of the goal, which stands still while no command acts; without a controller the plant's step."""

    def __init__(self, plant: Plant, guard: Guard) -> None:
        self._plant, self._guard = plant, guard
        self._step = self._since = 0  # step of the goal at the newest control instant, and step of the plant there

    @property
    def k(self) -> int:
        """The step of the goal, which advances from the newest control instant if commands act."""
        passed = self._plant.k - self._since
        if passed and (not self._guard.controlled or self._guard.follows):
            return self._step + passed
        return self._step

    def begin_period(self) -> None:
        """Begin a control period: the present step is a control instant."""
        self._step, self._since = self.k, self._plant.k


class Pace:
    """The pace of plant time, for a plant node. This class is that of lockstep, where time waits for answers."""

    def present_step(self) -> int:
        """The step that the clock has reached, from which a command that arrives now acts."""
        return 0

    def catch_up(self) -> None:
        """Advance the plant to the step that the clock has reached."""

    def obstacle(self) -> str | None:
        """A sentence why the plant must not be armed now, or None."""
        return None

    def values(self) -> dict[str, float]:
        """The values for a status, by name."""
        return {}


class Pause:
    """What an operator wants of plant time: from which step on it stands still, and how fast it passes.

    stands: whether plant time stands still now. stood: the step at which it last stood still. speed: plant
    seconds per second of wall-clock time; None: in lockstep, as fast as the nodes answer. timeout: the command timeout
    at this speed [s, wall clock]. paused_ns: for how long it has stood still [ns, wall clock]. It has more attributes
    than a dozen, because it keeps what the record says of the pauses.
    """

    def __init__(self, closed_loop: ClosedLoop, plant: Plant, guard: Guard, grid: StepGrid, clock: Clock) -> None:
        launch = closed_loop.launch
        self._at: int | None = None
        self._member, self._clock = closed_loop.member if plant.simulated else None, clock
        self.stands, self.stood = False, 0
        self.lockstep = launch.run.mode == "lockstep"
        self.speed: float | None = None if self.lockstep else launch.run.speed
        self.timeout = closed_loop.safety.command_timeout
        self.paused_ns = self.pauses = 0
        self.speeds: list[float | None] = []  # that were asked for
        self._launch, self._plant, self._guard, self._grid = launch, plant, guard, grid
        self._since: tuple[int, int] | None = None  # time [ns] and step from which lockstep is paced

    @property
    def at(self) -> int | None:
        """The plant step from which plant time stands still, that of all robots of a launch; None: it passes."""
        if self._member is None:
            return self._at
        instant = self._member.paused_from
        return None if instant is None else min(instant * self._period, self._grid.steps)

    @at.setter
    def at(self, k: int | None) -> None:
        if self._member is None:
            self._at = k
        elif k != self.at:
            self._member.pause_from(None if k is None else -(-k // self._period), self._clock())

    def carry_out(self, verb: str, arguments: Mapping[str, Any]) -> str | None:
        """Carry out pause, resume, step or speed; returns a sentence why not, or None."""
        if not self._plant.simulated:
            driver = self._launch.plant.driver
            return f"the time of a machine behind driver {driver!r} cannot be changed; {verb} is for simulated plants"
        if self._member is not None and not self._member.memory.simulated:
            return f"the robots of a launch share one clock, and not all are simulated; {verb} is for simulated plants"
        if verb == "speed" and self._member is not None and not self.lockstep:
            return "the robots of a launch share one clock, whose speed in real time is fixed: state run.speed"
        if verb == "speed":
            return self._set_speed(arguments.get("speed"))
        if verb == "resume" and self.at is not None:
            self.at = None
            return None
        if self._guard.failed:
            return self._guard.ladder.obstacle()
        if verb in ("resume", "step") and self.at is None:
            return "the run is not paused; pause it first (servonode pause)"
        if self.lockstep and not self._guard.time_passes:
            return "the plant is not armed, so that its time stands still; arm it first (servonode arm)"
        if verb == "step":
            return self._step(arguments.get("periods"))
        if self.at is not None:
            return "the run is paused already; let it go on (servonode resume)"
        self.at = self._next(self._plant.k + (self._period if self._member else 0))  # another may be one ahead
        return None

    def _step(self, periods: Any) -> str | None:
        if isinstance(periods, bool) or not isinstance(periods, int) or not 1 <= periods <= MOST_PERIODS:
            return f"{str(periods)[:40]} is not a number of control periods; give one from 1 to {MOST_PERIODS}"
        assert self.at is not None
        self.at = min(max(self.at, self._plant.k) + periods * self._period, self._grid.steps)
        return None

    def _next(self, k: int) -> int:
        """The next instant after step k."""
        return min(k - k % self._period + self._period, self._grid.steps)

    @property
    def _period(self) -> int:
        """Steps from instant to instant: a control period, or without a controller from state to state."""
        return self._grid.steps_per_period or self._grid.publish_every

    @property
    def until(self) -> float | None:
        """The plant time at which the run is paused [s]; None: it is not."""
        return None if self.at is None else self.at * self._plant.step_ns / 1e9

    @property
    def paused(self) -> bool:
        """Whether plant time stands still until an operator lets it pass."""
        return self.stands and self.at is not None and self._plant.k >= self.at

    def reached(self, now: int) -> bool:
        """Whether plant time is to stand still now [monotonic ns]; robots in real time go on together."""
        at = self.at
        if at is not None and self._plant.k >= at:
            return True
        return self.stands and self._member is not None and not self.lockstep and now < self._member.resume_ns

    def look_ns(self, now: int) -> int:
        """The time until which a paused plant may sleep [monotonic ns]."""
        if self._member is None:
            return now + PAUSED_NS
        resume_ns = self._member.resume_ns
        return min(now + LOOK_NS, resume_ns) if resume_ns > now else now + LOOK_NS

    def end(self, passed_ns: int) -> None:
        """End a pause after so long a time [ns]."""
        self.stands, self._since = False, None
        self.pauses += 1
        self.paused_ns += passed_ns

    # speed

    def _set_speed(self, speed: Any) -> str | None:
        """Take another speed, with the command timeout that belongs to it; "max" in lockstep: none."""
        if self.lockstep and speed == "max":
            self.speed = self._since = None
        elif isinstance(speed, bool) or not isinstance(speed, int | float) or not self._slowest <= speed <= MOST_SPEED:
            choice = f"{self._slowest:g} to {MOST_SPEED:g}{', or max' if self.lockstep else ''}"
            return f"{str(speed)[:40]} is not a speed that this run can have; give {choice}"
        else:
            try:
                self.timeout = command_timeout(self._launch.plant.safety, speed, self._launch.period_ns)
            except KeyRefused as refused:
                return f"speed {speed:g} is refused: {refused}"
            self.speed, self._since = float(speed), None
        self.speeds = [*self.speeds, self.speed][-MOST_SPEEDS:]
        return None

    @property
    def _slowest(self) -> float:
        """The least speed: at a lower one a period would take longer than LONGEST_PERIOD_S."""
        least = self._period * self._plant.step_ns / 1e9 / LONGEST_PERIOD_S
        return least if self.lockstep else min(least, self._launch.run.speed)

    def due(self, now: int) -> int:
        """In lockstep the time at which the present step is due at this speed [monotonic ns]; `now` if it is late."""
        if not self.lockstep or self.speed is None:
            return now
        since, k = self._since or (now, self._plant.k)
        due = since + round((self._plant.k - k) * self._plant.step_ns / self.speed)
        if due <= now:
            self._since = now, self._plant.k
        return max(due, now)

    # what others are told

    def values(self) -> dict[str, float]:
        """The values for a status, by name."""
        return {PAUSED: float(self.paused)} | ({SPEED: self.speed} if self.speed is not None else {})

    def summary(self) -> dict[str, Any]:
        """What the record says of pauses and speeds; empty without any."""
        found: dict[str, Any] = {}
        if self.pauses:
            found |= {"pauses": self.pauses, "paused_s": self.paused_ns / 1e9}
        return found | ({"speed_changes": self.speeds} if self.speeds else {})
