"""The equations of machines from URDF and MJCF are those of MuJoCo."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.mechanics.machine import Machine
from tests.helpers.robots import ARM, ODD, accelerations, machine_of, mujoco_model, random_state

pytest.importorskip("mujoco")
STATES = 20


def written(folder: Path, text: str) -> Path:
    file = folder / ("odd.xml" if text.startswith("<mujoco") else "arm.urdf")
    file.write_text(text)
    return file


def assert_same_accelerations(machine: Machine, file: Path, tolerance: float) -> None:
    """Compare at random states; coordinates and velocities stand in MuJoCo's order."""
    model, data = mujoco_model(file)
    rng = np.random.default_rng(0)
    for _ in range(STATES):
        q, v = random_state(model, rng)
        u = rng.uniform(-1, 1, machine.n_inputs)
        expected = accelerations(model, data, q, v, u)
        rates = machine.derivatives(0.0, np.concatenate([q, v, [0.0]]), u)
        assert_allclose(rates[model.nq : -1], expected, rtol=tolerance, atol=tolerance * np.max(np.abs(expected)))


def test_free_bodies_balls_anchors_references_springs_and_motors_move_as_in_mujoco(tmp_path: Path) -> None:
    file = written(tmp_path, ODD)
    machine = machine_of(file)
    assert machine.description.input_names == ("m1", "actuator1")
    assert_same_accelerations(machine, file, 1e-10)


def test_an_arm_of_urdf_has_the_mass_matrix_and_bias_of_mujoco(tmp_path: Path) -> None:
    import mujoco

    file = written(tmp_path, ARM)
    machine = machine_of(file)
    model, data = mujoco_model(file)
    rng = np.random.default_rng(1)
    for _ in range(STATES):
        q, v = random_state(model, rng)
        accelerations(model, data, q, v, np.zeros(model.nv))
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        found = machine.matrices(0.0, np.concatenate([q, v, [0.0]]))
        assert_allclose(found.M, M, rtol=1e-12, atol=1e-13)
        assert_allclose(found.h, data.qfrc_bias, rtol=1e-12, atol=1e-12)
        assert_allclose(found.B, np.eye(2))


def test_a_free_base_moves_as_with_a_free_joint(tmp_path: Path) -> None:
    import mujoco

    file = written(tmp_path, ARM)
    spec = mujoco.MjSpec.from_file(str(file))
    spec.compiler.fusestatic = False
    spec.worldbody.bodies[0].add_freejoint()
    machine = machine_of(file, base="free")
    assert [each.name for each in machine.description.state][:8] == ["x", "y", "z", "q_0", "q_1", "q_2", "q_3", "pan"]
    model, data = mujoco_model(file, spec.compile())
    rng = np.random.default_rng(2)
    q, v = random_state(model, rng)
    u = np.array([0.3, -0.2])
    expected = accelerations(model, data, q, v, np.concatenate([np.zeros(6), u]))
    rates = machine.derivatives(0.0, np.concatenate([q, v, [0.0]]), u)
    assert_allclose(rates[model.nq : -1], expected, rtol=1e-9, atol=1e-9)


def test_a_motor_that_is_called_like_its_joint_gets_a_name_of_its_own(tmp_path: Path) -> None:
    file = written(tmp_path, ODD.replace('name="m1"', 'name="h1"').replace("<motor joint", '<motor name="s" joint'))
    assert machine_of(file).description.input_names == ("h1_torque", "s_force")


def test_dry_friction_is_a_smooth_step_of_the_speed(tmp_path: Path) -> None:
    text = '<mujoco><option gravity="0 0 0"/><worldbody><body><joint frictionloss=".3"/><geom size=".1" mass="1"/>'
    file = written(tmp_path, f"{text}</body></worldbody></mujoco>")
    machine = machine_of(file)
    inertia = 0.4 * 0.1**2
    for speed in (-1.0, 0.0, 0.02, 1.0):
        rates = machine.derivatives(0.0, np.array([0.0, speed, 0.0]), np.zeros(0))
        assert rates[1] == pytest.approx(-0.3 * np.tanh(speed / 0.05) / inertia, rel=1e-12)
