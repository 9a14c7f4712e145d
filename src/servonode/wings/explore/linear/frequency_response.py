"""The sampled loop cut at the inputs or at the sensors: loop transfer, sensitivity and complementary sensitivity.

With the loop cut, w = G(z) v (see `sampled_step.Open`), and v = w closes it: L = -G is the loop transfer of negative
feedback, S = (1 + L)^-1 the sensitivity, T = L S the complementary one. L(z) at z = e^(j omega T) is exact for what
passes the cut at control instants; between them nothing is known of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from servonode.analysis.linear_system import Complex
from servonode.analysis.linearisation import sampled_step
from servonode.analysis.sampled_step import Open, SampledStep, kept, lively
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import StatementError
from servonode.simulation.continuous_loop import ContinuousLoop, passive_coordinates
from servonode.tables import Result, Row, several

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cut = Literal["inputs", "sensors"]
POINTS, SLOWEST = 400, 1e-4  # of a grid of frequencies; its lowest as a share of the highest, pi / period
NARROWEST = 1e-4  # width of a pole, times the period, at least
AROUND = 25  # more points around each pole of the open and of the closed loop


@dataclass(frozen=True, eq=False)
class CutLoop:
    """A sampled loop cut at signals with these names [units], without states that the cut does not move or show.

    `hidden`: the largest eigenvalue of the whole loop, those states included.
    """

    cut: Cut
    names: tuple[str, ...]
    units: tuple[str, ...]
    period: float
    open: Open
    hidden: float
    later: Callable[[int], Array]  # the map of that loop, closed, whose inputs act so many plant steps later
    step: float  # s, of the plant

    def frequencies(self) -> Array:
        """A grid up to pi / period [rad/s], finer where a pole of the open or of the closed loop is near the circle."""
        highest = np.pi / self.period
        found = [np.geomspace(SLOWEST * highest, highest, POINTS)]
        for pole in np.concatenate([np.linalg.eigvals(each) for each in (self.open.A, self.open.closed)]):
            if abs(pole) < 1e-6:
                continue
            at, width = abs(np.angle(pole)), max(abs(np.log(abs(pole))), NARROWEST)
            near = (at + width * np.linspace(-3, 3, AROUND)) / self.period
            found.append(near[(near > SLOWEST * highest) & (near < highest)])
        return np.unique(np.concatenate(found))


@dataclass(frozen=True, repr=False, eq=False)
class FrequencyResponse(Result):
    """L, S and T (n_omega, n, n) of the sampled loop at the frequencies `omega` [rad/s], cut at the signals `names`.

    `cut`: "inputs" or "sensors"; `units` of the signals; `period` [s].
    """

    cut: Cut
    names: tuple[str, ...]
    units: tuple[str, ...]
    period: float
    omega: Array
    L: Complex
    S: Complex
    T: Complex

    def table(self) -> tuple[str, list[Row]]:
        """Where it is cut, and the peaks of S and T (largest singular values)."""
        rows = [("cut at", several(self.names, 10)), ("period", f"{self.period:g} s")]
        for word, values in (("sensitivity", self.S), ("complementary sensitivity", self.T)):
            sizes = np.linalg.norm(values, 2, axis=(1, 2))
            at = int(np.argmax(sizes))
            rows += [(word, f"at most {sizes[at]:.4g}, at {self.omega[at]:.4g} rad/s")]
        return f"Frequency response of the sampled loop at its {self.cut}", rows

    def plot(self) -> "Figure":
        """Magnitude and phase at each signal while the others stay closed, and the singular values of S and T.

        A matplotlib Figure.

        >>> import servonode
        >>> len(servonode.load("trailer_rates").frequency_response().plot().axes)
        3
        """
        figure: Figure = self.by_view("wings.explore.linear.figures.response_figure")
        return figure


def cut_loop(closed_loop: ClosedLoop, t: float, x: Array, own: Array, cut: Cut) -> CutLoop:
    """The sampled loop at the control instant next to t [s], about a state, cut at its inputs or its sensors."""
    step = sampled_step(closed_loop, t)
    z = step.state_at(x, own)
    passive = passive_coordinates(ContinuousLoop(closed_loop))
    described, found = step.machine.description, step.open_at_inputs(z)
    keep = kept(lively(step.names, passive), found.A, found.C)
    if cut == "inputs":
        quantities, through = described.inputs, np.ones(len(described.inputs), dtype=bool)
    else:
        quantities, found = described.state, step.open_at_sensors(z)
        through = keep[: len(quantities)]
    signals = [each for each, there in zip(quantities, through, strict=True) if there]
    if not signals:
        raise StatementError(f"the loop has no {cut} at which it could be cut")
    cut_open = Open(
        found.A[np.ix_(keep, keep)], found.B[np.ix_(keep, through)],
        found.C[np.ix_(through, keep)], found.D[np.ix_(through, through)],
    )  # fmt: skip
    names, units = tuple(each.name for each in signals), tuple(each.unit for each in signals)

    @cache
    def late_in_period(steps: int) -> Open:
        late = SampledStep(closed_loop, step.machine, step.k, steps)
        whole = late.open_at_inputs(late.state_at(x, own))
        there = kept(lively(late.names, passive), whole.A, whole.C)
        return Open(whole.A[np.ix_(there, there)], whole.B[there], whole.C[:, there], whole.D).minimal()

    def later(steps: int) -> Array:
        periods, rest = divmod(steps, step.per)
        return late_in_period(rest).delayed(periods).closed

    hidden = float(np.abs(np.linalg.eigvals(cut_open.closed)).max(initial=0.0))
    return CutLoop(cut, names, units, step.period, cut_open.minimal(), hidden, later, step.step_ns / 1e9)


def frequency_response(loop: CutLoop, omega: Array | None = None) -> FrequencyResponse:
    """L, S and T at the frequencies omega [rad/s]; None: a grid up to pi / period, finer around poles."""
    at = loop.frequencies() if omega is None else np.atleast_1d(np.asarray(omega, dtype=float))
    if not (np.isfinite(at).all() and (at > 0).all()):
        raise StatementError("omega has an entry that is not a frequency; give numbers above 0, in rad/s")
    z = np.exp(1j * at * loop.period)
    L, S = (np.array([of(each) for each in z]) for of in (loop.open.transfer, loop.open.sensitivity))
    return FrequencyResponse(loop.cut, loop.names, loop.units, loop.period, at, -L, S, np.eye(len(loop.names)) - S)
