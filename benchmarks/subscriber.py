"""What a frozen and a killed subscriber cost a real-time run.

    python benchmarks/subscriber.py            the table
    python benchmarks/subscriber.py --long     also the plant's memory beside a frozen subscriber, 60 s; a minute more
    python benchmarks/subscriber.py --json     the same numbers for machines

Three kinds of runs, interleaved: alone; with a process that listens to every state, applied, target, report and
command and is stopped (SIGSTOP) after a second; and with one that is killed (SIGKILL) after a second. The listener is
connected to the run as any viewer is, over its registry. Compared are the p99 of the round trip and of the plant's
lateness, each as the median over the runs: such a listener may not cost more than half as much again and 0.2 ms.
"""

import argparse
import json
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from paced import LAUNCH, paced_closed_loop

from servonode.bus import run_path
from servonode.bus.topology import PLANT, publishers
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.nodes.launcher import Launcher
from servonode.operator.listener import Listener

RATES_HZ = (500, 1000)
RUN_S = 6.0
ROUNDS = 4  # of the three kinds, at each rate
LONG_S = 60.0
LISTEN_S = 1.0  # how long the listener reads before it is stopped or killed
SHARE, MARGIN_S = 1.5, 0.2e-3  # the bound: p99 beside a stalled listener to p99 alone
TIMES = ("round_trip_s", "lateness_s")
KINDS: dict[str, int | None] = {"alone": None, "stopped": signal.SIGSTOP, "killed": signal.SIGKILL}
EVERYTHING = ("state", "applied", "command", "report", "target")


@dataclass(frozen=True)
class Row:
    """Medians over the runs of one kind at one rate [s], of the shares missed, and whether the bound is kept."""

    rate_hz: int
    kind: str
    round_trip_p50_s: float
    round_trip_p99_s: float
    lateness_p99_s: float
    missed: float
    kept: bool


@dataclass(frozen=True)
class Memory:
    """Resident memory of the plant [MB] beside a frozen listener: when it was stopped, halfway, at the end."""

    seconds: float
    begin_mb: float
    middle_mb: float
    end_mb: float


def listen(name: str, started: int) -> None:
    """The listener's process: reads the run `name` to its end; writes a byte to `started` with the first message."""
    with Listener(str(run_path(name)), partial(publishers, EVERYTHING)) as run:
        run.wait_open(until=lambda: False)
        for number, _ in enumerate(run.messages()):
            if not number:
                os.write(started, b".")


@contextmanager
def listener(name: str, end: int | None) -> Iterator[None]:
    """A listener to the run `name` that receives signal `end` LISTEN_S after its first message; None: no listener."""
    if end is None:
        yield
        return
    over, done = os.pipe()
    striker = os.fork()  # before the launcher has any thread or socket
    if striker == 0:
        try:
            os.close(done)
            strike(name, end, over)
        finally:
            os._exit(0)
    os.close(over)
    try:
        yield
    finally:
        os.close(done)  # the nodes, which had it too, have ended
        os.waitpid(striker, 0)


