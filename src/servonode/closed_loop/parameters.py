"""The numbers of a launch file that may change while its run is in progress, and the judgement of new ones.

Each has the node that computes with it. New ones are judged outside of the nodes, as those of a launch file at the
start of a run are; a node is then sent the numbers that follow from them, see `numbers_of`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.bus.topology import PLANT, TARGET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.controller_section import SETTINGS, Control
from servonode.closed_loop.gains import MATRICES, PERTURBATION, SECTION
from servonode.closed_loop.keeping import SECTION as KEEP
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_error import KeyRefused, ProgramUnfit, naming_file
from servonode.closed_loop.machine_section import check_safe_action
from servonode.closed_loop.static_checks import Examination
from servonode.closed_loop.variation import check_number, unit_of
from servonode.mechanics import discrete
from servonode.mechanics.description import Quantity

LIMITS = "plant.safety"
OWN = "a controller in Python gets its numbers when it is made"
FIRMWARE = "the law is in the machine's firmware, which holds its own numbers"
INVERTED = "the bounded solution of [controller.inversion] was computed with it before the run"
ESTIMATED = "the filter of [estimator] computes with the same model, and its covariance belongs to that"


@dataclass(frozen=True)
class Parameter:
    """A number that may change: its value now, its range. above: whether it must exceed `least`.

    largest_rate: of a gain, above which the checks of the sampled loop refuse it.
    """

    key: str
    value: float
    unit: str
    description: str
    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    largest_rate: float = math.inf

    @property
    def node(self) -> str:
        """The node that computes with it."""
        known = key_of(self.key)
        assert known is not None
        return known.live

    def complaint(self, value: float) -> str:
        """Why this is no value of it; empty: it is one."""
        if not math.isfinite(value):
            return f"{value} is not a finite number"
        inside = self.least < value if self.above else self.least <= value
        return "" if inside and value <= self.most else f"{value:g} {self.unit} is not {self.range}"

    @property
    def slider(self) -> tuple[float, float]:
        """A finite range around its value, within its own."""
        value = self.value if math.isfinite(self.value) else 1.0
        reach = max(abs(value), 1.0 if value == 0 else 0.0)
        low = self.least if math.isfinite(self.least) else value - 2 * reach
        return low, min(self.most, self.largest_rate, value + 2 * reach)

    @property
    def range(self) -> str:
        """Its range in words."""
        low = "" if self.least == -math.inf else f"{'above' if self.above else 'at least'} {self.least:g}"
        most = min(self.most, self.largest_rate)
        high = "" if most == math.inf else f"at most {most:g}"
        return " and ".join(filter(None, (low, high))) or "any number"


def parameters_of(closed_loop: ClosedLoop) -> dict[str, Parameter]:
    """What may change in a run of this closed loop, by dotted key of the launch file."""
    control, found = closed_loop.control, list[Parameter]()
    if control is not None:
        found += [*_gains(control), *_settings(control), *_believed(control), *_weights(control), *_keeps(control)]
        found += _goals(closed_loop)
    found += _limits(closed_loop)
    return {each.key: each for each in found if not _closed(closed_loop, each.key)}


def _gains(control: Control) -> Iterator[Parameter]:
    program = control.law.description
    given: Mapping[str, Any] = control.stated.gains
    if program.explicit:
        return
    matrices = [key for key in (*MATRICES, *PERTURBATION) if key in given]
    for key in matrices:
        for i, row in enumerate(given[key]):
            for j, value in enumerate(row):
                text = f"row {i}, column {j} of {key}"
                yield Parameter(f"{SECTION}.{key}.{i}.{j}", value, "SI", text)
    residuals = () if matrices else program.residuals
    alone = [i for i, each in enumerate(residuals) if f"lambda_{each.name}" not in given]
    largest = [
        discrete.REFUSE * discrete.limit(r, control.delay) / control.times.period for r in program.relative_degrees
    ]
    if residuals:
        stated, of = given.get("lambda"), alone or range(len(residuals))
        common = stated if isinstance(stated, int | float) else float(control.law.rates[of[0]])
        yield _rate("lambda", common, "of all residuals that have none of their own", min(largest[i] for i in of))
    for each, value, most in zip(residuals, control.law.rates.tolist(), largest, strict=False):
        yield _rate(f"lambda_{each.name}", value, f"of the residual {each.name}", most)
    if program.integral:
        for each in program.residuals:
            value = given.get(f"integral_{each.name}", given.get("integral", 0.0))
            yield _rate(f"integral_{each.name}", value, f"of the integral of {each.name}")


def _rate(name: str, value: float, of: str, largest: float = math.inf) -> Parameter:
    text = f"convergence rate {of}"
    return Parameter(f"{SECTION}.{name}", value, "1/s", text, 0.0, largest_rate=largest)


def _settings(control: Control) -> Iterator[Parameter]:
    stated, law = control.stated.settings, control.law
    for each in law.description.parameters:
        base, _, place = each.name.rpartition("_")
        name = f"{base}.{place}" if isinstance(stated.get(base), list) else each.name
        yield _of(each, f"{SETTINGS}.{name}", law.parameters[each.name])
    for each in law.description.signals:
        if (value := control.signals.numbers.get(each.name)) is not None:
            yield _of(each, f"{SETTINGS}.{each.name}", value)


def _believed(control: Control) -> Iterator[Parameter]:
    machine = control.law.machine
    for each in machine.description.parameters:
        yield _of(each, f"controller.parameters.{each.name}", machine.parameters[each.name])


def _of(each: Quantity, key: str, value: float) -> Parameter:
    least = each.at_least if each.above is None else each.above
    low = -math.inf if least is None else least
    return Parameter(key, value, each.unit, each.description, low, above=each.above is not None)


def _weights(control: Control) -> Iterator[Parameter]:
    law = control.law
    if law.description.weighted:
        for name, value in zip(law.machine.description.input_names, law.weights.tolist(), strict=True):
            yield Parameter(f"controller.weights.{name}", value, "1", f"weight of {name}", 0.0, above=True)


def _keeps(control: Control) -> Iterator[Parameter]:
    """The numbers of what is kept that its relative degree has."""
    for each in control.law.description.keeps:
        unit, numbers = each.quantity.unit, control.law.keep_numbers[each.quantity.name]
        stated = [("margin", unit, "how far above zero {} stays"), ("tolerance", unit, "how far below zero {} faults")]
        stated += [("rate", "1/s", "how fast {} may approach its margin")] * any(each.degrees)
        stated += [("brake", f"{unit}/s^2", "the deceleration that stopping {} takes at most")] * (2 in each.degrees)
        for word, unit_of_it, text in stated:
            value, key = getattr(numbers, word), f"{KEEP}.{each.quantity.name}.{word}"
            said = text.format(each.quantity.name)
            yield Parameter(key, value, unit_of_it, said, 0.0, above=word != "margin")


def _goals(closed_loop: ClosedLoop) -> Iterator[Parameter]:
    topics = {each.name for each in closed_loop.live}
    for name, goal in closed_loop.targets.numbers.items():
        if name not in topics:
            yield Parameter(f"target.{name}", goal, "SI", f"the goal {name}")


def _limits(closed_loop: ClosedLoop) -> Iterator[Parameter]:
    """The limits of commands, at most what they are now."""
    safety, limits, inputs = closed_loop.launch.plant.safety, closed_loop.safety.limits, closed_loop.machine.description
    for key, stated, now, per in (
        ("limit", safety.limit, limits.value, ""),
        ("rate_limit", safety.rate_limit, limits.rate, "/s"),
    ):
        text = "largest magnitude" if key == "limit" else "fastest change"
        if isinstance(stated, int | float):
            yield Parameter(f"{LIMITS}.{key}", stated, f"SI{per}", f"{text} of each input", 0.0, stated)
            continue
        for each, most in zip(inputs.inputs, now, strict=True):
            unit = f"{each.unit}{per}"
            yield Parameter(f"{LIMITS}.{key}.{each.name}", most, unit, f"{text} of {each.name}", 0.0, most)
    if inputs.inputs:
        most = limits.power
        yield Parameter(f"{LIMITS}.power_limit", most, "W", "largest power of all inputs together", 0.0, most)


def _closed(closed_loop: ClosedLoop, key: str) -> str:
    """Why a key that another run could change stays as it is in this one; empty: it may change."""
    control = closed_loop.control
    if key.startswith("controller.") and control is not None:
        if control.law.description.own:
            return OWN
        if control.inversion is not None:
            return INVERTED
        if closed_loop.device_law is not None:
            return FIRMWARE
        if closed_loop.estimation is not None and key.startswith("controller.parameters."):
            return ESTIMATED
    if key.startswith("target.") and control is not None and control.inversion is not None:
        return INVERTED
    return FIRMWARE if key.startswith(LIMITS) and closed_loop.device_law is not None else ""


def parameter(closed_loop: ClosedLoop, key: str) -> Parameter:
    """The number at a dotted key.

    Raises:
        LaunchError: there is no such number, or it stays as it is while a run is in progress, with the reason.
    """
    known = parameters_of(closed_loop)
    if key in known:
        return known[key]
    section, _, name = key.rpartition(".")
    with naming_file(closed_loop.launch.file):
        check_number(closed_loop, key)
        unit_of(closed_loop, key)  # refuses unknown names
        stated = key_of(key)
        reason = _closed(closed_loop, key) or (stated.fixed if stated else "")
        raise KeyRefused(section, name, f"stays as it is while a run is in progress: {reason}")


def judged(closed_loop: ClosedLoop, changed: Mapping[str, float], values: Mapping[str, float]) -> ClosedLoop:
    """The closed loop with the numbers changed so far and with new ones, judged as at the start of a run.

    Raises:
        LaunchError: a number may not be, may not change, or the checks of the start refuse the loop.
    """
    launch = closed_loop.launch
    with naming_file(launch.file):
        for key, value in values.items():
            if complaint := parameter(closed_loop, key).complaint(value):
                section, _, name = key.rpartition(".")
                raise KeyRefused(section, name, f"{complaint}; give one that is")
        new = closed_loop.changed({**changed, **values})
        found = new.examined()
        for each in found.refusals:
            text = f"{each.subject}: {each.text}{_eigenvalue(new, found, each.subject)}"
            raise ProgramUnfit("controller", None, text)
        safety, plant = new.safety, new.launch.plant
        limits = np.array(safety.limits.value)
        check_safe_action(new.machine, new.start, limits, safety.brake_steps, new.launch.step_ns, plant.integrator)
    return new


def _eigenvalue(closed_loop: ClosedLoop, found: Examination, subject: str) -> str:
    """The eigenvalue of a refused residual over one control period, and the largest good rate."""
    margin = found.numbers.get("margins", {}).get(subject)
    if margin is None:
        return ""
    most = discrete.REFUSE * margin["limit"] / closed_loop.launch.times.period
    return f"; eigenvalue {margin['radius']:.4g} over a period; the largest rate that is taken is {most:.4g} 1/s"


def numbers_of(closed_loop: ClosedLoop, node: str) -> Array:
    """The numbers with which a node computes."""
    if node == PLANT:
        limits = closed_loop.safety.limits
        return np.array([*limits.value, *limits.rate, limits.power])
    control = closed_loop.known_control
    return control.targets.pieces if node == TARGET else np.append(control.law.numbers(), control.signals.pieces)
