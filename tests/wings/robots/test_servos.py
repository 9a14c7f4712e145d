"""Servos of a robot's file stay servos: their force is the input, and they are told the command that gives it."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.arrays import Array
from servonode.closed_loop.launch_error import LaunchError
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.drivers.driver import DriverError
from servonode.plants.servos import ServoCommands
from servonode.wings.acceptance.hil_accept import accept
from servonode.wings.robots.read import read
from tests.helpers.c_code import c_text
from tests.helpers.extras import NO_MUJOCO
from tests.helpers.refusals import command
from tests.helpers.robots import machine_of

mujoco = pytest.importorskip("mujoco", reason=NO_MUJOCO)
ARM = """<mujoco model="arm"><option timestep="0.001"/><worldbody><body name="a" pos="0 0 1">
<joint name="a" axis="0 1 0" damping="0.1"/><inertial pos="0.2 0 0.02" mass="2" diaginertia="0.02 0.03 0.03"/>
<body name="b" pos="0.4 0 0"><joint name="b" axis="0 1 0"/>
<inertial pos="0.15 0 0" mass="1" diaginertia="0.01 0.01 0.01"/></body></body></worldbody>
<actuator>{}</actuator></mujoco>"""
PLACES = (
    '<position name="pa" joint="a" kp="400" dampratio="1" ctrlrange="-3 3" forcerange="-60 60"/>'
    '<position name="pb" joint="b" kp="100" kv="8" gear="2" forcerange="-30 30"/>'
)
SERVOS = {
    "places, one damped by a ratio, one geared": PLACES,
    "a speed and a place": '<velocity name="pa" joint="a" kv="30"/><position name="pb" joint="b" kp="50"/>',
    "ranges on one side": '<position name="pa" joint="a" kp="9" ctrlrange="0 3"/>'
    '<position name="pb" joint="b" kp="9" kv="1" ctrlrange="1 5"/>',
    "general, with a constant": '<general name="pa" joint="a" gainprm="7" biastype="affine" gear="-3" '
    'biasprm="3 -5 -2"/><motor name="pb" joint="b" gear="2"/>',
}
LAUNCH = """[run]
duration = {duration}
mode = "lockstep"
[plant]
machine = "arm.xml"
driver = "{driver}"
step = 0.001
initial = {{ a = 0.5, b = 0.3 }}
[plant.safety]
safe_time = 1.0
[controller]
period = 0.005
residuals = {{ a = "a - 0.5*cos(t)", b = "b - 0.3*cos(2*t)" }}
"""


def launch(folder: Path, servos: str = PLACES, driver: str = "mujoco", duration: float = 2.0) -> Path:
    (folder / "arm.xml").write_text(ARM.format(servos))
    file = folder / "arm.toml"
    file.write_text(LAUNCH.format(driver=driver, duration=duration))
    return file


@pytest.mark.parametrize("servos", SERVOS.values(), ids=SERVOS)
def test_commands_give_mujoco_the_accelerations_that_their_forces_give_the_equations(
    tmp_path: Path, servos: str
) -> None:
    file = launch(tmp_path, servos).parent / "arm.xml"
    machine, robot = machine_of(file), read(file)
    model = mujoco.MjModel.from_xml_path(str(file))
    model.actuator_ctrllimited[:] = 0  # beyond a range no command gives the force
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(20):
        x = np.array([*rng.normal(size=4), 0.0])
        force = rng.normal(size=2)
        data.qpos[:], data.qvel[:] = x[:2], x[2:4]
        mujoco.mj_forward(model, data)
        for i, each in enumerate(robot.actuators):
            told = each.servo and each.servo.command(force[i], data.actuator_length[i], data.actuator_velocity[i])
            data.ctrl[i] = force[i] if told is None else told
        mujoco.mj_forward(model, data)
        assert_allclose(machine.derivatives(0.0, x, force)[2:4], data.qacc, rtol=1e-9, atol=1e-9)


def test_an_ignored_servo_is_a_motor(tmp_path: Path) -> None:
    file = launch(tmp_path).parent / "arm.xml"
    told, ignored = read(file), read(file, ignore=["servo"])
    assert [each.servo for each in ignored.actuators] == [None, None]
    assert [(each.gear, each.range) for each in told.actuators] == [
        (each.gear, each.range) for each in ignored.actuators
    ]


def test_an_arm_of_servos_follows_its_goal_in_mujoco(tmp_path: Path) -> None:
    made = servonode.load(launch(tmp_path), controller__period=0.002)
    run, again = made.simulate(), made.simulate()
    assert not run.faults
    assert max(np.abs(values).max() for values in run.residual.values()) < 2e-3
    assert abs(run.energy_error) < 2e-3
    assert_allclose(run.state["a"], again.state["a"], rtol=0, atol=0)


def test_forces_differ_within_a_period_by_how_far_a_joint_moves(tmp_path: Path) -> None:
    closed = servonode.load(launch(tmp_path)).closed_loop
    motion, x, u = closed.motion(), closed.start.copy(), np.array([3.0, 1.0])
    assert motion is not None
    (pa, pb), errors = read(tmp_path / "arm.xml").actuators, []
    start = x.copy()
    motion.renew(u)
    for k in range(5):
        motion.advance(k, 1, x, u)
        errors.append(np.abs(motion.given - u))  # type: ignore[attr-defined]
    for i, each in enumerate((pa, pb)):
        assert each.servo is not None
        _, stiffness, damping = (abs(value) for value in each.servo.bias)
        gear = abs(each.gear[0])
        moved, faster = gear * abs(x[i] - start[i]), gear * abs(x[2 + i] - start[2 + i])
        assert 0 < errors[-1][i] <= 1.01 * (stiffness * moved + damping * faster)
        assert errors[0][i] < errors[-1][i] / 2


def moves_after(run: servonode.Run, since: float) -> dict[str, float]:
    """By how much each joint moves at most from this time on."""
    late = run.t >= since
    return {name: float(np.abs(run.state[name][late] - run.state[name][late][0]).max()) for name in ("a", "b")}


@pytest.mark.parametrize("lag", [0.0, 0.02])  # s, in which the drives' forces fade
def test_after_a_fault_servos_hold_where_they_stand(tmp_path: Path, lag: float) -> None:
    file = launch(tmp_path)
    sensed = {"fault": [{"on": "sensor", "kind": "garbage", "name": "a", "size": 9.0, "at": 0.5}]}
    limits: dict[str, Any] = {"plant__safety__state_limit": {"a": 3.0}}
    run = servonode.simulate(file, **sensed, **limits, plant__actuator__lag=lag)
    assert run.fault is not None
    assert run.t[-1] > 1.4
    assert all(moved < 0.1 for moved in moves_after(run, 0.5).values())  # it stands at 0.44 and 0.16 rad
    rest = moves_after(run, 1.2)
    assert all(moved < 2e-3 for moved in rest.values())
    free = servonode.simulate(file, **sensed, **limits, plant__robot__ignore=["servo"])
    assert max(moves_after(free, 0.5).values()) > 1.0  # motors let it fall


@pytest.mark.parametrize("kind", ["kill", "stall"])
def test_a_controller_that_dies_in_a_run_leaves_servos_where_they_stand(tmp_path: Path, kind: str) -> None:
    fault = [{"on": "node", "kind": kind, "name": "controller", "at": 0.5, "duration": 30.0}]
    run = servonode.run(launch(tmp_path), fault=fault, run__mode="realtime", plant__safety__command_timeout_floor=0.1)
    (injected,) = run.stats["injected"]
    assert injected["found"] == "stale_command"
    assert run.t[-1] > 1.5
    assert all(moved < 0.1 for moved in moves_after(run, 0.5).values())


def test_lost_commands_leave_servos_where_they_stand(tmp_path: Path) -> None:
    lost = [{"on": "link", "kind": "off", "name": "applied", "at": 0.5}]
    run = servonode.simulate(launch(tmp_path), fault=lost)
    assert run.fault is not None
    assert run.fault["name"] == "stale_applied"
    assert all(moved < 0.1 for moved in moves_after(run, 0.5).values())


def test_without_a_law_a_speed_servo_comes_to_rest_and_a_place_servo_stays(tmp_path: Path) -> None:
    for servos in (PLACES, SERVOS["a speed and a place"].replace("30", "300")):
        file = launch(tmp_path, servos)
        file.write_text(file.read_text().partition("[controller]")[0].replace("b = 0.3", "b = 0.3, a_dot = 0.5"))
        run = servonode.simulate(file)
        assert abs(run.state["a_dot"][-1]) < 9.4 / 300  # as a speed servo sinks under its load
        assert abs(run.state["b"][-1] - 0.3) < 0.1


def test_a_command_beyond_its_range_is_clipped_and_counted(tmp_path: Path) -> None:
    narrow = PLACES.replace('ctrlrange="-3 3"', 'ctrlrange="0.4 3"')
    run = servonode.simulate(launch(tmp_path, narrow))
    assert run.stats["counts"]["command:pa"] > 10
    assert min(run.state["a"]) > 0.3


def test_notes_say_what_follows_from_ranges(tmp_path: Path) -> None:
    file = launch(tmp_path, SERVOS["ranges on one side"]).parent / "arm.xml"
    commands, forces = (note for note in machine_of(file).description.notes if note.startswith("servos "))
    assert commands.startswith("servos pa, pb: the file limits their commands")
    assert forces.startswith("servos pa, pb: no forcerange limits their forces")


class Wire:
    """A link that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.fds, self.counts = (), dict[str, int]()

    def send(self, topic: str, message: Any) -> None:  # noqa: ARG002
        self.sent.append(message)


