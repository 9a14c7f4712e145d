"""A long run in real time: whether memory, files and threads stay as they are, and whether each miss is explained.

    python benchmarks/soak.py                            ten minutes at 500 Hz
    python benchmarks/soak.py --minutes 60 --hz 500      longer
    python benchmarks/soak.py --json                     the same numbers for machines

The robot with trailer at speed 1 through the launcher, all nodes as processes. Every five seconds resident memory, open
files and threads of each process are read from /proc; the slope of memory is the median of those between all pairs of
samples after the first minute (or the first fifth, if that is less), so that a single step of the allocator does not
count.

Beside the run a witness does nothing but sleep to absolute deadlines a millisecond apart, and notes when it woke
more than a millisecond late: then the computer, and not servonode, had no time. The plant's status messages say
how many ticks it has missed. What is missed between two of them is put down to the first of these that happened there,
with 50 ms on both sides: the host took time away (steal in /proc/stat); the witness was late; the plant was
ready to run, but was not given a core (its schedstat) for as many periods as it missed, beyond what it waits in the
median interval, as beside busy processes. The rest is unexplained. The share of all such intervals in which each
happened stands beside it: that is what chance gives.
"""

import argparse
import gc
import json
import os
import signal
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
from paced import paced_closed_loop, sharp_timer

from servonode.bus import Status
from servonode.bus.topology import CONTROLLER, LAUNCHER, PLANT
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.launcher import Launcher

Array = npt.NDArray[np.float64]
SAMPLE_S = 5.0
SETTLE_S = 60.0  # before memory is judged; less in short runs
SETTLE_SHARE = 0.2
WITNESS_NS = 1_000_000  # between two deadlines of the witness, and the lateness it notes
AROUND_NS = 50_000_000  # how far from a miss its explanation may lie
MOST_STATUSES = 21.0  # a second: the launcher looks no more often
EVERY_S = 0.1  # plant time between two recorded rows
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass
class Process:
    """Samples of one process: seconds, resident memory [kB], open files, threads, seconds of computing."""

    pid: int
    at: list[float] = field(default_factory=list)
    resident_kb: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    computed_s: list[float] = field(default_factory=list)

    def sample(self, at: float) -> None:
        """Read /proc once; a process that has ended gives nothing."""
        folder = Path(f"/proc/{self.pid}")
        try:
            pages = int((folder / "statm").read_text().split()[1])
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            files = sum(1 for _ in (folder / "fd").iterdir())
        except (OSError, IndexError):
            return
        self.at.append(at)
        self.resident_kb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1024)
        self.files.append(files)
        self.threads.append(int(fields[17]))
        self.computed_s.append((int(fields[11]) + int(fields[12])) * TICK_S)


@dataclass(frozen=True)
class Row:
    """One process: memory at the beginning and the end [kB], its slope [kB/min], most and fewest files and threads.

    slope_kb_per_min: None where the run was too short for one.
    record_kb_per_min: what the node's record of the run takes of that slope; its memory is had at the start, but the
    system counts a page only once it is written.
    """

    node: str
    begin_kb: float
    end_kb: float
    slope_kb_per_min: float | None
    record_kb_per_min: float
    files: tuple[int, int]
    threads: tuple[int, int]
    core_share: float
    resident_kb: list[float]  # each SAMPLE_S


@dataclass(frozen=True)
class Interval:
    """What happened between two status messages of the plant [monotonic ns]."""

    begin_ns: int
    end_ns: int
    misses: int
    stolen: bool
    waited_ns: int  # the plant was ready, but was not given a core


@dataclass(frozen=True)
class Cause:
    """Missed ticks put down to it, and the share of all intervals that have it, misses or not."""

    misses: int
    share: float


@dataclass(frozen=True)
class Soak:
    """All of a run: what stays, what was missed, and how much of it the computer explains."""

    seconds: float
    hz: float
    rows: list[Row]
    misses: int
    causes: dict[str, Cause]
    missed_commands: int
    stalls: int
    witness_late: int
    witness_worst_s: float
    stolen_s: float
    round_trip_s: dict[str, float]
    lateness_s: dict[str, float]


