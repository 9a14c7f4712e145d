"""The law in the firmware: in lockstep ours to rounding, near the controller's inputs alone, else refused."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

import servonode
from servonode.bus import Message
from servonode.bus.interfaces import BOUND
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.device_law import goal_orders, law_schema
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.nodes.driver import driven_plant
from servonode.nodes.lockstep import lockstep
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.link_watch import CLIPPED
from tests.helpers.firmware import SOURCES, Firmware, free_udp_port, needs_compiler
from tests.helpers.stepped import Bench, puck

LOCKSTEP = ("run.mode=lockstep", "plant.device.law=true")
WAIT_S = 20.0
ROUNDING = 2.0**-24  # of a number of 32 bits, relative


def until(plant: DevicePlant, holds: Callable[[], bool]) -> None:
    """Wait, within bounds, until this holds."""
    limit = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < limit, plant.remote.no_answer_reason()
        time.sleep(0.0005)


def go(plant: DevicePlant, steps: int = 10) -> None:
    """In lockstep, so many steps on."""
    plant.advance(steps)
    until(plant, plant.remote.arrived)


@pytest.fixture
def port() -> Iterator[int]:
    """The UDP port of a robot with its law."""
    found = free_udp_port()
    with Firmware("robot", "--udp", str(found)):
        yield found


@contextmanager
def connected(port: int, *settings: str) -> Iterator[tuple[ClosedLoop, DevicePlant]]:
    """The loop, and its plant after the handshake."""
    said = [f'plant.device.address="127.0.0.1:{port}"', *LOCKSTEP, *settings]
    loop = resolve(read_launch("trailer_pursuit_udp", said), strict=False)
    plant = driven_plant(loop, time.monotonic_ns)
    assert isinstance(plant, DevicePlant)
    plant.open()
    plant.begin(4242, 0)
    until(plant, lambda: plant.remote.connected() or plant.remote.fault() is not None)
    try:
        yield loop, plant
    finally:
        plant.close()


def acting(plant: DevicePlant) -> np.ndarray:
    """The inputs that the machine says act."""
    newest = plant._readings.newest
    assert newest is not None
    return np.array(list(newest.input.values()))


def asked(loop: ClosedLoop, plant: DevicePlant) -> tuple[np.ndarray, np.ndarray]:
    """What the law asks for at the plant's state, and the goal."""
    assert loop.control is not None
    goal = loop.control.goal(plant.t)
    return loop.control.law.evaluate(plant.t, plant.x[:-1].copy(), goal).inputs.copy(), goal


def test_in_lockstep_the_firmware_acts_by_its_own_law_to_rounding_and_not_by_the_inputs_near_it(port: int) -> None:
    with connected(port) as (loop, plant):
        worst, largest = 0.0, 0.0
        for k in range(0, 3000, 10):
            u, goal = asked(loop, plant)
            plant.follow(u + 0.01, [float(k), float(k), *goal])  # within the tolerance of 0.04 N m
            for part in (3, 7):  # the second order of a period decides nothing
                go(plant, part)
                worst = max(worst, float(np.abs(acting(plant) - u).max()))
            largest = max(largest, float(np.abs(u).max()))
            assert (plant.extra["machine_law"], plant.extra["machine_law_clipped"]) == (1.0, 0.0)
        assert plant.remote.fault() is None
    assert largest > 0.02
    assert worst < 4e-6  # N m, of positions of 10 m in 32 bits


