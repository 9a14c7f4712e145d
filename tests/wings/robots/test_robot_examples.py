"""The examples with robots from files: the goal is reached as their first lines and pages say."""

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid
from scipy.spatial.transform import Rotation

import servonode
from servonode.arrays import Array
from tests.helpers.extras import needs_mujoco

needs_mujoco()

EXAMPLES = Path(__file__).parents[3] / "examples"


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


@pytest.mark.slow
@pytest.mark.parametrize("file", ["mecanum/rose.toml", "parking/parking.toml"])
def test_an_example_on_mecanum_or_steered_wheels_passes_its_check(file: str) -> None:
    assert (EXAMPLES / file).read_text("utf-8").startswith("# Watch for: ")
    report = servonode.check(EXAMPLES / file)
    assert report.verdict == "yes", report
    assert {each.subject for each in report.findings if each.level == "warn"} == {"machine"}  # what is left out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "duration", "off", "turned"), [("simulated", 22.0, 2e-5, 1e-9), ("mujoco", 4.0, 4e-3, 2e-3)]
)
def test_the_mecanum_base_drives_its_rose_and_never_turns(
    driver: str, duration: float, off: float, turned: float
) -> None:
    run = servonode.simulate(EXAMPLES / "mecanum" / "rose.toml", plant__driver=driver, run__duration=duration)
    assert run.fault is None
    passed = 0.3 * (run.t - np.tanh(run.t))
    rose = 0.8 * np.cos(2 * passed) * np.array([np.cos(passed), np.sin(passed)])
    assert np.hypot(*(np.array([run.state["x"], run.state["y"]]) - rose)).max() < off  # m
    assert abs(run.state["psi"]).max() < turned  # rad
    assert np.ptp(run.state["V_side"]) > 0.3  # m/s


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "off", "turned"), [("simulated", 6e-4, 5e-4), ("mujoco", 5e-3, 4e-3)])
def test_the_car_parks_straight_and_stands(driver: str, off: float, turned: float) -> None:
    run = servonode.simulate(EXAMPLES / "parking" / "parking.toml", plant__driver=driver)
    assert run.fault is None
    last = {name: values[-1] for name, values in run.state.items()}
    assert abs(last["x"]) < off
    assert abs(last["y"]) < off
    assert abs(last["psi"]) < turned
    assert abs(last["V"]) < 1e-4  # m/s
    path = np.polynomial.Polynomial([0, 0, 0, 20, -30, 12])(run.state["x"] / 8)
    behind = run.state["x"] < 4.0  # where the deviation of the start has decayed
    assert abs(run.state["y"] - path)[behind].max() < 0.05
    assert abs(run.state["left_steer"]).max() > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("file", ["drone/eight.toml", "gripper/close.toml"])
def test_an_example_of_thrusts_or_of_a_tendon_passes_its_check(file: str) -> None:
    assert (EXAMPLES / file).read_text("utf-8").startswith("# Watch for: ")
    report = servonode.check(EXAMPLES / file)
    assert report.verdict == "yes", report
    warned = {each.subject for each in report.findings if each.level == "warn"}
    assert warned <= {"machine", "safe action", "zero dynamics"}  # what is left out, falls, or follows by tilting


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["simulated", "mujoco"])
def test_the_drone_flies_its_figure_of_eight_by_rotors_that_only_push(driver: str) -> None:
    run = servonode.simulate(EXAMPLES / "drone" / "eight.toml", plant__driver=driver)
    assert run.fault is None
    passed = run.t**3 / (run.t**2 + 8)
    eight = [1.2 * np.sin(passed), 0.6 * np.sin(2 * passed), 1 + 0.2 * (1 - np.cos(passed))]
    off = np.linalg.norm(np.array([run.state[q] for q in "xyz"]) - eight, axis=0)
    assert off[0] > 1.2  # m
    assert off[run.t > 5].max() < 2e-3
    assert max(abs(each[run.t > 5]).max() for each in run.residual.values()) < 5e-4
    thrusts = np.array(list(run.input.values()))
    assert thrusts.min() == 0.0  # N: one that stands still, none that pulls
    assert thrusts.max() < 8.0


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["simulated", "mujoco"])
def test_one_tendon_closes_both_fingers_of_the_gripper(driver: str) -> None:
    run = servonode.simulate(EXAMPLES / "gripper" / "close.toml", plant__driver=driver)
    assert run.fault is None
    assert abs(run.residual["gap"]).max() < 2e-4  # m
    assert abs(run.state["left"] - run.state["right"]).max() < 1e-4  # rad
    assert np.ptp(run.state["left"]) > 0.4
    assert run.input["pull"].min() > 0  # N