class Watch:
    """Looks at the run whenever the launcher shows its progress."""

    def __init__(self, seconds: float) -> None:
        self.begin = time.monotonic()
        # in memory that is there from the start, so that the watching does not grow what it watches
        self._intervals = np.full((round(seconds * MOST_STATUSES) + 1000, 5), -1)
        self.processes: dict[str, Process] = {LAUNCHER: Process(os.getpid())}
        self._count = 0
        self.launcher: Launcher | None = None
        self._due = self.begin
        self._last: Status | None = None
        self.stolen_before = self._stolen = stolen_ticks()
        self._waited = 0

    def progress(self, newest: dict[str, Status]) -> None:
        """Note what a new status of the plant says; sample the processes when that is due."""
        status = newest.get(PLANT)
        if status is not None and status is not self._last and "misses" in status.values:
            self._note(status)
        now = time.monotonic()
        if now >= self._due and self.launcher is not None:
            self._due += SAMPLE_S
            for name, child in self.launcher.processes.children.items():
                self.processes.setdefault(name, Process(child.pid))
            for process in self.processes.values():
                process.sample(now - self.begin)

    def intervals(self) -> list[Interval]:
        """What was noted, oldest first."""
        noted = self._intervals[: self._count].tolist()
        return [Interval(begin, end, misses, bool(stolen), waited) for begin, end, misses, stolen, waited in noted]

    def _note(self, status: Status) -> None:
        assert self.launcher is not None
        last, stolen, waited = self._last, stolen_ticks(), waited_ns(self.launcher.processes.children[PLANT].pid)
        if last is not None:
            misses = round(status.values["misses"] - last.values["misses"])
            passed = (stolen > self._stolen, waited - self._waited)
            self._intervals[self._count % len(self._intervals)] = (last.mono, status.mono, misses, *passed)
            self._count += 1
        self._last, self._stolen, self._waited = status, stolen, waited


def stolen_ticks() -> int:
    """The time that the host took from this computer, all cores [clock ticks]."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])


def waited_ns(pid: int) -> int:
    """How long the first thread of a process was ready to run, but had no core; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return 0


@contextmanager
def witness() -> Iterator[list[tuple[int, int]]]:
    """A process that only sleeps; the list is filled at the end: when it woke late, and by how much [ns]."""
    late: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "late.json"
        pid = os.fork()  # before the launcher has any thread or socket
        if pid == 0:
            try:
                sleep_on(file, os.getppid())
            finally:
                os._exit(0)
        try:
            yield late
        finally:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
        late.extend((at, by) for at, by in json.loads(file.read_text()))


def sleep_on(file: Path, parent: int) -> None:
    """The witness: to the next deadline, and the next, until SIGTERM or the parent's death."""
    over: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: over.append(number))
    gc.disable()
    sharp_timer()
    late: list[tuple[int, int]] = []
    deadline = time.monotonic_ns()
    while not over and os.getppid() == parent:
        deadline += WITNESS_NS
        if (ahead := deadline - time.monotonic_ns()) > 0:
            time.sleep(ahead / 1e9)
        woken = time.monotonic_ns()
        if woken - deadline > WITNESS_NS:
            late.append((woken, woken - deadline))
            deadline += (woken - deadline) // WITNESS_NS * WITNESS_NS
    file.write_text(json.dumps(late))


def soak(minutes: float, hz: float) -> Soak:
    """The run and what was seen of it.

    Raises:
        SystemExit: the run met a fault.
    """
    seconds = minutes * 60.0
    closed_loop = paced_closed_loop(1.0 / hz, seconds)
    every = round(EVERY_S * 1e9 / closed_loop.launch.step_ns)
    watch = Watch(seconds)
    with witness() as late:
        watch.launcher = Launcher(closed_loop, f"soak_{os.getpid()}", every, watch.progress)
        outcome = watch.launcher.launch()
    if outcome.run is None or outcome.exit_code:
        print(f"the run met a fault: {outcome.faults or 'interrupted'}", file=sys.stderr)
    if outcome.run is None:
        raise SystemExit("nothing was measured")
    stats = outcome.run.stats
    return Soak(
        seconds=outcome.run.wall_s,
        hz=hz,
        rows=[row_of(n, each, record_kb_per_min(closed_loop, n)) for n, each in watch.processes.items() if each.at],
        misses=stats["misses"],
        causes=causes_of(watch.intervals(), [at for at, _ in late], 1e9 / hz),
        missed_commands=stats["counts"].get("missed_commands", 0),
        stalls=stats["stalls"],
        witness_late=len(late),
        witness_worst_s=max((by for _, by in late), default=0) / 1e9,
        stolen_s=(stolen_ticks() - watch.stolen_before) * TICK_S,
        round_trip_s=stats["round_trip_s"],
        lateness_s=stats["lateness_s"],
    )


