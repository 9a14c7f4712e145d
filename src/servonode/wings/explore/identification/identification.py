"""Parameters of a machine from recordings of it: experiments, fit, intervals, what the record tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import did_you_mean
from servonode.mechanics.description import Quantity
from servonode.mechanics.machine import ParameterError
from servonode.record.run import Named, json_number
from servonode.tables import Row, Tabular, several
from servonode.wings.explore.identification.combinations import (
    ROWS,
    Combination,
    Motion,
    Regressor,
    combinations,
    enters,
    regressor_of,
)
from servonode.wings.explore.identification.excitation import NextExperiment, next_experiment
from servonode.wings.explore.identification.experiment import Experiment, IdentificationError
from servonode.wings.explore.identification.fit import NEAR, Fit, Part, cut, fit, missed, uncut, with_fitted_starts
from servonode.wings.explore.identification.trajectories import Trajectories
from servonode.wings.explore.identification.uncertainty import Covariance, Residuals, residuals_of, unrounded

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


NEARLY = 0.05  # share of a combination's gradient that may lie in directions left untold; its interval counts them
WELL, CLOSELY = 0.02, 0.99  # relative error, and correlation, from which on a combination is told better
UNSETTLED = "the fit did not settle, so values and intervals may be off; begin nearer, or give a shorter --segment"
ROUNDS = 4  # of cutting into fewer segments, as the fit permits


def identified(
    closed_loop: ClosedLoop, experiments: Sequence[Experiment], names: Sequence[str], segment: float | None = None
) -> Identification:
    """The parameters of these names from experiments with the machine of a closed loop.

    They begin at what the law believes, else at those of the plant; all others are the plant's. segment: the length of
    segments [s]; None: as long as the motion allows.

    Raises:
        IdentificationError: a name is unknown or enters no motion, the record tells none, or cannot be followed.
    """
    quantities = chosen(closed_loop, names)
    before = np.array([believed(closed_loop)[each.name] for each in quantities])
    trajectories = [Trajectories(each, tuple(names)) for each in experiments]
    regressor = _regressor(closed_loop, names)
    found = _fitted(trajectories, before, quantities, segment)
    residuals = residuals_of(found)
    found, covariance = unrounded(found, quantities, residuals)
    bases = _bases(regressor, found, trajectories, covariance)
    estimates = _estimates(quantities, before, found, covariance, bases)
    if not any(np.isfinite(each.error) for each in estimates.values()) and not bases:
        records = ", ".join(each.name for each in experiments)
        text = f"{records}: tells nothing of {', '.join(names)}: the machine rests, or moves without what they act on"
        remedy = "record a run with motion, such as the open_loop program with sines for its inputs"
        raise IdentificationError(f"{text}; {remedy}")
    apart = {name for name, each in estimates.items() if each.told in (TOGETHER, BETTER)}
    together = _independent(bases, apart, names)
    return Identification(
        machine=closed_loop.machine.description.name,
        records=tuple(each.name for each in experiments),
        estimates=estimates,
        combinations=tuple(_combined(each, regressor, before, found, covariance) for each in together),
        residuals=tuple(residuals),
        correlation=_correlation(covariance.matrix),
        duration=sum(each.duration for each in experiments),
        robust=covariance.robust,
        fit=found,
        closed_loop=closed_loop,
        notes=() if found.converged else (UNSETTLED,),
    )


def chosen(closed_loop: ClosedLoop, names: Sequence[str]) -> list[Quantity]:
    """The quantities of the machine's parameters of these names.

    Raises:
        IdentificationError: there is no such parameter, or none or twice the same is given.
    """
    described = closed_loop.machine.description
    known = {each.name: each for each in described.parameters}
    if not names or len(set(names)) < len(names):
        text = "a parameter is given twice" if names else "no parameter is given"
        raise IdentificationError(f"{text}; name some of {', '.join(known)}")
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            text = f"{name!r} is not a parameter of the machine {described.name}; {near}choose from {', '.join(known)}"
            raise IdentificationError(text)
    return [known[name] for name in names]


def believed(closed_loop: ClosedLoop) -> dict[str, float]:
    """The parameters that the law believes; without one the plant's."""
    return closed_loop.control.law.machine.parameters if closed_loop.control else closed_loop.machine.parameters


def _regressor(closed_loop: ClosedLoop, names: Sequence[str]) -> Regressor | None:
    """The regressor of these parameters; raises where one stands in no equation of motion and no jump."""
    from sympy import sympify

    from servonode.mechanics.derive import derive
    from servonode.mechanics.straight_line import symbols_of

    equations = derive(closed_loop.source.build())
    found = regressor_of(equations, names, closed_loop.machine.parameters)
    jumps = [part for each in equations.model.jumps for part in (each.margin, *each.changes.values())]
    in_jumps = {symbol.name for part in jumps for symbol in symbols_of(sympify(part))}
    idle = [] if found is None else [n for n, each in zip(names, enters(found), strict=True) if not each]
    if idle := [name for name in idle if name not in in_jumps]:
        text = f"{', '.join(idle)}: not in the equations of motion or jumps of {closed_loop.machine.description.name}"
        raise IdentificationError(f"{text}, so no record can tell; leave it out of --parameters")
    return found


# the fit