QUADRUPED = EXAMPLES / "quadruped"
FEET = [f"{place}_foot" for place in ("front_left", "front_right", "hind_left", "hind_right")]


def seen_by_mujoco(run: servonode.Run) -> tuple[float, Array, Array]:
    """The quadruped's mass, places of its feet (n, 4, 3) and of its centre of mass (n, 3), by MuJoCo."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(QUADRUPED / "quadruped.xml"))
    data, state, feet, centres = mujoco.MjData(model), run.state, [], []
    joints = [model.joint(i).name for i in range(1, model.njnt)]
    turns = Rotation.from_euler("ZYX", np.array([state[q] for q in ("yaw", "pitch", "roll")]).T)
    for i, turn in enumerate(turns.as_quat(scalar_first=True)):
        data.qpos = [*(state[q][i] for q in "xyz"), *turn, *(state[q][i] for q in joints)]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        feet.append(data.site_xpos.copy())
        centres.append(data.subtree_com[0].copy())
    return float(model.body_subtreemass[0]), np.array(feet), np.array(centres)


@pytest.mark.slow
def test_the_trunk_of_the_quadruped_sways_on_feet_that_stay() -> None:
    run = servonode.simulate(QUADRUPED / "sway.toml")
    worst = {name: abs(each).max() for name, each in run.residual.items()}
    assert max(worst[q] for q in "xyz") < 5e-5  # m
    assert max(worst[q] for q in ("yaw", "pitch", "roll")) < 3e-4  # rad
    assert min(np.ptp(run.state[q]) for q in ("y", "yaw", "pitch")) > 0.05  # it sways
    _, feet, _ = seen_by_mujoco(run)
    assert abs(feet - feet[0]).max() < 1e-9
    outputs = run.outputs
    for foot in FEET:  # the ground only pushes, and no foot slips
        x, y, z = (outputs[f"{foot}_force_{axis}"] for axis in "xyz")
        assert (np.hypot(x, y) < 0.5 * z).all()


@pytest.mark.slow
def test_forces_at_the_feet_and_weight_are_what_moves_the_centre_of_mass() -> None:
    run = servonode.simulate(QUADRUPED / "sway.toml", control="continuous", run__duration=4.0)
    mass, _, centre = seen_by_mujoco(run)
    outputs, velocity = run.outputs, np.gradient(centre, run.t, axis=0, edge_order=2)
    forces = np.array([sum(outputs[f"{foot}_force_{axis}"] for foot in FEET) for axis in "xyz"]).T
    impulse = cumulative_trapezoid(forces - [0, 0, mass * 9.81], run.t, axis=0, initial=0)
    change = mass * (velocity - velocity[0])
    assert np.ptp(change, axis=0).min() > 0.2  # N s
    assert abs(change - impulse).max() < 1e-4


@pytest.mark.slow
def test_the_same_law_holds_the_quadruped_on_the_contacts_of_mujoco() -> None:
    run = servonode.simulate(QUADRUPED / "sway.toml", plant__driver="mujoco", run__duration=4.0)
    assert not run.faults
    assert max(abs(run.residual[q]).max() for q in "xyz") < 3e-4  # m
    assert max(abs(run.residual[q]).max() for q in ("yaw", "pitch", "roll")) < 5e-3  # rad
    _, feet, _ = seen_by_mujoco(run)
    assert abs(feet - feet[0]).max() < 6e-3  # they roll, and the contacts give way
