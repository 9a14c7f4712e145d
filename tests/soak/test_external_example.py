"""The external plants of examples/, in Python, C and JavaScript, as processes, through the driver of such machines."""

import ast
import math
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgpack
import msgspec
import numpy as np
import pytest
import zmq

from servonode.bus import ExternalLink
from servonode.bus.topology import PLANT
from servonode.mechanics.machine import Machine
from servonode.operator.operator_requests import status, status_text
from servonode.plants.drivers.device import DevicePlant
from servonode.plants.effects import ActuatorEffects, SensorEffects
from servonode.plants.simulated import SimulatedPlant
from servonode.plants.speeds import Drives
from tests.helpers.external_c import external_c
from tests.helpers.external_programs import PROGRAMS
from tests.helpers.plants import context
from tests.helpers.runs import START_S, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "external_plant.py"
SPEED_ROBOT = Path(__file__).parents[1] / "helpers" / "speed_robot.py"
STEP_NS = 10**6
SECOND = 10**9
STATE_TIMEOUT = 1.0  # s: these tests share a computer with others
FORGIVING = "plant.safety.command_timeout=5"  # for the same reason
U = np.array([0.02, 0.03])
START = {"X": 0.5, "phi": 0.3, "V": 0.4, "Omega": 0.1}


class Rig:
    """An example in a process of its own, and plants that speak with it."""

    def __init__(self, machine, folder: Path, program: list[str], *words: str) -> None:
        self.machine, self.program, self.words = machine, program, words
        self.addresses = (f"ipc://{folder}/state", f"ipc://{folder}/applied")
        self.process = self.started()
        self.plants: list[DevicePlant] = []

    def started(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([*self.program, *self.addresses, *self.words])

    def restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self.started()

    def plant(self, machine=None, **changes) -> DevicePlant:
        machine = machine or self.machine
        stated = {
            "lockstep": True, "state_timeout": STATE_TIMEOUT, **changes,
        }  # fmt: skip
        made = DevicePlant(context(machine, machine.state(START), **stated), ExternalLink(*self.addresses))
        made.open()
        self.plants.append(made)
        return made

    def close(self) -> None:
        for plant in self.plants:
            plant.close()
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=["python", *(pytest.param(each, marks=pytest.mark.slow) for each in ("c", "node"))])
def program(request) -> list[str]:
    """How an example is started."""
    return PROGRAMS[request.param]()


@contextmanager
def rigged(machine, program: list[str], *words: str):
    folder = Path(tempfile.mkdtemp(prefix="sn", dir="/tmp"))  # short: a socket's path has 107 bytes
    made = Rig(machine, folder, program, *words)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)


@pytest.fixture
def rig(trailer, program):
    with rigged(trailer, program) as made:
        yield made


def wait(plant: DevicePlant, done, seconds: float = 20.0, most: float = 20.0) -> None:
    """As the plant node waits: on what the driver says. most: the longest sleep [s], where `done` itself sends."""
    end = time.monotonic_ns() + round(seconds * SECOND)
    while not done():
        now = time.monotonic_ns()
        assert now < end, plant.remote.no_answer_reason()
        due = plant.remote.due()
        until = end if due is None else min(end, due)
        select.select(plant.remote.fds, (), (), min(max(until - now, 0) / SECOND, most))


def connect(plant: DevicePlant, run: int = 77, k: int = 0) -> DevicePlant:
    plant.begin(run, k)
    wait(plant, plant.remote.connected)
    return plant


def follow(plant: DevicePlant, seconds: float, write=None, until=None) -> tuple[str, str] | None:
    """Real time, a step each ms; comes out with the first trouble, or when `until` holds."""
    begin = time.monotonic_ns()
    for i in range(round(seconds * 1000)):
        time.sleep(max(begin + i * STEP_NS - time.monotonic_ns(), 0) / SECOND)
        if write is not None:
            plant.write(write)
        plant.advance(1)
        if until is not None and until():
            return None
        if trouble := plant.remote.fault():
            return trouble
    assert until is None, "it did not come to that"
    return None


