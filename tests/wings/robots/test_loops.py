"""Loops that a file's equalities close: the equations by hand, MuJoCo with stiff constraints, what cannot be closed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.arrays import Array
from servonode.errors import ServonodeError
from servonode.mechanics.equilibrium import closed
from servonode.mechanics.machine import Machine
from tests.helpers.extras import needs_mujoco
from tests.helpers.rolling_robots import FOUR_BAR, GEARS, WELDED, delta, robot_machine

needs_mujoco()
L1, L2, L3, D, M1, M2, M3, G = 0.3, 0.9, 0.6, 0.99, 1.0, 2.0, 1.5, 9.81
BEGUN = np.array([1.0, 0.4, 1.55])  # angles of the bars from the horizontal at the file's zero


def start(machine: Machine, **stated: float) -> Array:
    """The state with these values, its loops closed."""
    x = np.zeros(len(machine.description.state_names) + 1)
    for name, value in stated.items():
        x[machine.description.state_names.index(name)] = value
    found = closed(machine, 0.0, x)
    assert found is not None
    return found


def test_a_four_bar_has_the_accelerations_and_forces_of_lagrange_multipliers(tmp_path: Path) -> None:
    machine = robot_machine(tmp_path, FOUR_BAR)
    assert machine.description.state_names == ("a", "b", "c", "a_dot")
    for crank, speed, T in ((0.0, 1.0, 0.5), (0.3, -2.0, 1.0), (-0.4, 0.5, -2.0)):
        x = start(machine, a=crank, a_dot=speed)
        angles = BEGUN + np.array([x[0], x[0] + x[1], x[2]])
        pin = np.array([np.cos(angles), np.sin(angles)]) @ [L1, L2, 0]
        place = pin - [D, 0]
        turned, far = np.arctan2(place[1], place[0]), np.hypot(*place)  # of the pin, seen from the rocker's joint
        wanted, forces = by_multipliers(angles, turned, far, speed, T)
        u = np.array([T])
        assert machine.derivatives(0.0, x, u)[3] == pytest.approx(wanted, rel=1e-9)
        assert_allclose(machine.full(0.0, x, u)[1], forces, rtol=1e-8)
        assert np.abs(machine.position_residual(0.0, x)).max() < 1e-12


def by_multipliers(angles: Array, turned: float, far: float, speed: float, T: float) -> tuple[float, Array]:
    """The crank's acceleration and the forces of the pin on the coupler, by Lagrange in the bars' angles."""
    a, b, c = angles
    arms = np.array([L1, L2, -far])
    along = np.array([a, b, turned])
    A = np.array([-arms * np.sin(along), arms * np.cos(along)])
    v = np.array([speed, *np.linalg.solve(A[:, 1:], -A[:, 0] * speed)])
    gamma = np.array([arms * np.cos(along) @ v**2, arms * np.sin(along) @ v**2])
    M = np.diag([0.0075 + M1 * 0.15**2 + M2 * L1**2, 0.135 + M2 * 0.45**2, 0.06 + M3 * 0.3**2])
    coupling = M2 * L1 * 0.45
    M[0, 1] = M[1, 0] = coupling * np.cos(a - b)
    force = np.array([
        T - coupling * np.sin(a - b) * v[1] ** 2 - G * (M1 * 0.15 + M2 * L1) * np.cos(a),
        coupling * np.sin(a - b) * v[0] ** 2 - G * M2 * 0.45 * np.cos(b),
        -G * M3 * 0.3 * np.cos(c),
    ])  # fmt: skip
    solution = np.linalg.solve(np.block([[M, -A.T], [A, np.zeros((2, 2))]]), [*force, *gamma])
    return solution[0], solution[3:]


def by_mujoco(file: Path, duration: float, torques: Array) -> Array:
    """The positions after a time by MuJoCo, whose loops are springs with a time constant of 1 ms."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    data.ctrl[:] = torques
    for _ in range(round(duration / model.opt.timestep)):
        mujoco.mj_step(model, data)
    return np.array(data.qpos)


