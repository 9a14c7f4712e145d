"""Machines that MuJoCo moves: laws of nature, the machine's own equations as a limit, and what is refused."""

from math import pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.mechanics.machine import Machine
from servonode.plants import packaged_machine
from servonode.plants.drivers.driver import DriverContext, Stated
from servonode.plants.physics.diff_drive_trailer import slip
from servonode.wings.robots.mujoco_driver import DRIVER, PhysicalMotion
from servonode.wings.robots.sections import Contact
from tests.helpers.extras import needs_mujoco

needs_mujoco()
import mujoco  # noqa: E402

STEP_NS = 1_000_000
REST = np.zeros(2)
TURNING = {"V": 0.5, "Omega": 0.3, "phi": 0.4}
ROLLING = {
    "n_0": 0.2, "n_1": -0.1, "n_2": -sqrt(0.95), "omega_0": 0.3, "omega_1": 1.0, "omega_2": 0.5,
    "Omega_0": 0.4, "Omega_1": -0.5, "Omega_2": 1.0, "q_0": 0.5, "q_1": 0.5, "q_2": 0.5, "q_3": 0.5,
}  # fmt: skip
G = 9.81


def moved(name: str, initial: dict[str, float], parameters: Any = None, **keys: Any) -> tuple[Machine, Any, Any]:
    """The machine, its motion by MuJoCo, and the kernel state that it begins with."""
    source = packaged_machine(name)
    machine = source.load(parameters or {})
    start = machine.state(initial)
    stated = Stated(True, 1.0, {}, {}, more={"plant.mujoco": Contact(**keys)})
    assert DRIVER.motion is not None
    motion = DRIVER.motion(DriverContext(machine, stated, start, STEP_NS, simulation=source.build, source=source))
    assert isinstance(motion, PhysicalMotion)
    return machine, motion, start.copy()


def away(name: str, initial: dict[str, float], u: Any, seconds: float, **keys: Any) -> Any:
    """How far MuJoCo's states are from those of the machine's equations, and what of the energy is missing."""
    machine, motion, x = moved(name, initial, **keys)
    steps, y = round(seconds * 1e9) // STEP_NS, x.copy()
    start = machine.energy(0.0, x)
    assert motion.advance(0, steps, x, u)
    machine.advancer("rk4")(0, steps, STEP_NS, y, u, machine.c)
    missing = start + x[-1] - machine.energy(0.0, x)
    return np.append(np.abs(x - y)[:-1], missing)


def loads(motion: Any) -> dict[str, float]:
    """The normal force [N] at each geom that touches the floor."""
    model, data, found = motion._model, motion._data, {}
    force = np.zeros(6)
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, force)
        pair = [model.geom(each).name for each in data.contact[i].geom]
        found[next(each for each in pair if each != "floor")] = float(force[0])
    return found


# laws of nature


def test_at_rest_the_floor_carries_each_part_as_statics_says() -> None:
    machine, motion, x = moved("diff_drive_trailer", {})
    motion.advance(0, 10, x, REST)
    p, found = machine.parameters, loads(motion)
    castor = p["m1"] * G * p["d1"] / (2 * p["d1"])
    wheel = ((p["m1"] + 2 * p["m_k"]) * G - castor) / 2
    trailer = p["m2"] * G / 2
    expected = {"front": castor, "theta1": wheel, "theta2": wheel, "left": trailer, "right": trailer}
    assert found.keys() == expected.keys()
    for name, load in expected.items():
        assert found[name] == pytest.approx(load, rel=2e-4), name
    assert np.abs(x).max() < 1e-9


