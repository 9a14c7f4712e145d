"""A machine that falls unless it is held, along its bounded solution, by processes in real time."""

from pathlib import Path

import pytest

from tests.helpers.runs import final_of_run

SEGWAY = Path(__file__).parents[2] / "examples" / "segway" / "place.toml"


@pytest.mark.slow
def test_a_segway_follows_its_goal() -> None:
    end = final_of_run(SEGWAY, "run.mode=realtime", "plant.safety.command_timeout_floor=0.5")
    assert end["fault"] is None
    assert end["residual_max"]["place"] < 0.05  # 1e-4 on a quiet computer; a busy one answers late
    assert abs(end["state"]["x"] - 2.0) < 0.01
