"""How wrong each parameter of the plant may be before the sampled loop no longer decays, the law's belief unchanged.

The plant's parameter is multiplied by a factor that goes away from 1 in steps; with each the equilibrium that the loop
then has is found by Newton's method on the map of a period, and its eigenvalues there. The margin is the first factor
at which one of them reaches the unit circle, or that has no equilibrium nearby. For all parameters together there is no
certain answer: the combinations looked at give a bound from above, errors that are surely too large.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from servonode.analysis.linear_system import DECAYS, slope
from servonode.analysis.linearisation import sampled_step
from servonode.analysis.sampled_step import SampledStep, kept, lively
from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import StatementError, did_you_mean
from servonode.tables import Row, Tabular

FACTOR, LARGEST = 1.2, 10.0  # from one factor to the next that is tried, and the largest; the smallest is its inverse
EXACT = 1e-4  # share to which a margin is found
SETTLED, ROUNDS = 1e-9, 12  # of Newton's method
TOGETHER = (0.01, 0.95)  # least and largest common error of all parameters that is tried


@dataclass(frozen=True)
class ParameterMargin:
    """The factors on a parameter's nominal `value` between which the loop decays; `None`: beyond those tried."""

    name: str
    unit: str
    value: float
    least: float | None
    largest: float | None
    why: tuple[str, str]  # what happens at either end; empty: nothing


@dataclass(frozen=True, repr=False)
class ParameterMargins(Tabular):
    """The margins of parameters, one at a time, and an error of all together that is surely too large.

    `together`: the least common relative error found with which a combination `signs` (+1, -1 by name) does not decay:
    smaller ones may exist. None: none was found up to TOGETHER.
    """

    parameters: tuple[ParameterMargin, ...]
    together: float | None
    signs: Mapping[str, int]

    def __getitem__(self, name: str) -> ParameterMargin:
        """The margin of a parameter."""
        return {each.name: each for each in self.parameters}[name]

    def table(self) -> tuple[str, list[Row]]:
        """A line for each parameter, and one for all together."""
        rows = [(each.name, _range_text(each)) for each in self.parameters]
        if self.together is None:
            text = f"no combination was found up to {TOGETHER[1]:.0%} of each"
        else:
            combination = ", ".join(f"{name} {'+' if sign > 0 else '-'}" for name, sign in self.signs.items())
            text = f"{self.together:.3g} of each is too much, with the signs {combination}; smaller errors may be, too"
        return "How wrong parameters of the plant may be", [*rows, ("together", text)]


def _range_text(each: ParameterMargin) -> str:
    low = (
        f"from {each.least:.4g} of it ({each.why[0]})"
        if each.least is not None
        else f"from below {1 / LARGEST:g} of it"
    )
    high = f"to {each.largest:.4g} of it ({each.why[1]})" if each.largest is not None else f"to above {LARGEST:g} of it"
    return f"{each.value:.4g} {each.unit}: {low} {high}"


def parameter_margins(
    closed_loop: ClosedLoop, t: float, x: Array, own: Array, passive: Sequence[str], names: Sequence[str] | None = None
) -> ParameterMargins:
    """The margins of the plant's parameters (None: of all that are not 0) about an equilibrium of the sampled loop.

    Raises:
        StatementError: there is no such parameter, or the loop does not decay as it is.
    """
    loop = _Varied(closed_loop, t, x, own, passive)
    quantities = {each.name: each for each in closed_loop.machine.description.parameters}
    for name in names or ():
        if name not in quantities:
            near = did_you_mean(str(name), quantities)
            raise StatementError(f"{name!r} is not a parameter of the plant; {near}choose of {', '.join(quantities)}")
        if not loop.nominal[name]:
            raise StatementError(f"parameter {name} is 0, so no share of it is an error; leave it out")
    chosen = [name for name in quantities if loop.nominal[name]] if names is None else list(names)
    if (reason := loop.fails({})) is not None:
        text = f"about this state the sampled loop does not decay with the parameters as they are ({reason})"
        raise StatementError(f"{text}; give the state of an equilibrium that it holds")
    found = []
    for name in chosen:
        (least, why_least), (largest, why_largest) = (loop.edge(name, FACTOR**side) for side in (-1, 1))
        why = (why_least, why_largest)
        found.append(ParameterMargin(name, quantities[name].unit, loop.nominal[name], least, largest, why))
    together, signs = loop.combined(chosen)
    return ParameterMargins(tuple(found), together, signs)


