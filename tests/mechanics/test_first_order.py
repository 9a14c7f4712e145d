"""First-order states of a machine: a motor's current against the matrix exponential, its energies, laws, refusals."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

import servonode
from servonode.mechanics import (
    Model,
    constraint,
    coordinate,
    first_order,
    input_,
    output,
    parameter,
    time,
    velocity,
)
from servonode.mechanics.changes import Changes, changed
from servonode.mechanics.derive import derive
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.machine import Machine

HERE = Path(__file__)
Flow = Callable[..., Any]
m, J, r, b, k, R, L = 1.5, 0.02, 0.05, 0.01, 0.3, 1.2, 0.004


def cart() -> Model:
    """A cart on a wheel, which an electric motor turns: L i' = V - R i - k w."""
    p = {name: parameter(name, name, default=value) for name, value in
         {"m": m, "J": J, "r": r, "b": b, "k": k, "R": R, "L": L}.items()}  # fmt: skip
    x, theta = coordinate("x", "place", "m"), coordinate("theta", "angle of the wheel", "rad")
    w = velocity("w", "rate of the wheel", "rad/s")
    i = first_order("i", "current", "A", start=0.5)
    V = input_("V", "voltage", "V")
    rolling = constraint("traction", "force of the ground", x.rate - p["r"] * theta.rate, "N")
    return Model(
        name="cart",
        description="cart with a motor",
        kinetic=(p["m"] * x.rate**2 + p["J"] * theta.rate**2) / 2,
        parameters=tuple(p.values()),
        kinematics={x: p["r"] * w, theta: w},
        velocities=(w,),
        constraints=(rolling,),
        dissipation=p["b"] * theta.rate**2 / 2,
        forces=((p["k"] * i, theta.rate),),
        first_order={i: (V - p["R"] * i - p["k"] * theta.rate) / p["L"]},
        inputs={V: 0},
        outputs=(
            output("heat", "of the windings", p["R"] * i**2, "W"),
            output("rise", "of the current", i.rate, "A/s"),
        ),
    )


@pytest.fixture(scope="module")
def driven(small: ModuleType) -> Machine:
    found: Machine = small.machine(cart, {}, HERE)
    return found


INERTIA = J + m * r**2
SYSTEM = np.array([[-b / INERTIA, k / INERTIA, 0.0], [-k / L, -R / L, 1 / L], [0.0, 0.0, 0.0]])  # w, i, V


def test_a_motor_under_a_steady_voltage_moves_as_the_matrix_exponential_says(driven: Machine, flow: Flow) -> None:
    x = flow(driven, np.array([0.1, 2.0, 3.0, 0.5, 0.0]), [0.05], np.array([6.0]))[:, -1]
    assert_allclose(x[2:4], (expm(0.05 * SYSTEM) @ [3.0, 0.5, 6.0])[:2], rtol=1e-10)
    assert x[0] - 0.1 == pytest.approx(r * (x[1] - 2.0), abs=1e-12)


def test_the_energy_balance_is_that_of_the_motion(driven: Machine, flow: Flow) -> None:
    x0, u = np.array([0.0, 0.0, 3.0, 0.5, 0.0]), np.array([6.0])
    assert driven.energy(0.0, x0) == pytest.approx(INERTIA * 9 / 2)  # no energy of the current
    assert driven.derivatives(0.0, x0, u)[4] == pytest.approx(k * 0.5 * 3 - b * 9)  # motor less friction
    x = flow(driven, x0, [0.3], u)[:, -1]
    assert driven.energy(0.0, x) - driven.energy(0.0, x0) == pytest.approx(x[4], abs=1e-10)


def test_multipliers_and_outputs_know_the_current(driven: Machine) -> None:
    x, u = np.array([0.0, 0.0, 3.0, 0.5, 0.0]), np.array([6.0])
    turning = (k * 0.5 - b * 3) / INERTIA
    outputs = driven.outputs(0.0, x, u)
    assert outputs["traction"] == pytest.approx(m * r * turning, rel=1e-12)
    assert outputs["heat"] == pytest.approx(R / 4)
    assert outputs["rise"] == pytest.approx((6.0 - R * 0.5 - k * 3) / L)
    assert driven.description.first_order == ("i",)
    assert driven.input_rates(0.0, x) == [0.0]


def test_a_disturbance_of_the_voltage_acts_as_the_voltage_and_works_no_more(driven: Machine) -> None:
    disturbed = derive(changed(cart(), Changes(disturbance={"V": "6*t"}, varying={"k": "0.3*t"})))
    values = {"theta": 2.0, "x": 0.1, "w": 3.0, "i": 0.5, "t": 1.0, "V": 0.0}
    at = {each: np.array([values.get(each.name, getattr(each, "quantity", None) and each.quantity.default)])
          for each in (*disturbed.model.symbols, time)}  # fmt: skip
    inertia, bias, power = disturbed.M_r[0, 0], list(disturbed.h_r), disturbed.power
    M, turning, rising, w_dot = at_states([inertia, *bias, power], at)[0]
    wanted = driven.derivatives(0.0, np.array([0.1, 2.0, 3.0, 0.5, 0.0]), np.array([6.0]))
    assert_allclose([-turning / M, -rising, w_dot], wanted[2:], rtol=1e-12)


def stated(residuals: dict[str, str]) -> dict[str, Any]:
    plant = {"machine": cart, "step": 1e-4, "initial": {"w": 1.0, "i": 0.2}}
    return {
        "run": {"duration": 0.2},
        "plant": plant,
        "controller": {"residuals": residuals, "gains": {"lambda": 40.0}, "period": 1e-3},
    }


def test_a_law_holds_the_current() -> None:
    loop = servonode.load(stated({"current": "i - 2"}))
    voltage = loop.law(0.0, {"w": 1.0, "i": 0.2})["V"]
    assert voltage == pytest.approx(R * 0.2 + k * 1.0 + L * 40.0 * 1.8, rel=1e-12)
    run = loop.simulate()
    assert run.state["i"][0] == 0.2
    assert run.state["i"][-1] == pytest.approx(2.0, abs=0.03)  # held voltages lag behind the growing speed
    assert np.abs(run.energy_error).max() < 1e-9


def test_a_goal_that_the_input_reaches_through_the_current_alone_has_one_degree_more() -> None:
    loop = servonode.load(stated({"speed": "w - 2"}))
    assert loop.closed_loop.control is not None
    assert loop.closed_loop.control.law.description.relative_degrees == (2,)
    turning = (k * 0.2 - b * 1.0) / INERTIA
    rising = 40.0**2 * (2 - 1.0) - 2 * 40.0 * turning  # w'' of (s + lambda)^2 (w - 2) = 0
    current_rate = (INERTIA * rising + b * turning) / k
    assert loop.law(0.0, {"w": 1.0, "i": 0.2})["V"] == pytest.approx(R * 0.2 + k * 1.0 + L * current_rate, rel=1e-9)
    run = loop.simulate(control="continuous")
    error, t = 1.0, 0.2  # (w - 2)(0) = -1
    slope = turning
    wanted = 2 + np.exp(-40 * t) * (-error + (slope - 40 * error) * t)
    assert run.state["w"][-1] == pytest.approx(wanted, abs=1e-9)
