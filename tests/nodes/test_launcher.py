"""The launcher with its nodes as real processes: crashes, odd requests, restarts, and deaths at the start."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from servonode.bus import MessageError, Requester, State, run_folder
from servonode.bus.topology import CONTROLLER, PLANT, TARGET
from servonode.cli.deliver import ENDING
from servonode.cli.main import main
from servonode.nodes.node_processes import NodeProcesses
from tests.helpers.ports import free_port
from tests.helpers.runs import (
    NODES,
    RESTARTED,
    SOON_S,
    START_S,
    Process,
    Runs,
    Watch,
    eventually,
    private_runs,
    signalled,
)

LAUNCH = "trailer_pursuit"
COMMON = (
    "run.speed=1",
    "run.duration=600",
    "plant.safety.command_timeout=1",
    "plant.safety.lateness_limit=5",
    "plant.safety.safe_time=0.1",
    'plant.safety.on_fault="wait"',
)
FLOODS, FLOOD_S = 4, 0.7
STARTS = 1.2  # s from the first instruction to the first state, about; a death comes at random within


@pytest.fixture(scope="module")
def going(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A run that goes on while it is asked."""
    with private_runs(tmp_path_factory.mktemp("going")) as runs:
        run = runs.start(LAUNCH, *COMMON)
        run.wait_open()
        assert eventually(lambda: run.ask("status")["lifecycle"] == "active", START_S)
        yield run
        run.stop()


# crashes


def external(state: int, applied: str) -> tuple[str, ...]:
    """Settings of an external plant at a port and an address of this computer."""
    device = (f'plant.device.state="tcp://127.0.0.1:{state}"', f'plant.device.applied="{applied}"')
    return ('plant.driver="external"', "plant.safety.limit=2", "run.speed=1", *device)


def test_a_plant_that_crashes_is_a_fault_at_once(runs: Runs, tmp_path: Path) -> None:
    applied = f"ipc://{tmp_path.parent.parent}/missing/applied"
    run = runs.start(LAUNCH, *external(free_port(), applied), words=["--insecure"])
    assert run.popen.wait(START_S) == 1
    assert [each["name"] for each in run.printed["faults"]] == ["node_died"]  # nobody waited for its readiness
    assert run.fault("node_died")["text"] == "plant failed; see its message above"
    assert run.fault("node_died")["node"] == PLANT
    assert f"[plant] cannot start: {applied}" in run.stderr
    assert run.printed["exit"] == 1
    assert run.left_over() == []
    assert not run.path.exists()


def test_a_machine_that_never_comes_ends_the_run_with_its_reason(runs: Runs) -> None:
    state, applied = free_port(), free_port()
    settings = (*external(state, f"tcp://127.0.0.1:{applied}"), "plant.device.wait=0.5")
    run = runs.start(LAUNCH, *settings, words=["--insecure"])
    run.ends_with(1, START_S)
    assert [each["name"] for each in run.printed["faults"]] == ["device"]
    assert "no machine is connected; start it with the same two addresses" in run.fault("device")["text"]


# requests


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


ODD: list[dict[str, Any]] = [
    {},
    {"ask": None},
    {"ask": True},
    {"ask": ""},
    {"ask": "x" * 1000},
    {"ask": "ARM"},
    {"ask": ["estop"]},
    {"ask": {"estop": 1.0}},
    {"ask": [[-1000] * 200] * 100},
    {"ask": nested(3)},
    {"ask": ["\u2028\x00" * 200] * 100},
    {"tell": "estop"},
    {"ask": "status", "more": [0.5] * 256},
    {str(i): [1.0] * 30 for i in range(200)},
]


@pytest.mark.parametrize("node", NODES)
def test_no_odd_or_huge_request_ends_a_node_or_does_anything(node: str, going: Process) -> None:
    pids = going.pids()
    with Requester(going.path, node) as requester:
        for request in ODD:
            with suppress(MessageError):  # what cannot be put into a message stays here
                answer = requester.ask(request, SOON_S)
                assert ("error" in answer) != (request.get("ask") == "status"), request
        assert requester.ask({"ask": "status"}, SOON_S)["node"] == node
    assert going.pids() == pids
    assert going.ask("status")["lifecycle"] == "active"


def test_a_node_is_one_thread_beside_those_of_libzmq(going: Process) -> None:
    for pid in going.pids().values():
        names = [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]
        assert len([name for name in names if not name.startswith("ZMQbg")]) == 1, names
        assert len(names) == 3, names  # libzmq's two carry requests


def test_an_operators_word_is_for_the_plant_alone(going: Process) -> None:
    for node in (CONTROLLER, TARGET):
        for word in ("arm", "disarm", "estop", "reset", "reset_estop"):
            assert "refused" in going.ask(word, node)
    assert going.ask("status")["lifecycle"] == "active"