def simulated(machine) -> SimulatedPlant:
    free = ActuatorEffects((np.inf,) * 2, (np.inf,) * 2, *((0.0,) * 2,) * 4)
    return SimulatedPlant(
        machine, machine.state(START), STEP_NS, "rk4", free, SensorEffects(*((0.0,) * 8,) * 3, delay=0.0, drop=0.0), 0
    )


def largest_difference(plant: DevicePlant, reference: SimulatedPlant, instants: int, steps: int) -> float:
    """Over a run in lockstep under changing torques."""
    found = 0.0
    for i in range(instants):
        u = np.array([0.05 * np.sin(0.1 * i), 0.04 * np.cos(0.07 * i)])
        for each in (plant, reference):
            each.write(u)
            each.advance(steps)
        wait(plant, plant.remote.arrived)
        assert plant.k == reference.k
        found = max(found, float(np.abs(plant.x[:-1] - reference.x[:-1]).max()))
    return found


def test_the_example_is_short_and_needs_none_of_our_code():
    text = EXAMPLE.read_text()
    assert text.count("\n") <= 190
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    assert found <= {
        "math",
        "os",
        "sys",
        "tempfile",
        "time",
        "contextlib",
        "pathlib",
        "msgpack",
        "zmq",
        "zmq.auth",
        "zmq.auth.thread",
    }


@pytest.mark.parametrize("language", ["python", "node"])
def test_example_in_lockstep_moves_as_the_simulated_plant(trailer, language):
    rough = trailer.with_parameters({"c_w": 0.01, "d1": -0.1, "b": 0.8, "m_k": 0.5})
    with rigged(trailer, PROGRAMS[language]()) as rig:
        for run, machine in enumerate((trailer, rough)):
            plant = connect(rig.plant(machine), run + 1)
            assert largest_difference(plant, simulated(machine), 1000 if run == 0 else 200, 1 + 9 * run) < 1e-12
            assert not plant.counts
            plant.close()


def test_a_base_that_takes_speeds_holds_them_and_rests_at_zero(trailer):
    drives = Drives((60.0, 60.0), (50.0, 50.0))
    with rigged(trailer, [sys.executable, str(SPEED_ROBOT)]) as rig:
        plant = connect(rig.plant(drives=drives))
        for speeds in (np.array([3.0, 5.0]), np.zeros(2)):
            for _ in range(60):
                plant.drive(U, speeds) if speeds.any() else plant.safe()
                plant.advance(10)
                wait(plant, plant.remote.arrived)
            assert np.abs(trailer.input_rates(0.0, plant.x) - speeds).max() < 0.1  # a loop without an integral
        assert not plant.counts
        plant.close()
        efforts = rig.plant()
        efforts.begin(78, 0)
        wait(efforts, lambda: efforts.remote.connected() or efforts.remote.fault())
        assert efforts.remote.fault()[0] == "device"
        assert "takes speeds" in efforts.remote.fault()[1]


def test_example_refuses_another_machine(rig, trailer):
    other = msgspec.structs.replace(trailer.description, name="hoop_on_profile")
    plant = rig.plant(Machine(other, trailer.kernel, trailer.parameters))
    plant.begin(77, 0)
    wait(plant, lambda: plant.remote.connected() or plant.remote.fault())
    name, text = plant.remote.fault()
    assert name == "device"
    assert "this is diff_drive_trailer" in text


def test_example_in_c_refuses_other_parameters(trailer):
    with rigged(trailer, [external_c()]) as rig:
        plant = rig.plant(trailer.with_parameters({"m1": 4.5, "b": 0.8}))
        plant.begin(77, 0)
        wait(plant, lambda: plant.remote.connected() or plant.remote.fault())
        assert "parameter m1 is 4.5, but this program was built with 4" in plant.remote.fault()[1]


