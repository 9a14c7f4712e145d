"""What a launch gave: the record that the nodes left in the run's folder, faults, times, counts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from servonode.nodes.assembly import Assembly
from servonode.nodes.node import CONTROLLER, PLANT, TARGET
from servonode.nodes.result import Run, run_of_rows

SHOWN = ("rate", "misses", "round_trip_s", "counts", "lateness_s", "stalls", "overruns", "grants")  # of the plant


@dataclass
class Outcome:
    """What a launch gave: the run as far as it was recorded, faults of nodes, whether the user broke it off."""

    run: Run | None = None
    faults: list[dict[str, Any]] = field(default_factory=list)
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 1 if self.faults else 0


def collect(
    outcome: Outcome, assembly: Assembly, folder: Path, nodes: Sequence[str], restarts: dict[str, int], wall_s: float
) -> None:
    """Read what the nodes left in the run's folder into the outcome: their faults, and the run if there is a record."""
    summaries = {name: _read_json(folder / f"{name}.json") for name in nodes}
    plant, controller = summaries[PLANT], summaries.get(CONTROLLER, {})
    order = (TARGET, CONTROLLER, PLANT)  # a goal or a law that failed is the reason for what the plant found
    faults = [fault for name in order for fault in summaries.get(name, {}).get("faults", [])]
    known = {fault["text"] for fault in outcome.faults}
    outcome.faults += _unique(fault for fault in faults if fault["text"] not in known)
    if not (folder / f"{PLANT}.npy").exists() or not plant:
        return
    rows = np.load(folder / f"{PLANT}.npy")
    if not len(rows):
        return
    recorded = assembly.control.law.n_recorded if assembly.control else 0
    file = folder / f"{CONTROLLER}.npy"
    answers = np.load(file) if file.exists() else np.zeros((0, 1 + recorded))
    outcome.run = run_of_rows(
        assembly, assembly.launch.run.mode, rows, answers, plant.get("wall_s", wall_s), faults=outcome.faults,
        residual_max=controller.get("residual_max", {}), stats=_stats(summaries) | {"restarts": restarts},
    )  # fmt: skip


def _stats(summaries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Rates, times by node, counts by node."""
    plant = summaries[PLANT]
    times = {name: summary.get("times", {}) for name, summary in summaries.items()}
    if plant.get("lateness_s"):
        times[PLANT] = times[PLANT] | {"lateness_s": plant["lateness_s"]}
    counts = {name: summary.get("counts", {}) for name, summary in summaries.items()}
    return {name: plant[name] for name in SHOWN if name in plant} | {"nodes": times, "node_counts": counts}


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content


def _unique(faults: Any) -> list[dict[str, Any]]:
    seen: dict[str, dict[str, Any]] = {}
    for fault in faults:
        seen.setdefault(fault["text"], fault)
    return list(seen.values())
