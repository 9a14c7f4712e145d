"""What a run knows of its estimate, beside the truth."""

from dataclasses import dataclass

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.estimation import COUNTED

Columns = dict[str, Array]


@dataclass(frozen=True)
class RunEstimate:
    """An estimate at the rows of a run; arrays by name, one entry a row, NaN before the first answer.

    state, std: mean and standard deviation of each state, by column. residual: what the program's residuals truly were,
    at the plant's states; empty where these are estimated too. `Run.residual` is what the law saw. nis with `readings`,
    nees with `dimensions`: squared errors in units of the covariance that the estimator claims, and their degrees of
    freedom. rejected: how many readings the gate has rejected up to there, by sensor that has a gate.
    """

    state: Columns
    std: Columns
    residual: Columns
    nis: Array
    readings: Array
    nees: Array
    dimensions: Array
    rejected: Columns

    @property
    def nees_mean(self) -> float:
        """Squared error of the whole estimate for each dimension, over the run: 1 where it is as good as it says."""
        return _ratio(self.nees, self.dimensions)

    @property
    def nis_mean(self) -> float:
        """Squared innovation for each reading, over the run: 1 where sensors and machine are as stated."""
        return _ratio(self.nis, self.readings)

    @property
    def residual_max(self) -> dict[str, float]:
        """The largest true residuals."""
        sizes = {name: np.abs(values[np.isfinite(values)]) for name, values in self.residual.items()}
        return {name: float(np.max(values, initial=0.0)) for name, values in sizes.items()}

    @property
    def rejected_total(self) -> dict[str, int]:
        """How many readings the gate rejected in the run, by sensor that has a gate."""
        return {name: int(np.nanmax(values, initial=0.0)) for name, values in self.rejected.items()}

    @property
    def columns(self) -> Columns:
        """All of it by column."""
        named = {f"estimate_{name}": values for name, values in self.state.items()}
        named |= {f"std_{name}": values for name, values in self.std.items()}
        named |= {f"true_residual_{name}": values for name, values in self.residual.items()}
        named |= {name: getattr(self, name) for name in COUNTED}
        return named | {f"rejected_{name}": values for name, values in self.rejected.items()}


def _ratio(squares: Array, numbers: Array) -> float:
    """The sum of the squares for each of this many, at the rows where both are known."""
    known = np.isfinite(squares) & (numbers > 0)
    return float(np.sum(squares[known]) / max(np.sum(numbers[known]), 1.0))


def estimate_of(closed_loop: ClosedLoop, held: Columns, t: Array, x: Array | None, own: Columns) -> RunEstimate | None:
    """The estimate in the controller's columns `held` at rows of time t [s], goal time.

    x: the true kernel states; None: nobody knows them. own: the program's own states. None where there is no estimator.
    A controller in Python is not asked again, so that its residuals are known for the estimate alone.
    """
    if closed_loop.estimation is None:
        return None
    columns = closed_loop.machine.description.columns
    return RunEstimate(
        state={name: held[f"estimate_{name}"] for name in columns},
        std={name: held[f"std_{name}"] for name in columns},
        residual={} if x is None or closed_loop.has_own_controller else true_residuals(closed_loop, t, x, own),
        **{name: held[name] for name in COUNTED},
        rejected={name: held[f"rejected_{name}"] for name in closed_loop.estimation.settings.gated},
    )


def true_residuals(closed_loop: ClosedLoop, t: Array, x: Array, own: Columns) -> Columns:
    """The program's residuals at kernel states x (rows, n_x) of goal times t [s]."""
    law = closed_loop.known_control.law
    answer, found = law.answer(), np.full((len(t), law.n_s), np.nan)
    states = np.array(list(own.values())).reshape(len(own), len(t))
    for i, time in enumerate(t.tolist()):
        law.compute(time, x[i], closed_loop.goal(time, states[:, i]), answer)
        found[i] = answer.residuals
    return dict(zip((each.name for each in law.description.residuals), found.T, strict=True))
