"""Output of the command line for people: the live status line and the tables."""

import sys
import time
from collections.abc import Mapping
from typing import TextIO

from servonode.bus import Status
from servonode.bus.durations import EXTRA
from servonode.bus.topology import CONTROLLER, GOAL_HELD, PLANT, TARGET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.fault_ladder import ESTOP, FINAL
from servonode.nodes.pause import PAUSED
from servonode.plants.drivers.applied_inputs import CLAMPED
from servonode.record.run import Run
from servonode.views.summary import summary_rows, unsafe_text

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
