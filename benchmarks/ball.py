"""Ball on a turntable: ten million Runge-Kutta steps against C written by hand, and the memory they take.

    python benchmarks/ball.py            the table
    python benchmarks/ball.py --json     the same numbers for machines

C is in ball.c (compiled here with cc); ours is the `advance` that a run calls, as it is. The runs are interleaved on
one core; the times are those of the fastest run, the ratio is the median over the pairs. Before anything is timed the
results must agree.
"""

import ctypes
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import numpy.typing as npt
from common import FLAGS, compiled, options, peak_mb, pin

from servonode.mechanics.machine import Machine
from servonode.plants import packaged_machine

Array = npt.NDArray[np.float64]
Steps = Callable[[int, Array], None]

NAME = "ball_on_turntable"
TOLERANCE = 1e-12  # relative; both sides round differently, a wrong formula is far outside
SAMPLES = 200  # random states for the comparison
STEP_NS = 10_000_000  # [ns]
STEPS = 10_000_000  # of the runs in all
PAIRS = 10  # into which they are divided


@dataclass(frozen=True)
class Result:
    """Nanoseconds per step, best of all runs, the median of the paired ratios, growth of the peak memory [MB]."""

    c_ns: float
    ours_ns: float
    ratio: float
    difference: float
    grown_mb: float


def hand_written(machine: Machine) -> Steps:
    """n steps by ball.c."""
    steps = compiled(Path(__file__).with_suffix(".c")).steps
    vector = np.ctypeslib.ndpointer(np.float64, 1, flags="C_CONTIGUOUS")
    steps.argtypes, steps.restype = (ctypes.c_long, vector, vector, ctypes.c_double), None
    parameters = np.array(list(machine.parameters.values()))
    return lambda n, x: steps(n, x, parameters, STEP_NS / 1e9)


def generated(machine: Machine) -> Steps:
    """n steps by the function that a run calls."""
    advance, no_input = machine.advancer("rk4"), np.zeros(0)

    def steps(n: int, x: Array) -> None:
        advance(0, n, STEP_NS, x, no_input, machine.c)

    return steps


def check_agreement(c: Steps, ours: Steps) -> float:
    """The largest relative difference of a few steps from random states.

    Raises:
        SystemExit: it is above TOLERANCE.
    """
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(SAMPLES):
        x = rng.uniform(-2.0, 2.0, 12)
        x[7:11] /= np.linalg.norm(x[7:11])
        one, other = x.copy(), x.copy()
        c(5, one)
        ours(5, other)
        worst = max(worst, float(np.max(np.abs(one - other)) / np.max(np.abs(other))))
    if not worst <= TOLERANCE:
        raise SystemExit(f"C and generated steps differ by {worst:.1e} (allowed {TOLERANCE:g}): nothing was timed")
    return worst


def timed(steps: Steps, n: int, x: Array) -> float:
    """Nanoseconds per step."""
    start = perf_counter()
    steps(n, x)
    return (perf_counter() - start) * 1e9 / n


def compare(c: Steps, ours: Steps, difference: float) -> Result:
    """Interleaved runs of STEPS steps in all on each side."""
    machine = packaged_machine(NAME).load({})
    start = machine.state({"x": 1.0, "y_dot": 1.0, "omega_2": 0.5})
    x, y, n = start.copy(), start.copy(), STEPS // PAIRS
    for steps in (c, ours):
        timed(steps, n // 10, start.copy())  # first touch
    before = peak_mb()
    pairs = [(timed(c, n, x), timed(ours, n, y)) for _ in range(PAIRS)]
    return Result(
        c_ns=min(pair[0] for pair in pairs),
        ours_ns=min(pair[1] for pair in pairs),
        ratio=median(pair[1] / pair[0] for pair in pairs),
        difference=difference,
        grown_mb=peak_mb() - before,
    )


def table(result: Result) -> str:
    lines = [f"{'ns per step':<46}{'C':>8}{'ours':>8}{'ratio':>8}"]
    lines += [f"{'rk4 step of the ball, quaternion':<46}{result.c_ns:>8.1f}{result.ours_ns:>8.1f}{result.ratio:>8.2f}"]
    seconds = f"{STEPS:.0e} steps: C {result.c_ns * STEPS / 1e9:.2f} s, ours {result.ours_ns * STEPS / 1e9:.2f} s"
    return "\n".join([*lines, f"{seconds}; memory grown by {result.grown_mb:.1f} MB meanwhile"])


def main() -> None:
    arguments = options(__doc__).parse_args()
    pin()
    machine = packaged_machine(NAME).load({})
    c, ours = hand_written(machine), generated(machine)
    result = compare(c, ours, check_agreement(c, ours))
    if arguments.json:
        print(json.dumps({"flags": FLAGS, **asdict(result)}, indent=1))
    else:
        print(f"cc {' '.join(FLAGS)}; largest relative difference of the results {result.difference:.1e}\n")
        print(table(result))


if __name__ == "__main__":
    main()