def test_example_answers_a_repeated_input_with_the_same_state(rig, trailer):
    plant, reference = connect(rig.plant()), simulated(trailer)
    link, order = plant.link, None
    for i in range(50):
        for each in (plant, reference):
            each.write(U * (i % 3))
            each.advance(10)
        if order is not None:
            link.send("applied", order)  # late, from the instant before
        order = plant.inputs.order
        link.send("applied", order)
        wait(plant, plant.remote.arrived)
    assert np.abs(plant.x[:-1] - reference.x[:-1]).max() < 1e-12


def test_example_begins_a_later_run_from_its_state(rig):
    plant = connect(rig.plant())
    plant.write(U)
    plant.advance(100)
    wait(plant, plant.remote.arrived)
    before = plant.x[:-1].tolist()
    connect(plant, run=78, k=100)
    assert plant.x[:-1].tolist() == before


def acting(plant: DevicePlant) -> dict[str, float]:
    """What the machine says acts, from its newest state."""
    found: dict[str, float] = {}
    while not found:
        for _, message in plant.link.receive():
            found = message.input
        time.sleep(0.001)
    return found


def test_example_is_safe_after_its_own_timeout(rig):
    plant = connect(rig.plant(lockstep=False))
    follow(plant, 5, U, until=lambda: acting(plant) == {"U1": 0.02, "U2": 0.03})
    deadline = time.monotonic() + 5
    while acting(plant) != {"U1": 0.0, "U2": 0.0}:
        assert time.monotonic() < deadline
    follow(plant, 5, U, until=lambda: acting(plant) == {"U1": 0.02, "U2": 0.03})  # a fresh one acts again


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_example_killed_or_frozen_is_a_stale_state(rig, blow):
    plant = connect(rig.plant(lockstep=False))
    assert follow(plant, 0.1, U) is None
    rig.process.send_signal(blow)
    name, text = follow(plant, 5, U)
    assert name == "stale_state"
    assert re.match(r"no good state of the machine for 1|the newest state is 1", text)  # whichever is noticed first
    if blow == signal.SIGSTOP:
        rig.process.send_signal(signal.SIGCONT)
        follow(plant, 5, U, until=lambda: plant.remote.fault() is None)
        return
    rig.restart()  # and then it waits until it is asked again
    assert follow(plant, 5, U)[0] == "stale_state"
    connect(plant, run=78, k=plant.k)
    assert follow(plant, 0.1, U) is None
    assert not plant.counts


# the machine's side guards itself