def test_between_two_goals_the_firmware_goes_on_by_their_derivatives(port: int) -> None:
    with connected(port) as (loop, plant):
        assert loop.control is not None
        goal = loop.control.goal(plant.t)
        plant.follow(asked(loop, plant)[0], [0.0, 0.0, *goal])
        for k in range(0, 200, 10):
            dt, moved = k * 1e-3, goal.copy()
            for i in (0, 3):
                moved[i] += goal[i + 1] * dt + goal[i + 2] * dt * dt / 2
                moved[i + 1] += goal[i + 2] * dt
            u = loop.control.law.evaluate(plant.t, plant.x[:-1].copy(), moved).inputs.copy()
            go(plant)
            np.testing.assert_allclose(acting(plant), u, atol=4e-6)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (True, "asks for inputs beyond plant.device.law_tolerance of the controller's: it may have other gains"),
        (False, "gives no inputs although the controller does"),
    ],
)
def test_a_law_acts_no_farther_from_the_controller_than_the_tolerance_and_without_an_answer_not_at_all(
    port: int, answers: bool, text: str
) -> None:
    with connected(port) as (loop, plant):
        most = loop.launch.plant.safety.command_timeout_floor
        for k in range(0, 1000, 10):
            own, goal = asked(loop, plant)
            if not answers:  # inside the radius in which its bearing is not defined
                goal = np.array([plant.x[0], 0.0, 0.0, plant.x[1], 0.0, 0.0])
            u = own + np.array([0.1, -0.1]) if answers else np.array([0.03125, 0.0625])
            plant.follow(u, [float(k), float(k), *goal])
            go(plant)
            np.testing.assert_allclose(acting(plant), own + np.array([0.06, -0.06]) if answers else u, atol=4e-6)
            if plant.remote.fault() is not None:
                break
        name, said = plant.remote.fault() or ("", "")
    assert (name, text in said) == ("device_law", True)
    assert (k + 10) * 1e-3 == pytest.approx(most, abs=0.021)


def test_without_a_goal_the_law_does_not_act_and_the_inputs_do(port: int) -> None:
    with connected(port) as (loop, plant):
        u, goal = asked(loop, plant)
        plant.follow(u, [0.0, 0.0, *goal])
        go(plant)
        assert plant.extra["machine_law"] == 1.0
        plant.write(np.array([0.03125, -0.0625]))
        go(plant)
        assert acting(plant).tolist() == [0.03125, -0.0625]
        assert plant.extra["machine_law"] == 0.0
        plant.follow(np.array([0.5, 0.5]), [20.0, 20.0, *goal])  # beyond the limits of 0.4 N m
        go(plant)
        assert np.abs(acting(plant)).max() <= np.float32(0.4)


def test_in_lockstep_a_machine_that_always_answers_at_once_is_judged_too(tmp_path: Path) -> None:
    bench = Bench(puck(tmp_path, 'plant.driver="loopback"', "plant.safety.limit=50", mode="lockstep"))
    bench.latency_ns = 0
    link = bench.node.plant.remote.link
    receive = link.receive

    def clipped(bound: int = BOUND) -> list[tuple[str, Message]]:
        return [(topic, structs.replace(state, extra={CLIPPED: 1.0})) for topic, state in receive(bound)]

    link.receive = clipped
    assert bench.prepare()
    lockstep(bench.node, timeout_s=1.0)
    assert [each.name for each in bench.node.faults] == ["device_law"]
    most = bench.node.plant.remote.context.state_timeout
    assert most < bench.node.faults[0].t <= most + 0.0011


def test_a_simulation_of_the_same_launch_file_needs_no_firmware() -> None:
    said = {"plant__device__law": True, "run__duration": 0.5}
    found = [servonode.simulate("trailer_pursuit_udp", loop=loop, **said) for loop in ("fused", "nodes")]
    assert [each.state["X"][-1] > 0.0 for each in found] == [True, True]


