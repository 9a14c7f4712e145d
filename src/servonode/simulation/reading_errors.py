"""The errors of a run's readings, drawn before they are read: the numbers that a `Sensor` draws, in its order."""

from math import lcm

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.closed_loop import ClosedLoop

LARGEST = 2048  # states that are drawn at once
Whole = npt.NDArray[np.int64]


class ReadingErrors:
    """Noise and losses of the readings that a loop uses, a window of them at a time.

    A plant node reads its state at each step that it publishes, and draws for each reading. every: whether the loop
    uses all of these; else those at control instants. fixed (2, states): biases and quanta. noise (window, states);
    lost (window,): 1 where the reading is lost.
    """

    def __init__(self, closed_loop: ClosedLoop, every: bool) -> None:
        launch, sensor = closed_loop.launch, closed_loop.sensor
        self._drop, self._scale, self._every = sensor.drop, np.array(sensor.noise), every
        self._rng = np.random.default_rng(launch.run.seed)
        self._steps, self._period = launch.steps, launch.steps_per_period or 1
        self._publish_every = launch.plant.publish_every
        self._drawn = 0  # readings of the plant node whose numbers have been drawn
        self._next = 0  # step of the loop's next reading
        most = int(self._before(np.array(self._steps))) + 1 if every else self._steps // self._period + 1
        per_reading = 1 if every else -(-self._period // self._publish_every) + 1
        window = min(most, max(LARGEST // per_reading, 1))
        self.noise = np.zeros((window, len(sensor.noise)))
        self.fixed = np.array([sensor.bias, sensor.quantum])
        if sensor.ideal:  # it adds nothing, and a zero keeps its sign
            self.noise[:] = self.fixed[0] = -0.0
        self.lost = np.zeros(window, dtype=np.int64)

    def draw(self) -> None:
        """Draw those of the next window, unless nothing is left to chance."""
        if not self._drop and not self._scale.any():
            return
        steps, n = self._window(), len(self._scale)
        places = self._before(steps) - self._drawn
        while places[0] > LARGEST:
            self._rng.standard_normal((LARGEST, n))
            places -= LARGEST
            self._drawn += LARGEST
        drawn, first = np.empty((places[-1] + 1, n)), 0
        for i in np.flatnonzero(steps % self._period == 0).tolist() if self._drop else []:
            end = places[i] + 1
            self._rng.standard_normal(out=drawn[first:end])
            self.lost[i] = self._rng.random() < self._drop
            first = end
        self._rng.standard_normal(out=drawn[first:])
        self.noise[: len(steps)] = self._scale * drawn[places]
        self._drawn += len(drawn)

    def _window(self) -> Whole:
        """The steps of the next readings that the loop uses."""
        size, begin = len(self.noise), self._next
        if not self._every:
            self._next += size * self._period
            return begin + np.arange(size) * self._period
        rates = (
            {self._publish_every} if self._period % self._publish_every == 0 else {self._publish_every, self._period}
        )
        grids = [(-(-begin // each) + np.arange(size)) * each for each in rates]
        steps = grids[0] if len(grids) == 1 else np.unique(np.concatenate(grids))
        if steps[-1] >= self._steps:
            steps = np.append(steps[steps < self._steps], self._steps)
        self._next = int(steps[:size][-1]) + 1
        return steps[:size]

    def _before(self, steps: Whole) -> Whole:
        """How many readings the plant node takes before these steps of the run."""
        period, often = self._period, self._publish_every
        return -(-steps // period) - (-steps // often) + (-steps // lcm(period, often))