class Stranger:
    """Whoever binds `applied` and speaks as a host, in bare msgpack."""

    def __init__(self, addresses: tuple[str, str], machine) -> None:
        self.context = zmq.Context()
        self.out, self.into = self.context.socket(zmq.PUB), self.context.socket(zmq.SUB)
        self.out.bind(addresses[1])
        self.into.connect(addresses[0])
        self.into.subscribe("")
        self.seq, self.src, self.run = 0, 5, 1
        self.state_seq = -1  # of the newest state that came
        self.good = {
            "machine": machine.description.name, "mode": "realtime", "step": 0.001, "period": 0.01, "speed": 1.0,
            "timeout": 0.1, "inputs": ["U1", "U2"], "limits": {}, "parameters": dict(machine.parameters),
            "start": dict.fromkeys(machine.description.state_names, 0.0),
        }  # fmt: skip

    def say(self, topic: str, values: dict, **header) -> None:
        self.seq += 1
        head = {"t": 0.0, "k": 0, "seq": self.seq, "run": self.run, "mono": 1, "node": "plant", "src": self.src}
        self.out.send_multipart([topic.encode(), msgpack.packb({**head, **values, **header})])

    def setup(self, **changes) -> None:
        self.say("setup", self.good | changes)

    def apply(self, torque: float, **header) -> None:
        values = {"input": {"U1": torque, "U2": torque}, "until": 0, "final": False, "state_seq": self.state_seq}
        self.say("applied", values, **header)

    def receives(self, wanted, each=lambda: None, seconds: float = 5.0):
        """The first message that is wanted, `each` being done before every look; None if none comes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            each()
            waits = 10
            while self.into.poll(waits):
                waits = 0
                topic, payload = self.into.recv_multipart()
                message = msgpack.unpackb(payload)
                if topic == b"state":
                    self.state_seq = message["seq"]
                if wanted(topic, message):
                    return message
        return None

    def begin(self, **changes) -> dict:
        """Have a run begin; its first state."""
        found = self.receives(
            lambda topic, m: topic == b"state" and m["run"] == self.run, lambda: self.setup(**changes)
        )
        assert found
        return found

    def close(self) -> None:
        self.context.destroy(linger=0)


@pytest.fixture
def stranger(rig, trailer):
    made = Stranger(rig.addresses, trailer)
    yield made
    made.close()


def acts(torque: float):
    return lambda topic, message: topic == b"state" and message["input"] == {"U1": torque, "U2": torque}


def test_example_keeps_its_limits_and_timeout_under_a_stranger(stranger):
    """Before: 50 N m for 1e9 s."""
    stranger.begin(timeout=1e9, limits={"U1": 1e9})
    assert stranger.receives(acts(2.0), lambda: stranger.apply(50.0))
    assert stranger.receives(acts(-2.0), lambda: stranger.apply(-50.0))
    stranger.apply(math.inf)
    stranger.apply(math.nan)
    silent = time.monotonic()
    assert stranger.receives(acts(0.0))
    assert time.monotonic() - silent < 3.0  # half a second, and what a busy computer adds
    stranger.run = 2
    stranger.begin(limits={"U1": 0.1, "U2": 0.1})  # a host may lower them
    assert stranger.receives(acts(0.1), lambda: stranger.apply(50.0))


def test_example_takes_no_input_that_has_waited_in_a_broken_network(stranger):
    """Before: inputs that a network had held for seconds acted, one after the other."""
    old = stranger.begin(timeout=0.2)["seq"]
    assert stranger.receives(acts(0.5), lambda: stranger.apply(0.5))
    assert stranger.receives(acts(0.0))
    for seq in (old, 0, -1, old + 1_000_000):
        late = partial(stranger.apply, 0.5, state_seq=seq)
        assert not stranger.receives(acts(0.5), late, seconds=0.3), seq
    assert stranger.receives(acts(0.5), lambda: stranger.apply(0.5))


UNUSABLE: list[tuple[dict, str]] = [
    ({"machine": "crane"}, "this is diff_drive_trailer"),
    ({"inputs": ["U2", "U1"]}, "with the inputs U1, U2"),
    *(({"command": each}, "this machine takes efforts") for each in ("velocity", "position", 1)),
    *(({"timeout": each}, "timeout and speed finite and positive") for each in (0.0, -1.0, math.inf, math.nan)),
    *(({"step": each}, "step must be") for each in (0.0, 1e-300, math.nan)),
    *(({"speed": each}, "timeout and speed finite and positive, speed at most 1e") for each in (math.nan, 1e308)),
    ({"speed": 2.0}, "this machine runs at speed 1; start it with --any-speed"),
    *(({"limits": {"U1": each}}, "limits must not be negative") for each in (-1.0, math.nan)),
    *(({"k": each}, "k must be a whole number") for each in (-1, 0.5)),
]


def test_a_setup_with_unusable_numbers_is_answered_with_a_fault(stranger):
    for changes, says in UNUSABLE:
        stranger.run += 1
        found = stranger.receives(
            lambda _, m: m["run"] == stranger.run,
            lambda changes=changes: stranger.setup(**changes),
        )
        assert found["lifecycle"] == "fault", changes
        assert says in found["fault"]
    stranger.run += 1
    stranger.begin()  # it is still there for a good one


def test_example_survives_what_is_no_setup(stranger):
    for odd in ({"limits": [1.0]}, {"start": {}}, {"parameters": {"b": 0.0}}, {"k": "a"}, {"step": "a"}, {"inputs": 1}):
        stranger.setup(**odd)
    stranger.out.send_multipart([b"setup", msgpack.packb([1, 2])])
    stranger.out.send_multipart([b"applied"])
    stranger.begin()


def test_example_serves_one_host_until_it_is_silent_or_ends(rig, stranger):
    stranger.begin(timeout=0.4)
    assert stranger.receives(acts(0.5), lambda: stranger.apply(0.5))

    def both() -> None:
        stranger.apply(0.5)
        stranger.apply(-0.5, src=6)
        stranger.say("setup", stranger.good, src=6, run=9)
        stranger.say("setup", stranger.good, src=6)  # the same run, by another

    assert not stranger.receives(lambda topic, m: m["run"] == 9 or acts(-0.5)(topic, m), both, seconds=1.0)
    stranger.src, stranger.run = 6, 9
    stranger.begin()  # the first one says nothing any more
    assert stranger.receives(acts(0.5), lambda: stranger.apply(0.5))
    stranger.apply(0.0, final=True)
    stranger.src, stranger.run = 7, 10
    assert stranger.begin()["input"] == {"U1": 0.0, "U2": 0.0}


def test_example_takes_other_speeds_with_any_speed(trailer, program):
    with rigged(trailer, program, "--any-speed") as rig:
        plant = connect(rig.plant(lockstep=False, speed=2.0))
        assert plant.remote.fault() is None


# where it is met


def test_example_is_met_in_the_private_folder_by_default(runs, program):
    robot = subprocess.Popen(program)
    try:
        assert eventually(lambda: "servonode/devices/diff_drive_trailer.state" in runs.left_files())
        run = runs.start("trailer_pursuit_external", "run.duration=0.5", FORGIVING, words=["--arm"])
        run.ends_with(0, START_S)
        assert "no keys" not in run.stderr
        assert runs.left_files() == ["servonode", "servonode/devices", "servonode/devices/diff_drive_trailer.state"]
    finally:
        robot.send_signal(signal.SIGINT)
        assert robot.wait(10) == 0
    assert runs.left_files() == []


def test_killed_plant_leaves_no_socket(runs):
    run = runs.start("trailer_pursuit_external")
    run.wait_open()
    assert "servonode/devices/diff_drive_trailer.applied" in runs.left_files()
    run.kill(PLANT)
    run.ends_with(1)
    assert runs.left_files() == []


def test_tcp_is_warned_about_in_one_line(runs):
    settings = ("plant.device.state=tcp://127.0.0.1:9", "plant.device.wait=0.1")
    run = runs.start("trailer_pursuit_external", *settings, words=["--insecure"])
    run.ends_with(1, START_S)
    warned = [line for line in run.stderr.splitlines() if "there are no keys" in line]
    assert len(warned) == 1
    assert "whoever reaches tcp://127.0.0.1:9 can be the machine, or command it" in warned[0]


RICH = """
import sys
sys.path.insert(0, {folder!r})
import external_plant