@pytest.mark.parametrize(("text", "torques"), [(FOUR_BAR, [3.0]), (delta(), [-1.0, -1.1, -1.2])])
def test_loops_move_as_in_mujoco_with_stiff_constraints(tmp_path: Path, text: str, torques: list[float]) -> None:
    """To 1 mm and 1 mrad in 0.2 s, by which the springs of MuJoCo give way; ours close to rounding."""
    machine = robot_machine(tmp_path, text)
    x = start(machine)
    machine = machine.assembled_at(x)
    machine.advancer("rk4")(0, 200, 1_000_000, x, np.array(torques), machine.c)
    positions = by_mujoco(tmp_path / "robot.xml", 0.2, np.array(torques))
    assert_allclose(x[: len(positions)], positions, atol=1e-3)
    assert np.abs(positions).max() > 0.05
    assert np.abs(machine.position_residual(0.2, x)).max() < 1e-12
    assert machine.energy(0.2, x) - machine.energy(0.0, start(machine)) == pytest.approx(x[-1], abs=1e-9)


def test_a_delta_robot_parts_into_its_arms(tmp_path: Path) -> None:
    """With the plate's place independent three rates hang together; with the motors' angles nine would."""
    machine = robot_machine(tmp_path, delta())
    assert machine.description.velocities == ("x_dot", "y_dot", "z_dot")
    said = refusal(tmp_path, delta(), independent=["a0", "a1", "a2"])
    assert "hang together, 6 are the most" in said


def test_gears_and_cams_are_polynomials_of_joints(tmp_path: Path) -> None:
    machine = robot_machine(tmp_path, GEARS)
    assert machine.description.velocities == ("a_dot",)
    x = start(machine, a=0.8, a_dot=2.0)
    rates = dict(zip(machine.description.state_names, machine.derivatives(0.0, x, np.zeros(1)), strict=False))
    assert_allclose(x[1:3], [-0.4, 0.16])
    assert_allclose([rates["b"], rates["c"]], [-1.0, 0.5 * 0.8 * 2.0])
    inertia = 0.1 + 0.3 / 4 + 2 * (0.5 * 0.8) ** 2
    force = 0.6 - 2 * 0.4 * 0.5 * 2.0**2 - 2 * 9.81 * 0.4
    assert machine.derivatives(0.0, x, np.array([0.6]))[3] == pytest.approx(force / inertia, rel=1e-12)


def test_a_weld_makes_two_bodies_one(tmp_path: Path) -> None:
    """A free body of 2 kg welded to a bar that turns about y: I = 0.1 + 1/4 + 0.3 + 2."""
    machine = robot_machine(tmp_path, WELDED)
    assert machine.description.velocities == ("a_dot",)
    x = start(machine, a=0.3)
    wanted = (0.7 + 9.81 * (0.5 + 2) * np.cos(0.3)) / 2.65
    assert machine.derivatives(0.0, x, np.array([0.7]))[-2] == pytest.approx(wanted, rel=1e-9)


def refusal(folder: Path, text: str, **settings: Any) -> str:
    with pytest.raises(ServonodeError) as caught:
        robot_machine(folder, text, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_loops_that_cannot_be_solved_are_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, FOUR_BAR, independent=["q"])
    assert "independent: 'q' is no joint; choose from a, b, c" in said
    held = FOUR_BAR.replace("<equality>", '<equality><joint name="lock" joint1="a" polycoef="0 0 0 0 0"/>')
    assert "leave nothing that can move" in refusal(tmp_path, held)
    apart = GEARS.replace("</equality>", '<joint name="far" joint1="b" joint2="a" polycoef="3 -0.5 0 0 0"/></equality>')
    assert "no pose near the start closes the loops" in refusal(tmp_path, apart)
