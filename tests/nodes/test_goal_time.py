"""What keeps a machine from lurching when it is armed again: goal time that stands, inputs that grow."""

from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.bus import MemoryBus, State, Status, Switchboard, Target
from servonode.bus.topology import CONTROLLER, NODES, PLANT, TARGET, subscribers
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import LaunchError, read_launch
from servonode.nodes.controller_node import ControllerNode
from servonode.nodes.target_node import TargetNode
from servonode.record.run_rows import run_of_rows
from tests.helpers.stepped import MS, WAITS, Bench, Clock, active, puck

# goal time


def test_goal_time_is_plant_time_while_commands_act(plain: ClosedLoop) -> None:
    bench = active(plain)
    for _ in range(5):
        assert bench.period(0.1)
    assert [(state.k, state.goal_k) for state in bench.states] == [(k, k) for k in range(0, 60, 10)]


@pytest.mark.parametrize("word", ["disarm", "estop"])
def test_goal_time_stands_while_no_command_acts_and_goes_on_with_the_first(word: str, plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.period(0.1)
    bench.advance(3)
    bench.node.handle_request(word)
    bench.advance(7)
    stood = bench.node.goal.k
    assert stood == 20
    for _ in range(30):
        bench.period(0.1)
    if word == "estop":
        bench.node.handle_request("reset_estop")
    assert {state.goal_k for state in bench.states if state.k >= 30} == {stood}
    assert bench.node.handle_request("arm") == {"done": True, "lifecycle": "arming"}
    goals = []
    for _ in range(4):
        assert bench.period(0.1)
        goals.append(bench.state.goal_k)
    assert goals == [stood, stood + 10, stood + 20, stood + 30]
    assert bench.statuses[-1].goal_k == stood


def test_goal_time_stands_while_the_safe_action_acts_for_want_of_commands(folder: Path) -> None:
    bench = active(puck(folder, WAITS, "plant.safety.repeats=2"))
    for _ in range(8):
        bench.ask()
        bench.advance(10)
    assert bench.safe_state == "damp"
    assert bench.node.goal.k == 40  # two periods on the last command, the third is found out at its end
    assert bench.period(0.1)
    assert bench.node.goal.k == 50


def test_the_record_says_where_goal_time_stood(plain: ClosedLoop) -> None:
    bench = active(plain)
    bench.node.handle_request("disarm")
    for _ in range(3):
        bench.period(0.0)
    bench.node.handle_request("arm")
    bench.period(0.0)
    bench.period(0.0)
    run = run_of_rows(plain, "realtime", bench.node.record.rows, np.zeros((0, 20)), 1.0)
    expected = np.concatenate([np.arange(0, 10), np.full(30, 10), np.arange(10, 30)]) / 1e3
    np.testing.assert_allclose(run.goal_t, expected)
    assert list(run.columns)[-1] == "goal_t"


TARGETS = """
[run]
duration = 60
mode = "lockstep"
[plant]
machine = "./puck.py:model"
[controller]
residuals = { x = "x - a", y = "y - b - 0.1*sin(t)" }
settings = { b = "0.2*t" }
period = 0.01
[target]
a = "t*t"
"""


@pytest.fixture
def aimed(folder: Path) -> ClosedLoop:
    puck(folder)
    (folder / "aimed.toml").write_text(TARGETS)
    return resolve(read_launch(str(folder / "aimed.toml")))


def test_targets_signals_and_time_in_residuals_are_those_of_goal_time(aimed: ClosedLoop) -> None:
    switchboard = Switchboard()
    plant = MemoryBus(switchboard, PLANT)
    target = TargetNode(aimed, MemoryBus(switchboard, TARGET), subscribers(NODES))
    controller = ControllerNode(aimed, MemoryBus(switchboard, CONTROLLER), subscribers(NODES))
    publisher = plant.publisher()
    received = plant.subscriber({CONTROLLER: ["command", "report"]})
    header = {"run": 1, "mono": 1, "node": PLANT, "src": 2}
    state = {"x": 0.0, "y": 0.0, "x_dot": 0.0, "y_dot": 0.0}

    def answered(seq: int, k: int, goal_k: int) -> np.ndarray:
        values = {"lifecycle": "active", "counts": {}, "values": {}}
        publisher.publish("status", Status(t=k / 1e3, k=k, seq=seq, goal_k=goal_k, **header, **values))
        inputs = {"input": {"F": 0.0, "G": 0.0}, "control": True}
        publisher.publish("state", State(t=k / 1e3, k=k, seq=seq, goal_k=goal_k, state=state, **inputs, **header))
        for _ in range(3):
            target.work()
            controller.work()
        assert [each.re for topic, each in received.receive() if topic == "command"] == [seq]
        return controller.record.rows[-1, controller.answerer.law.record_layout.residuals].copy()

    stood = answered(0, 5000, 3000)
    np.testing.assert_allclose(stood, [-9.0, -0.6 - 0.1 * np.sin(3.0)], rtol=1e-12)
    np.testing.assert_array_equal(answered(1, 5010, 3000), stood)
    np.testing.assert_allclose(answered(2, 5020, 3010)[0], -(3.01**2), rtol=1e-12)


def test_while_goal_time_stands_a_target_is_sent_again_once_a_second(aimed: ClosedLoop) -> None:
    """Not at each status; but a controller that was frozen has lost goals, and cannot answer without them."""
    switchboard, clock = Switchboard(), Clock()
    plant, waits = MemoryBus(switchboard, PLANT), resolve(read_launch(aimed.launch.file, ["run.mode=realtime"]))
    target = TargetNode(waits, MemoryBus(switchboard, TARGET), subscribers(NODES), clock)
    publisher, goals = plant.publisher(), plant.subscriber({TARGET: ["target"]})
    found = []
    for i in range(25):
        clock.now += 100 * MS
        header = {"run": 1, "mono": 1, "node": PLANT, "src": 2, "lifecycle": "inactive", "counts": {}, "values": {}}
        publisher.publish("status", Status(t=i / 10, k=100 * i, seq=i, goal_k=500, **header))
        for _ in range(50):
            target.work()
        found.append([each.k for _, each in goals.receive() if isinstance(each, Target)])
    assert found[0][0] == 500
    assert [at for at, steps in enumerate(found) if 500 in steps] == [0, 10, 20]
    assert set(map(tuple, found)) == {tuple(found[0]), tuple(found[1]), ()}  # the rest of 256 with the next status


def test_a_changed_goal_acts_from_its_step_also_for_a_reader_that_comes_later(aimed: ClosedLoop) -> None:
    still = resolve(read_launch(aimed.launch.file, ["target.a=1.0"]))
    switchboard = Switchboard()
    plant = MemoryBus(switchboard, PLANT)
    target = TargetNode(still, MemoryBus(switchboard, TARGET), subscribers(NODES))
    publisher, found = plant.publisher(), dict[int, set[float]]()

    def changed_at(seq: int, run: int, goal: float) -> int:
        readers.append(plant.subscriber({TARGET: ["target"]}))
        header = {"run": run, "mono": 1, "node": PLANT, "src": 2, "lifecycle": "active", "counts": {}, "values": {}}
        publisher.publish("status", Status(t=seq / 10, k=100 * seq, seq=seq, goal_k=100 * seq, **header))
        target.work()
        k, _ = target.use([goal])
        for _ in range(100):
            target.work()
        for _, each in readers[0].receive():
            found.setdefault(each.k, set()).add(each.target["a"])
        return k

    readers = [plant.subscriber({TARGET: ["target"]})]
    first, second, third = changed_at(0, 1, 2.0), changed_at(1, 1, 3.0), changed_at(2, 1, 4.0)
    assert (first, second, third) == (320, 2570, 2670)
    assert found == {
        k: {1.0} if k < first else {2.0} if k < second else {3.0} if k < third else {4.0} for k in range(0, 2770, 10)
    }
    found.clear()
    assert changed_at(0, 2, 5.0) == 320  # the plant was started again
    assert found[0] == found[310] == {4.0}
    assert found[320] == {5.0}


# the ramp


def test_the_inputs_grow_with_the_square_of_the_time_after_each_arming_during_the_run(folder: Path) -> None:
    bench = active(puck(folder, WAITS, "plant.safety.ramp=0.1"))
    assert bench.period(4.0)
    assert bench.acting == (4.0, 0.0)  # a simulation that begins at its initial state does not lurch
    bench.node.handle_request("disarm")
    bench.period(0.0)
    bench.node.handle_request("arm")
    found = []
    for _ in range(12):
        assert bench.period(4.0, -2.0)
        found.append(bench.acting)
    expected = [(4.0 * s * s, -2.0 * s * s) for s in (i / 10 for i in range(1, 10))] + [(4.0, -2.0)] * 3
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert bench.counts["ramp"] == 9
    assert "saturated" not in bench.counts
    ramped = [each for each in bench.applied if "ramp" in each.reasons]
    assert len(ramped) == 9
    assert ramped[0].desired == {"F": 4.0, "G": -2.0}


def test_limits_hold_on_the_ramp(folder: Path) -> None:
    bench = active(puck(folder, WAITS, "plant.safety.ramp=0.05", "plant.safety.limit=1.0"))
    bench.node.handle_request("disarm")
    bench.period(0.0)
    bench.node.handle_request("arm")
    found = []
    for _ in range(6):
        bench.period(10.0)
        found.append(bench.acting[0])
    np.testing.assert_allclose(found, [0.4, 1.0, 1.0, 1.0, 1.0, 1.0])


def test_a_limit_of_its_own_holds_for_a_while_after_an_arming_but_not_for_the_brake(folder: Path) -> None:
    settings = ("plant.safety.arming_limit={F=0.5}", "plant.safety.arming_time=0.05", "plant.safety.limit=20")
    bench = active(puck(folder, WAITS, "plant.safety.ramp=0", *settings))
    assert bench.period(4.0)
    assert bench.acting == (4.0, 0.0)
    bench.node.handle_request("disarm")
    bench.period(0.0)
    bench.node.handle_request("arm")
    found = []
    for _ in range(7):
        bench.period(4.0, 3.0)
        found.append(bench.acting)
    assert found == [(0.5, 3.0)] * 5 + [(4.0, 3.0)] * 2
    assert bench.counts["limit:F"] == 5
    bench.node.handle_request("disarm")
    bench.node.handle_request("arm")
    bench.period(0.0)
    bench.node.handle_request("estop")
    assert bench.acting == bench.brake()
    assert abs(bench.acting[0]) > 0.5


def test_a_machine_behind_a_link_grows_into_its_first_arming_too(folder: Path) -> None:
    soft = servonode.load("trailer_pursuit_loopback", plant__safety__ramp=2).closed_loop.safety.soft_start
    assert (soft.ramp, soft.periods, soft.limits.value, soft.at_first) == (200, 2000, (0.057, 0.057), True)
    assert not servonode.load("trailer_pursuit_loopback", run__mode="lockstep").closed_loop.safety.soft_start.at_first
    assert not servonode.load("trailer_pursuit").closed_loop.safety.soft_start.at_first
    bench = Bench(puck(folder, WAITS, "plant.driver=loopback", "plant.safety.ramp=0.1"))
    bench.prepare()
    assert bench.answer(1.0)
    assert bench.applied[-1].reasons == ["ramp"]
    assert bench.acting[0] == pytest.approx(0.01)  # the square of a tenth


# limits of inputs and of readings


def test_external_plant_needs_a_finite_limit_on_every_input() -> None:
    with pytest.raises(LaunchError, match=r"\[plant.safety\] limit: missing for U1, U2: .*unsafe = true"):
        servonode.load("trailer_pursuit", plant__driver="external", run__speed=1)
    with pytest.raises(LaunchError, match="missing for U2:"):
        servonode.load("trailer_pursuit", plant__driver="external", run__speed=1, plant__safety__limit={"U1": 1.0})
    assert servonode.load("trailer_pursuit", plant__driver="external", run__speed=1, plant__actuator__limit=1.0)
    unsafe = servonode.load("trailer_pursuit", plant__driver="external", run__speed=1, plant__safety__unsafe=True)
    assert unsafe.closed_loop.safety.unsafe == ("no limit on U1, U2",)
    report = servonode.check("trailer_pursuit", plant__driver="external", run__speed=1)
    assert report.verdict == "no"
    assert any(each.subject == "limits" and "U1, U2" in each.text for each in report.findings)


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("plant__safety__faults", False, r"faults: false disables the detection"),
        ("run__lockstep_timeout", 9e9, r"\[run\] lockstep_timeout: 9e\+09 s would leave the machine without a watch"),
        ("plant__safety__frozen_time", 100.0, r"frozen_time: 100 s would leave"),
        ("plant__device__timeout", 11.0, r"timeout: 11 s would leave"),
    ],
)
def test_external_plant_watch_is_not_removed_in_silence(key: str, value: object, match: str) -> None:
    with pytest.raises(LaunchError, match=match):
        servonode.load("trailer_pursuit_external", **{key: value})
    loop = servonode.load("trailer_pursuit_external", plant__safety__unsafe=True, **{key: value})
    assert len(loop.closed_loop.safety.unsafe) == 1
    assert "set" not in loop.closed_loop.safety.unsafe[0]


