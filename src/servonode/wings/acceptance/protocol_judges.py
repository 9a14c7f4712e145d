"""Checks of a machine's messages against docs/reference/protocol.md; these functions use no sockets."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from msgspec import UNSET

from servonode.arrays import Array
from servonode.bus import State
from servonode.mechanics.description import unpacked
from servonode.mechanics.machine import Machine

SPACING_S = 0.02  # time between compared states: much longer than a step, much shorter than a turn
LEAST_PATH = 1e-3  # SI; shorter paths are not judged
FEW = 0.8  # share of the due states that must come
FACTORS = (0.8, 1.25)  # bounds of the ratio of a rate to its prediction
PACE = 0.25  # largest apparent relative error of the machine's clock
SAFE = "machine_safe"  # in `extra` of a state: whether the machine's own safe action acts
LATE_S = 0.05  # an echo may take two periods, and at least this on a busy computer


@dataclass(frozen=True)
class Finding:
    """One deviation from the page, with its remedy in the text."""

    subject: str
    text: str


@dataclass(frozen=True)
class Sample:
    """A good state, and when it came [monotonic ns]."""

    at: int
    state: State


def acts_itself(state: State) -> bool:
    """Whether the machine says that its own safe action acts in this state."""
    return isinstance(state.extra, dict) and bool(state.extra.get(SAFE))


def judge_motion(machine: Machine, samples: Sequence[Sample], step: float) -> tuple[list[Finding], list[Finding]]:
    """Judge signs, scales and wrapped angles of the coordinates; returns findings, and notes on what was not judged.

    Each coordinate's motion is compared with its rate by the model at the states that were sent.
    """
    description = machine.description
    samples = _apart(samples, round(SPACING_S / step))
    if len(samples) < 3:
        return [], [Finding("motion", "too few states came to compare them with the model")]
    x = np.array([unpacked(description.layout, each.state.state) for each in samples])
    t = np.array([each.state.k * step for each in samples])
    predicted = _increments(machine, samples, x, t)
    moved, names = np.diff(x, axis=0), description.state_names
    findings: list[Finding] = []
    kinds: dict[str, list[str]] = {"sign": [], "scale": [], "rest": []}
    still = []
    for i, name in enumerate(names):
        if name not in description.coordinates:
            continue
        if description.state[i].unit == "rad" and _unwrap(moved[:, i], predicted[:, i]):
            text = f"{name} jumps by a turn; count turns on and send the angle unwrapped"
            findings.append(Finding("wrapped", text))
        path, expected = float(np.abs(moved[:, i]).sum()), float(np.abs(predicted[:, i]).sum())
        if max(path, expected) < LEAST_PATH:
            still.append(name)
        elif expected < LEAST_PATH / 10:
            kinds["rest"].append(name)
        else:
            factor = float(moved[:, i] @ predicted[:, i] / (predicted[:, i] @ predicted[:, i]))
            if factor < -FACTORS[0] / 2:
                kinds["sign"].append(f"{name} ({factor:.2f})")
            elif not FACTORS[0] < factor < FACTORS[1]:
                kinds["scale"].append(f"{name} ({factor:.3g})")
    says = {
        "sign": "moves against the rate that the model gives it from the states sent (factor); reverse it, or the "
        "velocity it follows from",
        "scale": "moves at another rate than the model gives it from the states sent (factor: 1 is right, 57.3 is "
        "degrees); send SI units and radians, and check the parameters",
        "rest": "moves while the velocities sent say that it rests; send the velocities of the same instant",
    }
    findings += [Finding(kind, f"{', '.join(found)} {says[kind]}") for kind, found in kinds.items() if found]
    text = f"{', '.join(still)} stood still; move the machine by hand while it is checked"
    return findings, [Finding("motion", text)] if still else []


def _apart(samples: Sequence[Sample], steps: int) -> list[Sample]:
    """The samples that are at least this many steps apart; steps that run backwards are judged elsewhere."""
    kept: list[Sample] = []
    for each in samples:
        if not kept or each.state.k - kept[-1].state.k >= max(steps, 1):
            kept.append(each)
    return kept


def _increments(machine: Machine, samples: Sequence[Sample], x: Array, t: Array) -> Array:
    """The change of each state from sample to sample by the model (n - 1, n_state)."""
    names = machine.description.input_names
    rates = np.array([
        machine.derivatives(
            at, np.append(row, 0.0), np.array([each.state.input.get(name, 0.0) for name in names])
        )[:-1]
        for at, row, each in zip(t, x, samples, strict=True)
    ])  # fmt: skip
    between: Array = (rates[:-1] + rates[1:]) / 2 * np.diff(t)[:, None]
    return between


def _unwrap(moved: Array, predicted: Array) -> bool:
    """Remove whole turns from an angle's changes; returns whether there were any."""
    turns = np.where(np.abs(moved) > np.pi, np.round((moved - predicted) / (2 * np.pi)), 0.0)
    moved -= 2 * np.pi * turns
    return bool(turns.any())


def judge_stamps(samples: Sequence[Sample], step: float, k: int) -> Iterator[Finding]:
    """Judge whether k, t and seq count correctly; the run began at step k."""
    states = [each.state for each in samples]
    pairs = list(pairwise(states))
    if any(b.seq <= a.seq for a, b in pairs):
        yield Finding("seq", "seq does not grow from state to state; count each message that is sent")
    if any(b.k < a.k for a, b in pairs):
        yield Finding("k", "k runs backwards; number the machine's own steps, and never count back in a run")
    if any(b.t < a.t for a, b in pairs):
        yield Finding("t", "t runs backwards; send t = k * step of the machine's own step")
    elif wrong := [each for each in states if abs(each.t - each.k * step) > 1.5 * step]:
        yield Finding("t", f"t = {wrong[0].t:.9g} s where k * step = {wrong[0].k * step:.9g} s; send t = k * step")
    if states and states[0].k < k:
        yield Finding("k", f"the first state has k = {states[0].k}; number the steps from the setup's k = {k}")


