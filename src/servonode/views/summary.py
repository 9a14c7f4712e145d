"""What there is to say of a finished run: its measures, for the terminal, Python, reports and JSON.

A new measure is one entry of MEASURES. It then stands in the table at the end of a run, in `repr(run)`, in notebooks,
in the report's page and, with a key, in the object that `--json` prints.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.bus.durations import in_rows
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.record.events import injected_text
from servonode.record.run import Run
from servonode.tables import several, valued

Row = tuple[str, str]
MAX_WARNINGS = 5  # in a run's short table


@dataclass(frozen=True)
class Measure:
    """What stands under a title in the table of a run: a text, several, or a number in this unit; or nothing.

    key: the name of a number in JSON.
    """

    title: str
    value: Callable[[Run], str | float | Iterable[str]]
    unit: str = ""
    key: str = ""

    def rows(self, run: Run) -> list[Row]:
        """Its rows in the table of a run."""
        value = self.value(run)
        if isinstance(value, float | int):
            value = f"{value:.4g} {self.unit}".rstrip()
        return [(self.title, each) for each in ([value] if isinstance(value, str) else value) if each]


def summary_rows(run: Run, name: str, interrupted: bool = False, stopped: str = "", times: bool = True) -> list[Row]:
    """What a run or simulation gave: a line without title, then lines with one.

    stopped: who ended it before its time. times: with the table of the nodes' times.
    """
    end = float(run.t[-1]) if len(run.t) else 0.0
    rows = [("", f"{name}: {_ending(run, interrupted, stopped)} after {end:.3f} s of plant time in {run.wall_s:.2f} s")]
    for each in MEASURES:
        if each.title == "missed" and times and _paced(run):
            rows += in_rows(run.stats.get("nodes", {}))
        if each.title != "command time" or not (times and run.control == "realtime"):
            rows += each.rows(run)
    return [*rows, *([("stopped", f"the plant was told to stop: {stopped}")] if stopped and not interrupted else [])]


def short_rows(run: Run) -> list[Row]:
    """The same in few lines, with the state at the end and the columns."""
    described, end = run.closed_loop.machine.description, float(run.t[-1]) if len(run.t) else 0.0
    last = [(each, run.state[each.name][-1]) for each in described.state if len(run.t)]
    rows = [("end", f"{_ending(run)} after {end:.6g} s; took {run.wall_s:.3g} s (wall clock)")]
    rows += [row for row in summary_rows(run, "", times=False)[1:] if row[0] != "warning"]
    rows += [("state at the end", several((valued(each.name, value, each.unit) for each, value in last), 8))]
    rows += [("warning", str(each)) for each in run.warnings[:MAX_WARNINGS]]
    more = len(run.warnings) - MAX_WARNINGS
    rows += [("", f"{more} more in run.warnings")] if more > 0 else []
    return [*rows, ("columns", f"{several(run.columns, most=8)}; {len(run.t)} rows")]


def measures(run: Run) -> dict[str, Any]:
    """The numbers among the measures, as JSON has them."""
    return {each.key: each.value(run) for each in MEASURES if each.key}


def unsafe_text(closed_loop: ClosedLoop) -> str:
    """The protections that plant.safety.unsafe removes here; empty where it is not set."""
    return f"UNSAFE: {', '.join(closed_loop.safety.unsafe)}" if closed_loop.safety.unsafe else ""


def _ending(run: Run, interrupted: bool = False, stopped: str = "") -> str:
    if interrupted:
        return "broken off"
    if run.faults or stopped:
        return "ended by a fault" if run.faults else "stopped early"
    return "completed" if run.steps >= run.closed_loop.launch.steps else "cut off"


def _stat(title: str, key: str, text: Callable[[Any], str | Iterable[str]]) -> Measure:
    """A text of an entry of the run's `stats`, or of their `counts`, that is there and not 0."""

    def value(run: Run) -> str | Iterable[str]:
        found = run.stats.get(key) or run.stats.get("counts", {}).get(key)
        return text(found) if found else ()

    return Measure(title, value)


def _rate(run: Run) -> str:
    if "rate" not in run.stats:
        return ""
    asked = f" (asked {run.closed_loop.launch.run.speed:g})" if run.control == "realtime" else ""
    return f"{run.stats['rate']:.5g} plant seconds per second{asked}"


def _paced(run: Run) -> bool:
    """Whether it ran in real time, and its misses were counted."""
    return run.control == "realtime" and "misses" in run.stats


def _missed(run: Run) -> str:
    stats = run.stats
    missed = [f"{stats['misses']} deadlines", f"{stats.get('counts', {}).get('missed_commands', 0)} commands"]
    missed += [f"{stats['overruns']} overruns"] if stats.get("overruns") else []
    return ", ".join([*missed, f"{stats.get('stalls', 0)} host stalls"])


def _grant(run: Run) -> str:
    return str(run.stats.get("grants", {}).get("line", "").removeprefix("real time: "))


def _paused(run: Run) -> str:
    times = run.stats.get("pauses")
    return f"{times}x, {run.stats['paused_s']:.2f} s of wall-clock time in all" if times else ""


def _speed(to: float | None) -> str:
    return "max" if to is None else f"{to:g}"


def _command_time(run: Run) -> str:
    """How long a controller in Python took for a command."""
    taken = run.stats.get("nodes", {}).get("controller", {}).get("execution_s", {})
    return _milliseconds(taken) if run.closed_loop.has_own_controller else ""


