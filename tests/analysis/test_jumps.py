"""Machines whose states are set at once: the continuous mode locates each jump, and a jump may set rates."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.mechanics import Model, ModelError, before, constraint, coordinate, input_, jump, parameter, velocity
from servonode.mechanics.derive import derive
from servonode.simulation.event_integration import SimulationError


def ball(compares: bool = False) -> Model:
    z, e = coordinate("z", "height", "m", start=1.0), parameter("e", "restitution", default=1.0)
    F = input_("F", "force", "N")
    down = before(z) < 0 if compares else z < 0
    bounce = jump(down, {z: -z, z.rate: -e * z.rate}, "bounce")
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


def test_jumps_without_end_or_that_look_back_at_a_step_are_refused() -> None:
    with pytest.raises(SimulationError, match="jumps follow each other without end"):
        bounced(10.0, parameters={"e": 0.5})
    with pytest.raises(LaunchError, match="its jumps depend on the states at the beginning of a plant step"):
        bounced(settings={"compares": True})


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
