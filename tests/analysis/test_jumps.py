"""Machines whose states are set at once: the continuous mode locates each jump, and a jump may set rates."""

from typing import Any

import numpy as np
import pytest
from sympy import And, Eq, Heaviside, Max, Or, sign

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.mechanics import (
    Model,
    ModelError,
    before,
    constraint,
    coordinate,
    input_,
    jump,
    parameter,
    time,
    velocity,
)
from servonode.mechanics.derive import derive
from servonode.simulation.event_integration import SimulationError


def ball(form: str = "reflects") -> Model:
    z, e = coordinate("z", "height", "m", start=1.0), parameter("e", "restitution", default=1.0)
    F = input_("F", "force", "N")
    turned = {z.rate: -e * z.rate}
    bounce = {
        "reflects": lambda: jump(z < 0, {z: -z, **turned}, "bounce"),
        "turns": lambda: jump(z <= 0, turned, "bounce"),
        "lands": lambda: jump(z < 0, {z: 0, **turned}, "bounce"),
        "both": lambda: jump(And(z < 0, z.rate < 0), turned, "bounce"),
        "compares": lambda: jump(z < 0, {z: before(z), **turned}, "bounce"),
    }[form]()
    return Model("ball", "ball", z.rate**2 / 2, coordinates=(z,), parameters=(e,), potential=9.81 * z,
                 inputs={F: z.rate}, jumps=(bounce,))  # fmt: skip


FALL_S, SPEED = np.sqrt(2 / 9.81), np.sqrt(2 * 9.81)


def bounced(duration: float = 5.0, **more: Any) -> servonode.Run:
    launch = {"run": {"duration": duration}, "plant": {"machine": ball, **more}}
    return servonode.simulate(launch, control="continuous", every=1)


def test_a_ball_bounces_at_the_times_of_its_closed_form() -> None:
    run = bounced()
    since = (run.t - FALL_S) % (2 * FALL_S)
    exact = np.where(run.t < FALL_S, 1 - 9.81 * run.t**2 / 2, SPEED * since - 9.81 * since**2 / 2)
    assert np.abs(run.columns["z"] - exact).max() < 1e-9
    assert run.energy_error < 1e-9


def test_what_an_impact_takes_away_is_counted_as_work() -> None:
    run = bounced(2.0, parameters={"e": 0.8})
    first = SPEED * 0.8
    second = FALL_S + 2 * first / 9.81
    after = run.columns["z_dot"][np.searchsorted(run.t, second) + 1]
    assert after == pytest.approx(0.64 * SPEED, abs=0.02)
    assert run.energy_error < 1e-9


