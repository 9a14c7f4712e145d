"""The Python side: what `servonode.load` gives, and launch files as mappings with functions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sympy import cos, sin

import servonode
from servonode.controllers import Program, residual, signal
from servonode.loop import Loop
from servonode.mechanics import Model, coordinate, input_, parameter
from servonode.record.run import Run
from tests.helpers.extras import oracle
from tests.helpers.machines import assert_same_bits

LENGTH = 0.5


def pendulum() -> Model:
    """A pendulum with a motor; its length is a number of this module."""
    theta = coordinate("theta", "angle from below", "rad")
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    c = parameter("c", "friction", "N m s/rad", default=0.1)
    N = input_("N", "torque", "N m")
    return Model(
        name="pendulum",
        description="pendulum with a motor",
        coordinates=(theta,),
        parameters=(m, c),
        kinetic=m * (LENGTH * theta.rate) ** 2 / 2,
        potential=-m * 9.81 * LENGTH * cos(theta),
        dissipation=c * theta.rate**2 / 2,
        inputs={N: theta.rate},
    )


def follow(machine: Model, sign: float = 1.0) -> Program:
    """The angle follows a function of time."""
    g = signal("g", "wanted angle", "rad", default="0.3*sin(t)")
    return Program(
        name="follow",
        description="the angle follows g",
        residuals=(residual("angle", machine["theta"] - sign * g, "angle less g", "rad", rate=4.0),),
        signals=(g,),
    )


def table(**controller: Any) -> dict[str, Any]:
    stated = {"program": follow} | controller
    return {"run": {"duration": 2.0}, "plant": {"machine": pendulum, "initial": {"theta": 0.4}}, "controller": stated}


@pytest.fixture(scope="module")
def loop() -> Loop:
    return servonode.load(table())


def test_derivatives_are_those_of_the_pendulum(loop: Loop) -> None:
    rates = loop.derivatives(0.0, {"theta": 0.7, "theta_dot": 1.1}, {"N": 0.3})
    expected = (0.3 - 0.1 * 1.1) / (2.0 * LENGTH**2) - 9.81 / LENGTH * np.sin(0.7)
    assert rates["theta"] == 1.1
    assert rates["theta_dot"] == pytest.approx(expected, rel=1e-13)
    assert loop.start == {"theta": 0.4, "theta_dot": 0.0}
    assert loop.derivatives(0.0) == loop.derivatives(0.0, {"theta": 0.4})


def test_the_law_asks_for_the_stabilised_acceleration(loop: Loop) -> None:
    t, state = 0.9, {"theta": 0.7, "theta_dot": 1.1}
    f, f_dot = 0.7 - 0.3 * np.sin(t), 1.1 - 0.3 * np.cos(t)
    wanted = -0.3 * np.sin(t) - 8.0 * f_dot - 16.0 * f
    acceleration = loop.derivatives(t, state, loop.law(t, state))["theta_dot"]
    assert acceleration == pytest.approx(wanted, rel=1e-12)
    assert loop.residuals(t, state)["angle"] == pytest.approx(f, rel=1e-14)


def test_matrices_and_terms_have_their_values(loop: Loop) -> None:
    assert_allclose(loop.matrices(0.0).M, [[2.0 * LENGTH**2]])
    assert loop.matrices(0.0).A.shape == (0, 1)
    assert_allclose(loop.terms(0.0)["W"], [[1 / (2.0 * LENGTH**2)]])


def test_the_symbolic_equations_are_exact(loop: Loop) -> None:
    m = loop.equations().model["m"]
    assert loop.equations().M_r[0] == m / 4
    assert loop.servo().relative_degrees == (2,)


def test_quantities_know_units(loop: Loop) -> None:
    assert loop.quantities["theta_dot"].unit == "rad/s"
    assert loop.quantities["m"].default == 2.0
    assert loop.quantities["residual_angle"].unit == "rad"


def test_a_loop_says_what_it_is(loop: Loop) -> None:
    assert repr(loop).splitlines() == [
        "Loop launch",
        "  machine        pendulum: pendulum with a motor",
        "  initial state  theta = 0.4 rad, theta_dot = 0 rad/s",
        "  inputs         N [N m]",
        "  program        follow",
        "  residuals      angle [rad] of relative degree 2",
        "  time           2 s in steps of 0.001 s (rk4), control every 0.01 s",
    ]


def test_the_loop_simulates_as_the_function_does(loop: Loop) -> None:
    ours, theirs = loop.simulate(), servonode.simulate(table())
    assert np.array_equal(ours.state["theta"], theirs.state["theta"])
    assert abs(ours.residual["angle"][-1]) < 2e-3 < abs(ours.residual["angle"][0])


def test_a_function_at_hand_is_known_by_what_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    before = servonode.load(table()).derivatives(0.0)
    monkeypatch.setattr(f"{__name__}.LENGTH", 1.0)
    after = servonode.load(table()).derivatives(0.0)
    assert after["theta_dot"] == pytest.approx(before["theta_dot"] / 2, rel=1e-12)


def test_options_of_functions_are_settings() -> None:
    loop = servonode.load(table(settings={"sign": -1.0}))
    assert loop.residuals(np.pi / 2, {"theta": -0.3})["angle"] == pytest.approx(0.0, abs=1e-15)


def test_a_finished_model_may_stand_for_its_function() -> None:
    stated = table()
    stated["plant"]["machine"] = pendulum()
    assert servonode.load(stated).derivatives(0.0) == servonode.load(table()).derivatives(0.0)


def test_overrides_reach_into_mappings_and_leave_them_alone() -> None:
    stated = table()
    assert servonode.load(stated, plant__parameters__m=3.0).machine.parameters["m"] == 3.0
    assert "parameters" not in stated["plant"]


def test_columns_have_units_and_make_a_frame(loop: Loop) -> None:
    run = loop.simulate()
    assert list(run.columns) == ["t", "theta", "theta_dot", "N", "residual_angle", "energy"]
    assert run.units == dict(zip(run.columns, ["s", "rad", "rad/s", "N m", "rad", "J"], strict=True))
    oracle("pandas")
    frame = run.to_dataframe()
    assert frame.index.name == "t"
    assert frame.attrs["units"]["N"] == "N m"
    assert np.array_equal(frame["residual_angle"], run.residual["angle"], equal_nan=True)


def test_decimal_numbers_cancel_as_fractions_do() -> None:
    def model() -> Model:
        x, y = coordinate("x", "place", "m"), coordinate("y", "place", "m")
        m = parameter("m", "mass", "kg", default=1.0)
        spin = (x.rate * cos(0.3 * y) - y.rate * sin(0.3 * y)) ** 2 + (
            x.rate * sin(0.3 * y) + y.rate * cos(0.3 * y)
        ) ** 2
        return Model(name="plane", description="", coordinates=(x, y), parameters=(m,), kinetic=0.5 * m * spin)

    loop = servonode.load({"run": {"duration": 1.0}, "plant": {"machine": model}})
    m = loop.equations().model["m"]
    assert list(loop.equations().M_r) == [m, 0, 0, m]
    assert list(loop.equations().h_r) == [0, 0]


def test_a_check_leaves_nothing_behind_in_the_loop() -> None:
    loop = servonode.load("trailer_pursuit", run__duration=1.0, strict=False)
    first = loop.check()
    assert loop.check() == first
    assert len(loop.closed_loop.examination.findings) < len(first.findings)


# other numbers for one simulation


def same(a: Run, b: Run) -> None:
    """Whether two runs are equal bit by bit."""
    assert_same_bits(a, b)
    assert list(a.program_state) == list(b.program_state)
    assert a.warnings == b.warnings
    assert a.residual_max == b.residual_max


@pytest.mark.parametrize("way", ["sampled", "continuous"])
def test_other_numbers_give_the_run_of_a_launch_file_with_them(way: Any) -> None:
    trailer = servonode.load("trailer_pursuit", run__duration=2.0)
    before = trailer.simulate(way)
    given: dict[str, Any] = {
        "initial": {"psi": 0.2, "phi": -0.1}, "parameters": {"m1": 4.5}, "targets": {"x": "3 + 0.1*t", "y": 2}
    }  # fmt: skip
    tables = {"plant": {"initial": given["initial"], "parameters": given["parameters"]}, "target": given["targets"]}
    whole = {f"plant__{name}": values for name, values in tables["plant"].items()} | {"target": tables["target"]}
    same(trailer.simulate(way, **given), servonode.simulate("trailer_pursuit", control=way, run__duration=2.0, **whole))
    same(trailer.simulate(way), before)


def test_start_is_prepared_for_other_numbers_too() -> None:
    hoop = servonode.load("hoop_rolls", run__duration=0.2)
    changed = servonode.simulate("hoop_rolls", run__duration=0.2, plant__initial__s=0.3, plant__parameters__kappa=0.5)
    same(hoop.simulate(initial={"s": 0.3}, parameters={"kappa": 0.5}), changed)


CART = """
from servonode.mechanics import Model, coordinate, input_, parameter
from servonode.plants.prepare import Preparation, Prepared

