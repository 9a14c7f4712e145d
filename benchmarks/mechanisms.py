"""The closed mechanisms of examples/mechanisms: how closed their loops stay, and what their laws cost.

    python benchmarks/mechanisms.py            the table
    python benchmarks/mechanisms.py --json     the same numbers for machines

The loop's gap is the largest residual of any loop at any row of a run of 60 s. One evaluation of the law is timed in
compiled loops at states along the run; the fastest loop counts, of the slowest state. In MuJoCo the same law moves the
same file, whose loops are springs there: the largest residual of the goal over 10 s.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from common import law_driver, options, pin

import servonode
from servonode.controllers import ServoLaw

FOLDER = Path(__file__).parents[1] / "examples" / "mechanisms"
MECHANISMS = ("four_bar_leg", "five_bar", "pantograph", "delta", "stewart", "spring_leg")
STATES, LOOP, LOOPS = 20, 100, 9


@dataclass(frozen=True)
class Row:
    """A mechanism: gap of its loops in 60 s [m, rad], microseconds of its law, largest residual with MuJoCo."""

    name: str
    coordinates: int
    velocities: int
    gap: float
    residual: float
    law_us: float
    mujoco: float


def row(name: str) -> Row:
    """The numbers of one mechanism."""
    file = FOLDER / f"{name}.toml"
    loop = servonode.load(file, run__duration=60.0)
    run, closed = loop.simulate(), loop.closed_loop
    machine = closed.machine
    names = machine.description.state_names
    states = np.column_stack([run.state[each] for each in names])
    x, gap = closed.start.copy(), 0.0
    for state in states:
        x[: len(names)] = state
        gap = max(gap, float(np.abs(machine.position_residual(0.0, x)).max()))
    return Row(
        name,
        len(machine.description.coordinates),
        len(machine.description.velocities),
        gap,
        largest(run),
        law_us(loop, states),
        largest(servonode.simulate(file, plant__driver="mujoco")),
    )


def largest(run: servonode.Run) -> float:
    """The largest residual of a run."""
    return max(float(np.abs(each).max()) for each in run.residual.values())


def law_us(loop: servonode.Loop, states: Any) -> float:
    """Microseconds of one evaluation of the law."""
    closed = loop.closed_loop
    law: ServoLaw = closed.control.law  # type: ignore[union-attr]
    laws = law_driver(law)
    out, x, worst = law.answer().out, closed.start.copy(), 0.0
    for i in np.linspace(0, len(states) - 1, STATES).astype(int):
        x[: states.shape[1]] = states[i]
        y, best = closed.goal(0.0), np.inf
        for _ in range(LOOPS):
            start = perf_counter()
            laws(LOOP, x, y, law.c, law.K, out)
            best = min(best, (perf_counter() - start) / LOOP)
        worst = max(worst, best)
    return 1e6 * worst


def table(found: list[Row]) -> str:
    """The rows as text."""
    sizes = f"{'coordinates':>12}{'velocities':>11}{'gap, 60 s':>11}"
    lines = [f"{'mechanism':<14}{sizes}{'residual':>10}{'law us':>8}{'MuJoCo':>9}"]
    for each in found:
        sizes = f"{each.coordinates:>12}{each.velocities:>11}{each.gap:>11.1e}{each.residual:>10.1e}"
        lines.append(f"{each.name:<14}{sizes}{each.law_us:>8.2f}{each.mujoco:>9.1e}")
    return "\n".join(lines)


def main() -> None:
    """Measure all mechanisms."""
    given = options(__doc__).parse_args()
    pin()
    found = [row(name) for name in MECHANISMS]
    print(json.dumps([asdict(each) for each in found], indent=1) if given.json else table(found))


if __name__ == "__main__":
    main()
