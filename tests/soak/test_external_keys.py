"""External plants over tcp with keys, as processes: who may take part, and what is refused before and during a run."""

import resource
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from servonode.bus.curve import Authenticator
from servonode.bus.keys import KeyStore
from tests.helpers.curve_strangers import FEW, curve_stranger
from tests.helpers.external_programs import PROGRAMS, PYTHON
from tests.helpers.key_folders import Computers, descriptors_of
from tests.helpers.runs import START_S, Process, Runs, eventually, operator

LAUNCH = "trailer_pursuit_external"
FORGIVING = ("plant.safety.command_timeout=5", "plant.device.timeout=5")  # these tests share a computer with others


@pytest.fixture
def computers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Computers:
    monkeypatch.setenv("SERVONODE_KEYS", str(tmp_path / "desk"))
    return Computers(tmp_path)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> list[str]:
    return PROGRAMS[request.param]()


def test_a_machine_with_its_key_takes_part(runs: Runs, computers: Computers, program: list[str]) -> None:
    with computers.machine(program, computers.robot_key, computers.desk_key) as robot:
        settings = (*computers.settings, *FORGIVING, "run.duration=0.5")
        run = runs.start(LAUNCH, *settings, words=["--arm", "--key", "desk"])
        run.ends_with(0, START_S)
        assert "no keys" not in run.stderr
        assert not [name for name in run.printed["counts"] if "key" in name]
        robot.send_signal(signal.SIGINT)
        assert robot.wait(10) == 0


def test_another_key_than_the_machines_is_refused_on_both_sides(
    runs: Runs, computers: Computers, program: list[str], tmp_path: Path
) -> None:
    false = KeyStore(tmp_path / "false").new("robot")
    with computers.machine(program, false, computers.desk_key):
        run = runs.start(LAUNCH, *computers.settings, "plant.device.wait=2")
        run.ends_with(1, START_S)
        text = run.fault("device")["text"]
        assert "nobody with the key 'robot' has connected; check that the machine runs, that it has that key" in text
        assert "unknown_key" in text


def test_a_host_that_the_machine_does_not_trust_gets_no_state(
    runs: Runs, computers: Computers, program: list[str], tmp_path: Path
) -> None:
    other = KeyStore(tmp_path / "other")
    other.new("desk")
    other.trust(computers.robot_key, ["plant"])  # it knows whom it asks
    with computers.machine(program, computers.robot_key, computers.desk_key), zmq.Context() as context:
        run = runs.start(LAUNCH, *computers.settings, *FORGIVING, "run.duration=60", words=["--arm"])
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        with context.socket(zmq.SUB) as false, context.socket(zmq.SUB) as true:
            for opened, store in ((false, other), (true, computers.desk)):
                Authenticator(store).client("robot", "plant")(opened)
                opened.subscribe("")
                opened.connect(computers.state)
            assert true.poll(int(START_S * 1e3))
            assert not false.poll(300)
        run.stop()


def test_keys_that_a_machine_cannot_use_end_it_in_one_line(computers: Computers, program: list[str]) -> None:
    own = str(computers.robot_key.with_suffix(".key_secret"))
    for files in ([own], [str(computers.robot_key), str(computers.desk_key)]):
        words = [*program, computers.state, computers.applied, "--keys", *files]
        done = subprocess.run(words, capture_output=True, text=True, timeout=START_S, check=False)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "key" in done.stderr


def test_a_key_that_is_revoked_ends_the_link_with_the_machine_at_rest(runs: Runs, computers: Computers) -> None:
    with computers.machine(PYTHON, computers.robot_key, computers.desk_key):
        run = runs.start(LAUNCH, *computers.settings, *FORGIVING, "run.duration=60", words=["--arm"])
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        computers.desk.revoke("robot")
        begin = time.monotonic()
        run.ends_with(1)
        assert time.monotonic() - begin < 10
        assert "the machine's key 'robot' is no longer trusted" in run.fault("link_lost")["text"]


def test_strangers_are_counted_in_the_status_and_receive_nothing(
    runs: Runs, computers: Computers, tmp_path: Path
) -> None:
    store = KeyStore(tmp_path / "stranger")
    store.new("stranger")
    store.trust(computers.desk_key, ["controller"])
    with computers.machine(PYTHON, computers.robot_key, computers.desk_key), zmq.Context() as context:
        run = runs.start(LAUNCH, *computers.settings, *FORGIVING, "run.duration=60", words=["--arm"])
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        with context.socket(zmq.SUB) as known, context.socket(zmq.SUB) as plain:
            Authenticator(store).client("desk", "controller")(known)
            for opened in (known, plain):
                opened.subscribe("")
                opened.connect(computers.applied)
            assert eventually(lambda: run.ask("status")["counts"].get("refused_unknown_key"), START_S)
            assert not known.poll(300)
            assert not plain.poll(0)
        assert run.ask("status")["lifecycle"] == "active"
        run.stop()