@pytest.mark.parametrize("e", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("form", ["reflects", "turns", "lands", "both"])
def test_a_ball_that_comes_to_rest_ends_its_run_in_all_modes(form: str, e: float) -> None:
    rests = FALL_S * (1 + 2 * e / (1 - e))
    plant = {"machine": ball, "settings": {"form": form}, "parameters": {"e": e}}
    launch = {"run": {"duration": 3.0}, "plant": plant}
    with pytest.raises(SimulationError, match="jumps follow each other without end: 'bounce'") as caught:
        servonode.simulate(launch, control="continuous")
    assert float(str(caught.value).split()[3]) == pytest.approx(rests, abs=0.03)
    run = servonode.simulate(launch)
    assert run.fault is not None
    assert (run.fault["name"], run.fault["t"]) == ("jumps", pytest.approx(rests, abs=0.03))
    assert np.abs(run.state["z"][run.t > rests]).max(initial=0.0) < 0.01


def test_jumps_that_look_back_at_a_step_and_starts_beyond_one_are_refused() -> None:
    with pytest.raises(LaunchError, match="its jumps depend on the states at the beginning of a plant step"):
        bounced(settings={"form": "compares"})
    with pytest.raises(LaunchError, match=r"beyond the jump 'bounce', which acts where -z > 0 begins: it is 0.5 there"):
        bounced(initial={"z": -0.5})


@pytest.mark.parametrize("control", ["sampled", "continuous"])
def test_a_ball_that_leaves_the_floor_may_start_there(control: Any) -> None:
    plant = {"machine": ball, "settings": {"form": "turns"}, "initial": {"z": 0.0, "z_dot": 3.0}}
    run = servonode.simulate({"run": {"duration": 1.0}, "plant": plant}, control=control)
    since = 1 - 6 / 9.81
    assert run.state["z"][-1] == pytest.approx(
        3 * since - 9.81 * since**2 / 2, abs=2e-2 if control == "sampled" else 1e-8
    )
    with pytest.raises(LaunchError, match="beyond the jump 'bounce'"):
        bounced(settings={"form": "turns"}, initial={"z": 0.0, "z_dot": -3.0})


def corner() -> Model:
    x, y = coordinate("x", "", "m", start=1.0), coordinate("y", "", "m", start=1.0)
    walls = [jump(q < 0, {q: -q, q.rate: -q.rate / 2}, f"wall {q}") for q in (x, y)]
    kick = jump(time > 1.5, {x.rate: x.rate + 1}, "kick")
    return Model("corner", "", (x.rate**2 + y.rate**2) / 2, coordinates=(x, y), jumps=(*walls, kick))


@pytest.mark.parametrize("control", ["sampled", "continuous"])
@pytest.mark.parametrize("apart", [0.0, 1e-9])
def test_two_walls_at_once_both_act_and_a_time_that_is_past_acts_once(control: Any, apart: float) -> None:
    start = {"x_dot": -1.0, "y_dot": -1.0, "y": 1 + apart}
    run = servonode.simulate(
        {"run": {"duration": 3.0}, "plant": {"machine": corner, "initial": start}}, control=control
    )
    found, near = [run.state[name][-1] for name in ("x", "y", "x_dot", "y_dot")], 3e-3 if control == "sampled" else 1e-8
    np.testing.assert_allclose(found, [2.5, 1.0, 1.5, 0.5], atol=near)


def balls() -> Model:
    """Two balls, one on the other, dropped on a floor: the upper one sends the lower one back at the same instant."""
    a, b = coordinate("a", "", "m", start=1.0), coordinate("b", "", "m", start=1.0)
    swap = {
        a.rate: (a.rate + b.rate) / 2 - 0.4 * (a.rate - b.rate),
        b.rate: (a.rate + b.rate) / 2 + 0.4 * (a.rate - b.rate),
    }
    hits = jump(a < 0, {a.rate: -0.8 * a.rate}, "floor"), jump(b < a, swap, "balls")
    return Model("balls", "", (a.rate**2 + b.rate**2) / 2, coordinates=(a, b), potential=9.81 * (a + b), jumps=hits)


def test_an_impact_that_another_one_sends_back_acts_again_at_the_same_instant() -> None:
    run = servonode.simulate({"run": {"duration": 0.5}, "plant": {"machine": balls}}, control="continuous", every=1)
    lower = lambda v, w: (0.1 * v + 0.9 * w, 0.9 * v + 0.1 * w)  # noqa: E731
    v, w = lower(0.8 * SPEED, -SPEED)
    v, w = lower(-0.8 * v, w) if v < 0 and -0.8 * v > w else (abs(v) if v > 0 else -0.8 * v, w)
    at = int(np.searchsorted(run.t, FALL_S))
    np.testing.assert_allclose([run.state["a_dot"][at], run.state["b_dot"][at]], [v, w], atol=0.02)


def test_relations_are_made_of_inequalities_whose_margins_do_not_jump() -> None:
    z = coordinate("z", "", "m")
    assert jump(Or(z < 0, z > 2), {z.rate: 0}, "").margin == Max(-z, z - 2)
    for relation in (Heaviside(-z) > 0, Eq(z, 0), before(z) < 0, sign(z) < 0):
        with pytest.raises(ModelError, match=r"Min\(-z, -z.rate\) > 0|cannot be compiled"):
            jump(relation, {z.rate: 0}, "")


def test_a_jump_sets_a_rate_that_is_a_velocity_and_no_other() -> None:
    x, y, u = coordinate("x", "", "m"), coordinate("y", "", "m"), velocity("u", "", "m/s")
    F = input_("F", "force", "N")
    common = {
        "name": "bead", "description": "on a line", "coordinates": (x, y), "velocities": (u,),
        "kinetic": (x.rate**2 + y.rate**2) / 2, "inputs": {F: x.rate}, "kinematics": {x: u, y: 2 * u},
        "constraints": (constraint("N", "line", y.rate - 2 * x.rate),),
    }  # fmt: skip
    derive(Model(**common, jumps=(jump(x > 1, {x.rate: -x.rate}, "wall"),)))
    with pytest.raises(ModelError, match=r"sets y_dot, which is not a state; choose from x, y, u"):
        derive(Model(**common, jumps=(jump(x > 1, {y.rate: -y.rate}, "wall"),)))
