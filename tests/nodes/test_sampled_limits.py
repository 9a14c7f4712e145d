"""The held law on the nonlinear robot: where it loses stability, what the predictor restores, what integrals remove."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.mechanics import discrete
from servonode.nodes import assembly as assembling
from servonode.nodes.assembly import assemble
from servonode.nodes.launch_file import read_launch
from servonode.nodes.simulate import simulate_fused

PERIOD = 0.01
STRAIGHT = ["target.x=0.3*t + 2", "target.y=0", "controller.settings.rho0=2.0", "run.duration=6.0"]
START = ["plant.initial.V=0.3", "plant.initial.psi=1e-4"]


def last_and_first(program: str, name: str, x: float, delay: int, *more: str, monkeypatch: Any) -> float:
    """Largest residual in the last second over the largest in the first two, at lambda T = x."""
    monkeypatch.setattr(assembling, "examine", lambda *_: assembling.Examination())  # it would refuse these rates
    gains = [f"controller.gains.lambda_{name}={x / PERIOD}", f"controller.delay={delay}"]
    run = simulate_fused(assemble(read_launch("trailer_pursuit_lockstep", [*STRAIGHT, *START, *gains, *more])), 10)
    residual = np.abs(run.residual[name])
    if not np.isfinite(residual).all() or run.fault:
        return np.inf
    return float(residual[run.t > 5.0].max() / residual[run.t < 2.0].max())


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
@pytest.mark.parametrize(("name", "degree"), [("speed", 1), ("heading", 2)])
def test_the_robot_converges_below_the_limit_and_diverges_above(
    name: str, degree: int, delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = discrete.limit(degree, float(delay))
    below = last_and_first("pursuit", name, 0.95 * limit, delay, monkeypatch=monkeypatch)
    above = last_and_first("pursuit", name, 1.05 * limit, delay, monkeypatch=monkeypatch)
    assert below < 0.5
    assert above > 2.0


@pytest.mark.parametrize("delay", [1, 2])
def test_the_predictor_restores_the_limit_without_delay(delay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = "controller.predictor=true"
    assert last_and_first("pursuit", "heading", 0.95, delay, predictor, monkeypatch=monkeypatch) < 0.5
    assert last_and_first("pursuit", "heading", 0.95, delay, monkeypatch=monkeypatch) > 2.0


def test_with_a_predictor_the_margins_are_those_without_delay() -> None:
    plain = servonode.check("trailer_pursuit", controller__delay=2).numbers["margins"]
    foreseen = servonode.check("trailer_pursuit", controller__delay=2, controller__predictor=True).numbers["margins"]
    assert plain["heading"]["limit"] == pytest.approx(0.2579, abs=1e-4)
    assert foreseen["heading"]["limit"] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("controller", "loop"), [({}, "fused"), ({"predictor": True, "delay": 1}, "nodes")])
def test_integral_action_removes_what_unknown_friction_leaves(controller: dict[str, Any], loop: Any) -> None:
    friction = {"plant__parameters": {"c_w": 0.02}, "controller__parameters": {"c_w": 0.0}, "target": {}}
    del friction["target"]
    program = {f"controller__{key}": value for key, value in controller.items()}

    def speed_error(**gains: float) -> float:
        run = servonode.simulate(
            "trailer_open_loop", run__duration=30.0, controller__program="rates", loop=loop,
            controller__settings__U1=0.0, **friction, **program, controller__gains=gains,
        )  # fmt: skip
        return float(run.residual["speed"][-1])

    without, with_integral = (
        _rates_run(friction, program, loop, {"lambda": 2.0}),
        _rates_run(friction, program, loop, {"lambda": 2.0, "integral": 0.5}),
    )
    assert abs(without) > 1e-2  # d / lambda
    assert abs(with_integral) < 1e-4 * abs(without)  # exp(-0.5 * 30) and the hold


def _rates_run(friction: Any, program: Any, loop: Any, gains: dict[str, float]) -> float:
    text = """
[run]
duration = 30.0
[plant]
machine = "diff_drive_trailer"
[controller]
program = "rates"
[controller.settings]
v = 0.4
"""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rates.toml"
        file.write_text(text)
        run = servonode.simulate(file, loop=loop, **friction, **program, controller__gains=gains)
    return float(run.residual["speed"][-1])
