"""The closed mechanisms of the examples: they pass the check, their loops stay closed, MuJoCo moves them as closely."""

from pathlib import Path

import numpy as np
import pytest

import servonode
from tests.helpers.extras import needs_mujoco

needs_mujoco()
FOLDER = Path(__file__).parents[3] / "examples" / "mechanisms"
LARGEST = {  # residual of the goal [m, rad], sampled at 500 Hz
    "four_bar_leg": 5e-5,
    "five_bar": 1e-4,
    "pantograph": 3e-5,
    "delta": 1e-4,
    "stewart": 3e-4,
    "spring_leg": 5e-4,
}


def largest(run: servonode.Run) -> float:
    return max(float(np.abs(each).max()) for each in run.residual.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGEST)
def test_a_mechanism_follows_its_goal_with_closed_loops_and_in_mujoco(name: str) -> None:
    loop = servonode.load(FOLDER / f"{name}.toml", run__duration=60.0)
    run, machine = loop.simulate(), loop.closed_loop.machine
    assert run.fault is None
    assert largest(run) < LARGEST[name]
    states = machine.description.state_names
    x = loop.closed_loop.start.copy()
    for row in np.column_stack([run.state[each] for each in states]):
        x[: len(states)] = row
        assert np.abs(machine.position_residual(0.0, x)).max() < 1e-9
    assert largest(servonode.simulate(FOLDER / f"{name}.toml", plant__driver="mujoco")) < LARGEST[name]


def test_each_mechanism_names_the_forces_of_its_loops_and_is_closed_at_zero() -> None:
    import mujoco

    for file in FOLDER.glob("*.xml"):
        model = mujoco.MjModel.from_xml_path(str(file))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        loops = data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY
        assert loops.any(), file.name
        assert np.abs(data.efc_pos[loops]).max() < 1e-9, file.name


@pytest.mark.slow
def test_check_says_where_a_five_bar_is_singular() -> None:
    report = servonode.check(FOLDER / "five_bar.toml", controller__settings={"size": 0.2})
    assert not report
    assert any("lost rank" in str(each) and "left_elbow = " in str(each) for each in report.findings)