def causes_of(intervals: list[Interval], late_ns: list[int], period_ns: float) -> dict[str, Cause]:
    """The missed ticks of all intervals by their cause; `late_ns`: when the witness woke late, oldest first."""

    def witnessed(each: Interval) -> bool:
        first = bisect_left(late_ns, each.begin_ns - AROUND_NS)
        return first < len(late_ns) and late_ns[first] <= each.end_ns + AROUND_NS

    usual = median(each.waited_ns for each in intervals) if intervals else 0.0
    tests: dict[str, Callable[[Interval], bool]] = {
        "stolen by the host": lambda each: each.stolen,
        "witness late": witnessed,
        "no core for the plant": lambda each: each.waited_ns - usual >= max(each.misses, 1) * period_ns,
        "unexplained": lambda _: True,
    }
    misses = dict.fromkeys(tests, 0)
    for each in intervals:
        misses[next(cause for cause, test in tests.items() if test(each))] += each.misses
    n = max(len(intervals), 1)
    return {cause: Cause(misses[cause], sum(map(test, intervals)) / n) for cause, test in tests.items()}


def record_kb_per_min(closed_loop: ClosedLoop, node: str) -> float:
    """What a node records: the plant a row each EVERY_S, the controller one for each state it answers."""
    description, launch = closed_loop.machine.description, closed_loop.launch
    if node == PLANT:  # with its step, and the work beside the states
        return (2 + len(description.state_names) + len(description.input_names)) * 8 / EVERY_S * 60 / 1024
    if node == CONTROLLER and closed_loop.control is not None:
        return closed_loop.control.law.record_layout.size * 8 / ((launch.period_ns or 0) / 1e9) * 60 / 1024
    return 0.0


def row_of(node: str, process: Process, recorded: float) -> Row:
    """A process's samples in one line."""
    at, resident = np.array(process.at), np.array(process.resident_kb)
    later = at >= min(SETTLE_S, SETTLE_SHARE * at[-1])
    slope = median_slope(at[later], resident[later]) * 60.0 if later.sum() > 2 else None
    passed = at[-1] - at[0]
    return Row(
        node=node,
        begin_kb=float(resident[later][0]),
        end_kb=float(resident[-1]),
        slope_kb_per_min=slope,
        record_kb_per_min=recorded,
        files=(min(process.files), max(process.files)),
        threads=(min(process.threads), max(process.threads)),
        core_share=(process.computed_s[-1] - process.computed_s[0]) / passed if passed else 0.0,
        resident_kb=process.resident_kb,
    )


def median_slope(t: Array, values: Array) -> float:
    """The median of the slopes between all pairs of samples: what happens once does not count."""
    first, second = np.triu_indices(len(t), 1)
    return float(np.median((values[second] - values[first]) / (t[second] - t[first])))


def table(found: Soak) -> str:
    """Memory, files and threads of each process, then what was missed and why."""
    lines = [
        f"{'process':<12}{'memory':>12}{'slope':>14}{'of it record':>14}{'files':>9}{'threads':>9}{'of a core':>11}"
    ]
    for row in found.rows:
        files, threads = (f"{low}..{high}" if low < high else f"{low}" for low, high in (row.files, row.threads))
        slope = "too short" if row.slope_kb_per_min is None else f"{row.slope_kb_per_min:.1f} kB/min"
        sizes = f"{row.end_kb / 1024:>9.1f} MB{slope:>14}{row.record_kb_per_min:>14.1f}"
        lines.append(f"{row.node:<12}{sizes}{files:>9}{threads:>9}{row.core_share:>11.2f}")
    states = found.seconds * found.hz
    lines += [
        f"{found.seconds:.0f} s at {found.hz:g} Hz",
        f"missed ticks      {found.misses} of {states:.0f}",
        *(f"  {cause:<22}{each.misses:>6}{note(cause, each)}" for cause, each in found.causes.items()),
        f"missed commands   {found.missed_commands}",
        f"stalls            {found.stalls}",
        f"witness           late {found.witness_late} times, at worst {found.witness_worst_s * 1e3:.1f} ms;"
        f" {found.stolen_s:.2f} s stolen by the host",
    ]
    for name, times in (("round trip", found.round_trip_s), ("lateness", found.lateness_s)):
        shown = ", ".join(f"{quantile} {seconds * 1e6:.0f} us" for quantile, seconds in times.items())
        lines.append(f"{name:<18}{shown}")
    return "\n".join(lines)


def note(cause: str, each: Cause) -> str:
    """How often the cause is there anyway."""
    return "" if cause == "unexplained" else f"   (in {each.share:.1%} of all intervals)"


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the run (default: 10)")
    parser.add_argument("--hz", type=float, default=500.0, help="control rate; its period is whole microseconds")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    arguments = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("soak.py reads /proc, which this system does not have; run it on Linux")
    found = soak(arguments.minutes, arguments.hz)
    print(json.dumps(asdict(found), indent=1) if arguments.json else table(found))


if __name__ == "__main__":
    main()
