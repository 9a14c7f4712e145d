"""Every packaged launch file with a controller: its kernels, and how much faster than the plant's time it runs.

    python benchmarks/gallery.py               the table
    python benchmarks/gallery.py sphero        those whose name contains a word
    python benchmarks/gallery.py --realtime 60 each in real time at speed 1 for 60 s instead: what was missed
    python benchmarks/gallery.py --json        the same numbers for machines

Kernels are looped in compiled drivers, in turns with those of the robot with trailer, on one core; the times are
those of the fastest loop, the ratios are medians over the turns. The rate is that of `servonode run` in lockstep,
launcher and nodes as processes over ZeroMQ, at the file's own step and period, from the plant's first state to its
last.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from common import options

from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import LaunchError, packaged, read_launch
from servonode.definitions import cache
from servonode.nodes.launcher import Launcher
from servonode.record.run import default_every
from servonode.simulation.simulate import simulate_fused

Array = npt.NDArray[np.float64]
FLOOR = "trailer_pursuit_lockstep"
LOOP, TURNS = 5_000, 20
LONGEST = 30.0  # s of plant time that are timed
SHIFT = 1e-9  # of the first state from one evaluation to the next, so that none can be left out


@dataclass(frozen=True)
class Row:
    """Nanoseconds per evaluation, their ratios to the trailer's, plant seconds per second on processes."""

    launch: str
    step_ns: float
    step_ratio: float
    law_ns: float
    law_ratio: float
    lockstep_rate: float


@dataclass(frozen=True)
class Kept:
    """How a run in real time kept time: plant seconds per second, what was missed, the round trip [ms]."""

    launch: str
    rate: float
    deadlines: int
    steps: int
    commands: int
    p50_ms: float
    p99_ms: float


DRIVERS = """\
from {steps} import n_x, n_tau, n_constants, step
from {law} import n_constants as n_law, n_y, n_s, n_out, law

def steps(x: f64[n_x], u: f64[n_tau], c: f64[n_constants], h: f64) -> f64:
    for i in range({loop}):
        step(i*h, x, u, c, h)
    return x[0]

def laws(x: f64[n_x], y: f64[n_y], c: f64[n_law], K: f64[3, n_s, n_s], out: f64[n_out]) -> f64:
    total = 0.0
    for i in range({loop}):
        x[0] += {shift!r}
        law(0.0, x, y, c, K, out)
        total += out[0]
    return total
"""


class Kernels:
    """Plant step and law of a launch file, each looped LOOP times at its start."""

    def __init__(self, closed_loop: ClosedLoop) -> None:
        assert closed_loop.control is not None
        machine, law = closed_loop.machine, closed_loop.control.law
        x0, y, u = closed_loop.start, closed_loop.goal(0.0), np.zeros(machine.n_inputs)
        h, out = closed_loop.launch.step_ns / 1e9, law.answer().out
        text = DRIVERS.format(steps=machine.steps("rk4").__name__, law=law.kernel.__name__, loop=LOOP, shift=SHIFT)
        drivers: Any = cache.load(cache.key_of("drivers", text), lambda: (text, b"{}"))[0]
        self.steps: Callable[[], float] = lambda: drivers.steps(x0.copy(), u, machine.c, h)
        self.laws: Callable[[], float] = lambda: drivers.laws(x0.copy(), y, law.c, law.K, out)
        self.steps(), self.laws()


def timed(run: Callable[[], object]) -> float:
    """Nanoseconds of one evaluation in a loop."""
    start = perf_counter()
    run()
    return (perf_counter() - start) * 1e9 / LOOP


def launched(closed_loop: ClosedLoop) -> dict[str, float]:
    """The statistics of a run on processes.

    Raises:
        SystemExit: the run met a fault.
    """
    name = closed_loop.launch.name
    outcome = Launcher(closed_loop, f"{name}_{os.getpid()}", default_every(closed_loop), lambda _: None).launch()
    if outcome.run is None or outcome.exit_code:
        raise SystemExit(f"{name}: the launch failed, nothing was measured: {outcome.faults or 'interrupted'}")
    return outcome.run.stats


