"""Compiled kernels against C written by hand: one plant step, one evaluation of the pursuit law.

    python benchmarks/kernels.py            the table
    python benchmarks/kernels.py --json     the same numbers for machines

Both sides loop inside, so that kernels are compared and not calls: C in kernels.c (compiled here with cc),
ours in a small driver that calls the functions which simulation and controller nodes call. The runs are
interleaved on one core; the times are those of the fastest run, the ratio is the median over the pairs.
Before anything is timed the results must agree.
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
from common import FLAGS, compiled, options, pin

from servonode.controllers import ServoLaw, load_law
from servonode.definitions import cache
from servonode.mechanics.machine import Machine
from servonode.plants import packaged_machine

Array = npt.NDArray[np.float64]

NAME = "diff_drive_trailer"
TOLERANCE = 1e-12  # relative; both sides round differently, a wrong formula is far outside
SAMPLES = 200  # random states for the comparison
STEP = 1e-3  # [s]
RUN = 20_000  # evaluations in one timed run, about 2 ms
PAIRS = 40  # timed pairs of runs
SHIFT = 1e-6  # change of the state from one law evaluation to the next
RATE = 2.0  # lambda of both residuals [1/s]


@dataclass(frozen=True)
class Row:
    """Nanoseconds per evaluation, best of all runs, and the median of the paired ratios."""

    kernel: str
    c_ns: float
    ours_ns: float
    ratio: float
    python_call_ns: float


class HandWritten:
    """The C functions of kernels.c behind the same faces as ours."""

    def __init__(self, machine: Machine, law: ServoLaw) -> None:
        self._c = compiled(Path(__file__).with_suffix(".c"))
        vector = np.ctypeslib.ndpointer(np.float64, 1, flags="C_CONTIGUOUS")
        self._c.steps.argtypes = (ctypes.c_long, vector, vector, vector, ctypes.c_double)
        self._c.steps.restype = None
        self._c.laws.argtypes = (ctypes.c_long, vector, ctypes.c_double, vector, vector, vector, vector)
        self._c.laws.restype = ctypes.c_double
        self._p = np.array(list(machine.parameters.values()))
        names = ("a", "rho0", "rho_min")
        self._goal = np.array([*(law.parameters[name] for name in names), RATE, RATE])
        self.out = np.zeros(5)

    def steps(self, n: int, x: Array, u: Array, h: float) -> None:
        self._c.steps(n, x, u, self._p, h)

    def laws(self, n: int, x: Array, y: Array) -> float:
        result: float = self._c.laws(n, x, SHIFT, y, self._p, self._goal, self.out)
        return result


class Generated:
    """Our kernels, looped in compiled drivers."""

    def __init__(self, machine: Machine, law: ServoLaw) -> None:
        self.machine, self.law = machine, law
        self.answer = law.answer()
        text = DRIVERS.format(steps=machine.steps("rk4").__name__, law=law.kernel.__name__)
        drivers: Any = cache.load(cache.key_of("drivers", text), lambda: (text, b"{}"))[0]
        self._steps, self._laws = drivers.steps, drivers.laws

    def steps(self, n: int, x: Array, u: Array, h: float) -> None:
        self._steps(n, x, u, self.machine.c, h)

    def laws(self, n: int, x: Array, y: Array) -> float:
        total: float = self._laws(n, x, SHIFT, y, self.law.c, self.law.K, self.answer.out)
        return total


DRIVERS = """\
from {steps} import n_x, n_tau, n_constants, step
from {law} import n_constants as n_law, n_y, n_s, n_out, law

def steps(n: i64, x: f64[n_x], u: f64[n_tau], c: f64[n_constants], h: f64):
    for i in range(n):
        step(i*h, x, u, c, h)

def laws(n: i64, x: f64[n_x], dx: f64, y: f64[n_y], c: f64[n_law], K: f64[3, n_s, n_s], out: f64[n_out]) -> f64:
    at = empty(n_x)
    for j in range(n_x):
        at[j] = x[j]
    total = 0.0
    for i in range(n):
        for j in range(2, 6):
            at[j] = x[j] + i*dx
        if law(0.0, at, y, c, K, out) != 0:
            return 1e300
        total += out[0] + out[1]
    return total
