"""The delay predictor: the believed model, integrated from a sample over the inputs already sent."""

from collections import deque

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.closed_loop import ClosedLoop

Array = npt.NDArray[np.float64]


class Predictor:
    """Foresees the state at which an input computed now will act, `delay` control periods later.

    With an exact model the law then sees no delay, and the limits of the held law without delay apply.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        launch, control = closed_loop.launch, closed_loop.control
        assert launch.controller is not None
        assert launch.steps_per_period is not None
        assert control is not None
        machine = control.law.machine
        self.delay = launch.controller.delay
        self.steps_per_period, self.step_ns = launch.steps_per_period, launch.step_ns
        self._advance, self._c = machine.advancer(launch.plant.integrator), machine.c
        self._limits = np.array(closed_loop.safety.limits.value)
        self._acting = deque(np.zeros(machine.n_inputs) for _ in range(self.delay))  # in the periods to come
        self._last = -1  # control instant of the newest input
        self._x = np.zeros(machine.n_state + 1)

    def predict(self, k: int, x: Array) -> Array:
        """The state (n_x,) at step k + delay periods, from the state at step k. One array, reused."""
        for _ in range(k // self.steps_per_period - self._last - 1):  # instants without an answer: inputs were held
            self._acting.append(self._acting[-1])
            self._acting.popleft()
        self._x[: len(x)] = x
        for i, u in enumerate(self._acting):
            self._advance(k + i * self.steps_per_period, self.steps_per_period, self.step_ns, self._x, u, self._c)
        return self._x

    def sent(self, k: int, inputs: Array) -> None:
        """Remember the inputs that answer step k, as the plant will limit them."""
        self._last = k // self.steps_per_period
        self._acting.append(np.minimum(np.maximum(inputs, -self._limits), self._limits))
        self._acting.popleft()
