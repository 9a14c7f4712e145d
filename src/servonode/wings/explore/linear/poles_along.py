"""The poles of the closed loop along a run: those of the system at each instant, a time-varying one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from servonode.analysis.linear_system import Complex, pole_text
from servonode.arrays import Array
from servonode.record.run import Run
from servonode.simulation.continuous_loop import ContinuousLoop, passive_coordinates
from servonode.tables import Result, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False, eq=False)
class PolesAlong(Result):
    """Poles `rates` (n_t, n) [1/s] of the continuous closed loop at the times `t` [s] of a run, without passive states.

    Each column follows one pole as it moves. They are those of a time-varying system, held at each instant: they say
    where it pulls apart or together, and do not decide about its stability.
    """

    t: Array
    rates: Complex

    def table(self) -> tuple[str, list[Row]]:
        """The fastest growing pole, when, and how many there are."""
        if not self.rates.size:
            return "Poles along a run", [("poles", "none")]
        i, j = np.unravel_index(int(np.argmax(self.rates.real)), self.rates.shape)
        text = f"{pole_text(complex(self.rates[i, j].real))} 1/s at t = {self.t[i]:.4g} s"
        return "Poles along a run", [("poles", str(self.rates.shape[1])), ("largest real part", text)]

    def plot(self) -> "Figure":
        """Real and imaginary parts over time, as a matplotlib Figure."""
        figure: Figure = self.by_view("wings.explore.linear.figures.poles_figure")
        return figure


def poles_along(run: Run, most: int) -> PolesAlong:
    """The poles at about so many rows of a run, evenly spread; those at which the law fails are left out."""
    loop = ContinuousLoop(run.closed_loop)
    passive = passive_coordinates(loop)
    lively = np.array([name not in passive for name in loop.names])
    own = np.array(list(run.program_state.values())).reshape(-1, len(run.t))
    states = np.vstack([np.array(list(run.state.values())), np.zeros((1, len(run.t))), own])
    times, found = list[float](), list[Complex]()
    for i in np.unique(np.linspace(0, len(run.t) - 1, most).astype(int)).tolist():
        t, x = float(run.t[i]), np.ascontiguousarray(states[:, i])
        if loop.refusal(t, x):
            continue
        A = loop.jacobian(t, x)[0][np.ix_(lively, lively)]
        poles = np.linalg.eigvals(A).astype(complex)
        times.append(t)
        found.append(_in_order_of(found[-1], poles) if found else poles[np.argsort(-poles.real)])
    return PolesAlong(np.array(times), np.array(found).reshape(len(times), -1))


def _in_order_of(before: Complex, poles: Complex) -> Complex:
    """The poles, each at the place of the one before that it is nearest to, all distances together least."""
    from scipy.optimize import linear_sum_assignment

    ordered: Complex = poles[linear_sum_assignment(np.abs(before[:, None] - poles[None, :]))[1]]
    return ordered
