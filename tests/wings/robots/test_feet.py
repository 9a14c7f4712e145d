"""Feet that stay: the forces that hold them, and a quadruped whose trunk follows a goal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.errors import ServonodeError
from tests.helpers.extras import needs_mujoco
from tests.helpers.rolling_robots import hopper, quadruped, robot_machine

needs_mujoco()
MASS = 5.0 + 4 * (0.3 + 0.4 + 0.2 + 0.05)


@pytest.mark.slow
def test_the_force_under_a_foot_moves_the_centre_of_mass(tmp_path: Path, rng: np.random.Generator) -> None:
    """m (c'' - g) is the force of the ground, at random states and torques; the foot does not move."""
    machine = robot_machine(tmp_path, hopper(), base="free", feet=["F_foot"], friction=0.8)
    description = machine.description
    assert description.coordinates[:6] == ("x", "y", "z", "yaw", "pitch", "roll")
    assert description.velocities == tuple(f"{q}_dot" for q in description.coordinates[:6])
    assert description.input_names == ("F_roll_torque", "F_pitch_torque", "F_knee_torque")
    assert [each.text for each in description.warnings] == [
        "the ground would have to pull F_foot: a real foot lifts",
        "F_foot would slip (friction)",
    ]
    n = len(description.coordinates)
    for _ in range(10):
        x = rng.uniform(-0.5, 0.5, len(description.state_names) + 1)
        x[description.state_names.index("F_knee")] = -1.2
        u = rng.normal(size=3)
        moved = machine.derivatives(0.0, x, u)
        accelerations, forces = machine.full(0.0, x, u)
        assert_allclose(accelerations[:6], moved[n:-1], rtol=1e-9, atol=1e-9)
        push = np.zeros(3)
        for axis in range(3):  # the row of a slide is the balance of momentum of the whole robot
            balance = machine.matrices(0.0, x)
            push[axis] = balance.M[axis] @ accelerations + balance.h[axis]
        assert_allclose(forces, push, rtol=1e-9, atol=1e-9)


def refusal(folder: Path, text: str, **settings: Any) -> str:
    with pytest.raises(ServonodeError) as caught:
        robot_machine(folder, text, **settings)
    return str(caught.value)


def test_feet_that_cannot_be_are_refused(tmp_path: Path) -> None:
    assert "[plant.robot] feet: 'foot' is no link or frame of the file; choose from trunk," in refusal(
        tmp_path, hopper(), base="free", feet=["foot"]
    )
    assert "independent: no loop, wheel or foot holds the robot" in refusal(tmp_path, hopper(), independent=["zz"])
    assert "leave nothing that can move" in refusal(tmp_path, hopper(), feet=["F_foot"])
    assert "feet: trunk cannot move along every axis" in refusal(tmp_path, hopper(), base="planar", feet=["trunk"])
    assert "friction: feet names none" in refusal(tmp_path, hopper(), base="free", friction=0.5)


@pytest.mark.soak
def test_the_trunk_of_a_quadruped_sways_on_four_feet(tmp_path: Path) -> None:
    """Twelve motors for six numbers, by least norm: residuals to 1e-6; at rest the feet carry m g."""
    file = tmp_path / "robot.urdf"
    file.write_text(quadruped())
    legs = ("FL", "FR", "HL", "HR")
    bent = {f"{leg}_{joint}": value for leg in legs for joint, value in (("pitch", 0.7), ("knee", -1.4))}
    sways = {"x": 0.02, "y": 0.03, "z": -0.03, "yaw": 0.1, "pitch": 0.08, "roll": 0.05}
    residuals = {q: f"{q} - {0.3 if q == 'z' else 0.0} - {size}*sin(3*t)**3" for q, size in sways.items()}
    motors = [f"{leg}_{joint}_torque" for leg in legs for joint in ("roll", "pitch", "knee")]
    controller = {
        "residuals": residuals,
        "weights": dict.fromkeys(motors, 1.0),
        "gains": {"lambda": 5.0},
        "period": 0.005,
    }
    robot = {"base": "free", "feet": [f"{leg}_foot" for leg in legs], "friction": 0.8}
    plant = {"machine": str(file), "robot": robot, "initial": {**bent, "z": 0.3}}
    run = servonode.load({"run": {"duration": 1.0}, "plant": plant, "controller": controller}).simulate("continuous")
    assert all(np.abs(values).max() < 1e-6 for values in run.residual.values())
    assert max(np.ptp(run.state[q]) for q in ("roll", "pitch", "yaw")) > 0.09
    carried = sum(run.outputs[f"{leg}_foot_force_z"] for leg in legs)
    assert carried[0] == pytest.approx(MASS * 9.81, abs=1e-9)
    assert np.ptp(carried) > 1.0