@pytest.mark.parametrize("settings", [("plant.sensor.bias={x=1e9}",), ("plant.sensor.noise={x_dot=50}",)])
def test_a_simulated_sensor_beyond_a_stated_limit_is_a_fault_too(folder: Path, settings: tuple[str, ...]) -> None:
    limits = ("plant.safety.state_limit={x=100}", "plant.safety.state_rate_limit={x_dot=100}")
    bench = Bench(puck(folder, WAITS, *limits, *settings))
    bench.prepare()
    for _ in range(20):
        bench.period(0.0)
    assert (bench.node.faults[0].name, bench.safe_state) == ("implausible_state", "zero")
    assert set(bench.written[-3:]) <= {(0.0, 0.0)}


def test_names_of_limited_states_are_checked() -> None:
    with pytest.raises(LaunchError, match=r"\[plant.safety.state_limit\] W: unknown name; .*"):
        servonode.load("trailer_pursuit", plant__safety__state_limit={"W": 1.0})


# a program's own states

WAY = """from servonode.controllers import Program, residual, state
def program(machine):
    rows = residual("x", machine["x_dot"], "speed", "m/s"), residual("y", machine["y_dot"], "speed", "m/s")
    return Program("way", "a state that grows by 3 each second", rows, states={state("s", "way", start=0.5): 3})
"""