def test_a_device_is_told_commands_at_the_measured_state_and_none_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire()
    closed = servonode.load(launch(tmp_path, driver="loopback")).closed_loop
    plant = DevicePlant(closed.driver_context(), wire)  # type: ignore[arg-type]
    plant.begin(7, 0)
    assert wire.sent[-1].command == "servo"
    plant.readings.answered = True
    plant.x[:4] = [0.2, 0.1, 0.3, -0.4]
    force = np.array([1.0, 2.0])

    def told(forces: Array) -> Any:
        plant.write(forces)
        plant.inputs.send(0)
        return wire.sent[-1].servo

    assert told(force).__class__.__name__ == "UnsetType"  # no state is known
    monkeypatch.setattr(type(plant.readings), "known", True)
    found = told(force.copy())
    damping = -read(tmp_path / "arm.xml").actuators[0].servo.bias[2]  # type: ignore[union-attr]
    assert found["pa"] == pytest.approx(0.2 + (1.0 + damping * 0.3) / 400)
    assert found["pb"] == pytest.approx(2 * 0.1 + (2.0 - 8 * 2 * 0.4) / 100)
    plant.x[0] = 2.9
    held = plant.inputs.values
    assert held.tolist() == force.tolist()
    clipped = told(np.array([60.0, 0.0]))
    assert clipped["pa"] == 3.0
    assert plant.counts["command:pa"] == 1
    same = np.array([5.0, 0.0])
    before = told(same)
    plant.x[0] = 1.0
    assert told(same) == before  # the same once more is no new decision
    plant.safe()
    plant.inputs.send(0)
    assert wire.sent[-1].servo.__class__.__name__ == "UnsetType"


