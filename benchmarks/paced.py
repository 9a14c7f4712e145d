"""Round trips at 1 kHz in real time against a bare pair of sockets at the same pace.

    python benchmarks/paced.py            the table
    python benchmarks/paced.py --json     the same numbers for machines

Ours is `servonode run trailer_pursuit` at speed 1 with a control period of a millisecond: launcher, plant,
controller and target as processes, every message checked, every safety stage on. Bare are two processes of pyzmq
and msgpack on the same absolute grid, which throw the same two-frame maps at each other and look at nothing.
A round trip goes from a state before it is packed to its command once it is unpacked. The runs are
interleaved; the ratio is the median over the pairs, for that of the absolute times changes from minute to minute.
"""

import json
import os
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from common import options

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.nodes.launcher import Launcher
from servonode.simulation.bench import ping_pong

LAUNCH = "trailer_pursuit"
PERIOD_S = 0.001
RUN_S = 6.0  # of one run
PAIRS = 8
AIM = 1.3  # ours to bare, p50
QUANTILES = ("p50", "p99")


@dataclass(frozen=True)
class Row:
    """One quantile of the round trip [s]: medians over the runs, median and range of the paired ratios."""

    quantile: str
    bare_s: float
    ours_s: float
    ratio: float
    least: float
    most: float


def paced_closed_loop(period_s: float = PERIOD_S, duration_s: float = RUN_S) -> ClosedLoop:
    """The robot with trailer in real time at speed 1, a state and a command each period, a command timeout of 0.5 s."""
    overrides = [
        'run.mode="realtime"', "run.speed=1", f"run.duration={duration_s}", f"controller.period={period_s}",
        "plant.publish_every=1", f"plant.step={period_s}", "plant.safety.command_timeout_floor=0.5",
    ]  # fmt: skip
    return resolve(read_launch(LAUNCH, overrides))


def bare(closed_loop: ClosedLoop) -> dict[str, float]:
    """p50 and p99 [s] of the round trips of two bare processes on an absolute grid."""
    p50, p99 = np.percentile(ping_pong(closed_loop, round(RUN_S / PERIOD_S), PERIOD_S), [50, 99])
    return {"p50": float(p50), "p99": float(p99)}


def ours(closed_loop: ClosedLoop) -> dict[str, Any]:
    """What a launch says of its own time keeping: `round_trip_s`, `lateness_s`, `misses`, `counts`.

    Raises:
        SystemExit: the run met a fault.
    """
    outcome = Launcher(closed_loop, f"{LAUNCH}_{os.getpid()}", 10, lambda _: None).launch()
    if outcome.run is None or outcome.exit_code:
        raise SystemExit(f"the launch failed, nothing was measured: {outcome.faults or 'interrupted'}")
    return outcome.run.stats


def compare() -> tuple[list[Row], dict[str, float]]:
    """The table's rows, and what was missed in our runs, of all states, as shares."""
    closed_loop = paced_closed_loop()
    pairs = []
    missed = misses = 0
    for _ in range(PAIRS):
        floor, stats = bare(closed_loop), ours(closed_loop)
        pairs.append((floor, stats["round_trip_s"]))
        missed += stats["counts"].get("missed_commands", 0)
        misses += stats["misses"]
    rows = []
    for quantile in QUANTILES:
        ratios = [taken[quantile] / floor[quantile] for floor, taken in pairs]
        rows.append(
            Row(
                quantile=quantile,
                bare_s=median(floor[quantile] for floor, _ in pairs),
                ours_s=median(taken[quantile] for _, taken in pairs),
                ratio=median(ratios),
                least=min(ratios),
                most=max(ratios),
            )
        )
    states = PAIRS * RUN_S / PERIOD_S
    return rows, {"missed_commands": missed / states, "misses": misses / states}


def table(rows: list[Row], shares: dict[str, float]) -> str:
    """A line for each quantile; the ratio's median with its range over the pairs."""
    lines = [f"{f'round trip at {1 / PERIOD_S:.0f} Hz':<24}{'bare':>10}{'ours':>10}{'ratio':>8}   over {PAIRS} pairs"]
    for row in rows:
        numbers = f"{row.bare_s * 1e6:>7.0f} us{row.ours_s * 1e6:>7.0f} us{row.ratio:>8.2f}"
        lines.append(f"{row.quantile:<24}{numbers}   {row.least:.2f} to {row.most:.2f}")
    lines.append(f"aim for p50: at most {AIM}")
    shown = ", ".join(f"{name.replace('_', ' ')} {share:.2%}" for name, share in shares.items())
    lines.append(f"of our states: {shown}")
    return "\n".join(lines)


def main() -> None:
    arguments = options(__doc__).parse_args()
    rows, shares = compare()
    content = {"rows": [asdict(row) for row in rows], "aim": AIM, "shares": shares}
    print(json.dumps(content, indent=1) if arguments.json else table(rows, shares))


if __name__ == "__main__":
    main()