def _fitted(
    trajectories: Sequence[Trajectories], before: Array, quantities: Sequence[Quantity], segment: float | None
) -> Fit:
    """The fit in as few segments as the motion allows that it gives."""
    values, parts, found = before, list[Part](), None
    for _ in range(ROUNDS):
        old: Sequence[Part | None] = found.parts if found else [None] * len(trajectories)
        new = [cut(each, values, segment, part) for each, part in zip(trajectories, old, strict=True)]
        if found is not None and all(len(a.starts) >= len(b.starts) for a, b in zip(new, parts, strict=True)):
            break
        parts = new
        try:
            found = fit(parts, values, quantities, found.noise if found else None)
        except ParameterError as error:
            raise IdentificationError(f"the parameters cannot be varied: {error}") from error
        values = found.values
    assert found is not None
    cut_up = segment is None and any(len(each.starts) > 1 for each in parts)
    return _whole(found, before, quantities) if cut_up else found


def _whole(found: Fit, before: Array, quantities: Sequence[Quantity]) -> Fit:
    """The fit of whole records, where it follows these: short segments may have led to parameters that are far off."""
    parts = [with_fitted_starts(uncut(each, found.values), before) for each in found.parts]
    try:
        whole = fit(parts, before, quantities)
    except (IdentificationError, ParameterError):
        return found
    return whole if all(missed(each, whole.values) <= NEAR for each in whole.parts) else found


def _motion(fitted: Fit, trajectories: Sequence[Trajectories]) -> Motion:
    """States, rates and inputs along the fitted motions, at some ROWS instants."""
    parts = []
    for part, each in zip(fitted.parts, trajectories, strict=True):
        experiment, x = each.experiment, each.states(fitted.values, part.segments, part.starts)
        assert x is not None
        rows = np.unique(np.linspace(0, len(x) - 2, ROWS // len(trajectories)).astype(int))
        machine = each.with_values(fitted.values)
        t, u = experiment.t[rows], experiment.u[rows]
        rates = np.array([machine.derivatives(*row) for row in zip(t.tolist(), x[rows], u, strict=True)])
        parts.append((t, x[rows, :-1], rates[:, :-1], u))
    return Motion(*(np.concatenate(each) for each in zip(*parts, strict=True)))


# what the record tells


def _bases(
    regressor: Regressor | None, fitted: Fit, trajectories: Sequence[Trajectories], covariance: Covariance
) -> list[Combination]:
    def told(each: Combination) -> bool:
        return covariance.left(each.gradient, fitted.sizes) < NEARLY

    def deviation(each: Combination) -> float:
        return covariance.deviation(each.gradient, fitted.sizes, NEARLY)

    def well_told(each: Combination) -> bool:
        return deviation(each) < WELL * abs(each.value)

    if regressor is None:
        return []
    motion = _motion(fitted, trajectories)
    found = combinations(regressor, motion, fitted.values, well_told, deviation)
    return found or combinations(regressor, motion, fitted.values, told, deviation)


def _estimates(
    quantities: Sequence[Quantity], before: Array, fitted: Fit, covariance: Covariance, bases: Sequence[Combination]
) -> dict[str, Estimate]:
    found, size = {}, len(quantities)
    alone = covariance.quantile / np.sqrt(np.maximum(np.diag(fitted.information), 1e-300))
    correlated = np.abs(_correlation(covariance.matrix) - np.eye(size)).max(axis=1, initial=0.0)
    for i, each in enumerate(quantities):
        unit = np.eye(size)[i]
        error = covariance.quantile * covariance.deviation(unit, fitted.sizes)
        told = _told(each.name, error / fitted.sizes[i], correlated[i], bases)
        values = float(before[i]), float(fitted.values[i])
        found[each.name] = Estimate(each.name, each.unit, *values, error, told, float(alone[i]))
    return found


def _told(name: str, error: float, correlated: float, bases: Sequence[Combination]) -> str:
    """Whether the record tells a parameter, in words, by its relative error and largest correlation."""
    combined = any(name in each.names and len(each.names) > 1 for each in bases)
    if not np.isfinite(error):
        return TOGETHER if combined else NOT
    return BETTER if combined and error > WELL and correlated > CLOSELY else ALONE


def _independent(bases: Sequence[Combination], untold: set[str], names: Sequence[str]) -> list[Combination]:
    """Combinations with a parameter that is not told alone, none of which follows from the simpler ones before it."""
    columns = [i for i, name in enumerate(names) if name in untold]
    found, rank = list[Combination](), 0
    if not columns:
        return found
    for each in sorted(bases, key=lambda each: len(each.text)):
        table = np.array([[*other.gradient[columns]] for other in (*found, each)])
        if np.linalg.matrix_rank(table / np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-300), 1e-6) > rank:
            found, rank = [*found, each], rank + 1
    return found


def _combined(
    each: Combination, regressor: Regressor | None, before: Array, fitted: Fit, covariance: Covariance
) -> Estimate:
    assert regressor is not None
    deviation = covariance.deviation(each.gradient, fitted.sizes, NEARLY)
    at = dict(zip(regressor.parameters, before.tolist(), strict=True))
    was = float(each.expression.xreplace(at))
    return Estimate(each.text, each.unit, was, each.value, covariance.quantile * deviation, ALONE)


def _correlation(matrix: Array) -> Array:
    deviations = np.sqrt(np.diag(matrix))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = matrix / np.outer(deviations, deviations)
    return found