def test_strangers_who_know_all_that_is_public_disturb_nothing(
    runs: Runs, computers: Computers, tmp_path: Path
) -> None:
    watcher = KeyStore(tmp_path / "watcher").new("watcher")
    computers.desk.trust(watcher, ["controller"])
    server, port = computers.desk.pair().public, int(computers.applied.rpartition(":")[2])
    with computers.machine(PYTHON, computers.robot_key, computers.desk_key):
        run = runs.start(LAUNCH, *computers.settings, *FORGIVING, "run.duration=600", words=["--arm"])
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        pids, before = run.pids(), descriptors_of(run)
        with ExitStack() as stack:
            for what in FEW:
                own = watcher.with_suffix(".key_secret") if what == "wrong role" else None
                stack.enter_context(curve_stranger(what, port, server, own))
            assert eventually(lambda: refused_often(run.ask("status")["counts"]), START_S)
            assert descriptors_of(run) < before + 128
            assert run.ask("status")["lifecycle"] == "active", run.ask("status")["faults"]
        assert eventually(lambda: descriptors_of(run) <= before + 2, START_S)
        stands = run.ask("status")
        assert (stands["lifecycle"], stands["fault"], run.pids()) == ("active", "", pids)
        assert "refused_connections" not in stands["counts"]
        assert run.order("estop") == "fault"
        run.stop()


def refused_often(counts: dict[str, int]) -> bool:
    return min(counts.get(name, 0) for name in ("refused_unknown_key", "refused_role_of_key_watcher")) > 100


def test_many_connections_neither_end_the_link_nor_keep_its_operator_out(runs: Runs, computers: Computers) -> None:
    place = ("127.0.0.1", int(computers.applied.rpartition(":")[2]))
    with computers.machine(PYTHON, computers.robot_key, computers.desk_key), ExitStack() as stack:
        settings = (*computers.settings, *FORGIVING, "run.duration=60")
        run = runs.start(LAUNCH, *settings, words=["--arm"], limits={resource.RLIMIT_NOFILE: 2048})
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        for number in range(900):  # of which none makes a handshake
            opened = stack.enter_context(socket.socket())
            opened.setblocking(False)
            opened.connect_ex(place)
            if number % 20 == 0:
                time.sleep(0.005)
        stands = run.ask("status")
        assert stands["lifecycle"] == "active"
        assert stands["counts"]["refused_connections"] >= 1
        run.stop()


def refused(runs: Runs, *settings: str, words: tuple[str, ...] = ()) -> str:
    run = runs.start(LAUNCH, *settings, words=words)
    assert run.popen.wait(START_S) == 2
    (line,) = [each for each in run.stderr.splitlines() if "deriving" not in each]
    return line


def test_what_cannot_be_secure_is_refused_before_the_start(runs: Runs, computers: Computers) -> None:
    at = "[plant.device] key: "
    assert f"{at}missing: whoever reaches {computers.state} could be the machine" in refused(runs, *computers.addresses)
    assert f"{at}'robot' is given, and --insecure too" in refused(runs, *computers.settings, words=("--insecure",))
    assert f"{at}not needed, because no address of the machine is tcp" in refused(runs, words=("--insecure",))
    far = ("plant.device.state=tcp://192.0.2.1:9873", "plant.device.applied=tcp://0.0.0.0:9874")
    text = refused(runs, *far, words=("--insecure", "--arm"))
    assert f"{at}the run has no keys (--insecure), and others than this computer are part of it, so it is never" in text
    assert "there is no key pair 'lab'" in refused(runs, *computers.settings, words=("--key", "lab"))
    computers.desk.trust(computers.robot_key, ["controller"])
    text = "key 'robot' is not trusted as plant; servonode keys trust robot.key --role controller --role plant"
    assert text in refused(runs, *computers.settings)


def insecure(runs: Runs, *settings: str) -> Process:
    run = runs.start(LAUNCH, *settings, *FORGIVING, "run.duration=60", words=["--insecure"])
    run.wait_open()
    stands = run.ask("status")
    assert stands["unsafe"] == ["the link to the machine has no keys (--insecure)"]
    assert stands["values"]["insecure"] == 1.0
    assert "UNSAFE: the link to the machine has no keys (--insecure)" in operator("status", run.name).stdout
    return run


def test_without_keys_a_run_says_so_and_is_armed_on_this_computer_alone(runs: Runs, computers: Computers) -> None:
    far = (computers.addresses[0], f'plant.device.applied="{computers.applied.replace("127.0.0.1", "0.0.0.0")}"')
    for addresses, armed in ((computers.addresses, True), (far, False)):
        robot = subprocess.Popen([*PYTHON, computers.state, computers.applied])
        try:
            run = insecure(runs, *addresses)
            assert eventually(lambda run=run: run.ask("status")["lifecycle"] == "inactive", START_S)
            answer = run.ask("arm")
            assert bool(answer.get("done")) == armed, answer
            assert armed or "so it is never armed; give both sides keys" in answer["refused"]
            run.stop()
        finally:
            robot.kill()
            robot.wait()


def test_the_protocol_is_checked_with_keys_too(computers: Computers) -> None:
    words = ["protocol", "check", "--launch", LAUNCH, "--key", "desk", "--wait", "20"]
    words += [word for each in computers.settings for word in ("--set", each)]
    with computers.machine(PYTHON, computers.robot_key, computers.desk_key):
        done = operator(*words)
    assert done.returncode == 0, done.stdout + done.stderr
