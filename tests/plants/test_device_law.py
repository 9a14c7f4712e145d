"""The law in the firmware: in lockstep ours to rounding, near the controller's inputs alone, else refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import servonode
from servonode.bus import Message
from servonode.bus.codec import BOUND
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.device_terms import goal_orders, law_schema
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.nodes.lockstep import lockstep
from servonode.nodes.plant_machine import driven_plant
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.link_watch import CLIPPED
from servonode.simulation.simulate import simulate_nodes
from tests.helpers.stepped import Bench, puck
from tests.helpers.wired import COMMON, AtOnce, Events, Host, host_of, hosted
from tests.wires import EXAMPLES, MS, UDP, Firmware, UdpWire, loop_of

LOCKSTEP = ("run.mode=lockstep", "plant.device.law=true", "plant.safety.limit=0.4")
ROUNDING = 2.0**-24  # of a number of 32 bits, relative


def test_in_lockstep_the_firmware_acts_by_its_own_law_to_rounding_and_not_by_the_inputs_near_it() -> None:
    with hosted("udp", *LOCKSTEP) as host:
        worst, largest = 0.0, 0.0
        for k in range(0, 3000, 10):
            u, goal = host.law()
            host.plant.follow(u + 0.01, [float(k), float(k), *goal])  # within the tolerance of 0.04 N m
            for part in (3, 7):  # the second order of a period decides nothing
                host.step(part)
                worst = max(worst, float(np.abs(host.acting - u).max()))
            largest = max(largest, float(np.abs(u).max()))
            assert (host.plant.extra["machine_law"], host.plant.extra["machine_law_clipped"]) == (1.0, 0.0)
        assert host.remote.fault() is None
    assert largest > 0.02
    assert worst < 4e-6  # N m, of positions of 10 m in 32 bits


def test_between_two_goals_the_firmware_goes_on_by_their_derivatives() -> None:
    with hosted("udp", *LOCKSTEP) as host:
        u, goal = host.law()
        host.plant.follow(u, [0.0, 0.0, *goal])
        for k in range(0, 200, 10):
            dt, moved = k * 1e-3, goal.copy()
            for i in (0, 3):
                moved[i] += goal[i + 1] * dt + goal[i + 2] * dt * dt / 2
                moved[i + 1] += goal[i + 2] * dt
            u = host.loop.control.law.evaluate(host.plant.t, host.plant.x[:-1].copy(), moved).inputs.copy()
            host.step()
            np.testing.assert_allclose(host.acting, u, atol=4e-6)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (True, "asks for inputs beyond plant.device.law_tolerance of the controller's: it may have other gains"),
        (False, "gives no inputs although the controller does"),
    ],
)
def test_a_law_acts_no_farther_from_the_controller_than_the_tolerance_and_without_an_answer_not_at_all(
    answers: bool, text: str
) -> None:
    with hosted("udp", *LOCKSTEP) as host:
        for k in range(0, 1000, 10):
            own, goal = host.law()
            if not answers:  # inside the radius in which its bearing is not defined
                goal = np.array([host.plant.x[0], 0.0, 0.0, host.plant.x[1], 0.0, 0.0])
            u = own + np.array([0.1, -0.1]) if answers else np.array([0.03125, 0.0625])
            host.plant.follow(u, [float(k), float(k), *goal])
            host.step()
            np.testing.assert_allclose(host.acting, own + np.array([0.06, -0.06]) if answers else u, atol=4e-6)
            if host.remote.fault() is not None:
                break
        name, said = host.remote.fault() or ("", "")
    assert (name, text in said) == ("device_law", True)
    assert (k + 10) * 1e-3 == pytest.approx(0.1, abs=0.021)  # the command timeout


def test_without_a_goal_the_law_does_not_act_and_the_inputs_do() -> None:
    with hosted("udp", *LOCKSTEP) as host:
        u, goal = host.law()
        host.plant.follow(u, [0.0, 0.0, *goal])
        host.step()
        assert host.plant.extra["machine_law"] == 1.0
        host.plant.write(np.array([0.03125, -0.0625]))
        host.step()
        assert host.acting.tolist() == [0.03125, -0.0625]
        assert host.plant.extra["machine_law"] == 0.0
        host.plant.follow(np.array([0.5, 0.5]), [20.0, 20.0, *goal])  # beyond the limits of 0.4 N m
        host.step()
        assert np.abs(host.acting).max() <= np.float32(0.4)


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


@pytest.mark.parametrize("mode", ["lockstep", "realtime"])
def test_other_gains_in_the_firmware_are_the_fault_device_law(mode: str) -> None:
    gains = "law_K[12] = {\n    /* K0, feedback of f */\n    2"
    tampered = Firmware(changes=((f"{gains}.0,", f"{gains}0.0,"),))  # of the speed, and the schema of the right one
    settings = (f"run.mode={mode}", "plant.device.law=true", "plant.initial.V=0.6", "plant.safety.limit=0.4")
    with host_of(UdpWire(Events(), tampered), loop_of("udp", *COMMON, *settings)) as host:
        for k in range(0, 1000, 10):
            u, goal = host.law()
            host.plant.follow(u, [float(k), float(k), *goal])
            if mode == "lockstep":
                host.step()
            else:
                host.queue.go(10 * MS)
                host.plant.advance(10)
            if host.remote.fault() is not None:
                break
        name, text = host.remote.fault()
    assert name == "device_law"
    assert "beyond plant.device.law_tolerance of the controller's: it may have other gains" in text


@pytest.mark.parametrize("own", [True, False])
def test_firmware_with_another_law_or_none_is_refused_at_the_handshake(own: bool) -> None:
    loop = loop_of("udp", *LOCKSTEP, "controller.settings.a=1.5")
    with host_of(UdpWire(Events(), Firmware(law=own)), loop) as host:
        name, text = host.remote.fault()
    assert name == "device"
    assert "its own law is not that of this launch file (its law's schema is 0x" in text
    assert ("0x00000000, 0 for none" in text) != own
    assert f"this launch file's is {law_schema(loop.control.law):#010x}" in text


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
@pytest.mark.parametrize(
    ("launch", "own"), [("trailer_pursuit", True), ("trailer_reverse", True), ("trailer_pursuit", False)]
)
def test_a_whole_run_by_either_law_is_ours_within_rounding_of_32_bits(launch: str, own: bool) -> None:
    ours = servonode.simulate(launch, every=10)
    said = ("plant.device.any_speed=true", f"plant.device.law={str(own).lower()}", "plant.safety.limit=2.0")
    loop = resolve(read_launch(launch, [*UDP, "run.mode=lockstep", *said]), strict=False)
    states, inputs = [], []
    with host_of(UdpWire(Events(), Firmware(launch=launch)), loop) as host:
        for k in range(0, loop.launch.steps, 10):
            u, goal = host.law()
            states.append(host.plant.x[:-1].copy())
            host.plant.follow(u, [float(k), float(k), *goal]) if own else host.plant.write(u)
            host.step()
            inputs.append(host.acting)
        assert host.remote.fault() is None
        assert host.plant.extra.get("machine_law", 0.0) == own
    names = loop.machine.description
    for i, name in enumerate(names.state_names):
        expected = ours.state[name][: len(states)]
        difference = np.abs(np.array(states)[:, i] - expected).max()
        assert difference <= 16 * ROUNDING * np.abs(expected).max(), name
    for i, name in enumerate(names.input_names):
        difference = np.abs(np.array(inputs)[:, i] - ours.inputs[i, : len(inputs)]).max()
        assert difference < 4e-6, name  # N m


@pytest.mark.slow
@pytest.mark.parametrize(("name", "limit"), [("crane/crane", 2000.0), ("elastic_arm/arm", 20.0)])
def test_laws_of_relative_degree_four_act_in_firmware_and_their_integrators_come_with_the_goal(
    name: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, queue, plants = str(EXAMPLES / f"{name}.toml"), AtOnce(), list[DevicePlant]()
    firmware = Firmware(launch=file, changes=(("#define OWN_LIMIT 2.0f", f"#define OWN_LIMIT {limit}f"),))
    said = ("run.mode=lockstep", "plant.device.law=true", f"plant.safety.limit={limit}")
    loop = resolve(read_launch(file, [*UDP, *said]), strict=False)

    def plant(closed_loop: ClosedLoop, injector: Any) -> DevicePlant:
        plants.append(driven_plant(closed_loop, lambda: queue.now, injector))
        return plants[0]

    with UdpWire(queue, firmware).plugged():
        monkeypatch.setattr(ClosedLoop, "plant", plant)
        run = simulate_nodes(loop, 1)
        monkeypatch.undo()
    ours = servonode.simulate(file, every=1)
    assert run.fault is None
    assert plants[0].extra["machine_law"] == 1.0
    assert not run.stats["counts"].get("without_goal")
    for coordinate in [each for each in ours.state if not each.endswith("_dot")]:
        expected = ours.state[coordinate]
        difference = np.abs(run.state[coordinate] - expected).max()
        assert difference <= 200 * ROUNDING * max(np.abs(expected).max(), 1.0), coordinate
    for residual, largest in ours.residual_max.items():
        assert run.residual_max[residual] == pytest.approx(largest, rel=1e-3)


def test_the_goal_of_firmware_ends_with_what_the_laws_integrators_hold() -> None:
    crane = servonode.load(EXAMPLES / "crane" / "crane.toml").closed_loop
    assert crane.control is not None
    law = crane.control.law
    assert goal_orders(law) == [4, 3, 2, 1, 0, 4, 3, 2, 1, 0, 1, 0]
    assert [each.name for each in law.description.states] == ["demanded_M_w", "demanded_M_w_dot"]
    assert law.goal_layout.states == slice(10, 12)
    snakeboard = servonode.load(EXAMPLES / "snakeboard" / "snakeboard.toml").closed_loop
    assert snakeboard.control is not None
    assert goal_orders(snakeboard.control.law)[-2:] == [0, 0]  # the rate of the first is not the second


def rms(residuals: list[np.ndarray]) -> np.ndarray:
    """The root mean square of each residual: speed [m/s], heading [rad]."""
    assert len(residuals) > 500
    return np.sqrt(np.mean(np.square(residuals), axis=0))


def residuals_of(host: Host, t: float, x: np.ndarray) -> np.ndarray:
    return host.loop.control.law.evaluate(t, x, host.loop.control.goal(t)).residuals.copy()


def late_in_lockstep(by_firmware: bool, late: int) -> np.ndarray:
    """The residuals where states reach the controller `late` periods late."""
    with hosted("udp", *LOCKSTEP) as host:
        plant, control = host.plant, host.loop.control
        found: list[np.ndarray] = []
        states = [plant.x[:-1].copy()] * (late + 1)
        for k in range(0, 10000, 10):
            seen = max(k - 10 * late, 0)
            goal = control.goal(seen * 1e-3)
            u = control.law.evaluate(seen * 1e-3, states[-1 - late], goal).inputs.copy()
            plant.follow(u, [float(seen), float(seen), *goal]) if by_firmware else plant.write(u)
            host.step()
            states.append(plant.x[:-1].copy())
            found.append(residuals_of(host, plant.t, states[-1]))
        assert host.remote.fault() is None
    return rms(found)


def late_in_real_time(by_firmware: bool) -> np.ndarray:
    """The residuals over a line of 60 ms, by the machine's own steps, from its 3rd second on."""
    settings = ("plant.device.law=true", "plant.safety.command_timeout=0.4", "plant.safety.limit=0.4")
    with hosted("serial", *settings, back={"delay_ns": 60 * MS}) as host:
        plant, control, found = host.plant, host.loop.control, list[np.ndarray]()
        while (k := plant.read().step) < 12_000:
            x, goal = plant.x[:-1].copy(), control.goal(k * 1e-3)
            u = control.law.evaluate(k * 1e-3, x, goal).inputs.copy()
            plant.follow(u, [float(k), float(k), *goal]) if by_firmware else plant.write(u)
            if k > 3000:
                found.append(residuals_of(host, k * 1e-3, x))
            for _ in range(10):
                host.queue.go(MS)
                plant.advance(1)
            assert host.remote.fault() is None
        assert plant.extra["machine_law"] == by_firmware
    return rms(found)


@pytest.mark.slow
def test_where_states_come_late_the_loop_in_the_firmware_has_smaller_residuals_than_that_over_the_wire() -> None:
    over_the_wire, in_firmware = (late_in_lockstep(each, late=6) for each in (False, True))
    assert in_firmware[0] < 0.2 * over_the_wire[0]
    assert in_firmware[1] < over_the_wire[1]


@pytest.mark.slow
def test_in_real_time_too() -> None:
    over_the_wire, in_firmware = (late_in_real_time(each) for each in (False, True))
    assert in_firmware[0] < 0.5 * over_the_wire[0]
