"""The detection of frozen sensors: identical readings although the inputs should have changed them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Foresight:
    """What the equations predict of readings.

    advance(k, n, x, u): takes a kernel state x n steps on from step k, in place; whether it is finite.
    measure(k, x, u): what the sensors read there (n_z,). numbers, tells: of each sensor in use its place among these,
    and by how much its reading must change to be sure of it. steps: for how many a reading may stay the same meanwhile.
    """

    advance: Callable[[int, int, Array, Array], bool]
    measure: Callable[[int, Array, Array], Array]
    numbers: Mapping[str, int]
    tells: Mapping[str, float]
    steps: int
    step: float  # s


class FrozenSensors:
    """Judges each window: from the estimate at its beginning, the equations are integrated with and without inputs.

    A filter would follow readings that stand still, and see a machine that stands still under whatever inputs. What the
    inputs change does not depend on how well the velocities were known at the begin.
    """

    def __init__(self, foresight: Foresight) -> None:
        self._foresight = foresight
        self._last: dict[str, float] = {}  # newest reading of each sensor in use
        self._same: dict[str, int] = {}  # how many in this window were the same as the one before; absent: one was not
        self._begin = -1  # step of the window; -1: none
        self._driven = self._coasting = self._no_input = np.zeros(0)
        self._k = 0  # up to which the equations have gone

    def forget(self) -> None:
        """A handshake begins."""
        self._begin = -1
        self._last = {}

    def complaint(self, k: int, x: Array, u: Array, readings: Mapping[str, Sequence[float]]) -> tuple[str, str] | None:
        """Name and text of the fault, or None; the estimate is x (n_x,) at step k, up to which the inputs u acted."""
        seen = self._foresight
        if self._begin < 0 or k < self._k or not self._go_on(k, u):
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

    def _go_on(self, k: int, u: Array) -> bool:
        """Take both motions on to step k; whether they are finite."""
        n, advance = k - self._k, self._foresight.advance
        self._no_input = np.zeros_like(u)
        return n == 0 or (advance(self._k, n, self._driven, u) and advance(self._k, n, self._coasting, self._no_input))

    def _open(self, k: int, x: Array) -> None:
        """A window begins at this estimate."""
        self._begin = self._k = k
        self._driven, self._coasting = x.copy(), x.copy()
        self._same = dict.fromkeys(self._foresight.numbers, 0)
