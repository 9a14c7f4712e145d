"""Which numbers of a launch file a browser may vary, and why others stay as they are.

Nothing is offered on trust: Python makes the closed loop at two other values of each key, and what the steps of its
preparation give there must be what a simulation gives its loop, bit by bit.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from time import process_time
from typing import Any

import msgspec
import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.keeping import SECTION as KEEP
from servonode.closed_loop.key_table import key_of
from servonode.closed_loop.launch_file import GOAL_SPEED
from servonode.closed_loop.machine_section import completed
from servonode.closed_loop.parameters import parameters_of
from servonode.closed_loop.variation import check_number, unit_of
from servonode.errors import ServonodeError
from servonode.mechanics.description import Quantity
from servonode.plants.prepare import Wanted
from servonode.wings.web.preparing import Prepared, found_of

GROUPS = {
    "controller.keep": "gains",
    "controller.gains": "gains", "controller.weights": "gains", "controller.settings": "goals", "target": "goals",
    "goal": "goals", "controller.parameters": "parameters", "plant.parameters": "parameters", "plant.initial": "start",
    "run": "timing", "controller": "timing", "plant.safety": "limits", "plant.sensor": "disturbance",
    "plant.actuator": "disturbance",
}  # fmt: skip
SHARES = (0.31, 0.77, 0.45, 0.58, 0.51, 0.49)  # of a range, at which a key is tried until two values can be
LONGEST, MOST_DELAY = 3.0, 20  # times its duration; control periods
LONGEST_TRIAL = 3.0  # s of the processor, for all keys
TOO_LONG = "Python searches for the start of each run for seconds, too long to try it for this report"
SHORT = 20  # control periods of the run in which keys are tried
NANO = 1e9
BY_PART = {
    "start": "the initial state follows from it, which Python searches for",
    "rates": "gains follow from it, as they are automatic; give a rate, such as controller.gains.lambda = 2",
    "kept": "what is kept follows from it, as it is automatic; give rate and brake of each keep",
    "ends": "the limits that the law keeps follow from it, which inputs limit on one side too",
    "drive": "what the drives do in a step follows from it, which Python computes",
}


@dataclass
class Key:
    """A number that may vary. to: the numbers of the preparation that it is, `ns`: in whole nanoseconds."""

    key: str
    title: str
    group: str
    unit: str
    value: float
    low: float
    high: float
    whole: bool = False
    step: float | None = None
    above: float | None = None
    at_least: float | None = None
    to: list[int] = field(default_factory=list)
    ns: bool = False


@dataclass
class Varying:
    """The keys that may vary, as a browser is told them, and those that may not, with their reasons."""

    keys: list[dict[str, Any]]
    fixed: list[dict[str, str]]


def keys_of(prepared: Prepared) -> Varying:
    """Those of a closed loop."""
    with _quietly():
        return _tried_keys(prepared)


@contextmanager
def _quietly() -> Iterator[None]:
    """What a machine remarks about the start of each trial is not for whoever writes a report."""
    log = logging.getLogger("servonode.closed_loop.machine_section")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _tried_keys(prepared: Prepared) -> Varying:
    judged = _judged(prepared.closed_loop)
    keys, fixed, begin, trial = list[Key](), list[dict[str, str]](), process_time(), _short(prepared)
    for each in _candidates(prepared):
        reason = _why_fixed(trial, each, judged) if process_time() - begin < LONGEST_TRIAL else TOO_LONG
        if reason:
            fixed.append({"key": each.key, "reason": reason})
        else:
            keys.append(each)
    for each in _at_odds(trial, keys) if process_time() - begin < LONGEST_TRIAL else ():
        keys.remove(each)
        fixed.append({"key": each.key, "reason": "with another key it makes what neither makes alone"})
    return Varying([asdict(each) for each in keys], fixed)


def _short(prepared: Prepared) -> Prepared:
    """The preparation of a short run of the same closed loop, in which keys are tried."""
    times = prepared.closed_loop.launch.times
    short = min(times.duration_ns, SHORT * (times.period_ns or times.step_ns)) / NANO
    if prepared.random or short == times.duration:
        return prepared
    try:
        return Prepared(prepared.closed_loop.changed({"run.duration": short}), prepared.every)
    except ServonodeError:
        return prepared


# what may be tried


def _candidates(prepared: Prepared) -> Iterator[Key]:
    loop = prepared.closed_loop
    launch, control = loop.launch, loop.control
    margins = _margins(loop)
    for each in parameters_of(loop).values():
        low, high = each.slider
        high = min(high, margins.get(each.key, high))
        most = high if not each.key.startswith("plant.safety") else 3 * each.value
        least = each.least if np.isfinite(each.least) else None
        above, at_least = (least, None) if each.above else (None, least)
        key = Key(each.key, each.description, _group(each.key), each.unit, each.value, low, most)
        yield replace(key, above=above, at_least=at_least)
    machine = loop.machine
    for quantity in machine.description.parameters:
        yield _of(quantity, f"plant.parameters.{quantity.name}", machine.parameters[quantity.name])
    start = iter(loop.start.tolist())
    quantities = iter(machine.description.state)
    for name, size in machine.description.layout:
        for i in range(size or 1):
            yield _of(next(quantities), f"plant.initial.{name}" + (f".{i}" if size else ""), next(start), bounded=False)
    step = launch.step_ns / NANO
    duration, period = launch.times.duration, launch.times.period
    least = max(step, period)
    yield _timing("run.duration", "duration of the run", duration, least, LONGEST * duration, step=least)
    if control is not None:
        most, delay = max(10 * period, 20 * step), control.stated.delay
        yield _timing("controller.period", "time between two control instants", period, step, most, step=step)
        text = "control periods after which inputs act"
        yield _timing("controller.delay", text, delay, 0, max(MOST_DELAY, 2 * delay), unit="1", whole=True)
        if any(each.kernel is not None for each in (control.targets, control.signals)):
            text = "speed of the goal's time"
            yield _timing(GOAL_SPEED, text, launch.goal_speed, 0, 3, unit="1", group="goals")
    yield from _disturbances(loop)


def _margins(loop: ClosedLoop) -> dict[str, float]:
    """The value at the start of each keep whose margin may not be above it, by the key of that margin."""
    if loop.control is None or not loop.control.law.description.keeps:
        return {}
    law = loop.control.law
    found = law.evaluate(0.0, loop.start, loop.control.goal(0.0)).margins.tolist()
    kept = zip(law.description.keeps, found, strict=True)
    return {f"{KEEP}.{each.quantity.name}.margin": value for each, value in kept if min(each.degrees)}


def _timing(
    key: str, title: str, value: float, low: float, high: float, unit: str = "s", group: str = "timing", **more: Any
) -> Key:
    return replace(Key(key, title, group, unit, value, low, high, at_least=low), **more)


def _disturbances(loop: ClosedLoop) -> Iterator[Key]:
    """The numbers that are stated of drives and sensors."""
    for section in ("actuator", "sensor"):
        stated = msgspec.to_builtins(getattr(loop.launch.plant, section))
        for name, value in stated.items():
            entries = value.items() if isinstance(value, dict) else [("", value)]
            for entry, number in entries:
                if isinstance(number, int | float) and not isinstance(number, bool) and number:
                    key = f"plant.{section}.{name}" + (f".{entry}" if entry else "")
                    low = -3 * abs(number) if name == "bias" else 0.0
                    yield Key(
                        key,
                        f"{name.replace('_', ' ')} of the {section}",
                        "disturbance",
                        unit_of(loop, key),
                        number,
                        low,
                        3 * abs(number),
                    )


def _of(each: Quantity, key: str, value: float, bounded: bool = True) -> Key:
    low, high = value - max(abs(value), 1.0), value + max(abs(value), 1.0)
    if bounded:
        high = 3 * value if value > 0 else high
        least = each.at_least if each.above is None else each.above
        low = low if least is None else least if each.above is None else least + 0.1 * abs(value - least)
    found = Key(key, each.description, _group(key), each.unit, value, low, high)
    return replace(found, above=each.above, at_least=each.at_least) if bounded else found


def _group(key: str) -> str:
    return next(GROUPS[name] for name in sorted(GROUPS, key=len, reverse=True) if key.startswith(f"{name}."))


# what the machine's own preparation looks at


class _Watched(Mapping[str, Any]):
    """A mapping that notes which of its values were asked for."""

    def __init__(self, of: Mapping[str, Any], seen: set[str]) -> None:
        self._of, self._seen = of, seen

    def __getitem__(self, name: str) -> Any:
        self._seen.add(name)
        return self._of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


class _WatchedNames(frozenset[str]):
    """Names that note which of them were asked for."""

    seen: set[str]

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return super().__contains__(name)


def _judged(loop: ClosedLoop) -> frozenset[str]:
    """The parameters that the machine's preparation asks for, which may refuse them, or none where it has none."""
    preparation, seen = loop.preparation, set[str]()
    if preparation is None:
        return frozenset()

    def prepare(wanted: Wanted) -> Any:
        given = _WatchedNames(wanted.given)
        given.seen = seen
        return preparation.prepare(replace(wanted, parameters=_Watched(wanted.parameters, seen), given=given))

    with _quietly():
        completed(loop.stated, loop.source, replace(preparation, prepare=prepare), loop.loaded)
    return frozenset(seen)


