"""Bases that take speeds: what is sent, drives that follow it, what brakes them, and what is refused."""

from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import servonode
from servonode.bus import Applied, Setup
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.nodes.plant_machine import driven_plant
from servonode.plants.drivers import DRIVERS
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.installed import find_driver
from servonode.plants.drivers.simulated_device import LoopbackLink
from servonode.plants.speeds import Drives, SpeedCommands, SpeedMotion, independent, speeds_after
from servonode.simulation.simulate import simulate_nodes
from tests.helpers.extras import needs_mujoco
from tests.helpers.stepped import Bench, active, puck

VELOCITY = 'plant.command="velocity"'
SLOW_DRIVES = "plant.actuator.bandwidth=50"
STEP_NS, PERIOD = 1_000_000, 10
M, C_B = 2.0, 3.0  # of the puck
START = np.array([0.0, 0.0, 0.5, -0.2, 0.0])
IDEAL = Drives((np.inf, np.inf), (np.inf, np.inf))


LEAST_NORM = ('controller.residuals={ x = "x" }', "controller.weights={ F = 1, G = 1 }")


def trailer(*settings: str, seconds: float = 4) -> ClosedLoop:
    return resolve(read_launch("trailer_reverse", [f"run.duration={seconds}", *settings]))


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> ClosedLoop:
    """The puck, whose drives take speeds."""
    return puck(tmp_path_factory.mktemp("speeds"), VELOCITY)


def commands(closed_loop: ClosedLoop, drives: Drives = IDEAL) -> SpeedCommands:
    return SpeedCommands(closed_loop.machine, "rk4", STEP_NS, PERIOD, drives)


# what is sent


def test_the_speed_sent_is_that_which_the_effort_brings_about_over_the_period(moved: ClosedLoop) -> None:
    found = commands(moved)
    assert found.follow(0, START, np.array([4.0, -2.0]), 0.0)
    np.testing.assert_allclose(found.newest, [0.5 + 4.0 / M * 0.01, -0.2 - 2.0 / M * 0.01], rtol=1e-13)
    assert found.by_name() == {"speed_F": found.newest[0], "speed_G": found.newest[1]}


def test_the_age_of_a_state_is_foreseen_up_to_four_periods(moved: ClosedLoop) -> None:
    found = commands(moved)
    for late, periods in ((0.02, 3), (1.0, 5)):
        found.follow(0, START, np.array([4.0, 0.0]), late)
        assert found.newest[0] == pytest.approx(0.5 + 4.0 / M * 0.01 * periods)


def test_what_slow_drives_do_not_make_up_is_added(moved: ClosedLoop) -> None:
    found = commands(moved, Drives((np.inf, np.inf), (50.0, np.inf)))
    found.follow(0, START, np.array([4.0, 4.0]), 0.0)
    change = 4.0 / M * 0.01
    np.testing.assert_allclose(found.newest, [0.5 + change / (1 - exp(-0.5)), -0.2 + change], rtol=1e-12)


def test_beyond_a_limit_all_speeds_shrink_alike(moved: ClosedLoop) -> None:
    found = commands(moved, Drives((0.1, np.inf), (np.inf, np.inf)))
    assert not found.follow(0, START, np.zeros(2), 0.0)
    np.testing.assert_allclose(found.newest, [0.1, -0.04], rtol=1e-15)
    none = commands(moved, Drives((0.0, np.inf), (np.inf, np.inf)))
    assert not none.follow(0, START, np.zeros(2), 0.0)
    assert not none.newest.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308])
def test_speeds_that_are_not_finite_are_zero(moved: ClosedLoop, bad: float) -> None:
    found = commands(moved, Drives((np.inf, np.inf), (1e-3, 1e-3)))
    with np.errstate(all="ignore"):
        assert not found.follow(0, np.array([0.0, 0.0, bad, 1.0, 0.0]), np.array([bad, 1.0]), 0.0)
    assert found.newest.tolist() == [0.0, 0.0]


# the safe action


@given(
    sent=st.tuples(*[st.floats(-5, 5)] * 2), speed=st.tuples(*[st.floats(-5, 5) | st.just(np.nan)] * 2),
    effort=st.tuples(*[st.floats(-1e4, 1e4)] * 2),
)  # fmt: skip
def test_braking_never_makes_a_speed_larger_nor_turns_it(
    moved: ClosedLoop, sent: tuple[float, float], speed: tuple[float, float], effort: tuple[float, float]
) -> None:
    found = commands(moved)
    found.newest[:] = sent
    found.brake(0, np.array([0.0, 0.0, *speed, 0.0]), np.array(effort), 1)
    assert (found.newest * sent >= 0).all()
    assert (np.abs(found.newest) <= np.abs(sent)).all()
    assert (np.abs(found.newest) <= np.nan_to_num(np.abs(speed))).all()