def test_on_a_floor_without_friction_momentum_stays_as_it_is() -> None:
    _, motion, x = moved("diff_drive_trailer", TURNING, friction=0.0)

    def momentum() -> Any:
        model, data = motion._model, motion._data
        mujoco.mj_subtreeVel(model, data)
        mass = model.body_subtreemass[0]
        return np.append(mass * data.subtree_linvel[0][:2], data.subtree_angmom[0][2])

    before = momentum()
    assert motion.advance(0, 3000, x, REST)
    assert np.abs(motion.extra()["slip_axle"]) > 0.01  # it drifts
    np.testing.assert_allclose(momentum(), before, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_what_a_coast_loses_in_ten_seconds_halves_with_the_step() -> None:
    lost = [away("diff_drive_trailer", TURNING, REST, 10.0, substeps=n)[-1] for n in (1, 2, 4)]
    assert 0 < lost[0] < 3e-5  # J, of 1.0155
    assert lost[0] / lost[1] == pytest.approx(2.0, rel=0.03)
    assert lost[1] / lost[2] == pytest.approx(2.0, rel=0.03)


def test_spinning_wheels_push_with_friction_times_load() -> None:
    friction, torque, steps = 0.02, 0.05, 1000
    machine, motion, x = moved("diff_drive_trailer", {}, friction=friction)
    motion.advance(0, steps, x, np.array([torque, torque]))
    p = machine.parameters
    castor = (p["m1"] * G * p["d1"] - 2 * torque) / (2 * p["d1"])  # the torque's reaction tips the platform back
    wheels, mass = (p["m1"] + 2 * p["m_k"]) * G - castor, p["m1"] + 2 * p["m_k"] + p["m2"]
    assert motion.extra()["slip_left"] < -1.0
    assert mass * x[4] == pytest.approx(friction * wheels * steps * STEP_NS / 1e9, rel=0.01)


def test_a_free_sphero_keeps_what_is_constant() -> None:
    """Spin of the shell about the vertical and of the pendulum about n: a contact point resists neither."""

    def change(substeps: int) -> tuple[float, float]:
        machine, motion, x = moved("pendulum_sphero", ROLLING, substeps=substeps)
        first = [machine.description.state_names.index(f"{each}_0") for each in ("n", "omega", "Omega")]
        n, omega, Omega = (slice(i, i + 3) for i in first)
        before = x[omega][2], x[n] @ x[Omega]
        assert motion.advance(0, 3000, x, np.zeros(3))
        return abs(x[omega][2] - before[0]), abs(x[n] @ x[Omega] - before[1])

    (shell, coarse), (_, fine) = change(4), change(8)
    assert shell < 1e-12
    assert fine < 1e-3
    assert coarse / fine == pytest.approx(2.0, rel=0.05)


# the machine's equations as the limit


@pytest.mark.parametrize("u", [pytest.param((0.0, 0.0), marks=pytest.mark.slow), (0.02, 0.03)])
def test_the_trailer_robot_converges_to_its_equations_with_the_step(u: tuple[float, float]) -> None:
    coarse, fine = (away("diff_drive_trailer", TURNING, np.array(u), 10.0, substeps=n)[:-1] for n in (2, 4))
    X, Y, psi, phi, V, Omega, *_ = fine
    assert max(X, Y) < 7e-5  # m, of 5 m
    assert max(psi, phi) < 8e-6
    assert max(V, Omega) < 4e-6
    np.testing.assert_allclose(coarse / fine, 2.0, rtol=0.15)


@pytest.mark.parametrize("u", [pytest.param((0.0, 0.0, 0.0), marks=pytest.mark.slow), (0.01, -0.05, 0.002)])
def test_the_sphero_converges_to_its_equations_with_the_step(u: tuple[float, float, float]) -> None:
    coarse, fine = (away("pendulum_sphero", ROLLING, np.array(u), 5.0, substeps=n)[:-1] for n in (4, 8))
    assert max(fine[:2]) < 7e-5  # m
    assert fine.max() < 5e-3
    assert coarse.max() / fine.max() == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("name", "parameters", "u"),
    [
        pytest.param("diff_drive_trailer", {"c_w": 0.01}, [0.05, 0.06], marks=pytest.mark.slow),
        ("pendulum_sphero", {"c_j": 0.01, "c_r": 0.01}, [0.0, -0.05, 0.0]),
    ],
)
def test_friction_in_joints_is_the_machines(name: str, parameters: dict[str, float], u: list[float]) -> None:
    initial = TURNING if "trailer" in name else ROLLING
    coarse, fine = (away(name, initial, np.array(u), 4.0, parameters=parameters, substeps=n) for n in (4, 8))
    assert fine.max() < 2e-3
    assert (coarse.max() / fine.max(), coarse[-1] / fine[-1]) == pytest.approx((2.0, 2.0), rel=0.15)


def test_a_hard_contact_slips_less() -> None:
    def axle(contact_time: float) -> float:
        _, motion, x = moved("diff_drive_trailer", TURNING, substeps=4, contact_time=contact_time)
        motion.advance(0, 3000, x, np.array([0.02, 0.03]))
        return abs(slip(motion._joints, motion._parameters)["slip_axle"])

    assert axle(0.004) / axle(0.001) == pytest.approx(4.0, rel=0.1)


# state, time, bits


@pytest.mark.parametrize(
    ("name", "initial"),
    [
        (
            "diff_drive_trailer",
            {"X": 3.0, "Y": -2.0, "psi": 10.0, "phi": -7.0, "theta1": 40.0, "theta2": -50.0, **TURNING},
        ),
        ("diff_drive_trailer", {"psi": -3.0, "phi": 2.0, "V": -0.4}),
        ("pendulum_sphero", {"X": 3.0, "Y": -2.0, **ROLLING}),
        ("pendulum_sphero", {"n_0": 0.6, "n_1": 0.0, "n_2": 0.8}),
        ("pendulum_sphero", {"n_0": 0.0, "n_1": 0.0, "n_2": 1.0}),
    ],
)
def test_a_run_begins_with_the_state_that_is_wanted_and_nothing_slips(name: str, initial: dict[str, float]) -> None:
    machine, motion, x = moved(name, initial)
    found = motion._physics.state(motion._joints, machine.parameters)
    np.testing.assert_allclose([found[each] for each in machine.description.state_names], x[:-1], atol=1e-12)
    assert max(map(abs, motion.extra().values())) < 1e-12


def test_it_stands_on_the_floor_and_does_not_bounce() -> None:
    _, motion, x = moved("diff_drive_trailer", {"phi": 0.3})
    heights = []
    for k in range(300):
        motion.advance(k, 1, x, REST)
        heights.append(float(motion._joints["height"][0][0]))
    assert np.ptp(heights) < 1e-9
    assert abs(heights[0]) < 1e-4