# what stands the trial


def _why_fixed(prepared: Prepared, key: Key, judged: frozenset[str]) -> str:
    """Why a key stays as it is; empty: two other values of it have been prepared as a simulation does."""
    if not all(map(np.isfinite, (key.value, key.low, key.high))):
        return "none is stated, so that none acts; state one to vary it"
    known = key_of(key.key)
    key.whole = key.whole or (known is not None and known.is_whole)
    key.ns = key.key in ("run.duration", "controller.period")
    if prepared.random and (key.group in ("timing", "disturbance")):
        return "the random numbers of the sensors are those of the first run"
    if prepared.closed_loop.control and key.key.removeprefix("controller.settings.") in found_of(prepared.closed_loop):
        return "the program finds it at the start; state it to vary it"
    if (
        key.group == "start"
        and key.key.count(".") == 3
        and key.key.split(".")[2] not in prepared.closed_loop.launch.plant.initial
    ):
        return "the launch file does not state it; state all of its entries to vary one"
    found, reason = list[tuple[float, Prepared]](), ""
    try:
        with_it = check_number(prepared.closed_loop, key.key)
        prepared.closed_loop.check_derived(with_it, key.key)
    except ServonodeError as error:
        return _words(error)
    prepares = prepared.closed_loop.preparation is not None
    if key.key.startswith("plant.initial.") and prepares:
        return BY_PART["start"]
    if key.key.removeprefix("plant.parameters.") in judged or (prepares and key.key == "run.duration"):
        return "the machine's own preparation judges it, in Python"
    for share in SHARES:
        value = _tried(key, share)
        if value == key.value or value in [each for each, _ in found]:
            continue
        try:
            found.append((value, Prepared(prepared.closed_loop.changed({key.key: value}), prepared.every)))
        except ServonodeError as error:
            reason = reason or _words(error)
        if len(found) == 2:
            return _follows(prepared, key, found)
    return reason or "no other value of it can be"


