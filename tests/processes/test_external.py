"""A machine that is a process of its own, on tcp: with keys and without, gone, only observed, strangers beside it."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq

from servonode.bus import Applied, Message, Setup, State
from servonode.bus.curve import Authenticator
from servonode.bus.keys import KeyStore
from servonode.bus.topology import CONTROLLER, PLANT
from servonode.operator.operator_requests import status, status_text
from tests.helpers.curve_strangers import FEW, curve_stranger
from tests.helpers.drivers import Beside, Insecure, listening
from tests.helpers.external_programs import PROGRAMS, PYTHON
from tests.helpers.key_folders import Computers, descriptors_of
from tests.helpers.runs import START_S, Process, Runs, Watch, eventually, operator, signalled

LAUNCH = "trailer_pursuit_external"
PATIENT = ("run.duration=600", "plant.safety.command_timeout=10", "plant.safety.lateness_limit=10",
           "plant.device.timeout=5", "plant.safety.safe_time=0.1")  # fmt: skip


@pytest.fixture
def computers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Computers:
    monkeypatch.setenv("SERVONODE_KEYS", str(tmp_path / "desk"))
    return Computers(tmp_path)


def is_active(run: Process) -> bool:
    return eventually(lambda: run.is_open() and run.ask("status")["lifecycle"] == "active", START_S)


# keys


def test_another_key_than_the_machines_is_refused_on_both_sides(
    runs: Runs, computers: Computers, tmp_path: Path
) -> None:
    false = KeyStore(tmp_path / "false").new("robot")
    with computers.machine(PYTHON, false, computers.desk_key):
        run = runs.start(LAUNCH, *computers.settings, "plant.device.wait=5")
        run.ends_with(1, START_S)
    text = run.fault("device")["text"]
    assert "nobody with the key 'robot' has connected; check that the machine runs, that it has that key" in text
    assert "unknown_key" in text


@pytest.mark.parametrize("language", ["python"])
def test_a_host_that_the_machine_does_not_trust_gets_no_state_and_a_revoked_key_ends_the_link(
    runs: Runs, computers: Computers, tmp_path: Path, language: str
) -> None:
    other = KeyStore(tmp_path / "other")
    other.new("desk")
    other.trust(computers.robot_key, ["plant"])  # it knows whom it asks
    with computers.machine(PROGRAMS[language](), computers.robot_key, computers.desk_key), zmq.Context() as context:
        run = runs.start(LAUNCH, *computers.settings, *PATIENT, words=["--arm"])
        assert is_active(run), run.stderr
        assert "no keys" not in run.stderr
        with context.socket(zmq.SUB) as false, context.socket(zmq.SUB) as true:
            for opened, store in ((false, other), (true, computers.desk)):
                Authenticator(store).client("robot", "plant")(opened)
                opened.subscribe("")
                opened.connect(computers.state)
            assert true.poll(int(START_S * 1e3))
            assert not false.poll(300)
        computers.desk.revoke("robot")
        run.ends_with(1, START_S)
    assert "the machine's key 'robot' is no longer trusted" in run.fault("link_lost")["text"]


def test_strangers_who_know_all_that_is_public_are_counted_and_disturb_nothing(
    runs: Runs, computers: Computers, tmp_path: Path
) -> None:
    watcher = KeyStore(tmp_path / "watcher").new("watcher")
    computers.desk.trust(watcher, ["controller"])
    server, port = computers.desk.pair().public, int(computers.applied.rpartition(":")[2])

    def refused(run: Process) -> bool:
        counts = run.ask("status")["counts"]
        return min(counts.get(name, 0) for name in ("refused_unknown_key", "refused_role_of_key_watcher")) > 20

    with computers.machine(PYTHON, computers.robot_key, computers.desk_key):
        run = runs.start(LAUNCH, *computers.settings, *PATIENT, words=["--arm"])
        assert is_active(run), run.stderr
        pids, before = run.pids(), descriptors_of(run)
        with ExitStack() as stack:
            for what in FEW:
                own = watcher.with_suffix(".key_secret") if what == "wrong role" else None
                stack.enter_context(curve_stranger(what, port, server, own))
            assert eventually(lambda: refused(run), START_S)
            assert descriptors_of(run) < before + 128
        assert eventually(lambda: descriptors_of(run) <= before + 2, START_S)
        assert (run.ask("status")["lifecycle"], run.pids()) == ("active", pids), run.ask("status")["faults"]
        assert run.order("estop") == "fault"
        run.stop()


@pytest.mark.parametrize("language", ["python"])
def test_a_machine_with_unusable_keys_ends_in_one_line(computers: Computers, language: str) -> None:
    program = PROGRAMS[language]()
    own = str(computers.robot_key.with_suffix(".key_secret"))
    for files in ([own], [str(computers.robot_key), str(computers.desk_key)]):
        words = [*program, computers.state, computers.applied, "--keys", *files]
        done = subprocess.run(words, capture_output=True, text=True, timeout=START_S, check=False)
        assert (done.returncode, done.stderr.count("\n"), "key" in done.stderr) == (1, 1, True)


def test_without_keys_a_run_says_so_and_is_armed_on_this_computer_alone(runs: Runs, computers: Computers) -> None:
    far = (computers.addresses[0], f'plant.device.applied="{computers.applied.replace("127.0.0.1", "0.0.0.0")}"')
    for addresses, armed in ((computers.addresses, True), (far, False)):
        robot = subprocess.Popen([*PYTHON, computers.state, computers.applied])
        try:
            run = runs.start(LAUNCH, *addresses, *PATIENT, words=["--insecure"])
            run.wait_open()
            assert eventually(lambda run=run: run.ask("status")["lifecycle"] == "inactive", START_S)  # type: ignore[misc]
            stands = run.ask("status")
            assert stands["unsafe"] == ["the link to the machine has no keys (--insecure)"]
            assert stands["values"]["insecure"] == 1.0
            assert (
                "UNSAFE: the link to the machine has no keys (--insecure)"
                in operator("status", run.name, patient=True).stdout
            )
            answer = run.ask("arm")
            assert bool(answer.get("done")) == armed, answer
            assert armed or "so it is never armed; give both sides keys" in answer["refused"]
            run.stop()
        finally:
            robot.kill()
            robot.wait()


# the machine


@pytest.mark.parametrize("number", [signal.SIGKILL], ids=["SIGKILL"])
def test_a_machine_that_is_gone_is_a_fault_with_zero_input(runs: Runs, number: signal.Signals) -> None:
    driver = Insecure()
    with driver.machine() as beside:
        words = ("--arm", *beside.words)
        run = runs.start(driver.launch, *driver.settings, *beside.settings, *PATIENT, words=words)
        assert is_active(run), run.stderr
        signalled(beside.pid, number)
        run.ends_with(1, START_S)
    assert [each["name"] for each in run.printed["faults"]] == ["stale_state"]


@pytest.mark.parametrize("numbers", [("TERM", "HUP", "INT", "INT")], ids=" ".join)
def test_promise_24_a_machine_gets_zero_and_final_after_any_signals(runs: Runs, numbers: tuple[str, ...]) -> None:
    driver = Insecure()
    with driver.machine() as beside:
        words = ("--arm", *beside.words)
        run = runs.start(
            driver.launch, *driver.settings, *beside.settings, *PATIENT, "plant.safety.safe_time=5", words=words
        )
        with listening(f"tcp://127.0.0.1:{beside.ports[1]}", topic="applied") as sent:
            assert eventually(lambda: run.registry() and run.ask("status")["lifecycle"] == "active", START_S), (
                run.stderr
            )
            assert eventually(lambda: len(sent) > 5, START_S)
            for number in numbers:
                if run.popen.poll() is None:
                    signalled(run.popen.pid, signal.Signals[f"SIG{number}"])
            code = run.popen.wait(START_S)
            assert code in {128 + signal.Signals[f"SIG{number}"] for number in numbers}
            run.ends_with(code)
    received = [each for each in sent if isinstance(each, Applied)]
    assert received[-1].final, run.stderr[-2000:]
    assert set(received[-1].input.values()) == {0.0}
    assert next(each for each in received if each.final).seq >= received[-1].seq - 1  # nothing is sent after it


@contextmanager
def observed(runs: Runs, *settings: str) -> Iterator[tuple[Process, Beside, list[Message]]]:
    """A run that only observes the external robot, computing; what is sent to the robot."""
    driver = Insecure()
    with driver.machine() as beside, listening(*(f"tcp://127.0.0.1:{port}" for port in beside.ports)) as sent:
        words = ("--readonly", *beside.words)
        run = runs.start(driver.launch, *driver.settings, *beside.settings, *PATIENT, *settings, words=words)
        run.wait_open()
        assert eventually(lambda: run.ask("status").get("would_send"), START_S), run.stderr
        yield run, beside, sent


def assert_only_asked_to_take_part(sent: list[Message]) -> None:
    """Handshakes with limits of zero; never an input, not even zero, nor an end; the machine itself has taken none."""
    assert {type(each) for each in sent} <= {Setup, State}
    states = [each for each in sent if isinstance(each, State)]
    assert {each.applied_seq for each in states} == {-1}
    assert {value for each in states for value in each.input.values()} == {0.0}
    for setup in sent:
        if isinstance(setup, Setup):
            assert set(setup.limits.values()) == {0.0}
            assert setup.limits.keys() == set(setup.inputs)


def test_promise_27_nothing_reaches_an_observed_machine_whatever_is_asked(runs: Runs) -> None:
    with observed(runs, 'plant.safety.on_fault="wait"', "plant.initial.V=0.5") as (run, _, sent):
        found = status(run.name)
        stands = found["nodes"][PLANT]
        assert (stands["lifecycle"], stands["values"]["armed"]) == ("inactive", 0.0)
        assert stands["would_send"].keys() == {"U1", "U2"}
        assert all(0 < abs(value) <= 1.0 for value in stands["would_send"].values())
        text = status_text(json.loads(json.dumps(found)))
        assert "READ ONLY: nothing is sent to the machine; arming would send U1 " in text
        with Watch(run.name, {PLANT: ["state", "applied", "status"]}) as watch:
            for word in ("arm", "disarm", "reset", "arm"):
                assert "refused" in run.ask(word)
            assert "--readonly" in run.ask("arm")["refused"]
            run.ask("estop")
            fault = watch.status("fault", within_s=START_S)
            assert fault.fault == "estop"
            assert "refused" in run.ask("arm")
            run.ask("reset_estop")  # with a new handshake
            assert watch.status("inactive", fault.mono, within_s=START_S).values["readonly"] == 1.0
            applied = watch.until(lambda m: type(m) is Applied and m.reasons == ["readonly"], fault.mono, START_S)
            assert set(applied.input.values()) == {0.0}
        for _ in range(3):
            signalled(run.popen.pid, signal.SIGINT)
        assert run.popen.wait(START_S) == 128 + signal.SIGINT
    assert_only_asked_to_take_part(sent)
    assert len({each.run for each in sent}) == 2, "the handshake of the reset is another one"


@pytest.mark.parametrize("victim", [CONTROLLER])
def test_promise_27_nothing_reaches_an_observed_machine_whoever_dies(runs: Runs, victim: str) -> None:
    with observed(runs) as (run, _, sent):
        run.kill(victim)
        run.ends_with(1, START_S)
        assert run.printed["faults"][-1]["name"] == "node_died"
    assert_only_asked_to_take_part(sent)
    assert victim == PLANT or run.printed["readonly"] is True


def test_promise_27_a_simulation_that_is_only_observed_goes_on_under_zero_input(runs: Runs) -> None:
    settings: tuple[Any, ...] = ("run.speed=1", "run.duration=0.8", "plant.initial.V=0.5", "plant.initial.phi=0.3")
    run = runs.start("trailer_pursuit", *settings, *PATIENT[1:3], words=("--readonly",))
    run.ends_with(0, START_S)
    assert run.columns["X"][-1] > 0.3
    assert not any(abs(run.columns[name]).max() for name in ("U1", "U2"))
