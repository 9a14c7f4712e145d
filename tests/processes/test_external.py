"""A machine that is a process of its own, on tcp: with keys and without, gone, only observed, strangers beside it."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from servonode.bus import Applied, Message, Setup, State
from servonode.bus.curve import Authenticator
from servonode.bus.keys import KeyStore
from servonode.bus.topology import PLANT
from servonode.operator.operator_requests import status, status_text
from tests.helpers.drivers import Beside, Insecure, listening
from tests.helpers.external_programs import PYTHON
from tests.helpers.key_folders import Computers
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


def test_unusable_keys_end_a_machine_untrusted_hosts_get_no_state_and_a_revoked_key_ends_the_link(
    runs: Runs, computers: Computers, tmp_path: Path
) -> None:
    unusable_keys_end_it_in_one_line(computers, PYTHON)
    stranger, watcher = KeyStore(tmp_path / "stranger"), KeyStore(tmp_path / "watcher")
    stranger.new("stranger")
    computers.desk.trust(watcher.new("watcher"), ["controller"])

    def refused(run: Process) -> bool:
        counts = run.ask("status")["counts"]
        return min(counts.get(name, 0) for name in ("refused_unknown_key", "refused_role_of_key_watcher")) > 0

    with computers.machine(PYTHON, computers.robot_key, computers.desk_key), zmq.Context() as context:
        run = runs.start(LAUNCH, *computers.settings, *PATIENT, words=["--arm"])
        assert is_active(run), run.stderr
        assert "no keys" not in run.stderr
        with context.socket(zmq.SUB) as unknown, context.socket(zmq.SUB) as other_role:  # in the machine's place
            for opened, store in ((unknown, stranger), (other_role, watcher)):
                store.trust(computers.desk_key, ["plant"])
                Authenticator(store).client("desk", "plant")(opened)
                opened.subscribe("")
                opened.connect(computers.applied)
            assert eventually(lambda: refused(run), START_S)
            assert not unknown.poll(0)
            assert not other_role.poll(0)
        assert run.ask("status")["lifecycle"] == "active", run.ask("status")["faults"]
        trusted_hosts_alone_get_states(computers, tmp_path)
        computers.desk.revoke("robot")
        run.ends_with(1, START_S)
    assert "the machine's key 'robot' is no longer trusted" in run.fault("link_lost")["text"]


def trusted_hosts_alone_get_states(computers: Computers, folder: Path) -> None:
    """A machine that sends states sends none to a host that it does not trust."""
    other = KeyStore(folder / "other")
    other.new("desk")
    other.trust(computers.robot_key, ["plant"])  # it knows whom it asks
    with zmq.Context() as context, context.socket(zmq.SUB) as false, context.socket(zmq.SUB) as true:
        for opened, store in ((false, other), (true, computers.desk)):
            Authenticator(store).client("robot", "plant")(opened)
            opened.subscribe("")
            opened.connect(computers.state)
        assert true.poll(int(START_S * 1e3))
        assert not false.poll(300)


def unusable_keys_end_it_in_one_line(computers: Computers, program: list[str]) -> None:
    """This program of a machine says what is wrong with keys that it cannot use."""
    own = str(computers.robot_key.with_suffix(".key_secret"))
    for files in ([own], [str(computers.robot_key), str(computers.desk_key)]):
        words = [*program, computers.state, computers.applied, "--keys", *files]
        done = subprocess.run(words, capture_output=True, text=True, timeout=START_S, check=False)
        assert (done.returncode, done.stderr.count("\n"), "key" in done.stderr) == (1, 1, True)


def test_a_run_without_keys_says_so_and_its_machine_that_is_gone_is_a_fault_with_zero_input(runs: Runs) -> None:
    without_keys_until_the_machine_gets(runs, signal.SIGKILL)


def without_keys_until_the_machine_gets(runs: Runs, number: signal.Signals) -> None:
    """A run without keys says so and is armed on this computer; it ends by a fault once its machine is gone."""
    driver = Insecure()
    with driver.machine() as beside:
        words = ("--arm", *beside.words)
        settings = (*driver.settings, *beside.settings, *PATIENT)
        run = runs.start(driver.launch, *settings, words=words)
        assert is_active(run), run.stderr
        stands, text = run.ask("status"), "the link to the machine has no keys (--insecure)"
        assert (stands["unsafe"], stands["values"]["insecure"]) == ([text], 1.0)
        assert f"UNSAFE: {text}" in operator("status", run.name, patient=True).stdout
        signalled(beside.pid, number)
        run.ends_with(1, START_S)
    assert [each["name"] for each in run.printed["faults"]] == ["stale_state"]


def test_promise_24_a_machine_gets_zero_and_final_after_any_signals(runs: Runs) -> None:
    zero_and_final_after(runs, "TERM", "HUP", "INT", "INT")


def zero_and_final_after(runs: Runs, *numbers: str) -> None:
    """A run that gets these signals one after the other ends by one of them, and its machine gets zero and `final`."""
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
