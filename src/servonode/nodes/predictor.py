"""The delay predictor: the controller's model, integrated from a sample over the inputs already sent."""

from collections import deque

import numpy as np

from servonode.arrays import Array
from servonode.bus import State
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.hosts import is_networked
from servonode.mechanics.machine import Machine

LONGEST = 64  # largest latency of link and network, with the age of a state, that is compensated [control periods]


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
        launch, control = closed_loop.launch, closed_loop.control
        assert launch.controller is not None
        assert launch.steps_per_period is not None
        assert control is not None
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
