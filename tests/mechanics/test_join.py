"""Machines joined with prefixes, apart and coupled, against the machines by themselves and closed forms."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose

import servonode
from servonode.mechanics import (
    Model,
    before,
    condition,
    constraint,
    coordinate,
    first_order,
    input_,
    jump,
    output,
    parameter,
    sensor,
    together,
    vector,
)
from servonode.mechanics.derive import derive

HERE = Path(__file__)
Flow = Callable[..., Any]


def motor_cart() -> Model:
    """A cart with everything that has a name."""
    x = coordinate("x", "place", "m", start=0.25)
    m, k = parameter("m", "mass", "kg", default=2.0, above=0), parameter("k", "stiffness", "N/m", default=8.0)
    i, V = first_order("i", "current", "A"), input_("V", "voltage", "V")
    return Model(
        name="cart",
        description="a cart",
        kinetic=m * x.rate**2 / 2,
        potential=k * x**2 / 2,
        dissipation=x.rate**2 / 4,
        parameters=(m, k),
        coordinates=(x,),
        forces=((3 * i, x.rate),),
        first_order={i: 5 * (V - i) - x.rate},
        inputs={V: 0},
        outputs=(output("push", "of the motor", 3 * i, "N"),),
        sensors=(sensor("scale", "of the place", x, "m"),),
        requirements=(condition(k >= m, "too soft"),),
        warnings=(condition(x < 5, "far"),),
        faults=(condition(x < 9, "lost", name="gone"),),
        safe={V: -x.rate},
        jumps=(jump(x > 7, {x: before(x)}, "a stop"),),
        panels=(("x", "i"),),
    )


def trains() -> Model:
    return together("train", "two carts", left=motor_cart(), right=motor_cart())


def spring() -> Model:
    both = trains()
    c = parameter("c", "coupling", "N/m", default=3.0)
    stretch = both["left_x"] - both["right_x"]
    return both.coupled(parameters=(c,), potential=c * stretch**2 / 2, outputs=(output("stretch", "", stretch, "m"),))


def test_two_machines_move_as_each_by_itself(small: ModuleType, rng: np.random.Generator) -> None:
    alone, both = small.machine(motor_cart, {}, HERE), small.machine(trains, {"right_m": 3.0}, HERE)
    heavy = alone.with_parameters({"m": 3.0})
    assert both.description.state_names == ("left_x", "left_x_dot", "left_i", "right_x", "right_x_dot", "right_i")
    a, b, u = rng.normal(size=4), rng.normal(size=4), rng.normal(size=2)
    a[3] = b[3] = 0.0
    x = np.array([*a[:3], *b[:3], 0.0])
    left, right = alone.derivatives(0.0, a, u[:1]), heavy.derivatives(0.0, b, u[1:])
    assert_allclose(both.derivatives(0.0, x, u), [*left[:3], *right[:3], left[3] + right[3]], atol=1e-14)
    assert both.outputs(0.0, x, u) == {"left_push": 3 * a[2], "right_push": 3 * b[2]}
    assert_allclose(both.safe_input(0.0, x), [-a[1], -b[1]])


def test_everything_has_its_machine_in_its_name() -> None:
    both = trains()
    assert [each.quantity.name for each in both.sensors] == ["left_scale", "right_scale"]
    assert [each.requirement.name for each in both.faults] == ["left_gone", "right_gone"]
    assert both.requirements[1].requirement.text == "right: too soft"
    assert both.requirements[1].requirement.relation == "right_k = {0} N/m, must be at least right_m = {1}"
    assert both.panels == (("left_x", "left_i"), ("right_x", "right_i"))
    assert both["right_x"].quantity.default == 0.25
    assert both.jumps[1].changes == {both["right_x"]: before(both["right_x"])}


@pytest.mark.slow
def test_a_spring_between_two_machines_adds_its_energy(small: ModuleType) -> None:
    machine = small.machine(spring, {}, HERE)
    x = np.array([1.0, 0.0, 0.0, -0.5, 0.0, 0.0, 0.0])
    assert machine.derivatives(0.0, x, np.zeros(2))[[1, 4]].tolist() == [-(8 + 3 * 1.5) / 2, (4 + 3 * 1.5) / 2]
    assert machine.outputs(0.0, x, np.zeros(2))["stretch"] == 1.5
    assert machine.energy(0.0, x) == 4 + 1 + 1.5 * 1.5**2


@pytest.mark.slow
def test_a_rigid_rod_between_two_machines_makes_one(small: ModuleType) -> None:
    def rod() -> Model:
        both = trains()
        x, y = both["left_x"], both["right_x"]
        return both.coupled(constraints=(constraint("rod", "force", x - y - 1, "N"),), independent=(x,))

    machine = small.machine(rod, {}, HERE)
    assert machine.description.velocities == ("left_x_dot", "left_i", "right_i")
    state = machine.state({"left_x": 0.5, "right_x": -0.5, "left_i": 2.0, "right_i": 1.0})
    assert machine.derivatives(0.0, state, np.zeros(2))[2] == pytest.approx((3 * 3.0 - 8 * 0.5 + 8 * 0.5) / 4)
    assert machine.outputs(0.0, state, np.zeros(2))["rod"] == pytest.approx(2 * 2.25 - 6.0 + 4.0)


@pytest.mark.slow
def test_a_joined_machine_runs_from_its_launch_names() -> None:
    plant = {"machine": spring, "initial": {"left_x": 1.0}, "parameters": {"right_k": 20.0}}
    controller = {"residuals": {"a": "left_i - 1", "b": "right_i + left_x"}}
    run = servonode.simulate({"run": {"duration": 0.5}, "plant": plant, "controller": controller})
    assert run.fault is None
    assert run.state["left_x"][0] == 1.0
    assert run.energy_error < 1e-6


def test_vectors_and_quasi_velocities_keep_their_kind(small: ModuleType) -> None:
    n = vector(coordinate, "n", "a place", "m")
    ball = Model("ball", "a ball", sum(q.rate**2 for q in n) / 2, coordinates=tuple(n))
    joined = together("two", "", one=ball, bead=small.bead())
    assert list(joined.vectors) == ["one_n"]
    plain, found = derive(small.bead()), derive(joined)
    assert sympy.simplify(found.M_r[3, 3] - plain.M_r[0].xreplace({
        symbol: joined[f"bead_{symbol.name}"] for symbol in plain.M_r.free_symbols})) == 0  # fmt: skip
    assert joined.constraints[0].multiplier.name == "bead_drive"


def test_independent_rates_take_the_prefix_of_their_machine() -> None:
    x, y = coordinate("x", ""), coordinate("y", "")
    loop = Model("loop", "", x.rate**2, coordinates=(x, y), independent=(x,), constraints=(constraint("N", "", x - y),))
    assert [v.name for v in together("t", "", a=loop, b=loop).independent] == ["a_x_dot", "b_x_dot"]