class Rich(external_plant.Robot):
    def send(self, topic, setup, k, values):
        super().send(topic, setup, k, values | {{"extra": {{"battery": 24.5}}}} if topic == b"state" else values)


Rich(*external_plant.private_addresses()).serve()
"""


def test_extra_readings_are_in_status_json_and_table(runs):
    robot = subprocess.Popen([sys.executable, "-c", RICH.format(folder=str(EXAMPLE.parent))])
    try:
        run = runs.start("trailer_pursuit_external", FORGIVING, words=["--arm"])
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        assert run.ask("status")["values"]["extra_battery"] == 24.5
        assert "battery 24.5" in status_text(status(run.name))
        run.stop()
        assert run.printed["extra"] == {"battery": 24.5}
        assert re.search(r"the machine's own +battery 24\.5\n", run.stderr)
    finally:
        robot.kill()
        robot.wait()


def test_example_is_safe_after_the_end_of_a_run(rig):
    plant = connect(rig.plant(lockstep=False))
    follow(plant, 5, U, until=lambda: acting(plant) == {"U1": 0.02, "U2": 0.03})
    plant.close()
    again = connect(rig.plant(lockstep=False), run=78)
    assert acting(again) == {"U1": 0.0, "U2": 0.0}
    assert follow(again, 0.1, U) is None