def _words(error: ServonodeError) -> str:
    return str(getattr(error, "text", error))


def _tried(key: Key, share: float) -> float:
    value = key.low + share * (key.high - key.low)
    if key.whole:
        return float(round(value))
    return round(round(value / key.step) * key.step, 9) if key.step else value


def _follows(prepared: Prepared, key: Key, found: list[tuple[float, Prepared]]) -> str:
    """Why what a simulation is given does not follow from two values as from copies of them; empty: it does."""
    base, places = prepared.flat(), set[int]()
    if any(
        other.kernel is not prepared.kernel or other.functions.keys() != prepared.functions.keys() for _, other in found
    ):
        return "another loop is compiled for it"
    for value, other in found:
        flat = other.flat()
        if len(flat) != len(base):
            return "other numbers are prepared for it"
        changed = np.flatnonzero(flat.view(np.int64) != base.view(np.int64))
        places |= set(changed.tolist())
        wanted = float(np.rint(value * NANO)) if key.ns else value
        for i in changed.tolist():
            if flat[i] != wanted:
                part = [name for name, at in prepared.offsets.items() if at <= i][-1]
                return BY_PART.get(part, "numbers follow from it that only Python computes")
    if not places:
        return "nothing of this run depends on it"
    key.to = sorted(places)
    for value, other in found:
        if wrong := prepared.differing(other, placed(base, [(key, value)])):
            return f"Python alone computes what follows from it ({', '.join(wrong)})"
    return ""


def placed(base: Array, values: list[tuple[Key, float]]) -> Array:
    """The numbers with values of keys; one that is more special than another comes behind it."""
    numbers = base.copy()
    for key, value in sorted(values, key=lambda each: -len(each[0].to)):
        numbers[key.to] = np.rint(value * NANO) if key.ns else value
    return numbers


def _at_odds(prepared: Prepared, keys: list[Key]) -> list[Key]:
    """Keys that are prepared otherwise where all others have new values too."""
    left, out = list(keys), list[Key]()
    while left:
        if not _wrong_together(prepared, [(each, _near(each)) for each in left]):
            return out
        out.append(left.pop())
    return out


def _near(key: Key) -> float:
    """A value near that which is stated, within the key's range."""
    value = key.value + 0.02 * (key.high - key.value)
    return _tried(key, (value - key.low) / (key.high - key.low)) if key.whole or key.step else value


def _wrong_together(prepared: Prepared, values: list[tuple[Key, float]]) -> bool:
    """Whether all of them together are prepared otherwise; values that cannot be together are not."""
    try:
        changed = prepared.closed_loop.changed({key.key: value for key, value in values})
        other = Prepared(changed, prepared.every)
    except ServonodeError:
        return False
    return bool(prepared.differing(other, placed(prepared.flat(), values)))