@pytest.mark.parametrize("own", [True, False])
def test_firmware_with_another_law_or_none_is_refused_at_the_handshake(own: bool) -> None:
    port = free_udp_port()
    words = [] if own else ["--no-law"]
    with Firmware("robot", "--udp", str(port), *words), connected(port, "controller.settings.a=1.5") as (loop, plant):
        fault = plant.remote.fault()
    assert loop.control is not None
    assert fault is not None
    assert fault[0] == "device"
    assert "its own law is not that of this launch file (its law's schema is 0x" in fault[1]
    assert ("0x00000000, 0 for none" in fault[1]) != own
    assert f"this launch file's is {law_schema(loop.control.law):#010x}" in fault[1]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["controller.delay=1"], "controller.delay = 1, but in firmware a command acts at once"),
        (["controller.predictor=true"], "controller.predictor predicts the state"),
    ],
)
def test_what_cannot_act_in_firmware_is_refused(settings: list[str], text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        resolve(read_launch("trailer_pursuit_udp", [*LOCKSTEP, *settings]), strict=False)


@pytest.mark.slow
@pytest.mark.parametrize("launch", ["trailer_pursuit", "trailer_reverse"])
def test_a_whole_run_by_the_law_in_the_firmware_is_ours_within_rounding_of_32_bits(launch: str, tmp_path: Path) -> None:
    needs_compiler()
    own, port = f"SERVONODE={sys.executable} -m servonode.cli.main", free_udp_port()
    target = ["mine", f"FILE={launch}", f"BUILD={tmp_path}"]
    subprocess.run(["make", "-s", "-C", str(SOURCES), own, *target], check=True, timeout=120)
    ours = servonode.simulate(launch, every=10)
    said = ['plant.driver="udp"', f'plant.device.address="127.0.0.1:{port}"', "plant.device.any_speed=true", *LOCKSTEP]
    loop = resolve(read_launch(launch, [*said, "plant.safety.limit=2.0"]), strict=False)
    plant = driven_plant(loop, time.monotonic_ns)
    assert isinstance(plant, DevicePlant)
    states, inputs = [], []
    with Firmware(str(tmp_path / "mine"), "--udp", str(port)):
        plant.open()
        plant.begin(4242, 0)
        until(plant, plant.remote.connected)
        for k in range(0, loop.launch.steps, 10):
            u, goal = asked(loop, plant)
            states.append(plant.x[:-1].copy())
            plant.follow(u, [float(k), float(k), *goal])
            go(plant)
            inputs.append(acting(plant))
        assert plant.remote.fault() is None
        assert plant.extra["machine_law"] == 1.0
        plant.close()
    names = loop.machine.description
    for i, name in enumerate(names.state_names):
        expected = ours.state[name][: len(states)]
        difference = np.abs(np.array(states)[:, i] - expected).max()
        assert difference <= 16 * ROUNDING * np.abs(expected).max(), name
    for i, name in enumerate(names.input_names):
        difference = np.abs(np.array(inputs)[:, i] - ours.inputs[i, : len(inputs)]).max()
        assert difference < 4e-6, name  # N m


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("name", "limit"), [("crane/crane", 2000.0), ("elastic_arm/arm", 20.0)])
def test_laws_of_relative_degree_four_act_in_firmware_and_their_integrators_come_with_the_goal(
    name: str, limit: float, tmp_path: Path
) -> None:
    needs_compiler()
    file, port = SOURCES.parent / "examples" / f"{name}.toml", free_udp_port()
    own, flags = f"SERVONODE={sys.executable} -m servonode.cli.main", f"CFLAGS=-O2 -DOWN_LIMIT={limit}f"
    command = ["make", "-s", "-C", str(SOURCES), own, flags, "mine", f"FILE={file}", f"BUILD={tmp_path}"]
    subprocess.run(command, check=True, timeout=120)
    device = {"address": f"127.0.0.1:{port}", "law": True}
    said = {"plant__driver": "udp", "plant__device": device, "plant__safety__limit": limit, "run__mode": "lockstep"}
    with Firmware(str(tmp_path / "mine"), "--udp", str(port)):
        run = servonode.run(file, arm=True, **said)
    ours = servonode.simulate(file)
    assert run.fault is None
    assert not run.stats["counts"].get("without_goal")
    for coordinate in [each for each in ours.state if not each.endswith("_dot")]:
        expected = ours.state[coordinate]
        difference = np.abs(run.state[coordinate] - expected).max()
        assert difference <= 200 * ROUNDING * max(np.abs(expected).max(), 1.0), coordinate
    for residual, largest in ours.residual_max.items():
        assert run.residual_max[residual] == pytest.approx(largest, rel=1e-3)


