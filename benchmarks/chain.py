"""How cost grows: deriving, compiling and running a planar chain of n links whose tip follows a path.

    python benchmarks/chain.py            the tables, for 1 to 8 and 16 links
    python benchmarks/chain.py --json     the same numbers for machines

The same chain of rods with torques in its joints is given twice: by the angles of its links to the vertical, as a
textbook does, and by the angles in its joints, as a roboticist does. Each case runs in a process of its own with an
empty kernel cache and ends after LIMIT seconds. Before anything is timed, the accelerations are compared with a mass
matrix that is assembled numerically.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from common import options

Array = npt.NDArray[np.float64]

LINKS = (*range(1, 9), 16)
STATEMENTS = ("link angles", "joint angles")
LIMIT = 300.0  # s
LENGTH, MASS, FRICTION, GRAVITY = 0.4, 1.0, 0.05, 9.81  # m, kg, N m s/rad, m/s^2 of each rod
TOLERANCE = 1e-9  # relative, against the numerical mass matrix
STEPS, EVALUATIONS = 2_000, 2_000
STEP = 1e-4  # s


@dataclass(frozen=True)
class Row:
    """Cost of one chain; None where the case ended at its limit."""

    links: int
    derive_s: float  # equations of the machine, both forms
    law_s: float  # servo-constraints on them
    lines: int  # of generated source, machine and law
    compile_s: float  # machine with one integrator, and law
    step_us: float  # one RK4 step
    evaluation_us: float  # one evaluation of the law


def chain(n: int, statement: str) -> Any:
    """The Model of a chain of n rods that hangs from a fixed joint."""
    from sympy import Add, cos, sin

    from servonode.mechanics import Model, coordinate, input_, parameter

    q = [coordinate(f"q{i + 1}", f"angle {i + 1}", "rad") for i in range(n)]
    tau = [input_(f"tau{i + 1}", f"torque in joint {i + 1}", "N m") for i in range(n)]
    m = parameter("m", "mass of a rod", "kg", default=MASS, above=0)
    l = parameter("l", "length of a rod", "m", default=LENGTH, above=0)  # noqa: E741
    c = parameter("c", "friction in a joint", "N m s/rad", default=FRICTION, at_least=0)
    g = parameter("g", "gravity", "m/s^2", default=GRAVITY)
    by_links = statement == "link angles"
    angles = q if by_links else [Add(*q[: i + 1]) for i in range(n)]
    rates = [each.rate for each in q] if by_links else [Add(*(each.rate for each in q[: i + 1])) for i in range(n)]
    joints = [rates[0], *(rates[i] - rates[i - 1] for i in range(1, n))]
    kinetic, potential, x, y, height = 0, 0, 0, 0, 0
    for angle, rate in zip(angles, rates, strict=True):
        vx, vy = x + l / 2 * cos(angle) * rate, y + l / 2 * sin(angle) * rate  # of the centre
        kinetic += m * (vx**2 + vy**2) / 2 + m * l**2 / 24 * rate**2
        potential += m * g * (height - l / 2 * cos(angle))
        x, y, height = x + l * cos(angle) * rate, y + l * sin(angle) * rate, height - l * cos(angle)
    return Model(
        name="chain",
        description=f"chain of {n} links",
        coordinates=tuple(q),
        parameters=(m, l, c, g),
        kinetic=kinetic,
        potential=potential,
        dissipation=c * Add(*(each**2 for each in joints)) / 2,
        inputs=dict(zip(tau, joints, strict=True)),
    )


def follow(machine: Any, statement: str) -> Any:
    """The Program: the tip follows a path; its place across alone for one link, the least norm for more than two."""
    from sympy import Add, cos, sin

    from servonode.controllers import Program, residual, signal

    q = machine.coordinates
    angles = q if statement == "link angles" else [Add(*q[: i + 1]) for i in range(len(q))]
    l = machine["l"]  # noqa: E741
    across, down = (
        signal("across", "wanted position", "m", default="0"),
        signal("down", "wanted position", "m", default="0"),
    )
    rows = (
        residual("across", Add(*(l * sin(angle) for angle in angles)) - across, "tip across", "m", rate=2.0),
        residual("down", Add(*(l * cos(angle) for angle in angles)) - down, "tip down", "m", rate=2.0),
    )
    single = len(q) == 1
    return Program(
        name="follow",
        description="the tip follows a path",
        residuals=rows[:1] if single else rows,
        signals=(across,) if single else (across, down),
        least_norm=len(q) > 2,
    )


def accelerations(angles: Array, rates: Array, torques: Array) -> Array:
    """Second derivatives of the link angles by Lagrange's equations of the chain in closed form, torques in joints."""
    n = len(angles)
    above = np.array([[min(n - 1 - max(i, j), n) for j in range(n)] for i in range(n)])  # rods beyond both
    weight = MASS * LENGTH**2 * (above + np.where(np.eye(n), 1 / 3, 1 / 2))
    difference = np.subtract.outer(angles, angles)
    M = weight * np.cos(difference)
    bias = (weight * np.sin(difference)) @ rates**2
    bias += MASS * GRAVITY * LENGTH * (n - 0.5 - np.arange(n)) * np.sin(angles)
    joint = np.eye(n) - np.eye(n, k=-1)  # joint rates of link rates
    forces = joint.T @ (torques - FRICTION * (joint @ rates))
    result: Array = np.linalg.solve(M, forces - bias)
    return result


