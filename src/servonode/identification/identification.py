"""What an identification found: estimates with intervals, combinations, residuals, as objects, table and JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.identification.excitation import NextExperiment, next_experiment
from servonode.identification.fit import Fit
from servonode.identification.uncertainty import Residuals
from servonode.record.run import Named, json_number
from servonode.tables import Row, Tabular, several

ALONE, BETTER, TOGETHER, NOT = "yes", "yes, better in combination", "only in combination", "no"


@dataclass(frozen=True)
class Estimate:
    """A parameter, or a combination of several: value before, estimate, half of its 95 % interval, in `unit`.

    told: whether the record tells it, in words. error is infinite where it does not. alone: half of the interval that
    it had if all other parameters were known.
    """

    name: str
    unit: str
    before: float
    value: float
    error: float
    told: str = ALONE
    alone: float = float("inf")

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self.value - self.error, self.value + self.error

    @property
    def relative(self) -> float:
        """Half of the interval as a share of the value; infinite for a value of zero."""
        return self.error / abs(self.value) if self.value else float("inf")

    @property
    def shown(self) -> float:
        """The value to two digits of `alone`: with fewer a combination that is known better would be lost."""
        return float(rounded(self.value, min(self.error, self.alone)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "before": self.before, "value": self.value, "error": json_number(self.error), "unit": self.unit,
            "told": self.told,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Identification(Tabular):
    """Parameters of a machine from recordings: `estimates` by name, `combinations`, `residuals` by channel.

    parameters: the estimates as numbers by name, for `plant__parameters=`. correlation (p, p): of the estimates in
    their order. law: by residual of the law its rms before and after, where a closed loop was simulated.
    notes: what speaks for caution, in sentences.
    """

    machine: str
    records: tuple[str, ...]
    estimates: dict[str, Estimate]
    combinations: tuple[Estimate, ...]
    residuals: tuple[Residuals, ...]
    correlation: Array
    duration: float  # s
    robust: bool
    fit: Fit
    closed_loop: ClosedLoop
    law: Mapping[str, tuple[float, float, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimates", Named(self.estimates))

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters that the record tells alone, by name, see `Estimate.shown`."""
        return {name: each.shown for name, each in self.estimates.items() if np.isfinite(each.error)}

    def table(self) -> tuple[str, list[Row]]:
        """Each estimate with its interval, combinations, noise, whiteness, notes."""
        rows = [("records", f"{several(self.records)}; {self.duration:.4g} s, {self.fit.n_measurements} measurements")]
        rows += [(name, estimate_text(each)) for name, each in self.estimates.items()]
        rows += [("combination", f"{each.name}: {estimate_text(each)}") for each in self.combinations]
        worst = min(self.residuals, key=lambda each: each.fit)
        rows += [("fit", f"{worst.fit:.1%} at least, of {worst.channel}")]
        rows += [(f"law, {name}", law_text(*each)) for name, each in self.law.items()]
        return f"Identification of {self.machine}", rows + [("note", text) for text in self.notes]

    def next_experiment(self, seed: int = 1) -> NextExperiment:
        """The next experiment: sines by which the parameters become known best, see `NextExperiment`.

        Raises:
            IdentificationError: none keeps the machine within its limits.
        """
        return next_experiment(self.closed_loop, self.fit, seed)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "machine": self.machine,
            "records": list(self.records),
            "duration": self.duration,
            "measurements": self.fit.n_measurements,
            "parameters": {name: each.as_dict() for name, each in self.estimates.items()},
            "combinations": {each.name: each.as_dict() for each in self.combinations},
            "correlation": [[json_number(value) for value in row] for row in self.correlation.tolist()],
            "covariance": "robust" if self.robust else "fisher",
            "residuals": [_residual_dict(each) for each in self.residuals],
            "law": {name: {"before": a, "after": b, "unit": unit} for name, (a, b, unit) in self.law.items()},
            "notes": list(self.notes),
        }


def _residual_dict(each: Residuals) -> dict[str, Any]:
    return {
        "record": each.experiment, "name": each.channel, "unit": each.unit, "rms": each.rms, "quantum": each.quantum,
        "fit": each.fit, "p_white": each.p_white, "p_normal": each.p_normal,
    }  # fmt: skip


def estimate_text(each: Estimate) -> str:
    """`4.003 +- 0.012 kg (was 5)`, or why there is no number."""
    unit = "" if each.unit in ("", "1") else f" {each.unit}"
    if not np.isfinite(each.error):
        return f"{each.told}; left at {each.value:.5g}{unit}"
    return f"{rounded(each.value, each.error)} ± {each.error:.2g}{unit} (was {each.before:.5g})"


def law_text(before: float, after: float, unit: str) -> str:
    """How the rms of a residual of the law changes."""
    unit = "" if unit in ("", "1") else f" {unit}"
    return f"rms {before:.3g} -> {after:.3g}{unit}"


def rounded(value: float, error: float) -> str:
    """A value to two digits of its error."""
    if not 0 < error < np.inf or value == 0:
        return f"{value:.6g}"
    digits = int(np.floor(np.log10(abs(value)))) - int(np.floor(np.log10(error))) + 2
    return f"{value:.{min(max(digits, 2), 15)}g}"
