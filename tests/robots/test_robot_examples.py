"""The examples with robots from files: the goal is reached as their first lines and pages say."""

from pathlib import Path

import pytest

import servonode
from tests.helpers.extras import needs_mujoco

needs_mujoco()

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_the_arm_draws_its_figure_of_eight() -> None:
    run = servonode.simulate(EXAMPLES / "arm" / "figure_of_eight.toml")
    worst = {name: abs(each).max() for name, each in run.residual.items()}
    assert max(worst[f"tool_{axis}"] for axis in "xyz") < 1e-4  # m
    assert max(worst["tool_rx"], worst["tool_ry"]) < 1.7e-3  # rad: 0.1 degrees
    assert run.state["turn"].max() < 0.5
