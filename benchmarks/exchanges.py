"""Control exchanges per second in lockstep against a bare ping-pong of the same messages.

    python benchmarks/exchanges.py            the table
    python benchmarks/exchanges.py --json     the same numbers for machines

Ours is `servonode launch trailer_pursuit_lockstep`: launcher, plant, controller and target as processes, every
message checked. Bare are two processes of pyzmq and msgpack that throw the same two-frame maps at each other
and look at nothing. The runs are interleaved, each pair under the same CPU affinity; the rates are those of the
fastest run, the ratio is the median over the pairs. Below them stand the same nodes in one process without
sockets and the loop fused into one compiled function.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from statistics import median

from common import options

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.launcher import Launcher
from servonode.simulation.bench import ping_pong
from servonode.simulation.simulate import simulate_fused, simulate_nodes

LAUNCH = "trailer_pursuit_lockstep"
EVERY = 10  # plant steps a recorded row
BARE = 10_000  # exchanges in one bare run
PAIRS = 7  # of runs, for each placement


@dataclass(frozen=True)
class Row:
    """Exchanges per second, best of all runs, and the median of the paired ratios; bare once a pair."""

    case: str
    bare_per_s: float
    ours_per_s: float
    ratio: float


def bare(closed_loop: ClosedLoop) -> float:
    """Exchanges per second of two bare processes."""
    return BARE / float(ping_pong(closed_loop, BARE).sum())


def ours(closed_loop: ClosedLoop) -> float:
    """Exchanges per second of a launch, from the plant's first state to its last.

    Raises:
        SystemExit: the run met a fault.
    """
    outcome = Launcher(closed_loop, f"{LAUNCH}_{os.getpid()}", EVERY, lambda _: None).launch()
    if outcome.run is None or outcome.exit_code:
        raise SystemExit(f"the launch failed, nothing was measured: {outcome.faults or 'interrupted'}")
    duration = closed_loop.launch.steps * closed_loop.launch.step_ns / 1e9
    return exchanges(closed_loop) * float(outcome.run.stats["rate"]) / duration


def exchanges(closed_loop: ClosedLoop) -> int:
    """Control instants of the launch, each one exchange."""
    return closed_loop.launch.steps // (closed_loop.launch.steps_per_period or 1) + 1


@contextmanager
def affinity(cores: set[int]) -> Iterator[None]:
    """This process and those it starts on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def compare(case: str, closed_loop: ClosedLoop, cores: set[int], run: Callable[[ClosedLoop], float]) -> Row:
    """Interleaved pairs of a bare run and one of ours on these cores."""
    pairs = []
    with affinity(cores):
        for _ in range(PAIRS):
            pairs.append((bare(closed_loop), run(closed_loop)))
    return Row(
        case=case,
        bare_per_s=max(pair[0] for pair in pairs),
        ours_per_s=max(pair[1] for pair in pairs),
        ratio=median(pair[1] / pair[0] for pair in pairs),
    )


def compare_all() -> list[Row]:
    """The table's rows."""
    closed_loop = resolve(read_launch(LAUNCH))
    n = exchanges(closed_loop)
    cores = os.sched_getaffinity(0)
    one = {max(cores)}
    return [
        compare("launched, all processes on one core", closed_loop, one, ours),
        compare("launched, free to use all cores", closed_loop, cores, ours),
        compare("nodes in one process, no sockets", closed_loop, one, lambda a: n / simulate_nodes(a, EVERY).wall_s),
        compare("fused into one function", closed_loop, one, lambda a: n / simulate_fused(a, EVERY).wall_s),
    ]


def table(rows: list[Row]) -> str:
    """Three columns: the bare rate, ours, and their ratio."""
    lines = [f"{'control exchanges per second':<40}{'bare':>10}{'ours':>12}{'ratio':>8}"]
    lines += [f"{row.case:<40}{row.bare_per_s:>10.0f}{row.ours_per_s:>12.0f}{row.ratio:>8.2f}" for row in rows]
    return "\n".join(lines)


def main() -> None:
    arguments = options(__doc__).parse_args()
    if not hasattr(os, "sched_setaffinity"):
        raise SystemExit("exchanges.py pins processes to cores, which this system does not offer; run it on Linux")
    rows = compare_all()
    print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
