"""How derivation grows: makers' robots and chains of 10 to 80 links by recursion; by hand a car with 1 to 6 trailers, a
chain of 12 links, a robot with two trailers and the Whipple bicycle in natural coordinates.

    python benchmarks/derivation.py            the tables
    python benchmarks/derivation.py --json     the same numbers for machines

Each case runs in a process of its own and ends after LIMIT seconds. The accelerations are compared before with Kane's
equations of the car, or the mass matrix of the chain, which are written down in numpy; `tests/mechanics` compares those
of the machines in natural coordinates. The accelerations of robots, their mass matrices and biases, are compared with
Pinocchio and MuJoCo at 1 000 random states. Robots need the dependency group `robots`. Derivation and compilation are
processor time, without imports; the right-hand side of robots is timed in RK4 steps, in turn with Pinocchio's
articulated bodies (`abaInParallel` with one thread), on one core.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import chain
import numpy as np
import numpy.typing as npt
from common import options, peak_mb, pin

sys.path.append(str(Path(__file__).parents[1]))  # for car and robots, which the tests state
from tests.helpers import makers_robots as makers

Array = npt.NDArray[np.float64]
Expected = Callable[[Array, Array, Array], Array] | None
NATURAL = ("trailers 2", "bicycle")  # in absolute angles, with positions in the fixed frame
CASES = (*(f"car {n}" for n in range(1, 7)), "chain 12", *NATURAL)
LIMIT = 300.0  # s
TOLERANCE = 1e-10  # relative, of accelerations
STEPS, STEP = 2_000, 1e-4  # and s of each
STATES, BATCH, ROUNDS = 1_000, 250, 15
COLUMNS = "robot | motions | derive | compile | right-hand side | ABA | ratio | Pinocchio: M, h, accelerations | MuJoCo"
MISSING = "robots: pin or example-robot-data is not installed (uv sync --group robots), so none is compared"


@dataclass(frozen=True)
class Row:
    """Cost of one machine."""

    machine: str
    derive_s: float  # equations of the machine, both forms
    source_s: float
    lines: int
    compile_s: float
    show_s: float
    shown: int  # lines of its equations as text
    step_us: float  # one RK4 step
    memory_mb: float  # the process at its peak


@dataclass(frozen=True)
class RobotRow:
    """Cost of one robot, and its largest errors relative to the largest entry."""

    robot: str
    motions: int
    derive_s: float  # from its file, read
    compile_s: float  # the text of its functions, and machine code of them and of RK4 steps
    rhs_us: float
    aba_us: float
    ratio: float  # the median over rounds
    pinocchio: list[float]  # of M, h, accelerations
    mujoco: list[float]
    memory_mb: float


def robot_case(name: str) -> RobotRow:
    """Measure one robot in this process."""
    from servonode.kernels import build  # noqa: F401  (imported before the clock starts)
    from servonode.mechanics.derive import derive
    from servonode.wings.robots import model, read  # noqa: F401

    pin()
    times = [process_time()]
    equations = derive(makers.model_of(name))
    times.append(process_time())
    machine = _machine(name, equations)
    advance = machine.advancer("rk4")
    times.append(process_time())
    names = makers.joints_of(equations.model)
    own, pinocchio, mujoco = makers.Own(equations), makers.Pinocchio(name, names), makers.Mujoco(name, names)
    rng, largest = np.random.default_rng(0), np.zeros((2, 3))
    for _ in range(STATES):
        state = makers.random_state(equations.model, rng)
        found = own.terms(state)
        largest = np.maximum(largest, [makers.errors(found, each.terms(state)) for each in (pinocchio, mujoco)])
    states = [makers.random_state(equations.model, rng) for _ in range(BATCH)]
    rhs, aba = _robot_times(machine, advance, pinocchio, states)
    derived, compiled = np.diff(times)
    return RobotRow(
        name, len(equations.model.velocities), derived, compiled, float(np.min(rhs)), float(np.min(aba)),
        float(np.median(rhs / aba)), *largest.tolist(), peak_mb(),
    )  # fmt: skip


def _robot_times(machine: Any, advance: Any, pinocchio: Any, states: list[Any]) -> tuple[Array, Array]:
    """Microseconds of a right-hand side, four of them a step, and of articulated bodies, in turn (ROUNDS,)."""
    pool = pinocchio.pin.ModelPool(pinocchio.model, 1)
    q, v, forces = (
        np.asfortranarray(np.transpose(each)) for each in zip(*map(pinocchio.arguments, states), strict=True)
    )
    a, u, times = np.zeros_like(v), np.zeros(machine.n_inputs), np.zeros((ROUNDS, 2))
    for i in range(ROUNDS):
        x = machine.state({})
        begin = perf_counter()
        advance(0, BATCH, 1000, x, u, machine.c)
        middle = perf_counter()
        pinocchio.pin.abaInParallel(1, pool, q, v, forces, a)
        times[i] = (middle - begin) / 4, perf_counter() - middle
    return (1e6 * times / BATCH).T


def case(name: str) -> Row:
    """Measure one machine in this process."""
    from servonode.export.document import show_text
    from servonode.kernels.build import built
    from servonode.mechanics.derive import derive
    from servonode.mechanics.machine_source import machine_source

    model, expected = stated(name)
    times = [process_time()]
    equations = derive(model)
    times.append(process_time())
    source = machine_source(equations)
    times.append(process_time())
    built(source, lambda _: "")
    times.append(process_time())
    shown = show_text(equations, None, None)
    times.append(process_time())
    derived, sourced, compiled, showing = np.diff(times)
    return Row(
        machine=name,
        derive_s=derived,
        source_s=sourced,
        lines=source.count("\n"),
        compile_s=compiled,
        show_s=showing,
        shown=shown.count("\n"),
        step_us=_step_time(compared(name, equations, source, expected)),
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def stated(name: str) -> tuple[Any, Expected]:
    """The Model of a case, and its accelerations for coordinates, velocities and inputs; None of NATURAL ones."""
    from tests.helpers.car_with_trailers import car_with_trailers, kane
    from tests.helpers.natural_coordinates import bicycle, trailers

    if name in NATURAL:
        return bicycle() if name == "bicycle" else trailers(2), None
    kind, _, number = name.partition(" ")
    n = int(number)
    if kind == "car":
        car = car_with_trailers(n)
        parameters = {each.name: each.quantity.default for each in car.parameters}
        names = [each.name for each in car.coordinates]
        return car, lambda q, v, u: kane(dict(zip(names, q, strict=True)), v, u, parameters)
    to_links = np.tril(np.ones((n, n)))
    return chain.chain(n, "joint angles"), lambda q, v, u: np.linalg.solve(
        to_links, chain.accelerations(to_links @ q, to_links @ v, u)
    )


def compared(name: str, equations: Any, source: str, expected: Expected) -> Any:
    """The compiled machine, whose accelerations are those expected."""
    machine = _machine(name, equations, source)
    if expected is None:
        return machine
    rng, n_q, n_v = np.random.default_rng(0), len(equations.model.coordinates), len(equations.model.velocities)
    for _ in range(5):
        q, v, u = rng.uniform(-0.6, 0.6, n_q), rng.normal(size=n_v), rng.normal(size=len(equations.model.inputs))
        ours = machine.derivatives(0.0, np.concatenate([q, v, [0.0]]), u)[n_q : n_q + n_v]
        accelerations = expected(q, v, u)
        error = np.abs(ours - accelerations).max() / np.abs(accelerations).max()
        if not error < TOLERANCE:
            raise SystemExit(f"{name}: accelerations differ by {error:.1e}")
    return machine


def _machine(name: str, equations: Any, source: str = "") -> Any:
    """The compiled machine of equations, in an empty cache of its own."""
    import msgspec

    from servonode.definitions import cache
    from servonode.mechanics.description import MachineDescription
    from servonode.mechanics.machine import Machine
    from servonode.mechanics.machine_source import describe, machine_source

    source = source or machine_source(equations)
    description = msgspec.json.encode(describe(equations.model))
    kernel: Any = cache.load(cache.key_of("benchmark", name, source), lambda: (source, description))[0]
    return Machine(msgspec.json.decode(description, type=MachineDescription), kernel, {})


def _step_time(machine: Any) -> float:
    """Microseconds of one RK4 step, the best of nine."""
    best, u = np.inf, np.zeros(machine.n_inputs)
    for _ in range(9):
        x = machine.state({})
        begin = perf_counter()
        machine.advancer("rk4")(0, STEPS, round(STEP * 1e9), x, u, machine.c)
        best = min(best, perf_counter() - begin)
    return 1e6 * best / STEPS


def measured(name: str, program: str = __file__, limit: float = LIMIT) -> dict[str, Any] | None:
    """One case of a program, this one by default, in a fresh process with an empty cache; None at the limit [s]."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}
        command = [sys.executable, program, "--case", name]
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, timeout=limit, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            return None
    if done.returncode:
        raise SystemExit(f"{name}: failed with exit code {done.returncode}")
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def table() -> str:
    """Markdown table of machines stated by hand."""
    lines = ["| machine | derive | source | compile | show | RK4 step | memory |", "|---|---|---|---|---|---|---|"]
    for name in CASES:
        found = measured(name)
        row = found and Row(**found)
        lines.append(
            f"| {name} | more than {LIMIT:.0f} s in all | | | | | |"
            if row is None
            else f"| {name} | {row.derive_s:.2f} s | {row.source_s:.2f} s, {row.lines} lines | {row.compile_s:.2f} s | "
            f"{row.show_s:.2f} s, {row.shown} lines | {row.step_us:.2f} µs | {row.memory_mb:.0f} MB |"
        )
    return "\n".join(lines)