def test_a_flood_of_requests_does_not_hold_up_the_plant(going: Process) -> None:
    ends = threading.Event()
    answered = [0] * FLOODS

    def flood(i: int) -> None:
        with Requester(going.path, PLANT) as requester:
            while not ends.is_set():
                with suppress(TimeoutError):
                    answered[i] += bool(requester.ask({"ask": "status"}, 2.0))

    clients = [threading.Thread(target=flood, args=(i,), daemon=True) for i in range(FLOODS)]
    with Watch(going.name, {PLANT: ["state", "status"]}) as watch:
        watch.until(lambda message: type(message) is State)
        for client in clients:
            client.start()
        first = watch.until(lambda message: type(message) is State and message.control, time.monotonic_ns())
        last = watch.until(
            lambda message: type(message) is State and message.t >= first.t + FLOOD_S, within_s=FLOOD_S + SOON_S
        )
        states = [state.k for state in watch.of(State) if state.control and first.k <= state.k <= last.k]
        ends.set()
        for client in clients:
            client.join()
    period = states[1] - states[0]
    assert states == list(range(states[0], states[-1] + 1, period))  # not one is missing
    assert min(answered) > 0
    assert going.ask("status")["lifecycle"] == "active"
    assert going.ask("status")["fault"] == ""


# restarts


def test_nodes_that_die_together_come_back_together(runs: Runs) -> None:
    run = runs.start(LAUNCH, *COMMON, *RESTARTED)
    run.wait_open()
    with Watch(run.name) as watch:
        watch.status("active", within_s=START_S)
        before = run.pids()
        signalled(run.popen.pid, signal.SIGSTOP)  # so that it finds all dead
        for pid in before.values():
            signalled(pid, signal.SIGKILL)
        signalled(run.popen.pid, signal.SIGCONT)
        assert eventually(lambda: run.is_open() and not set(run.pids().values()) & set(before.values()), START_S)
        time.sleep(0.3)  # it does not arm itself
        stands = run.ask("status")
        assert (stands["lifecycle"], stands["values"]["armed"]) == ("inactive", 0.0)
        run.arm(watch)
    run.stop()
    assert run.printed["restarts"] == dict.fromkeys(NODES, 1)


def test_attempts_that_are_used_up_end_the_run_with_that_reason(runs: Runs) -> None:
    run = runs.start(LAUNCH, *COMMON, *RESTARTED, "supervision.attempts=1")
    run.wait_open()
    before = run.pids()[CONTROLLER]
    run.kill(CONTROLLER)
    assert eventually(lambda: run.is_open() and run.pids()[CONTROLLER] != before, START_S)
    run.kill(CONTROLLER)
    run.ends_with(1)
    text = "controller was killed by SIGKILL; 1 restart within 60 s"
    assert run.fault("node_died") == run.fault("node_died") | {"text": text, "node": CONTROLLER}
    assert run.printed["restarts"] == {CONTROLLER: 1}


# deaths of the launcher at the start


def dies(run: Process, number: int, after_s: float, from_folder: bool) -> None:
    """Send the launcher a signal so long after its start, or after its run's folder came to be."""
    if from_folder:
        eventually(lambda: run.path.exists() or run.popen.poll() is not None, START_S)
    time.sleep(after_s)
    with suppress(ProcessLookupError):
        run.popen.send_signal(number)


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("moment", ["_locked", "_private"])
def test_a_signal_while_the_folder_is_made_leaves_no_file_and_starts_no_node(
    number: signal.Signals, moment: str, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["servonode.bus.run_folder"]
    make = getattr(module, moment)

    def signalled_after(*given: Any) -> Any:
        made = make(*given)
        os.kill(os.getpid(), number)
        return made

    monkeypatch.setattr(module, moment, signalled_after)
    monkeypatch.setattr(NodeProcesses, "start", lambda *_: pytest.fail("a node was started"))
    # SIGHUP may be ignored here, as under nohup; and a command that was told to end ignores what comes after
    previous = {each: signal.signal(each, signal.SIG_DFL) for each in ENDING}
    try:
        ended = CliRunner().invoke(main, ["run", LAUNCH, "--name", "cut-off", "--no-report"])
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
    assert ended.exit_code == 128 + number, ended.output
    assert runs.left_files() == []


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_no_death_of_the_launcher_while_it_starts_leaves_a_process_or_a_file(count: int, runs: Runs) -> None:
    rng = random.Random()
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, signal.SIGKILL]
    for i in range(count):
        number, from_folder = numbers[i % len(numbers)], i % 3 > 0
        after_s = rng.uniform(0.0, 0.15 if from_folder else STARTS)
        run = runs.start(LAUNCH, *COMMON)
        dies(run, number, after_s, from_folder)
        case = f"{signal.Signals(number).name} {after_s:.4f} s after {'the folder' if from_folder else 'the start'}"
        code = run.popen.wait(START_S)
        assert code in (1, 128 + number, -number), (case, code, run.stderr)
        assert eventually(lambda run=run: run.left_over() == []), (case, run.left_over(), run.stderr)  # type: ignore[misc]
        # Ctrl-C while Python itself starts, before our first line runs, is a traceback of Python's own
        assert "Traceback" not in run.stderr or (number == signal.SIGINT and not from_folder and after_s < 0.2), case
        if number != signal.SIGKILL:
            assert not run.path.exists(), (case, list(run.path.iterdir()))
        with run_folder(run.name):  # nothing of it stands in the way of the next
            pass
        assert runs.left_files() in ([], ["servonode"]), case
