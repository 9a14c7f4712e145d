"""Large machines: derived as straight-line programs they are the machines that they are multiplied out."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from sympy import cos, sin

from servonode.definitions import cache
from servonode.errors import ModelError
from servonode.export.document import show_latex, show_text
from servonode.mechanics import Model, coordinate, input_, parameter, trig_reduce
from servonode.mechanics.derive import derive
from servonode.mechanics.equations import Equations
from servonode.mechanics.evaluate import are_zero, at_states
from servonode.mechanics.machine import load_machine
from servonode.mechanics.machine_source import machine_source
from servonode.mechanics.straight_line import auxiliaries_of, gradient, in_parts, named, ordered
from tests.helpers import car_with_trailers as helper
from tests.helpers.car_with_trailers import car_with_trailers, kane
from tests.helpers.small_machines import bead, cart_pole

x, y, z = sympy.symbols("x y z", real=True)


@pytest.fixture(scope="module")
def car() -> Any:
    """A car with four trailers, compiled."""
    key = cache.key_of("test", "car", cache.code_digest("mechanics.machine_source"), Path(helper.__file__).read_text())
    return load_machine(key, lambda: car_with_trailers(4), {})


@pytest.fixture
def straight_line(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every machine counts as large."""
    monkeypatch.setattr(trig_reduce, "LARGEST", 0)
    return None


def test_what_does_not_vanish_is_not_found_to_be_zero() -> None:
    assert are_zero([sin(x) ** 2 + cos(x) ** 2 - 1, sin(x + y) - sin(x) * cos(y) - cos(x) * sin(y)])
    assert not are_zero([x - y * sympy.Rational(10**12 + 1, 10**12) + y - x])
    assert not are_zero([sympy.Integer(0), named(x * y + z) - x * y])


@pytest.mark.slow
def test_a_chain_of_a_thousand_definitions_meets_no_recursion_limit() -> None:
    chain = x
    for _ in range(1100):
        chain = named(y * sin(chain) + x)
    assert len(ordered([chain])) == 1100
    again = pickle.loads(pickle.dumps(chain))
    assert again is chain
    assert gradient(chain, [y])[0] != 0
    assert chain.xreplace({y: sympy.Integer(0)}) == x


@pytest.mark.parametrize("make", [bead, cart_pole])
@pytest.mark.usefixtures("straight_line")
def test_a_straight_line_program_has_the_values_of_the_sums(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = derive(make())
    monkeypatch.undo()
    assert max(_differences(program, derive(make()))) < 1e-13


def _differences(one: Equations, other: Equations) -> Iterator[float]:
    """The largest relative difference of each part of the equations at random states."""
    rng = np.random.default_rng(2)
    model = one.model
    symbols = {*model.symbols, sympy.Symbol("t", real=True), *(q.rate for q in model.coordinates)}
    symbols |= {v.rate for v in model.velocities}
    states = {each: rng.uniform(0.3, 1.5, 4) for each in sorted(symbols, key=str)}
    for name in ("M", "h", "M_r", "h_r", "B_r"):
        a, b = (at_states(list(getattr(each, name)), states) for each in (one, other))
        yield float(np.abs(a - b).max() / (1 + np.abs(b).max()))
    a, b = (at_states([each.kinetic, each.potential, each.power], states) for each in (one, other))
    yield float(np.abs(a - b).max())


def test_a_car_with_four_trailers_accelerates_as_by_kanes_equations(car: Any) -> None:
    rng = np.random.default_rng(1)
    names = car.description.coordinates
    for _ in range(5):
        q, v, u = rng.uniform(-0.6, 0.6, len(names)), rng.normal(size=2), 100 * rng.normal(size=2)
        rates = car.derivatives(0.0, np.concatenate([q, v, [0.0]]), u)
        expected = kane(dict(zip(names, q, strict=True)), v, u, car.parameters)
        np.testing.assert_allclose(rates[len(names) : len(names) + 2], expected, rtol=1e-10)


def test_wrong_kinematics_of_a_large_machine_are_refused() -> None:
    with pytest.raises(ModelError, match=r"do not satisfy the constraint N4"):
        derive(car_with_trailers(4, wrong=1e-9))


@pytest.mark.slow
def test_the_equations_of_a_large_machine_are_shown_by_definitions_in_order() -> None:
    equations = derive(car_with_trailers(4))
    text, latex = show_text(equations, None, None), show_latex(equations, None, None)
    assert "auxiliary" not in text + latex
    defined = [line.split()[0] for line in text.splitlines() if line.strip().startswith("z") and " = " in line]
    assert defined == [f"z{i + 1}" for i in range(len(defined))]
    assert text.count("\n") < 700


def test_functions_in_functions_are_not_multiplied_out() -> None:
    q, p, k = coordinate("q", "angle"), coordinate("p", "angle"), parameter("k", "stiffness", default=0.5)
    nested: Any = p
    for _ in range(40):
        nested = q + k * sin(nested)
    equations = derive(
        Model(
            name="nested",
            description="functions in functions",
            coordinates=(q, p),
            parameters=(k,),
            kinetic=q.rate**2 + (2 + cos(nested)) * p.rate**2,
            potential=nested,
            inputs={input_("F", "force"): q.rate},
        )
    )
    assert auxiliaries_of(in_parts(equations.h_r[0]))
    assert machine_source(equations).count("sin(") < 1000
    assert show_text(equations, None, None)


@pytest.mark.slow
def test_the_text_of_a_large_machine_is_the_same_in_each_process() -> None:
    code = (
        "import hashlib; from tests.helpers.car_with_trailers import car_with_trailers;"
        "from servonode.mechanics.derive import derive; from servonode.mechanics.machine_source import machine_source;"
        "print(hashlib.sha256(machine_source(derive(car_with_trailers(4))).encode()).hexdigest())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