def robot_table() -> str:
    """Markdown table of robots; a line that says so where they cannot be compared."""
    if not makers.available():
        return MISSING
    lines = [f"| {COLUMNS} |", "|---" * 9 + "|"]
    for name in makers.SOURCES:
        found = measured(name)
        lines.append(f"| {' | '.join(cells(name, found and RobotRow(**found)))} |")
    return "\n".join(lines)


def cells(name: str, row: RobotRow | None) -> list[str]:
    """What stands in the COLUMNS of a robot; None: it has reached the limit of time."""
    if row is None:
        return [name, "", f"more than {LIMIT:.0f} s in all", *[""] * 6]
    errors = (", ".join(f"{each:.0e}" for each in each_of) for each_of in (row.pinocchio, row.mujoco))
    times = [f"{row.derive_s:.2f} s", f"{row.compile_s:.2f} s", f"{row.rhs_us:.2f} µs", f"{row.aba_us:.2f} µs"]
    return [name, str(row.motions), *times, f"{row.ratio:.2f}", *errors]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--case", metavar="MACHINE", help="measure one machine in this process, as JSON")
    arguments = parser.parse_args()
    names = (*(makers.SOURCES if makers.available() else ()), *CASES)
    if arguments.case:
        make: Callable[[str], Any] = robot_case if arguments.case in makers.SOURCES else case
        print(json.dumps(asdict(make(arguments.case))))
    elif arguments.json:
        print(json.dumps({name: measured(name) for name in names}, indent=1))
    else:
        print(f"{robot_table()}\n\n{table()}")


if __name__ == "__main__":
    main()