def test_the_same_start_gives_the_same_bits_however_the_steps_are_counted() -> None:
    _, whole, x = moved("diff_drive_trailer", TURNING)
    _, parts, y = moved("diff_drive_trailer", TURNING)
    u = np.array([0.02, -0.03])
    whole.advance(0, 700, x, u)
    for k, steps in ((0, 1), (1, 99), (100, 600)):
        parts.advance(k, steps, y, u)
    np.testing.assert_array_equal(x, y)


def test_angles_are_counted_beyond_a_turn() -> None:
    machine, motion, x = moved("diff_drive_trailer", {"psi": 6.0, "phi": -3.0, "Omega": 1.0})
    y = x.copy()
    motion.advance(0, 500, x, REST)
    machine.advancer("rk4")(0, 500, STEP_NS, y, REST, machine.c)
    np.testing.assert_allclose(x[:-1], y[:-1], atol=1e-3)
    assert x[2] > 2 * pi
    assert x[3] < -pi


def test_a_step_that_ends_in_a_fault_is_found() -> None:
    machine, motion, x = moved("pendulum_sphero", {"Omega_1": -12.0})
    last = np.empty_like(x)
    made = motion.watch(0, 1000, x, last, np.zeros(3))
    assert 0 < made < 1000
    assert machine.fault(made * 1e-3, x)
    assert not machine.fault((made - 1) * 1e-3, last)


def test_what_is_not_finite_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, motion, x = moved("diff_drive_trailer", {})
    assert not motion.advance(0, 50, x, np.array([1e11, 1e11]))  # which MuJoCo takes for 0
    assert list(tmp_path.iterdir()) == []  # MuJoCo leaves no file


# in the loop


def test_the_unchanged_law_drives_it_and_the_bits_are_the_same_in_every_run() -> None:
    runs = [servonode.simulate("trailer_pursuit_mujoco", run__duration=3.0, loop=loop) for loop in ("fused", "nodes")]
    for one, other in zip(*(run.columns.values() for run in runs), strict=True):
        np.testing.assert_array_equal(one, other)
    ideal = servonode.simulate("trailer_pursuit", run__duration=3.0)
    differ = max(float(np.abs(runs[0].state[name] - ideal.state[name]).max()) for name in ("X", "Y", "psi", "phi"))
    assert 1e-9 < differ < 1e-4  # another plant, and nearly the same motion
    assert max(runs[0].residual_max.values()) < 1e-4


def test_drives_and_sensors_are_those_of_a_simulation() -> None:
    given = {
        "plant__sensor": {"noise": {"psi": 1e-3}, "delay": 0.002},
        "plant__actuator": {"lag": 0.02, "delay": 0.003},
    }
    mine, ours = (
        servonode.simulate("trailer_pursuit_mujoco", run__duration=1.0, plant__driver=driver, **given)
        for driver in ("mujoco", "simulated")
    )
    for name in ("U1", "U2"):  # the noise moves them far more than what differs in the motion
        np.testing.assert_allclose(mine.input[name], ours.input[name], atol=0.02 * np.abs(ours.input[name]).max())


def test_wheels_slip_where_the_floor_does_not_hold_them() -> None:
    slippery = servonode.simulate("trailer_reverse_mujoco", plant__mujoco__friction=0.02)
    assert slippery.energy_error > 0.1  # J, taken by the floor
    assert slippery.fault is not None
    assert slippery.fault["name"] == "law"
    assert "the hitch angle has reached pi/2" in slippery.fault["text"]


def test_a_machine_of_ones_own_is_moved_as_the_page_says_and_needs_a_physical_model(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how_to" / "mujoco.md").read_text("utf-8")
    source = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "block.py").write_text(source)
    launch = tmp_path / "block.toml"
    launch.write_text(
        "[run]\nduration = 1.0\n[plant]\nmachine = './block.py:model'\ndriver = 'mujoco'\n"
        "[controller]\nresiduals = { speed = 'x_dot - v' }\ngains.lambda = 2.0\n[target]\nv = 0.5\n"
    )
    run = servonode.simulate(str(launch))
    assert run.state["x_dot"][-1] == pytest.approx(0.5 * (1 - np.exp(-2.0)), rel=0.02)
    assert not run.fault
    (tmp_path / "block.py").write_text(source.replace("PHYSICS = PhysicalModel(", "PHYSICS = dict("))
    assert "PHYSICS is no PhysicalModel; write it as PHYSICS = PhysicalModel(...)" in refused(str(launch))


# what is refused


def refused(file: str, *settings: str, **more: Any) -> str:
    with pytest.raises(LaunchError) as caught:
        servonode.simulate(file, *settings, **more)
    return str(caught.value)


def test_without_mujoco_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.wings.robots.mujoco_driver.find_spec", lambda _: None)
    text = refused("trailer_pursuit_mujoco")
    assert '[plant] driver: "mujoco" needs the package mujoco: pip install "servonode[mujoco]"' in text