class _Varied:
    """The sampled loop with other parameters of the plant, at the equilibrium that it then has."""

    def __init__(self, closed_loop: ClosedLoop, t: float, x: Array, own: Array, passive: Sequence[str]) -> None:
        self._loop, self._step = closed_loop, sampled_step(closed_loop, t)
        self._z = self._step.state_at(x, own)
        whole = self._step.open_at_inputs(self._z)
        self._keep = kept(lively(self._step.names, passive), whole.A, whole.C)
        self.nominal = dict(closed_loop.machine.parameters)
        self._quantities = {each.name: each for each in closed_loop.machine.description.parameters}

    def fails(self, factors: Mapping[str, float]) -> str | None:
        """Why the loop does not decay with these factors on parameters; None: it does."""
        values = {name: self.nominal[name] * factor for name, factor in factors.items()}
        for name, value in values.items():
            if complaint := self._quantities[name].complaint(value):
                return complaint
        try:
            radius = self._radius(values)
        except StatementError as error:
            return str(error)
        if radius is None:
            return "no equilibrium"
        return None if radius <= 1 - DECAYS else f"eigenvalue {radius:.4f}"

    def _radius(self, values: Mapping[str, float]) -> float | None:
        found = self._map(values)
        return None if found is None else float(np.abs(np.linalg.eigvals(found)).max(initial=0.0))

    def _map(self, values: Mapping[str, float]) -> Array | None:
        """The map of a period about the equilibrium; None where there is no equilibrium nearby."""
        machine = self._loop.machine.with_parameters(values)
        step, keep, z = SampledStep(self._loop, machine, self._step.k), self._keep, self._z.copy()

        def moved(lively: Array) -> Array:
            full = z.copy()
            full[keep] = lively
            return step.after(full)[0][keep] - lively

        for _ in range(ROUNDS):
            missed, A = moved(z[keep]), slope(moved, z[keep])
            if not (np.isfinite(missed).all() and np.isfinite(A).all()):
                return None
            if np.abs(missed).max(initial=0.0) < SETTLED * (1 + np.abs(z).max(initial=0.0)):
                return A + np.eye(len(A))
            z[keep] -= np.linalg.lstsq(A, missed, rcond=1e-12)[0]
        return None

    def edge(self, name: str, factor: float) -> tuple[float | None, str]:
        """The factor on a parameter at which the loop no longer decays, going by this factor at a time, and why."""
        good, bad, ends = 1.0, factor, (1 / LARGEST, LARGEST)
        while (why := self.fails({name: bad})) is None:
            if bad in ends:
                return None, ""
            good, bad = bad, min(max(bad * factor, ends[0]), ends[1])
        return self._bisected(lambda each: {name: each}, good, bad, why)

    def _bisected(self, factors: object, good: float, bad: float, why: str) -> tuple[float, str]:
        while abs(bad - good) > EXACT * good:
            middle = (good + bad) / 2
            reason = self.fails(factors(middle))  # type: ignore[operator]
            good, bad, why = (middle, bad, why) if reason is None else (good, middle, reason)
        return good, why

    def combined(self, names: Sequence[str]) -> tuple[float | None, dict[str, int]]:
        """The least common error found with which the loop does not decay, and its signs."""
        best: tuple[float | None, dict[str, int]] = (None, {})
        signs = self._worst_signs(names, 0.0, dict.fromkeys(names, 1))
        for _ in range(3):  # the direction at the edge may be another one
            size = self._common(signs)
            if size is None or (best[0] is not None and size >= best[0]):
                return best
            best = size, signs
            signs = self._worst_signs(names, size, signs)
        return best

    def _common(self, signs: Mapping[str, int]) -> float | None:
        before, size = 0.0, TOGETHER[0]

        def factors(error: float) -> dict[str, float]:
            return {name: 1 + sign * error for name, sign in signs.items()}

        while (why := self.fails(factors(size))) is None:
            if size == TOGETHER[1]:
                return None
            before, size = size, min(size * FACTOR, TOGETHER[1])
        return self._bisected(factors, before, size, why)[0]

    def _worst_signs(self, names: Sequence[str], size: float, signs: Mapping[str, int]) -> dict[str, int]:
        """The signs with which each parameter by itself makes the largest eigenvalue larger."""
        around = {name: 1 + size * signs[name] for name in names}
        found = {}
        for name in names:
            sides = []
            for change in (1.001, 0.999):
                values = {each: self.nominal[each] * around[each] * (change if each == name else 1.0) for each in names}
                radius = self._radius(values)
                sides.append(np.inf if radius is None else radius)
            found[name] = 1 if sides[0] >= sides[1] else -1
        return found
