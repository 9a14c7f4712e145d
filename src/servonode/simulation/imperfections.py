"""What drives, sensors and limits make of a compiled loop's run: its numbers, its state, and the readings' errors."""

from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.effect_kernels import LIMITS
from servonode.simulation.loop_source import STATE
from servonode.simulation.reading_errors import ReadingErrors

READING, ORIGIN, ANSWERED, DROPPED, REPEATED, UNNAMED = map(STATE.index, STATE)


def is_perfect(closed_loop: ClosedLoop) -> bool:
    """Whether drives and sensors are perfect and only the inputs' values limited."""
    limits = closed_loop.safety.limits
    free = min((*limits.rate, limits.power)) == np.inf and closed_loop.safety.plausible(own=False) is None
    return free and closed_loop.actuator.ideal and closed_loop.sensor.ideal


class Imperfections:
    """The arguments of one run's loop with effects.

    arguments: see `loop_source.Imperfect`. measured: the newest state as the law sees it. It has many arrays, for each
    effect has its numbers and its memory.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        launch, machine, safety = closed_loop.launch, closed_loop.machine, closed_loop.safety
        drives, sensor, step, n_tau = closed_loop.actuator, closed_loop.sensor, launch.step_ns / 1e9, machine.n_inputs
        assert launch.controller is not None
        depth, repeats = launch.controller.delay + 1, launch.plant.safety.repeats
        late, plausible = drives.late_by(step), safety.plausible(own=False)
        n_late = round(sensor.delay / step) + 1
        self._names = machine.description.input_names
        self._state = np.zeros(len(STATE), dtype=np.int64)
        self._counts = np.zeros(len(LIMITS) * n_tau + 2, dtype=np.int64)
        self._errors = ReadingErrors(closed_loop, every=plausible is not None)
        self._state[[READING, ORIGIN, ANSWERED]] = len(self._errors.noise), -1, -1
        self._steps = launch.steps
        self.measured = closed_loop.start.copy()
        believed = safety.stated_readings
        self.arguments: tuple[Any, ...] = (
            drives.numbers(step), np.array(late, dtype=np.int64), np.zeros((max(1, *late), n_tau)), np.zeros(n_tau),
            np.zeros(n_tau), int(drives.dynamic), self._errors.fixed, np.tile(closed_loop.start, (n_late, 1)), n_late,
            self._errors.noise, self._errors.lost, len(self._errors.noise), self.measured,
            np.array([believed.value, believed.rate]), safety.least, np.zeros(machine.n_state), np.full(1, -1.0),
            launch.plant.publish_every if plausible else 0,
            np.array([safety.limits.value, safety.limits.rate]), safety.limits.power, np.zeros(n_tau), np.zeros(n_tau),
            np.zeros((depth, n_tau)), np.full(depth, -1), -1 if repeats is None else repeats, self._counts, self._state,
        )  # fmt: skip

    def draw(self) -> None:
        """Draw the errors of the next readings, where the loop has used up those it had."""
        if self._state[READING] == len(self._errors.noise):
            self._errors.draw()
            self._state[READING] = 0

    @property
    def goal_from(self) -> int:
        """The step at which the goal's time began: that of the first state which was not lost."""
        first = int(self._state[ORIGIN])
        return first if first >= 0 else self._steps

    @property
    def names_fault(self) -> bool:
        """Whether machine and law say why the loop has stopped."""
        return not self._state[UNNAMED]

    def counts(self) -> dict[str, int]:
        """What a plant node would have counted, by name."""
        by_input = [f"{word}:{name}" for word in ("limit", "rate") for name in self._names]
        found = dict(zip([*by_input, "power", "saturated"], self._counts.tolist(), strict=True))
        found |= {"dropped_states": int(self._state[DROPPED]), "repeats": int(self._state[REPEATED])}
        return {name: count for name, count in found.items() if count}