def model() -> Model:
    x, F = coordinate("x", "place", "m"), input_("F", "force", "N")
    m, k = parameter("m", "mass", "kg", default=1.0), parameter("k", "friction", "N s/m", default=1.0)
    return Model(name="cart", description="", coordinates=(x,), parameters=(m, k), kinetic=m*x.rate**2/2,
                 dissipation=k*x.rate**2/2, inputs={F: x.rate})

def prepare(wanted):
    return Prepared(initial={"x": wanted.initial["x"]}, parameters={"k": 5.0} if wanted.initial["x"] > 0.5 else {})

PREPARE = Preparation(prepare, start=("x",))
"""


def test_the_law_believes_what_is_prepared_for_other_numbers(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text(CART)
    controller = {"period": 0.01, "residuals": {"a": "x - 0.2"}, "gains": {"lambda": 2.0}}
    plant = {"machine": f"{tmp_path}/cart.py:model", "initial": {"x": 1.0}}
    run = {"run": {"duration": 0.5}, "plant": plant, "controller": controller}
    loop = servonode.load(run)
    same(loop.simulate(initial={"x": 0.3}), servonode.simulate(run, plant__initial__x=0.3))


def test_another_simulation_neither_derives_nor_surveys(monkeypatch: pytest.MonkeyPatch) -> None:
    trailer = servonode.load("trailer_pursuit", run__duration=0.1)
    trailer.simulate(targets={"x": "3 + 0.1*t", "y": 2})  # its kernels are loaded

    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("servonode.closed_loop.resolution.examine", never)
    monkeypatch.setattr("servonode.definitions.cache._compiled", never)
    monkeypatch.setattr("servonode.plants.MachineSource.build", never)
    for i in range(3):
        trailer.simulate(initial={"psi": 0.1 * i}, parameters={"m1": 4.0 + i}, targets={"x": 5.0 + i, "y": 2})
