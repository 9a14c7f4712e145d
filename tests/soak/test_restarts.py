"""Restarts without end, and every kind of death: nothing grows, nothing is left."""

import itertools
import os
import random
import signal
import statistics
import time
from pathlib import Path

import pytest

from servonode.bus.topology import CONTROLLER, LAUNCHER
from tests.helpers.ports import free_port
from tests.helpers.runs import (
    MANY,
    NODES,
    OFTEN,
    RESTARTED,
    SEED,
    SOON_S,
    START_S,
    Process,
    Runs,
    Watch,
    eventually,
)

LAUNCH = "trailer_pursuit"
TIMEOUT = 0.1  # command timeout, s
SETTLED = 3  # restarts after which everything has been made that ever will be
EARLY_S = 0.05  # after its start, when a node has hardly begun
GROWTH = 0.02  # share by which the launcher's memory may still grow over all restarts
AGAIN = (
    "run.speed=1",
    "run.duration=3000",
    f"plant.safety.command_timeout={TIMEOUT}",
    *RESTARTED,
    OFTEN,
)
DEATHS = [
    (LAUNCHER, signal.SIGKILL),
    (LAUNCHER, signal.SIGHUP),
    *(
        pytest.param(victim, number, marks=pytest.mark.slow)
        for victim, number in (
            (LAUNCHER, signal.SIGTERM),
            (LAUNCHER, signal.SIGINT),
            *((node, signal.SIGKILL) for node in NODES),
            *zip(itertools.cycle(NODES), (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV)),
        )
    ),
]


def resident(pid: int) -> int:
    """Resident memory of a process [bytes]."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def holdings(run: Process) -> dict[str, object]:
    """What a run holds: its processes, everybody's open files by kind, the files in its folder."""
    pids = {LAUNCHER: run.popen.pid, **run.pids()}
    held: dict[str, object] = {f"files of {name}": open_files(pid) for name, pid in pids.items()}
    held["processes"] = len(run.left_over())
    held["folder"] = sorted(path.name for path in run.path.iterdir())
    return held


def held_at_rest(run: Process) -> dict[str, object]:
    """What the run holds once it has held the same for a second: until then connections may still be made."""
    found, since = holdings(run), time.monotonic()

    def rests() -> bool:
        nonlocal found, since
        if (now := holdings(run)) != found:
            found, since = now, time.monotonic()
        return time.monotonic() - since > 1.0

    assert eventually(rests), found
    return found


def holds(run: Process, settled: dict[str, object]) -> bool:
    """Whether the run holds the same as then and no more files, once its connections have been made again."""

    def settles() -> bool:
        now = holdings(run)
        files = [name for name in settled if name.startswith("files of")]
        more = any(now[name] > settled[name] for name in files)  # type: ignore[operator]
        return not more and all(now[name] == then for name, then in settled.items() if name not in files)

    return eventually(settles)


def open_files(pid: int) -> int:
    """How many files and sockets a process holds."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def restart(run: Process, watch: Watch, victim: str) -> float:
    """Kill a node and wait until it is back and the plant active again; s (wall clock) until it was back."""
    before = run.pids()
    watch.forget()
    begin = time.monotonic()
    run.kill(victim)
    assert eventually(lambda: run.is_open() and run.pids()[victim] != before[victim], START_S), run.stderr
    back = time.monotonic() - begin
    assert {each for each in before if run.pids()[each] != before[each]} == {victim}
    if victim == CONTROLLER:
        watch.status("fault")
    if run.ask("status")["lifecycle"] == "fault":
        run.order("reset")
    if run.ask("status")["lifecycle"] != "active":
        run.arm(watch)
    return back


def started_anew(run: Process, victim: str, before: dict[str, int]) -> None:
    """Until the node has been forked again."""
    assert eventually(lambda: run.registry().get("pids", before)[victim] != before[victim], START_S), run.stderr


@pytest.mark.parametrize("count", [6, pytest.param(2 * MANY, marks=pytest.mark.slow)])
def test_node_killed_while_it_starts_is_started_again(runs: Runs, count: int) -> None:
    rng = random.Random(SEED)
    run = runs.start(LAUNCH, *AGAIN)
    run.wait_open()
    longest = 0.0
    for number in range(count):
        first, second = NODES[number % 3], rng.choice(NODES)  # so that others are still starting too
        before = run.pids()
        run.kill(first)
        started_anew(run, first, before)
        early = run.pids()
        time.sleep(rng.uniform(0.0, EARLY_S))
        begin = time.monotonic()
        run.kill(second)
        started_anew(run, second, early)
        assert eventually(run.is_open, SOON_S), (number, first, second, run.stderr[-1000:])
        longest = max(longest, time.monotonic() - begin)
    print(f"{count} nodes killed within {EARLY_S:g} s of their start: ready again after {longest:.2f} s at most")
    run.stop()
    assert runs.left_files() == []


@pytest.mark.parametrize("count", [5, pytest.param(2 * MANY, marks=pytest.mark.slow)])
def test_restarts_let_nothing_grow(runs: Runs, count: int) -> None:
    rng = random.Random(SEED)
    run = runs.start(LAUNCH, *AGAIN)
    run.wait_open()
    with Watch(run.name) as watch:
        watch.status("active", within_s=START_S)
        backs, memory, settled = list[float](), list[int](), dict[str, object]()
        for number in range(1, count + 1):
            victim = NODES[number % 3] if number <= SETTLED else rng.choice(NODES)
            backs.append(restart(run, watch, victim))
            memory.append(resident(run.popen.pid))
            if number == SETTLED:
                assert eventually(lambda: len(run.left_over()) == 5)  # launcher, nodes, writer
                settled = held_at_rest(run)
            elif number > SETTLED:
                assert holds(run, settled), (victim, holdings(run), settled)
        print(
            f"\n{count} restarts: back after {statistics.median(backs):.2f} s, at worst {max(backs):.2f} s; "
            f"launcher {memory[SETTLED] / 1e6:.1f} to {memory[-1] / 1e6:.1f} MB"
        )
        assert memory[-1] <= (1 + GROWTH) * memory[SETTLED]
        time.sleep(1.0)
        assert run.ask("status")["lifecycle"] == "active"
    run.stop()
    assert run.printed["restarts"] == {node: n for node in NODES if (n := run.stderr.count(f"] {node} was killed"))}
    assert runs.left_files() == []


@pytest.mark.parametrize(("victim", "number"), DEATHS)
def test_deaths_leave_no_process_or_file(runs: Runs, victim: str, number: int) -> None:
    telemetry = f"run.telemetry=tcp://127.0.0.1:{free_port()}"  # one process more
    run = runs.start(LAUNCH, "run.speed=1", "run.duration=60", f"plant.safety.command_timeout={TIMEOUT}", telemetry)
    run.wait_open()
    with Watch(run.name) as watch:
        watch.status("active", within_s=START_S)
    if victim == LAUNCHER:
        run.popen.send_signal(number)
    else:
        run.kill(victim, number)
    run.popen.wait(START_S)
    assert "Traceback" not in run.stderr
    assert eventually(lambda: run.left_over() == [], SOON_S)
    assert eventually(lambda: runs.left_files() == [], SOON_S), runs.left_files()
    again = runs.start(LAUNCH, "run.speed=2", "run.duration=0.5", name=run.name)
    again.ends_with(0, START_S)
