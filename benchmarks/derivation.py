"""How derivation grows: a car with 1 to 6 trailers, stated by hand, and a chain of 12 links by its joint angles.

    python benchmarks/derivation.py            the table
    python benchmarks/derivation.py --json     the same numbers for machines

Each case runs in a process of its own and ends after LIMIT seconds. The accelerations are compared before with Kane's
equations of the car, or the mass matrix of the chain, which are written down in numpy.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import chain
import numpy as np
import numpy.typing as npt
from common import options

sys.path.append(str(Path(__file__).parents[1]))  # for the car, which the tests state

Array = npt.NDArray[np.float64]
CASES = (*(f"car {n}" for n in range(1, 7)), "chain 12")
LIMIT = 300.0  # s
TOLERANCE = 1e-10  # relative, of accelerations
STEPS, STEP = 2_000, 1e-4  # and s of each


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


def case(name: str) -> Row:
    """Measure one machine in this process."""
    from servonode.export import show_text
    from servonode.kernels.build import built
    from servonode.mechanics.derive import derive
    from servonode.mechanics.machine_source import machine_source

    model, expected = stated(name)
    times = [perf_counter()]
    equations = derive(model)
    times.append(perf_counter())
    source = machine_source(equations)
    times.append(perf_counter())
    built(source, lambda _: "")
    times.append(perf_counter())
    shown = show_text(equations, None, None)
    times.append(perf_counter())
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


def stated(name: str) -> tuple[Any, Callable[[Array, Array, Array], Array]]:
    """The Model of a case, and its accelerations for coordinates, velocities and inputs."""
    from tests.helpers.car_with_trailers import car_with_trailers, kane

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


def compared(name: str, equations: Any, source: str, expected: Callable[[Array, Array, Array], Array]) -> Any:
    """The compiled machine, whose accelerations are those expected."""
    import msgspec

    from servonode.definitions import cache
    from servonode.mechanics.description import MachineDescription
    from servonode.mechanics.machine import Machine
    from servonode.mechanics.machine_source import describe

    description = msgspec.json.encode(describe(equations.model))
    kernel, _ = cache.load(cache.key_of("benchmark", source), lambda: (source, description))
    machine = Machine(msgspec.json.decode(description, type=MachineDescription), kernel, {})
    rng, n_q, n_v = np.random.default_rng(0), len(equations.model.coordinates), len(equations.model.velocities)
    for _ in range(5):
        q, v, u = rng.uniform(-0.6, 0.6, n_q), rng.normal(size=n_v), rng.normal(size=len(equations.model.inputs))
        ours = machine.derivatives(0.0, np.concatenate([q, v, [0.0]]), u)[n_q : n_q + n_v]
        accelerations = expected(q, v, u)
        error = np.abs(ours - accelerations).max() / np.abs(accelerations).max()
        if not error < TOLERANCE:
            raise SystemExit(f"{name}: accelerations differ by {error:.1e}")
    return machine


def _step_time(machine: Any) -> float:
    """Microseconds of one RK4 step, the best of nine."""
    best, u = np.inf, np.zeros(machine.n_inputs)
    for _ in range(9):
        x = machine.state({})
        begin = perf_counter()
        machine.advancer("rk4")(0, STEPS, round(STEP * 1e9), x, u, machine.c)
        best = min(best, perf_counter() - begin)
    return 1e6 * best / STEPS


def measured(name: str) -> Row | None:
    """One case in a fresh process; None at the limit."""
    try:
        command = [sys.executable, __file__, "--case", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise SystemExit(f"{name}: failed with exit code {done.returncode}")
    return Row(**json.loads(done.stdout))


def table() -> str:
    """Markdown table of all cases."""
    lines = ["| machine | derive | source | compile | show | RK4 step | memory |", "|---|---|---|---|---|---|---|"]
    for name in CASES:
        row = measured(name)
        lines.append(
            f"| {name} | more than {LIMIT:.0f} s in all | | | | | |"
            if row is None
            else f"| {name} | {row.derive_s:.2f} s | {row.source_s:.2f} s, {row.lines} lines | {row.compile_s:.2f} s | "
            f"{row.show_s:.2f} s, {row.shown} lines | {row.step_us:.2f} µs | {row.memory_mb:.0f} MB |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--case", metavar="MACHINE", help="measure one machine in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(asdict(case(arguments.case))))
    elif arguments.json:
        rows = {name: measured(name) for name in CASES}
        print(json.dumps({name: row and asdict(row) for name, row in rows.items()}, indent=1))
    else:
        print(table())


if __name__ == "__main__":
    main()
