"""The hoop's 10.1 million midpoint steps: the compiled machine against C written by hand, and the memory that it takes.

    python benchmarks/hoop.py            the table
    python benchmarks/hoop.py --json     the same numbers for machines

Both integrate 101 s of the default run with steps of 10 microseconds, interleaved on one core; the times are those of
the fastest run, the ratio is the median over the pairs. Before anything is timed the rates must agree at random states
on and off the profile. Then the same run goes through the simulation, as `servonode simulate` does it, and the peak
memory of the process after it is compared with that after a hundredth of it.
"""

import ctypes
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from common import FLAGS, compiled, options, peak_mb, pin

import servonode
from servonode.mechanics.machine import Machine
from servonode.plants import packaged_machine

Array = npt.NDArray[np.float64]

STEPS, STEP_NS = 10_100_000, 10_000
PAIRS = 5
SAMPLES = 200
TOLERANCE = 1e-11  # relative to the largest rate; both sides round differently
LAUNCH: dict[str, Any] = {
    "run": {"duration": STEPS * STEP_NS / 1e9},
    "plant": {
        "machine": "hoop_on_profile",
        "integrator": "rk2",
        "step": STEP_NS / 1e9,
        "publish_every": 1000,
        "parameters": {"lambda": 1000.0},
    },
}


@dataclass(frozen=True)
class Result:
    """Seconds for STEPS steps, nanoseconds a step, the median of the paired ratios, and peak memory [MB]."""

    c_s: float
    ours_s: float
    c_ns: float
    ours_ns: float
    ratio: float
    difference: float
    simulate_s: float
    short_mb: float
    long_mb: float


class HandWritten:
    """The C functions of hoop.c."""

    def __init__(self, machine: Machine) -> None:
        self._c = compiled(Path(__file__).with_suffix(".c"))
        vector = np.ctypeslib.ndpointer(np.float64, 1, flags="C_CONTIGUOUS")
        self._c.rates_at.argtypes = (vector, vector, vector)
        self._c.rates_at.restype = None
        self._c.steps.argtypes = (ctypes.c_long, vector, vector, ctypes.c_double)
        self._c.steps.restype = None
        self._p = np.array(list(machine.parameters.values()))

    def rates(self, x: Array) -> Array:
        out = np.zeros(8)
        self._c.rates_at(x, self._p, out)
        return out

    def steps(self, x: Array) -> None:
        self._c.steps(STEPS, x, self._p, STEP_NS / 1e9)


def check_agreement(c: HandWritten, machine: Machine) -> float:
    """The largest relative difference of the rates at random states.

    Raises:
        SystemExit: it is above TOLERANCE.
    """
    rng, worst, none = np.random.default_rng(1), 0.0, np.zeros(0)
    for _ in range(SAMPLES):
        x = machine.state({}) + np.array([*rng.uniform(-1, 1, 3), *rng.uniform(-2, 2, 2), rng.uniform(-200, 200), 0, 0])
        x[6] = rng.uniform(-2.8, -0.3)
        one, other = c.rates(x), machine.derivatives(0.0, x, none)
        worst = max(worst, float(np.max(np.abs(one - other)) / np.max(np.abs(other))))
    if not worst <= TOLERANCE:
        raise SystemExit(f"C and generated rates differ by {worst:.1e} (allowed {TOLERANCE:g}): nothing was timed")
    return worst


def timed(run: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = perf_counter()
    run()
    return perf_counter() - start


def measure(c: HandWritten, machine: Machine) -> Result:
    """Pairs of runs, then the simulation's memory."""
    difference = check_agreement(c, machine)
    advance, none, start = machine.advancer("rk2"), np.zeros(0), machine.state({})

    def ours() -> None:
        if not advance(0, STEPS, STEP_NS, start.copy(), none, machine.c):
            raise SystemExit("the motion is no longer finite")

    pairs = [(timed(lambda: c.steps(start.copy())), timed(ours)) for _ in range(PAIRS)]
    servonode.simulate(LAUNCH, run__duration=STEPS * STEP_NS / 1e11)
    short = peak_mb()
    simulated = timed(lambda: servonode.simulate(LAUNCH))
    c_s, ours_s = min(each[0] for each in pairs), min(each[1] for each in pairs)
    ratio = median(each[1] / each[0] for each in pairs)
    by = 1e9 / STEPS
    return Result(c_s, ours_s, c_s * by, ours_s * by, ratio, difference, simulated, short, peak_mb())


def table(result: Result) -> str:
    """What was measured, a line each."""
    r = result
    return "\n".join(
        [
            f"{'10.1 million midpoint steps':<34}{'C':>8}{'ours':>8}{'ratio':>8}",
            f"{'seconds':<34}{r.c_s:>8.2f}{r.ours_s:>8.2f}{r.ratio:>8.2f}",
            f"{'ns per step':<34}{r.c_ns:>8.0f}{r.ours_ns:>8.0f}",
            f"{'as a simulation, with rows [s]':<34}{'':>8}{r.simulate_s:>8.2f}",
            f"{'peak memory after 1/100 of it [MB]':<34}{'':>8}{r.short_mb:>8.0f}",
            f"{'peak memory after all of it [MB]':<34}{'':>8}{r.long_mb:>8.0f}",
        ]
    )


def main() -> None:
    arguments = options(__doc__).parse_args()
    pin()
    machine = packaged_machine("hoop_on_profile").load({"lambda": 1000.0})
    result = measure(HandWritten(machine), machine)
    if arguments.json:
        print(json.dumps({"flags": FLAGS, **asdict(result)}, indent=1))
    else:
        print(f"cc {' '.join(FLAGS)}; largest relative difference of the rates {result.difference:.1e}\n")
        print(table(result))


if __name__ == "__main__":
    main()
