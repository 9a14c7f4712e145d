"""Random robots' files are right to MuJoCo's accelerations, to 1e-9, or refused in one line: none is silently wrong."""

from pathlib import Path

import pytest

from servonode.errors import ServonodeError
from servonode.wings.robots import definition
from tests.helpers import random_robots
from tests.helpers.extras import needs_mujoco
from tests.helpers.robots import machine_of

needs_mujoco()
FAST, ALL = 3, 100
CASES = [
    pytest.param(kind, seed, marks=[pytest.mark.slow] if seed >= FAST else [])
    for kind in ("mjcf", "urdf")
    for seed in range(ALL)
]


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_a_random_robot_is_right_or_refused(kind: str, seed: int, tmp_path: Path) -> None:
    file = tmp_path / f"robot.{'urdf' if kind == 'urdf' else 'xml'}"
    file.write_text(getattr(random_robots, kind)(seed))
    try:
        notes = machine_of(file).description.notes
    except ServonodeError as error:
        said = str(error)
        assert "\n" not in said
        assert "miss MuJoCo's" not in said
        assert kind == "mjcf"
    else:
        assert not [each for each in notes if each.startswith("not compared")]
        assert definition.RobotDefinition(file.name, file).robot()[0].bodies