def judge_pace(samples: Sequence[Sample], step: float) -> Iterator[Finding]:
    """Whether the machine's steps pass as fast as this computer's clock."""
    states = [each.state for each in samples]
    wall = (samples[-1].at - samples[0].at) / 1e9 if samples else 0.0
    if wall <= LATE_S or any(b.k < a.k for a, b in pairwise(states)):
        return
    if states[0].k == states[-1].k:
        yield Finding("k", f"k stays at {states[0].k} while states come; count a step each {step:g} s")
    elif abs(pace := _pace(samples, step) - 1) > PACE:
        yield Finding("k", f"{1 + pace:.2f} s of steps pass in a second; count a step each {step:g} s")


def _pace(samples: Sequence[Sample], step: float) -> float:
    """Seconds of steps per second of wall-clock time, from the least delayed states of the first and the last third.

    A busy computer makes messages late, never early.
    """
    at = np.array([each.at for each in samples]) / 1e9
    late = at - np.array([each.state.k for each in samples]) * step
    third = (at[-1] - at[0]) / 3
    begin, end = int(np.searchsorted(at, at[0] + third)), int(np.searchsorted(at, at[-1] - third))
    first, last = int(np.argmin(late[:begin])), end + int(np.argmin(late[end:]))
    return float(1 - (late[last] - late[first]) / (at[last] - at[first]))


def judge_rate(samples: Sequence[Sample], period: float, seconds: float) -> Iterator[Finding]:
    """Judge whether at least one state came in each period."""
    due, came = seconds / period, len({each.state.k for each in samples})
    if came < FEW * due:
        text = f"{came} new states in {seconds:.2g} s where {due:.0f} are due; publish one at least once a period"
        yield Finding("rate", f"{text} of {period:g} s")


def judge_echo(sent: Sequence[tuple[int, int]], samples: Sequence[Sample], period: float) -> Iterator[Finding]:
    """Judge whether `applied_seq` keeps up; sent: seq of each `applied`, and when it was sent [monotonic ns]."""
    delays, at = [], 0
    for seq, when in sent:
        while at < len(samples) and samples[at].state.applied_seq < seq:
            at += 1
        delays.append((samples[at].at - when) / 1e9 if at < len(samples) else np.inf)
    allowed = max(2 * period, LATE_S)
    late = float(np.median(delays)) if delays else 0.0
    if late <= allowed:
        return
    if samples and samples[-1].state.applied_seq < 0:
        yield Finding("echo", "applied_seq stays -1; echo the seq of the newest `applied` the machine has taken")
        return
    how = "is never echoed" if late == np.inf else f"is echoed after {late * 1e3:.0f} ms"
    text = f"an `applied` {how} ({allowed * 1e3:.0f} ms are allowed); take the newest one at once, and drop older ones"
    yield Finding("echo", text)


def judge_inputs(samples: Sequence[Sample], names: Sequence[str]) -> Iterator[Finding]:
    """Judge whether the acting inputs are reported by name."""
    if wrong := [each.state for each in samples if each.state.input.keys() != set(names)]:
        text = f"reports {', '.join(wrong[0].input) or 'nothing'} as its inputs; report {', '.join(names)}"
        yield Finding("input", text)


def judge_sensors(samples: Sequence[Sample], silence: Mapping[str, int]) -> tuple[list[Finding], list[Finding]]:
    """Judge whether each sensor in use gives readings; returns findings, and notes on what was not judged.

    silence: by sensor, the number of steps for which it may give none.
    """
    steps = samples[-1].state.k - samples[0].state.k if samples else 0
    came = Counter(
        name for each in samples if each.state.readings is not UNSET for name, pairs in each.state.readings.items()
        for _ in pairs[::2]
    )  # fmt: skip
    none = [name for name, most in silence.items() if not came[name] and most < steps]
    found = [Finding("readings", f"none of {', '.join(none)} came; check the sensors and their names")]
    said = ", ".join(f"{name} {came[name]}" for name in silence)
    text = f"readings that came: {said}; their signs and scales show only while the machine is moved"
    return found if none else [], [Finding("motion", text)]


def misshapen(machine: Machine, state: State, sensors: Collection[str] = ()) -> str:
    """What is wrong with the names and sizes of a state; empty: nothing.

    sensors: those of a machine that sends readings in place of its state; none: it sends its state.
    """
    if sensors:
        return _misshapen_readings(state, sensors)
    wanted = [name for name, _ in machine.description.layout]
    if missing := [name for name in wanted if name not in state.state]:
        return f"{', '.join(missing)} missing from the state; send every one of {', '.join(wanted)}"
    if unknown := [name for name in state.state if name not in wanted]:
        return f"{', '.join(unknown)} unknown in the state; send {', '.join(wanted)} and no other"
    try:
        unpacked(machine.description.layout, state.state)
    except ValueError as error:
        return f"{error}; send it so"
    return ""


def _misshapen_readings(state: State, sensors: Collection[str]) -> str:
    if state.state:
        what = f"{', '.join(state.state)} in the state"
        return f"{what}, but only readings are expected (plant.device.sends); send it empty"
    readings = {} if state.readings is UNSET else state.readings
    if unknown := [name for name in readings if name not in sensors]:
        return f"{', '.join(unknown)} unknown among the readings; send those of {', '.join(sensors)}"
    if odd := [name for name, pairs in readings.items() if len(pairs) % 2 or max(pairs[::2], default=0) > state.k]:
        return f"readings of {', '.join(odd)} are not pairs of step and value, or belong to a future step"
    return ""
