"""The outcome of a launch: the record of the nodes, faults, times, counts, and how the run ended."""

from dataclasses import dataclass, field
from typing import Any, Literal

from servonode.bus.topology import NODES, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.recording import Recording
from servonode.record.events import merged_faults, with_found
from servonode.record.run import Run

Ending = Literal["completed", "fault", "stopped early", "broken off"]

SHOWN = (  # parts of the plant's summary that the statistics of a run contain
    "rate",
    "misses",
    "round_trip_s",
    "counts",
    "lateness_s",
    "stalls",
    "overruns",
    "grants",
    "readonly",
    "link_latency_s",
    "pauses",
    "paused_s",
    "speed_changes",
)


@dataclass
class Outcome:
    """The outcome of a launch: the run as far as it was recorded, and how it ended.

    earlier: the runs of a plant that died and was restarted. faults: those of all nodes. signal: the first signal by
    which the launcher was told to end. stopped: who told the plant to stop before its time; empty where nobody did.
    """

    run: Run | None = None
    earlier: list[Run] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    signal: int | None = None
    stopped: str = ""

    @property
    def interrupted(self) -> bool:
        return self.signal is not None

    @property
    def ending(self) -> Ending:
        """How the run ended, in words."""
        if self.interrupted:
            return "broken off"
        return "fault" if self.faults else "stopped early" if self.stopped else "completed"

    @property
    def exit_code(self) -> int:
        """128 plus the signal if the run was interrupted, 1 after a fault or if the plant was stopped, else 0."""
        return 128 + self.signal if self.signal is not None else int(self.ending != "completed")


def collect(
    outcome: Outcome, closed_loop: ClosedLoop, recording: Recording, restarts: dict[str, int], wall_s: float
) -> None:
    """Take what the nodes left into the outcome: their faults, and the run if there is a record."""
    summaries = {name: memory.summary for name, memory in recording.memories.items()}
    plant = summaries[PLANT]
    # the plant comes last in the table: a failed goal or law is the cause of the fault that it found
    outcome.faults = merged_faults(outcome.faults, *(summaries.get(name, {}).get("faults", []) for name in NODES))
    if plant and plant.get("k", closed_loop.launch.steps) < closed_loop.launch.steps:
        outcome.stopped = plant.get("stopped_by") or "it ended before its time"
    lost = {name: memory.rows.lost for name, memory in recording.memories.items() if memory.rows and memory.rows.lost}
    stats = _stats(summaries) | {"restarts": restarts, "lost_rows": lost}
    if changed := {key: value for each in summaries.values() for key, value in each.get("changed", {}).items()}:
        stats["changed_numbers"] = changed
    if injected := plant.get("injected") or []:
        stats["injected"] = with_found(injected, outcome.faults)
    rows = recording.collect()
    if lacking := recording.lacking():
        stats["incomplete"] = "; ".join(lacking)
    more = {"faults": outcome.faults, "stats": stats}
    runs = rows.runs(closed_loop, plant.get("wall_s", wall_s), **more)
    if runs:
        *outcome.earlier, outcome.run = runs


def _stats(summaries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The statistics of a run: rates, times and counts by node."""
    plant = summaries[PLANT]
    times = {name: summary.get("times", {}) for name, summary in summaries.items()}
    if plant.get("lateness_s"):
        times[PLANT] = times[PLANT] | {"lateness_s": plant["lateness_s"]}
    counts = {name: summary.get("counts", {}) for name, summary in summaries.items()}
    return {name: plant[name] for name in (*SHOWN, "extra") if name in plant} | {"nodes": times, "node_counts": counts}
