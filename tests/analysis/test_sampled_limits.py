"""The sampled law on the nonlinear robot: its stability limit, what the predictor restores, what integrals remove."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop import resolution as resolving
from servonode.closed_loop.closed_loop import resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.closed_loop.static_checks import Examination
from servonode.mechanics import discrete
from servonode.simulation.simulate import simulate_fused

PERIOD = 0.01
STRAIGHT = ["target.x=2", "target.y=0", "controller.settings.rho0=2.0", "run.duration=6.0"]
START = ["plant.initial.V=1e-4", "plant.initial.psi=1e-4"]


def last_and_first(name: str, x: float, delay: int, *more: str, monkeypatch: Any) -> float:
    """Largest residual in the last second over the one at the start, at lambda T = x."""
    monkeypatch.setattr(resolving, "examine", lambda *_: Examination())  # it would refuse these rates
    gains = [f"controller.gains.lambda_{name}={x / PERIOD}", f"controller.delay={delay}"]
    run = simulate_fused(resolve(read_launch("trailer_pursuit_lockstep", [*STRAIGHT, *START, *gains, *more])), 10)
    residual = np.abs(run.residual[name])
    if not np.isfinite(residual).all() or run.fault:
        return np.inf
    return float(residual[run.t > 5.0].max() / residual[0])


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
@pytest.mark.parametrize(("name", "relative_degree"), [("speed", 1), ("heading", 2)])
def test_the_robot_converges_below_the_limit_and_diverges_above(
    name: str, relative_degree: int, delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = discrete.limit(relative_degree, float(delay))
    below = last_and_first(name, 0.95 * limit, delay, monkeypatch=monkeypatch)
    above = last_and_first(name, 1.05 * limit, delay, monkeypatch=monkeypatch)
    assert below < 0.5
    assert above > 2.0


@pytest.mark.parametrize("delay", [1, 2])
def test_the_predictor_restores_the_limit_without_delay(delay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = "controller.predictor=true"
    assert last_and_first("heading", 0.95, delay, predictor, monkeypatch=monkeypatch) < 0.5
    assert last_and_first("heading", 0.95, delay, monkeypatch=monkeypatch) > 2.0


def test_with_a_predictor_the_margins_are_those_without_delay() -> None:
    plain = servonode.check("trailer_pursuit", controller__delay=2).numbers["margins"]
    foreseen = servonode.check("trailer_pursuit", controller__delay=2, controller__predictor=True).numbers["margins"]
    assert plain["heading"]["limit"] == pytest.approx(0.2579, abs=1e-4)
    assert foreseen["heading"]["limit"] == pytest.approx(1.0, abs=1e-9)


RATES = {
    "run": {"duration": 30.0},
    "plant": {"machine": "diff_drive_trailer", "parameters": {"c_w": 0.02}},
    "controller": {"program": "rates", "parameters": {"c_w": 0.0}, "settings": {"v": 0.4}},
}


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "loop"), [({}, "fused"), ({"predictor": True, "delay": 1}, "nodes")])
def test_integral_action_removes_what_unknown_friction_leaves(controller: dict[str, Any], loop: Any) -> None:
    def speed_error(**gains: float) -> float:
        more = {f"controller__{key}": value for key, value in controller.items()}
        run = servonode.simulate(RATES, loop=loop, controller__gains=gains, **more)
        return abs(float(run.residual["speed"][-1]))

    without, with_integral = speed_error(**{"lambda": 2.0}), speed_error(**{"lambda": 2.0, "integral": 0.5})
    assert without > 1e-2  # d / lambda
    assert with_integral < 1e-4 * without  # exp(-0.5 * 30) and rounding
