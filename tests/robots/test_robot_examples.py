"""The examples with robots from files: the goal is reached as their first lines and pages say."""

from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.arrays import Array
from tests.helpers.extras import needs_mujoco

needs_mujoco()

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["simulated", "mujoco"])
def test_the_arm_draws_its_figure_of_eight(driver: str) -> None:
    run = servonode.simulate(EXAMPLES / "arm" / "figure_of_eight.toml", plant__driver=driver)
    worst = {name: abs(each).max() for name, each in run.residual.items()}
    assert max(worst[f"tool_{axis}"] for axis in "xyz") < 1e-4  # m
    assert max(worst["tool_rx"], worst["tool_ry"]) < 1.7e-3  # rad: 0.1 degrees
    assert run.state["turn"].max() < 0.5


def tilt_of_tray(run: servonode.Run) -> Array:
    """The angle [rad] of the tray's z axis from the vertical, by the kinematics of MuJoCo."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(EXAMPLES / "tray" / "tray.urdf"))  # its base stays where it is
    data, found = mujoco.MjData(model), []
    for i in range(len(run.t)):
        for name in ("shoulder", "elbow", "wrist"):
            data.joint(name).qpos = run.state[name][i]
        mujoco.mj_kinematics(model, data)
        found.append(np.hypot(*data.body("tray").xmat[[2, 5]]))
    return np.arcsin(found)


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "turning"), [("simulated", 1e-4), ("mujoco", 4e-3)])
def test_the_tray_stays_level_while_its_base_drives(driver: str, turning: float) -> None:
    run = servonode.simulate(EXAMPLES / "tray" / "tray.toml", plant__driver=driver)
    worst = {name: abs(each).max() for name, each in run.residual.items()}
    assert max(worst["tray_x"], worst["tray_z"]) < 2e-4  # m
    assert max(worst["speed"], worst["turning"]) < turning  # m/s, rad/s
    assert tilt_of_tray(run).max() < 5e-4  # rad
    assert np.ptp(run.state["V"]) > 0.79  # it drives
    assert abs(run.state["V"][-1]) < 1e-3  # and stops
    assert np.ptp(run.state["elbow"]) > 0.5  # the arm moves