def test_a_program_s_own_states_grow_from_the_first_answer_on_and_anew_after_a_silence(folder: Path) -> None:
    puck(folder)
    (folder / "way.py").write_text(WAY)
    launch = TARGETS[: TARGETS.index("residuals")].replace("lockstep", "realtime")
    (folder / "way.toml").write_text(launch + 'program = "./way.py:program"\n')
    switchboard, now = Switchboard(), [0]
    publisher = MemoryBus(switchboard, PLANT).publisher()
    way = resolve(read_launch(str(folder / "way.toml")))
    controller = ControllerNode(way, MemoryBus(switchboard, CONTROLLER), subscribers(NODES), clock=lambda: now[0])
    header = {"run": 1, "mono": 1, "node": PLANT, "src": 2, "input": {"F": 0.0, "G": 0.0}, "control": True}
    state = {"x": 0.0, "y": 0.0, "x_dot": 0.0, "y_dot": 0.0}

    def s(*steps: int) -> float:
        for k in steps:
            publisher.publish("state", State(t=k / 1e3, k=k, seq=k, goal_k=k, state=state, **header))
        controller.work()
        return float(controller.record.rows[-1, -1])

    assert s(5000, 5010, 5020) == 0.5  # two states have come while it was busy
    assert s(5040) == pytest.approx(0.56, abs=1e-12)
    now[0] += 10**12
    controller.work()  # the plant is silent
    assert s(6000) == 0.5
    assert s(6010) == pytest.approx(0.53, abs=1e-12)
