"""Output of the command line for people: the live status line and the tables."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from servonode.bus import Status
from servonode.bus.durations import EXTRA
from servonode.bus.topology import CONTROLLER, GOAL_HELD, PLANT, TARGET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.static_checks import WATCHED
from servonode.nodes.fault_ladder import ESTOP, FINAL
from servonode.nodes.pause import PAUSED
from servonode.plants.drivers.applied_inputs import CLAMPED
from servonode.record.run import Run
from servonode.views.summary import summary_rows, unsafe_text

if TYPE_CHECKING:
    from servonode.analysis.check import Report

BAR = 24  # characters of the progress bar
TERMINAL_PERIOD_S, LOG_PERIOD_S = 0.2, 5.0


class StatusLine:
    """The live status line on stderr: rewritten in place on a terminal, repeated every few seconds in a log.

    Half of its attributes are what it must know of the run, the others what it showed last, and when.
    """

    def __init__(self, closed_loop: ClosedLoop, name: str, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.name = name
        self.duration = closed_loop.launch.duration_ns / 1e9
        self.units = {each.name: each.unit for each in closed_loop.residuals}
        self.waits = closed_loop.safety.on_fault == "wait"  # after a fault the run waits for a reset
        self.arms_itself = closed_loop.driver.simulated
        self.unsafe = unsafe_text(closed_loop)
        self.readonly = "READ ONLY" if closed_loop.readonly else ""
        self._last_reason = ""  # why the plant is not active, as of the last line
        self._terminal = self.stream.isatty()
        self._due = time.monotonic()
        self._begun: tuple[float, float] | None = None
        self._width = 0

    def __call__(self, status: Mapping[str, Status]) -> None:
        now = time.monotonic()
        if PLANT not in status:
            return
        reason = self._inactive_reason(status[PLANT])
        if now < self._due and reason == self._last_reason:
            return
        self._last_reason = reason
        self._due = now + (TERMINAL_PERIOD_S if self._terminal else LOG_PERIOD_S)
        text = self._text(status[PLANT], status.get(CONTROLLER), status.get(TARGET), now)
        if self._terminal:
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def _text(self, plant: Status, controller: Status | None, target: Status | None, now: float) -> str:
        if self._begun is None:
            self._begun = (now, plant.t)
        passed, driven = now - self._begun[0], plant.t - self._begun[1]
        rate = plant.values.get("rate") or (driven / passed if passed > 0 else 0.0)
        filled = round(BAR * plant.t / self.duration)
        bar = f"[{'#' * filled}{'.' * (BAR - filled)}] " if self._terminal else ""
        parts = [f"{self.name} {bar}{plant.t:.1f}/{self.duration:g} s", *filter(None, [self.readonly, self.unsafe])]
        reason = self._inactive_reason(plant)
        if reason:
            return "  ".join([*parts, reason])
        parts += ["GOAL HELD"] if target and target.values.get(GOAL_HELD) else []
        parts += ["THE MACHINE CLAMPS ITS INPUTS"] if plant.values.get(f"{EXTRA}{CLAMPED}") else []
        parts.append(f"{rate:.3g}x")
        if plant.values.get("round_trip"):
            parts.append(f"round trip {plant.values['round_trip'] * 1e3:.2f} ms")
        if controller is not None:
            parts += [
                f"{n} {controller.values[n]:+.1e} {unit}" for n, unit in self.units.items() if n in controller.values
            ]
        return "  ".join(parts)

    def _inactive_reason(self, plant: Status) -> str:
        """Why the plant is not active, and what to do; empty if it is active."""
        if plant.values.get(PAUSED):  # first: a paused run in real time is not armed
            return f"PAUSED: servonode resume {self.name}"
        if plant.lifecycle == "inactive":
            if self.readonly:
                return ""
            if plant.values.get("armed"):
                return "armed, waiting for a command"
            if self.arms_itself and plant.t == 0.0:
                return "starting"
            return f"waiting to be armed: servonode arm {self.name}"
        if plant.lifecycle == "fault":
            stopped = bool(plant.values.get(ESTOP))
            held = plant.fault not in FINAL and (self.waits or stopped)
            remedy = f", held safe: servonode reset {'--estop ' if stopped else ''}{self.name}"
            return f"FAULT {plant.fault}" + (remedy if held else "")
        return "waiting for the machine" if plant.lifecycle == "unconfigured" else ""

    def close(self) -> None:
        """End the line."""
        if self._terminal and self._width:
            self.stream.write("\n")
            self.stream.flush()


def table(run: Run, name: str, interrupted: bool = False, stopped: str = "") -> str:
    """The table at the end of a run or simulation. stopped: who stopped the plant early."""
    rows = summary_rows(run, name, interrupted, stopped)
    return "\n".join(f"  {key:<17} {text}" if key else text for key, text in rows)


MARKS = {"good": "ok  ", "warn": "warn", "refuse": "NO  "}


def check_text(report: "Report") -> str:
    """The report of `check` as text."""
    rows: list[tuple[str, Any]] = [
        ("file", report.file),
        ("machine", _machine(report)),
        ("state", ", ".join(report.state)),
        ("inputs", ", ".join(report.inputs) or "none"),
    ]
    if report.stabilised:
        rows.append(("reactions", f"{', '.join(report.reactions)}, which hold {', '.join(report.stabilised)}"))
    else:
        rows.append(("contact forces", ", ".join(report.constraints) or "none"))
    rows.append(("program", report.program or ("none: zero input" if report.inputs else "none")))
    for name, values in report.residuals.items():
        rows.append((f"  {name}", _residual(values)))
    rows += [("extension", text) for text in _extension(report.extension)]
    if report.program:
        rows += [("settings", ", ".join(f"{n} = {v:g}" for n, v in report.settings.items()) or "none")]
    if report.targets:
        rows.append(("targets", ", ".join(report.targets)))
    pace = f"real time at speed {report.speed:g}" if report.mode == "realtime" else "lockstep"
    period = f", control every {report.period:g} s" if report.period else ""
    rows.append(("time", f"{report.duration:g} s, {pace}, step {report.step:g} s ({report.integrator}){period}"))
    if report.command_timeout is not None and report.mode == "realtime":
        rows.append(("command timeout", f"{report.command_timeout * 1e3:.0f} ms of wall time"))
    if report.inputs:
        rows.append(("safety", _safety(report.safety)))
        rows += [("after a fault", f"{name} {does}") for name, does in report.after_fault.items()]
    rows += _numbers(report.numbers)
    rows += [(MARKS[each.level], f"{each.subject}: {each.text}") for each in report.findings]
    rows.append(("verdict", report.verdict))
    return "\n".join(f"{key:<16} {text}" for key, text in rows)


def refused_text(known: dict[str, Any], reason: str) -> str:
    """What `check` says of a program that is refused before it is examined; known: of `analysis.check.structure`."""
    rows = [("program", known["program"])] if known else []
    rows += [
        (f"  {name}", f"relative degree {values['relative_degree']}")
        for name, values in known.get("residuals", {}).items()
    ]
    rows += [("extension", text) for text in _extension(known.get("extension", {}))]
    rows += [(MARKS["refuse"], reason), ("verdict", "no")]
    return "\n".join(f"{key:<16} {text}" for key, text in rows)


def _residual(values: dict[str, Any]) -> str:
    if "relative_degree" not in values:
        return WATCHED
    held = (
        f"convergence rate {values['convergence_rate']:.4g} 1/s"
        if values["held"]
        else "monitored only: the program gives the inputs directly"
    )
    return f"relative degree {values['relative_degree']:.0f}, {held}"


def _extension(extension: dict[str, Any]) -> list[str]:
    """How the law controls residuals that the inputs do not reach directly."""
    if not extension:
        return []
    free = extension["left_free"]
    rows = [
        *extension["steps"],
        f"{free} of the states and integrators are left free" if free else "nothing is left free",
    ]
    where, of = extension["determinant"], extension["depends_on"]
    if not of:  # a number that is not 0
        return rows
    if where:
        return [*rows, f"singular where {where} is 0"]
    return [*rows, f"singular on a set of {', '.join(of)}: the run is near to it where the condition is large"]


def _safety(safety: dict[str, Any]) -> str:
    """The limits of the command filter, and the reaction to a fault."""
    kinds = (("limit", "limit"), ("rate_limit", "rate limit"))
    parts = [f"{word} {', '.join(f'{n} {v:g}' for n, v in safety[key].items())}" for key, word in kinds if safety[key]]
    if safety["arming_limit"]:
        shown = ", ".join(f"{name} {value:g}" for name, value in safety["arming_limit"].items())
        parts.append(f"for {safety['arming_time']:g} s after an arming limit {shown}")
    parts += [f"power limit {safety['power_limit']:g} W"] if safety["power_limit"] is not None else []
    after = {"stop": f"for {safety['safe_time']:g} s, then the end", "wait": "until a reset"}
    after["resume"] = "until a command comes again"
    parts.append(f"after a fault {safety['safe_action']} {after[safety['on_fault']]}")
    parts += [f"UNSAFE: {', '.join(safety['unsafe'])}"] if safety["unsafe"] else []
    return f"{'; '.join(parts)} (driver {safety['driver']})"


def _machine(report: "Report") -> str:
    """The machine's name, degrees of freedom and options."""
    n = report.degrees_of_freedom
    moves = f"{n} velocities, held by reactions" if report.stabilised else f"{n} degrees of freedom"
    return "; ".join([f"{report.machine}, {moves}", *(f"{name} = {value}" for name, value in report.options.items())])


def _numbers(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows for the condition, the peaks and the residuals to expect."""
    rows = []
    simulated = numbers.get("simulated", {})
    if "condition_max" in simulated:
        pose = "".join(f", {name} = {value:.3g}" for name, value in simulated["condition_max_pose"].items())
        at = f"{simulated['condition_max']:.4g} at t = {simulated['condition_max_t']:.2f} s{pose},"
        rows.append(("condition", f"{at} at worst along the run (1-norm of W, not scaled as in the rank line)"))
    if simulated:
        peaks = ", ".join(f"{name} {value:.4g}" for name, value in simulated["input_max"].items())
        power = f"power {simulated['power_min']:.3g} to {simulated['power_max']:.3g} W"
        rows.append(("peaks", f"{peaks}; {power}" if peaks else power))
    for key, title, word in (("steady_residual", "zero-order hold", "up to"), ("noise_residual", "noise", "about")):
        if key in numbers:
            left = ", ".join(f"{name} {word} {value:.2g}" for name, value in numbers[key].items())
            rows.append((title, f"leaves {left}"))
    return rows
