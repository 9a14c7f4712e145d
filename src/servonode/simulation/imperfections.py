"""What drives, sensors and limits make of a compiled loop's run: its numbers, its state, and the readings' errors."""

from typing import Any

import numpy as np

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.kernels.library import numbers_of
from servonode.simulation.reading_errors import ReadingErrors

READING, ORIGIN, ANSWERED, DROPPED, REPEATED, UNNAMED = (  # entries of the state
    numbers_of("imperfect")[name] for name in ["READING", "ORIGIN", "ANSWERED", "DROPPED", "REPEATED", "UNNAMED"]
)


def is_perfect(closed_loop: ClosedLoop) -> bool:
    """Whether drives and sensors are perfect and only the inputs' values limited."""
    limits = closed_loop.safety.limits
    free = min((*limits.rate, limits.power)) == np.inf and closed_loop.safety.plausible(own=False) is None
    return free and closed_loop.actuator.ideal and closed_loop.sensor.ideal


class Imperfections:
    """The arguments of one run's loop with effects, by their names in `kernels/lib/run.py`.

    measured: the newest state as the law sees it. It has many arrays, for each effect has its numbers and its memory.
    """

    def __init__(self, closed_loop: ClosedLoop) -> None:
        launch, machine, safety = closed_loop.launch, closed_loop.machine, closed_loop.safety
        drives, sensor, step, n_tau = closed_loop.actuator, closed_loop.sensor, launch.step_ns / 1e9, machine.n_inputs
        assert launch.controller is not None
        depth, repeats = launch.controller.delay + 1, launch.plant.safety.repeats
        late, plausible = drives.late_by(step), safety.plausible(own=False)
        n_late = round(sensor.delay / step) + 1
        self._names = machine.description.input_names
        self._state = np.zeros(len(numbers_of("imperfect")), dtype=np.int64)
        self._counts = np.zeros(2 * n_tau + 2, dtype=np.int64)
        self._errors = ReadingErrors(closed_loop, every=plausible is not None)
        self._state[[READING, ORIGIN, ANSWERED]] = len(self._errors.noise), -1, -1
        self._steps = launch.steps
        self.measured = closed_loop.start.copy()
        believed = safety.stated_readings
        noise, lost = self._errors.noise, self._errors.lost
        self.arguments: dict[str, Any] = {
            "drive": drives.numbers(step), "depths": np.array(late, dtype=np.int64),
            "pipe": np.zeros((max(1, *late), n_tau)), "dynamic": int(drives.dynamic), "errors": self._errors.fixed,
            "n_late": n_late, "late": np.tile(closed_loop.start, (n_late, 1)), "n_readings": len(noise), "noise": noise,
            "lost": lost, "measured": self.measured, "believed": np.array([believed.value, believed.rate]),
            "least": safety.least, "since": np.full(1, -1.0),
            "publish_every": launch.plant.publish_every if plausible else 0, "power": safety.limits.power,
            "sent": np.zeros((depth, n_tau)), "due": np.full(depth, -1), "repeats": -1 if repeats is None else repeats,
            "counts": self._counts, "state": self._state,
        }  # fmt: skip

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
