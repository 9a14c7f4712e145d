"""Published cases of barriers, repeated: cars that follow another one, a goal that jumps, residuals that give way.

The car is that of Ames, Grizzle, Tabuada, "Control barrier function based quadratic programs with application to
adaptive cruise control" (CDC 2014), and of Xiao, Belta, "Control barrier functions for systems with high relative
degree" (CDC 2019): its mass and drag, a car ahead with a constant speed, a wanted speed of 24 m/s. With one input their
quadratic programs have solutions in closed form, with which runs are compared.
"""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode

Array = Any
MASS, DRAG, WANTED, G = 1650.0, (0.1, 5.0, 0.25), 24.0, 9.81
CAR = {
    "name": "car",
    "coordinates": {"x": "m"},
    "kinetic": f"{MASS}*x_dot**2/2",
    "inputs": {"F": {"acts_on": "x_dot", "unit": "N"}},
    "forces": [{"force": f"-({DRAG[0]} + {DRAG[1]}*x_dot + {DRAG[2]}*x_dot**2)", "acts_on": "x_dot"}],
}
POINT = {
    "name": "point",
    "coordinates": {"x": "m", "y": "m"},
    "kinetic": "(x_dot**2 + y_dot**2)/2",
    "inputs": {
        "F": {"acts_on": "x_dot", "unit": "N", "limit": 9.0},
        "G": {"acts_on": "y_dot", "unit": "N", "limit": 9.0},
    },
}


def driven(keep: dict[str, Any], share: float, rate: float, **more: Any) -> servonode.Run:
    """A run of the car from 20 m/s, 100 m behind another one, with at most this share of its weight as force."""
    stated: dict[str, Any] = {"residuals": {"speed": f"x_dot - {WANTED}"}, "gains": {"lambda": rate}, "duration": 20.0}
    stated |= {"limits": {"F": share * MASS * G}, "controller__limits": "keep", "initial": {"x_dot": 20.0}}
    return servonode.simulate({"plant": {"machine": CAR}}, keep=keep, controller__period=0.01, **stated | more)


def test_adaptive_cruise_control_of_ames_grizzle_and_tabuada() -> None:
    ahead, headway, share, decay, rate = 14.0, 1.8, 0.3, 5.0, 2.5
    braking = 2 * share * G
    h = f"100 + {ahead}*t - x - {headway}*x_dot - (x_dot - {ahead})**2/{braking}"
    run = driven({"distance": {"expression": h, "rate": decay}}, share, rate)
    assert run.fault is None

    def slope(t: float, x: float, v: float) -> float:
        """The acceleration of their program: as wanted, if the barrier and the limits allow it."""
        drag = (DRAG[0] + DRAG[1] * v + DRAG[2] * v * v) / MASS
        kept = 100 + ahead * t - x - headway * v - (v - ahead) ** 2 / braking
        most = (ahead - v + decay * kept) / (headway + 2 * (v - ahead) / braking)
        return float(np.clip(min(-rate * (v - WANTED), most) + drag, -share * G, share * G) - drag)

    x, v, step, found = 0.0, 20.0, 1e-3, []
    for i in range(20_000):
        if i % 100 == 0:
            found.append((x, v))
        half = v + step / 2 * slope(i * step, x, v)
        a = slope(i * step + step / 2, x + step / 2 * v, half)
        x, v = x + step * half, v + step * a
    t = np.arange(200) * 0.1
    for name, wanted in zip(("x", "x_dot"), np.array(found).T, strict=True):
        assert_allclose(np.interp(t, run.t, run.state[name])[1:], wanted[1:], rtol=0.01)
    assert run.state["x_dot"].max() == pytest.approx(WANTED, rel=0.01)
    distance = 100 + ahead * run.t - run.state["x"]
    assert distance[-1] / run.state["x_dot"][-1] == pytest.approx(headway, rel=0.01)
    assert run.state["x_dot"][-1] == pytest.approx(ahead, rel=0.01)
    assert (distance / run.state["x_dot"]).min() > headway - 1e-3