def test_a_changed_gear_changes_the_length_too(tmp_path: Path) -> None:
    for driver in ("loopback", "mujoco"):
        closed = servonode.load(launch(tmp_path, driver=driver), plant__parameters__pb_gear=5.0).closed_loop
        told = ServoCommands(closed.machine, closed.servos, Counter())
        x = np.array([0.2, 0.1, 0.3, -0.4, 0.0])
        found = told.find(0.0, x, np.array([1.0, 2.0]))
        assert found is not None
        assert found["pb"] == pytest.approx(5 * 0.1 + (2.0 - 8 * 5 * 0.4) / 100)


@pytest.mark.parametrize("name", ["pa", "a"])
def test_mujoco_has_the_gear_of_a_motor_whatever_its_name(tmp_path: Path, name: str) -> None:
    file, gear = launch(tmp_path, f'<motor name="{name}" joint="a" gear="2"/><motor name="b" joint="b"/>'), 7.0
    name = {"a": "a_torque"}.get(name, name)
    changed: dict[str, Any] = {f"plant__parameters__{name}_gear": gear}
    motion = servonode.load(file, **changed).closed_loop.motion()
    assert motion._model.actuator_gear[0, 0] == gear  # type: ignore[union-attr]


def test_what_is_left_out_takes_no_command_of_others(tmp_path: Path) -> None:
    two = '<pid name="left" joint="b" kp="40" ki="3" kv="8" input="pos vel"/>'  # two commands, and a state
    file = launch(tmp_path, f'{two}<position name="pa" joint="a" kp="400"/><motor name="pb" joint="b" gear="3"/>')
    motion = servonode.load(file, plant__robot__ignore=["activation"]).closed_loop.motion()
    assert motion is not None
    motion.renew(np.ones(2))
    motion.advance(0, 1, np.zeros(5), np.array([1.0, 2.0]))
    assert motion._data.ctrl[3] == 2.0  # type: ignore[attr-defined]
    assert motion.extra()["command_pa"] == pytest.approx(0.5 + 1 / 400, abs=1e-3)


