"""A long run in real time: whether memory, files and threads of its processes stay as they are.

    python benchmarks/soak.py                            ten minutes at 500 Hz
    python benchmarks/soak.py --minutes 60 --hz 500      longer
    python benchmarks/soak.py --json                     the same numbers for machines

The robot with trailer at speed 1 through the launcher, all nodes as processes. Every five seconds resident memory, open
files and threads of each process are read from /proc; the slope of memory is the median of those between all pairs of
samples after the first minute (or the first fifth, if that is less), so that a single step of the allocator does not
count. A node's record of the run is part of its slope.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from paced import paced_closed_loop

from servonode.bus import Status
from servonode.bus.topology import LAUNCHER
from servonode.nodes.launcher import Launcher

Array = npt.NDArray[np.float64]
SAMPLE_S = 5.0
SETTLE_S = 60.0  # before memory is judged; less in short runs
SETTLE_SHARE = 0.2
EVERY_S = 0.1  # plant time between two recorded rows
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass
class Process:
    """Samples of one process: seconds, resident memory [kB], open files, threads, seconds of computing."""

    pid: int
    samples: list[tuple[float, float, int, int, float]] = field(default_factory=list)

    def sample(self, at: float) -> None:
        """Read /proc once; a process that has ended gives nothing."""
        folder = Path(f"/proc/{self.pid}")
        try:
            pages = int((folder / "statm").read_text().split()[1])
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            files = sum(1 for _ in (folder / "fd").iterdir())
        except (OSError, IndexError):
            return
        resident_kb = pages * os.sysconf("SC_PAGE_SIZE") / 1024
        computed_s = (int(fields[11]) + int(fields[12])) * TICK_S
        self.samples.append((at, resident_kb, files, int(fields[17]), computed_s))


@dataclass(frozen=True)
class Row:
    """One process: memory at the end [kB], its slope [kB/min] (None: too short a run), files, threads, computing."""

    node: str
    memory_kb: float
    slope_kb_per_min: float | None
    files: tuple[int, int]  # fewest and most
    threads: tuple[int, int]
    core_share: float


class Watch:
    """Samples the run's processes whenever the launcher shows its progress and a sample is due."""

    def __init__(self) -> None:
        self.begin = self._due = time.monotonic()
        self.processes: dict[str, Process] = {LAUNCHER: Process(os.getpid())}
        self.launcher: Launcher | None = None

    def progress(self, _: dict[str, Status]) -> None:
        """Sample the processes when that is due."""
        now = time.monotonic()
        if now < self._due or self.launcher is None:
            return
        self._due += SAMPLE_S
        for name, child in self.launcher.processes.children.items():
            self.processes.setdefault(name, Process(child.pid))
        for process in self.processes.values():
            process.sample(now - self.begin)


def soak(minutes: float, hz: float) -> tuple[list[Row], dict[str, float]]:
    """A row for each process, and what the plant missed.

    Raises:
        SystemExit: the run met a fault.
    """
    closed_loop = paced_closed_loop(1.0 / hz, minutes * 60.0)
    every = round(EVERY_S * 1e9 / closed_loop.launch.step_ns)
    watch = Watch()
    watch.launcher = Launcher(closed_loop, f"soak_{os.getpid()}", every, watch.progress)
    outcome = watch.launcher.launch()
    if outcome.run is None or outcome.exit_code:
        raise SystemExit(f"the run met a fault: {outcome.faults or 'interrupted'}")
    stats = outcome.run.stats
    missed = {"states": minutes * 60.0 * hz, "missed ticks": stats["misses"]}
    missed |= {"missed commands": stats["counts"].get("missed_commands", 0), "stalls": stats["stalls"]}
    return [row_of(name, each) for name, each in watch.processes.items() if each.samples], missed


def row_of(node: str, process: Process) -> Row:
    """A process's samples in one line."""
    at, resident, files, threads, computed = np.array(process.samples).T
    later = at >= min(SETTLE_S, SETTLE_SHARE * at[-1])
    passed = at[-1] - at[0]
    return Row(
        node=node,
        memory_kb=float(resident[-1]),
        slope_kb_per_min=median_slope(at[later], resident[later]) * 60.0 if later.sum() > 2 else None,
        files=(int(files.min()), int(files.max())),
        threads=(int(threads.min()), int(threads.max())),
        core_share=float(computed[-1] - computed[0]) / passed if passed else 0.0,
    )


def median_slope(t: Array, values: Array) -> float:
    """The median of the slopes between all pairs of samples: what happens once does not count."""
    first, second = np.triu_indices(len(t), 1)
    return float(np.median((values[second] - values[first]) / (t[second] - t[first])))


def table(rows: list[Row], missed: dict[str, float]) -> str:
    """Memory, files and threads of each process, then what was missed."""
    lines = [f"{'process':<12}{'memory':>12}{'slope':>14}{'files':>9}{'threads':>9}{'of a core':>11}"]
    for row in rows:
        files, threads = (f"{low}..{high}" if low < high else f"{low}" for low, high in (row.files, row.threads))
        slope = "too short" if row.slope_kb_per_min is None else f"{row.slope_kb_per_min:.1f} kB/min"
        size = f"{row.memory_kb / 1024:>9.1f} MB{slope:>14}"
        lines.append(f"{row.node:<12}{size}{files:>9}{threads:>9}{row.core_share:>11.2f}")
    return "\n".join([*lines, ", ".join(f"{name} {number:g}" for name, number in missed.items())])


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the run (default: 10)")
    parser.add_argument("--hz", type=float, default=500.0, help="control rate; its period is whole microseconds")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("soak.py reads /proc, which this system does not have; run it on Linux")
    rows, missed = soak(arguments.minutes, arguments.hz)
    content = {"rows": [asdict(row) for row in rows], "missed": missed}
    print(json.dumps(content, indent=1) if arguments.json else table(rows, missed))


if __name__ == "__main__":
    main()
