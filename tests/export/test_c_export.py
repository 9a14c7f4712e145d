"""The exported C file: the bits of the compiled kernels, no warning, no allocation, every number of the launch file."""

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.controllers.engine.program import Program, residual
from servonode.controllers.engine.signals import load_signals
from servonode.export.c import c_file, c_prefix
from servonode.export.c_export import Exported
from servonode.plants.limits import Limits
from tests.helpers.c_code import c_text, pointer


def test_a_law_with_three_inputs_is_solved_with_pivoting_in_c_as_well(
    library: Any, small: Any, rng: np.random.Generator
) -> None:
    machine = small.machine(small.plate)
    law = small.law("plate_rates", small.plate, plate_rates, machine, Path(__file__))
    law.stabilise({"along": 1.0, "across": 2.0, "turn": 3.0})
    free, none = Limits((np.inf,) * 3, (np.inf,) * 3), load_signals({}, 0)
    text = c_file(
        Exported(machine, law, "rk4", 0.001, 0.01, "run", machine.state({}), free, None, 0, 0, none, none, ())
    )
    assert "solve_3(S3, v3)" in text
    compiled, out = library(text).run_law, np.zeros(law.answer_layout.size)
    for _ in range(100):
        x, y = rng.normal(size=machine.n_state), np.zeros(0)
        answer = law.evaluate(0.5, x, y)
        assert compiled(ctypes.c_double(0.5), pointer(x), None, pointer(out)) == answer.status == 0
        np.testing.assert_array_equal(out.view(np.int64), answer.out.view(np.int64))


def plate_rates(plate: Any) -> Program:
    """Steady rates of the plate of tests/helpers."""
    vx, vy, w = plate.velocities
    goals = {"along": vx - 1, "across": vx * vy, "turn": w + vy}
    return Program("plate_rates", "steady rates", [residual(name, goal, name) for name, goal in goals.items()])


def test_a_machine_on_a_holonomic_constraint_is_projected_in_c_as_well(library: Any, tmp_path: Path) -> None:
    (tmp_path / "pendulum.py").write_text(PENDULUM)
    file = tmp_path / "pendulum.toml"
    file.write_text(
        '[run]\nduration = 1.0\n[plant]\nmachine = "pendulum.py:model"\ninitial = {x = 0.6, y = -0.8}\n'
        'parameters = {m = "1 + 0.2*sin(t)"}\n'
    )
    a = resolve(read_launch(str(file), []))
    step, compiled, h = a.machine.stepper("rk4"), library(c_text(a)).run_plant_step, a.launch.step_ns / 1e9
    x, u = a.start.copy(), np.zeros(a.machine.n_inputs)
    ours = x.copy()
    for k in range(200):
        step(k * h, x, u, a.machine.c, h)
        compiled(ctypes.c_double(k * h), pointer(ours), pointer(u))
    np.testing.assert_array_equal(ours.view(np.int64), x.view(np.int64))
    u[:] = 3.0
    library(c_text(a)).run_safe(ctypes.c_double(0.0), pointer(x), pointer(u))
    assert u == [0.0]  # without a safe action of its own


PENDULUM = '''
"""Pendulum in Cartesian coordinates."""

from servonode.mechanics import Model, constraint, coordinate, input_, parameter, velocity


def model():
    x, y = coordinate("x", "to the right", "m"), coordinate("y", "up", "m")
    w = velocity("w", "turning rate", "rad/s")
    m = parameter("m", "mass", "kg", default=1.0, above=0)
    F = input_("F", "force to the right", "N")
    moves = {"kinematics": {x: -y * w, y: x * w}, "velocities": (w,), "inputs": {F: x.rate}}
    rod = constraint("rod", "force of the rod", x**2 + y**2 - 1)
    energies = {"kinetic": m * (x.rate**2 + y.rate**2) / 2, "potential": 9.81 * m * y}
    return Model("pendulum", "pendulum", parameters=(m,), constraints=(rod,), **moves, **energies)
'''


@pytest.mark.parametrize("name", ["trailer_pursuit", "trailer_coast"])
def test_the_file_needs_no_allocation_and_no_state(name: str) -> None:
    text = re.sub(r"/\*.*?\*/", "", c_text(resolve(read_launch(name, [])), name), flags=re.DOTALL)
    assert not re.search(r"malloc|alloca|free|memcpy|goto|while", text)
    assert re.findall(r"#include .*", text) == ["#include <math.h>"]
    text = re.sub(r"\n    (?=[^;{}()]*\)[;\n])", " ", text)  # long lines as one
    at_file_scope = [line for line in text.splitlines() if re.match(r"\w", line) and line.rstrip().endswith(";")]
    assert all(re.match(rf"(void|int) {name}_\w+\(", line) for line in at_file_scope)
    assert all(line.startswith("static const double") for line in text.splitlines() if re.match(r"\w.* = ", line))
    assert not re.search(r"^ +static (?!const )", text, flags=re.MULTILINE)
    public = re.findall(r"^(?:void|int) (\w+)\(.*\)$", text, flags=re.MULTILINE)
    wanted = ["plant_step", "safe", "limit"]
    if name != "trailer_coast":
        wanted += ["law", "goal", "controller_start", "controller_update"]
    assert public == [f"{name}_{each}" for each in wanted]


def test_an_open_loop_file_has_no_law_and_compiles(library: Any) -> None:
    text = c_text(resolve(read_launch("trailer_coast", [])))
    assert "which has no controller" in text
    assert not hasattr(library(text), "run_law")


def test_the_prefix_is_an_identifier_of_c() -> None:
    prefixes = {
        "trailer_pursuit": "trailer_pursuit",
        "my run-2": "my_run_2",
        "2d": "run_2d",
        "größe": "gr__e",
        "": "run",
    }
    assert {name: c_prefix(name) for name in prefixes} == prefixes


def test_the_header_states_the_numbers_of_the_plant_and_of_the_law() -> None:
    a = resolve(read_launch("trailer_pursuit", ["plant.parameters.m1=4.25", "controller.parameters.m1=5.75"]))
    text = c_text(a)
    plant, law = text.split("Law: program")
    assert re.search(r"m1 +4\.25 +kg", plant)
    assert re.search(r"m1 +5\.75 +kg", law)
    assert "#define SERVONODE_STEP_S 0.001 " in text
    assert "#define SERVONODE_PERIOD_S 0.01 " in text
    assert "#define SERVONODE_N_Y 6 " in text