def test_a_late_measurement_does_not_slow_the_braking(moved: ClosedLoop) -> None:
    found = commands(moved)
    found.newest[:] = 0.5, -0.2
    for _ in range(10):  # the state is always the same: it is old
        found.brake(0, START, np.array([-C_B * 0.5, C_B * 0.2]), 1)
    np.testing.assert_allclose(found.newest, [0.5 * (1 - C_B / M * 0.01), -0.2 * (1 - C_B / M * 0.01)], rtol=1e-3)


def spied(bench: Bench) -> list[tuple[float, ...]]:
    """The speeds that the plant is sent from now on."""
    sent: list[tuple[float, ...]] = []
    drive = bench.node.plant.drive  # type: ignore[attr-defined]

    def driven(applied: Any, speeds: Any) -> None:
        sent.append(tuple(speeds.tolist()))
        drive(applied, speeds)

    bench.node.plant.drive = driven  # type: ignore[attr-defined]
    return sent


def test_a_command_is_sent_as_speed_and_reported(moved: ClosedLoop) -> None:
    bench = active(moved)
    sent, before = spied(bench), bench.node.plant.x[2:4].copy()
    bench.period(4.0, -2.0)
    np.testing.assert_allclose(sent[-1], [before[0] + 4.0 / M * 0.01, before[1] - 2.0 / M * 0.01], rtol=1e-9)
    np.testing.assert_allclose(bench.node.plant.x[2:4], sent[-1], rtol=1e-9)
    state = bench.ask()
    assert state.input == {"F": 4.0, "G": -2.0}
    assert state.extra == {"speed_F": sent[-1][0], "speed_G": sent[-1][1]}


@pytest.mark.parametrize("how", ["estop", "disarm", "silence", "nan"])
def test_whatever_ends_commands_brakes_to_rest(moved: ClosedLoop, how: str) -> None:
    bench = active(moved)
    sent = spied(bench)
    bench.period(4.0, -2.0)
    if how == "nan":
        assert not bench.answer(float("nan"))
        assert sent[-1] == tuple(bench.guard.output.speeds.newest.tolist())  # type: ignore[union-attr]
    if how in ("estop", "disarm"):
        bench.node.handle_request(how)
    else:
        bench.guard.safe("stale")
    speeds = [bench.node.plant.x[2:4].copy()]
    for _ in range(400):
        bench.advance(10)
        speeds.append(bench.node.plant.x[2:4].copy())
    size = np.abs(np.array(speeds))
    assert (np.diff(size, axis=0) <= 1e-12).all()
    np.testing.assert_allclose(size[-1], size[0] * exp(-C_B / M * 4.0), rtol=0.02)


def test_zero_input_is_zero_speed(tmp_path: Path) -> None:
    loop = puck(tmp_path, VELOCITY)
    (tmp_path / "puck.py").write_text((tmp_path / "puck.py").read_text().replace("if brake else {}", "if 0 else {}"))
    loop = resolve(read_launch(str(tmp_path / "puck.toml"), [VELOCITY]))
    bench = active(loop)
    bench.period(4.0)
    bench.node.handle_request("estop")
    assert bench.safely
    bench.advance(10)
    np.testing.assert_allclose(bench.node.plant.x[2:4], 0.0, atol=1e-12)


def test_a_limit_on_speed_is_counted(tmp_path: Path) -> None:
    bench = active(puck(tmp_path, VELOCITY, "plant.safety.speed_limit=0.1"))
    assert bench.counts["speed"]
    assert np.abs(bench.node.plant.x[2:4]).max() <= 0.1 + 1e-12


# simulated drives


def test_a_velocity_loop_of_first_order(moved: ClosedLoop) -> None:
    motion = SpeedMotion(moved.machine, "rk4", STEP_NS, Drives((np.inf, np.inf), (50.0, 20.0)), (np.inf, np.inf))
    x = START.copy()
    assert motion.advance(0, 30, x, np.array([1.0, 0.0]))
    np.testing.assert_allclose(x[2:4], [1 - 0.5 * exp(-50 * 0.03), -0.2 * exp(-20 * 0.03)], rtol=1e-12)


def test_drives_do_no_more_than_their_effort(moved: ClosedLoop) -> None:
    motion = SpeedMotion(moved.machine, "rk4", STEP_NS, IDEAL, (3.0, np.inf))
    x = START.copy()
    motion.advance(0, 10, x, np.array([9.0, 0.0]))
    np.testing.assert_allclose(x[2:4], [0.5 + 3.0 / M * 0.01, 0.0], atol=1e-12)
    assert motion.effort[0] == 3.0