def test_a_tendon_that_is_ignored_limits_nothing_in_mujoco(tmp_path: Path) -> None:
    tendon = '<tendon><fixed name="t" range="-0.1 0.4"><joint joint="a" coef="1"/></fixed></tendon><actuator>'
    file = launch(tmp_path)
    (tmp_path / "arm.xml").write_text(ARM.format(PLACES).replace("<actuator>", tendon))
    motion = servonode.load(file, plant__robot__ignore=["tendon"]).closed_loop.motion()
    assert not motion._model.tendon_limited.any()  # type: ignore[union-attr]


def test_a_check_says_that_servos_hold(tmp_path: Path) -> None:
    held = servonode.check(launch(tmp_path, duration=0.1))
    assert held.after_fault == {"pa": "0: holds where it stands", "pb": "0: holds where it stands"}
    falls = servonode.check(launch(tmp_path, driver="simulated", duration=0.1))
    assert falls.after_fault == {"pa": "0: coasts", "pb": "0: coasts"}
    beside = '<position name="pa" joint="a" kp="400" kv="20" forcerange="-60 60"/><motor name="pb" joint="b"/>'
    partly = servonode.check(launch(tmp_path, beside, duration=0.1))
    assert partly.after_fault == {"pa": "0: holds where it stands", "pb": "0: coasts"}
    warned = [
        any("gains speed after a fault" in each.text for each in found.findings) for found in (held, falls, partly)
    ]
    assert warned == [False, True, True]


def test_c_says_that_commands_of_servos_are_not_in_it(tmp_path: Path) -> None:
    assert "Commands of the servos (pa, pb): inputs are the forces" in c_text(
        servonode.load(launch(tmp_path)).closed_loop
    )


def test_the_python_file_of_a_machine_has_its_servos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    launch(tmp_path)
    command("new", "machine", "made", "--from", "arm.xml")
    text = (tmp_path / "arm.toml").read_text().replace("arm.xml", "./made.py:model")
    (tmp_path / "arm.toml").write_text(text)
    made = servonode.load("arm.toml", plant__driver="loopback").closed_loop
    assert made.servos == {each.name: each.servo for each in read(tmp_path / "arm.xml").actuators}


def test_a_driver_that_sends_forces_does_not_arm_servos(tmp_path: Path) -> None:
    more = {"plant__device__address": "127.0.0.1:9875", "run__mode": "realtime"}
    closed = servonode.load(launch(tmp_path, driver="udp"), **more).closed_loop
    with pytest.raises(LaunchError, match="servos, which hold places or speeds, and driver udp sends forces alone"):
        closed.check_keys(True)
    with pytest.raises(DriverError, match="driver udp sends forces alone"):
        accept(closed)
    closed.check_keys(False)
    told = servonode.load(launch(tmp_path, driver="udp"), **more, plant__robot__ignore=["servo"]).closed_loop
    told.check_keys(True)
