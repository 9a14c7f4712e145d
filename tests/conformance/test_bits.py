"""Every packaged launch file ends in the bits that stand in bits.toml: no change of the code may change a result.

    python -m tests.conformance.test_bits        makes the table again, where a change of results is meant

Bits depend on the mathematical library and the compiler as well; the table holds the bits of a probe of both, and
where this computer's differ nothing is compared. Another probe is of the linear algebra library, which solves for an
initial state on the program, and chooses its code by the processor. Machines that an engine moves, whose bits are its
own, are left out.
"""

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import packaged, read_launch
from servonode.definitions import cache
from servonode.plants.drivers import DRIVERS

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
NEVER_STARTS = ("ball_refused", "hoop_too_curved", "sphero_refused")
OURS = [each for each in sorted(packaged()) if DRIVERS[read_launch(each).plant.driver].motion is None]
COMPARED = [each for each in OURS if each not in NEVER_STARTS]


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


def bits(name: str) -> str:
    """The bits of all that the simulation of a launch file records."""
    run = servonode.simulate(name)
    columns = {each: values for each, values in run.columns.items() if each not in BY_LAPACK}
    return digest(run.k, run.work, *columns.values())


def table() -> dict[str, str]:
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
    if probe() != table()["probe"]:
        pytest.skip("sin, exp and so on have other last bits on this computer")
    if "on_program" in read_launch(name).plant.initial and lapack() != table()["lapack"]:
        pytest.skip("least squares have other last bits on this computer")
    assert bits(name) == table()[name]


def test_the_table_holds_every_launch_file_that_starts() -> None:
    assert set(table()) == {"probe", "lapack", *COMPARED}


def main() -> None:
    lines = [f'probe = "{probe()}"', f'lapack = "{lapack()}"']
    lines += [f'{name} = "{bits(name)}"' for name in COMPARED]
    TABLE.write_text("# made by `python -m tests.conformance.test_bits`\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
