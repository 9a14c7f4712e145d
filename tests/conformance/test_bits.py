"""Every packaged launch file gives the bits in bits.toml, part by part: no change of the code may change a result.

    python -m tests.conformance.test_bits        makes the table again, where a change of results is meant

Bits depend on the mathematical library and the compiler as well; there is a table for each result of a probe of both,
and where this computer's has none nothing is compared (the command adds one). Another probe is of the linear algebra
library, which solves for an initial state on the program, and chooses its code by the processor. Machines that an
engine moves, whose bits are its own, are left out.
"""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import packaged, read_launch
from servonode.controllers import ServoLaw
from servonode.definitions import cache
from servonode.plants.drivers.installed import find_driver
from servonode.record.run import Run
from tests.helpers.wings import FROM_OUTSIDE, launches

TABLE = Path(__file__).with_name("bits.toml")
PROBE = """\
def probe(x: f64[20001], value: f64[7, 20001]):
    for i in range(20001):
        a = x[i]
        value[0, i], value[1, i], value[2, i] = sin(a), cos(a), tan(a)
        value[3, i], value[4, i] = exp(-a*a), atan2(a, 1.0 + a*a)
        value[5, i], value[6, i] = log(1.0 + a*a), (1.0 + a*a)**0.37
"""
BY_LAPACK = ("nees", "dimensions")  # columns whose last bits are the linear algebra library's
PARTS = ("time", "state", "input", "residual", "scale", "own", "energy", "answer")
ANSWERS = 50  # rows of a run on which its law is evaluated
NEVER_STARTS = ("ball_refused", "hoop_too_curved", "sphero_refused")
OURS = [each for each in sorted(launches()) if find_driver(read_launch(each).plant.driver).motion is None]
ABSENT = packaged().keys() - launches().keys()  # of wings that are not there
COMPARED = [each for each in OURS if each not in (*NEVER_STARTS, *FROM_OUTSIDE)]


def digest(*arrays: Any) -> str:
    """The first 16 digits of the hash of the bits of all arrays."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]


def probe() -> str:
    """The bits of this computer's elementary functions, compiled and not."""

    def compiled(x: Any) -> Any:
        value = np.zeros((7, len(x)))
        cache.load(cache.key_of("probe", PROBE), lambda: (PROBE, b"{}"))[0].probe(x, value)
        return value

    x = np.linspace(-30.0, 30.0, 20_001)
    return digest(compiled(x), np.sin(x), np.exp(-x * x))


def lapack() -> str:
    """The bits of this computer's least squares."""
    random = np.random.default_rng(1)
    sizes = [(rows, columns) for rows in range(1, 6) for columns in range(rows, 10)]
    return digest(*(np.linalg.lstsq(random.normal(size=n), random.normal(size=n[0]), rcond=1e-10)[0] for n in sizes))


def bits(name: str) -> list[str]:
    """The bits of each part of what the simulation of a launch file records, and of what the law computes there."""
    run = servonode.simulate(name)
    own = {**run.program_state, **run.watched, **(run.estimate.columns if run.estimate else {})}
    parts = {
        "time": [run.k, run.t, run.goal_t],
        "state": run.state.values(),
        "input": run.input.values(),  # as applied
        "residual": run.residual.values(),
        "scale": run.scale.values(),
        "own": [values for each, values in own.items() if each not in BY_LAPACK],
        "energy": [run.energy, run.work],
        "answer": answers(run),
    }
    assert tuple(parts) == PARTS
    return [digest(*each)[:8] if each else "" for each in map(list, parts.values())]


def answers(run: Run) -> list[Any]:
    """Inputs before any limit, residuals, their rates, condition and scales of the law, on rows along the run."""
    closed_loop = run.closed_loop
    control = closed_loop.control
    if control is None or not isinstance(control.law, ServoLaw):
        return []
    rows = range(0, len(run.t), max(1, len(run.t) // ANSWERS))
    states = np.array([*run.state.values(), run.work]).T
    own = np.array([*run.program_state.values()]).reshape(-1, len(run.t)).T
    goals = [control.goal(run.goal_t[row], own[row].copy()) for row in rows]
    return [
        control.law.evaluate(run.t[row], states[row].copy(), goal).out for row, goal in zip(rows, goals, strict=True)
    ]


def tables() -> dict[str, dict[str, Any]]:
    """The tables of known computers, by their probe."""
    return tomllib.loads(TABLE.read_text())


def slow_but_one_of_each_machine() -> list[Any]:
    """All launch files that start; of each machine the first is fast."""
    seen: set[str] = set()
    marked = []
    for name in COMPARED:
        machine = read_launch(name).plant.machine
        marked.append(pytest.param(name, marks=pytest.mark.slow if machine in seen else ()))
        seen.add(machine)
    return marked


@pytest.mark.parametrize("name", slow_but_one_of_each_machine())
def test_a_launch_file_ends_in_the_bits_of_the_table(name: str) -> None:
    if (known := tables().get(probe())) is None:
        pytest.skip("sin, exp and so on have other last bits on this computer")
    if "on_program" in read_launch(name).plant.initial and lapack() != known["lapack"]:
        pytest.skip("least squares have other last bits on this computer")
    pairs = zip(PARTS, bits(name), known[name], strict=True)
    assert {part: found for part, found, expected in pairs if found != expected} == {}, "parts with other bits"


def test_the_table_holds_every_launch_file_that_starts() -> None:
    assert [set(known) - ABSENT for known in tables().values()] == [{"lapack", *COMPARED}] * len(tables())


def main() -> None:
    """Write this computer's table; those of others go where its own has changed, for they hold no longer."""
    here, made, known = probe(), {"lapack": lapack()} | {name: bits(name) for name in COMPARED}, tables()
    known = (known if known.get(here, made) == made else {}) | {here: made}
    lines = [f"# {', '.join(PARTS)}; made by `python -m tests.conformance.test_bits`"]
    for computer, rows in sorted(known.items()):
        lines += [f"[{computer}]", *(f"{name} = {json.dumps(row)}" for name, row in rows.items())]
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