def test_the_goal_of_firmware_ends_with_what_the_laws_integrators_hold() -> None:
    crane = servonode.load(SOURCES.parent / "examples" / "crane" / "crane.toml").closed_loop
    assert crane.control is not None
    law = crane.control.law
    assert goal_orders(law) == [4, 3, 2, 1, 0, 4, 3, 2, 1, 0, 1, 0]
    assert [each.name for each in law.description.states] == ["demanded_M_w", "demanded_M_w_dot"]
    assert law.goal_layout.states == slice(10, 12)
    snakeboard = servonode.load(SOURCES.parent / "examples" / "snakeboard" / "snakeboard.toml").closed_loop
    assert snakeboard.control is not None
    assert goal_orders(snakeboard.control.law)[-2:] == [0, 0]  # the rate of the first is not the second


def rms(residuals: list[np.ndarray]) -> np.ndarray:
    """The root mean square of each residual: speed [m/s], heading [rad]."""
    assert len(residuals) > 500
    return np.sqrt(np.mean(np.square(residuals), axis=0))


def residuals_of(loop: ClosedLoop, t: float, x: np.ndarray) -> np.ndarray:
    assert loop.control is not None
    return loop.control.law.evaluate(t, x, loop.control.goal(t)).residuals.copy()


def late_in_lockstep(port: int, by_firmware: bool, late: int) -> np.ndarray:
    """The residuals where states reach the controller `late` periods late."""
    with connected(port) as (loop, plant):
        assert loop.control is not None
        found: list[np.ndarray] = []
        states = [plant.x[:-1].copy()] * (late + 1)
        for k in range(0, 10000, 10):
            seen = max(k - 10 * late, 0)
            goal = loop.control.goal(seen * 1e-3)
            u = loop.control.law.evaluate(seen * 1e-3, states[-1 - late], goal).inputs.copy()
            if by_firmware:
                plant.follow(u, [float(seen), float(seen), *goal])
            else:
                plant.write(u)
            go(plant)
            states.append(plant.x[:-1].copy())
            found.append(residuals_of(loop, plant.t, states[-1]))
        assert plant.remote.fault() is None
    return rms(found)


def test_where_states_come_late_the_loop_in_the_firmware_has_smaller_residuals_than_that_over_the_wire(
    port: int,
) -> None:
    over_the_wire, in_firmware = (late_in_lockstep(port, each, late=6) for each in (False, True))
    assert in_firmware[0] < 0.2 * over_the_wire[0]
    assert in_firmware[1] < over_the_wire[1]


def late_in_real_time(port: Path, by_firmware: bool, seconds: float) -> np.ndarray:
    """The residuals over a pseudo-terminal, by the machine's own steps, from its 3rd second on."""
    said = [f'plant.device.port="{port}"', "plant.device.law=true", "plant.safety.command_timeout=0.4"]
    loop = resolve(read_launch("trailer_pursuit_serial", said), strict=False)
    assert loop.control is not None
    plant = driven_plant(loop, time.monotonic_ns)
    assert isinstance(plant, DevicePlant)
    plant.open()
    plant.begin(4242 + by_firmware, 0)
    until(plant, plant.remote.connected)
    found: list[np.ndarray] = []
    try:
        while (k := plant.read().step) < seconds * 1000:
            x, goal = plant.x[:-1].copy(), loop.control.goal(k * 1e-3)
            u = loop.control.law.evaluate(k * 1e-3, x, goal).inputs.copy()
            if by_firmware:
                plant.follow(u, [float(k), float(k), *goal])
            else:
                plant.write(u)
            if k > 3000:
                found.append(residuals_of(loop, k * 1e-3, x))
            time.sleep(0.01)
            plant.advance(10)
            assert plant.remote.fault() is None
        assert plant.extra["machine_law"] == by_firmware
    finally:
        plant.close()
    return rms(found)


@pytest.mark.slow
def test_in_real_time_too(tmp_path: Path) -> None:
    with Firmware("robot", "--pty", str(tmp_path / "port"), "--delay", "0.06"):
        over_the_wire, in_firmware = (late_in_real_time(tmp_path / "port", each, 12.0) for each in (False, True))
    assert in_firmware[0] < 0.5 * over_the_wire[0]