def _milliseconds(seconds: Mapping[str, float]) -> str:
    return "   ".join(f"{key} {seconds[key] * 1e3:.3f} ms" for key in ("p50", "p99", "max") if key in seconds)


DROPS = ("refused_", "dropped_", "skipped_", "samples_")


def _lost_goals(nodes: Mapping[str, Mapping[str, int]]) -> str:
    """How often the messages of each goal have stopped."""
    counts = [each for named in nodes.values() for each in named.items()]
    return ", ".join(f"{word.removeprefix('lost_')} {n}x" for word, n in counts if n and word.startswith("lost_"))


def _dropped(nodes: Mapping[str, Mapping[str, int]]) -> str:
    """The messages that each node did not use, by reason."""
    found = {
        node: [f"{word.removeprefix('refused_')} {n}" for word, n in counts.items() if n and word.startswith(DROPS)]
        for node, counts in nodes.items()
    }
    return "; ".join(f"{node}: {', '.join(drops)}".replace("_", " ") for node, drops in found.items() if drops)


def _residuals(run: Run, largest: Mapping[str, float]) -> str:
    units = {each.name: each.unit for each in run.closed_loop.residuals}
    return "   ".join(f"{key} {value:.2e} {units[key]}" for key, value in largest.items())


def _truly(run: Run) -> str:
    """Residuals that the law did not see."""
    truly = _residuals(run, run.estimate.residual_max) if run.estimate else ""
    return f"{truly} (the law saw the estimate's)" if truly else ""


def _estimate(run: Run) -> str:
    """What an estimate was worth: squared errors for each expected."""
    if run.estimate is None:
        return ""
    known = np.nan_to_num(run.estimate.dimensions).any()  # else the truth is unknown
    nees = f"NEES {run.estimate.nees_mean:.3g}, " if known else ""
    return f"{nees}NIS {run.estimate.nis_mean:.3g}; 1 where it is as good as it says"


def _rejected(run: Run) -> str:
    if run.estimate is None or not run.estimate.rejected:
        return ""
    rejected = ", ".join(f"{name} {count}" for name, count in run.estimate.rejected_total.items() if count)
    return f"by the gate, readings of {rejected}" if rejected else "no reading, by the gate"


def _kept(run: Run) -> Iterable[str]:
    """How near each keep came to its border, and how often it acted."""
    units = run.units if run.keeps else {}
    for name, each in run.keeps.items():
        least = valued("least margin", each["margin"], units[f"margin_{name}"])
        yield f"{name}: {least} at t = {each['at']:.4g} s; acted at {each['acted']} control instants"


def _energy(run: Run) -> str:
    """How well energy and work agree; of an external plant only the energy is known."""
    if not len(run.energy):
        return "no row was recorded"
    energy = f"energy {float(run.energy[-1]):.4g} J"
    if np.isnan(run.work).all():
        return f"{energy}; its work is not measured"
    return f"{run.energy_error:.1e} J between energy and work ({energy})"


READ_ONLY = "nothing was sent to the machine; the inputs of the record are zero"
CLAMPED = "its own limits are below plant.safety.limit"
ROWS = "lost: nothing could be written for too long"
MEASURES = (
    Measure("safety", lambda run: unsafe_text(run.closed_loop)),
    _stat("read only", "readonly", lambda _: READ_ONLY),
    Measure("rate", _rate),
    Measure("paused", _paused),
    _stat("speed", "speed_changes", lambda to: f"changed by an operator to {', '.join(map(_speed, to))}"),
    _stat("changed", "changed_numbers", lambda to: [f"{key} to {v:g}, by an operator" for key, v in to.items()]),
    Measure("real time", lambda run: _grant(run) if _paced(run) else ""),
    Measure("missed", lambda run: _missed(run) if _paced(run) else ""),
    Measure("round trip", lambda run: "" if _paced(run) else _milliseconds(run.stats.get("round_trip_s", {}))),
    Measure("command time", _command_time),
    _stat("link latency", "link_latency_s", lambda s: f"{s * 1e3:.3f} ms by which an input acts later (median)"),
    _stat("repeated", "repeats", lambda n: f"the command before, for {n} periods"),
    _stat("machine clamped", "machine_clamped", lambda n: f"what it was sent in {n} states: {CLAMPED}"),
    _stat("late", "late_commands", lambda n: f"{n} commands, which acted after their instant"),
    _stat("lost goals", "node_counts", _lost_goals),
    _stat("the machine's own", "extra", lambda all: ", ".join(f"{name} {v:.4g}" for name, v in all.items())),
    _stat("started again", "restarts", lambda all: ", ".join(f"{node} {n}x" for node, n in all.items())),
    _stat("dropped", "node_counts", _dropped),
    Measure("largest residual", lambda run: _residuals(run, run.residual_max)),
    Measure("truly", _truly),
    Measure("estimate", _estimate),
    Measure("rejected", _rejected),
    Measure("kept", _kept),
    Measure("energy check", _energy),
    _stat("record", "lost_rows", lambda all: [f"{n} rows of the {node} are {ROWS}" for node, n in all.items()]),
    _stat("record", "incomplete", str),
    Measure("warning", lambda run: map(str, run.warnings)),
    Measure("fault", lambda run: [f"{each['name']} at t = {each['t']:.3f} s: {each['text']}" for each in run.faults]),
    Measure("faults", lambda run: "" if run.faults else "none"),
    _stat("injected", "injected", lambda all: map(injected_text, all)),
)