"""  # psi, phi, V, Omega move


def our_kernels() -> tuple[Machine, ServoLaw]:
    """The machine with friction (so that no term is zero) and its finite pursuit law."""
    source = packaged_machine(NAME)
    machine = source.load({"c_w": 0.002})
    options = {"variant": "finite"}
    law = load_law("pursuit", machine, source.key, source.definition.call, options, {"rho0": 2.0})
    law.stabilise({"speed": RATE, "heading": RATE})
    return machine, law


def random_case(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """A state with its work entry, torques, and a target some metres away."""
    x = rng.uniform(-3.0, 3.0, 9)
    y = rng.uniform(-1.0, 1.0, 6)
    y[[0, 3]] += [8.0, -6.0]
    return x, rng.uniform(-1.0, 1.0, 2), y


def check_agreement(c: HandWritten, ours: Generated) -> float:
    """The largest relative difference of steps and law results at random states.

    Raises:
        SystemExit: it is above TOLERANCE.
    """
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(SAMPLES):
        x, u, y = random_case(rng)
        one, other = x.copy(), x.copy()
        c.steps(1, one, u, STEP)
        ours.steps(1, other, u, STEP)
        worst = max(worst, _difference(one, other))
        c.laws(1, x, y)
        ours.laws(1, x, y)
        out = ours.answer.out
        worst = max(worst, _difference(c.out[:2], out[:2]), _difference(c.out[2:], out[[2, 3, 5]]))
    if not worst <= TOLERANCE:
        raise SystemExit(f"C and generated kernels differ by {worst:.1e} (allowed {TOLERANCE:g}): nothing was timed")
    return worst


def _difference(one: Array, other: Array) -> float:
    return float(np.max(np.abs(one - other)) / np.max(np.abs(other)))


def timed(run: Callable[[], object]) -> float:
    """Nanoseconds of one run."""
    start = perf_counter()
    run()
    return (perf_counter() - start) * 1e9


def compare(kernel: str, c: Callable[[], object], ours: Callable[[], object], call: Callable[[], object]) -> Row:
    """Interleaved runs of RUN evaluations each, and single calls from Python."""
    c(), ours(), call()
    pairs = [(timed(c) / RUN, timed(ours) / RUN) for _ in range(PAIRS)]
    calls = [timed(lambda: [call() for _ in range(RUN // 10)]) / (RUN // 10) for _ in range(10)]
    return Row(
        kernel=kernel,
        c_ns=min(pair[0] for pair in pairs),
        ours_ns=min(pair[1] for pair in pairs),
        ratio=median(pair[1] / pair[0] for pair in pairs),
        python_call_ns=min(calls),
    )


def compare_all(c: HandWritten, ours: Generated) -> list[Row]:
    """The table's rows: the plant step, the law."""
    machine, law = ours.machine, ours.law
    start = machine.state({"phi": 0.3, "V": 0.4, "Omega": 0.1})
    u = np.array([0.02, 0.03])
    y = np.array([2.0, 0.3, -0.02, 0.5, -0.1, 0.09])
    x = start.copy()
    return [
        compare(
            "rk4 step of the plant",
            lambda: c.steps(RUN, start.copy(), u, STEP),
            lambda: ours.steps(RUN, start.copy(), u, STEP),
            lambda: machine.stepper("rk4")(0.0, x, u, machine.c, STEP),
        ),
        compare(
            "pursuit law",
            lambda: c.laws(RUN, start, y),
            lambda: ours.laws(RUN, start, y),
            lambda: law.compute(0.0, start, y, ours.answer),
        ),
    ]


def table(rows: list[Row]) -> str:
    """Three columns: C, ours and their ratio; below them what one call from Python costs."""
    lines = [f"{'ns per evaluation':<46}{'C':>8}{'ours':>8}{'ratio':>8}"]
    lines += [f"{row.kernel:<46}{row.c_ns:>8.1f}{row.ours_ns:>8.1f}{row.ratio:>8.2f}" for row in rows]
    lines += [f"{row.kernel + ', one call from Python':<46}{'':>8}{row.python_call_ns:>8.0f}" for row in rows]
    return "\n".join(lines)


def main() -> None:
    arguments = options(__doc__).parse_args()
    pin()
    machine, law = our_kernels()
    c, ours = HandWritten(machine, law), Generated(machine, law)
    worst = check_agreement(c, ours)
    rows = compare_all(c, ours)
    if arguments.json:
        result = {"flags": FLAGS, "difference": worst, "rows": [asdict(row) for row in rows]}
        print(json.dumps(result, indent=1))
    else:
        print(f"cc {' '.join(FLAGS)}; largest relative difference of the results {worst:.1e}\n")
        print(table(rows))


if __name__ == "__main__":
    main()
