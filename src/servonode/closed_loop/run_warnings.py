"""What a run warns of: goals that are not reached, the machine's warnings, limits that acted. None of it is a fault."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.closed_loop import goal_reached
from servonode.closed_loop.controller_section import unused_keys
from servonode.closed_loop.goal_reached import ROUNDING, Columns, Explained, Late
from servonode.closed_loop.launch_keys import LaunchFile
from servonode.mechanics.description import MachineDescription
from servonode.mechanics.machine import fault_time

if TYPE_CHECKING:
    from servonode.closed_loop.closed_loop import ClosedLoop

Steps = npt.NDArray[np.int64]
SIDE = 1e-6  # of a state, to both sides, for a difference


@dataclass(frozen=True)
class RunWarning:
    """One warning. name: `goal`, `machine`, `input_limit`, `demand_limit`, `keep` or `network`.

    text: a sentence without an end. t [s]: from when on it holds; None where that is not known.
    """

    name: str
    text: str
    t: float | None = None

    def __str__(self) -> str:
        return self.text if self.t is None else f"{self.text} (from t = {self.t:.2f} s)"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def missed_goals(
    closed_loop: "ClosedLoop", t: Array, inputs: Columns, residuals: Columns, own: Columns, spread: Columns
) -> list[RunWarning]:
    """The residuals that are not small beside their goals in the last quarter of the run, at rows of goal times t [s].

    own: the program's own states. spread: what the estimator claims as the standard deviation of each state, if there
    is one.
    """
    description = closed_loop.known_control.law.description
    limited = goal_reached.limited_late(closed_loop, inputs, len(t)) > goal_reached.LIMITED_SHARE
    late = {each.name: Late.of(residuals[each.name]) for each in description.residuals}
    if all(each.last <= ROUNDING or (each.converging and not limited) for each in late.values()):
        return []  # without the work below
    amplitudes, known = goal_reached.goal_amplitudes(closed_loop, t, own), _known(closed_loop, spread)
    found = []
    for name, amplitude, band in zip(late, amplitudes.tolist(), known.tolist(), strict=True):
        first = float(np.abs(residuals[name][np.isfinite(residuals[name])][0]))
        if max(first, amplitude) > ROUNDING:  # else the goal has no size of its own
            text = goal_reached.missed(late[name], first, amplitude, limited, Explained(estimated=band))
            found += [RunWarning("goal", f"{name}: {text}: the goal is not reached")] if text else []
    return found


def _known(closed_loop: "ClosedLoop", spread: Columns) -> Array:
    """What the noise of the measured state, or the uncertainty of the estimated one, explains of each residual."""
    law, goal = closed_loop.known_control.law, closed_loop.goal(0.0)
    deviations = np.array([each[np.isfinite(each)][-1:].sum() for each in spread.values()] or closed_loop.sensor.noise)
    variances = np.zeros(law.n_s)
    for i in [] if law.description.own else np.flatnonzero(deviations):
        ends = []
        for side in (SIDE, -SIDE):
            x = closed_loop.start.copy()
            x[i] += side
            ends.append(law.evaluate(0.0, x, goal).residuals.copy())
        variances += ((ends[0] - ends[1]) / (2 * SIDE) * deviations[i]) ** 2
    known: Array = goal_reached.BAND * np.sqrt(np.nan_to_num(variances))
    return known


def machine_warnings(machine: MachineDescription, t: Array, monitored: Array) -> list[RunWarning]:
    """The machine's warnings with the first recorded time at which each holds, in the order of time."""
    found = []
    for warning, margin in zip(machine.warnings, monitored[:, len(machine.outputs) :].T, strict=True):
        met = margin > 0 if warning.strict else margin >= 0
        found += [(int(np.argmin(met)), warning.text)] if not met.all() else []
    return [RunWarning("machine", text, float(t[i])) for i, text in sorted(found, key=lambda each: each[0])]