AHEAD, NEAREST = 13.89, 10.0  # m/s and m, of the car ahead


def behind(decay: float) -> servonode.Run:
    """A run that keeps a distance, of relative degree 2, with both class K functions `decay` times their argument."""
    kept = {"expression": f"100 + {AHEAD}*t - x - {NEAREST}", "rate": decay, "brake": 1e9}
    return driven({"distance": kept}, 0.4, 0.9)


@pytest.mark.parametrize("decay", [0.5, 1.0])
def test_a_barrier_of_high_order_of_xiao_and_belta(decay: float) -> None:
    run, v = behind(decay), WANTED - AHEAD
    assert run.fault is None
    since = run.t - (100 - NEAREST + (WANTED - 20) / 0.9 - 2 * v / decay) / v  # it acts
    distance = 100 + AHEAD * run.t - run.state["x"]
    acting = since > 0
    wanted = NEAREST + (2 * v / decay + v * since) * np.exp(-decay * since)
    assert_allclose(distance[acting], wanted[acting], rtol=0.01)
    assert distance.min() > NEAREST
    assert -np.gradient(run.state["x_dot"], run.t).min() == pytest.approx(decay * v / np.e, rel=0.01)


def test_with_faster_barriers_the_brakes_do_not_suffice_as_xiao_and_belta_find() -> None:
    fault = behind(2.0).fault
    assert fault is not None
    assert str(fault["text"]).startswith("keep distance: ")


def test_a_goal_that_jumps_breaks_no_barrier() -> None:
    """A box around a tool that a large jump of its goal pushed through (roboplan, pull request 122)."""
    box = {"width": "1 - abs(x)", "height": "1 - abs(y)", "corner": "1.2 - x - y"}
    stated: dict[str, Any] = {
        "residuals": {"x": "x - X", "y": "y - Y"},
        "targets": {"X": "0", "Y": "0"},
        "duration": 1.0,
    }
    stated |= {"gains": {"lambda": 8.0}, "period": 0.001, "controller__limits": "keep"}
    loop = servonode.load({"plant": {"machine": POINT}}, keep=box, **stated)
    closed = loop.closed_loop
    assert closed.control is not None
    law = closed.control.law
    machine, step = closed.machine, closed.machine.stepper("rk4")
    x, least, answer, rng = closed.start.copy(), np.inf, law.answer(), np.random.default_rng(0)
    acted = 0
    for i in range(6000):
        if i % 100 == 0:
            goal = closed.goal(0.0)
            goal[[0, 3]] = rng.uniform(-100.0, 100.0, 2)
        assert law.compute(0.0, x, goal, answer) == 0
        acted += answer.keeping == 1
        u = answer.inputs.copy()
        assert np.abs(u).max() <= 9.0
        for _ in range(4):
            step(0.0, x, u, machine.c, 0.00025)
            least = min(least, 1 - abs(x[0]), 1 - abs(x[1]), 1.2 - x[0] - x[1])
    assert acted > 3000
    assert least > -1e-4


@pytest.mark.parametrize(("priority", "end"), [({}, (0.5, 0.5)), ({"y": 2}, (2.0, -1.0)), ({"x": 2}, (-1.0, 2.0))])
def test_the_residual_of_the_largest_number_gives_way_alone(priority: dict[str, int], end: tuple[float, float]) -> None:
    stated: dict[str, Any] = {"residuals": {"x": "x - 2", "y": "y - 2"}, "gains": {"lambda": 4.0}, "duration": 12.0}
    stated |= {"controller__limits": "keep", "controller__priority": priority}
    run = servonode.simulate({"plant": {"machine": POINT}}, keep={"line": "1 - x - y"}, **stated)
    assert run.fault is None
    assert_allclose([run.state["x"][-1], run.state["y"][-1]], end, atol=2e-3)
