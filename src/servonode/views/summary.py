"""The summary of a finished run in lines of words, for the table on the terminal and the report."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servonode.bus.durations import in_rows
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.record.injected import injected_text
from servonode.record.run import Run

Row = tuple[str, str]


def unsafe_text(closed_loop: ClosedLoop) -> str:
    """The protections that plant.safety.unsafe removes here; empty where it is not set."""
    return f"UNSAFE: {', '.join(closed_loop.safety.unsafe)}" if closed_loop.safety.unsafe else ""


def summary_rows(run: Run, name: str, interrupted: bool = False, stopped: str = "", times: bool = True) -> list[Row]:
    """What a run or simulation gave: a line without title, then lines with one.

    stopped: who ended it before its time. times: with the table of the nodes' times.
    """
    ending = "completed" if run.steps >= run.closed_loop.launch.steps else "cut off"
    ending = "ended by a fault" if run.faults else "stopped early" if stopped else ending
    ending, end = "broken off" if interrupted else ending, float(run.t[-1]) if len(run.t) else 0.0
    rows = [("", f"{name}: {ending} after {end:.3f} s of plant time in {run.wall_s:.2f} s")]
    stats = run.stats
    unsafe = unsafe_text(run.closed_loop)
    if unsafe:
        rows.append(("safety", unsafe))
    if stats.get("readonly"):
        rows.append(("read only", "nothing was sent to the machine; the inputs of the record are zero"))
    if "rate" in stats:
        asked = f" (asked {run.closed_loop.launch.run.speed:g})" if run.control == "realtime" else ""
        rows.append(("rate", f"{stats['rate']:.5g} plant seconds per second{asked}"))
    rows += _operated(stats)
    rows += _kept_time(run, times)
    if run.residual_max:
        units = {each.name: each.unit for each in run.closed_loop.residuals}
        shown = "   ".join(f"{key} {value:.2e} {units[key]}" for key, value in run.residual_max.items())
        rows.append(("largest residual", shown))
    rows += _estimated(run)
    rows.append(("energy check", _energy(run)))
    for node, count in stats.get("lost_rows", {}).items():
        rows.append(("record", f"{count} rows of the {node} are lost: nothing could be written for too long"))
    rows += [("record", stats["incomplete"])] if stats.get("incomplete") else []
    rows += [("warning", str(each)) for each in run.warnings]
    rows += [("fault", f"{each['name']} at t = {each['t']:.3f} s: {each['text']}") for each in run.faults]
    rows += [] if run.faults else [("faults", "none")]
    rows += [("injected", injected_text(each)) for each in stats.get("injected", ())]
    rows += [("stopped", f"the plant was told to stop: {stopped}")] if stopped and not interrupted else []
    return rows


def _operated(stats: Mapping[str, Any]) -> list[Row]:
    """What operators did: how long plant time stood still, the speeds that they asked for, the numbers they changed."""
    rows = []
    if times := stats.get("pauses"):
        rows.append(("paused", f"{times}x, {stats['paused_s']:.2f} s of wall-clock time in all"))
    if speeds := stats.get("speed_changes"):
        words = ", ".join("max" if speed is None else f"{speed:g}" for speed in speeds)
        rows.append(("speed", f"changed by an operator to {words}"))
    rows += [
        ("changed", f"{key} to {value:g}, by an operator") for key, value in stats.get("changed_numbers", {}).items()
    ]
    return rows


def _estimated(run: Run) -> list[Row]:
    """What an estimate was worth: residuals that the law did not see, and squared errors for each expected."""
    if run.estimate is None:
        return []
    units = {each.name: each.unit for each in run.closed_loop.residuals}
    truly = "   ".join(f"{key} {value:.2e} {units[key]}" for key, value in run.estimate.residual_max.items())
    nees = (
        f"NEES {run.estimate.nees_mean:.3g}, " if np.nan_to_num(run.estimate.dimensions).any() else ""
    )  # else the truth is unknown
    text = f"{nees}NIS {run.estimate.nis_mean:.3g}; 1 where it is as good as it says"
    known = [*([("truly", f"{truly} (the law saw the estimate's)")] if truly else []), ("estimate", text)]
    rejected = ", ".join(f"{name} {count}" for name, count in run.estimate.rejected_total.items() if count)
    gate = [("rejected", f"by the gate, readings of {rejected}" if rejected else "no reading, by the gate")]
    return [*known, *(gate if run.estimate.rejected else [])]


def _kept_time(run: Run, times: bool) -> list[Row]:
    """Times, missed deadlines and unused messages of a run on processes."""
    stats, rows = run.stats, []
    counts = stats.get("counts", {})
    if run.control == "realtime" and "misses" in stats:
        granted = stats.get("grants", {}).get("line", "").removeprefix("real time: ")
        rows += [("real time", granted)] if granted else []
        rows += in_rows(stats.get("nodes", {})) if times else []
        missed = [f"{stats['misses']} deadlines", f"{counts.get('missed_commands', 0)} commands"]
        missed += [f"{stats['overruns']} overruns"] if stats.get("overruns") else []
        rows.append(("missed", ", ".join([*missed, f"{stats.get('stalls', 0)} host stalls"])))
    elif stats.get("round_trip_s"):
        trip = {key: stats["round_trip_s"].get(key, 0.0) * 1e3 for key in ("p50", "p99", "max")}
        rows.append(("round trip", "   ".join(f"{key} {value:.3f} ms" for key, value in trip.items())))
    if run.closed_loop.has_own_controller and not (run.control == "realtime" and times):
        rows += _command_times(stats.get("nodes", {}).get("controller", {}).get("execution_s", {}))
    if stats.get("link_latency_s"):
        text = f"{stats['link_latency_s'] * 1e3:.3f} ms by which an input acts later (median)"
        rows.append(("link latency", text))
    if counts.get("repeats"):
        rows.append(("repeated", f"the command before, for {counts['repeats']} periods"))
    if counts.get("machine_clamped"):
        text = f"what it was sent in {counts['machine_clamped']} states: its own limits are below plant.safety.limit"
        rows.append(("machine clamped", text))
    if counts.get("late_commands"):
        rows.append(("late", f"{counts['late_commands']} commands, which acted after their instant"))
    lost = [text for counts in stats.get("node_counts", {}).values() for text in _lost(counts)]
    rows += [("lost goals", ", ".join(lost))] if lost else []
    if stats.get("extra"):
        rows.append(("the machine's own", ", ".join(f"{name} {value:.4g}" for name, value in stats["extra"].items())))
    if stats.get("restarts"):
        rows.append(("started again", ", ".join(f"{node} {n}x" for node, n in stats["restarts"].items())))
    dropped = [text for node, counts in stats.get("node_counts", {}).items() if (text := _dropped(node, counts))]
    return rows + ([("dropped", "; ".join(dropped))] if dropped else [])


def _command_times(taken: Mapping[str, float]) -> list[Row]:
    """How long a controller in Python took for a command."""
    shown = [f"{key} {taken[key] * 1e3:.3f} ms" for key in ("p50", "p99", "max") if key in taken]
    return [("command time", "   ".join(shown))] if shown else []


LOST = "lost_"  # a count of a target node's, before the goal's name
DROPS = ("refused_", "dropped_", "skipped_", "samples_")


def _dropped(node: str, counts: Mapping[str, int]) -> str:
    """The messages a node did not use, by reason; empty where it used all."""
    drops = [f"{word.removeprefix('refused_')} {n}" for word, n in counts.items() if n and word.startswith(DROPS)]
    return f"{node}: {', '.join(drops)}".replace("_", " ") if drops else ""


def _lost(counts: Mapping[str, int]) -> list[str]:
    """How often the messages of each goal have stopped."""
    return [f"{word.removeprefix(LOST)} {n}x" for word, n in counts.items() if n and word.startswith(LOST)]


def _energy(run: Run) -> str:
    """How well energy and work agree; of an external plant only the energy is known."""
    if not len(run.energy):
        return "no row was recorded"
    energy = f"energy {float(run.energy[-1]):.4g} J"
    if np.isnan(run.work).all():
        return f"{energy}; its work is not measured"
    return f"{run.energy_error:.1e} J between energy and work ({energy})"