def faults_let_pass(closed_loop: "ClosedLoop", k: Steps, xs: Array, us: Array) -> list[RunWarning]:
    """The machine's fault that was met first and, as the launch file wants, did not end the run, with its time.

    Located where no input changes between the rows, else the first row at which it is met.
    """
    machine, launch = closed_loop.machine, closed_loop.launch
    if launch.plant.safety.faults or not machine.description.faults:
        return []
    integrator, step_ns = launch.plant.integrator, launch.step_ns
    watch = None if closed_loop.control else machine.watcher(integrator)
    last, instants = np.zeros(machine.n_state + 1), k.tolist()
    for i, (row, u) in enumerate(zip(xs, us, strict=True)):
        x = row.copy()
        violated = machine.fault(instants[i] * step_ns / 1e9, x)
        if violated:
            return [RunWarning("machine", violated.text, instants[i] * step_ns / 1e9)]
        steps = instants[i + 1] - instants[i] if watch and i + 1 < len(instants) else 0
        made = watch(instants[i], steps, step_ns, x, last, u, machine.c) if watch and steps else 0
        if made:
            t, violated = fault_time(machine, integrator, step_ns, instants[i] + made - 1, last, u)
            return [RunWarning("machine", violated.text if violated else "", t)]
    return []


def input_warnings(
    closed_loop: "ClosedLoop", t: Array, inputs: Columns, shares: Mapping[str, float], counts: Mapping[str, int]
) -> list[RunWarning]:
    """The inputs that were at their limits, and by reason in `counts` other limits that held back commands."""
    machine, found = closed_loop.machine.description, []
    limits = dict(zip(machine.input_names, closed_loop.safety.limits.value, strict=True))
    units = {each.name: each.unit for each in machine.inputs}
    for name, share in shares.items():
        if share:
            first = float(t[int(np.argmax(goal_reached.at_limit(inputs[name], limits[name])))])
            text = f"{name} is at its limit of {limits[name]:g} {units[name]} for {100 * share:.3g} % of the time"
            found.append(RunWarning("input_limit", text, first))
    for reason, count in counts.items():
        word, _, name = reason.partition(":")
        if word in LIMITS and count and not (word == "limit" and shares.get(name)):
            text = f"{LIMITS[word]}{f' of {name}' if name else ''} held back {count} commands"
            found.append(RunWarning("input_limit", text))
    return found


LIMITS = {"limit": "the limit", "rate": "the rate limit", "power": "the power limit"}  # by reason of the guard


def law_warnings(
    limits: Mapping[str, Mapping[str, Any]], keeps: Mapping[str, Mapping[str, Any]], clipped: Mapping[str, Any]
) -> list[RunWarning]:
    """The limits of the program that scaled the demand, the keeps that gave way, and where nothing that keeps all was
    found, by `Run.limits`, `Run.keeps` and `Run.clipped`.
    """
    told = [("demand_limit", f"the program's limit {name} acted", each) for name, each in limits.items()]
    told += [("keep", f"keep {name} gave way", each["gave_way"]) for name, each in keeps.items()]
    told += [("keep", "inputs that keep all were sought in vain, and only clipped,", clipped)] if clipped else []
    return [
        RunWarning(name, f"{text} at {each['instants']} control instants", each["first"])
        for name, text, each in told
        if each["instants"]
    ]


def unused_settings(launch: LaunchFile) -> list[RunWarning]:
    """The settings and targets of the launch file that its goal does not contain."""
    keys = unused_keys(launch.controller, launch.target)
    return [RunWarning("goal", f"{key} is used by no residual") for key in keys]


def network_warnings(closed_loop: "ClosedLoop", round_trip_s: Mapping[str, float]) -> list[RunWarning]:
    """Whether commands came later than [hosts] says; round_trip_s: percentiles, from a state to its command [s]."""
    hosts, in_real_time = closed_loop.launch.hosts, closed_loop.launch.run.mode == "realtime"
    if hosts is None or hosts.delay is None or not in_real_time or round_trip_s.get("p99", 0.0) <= hosts.delay:
        return []
    longest, middle = (f"{round_trip_s.get(name, 0.0) * 1e3:.3g} ms" for name in ("p99", "p50"))
    text = f"one of a hundred commands came {longest} after its state or later (median {middle}), but hosts.delay is "
    return [RunWarning("network", f"{text}{hosts.delay * 1e3:g} ms: state the longer time, and check again")]