@pytest.mark.parametrize("settings", [(), (SLOW_DRIVES,)])
def test_the_law_does_through_speeds_what_it_does_through_torques(settings: tuple[str, ...]) -> None:
    torques = simulate_nodes(trailer(), 10)
    speeds = simulate_nodes(trailer(VELOCITY, *settings), 10)
    assert not speeds.fault
    for name, values in torques.state.items():
        np.testing.assert_allclose(speeds.state[name], values, atol=0.02)
    for name, largest in torques.residual_max.items():
        assert speeds.residual_max[name] == pytest.approx(largest, rel=0.1)
    assert speeds.energy_error < 1e-6


def test_fused_loop_and_nodes_have_equal_bits() -> None:
    overrides = {"run__duration": 1.0, "plant__command": "velocity", "plant__actuator__bandwidth": 50.0}
    loop = servonode.load("trailer_reverse", **overrides)
    fused, nodes = loop.simulate(loop="fused"), loop.simulate(loop="nodes")
    for name, values in {**fused.state, **fused.input}.items():
        assert values.tobytes() == {**nodes.state, **nodes.input}[name].tobytes(), name


@pytest.mark.slow
def test_velocity_servos_of_mujoco() -> None:
    needs_mujoco()
    run = simulate_nodes(trailer(VELOCITY, SLOW_DRIVES, "plant.driver=mujoco", seconds=20), 10)
    assert not run.fault
    assert abs(run.state["V"][-1] + 0.4) < 1e-3
    assert abs(run.state["phi"][-1]) < 1e-3
    assert abs(run.state["Y"][-1]) < 5e-3


# a machine behind a link


def test_a_machine_behind_a_link_is_sent_speeds_beside_efforts() -> None:
    loop = trailer(VELOCITY, 'plant.driver="loopback"', "plant.safety.speed_limit=50", "run.mode=lockstep", seconds=1)
    sent: list[Any] = []

    class Link(LoopbackLink):
        def send(self, topic: str, message: Any) -> None:
            sent.append(message)
            super().send(topic, message)

    def opened(context: Any) -> DevicePlant:
        return DevicePlant(context, Link(context))

    changed = replace(find_driver("loopback"), open=opened)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DRIVERS, "loopback", changed)
        plant = driven_plant(loop, lambda: 10**12)
    assert isinstance(plant, DevicePlant)
    plant.open()
    plant.begin(77, 0)
    setup = sent[-1]
    assert isinstance(setup, Setup)
    assert (setup.command, setup.limits) == ("velocity", {"U1": 50.0, "U2": 50.0})
    plant.drive(np.array([0.1, 0.2]), np.array([-3.0, -4.0]))
    plant.advance(10)
    order = sent[-1]
    assert isinstance(order, Applied)
    assert (order.input, order.speed) == ({"U1": 0.1, "U2": 0.2}, {"U1": -3.0, "U2": -4.0})
    plant.safe()
    plant.advance(10)
    assert sent[-1].speed == {"U1": 0.0, "U2": 0.0}
    plant.close()
    assert sent[-1].final
    assert sent[-1].speed == {"U1": 0.0, "U2": 0.0}


# what is refused


def test_inputs_whose_speeds_depend_on_each_other_are_refused(tmp_path: Path) -> None:
    loop = puck(tmp_path)
    twice = (tmp_path / "puck.py").read_text().replace("G: y.rate}", "G: x.rate}")
    (tmp_path / "puck.py").write_text(twice.replace("G: -c_b * y.rate", "G: -c_b * x.rate"))
    with pytest.raises(LaunchError, match="speeds of F, G depend on each other"):
        resolve(read_launch(str(tmp_path / "puck.toml"), [VELOCITY, *LEAST_NORM]))
    gain = speeds_after(loop.machine, 0.0, START, 0.01)[1]
    np.testing.assert_allclose(gain, np.eye(2) * 0.01 / M, atol=1e-15)
    assert independent(gain)
    assert not independent(np.array([[1.0, 1.0], [1.0, 1.0]]))
    assert not independent(np.array([[0.0, 0.0], [0.0, 1.0]]))
    assert not independent(np.full((2, 2), np.nan))


def test_a_plant_without_a_controller_takes_no_speeds(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"there is no \[controller\]; add one"):
        puck(tmp_path, VELOCITY, controlled=False)


def test_check_tells_slow_drives() -> None:
    texts = [each.text for each in trailer(VELOCITY, "plant.actuator.bandwidth=10").examination.findings]
    assert any("in a period its drive makes up 10% of it" in text for text in texts)
    assert any("sent several times too large" in text for text in texts)