def ready(name: str, *overrides: str) -> ClosedLoop | None:
    """The launch file's closed loop; None where it is meant to be refused or to fault, or has nothing to measure."""
    try:
        launch = read_launch(name, overrides)
        if launch.controller is None:
            return None
        closed_loop = resolve(launch)
    except LaunchError:
        return None
    if closed_loop.driver.motion is not None:  # its steps are those of an engine: `python benchmarks physics`
        return None
    return None if simulate_fused(closed_loop, default_every(closed_loop)).fault else closed_loop


def shortened(name: str, longest: float, *overrides: str) -> ClosedLoop | None:
    """The same, of at most `longest` s."""
    seconds = min(read_launch(name).duration_ns / 1e9, longest)
    return ready(name, *overrides, f"run.duration={seconds}")


def measure(name: str, floor: Kernels) -> Row | None:
    """A row of the table."""
    closed_loop = shortened(name, LONGEST, "run.mode=lockstep")
    if closed_loop is None:
        return None
    kernels = Kernels(closed_loop)
    turns = [[timed(run) for run in (kernels.steps, floor.steps, kernels.laws, floor.laws)] for _ in range(TURNS)]
    rate = max(launched(closed_loop)["rate"] for _ in range(2))
    return Row(
        name,
        min(turn[0] for turn in turns),
        median(turn[0] / turn[1] for turn in turns),
        min(turn[2] for turn in turns),
        median(turn[2] / turn[3] for turn in turns),
        rate,
    )


def keep_time(name: str, longest: float) -> Kept | None:
    """At most `longest` s in real time at speed 1."""
    closed_loop = shortened(name, longest, "run.mode=realtime", "run.speed=1", "plant.publish_every=1")
    if closed_loop is None:
        return None
    stats = launched(closed_loop)
    trip = stats["round_trip_s"]
    missed = stats["counts"].get("missed_commands", 0)  # type: ignore[attr-defined]
    times = [trip[key] * 1e3 for key in ("p50", "p99")]  # type: ignore[index]
    return Kept(name, stats["rate"], int(stats["misses"]), closed_loop.launch.steps, missed, *times)


def table(rows: list[Row]) -> str:
    lines = [f"{'':<28}{'step':>9}{'to trailer':>11}{'law':>9}{'to trailer':>11}{'lockstep':>11}"]
    for row in rows:
        kernels = f"{row.step_ns:>6.0f} ns{row.step_ratio:>11.2f}{row.law_ns:>6.0f} ns{row.law_ratio:>11.2f}"
        lines.append(f"{row.launch:<28}{kernels}{row.lockstep_rate:>9.0f} x")
    return "\n".join(lines)


def kept_table(rows: list[Kept]) -> str:
    lines = [f"{'':<28}{'rate':>8}{'deadlines missed':>18}{'commands missed':>17}{'p50':>9}{'p99':>9}"]
    for row in rows:
        missed = f"{row.deadlines} of {row.steps}"
        lines.append(
            f"{row.launch:<28}{row.rate:>8.4f}{missed:>18}{row.commands:>17}{row.p50_ms:>6.2f} ms{row.p99_ms:>6.2f} ms"
        )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--realtime", type=float, metavar="S", help="at most this many seconds of each in real time")
    parser.add_argument("word", nargs="?", default="", help="only launch files whose name contains it")
    arguments = parser.parse_args()
    names = [name for name in packaged() if arguments.word in name]
    if arguments.realtime:
        kept = [row for row in (keep_time(name, arguments.realtime) for name in names) if row]
        print(json.dumps([asdict(row) for row in kept], indent=1) if arguments.json else kept_table(kept))
        return
    floor = Kernels(resolve(read_launch(FLOOR)))
    rows = [row for row in (measure(name, floor) for name in names) if row]
    print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
