"""The launcher with its nodes as real processes: floods of requests, and deaths at the start."""

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from servonode.bus import Requester, State, run_folder
from servonode.bus.topology import PLANT
from tests.helpers.runs import (
    SEED,
    SOON_S,
    START_S,
    Process,
    Runs,
    Watch,
    eventually,
    private_runs,
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


# requests


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


# deaths of the launcher at the start


def dies(run: Process, number: int, after_s: float, from_folder: bool) -> None:
    """Send the launcher a signal so long after its start, or after its run's folder came to be."""
    if from_folder:
        eventually(lambda: run.path.exists() or run.popen.poll() is not None, START_S)
    time.sleep(after_s)
    with suppress(ProcessLookupError):
        run.popen.send_signal(number)


def test_no_death_of_the_launcher_while_it_starts_leaves_a_process_or_a_file(runs: Runs) -> None:
    rng = random.Random(SEED)
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, signal.SIGKILL]
    for i in range(20):
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