def case(n: int, statement: str) -> Row:
    """Measure one chain in this process, whose cache must be empty."""
    import msgspec

    from servonode.controllers.engine.law import ServoLaw
    from servonode.controllers.engine.law_source import describe_program, law_source
    from servonode.controllers.engine.servo import derive_servo
    from servonode.definitions import cache
    from servonode.mechanics.derive import derive
    from servonode.mechanics.description import MachineDescription, ProgramDescription
    from servonode.mechanics.machine import Machine
    from servonode.mechanics.machine_source import describe, machine_source

    model = chain(n, statement)
    begin = perf_counter()
    equations = derive(model)
    derived = perf_counter()
    servo = derive_servo(equations, follow(model, statement))
    with_law = perf_counter()
    sources = [machine_source(equations), law_source(servo)]
    descriptions = [msgspec.json.encode(each) for each in (describe(model), describe_program(servo))]
    compiling = perf_counter()
    kernels = [cache.load(f"chain{i}", lambda i=i: (sources[i], descriptions[i]))[0] for i in (0, 1)]
    machine = Machine(msgspec.json.decode(descriptions[0], type=MachineDescription), kernels[0], {})
    machine.steps("rk4")
    compiled = perf_counter()
    law = ServoLaw(msgspec.json.decode(descriptions[1], type=ProgramDescription), kernels[1], machine, {})
    _compare(machine, n, statement)
    return Row(
        links=n,
        derive_s=derived - begin,
        law_s=with_law - derived,
        lines=sum(text.count("\n") for text in sources),
        compile_s=compiled - compiling,
        step_us=_step_time(machine),
        evaluation_us=_law_time(law),
    )


def _compare(machine: Any, n: int, statement: str) -> None:
    rng = np.random.default_rng(0)
    to_links = np.eye(n) if statement == "link angles" else np.tril(np.ones((n, n)))
    for _ in range(5):
        q, q_dot, tau = rng.normal(size=(3, n))
        x = np.concatenate([q, q_dot, [0.0]])
        ours = to_links @ machine.derivatives(0.0, x, tau)[n : 2 * n]
        expected = accelerations(to_links @ q, to_links @ q_dot, tau)
        error = np.abs(ours - expected).max() / np.abs(expected).max()
        if not error < TOLERANCE:
            raise SystemExit(f"{n} links, {statement}: accelerations differ by {error:.1e} from the mass matrix")


def _step_time(machine: Any) -> float:
    """Microseconds of one RK4 step, the best of five."""
    best, u = np.inf, np.zeros(machine.n_inputs)
    for _ in range(5):
        x = machine.state({"q1": 0.5})
        begin = perf_counter()
        machine.advancer("rk4")(0, STEPS, round(STEP * 1e9), x, u, machine.c)
        best = min(best, perf_counter() - begin)
    return 1e6 * best / STEPS


def _law_time(law: Any) -> float:
    """Microseconds of one evaluation, call from Python included, the best of five."""
    law.stabilise({each.name: 2.0 for each in law.description.residuals})
    names = law.machine.description.coordinates
    x = law.machine.state({name: 0.3 + 0.1 * i for i, name in enumerate(names)})
    y, answer, best = np.zeros(law.goal_layout.size), law.answer(), np.inf
    for _ in range(5):
        begin = perf_counter()
        for _ in range(EVALUATIONS):
            law.compute(0.0, x, y, answer)
        best = min(best, perf_counter() - begin)
    return 1e6 * best / EVALUATIONS


def measured(n: int, statement: str) -> Row | None:
    """One case in a fresh process with an empty cache; None at the limit."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--case", str(n), statement]
        environment = os.environ | {"XDG_CACHE_HOME": folder, "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return None
    if done.returncode:
        raise SystemExit(f"{n} links, {statement}: failed with exit code {done.returncode}")
    return Row(**json.loads(done.stdout))


def table(statement: str) -> str:
    """Markdown table of one statement; nothing longer is tried after the first case at the limit."""
    lines = [f"by {statement}:", "", "| links | derive | law | source | compile | RK4 step | law, one call |"]
    lines.append("|---|---|---|---|---|---|---|")
    for n in LINKS:
        row = measured(n, statement)
        if row is None:
            lines.append(f"| {n} | more than {LIMIT:.0f} s in all | | | | | |")
            break
        lines.append(
            f"| {n} | {row.derive_s:.2f} s | {row.law_s:.2f} s | {row.lines} lines | {row.compile_s:.1f} s | "
            f"{row.step_us:.2f} us | {row.evaluation_us:.1f} us |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--case", nargs=2, metavar=("LINKS", "STATEMENT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(asdict(case(int(arguments.case[0]), arguments.case[1]))))
    elif arguments.json:
        rows = {each: [measured(n, each) for n in LINKS] for each in STATEMENTS}
        print(json.dumps({name: [row and asdict(row) for row in found] for name, found in rows.items()}))
    else:
        print("\n\n".join(table(each) for each in STATEMENTS))


if __name__ == "__main__":
    main()
