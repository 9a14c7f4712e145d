"""The inputs that act on the plant: those of a command from its step on, the safe action, or zero."""

from collections import deque
from typing import cast

import numpy as np

from servonode.arrays import Array
from servonode.bus.durations import Durations
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.answers import AskedState
from servonode.nodes.input_limiter import InputLimiter
from servonode.nodes.node import Clock
from servonode.plants.plant import FollowingPlant, Plant, SpeedPlant


class SafeAction:
    """The inputs of a machine's safe action, within the limits of value. stated: whether it defines one; else zero."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        self.stated = closed_loop.machine.description.has_safe_action
        self._machine, self.limits = closed_loop.machine, closed_loop.safety.limits.value

    def inputs(self, t: float, x: Array) -> list[float]:
        """The inputs at this state; zero where they are not finite."""
        asked = self._machine.safe_input(t, x)
        if not np.isfinite(asked).all():
            asked = np.zeros(len(asked))
        return [min(max(u, -limit), limit) for u, limit in zip(asked.tolist(), self.limits, strict=True)]


class PlantOutput:
    """Writes inputs to the plant, as the only object that does.

    applied: the inputs that act from now on; by_name: the same by name. braking: whether the safe action acts, which is
    computed again for each step. state_unknown: whether no safe action can be computed, because the machine has not
    answered a handshake. Its attributes are many: what acts, what is scheduled, and what was measured of both.
    """

    def __init__(self, closed_loop: ClosedLoop, plant: Plant, limiter: InputLimiter, clock: Clock) -> None:
        launch = closed_loop.launch
        self.safe_action = SafeAction(closed_loop)
        self.applied = np.zeros(len(limiter.names))
        self.by_name = dict.fromkeys(limiter.names, 0.0)
        self.braking = False
        self.state_unknown = not plant.simulated
        self._readonly = closed_loop.readonly  # nothing is written, so that the safe action does not act either
        self.age = Durations()  # of the reading behind a command, when its inputs act
        self.delay = launch.controller.delay if launch.controller else 0  # control periods
        self._steps = launch.steps_per_period or 1
        # step from which inputs act, the inputs, time of their reading, goal for a law in the machine's firmware
        self._later: deque[tuple[int, list[float], int, list[float] | None]] = deque()
        self._goal: list[float] | None = None  # the goal that acts
        self._plant, self._limiter, self._clock = plant, limiter, clock
        self.speeds = closed_loop.speed_commands()  # for drives that take speeds; None: they take efforts
        self._brake_steps = closed_loop.safety.brake_steps

    @property
    def can_brake(self) -> bool:
        """Whether the machine has a safe action, and a known state for it."""
        return self.safe_action.stated and not self.state_unknown

    @property
    def due(self) -> int | None:
        """The step from which the next scheduled inputs act; None: none is scheduled."""
        return self._later[0][0] if self._later else None

    def schedule(
        self, values: list[float], state: AskedState, k: int, present: int, goal: list[float] | None = None
    ) -> bool:
        """Schedule the answer to a state for `delay` periods later, not before step `present`; whether it is late.

        It is late if its control period is over at plant step k. goal: see `FollowingPlant`.
        """
        due = (state.instant + self.delay) * self._steps
        self._later.append((max(due, present), values, state.measured, goal))
        return due + self._steps <= k

    def cancel(self) -> None:
        """Cancel the scheduled inputs."""
        self._later.clear()

    def postpone(self, passed_ns: int) -> None:
        """Leave a pause of so long [ns] out of the age of the scheduled inputs."""
        self._later = deque((due, values, measured + passed_ns, goal) for due, values, measured, goal in self._later)

    def act(self, k: int) -> None:
        """Write the inputs that are due at step k."""
        while self._later and self._later[0][0] <= k:
            _, values, measured, goal = self._later.popleft()
            if self.delay:  # the machine has moved since the command came
                values = self._limiter.limit_power(values)
            self.braking = False
            self._write(values, goal)
            self.age.add((self._clock() - measured) / 1e9)

    def repeat(self) -> None:
        """Write the inputs once more: they show an external machine's watchdog that this process lives."""
        if not self._plant.simulated:
            self._send()

    def make_safe(self, zero: bool) -> None:
        """Apply the safe action, or zero input if `zero` or it cannot be computed; cancel the scheduled inputs."""
        self._later.clear()
        if zero or self._readonly or not self.can_brake or not self._plant.finite:
            self.zero()
        else:
            self.brake()

    def brake(self) -> None:
        """Write the safe action's inputs at the present state."""
        values = self.safe_action.inputs(self._plant.t, self._plant.x)
        self.braking, self._limiter.newest = True, values
        self._hold(values, None)
        if self.speeds is not None:
            self.speeds.brake(self._plant.k, self._plant.x, self.applied, self._brake_steps)
            self._send()
        else:
            getattr(self._plant, "brake", self._plant.write)(self.applied)  # some machines brake by themselves

    def release(self) -> None:
        """Write zero inputs, which release the safe action."""
        self.braking, self._limiter.newest = False, [0.0] * len(self.applied)
        self._write(self._limiter.newest)

    def zero(self) -> None:
        """Apply zero input at once, with every driver; a machine that brakes by itself may do that instead.

        For drives that take speeds it is zero speed.
        """
        self.braking, self._limiter.newest = False, [0.0] * len(self.applied)
        self._hold(self._limiter.newest, None)
        if self.speeds is not None:
            self.speeds.stop()
        self._plant.safe()

    def _write(self, values: list[float], goal: list[float] | None = None) -> None:
        self._hold(values, goal)
        if self.speeds is not None:
            plant = self._plant
            late = plant.age + (plant.remote.latency if plant.remote else 0.0)
            if not self.speeds.follow(plant.k, plant.x, self.applied, late):
                self._limiter.count("speed")
        self._send()

    def _send(self) -> None:
        if self.speeds is not None:
            cast(SpeedPlant, self._plant).drive(self.applied, self.speeds.newest)
        elif self._goal is None:
            self._plant.write(self.applied)
        else:
            cast(FollowingPlant, self._plant).follow(self.applied, self._goal)

    def _hold(self, values: list[float], goal: list[float] | None) -> None:
        self.applied, self._goal = np.array(values), goal
        self.by_name = dict(zip(self.by_name, values, strict=True))