def strike(name: str, end: int, over: int) -> None:
    """Start the listener, send it signal `end` in its time, and clear it away once `over` is closed elsewhere."""
    received, started = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            listen(name, started)
        finally:
            os._exit(1)
    os.close(started)
    ready, _, _ = select.select([received, over], (), ())
    if received in ready and os.read(received, 1):
        time.sleep(LISTEN_S)
        os.kill(pid, end)
    os.read(over, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def run(closed_loop: ClosedLoop, end: int | None) -> dict[str, Any]:
    """The statistics of one run beside a listener that meets signal `end`.

    Raises:
        SystemExit: the run met a fault.
    """
    name = f"{LAUNCH}_{os.getpid()}"
    launcher = Launcher(closed_loop, name, 10, lambda _: None)
    with listener(name, end):
        outcome = launcher.launch()
    if outcome.run is None or outcome.exit_code:
        raise SystemExit(f"the launch failed, nothing was measured: {outcome.faults or 'interrupted'}")
    return outcome.run.stats


def compare() -> list[Row]:
    """The table's rows: for each rate the three kinds, interleaved in an order that turns with every round."""
    rows = []
    for rate in RATES_HZ:
        closed_loop = paced_closed_loop(1.0 / rate, RUN_S)
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for i in range(ROUNDS):
            for kind in (*KINDS, *KINDS)[i % 3 : i % 3 + 3]:
                found[kind].append(run(closed_loop, KINDS[kind]))
        rows += rows_of(rate, found)
    return rows


def rows_of(rate: int, found: dict[str, list[dict[str, Any]]]) -> list[Row]:
    """A row for each kind at one rate."""

    def p99(kind: str, times: str) -> float:
        return median([float(stats[times]["p99"]) for stats in found[kind]])

    bound = {times: SHARE * p99("alone", times) + MARGIN_S for times in TIMES}
    return [
        Row(
            rate_hz=rate,
            kind=kind,
            round_trip_p50_s=median(each["round_trip_s"]["p50"] for each in runs),
            round_trip_p99_s=p99(kind, "round_trip_s"),
            lateness_p99_s=p99(kind, "lateness_s"),
            missed=sum(each["counts"].get("missed_commands", 0) for each in runs) / (len(runs) * RUN_S * rate),
            kept=all(p99(kind, times) <= bound[times] for times in TIMES),
        )
        for kind, runs in found.items()
    ]


def memory() -> Memory:
    """The plant's resident memory during a run of LONG_S at 1 kHz beside a listener that is frozen after a second."""
    name = f"{LAUNCH}_{os.getpid()}"
    taken: list[tuple[float, float]] = []

    def look(_: object) -> None:
        resident = resident_mb(launcher.processes.children[PLANT].pid)
        if resident is not None:
            taken.append((time.monotonic(), resident))

    launcher = Launcher(paced_closed_loop(0.001, LONG_S), name, 1000, look)
    with listener(name, signal.SIGSTOP):
        outcome = launcher.launch()
    if outcome.exit_code or not taken:
        raise SystemExit(f"the launch failed, nothing was measured: {outcome.faults or 'interrupted'}")
    begin = next(i for i, (at, _) in enumerate(taken) if at > taken[0][0] + LISTEN_S + 0.5)
    halfway = (begin + len(taken)) // 2
    return Memory(taken[-1][0] - taken[begin][0], taken[begin][1], taken[halfway][1], taken[-1][1])


def resident_mb(pid: int) -> float | None:
    """Resident memory of a process [MB]; None once it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def table(rows: list[Row]) -> str:
    """A line for each rate and kind."""
    lines = [f"{'listener':<20}{'round trip p50':>16}{'p99':>10}{'lateness p99':>14}{'missed':>9}"]
    for row in rows:
        times = f"{row.round_trip_p50_s * 1e6:>13.0f} us{row.round_trip_p99_s * 1e6:>7.0f} us"
        times += f"{row.lateness_p99_s * 1e6:>11.0f} us{row.missed:>9.2%}"
        lines.append(f"{f'{row.rate_hz} Hz, {row.kind}':<20}{times}{'' if row.kept else '   beyond the bound'}")
    lines.append(f"bound of each p99: {SHARE} of that alone and {MARGIN_S * 1e3:g} ms")
    return "\n".join(lines)


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--long", action="store_true", help="also the plant's memory over a minute; Linux")
    arguments = parser.parse_args()
    rows = compare()
    grown = memory() if arguments.long else None
    if arguments.json:
        content = {"rows": [asdict(row) for row in rows], "memory": asdict(grown) if grown else None}
        print(json.dumps(content, indent=1))
        return
    print(table(rows))
    if grown:
        sizes = f"{grown.begin_mb:.2f}, {grown.middle_mb:.2f}, {grown.end_mb:.2f} MB"
        print(f"plant beside a frozen listener over {grown.seconds:.0f} s: {sizes}")


if __name__ == "__main__":
    main()
