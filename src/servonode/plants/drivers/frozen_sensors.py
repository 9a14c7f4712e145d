"""The detection of frozen sensors: identical readings although the inputs should have changed them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array


@dataclass(frozen=True)
class Foresight:
    """The prediction of readings by the machine's equations.

    advance(k, n, x, u): integrates a kernel state x over n steps from step k, in place; returns whether it is finite.
    measure(k, x, u): the readings of all sensors there (n_z,). numbers: for each sensor in use its place among these.
    tells: for each the change of its reading that it is sure to show. steps: for how many steps a reading may stay the
    same.
    """

    advance: Callable[[int, int, Array, Array], bool]
    measure: Callable[[int, Array, Array], Array]
    numbers: Mapping[str, int]
    tells: Mapping[str, float]
    steps: int
    step: float  # s


class FrozenSensors:
    """Judges window by window: from the estimate at its begin, the equations are integrated with and without inputs.

    A filter would follow readings that stand still, and estimate that the machine stands still whatever the inputs. The
    difference between the two motions hardly depends on how well the initial velocities are known.
    """

    def __init__(self, foresight: Foresight) -> None:
        self._foresight = foresight
        self._last: dict[str, float] = {}  # newest reading of each sensor in use
        self._same: dict[str, int] = {}  # consecutive equal readings in this window; absent: one differed
        self._begin = -1  # first step of the window; -1: none
        self._driven = self._coasting = self._no_input = np.zeros(0)
        self._k = 0  # step that the equations have reached

    def forget(self) -> None:
        """Forget all readings: a handshake begins."""
        self._begin = -1
        self._last = {}

    def complaint(self, k: int, x: Array, u: Array, readings: Mapping[str, Sequence[float]]) -> tuple[str, str] | None:
        """Name and text of the fault, or None; the estimate is x (n_x,) at step k, up to which the inputs u acted."""
        seen = self._foresight
        if self._begin < 0 or k < self._k or not self._continue(k, u):
            self._open(k, x)
        self._k = k
        for name in seen.numbers:
            for value in readings.get(name, ())[1::2]:
                if self._last.get(name) != value:
                    self._same.pop(name, None)
                elif name in self._same:
                    self._same[name] += 1
                self._last[name] = value
        if k - self._begin < seen.steps:
            return None
        moved = np.abs(seen.measure(k, self._driven, u) - seen.measure(k, self._coasting, self._no_input))
        frozen = [
            name for name, same in self._same.items() if same > 1 and moved[seen.numbers[name]] > seen.tells[name]
        ]
        seconds = (k - self._begin) * seen.step
        self._open(k, x)
        if not frozen:
            return None
        text = f"the readings of {', '.join(frozen)} are the same, bit by bit, for {seconds:.3g} s, although the "
        text += "inputs should have changed them; check the sensors and what they measure, or raise "
        return "frozen_state", f"{text}plant.safety.frozen_time"

    def _continue(self, k: int, u: Array) -> bool:
        """Integrate both motions up to step k; returns whether they are finite."""
        n, advance = k - self._k, self._foresight.advance
        self._no_input = np.zeros_like(u)
        return n == 0 or (advance(self._k, n, self._driven, u) and advance(self._k, n, self._coasting, self._no_input))

    def _open(self, k: int, x: Array) -> None:
        """Begin a window at this estimate."""
        self._begin = self._k = k
        self._driven, self._coasting = x.copy(), x.copy()
        self._same = dict.fromkeys(self._foresight.numbers, 0)
