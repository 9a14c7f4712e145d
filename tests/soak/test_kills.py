"""Kills and freezes at random phases, many in one run: how long the machine waits for its safe action.

    python -m pytest -m slow tests/safety/test_kills.py -s -n 0

prints the reactions: from just before the signal to the plant's own statement that its safe action acts. With
SERVONODE_KILLS=500 (else 12) there are so many on each machine, killed and frozen in turn.
"""

import random
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest

from servonode.bus.topology import CONTROLLER, LAUNCHER, PLANT, TARGET
from tests.helpers.drivers import External
from tests.helpers.external_programs import PYTHON
from tests.helpers.host import HostWatch
from tests.helpers.runs import (
    MANY,
    OFTEN,
    RESTARTED,
    SEED,
    SOON_S,
    START_S,
    Process,
    Runs,
    Watch,
    eventually,
    signalled,
)

TIMEOUT, PERIOD = 0.1, 0.01  # s of wall time: W and T
LOCKSTEP_TIMEOUT = 0.5  # s
HOST_S = 0.005  # s by which this computer wakes its processes too late in ordinary times
MOST_STALLED = 0.1  # share of the samples that a stall of the host may spoil
LOCKSTEP = "sphero_pursuit_lockstep"
MACHINES = ("trailer_pursuit", "sphero_pursuit", "snowboarder_slalom")
SETTINGS = (
    "run.speed=1",
    f"controller.period={PERIOD}",
    f"plant.safety.command_timeout={TIMEOUT}",
    "plant.safety.safe_time=0.1",
    'plant.safety.on_fault="wait"',
    OFTEN,
    "supervision.backoff=0",
)


@dataclass
class Reactions:
    """Reactions [s] of one kind, and how many of them a stall of the host has spoilt."""

    good: list[float] = field(default_factory=list)
    stalled: list[float] = field(default_factory=list)

    def add(self, reaction: float, stall: float) -> None:
        """A reaction, and the longest stall [s] that was seen while it was awaited."""
        spoilt = reaction > TIMEOUT + PERIOD + HOST_S and stall > HOST_S
        (self.stalled if spoilt else self.good).append(reaction)

    def judge(self, title: str) -> None:
        """Print them, and demand that the worst is within the command timeout and one period."""
        spoilt = ""
        if self.stalled:
            spoilt = f"; {len(self.stalled)} spoilt by stalls of the host, worst {max(self.stalled) * 1e3:.1f} ms"
        if self.good:
            worst, median = max(self.good) * 1e3, statistics.median(self.good) * 1e3
            print(f"\n{title}: {len(self.good)} reactions, median {median:.1f} ms, worst {worst:.1f} ms{spoilt}")
        total = len(self.good) + len(self.stalled)
        assert len(self.stalled) <= max(MOST_STALLED * total, 1), self.stalled
        assert max(self.good) <= TIMEOUT + PERIOD + HOST_S, sorted(self.good)[-5:]


@contextmanager
def driven(runs: Runs, launch: str, *settings: str) -> Iterator[tuple[Process, Watch]]:
    """A run that waits after a fault, active; broken off at the end."""
    run = runs.start(launch, *SETTINGS, *settings)
    run.wait_open()
    with Watch(run.name) as watch:
        watch.status("active", within_s=START_S)
        yield run, watch
        run.stop()
    assert runs.left_files() == []


def react(run: Process, watch: Watch, host: HostWatch, number: int, rng: random.Random) -> tuple[float, float]:
    """One signal to the controller at a random phase; the reaction [s] and the longest stall meanwhile [s].

    After that the run is active again.
    """
    watch.forget()
    before = watch.status("active", time.monotonic_ns())
    time.sleep(rng.uniform(0.05, 0.05 + 5 * PERIOD))
    pids = run.pids()
    sent = run.kill(CONTROLLER, number)
    status = watch.status("fault", sent)
    assert (status.fault, status.safe_state) == ("stale_command", "damp"), status
    if number == signal.SIGSTOP:
        signalled(pids[CONTROLLER], signal.SIGKILL)
    assert eventually(lambda: run.is_open() and run.pids()[CONTROLLER] != pids[CONTROLLER], START_S), run.stderr
    assert run.order("reset") == "inactive"
    after = run.arm(watch)
    assert after.run != before.run
    stall = max(host.worst(sent, status.mono), after.values["lateness_max"] - before.values["lateness_max"])
    if after.values["stalls"] > before.values["stalls"]:
        stall = max(stall, TIMEOUT)
    return (status.mono - sent) / 1e9, stall


@pytest.mark.parametrize("launch", MACHINES)
def test_kills_every_machine_is_safe_within_timeout_and_period(runs: Runs, launch: str) -> None:
    rng, reactions = random.Random(SEED), Reactions()
    settings = ("run.duration=600", 'supervision.controller="on-failure"', "plant.safety.faults=false")
    with driven(runs, launch, *settings) as (run, watch), HostWatch() as host:
        for number in [signal.SIGKILL, signal.SIGSTOP] * (MANY // 2):
            reactions.add(*react(run, watch, host, number, rng))
    reactions.judge(f"{launch}, SIGKILL and SIGSTOP of the controller in turn")


def test_lockstep_never_hangs_whenever_a_party_is_stopped(runs: Runs) -> None:
    rng = random.Random(SEED)
    settings = ("run.duration=50000", f"run.lockstep_timeout={LOCKSTEP_TIMEOUT}", "plant.safety.safe_time=0.1")
    run = runs.start(LOCKSTEP, *settings, 'plant.safety.on_fault="wait"', words=("--every", "1000"))
    run.wait_open()
    waits = list[float]()
    with Watch(run.name) as watch:
        for _ in range(MANY // 2):
            watch.forget()
            watch.status("active", time.monotonic_ns(), within_s=START_S)
            time.sleep(rng.uniform(0.0, 0.01))
            victim = rng.choice([CONTROLLER, TARGET])
            stopped = run.kill(victim, signal.SIGSTOP)
            status = watch.status("fault", stopped)
            assert status.fault == "lockstep_timeout"
            waits.append((status.mono - stopped) / 1e9)
            run.kill(victim, signal.SIGCONT)
            assert run.order("reset") == "inactive"
            assert run.arm(watch).run != status.run
        run.kill(PLANT, signal.SIGSTOP)
        run.ends_with(1)
    print(f"\nlockstep: fault after {statistics.median(waits):.3f} s, at worst {max(waits):.3f} s")
    assert runs.left_files() == []


@pytest.mark.parametrize(
    ("launch", "victim"),
    [
        (MACHINES[0], PLANT),
        (MACHINES[1], TARGET),
        (MACHINES[2], LAUNCHER),
        (LOCKSTEP, CONTROLLER),
        (LOCKSTEP, PLANT),
        (LOCKSTEP, TARGET),
    ],
)
def test_every_process_may_be_killed(runs: Runs, launch: str, victim: str) -> None:
    rng = random.Random(SEED)
    run = runs.start(launch, "run.speed=1", "run.duration=5000", f"plant.safety.command_timeout={TIMEOUT}",
                     "plant.safety.safe_time=0.1")  # fmt: skip
    run.wait_open()
    with Watch(run.name) as watch:
        watch.status("active", within_s=START_S)
    time.sleep(rng.uniform(0.0, 5 * PERIOD))
    if victim == LAUNCHER:
        run.popen.kill()
        run.popen.wait(START_S)
        assert eventually(lambda: run.left_over() == [], SOON_S)
    else:
        run.kill(victim)
        run.ends_with(1)
        assert f"{victim} was killed by SIGKILL" in run.fault("node_died")["text"]
    assert eventually(lambda: runs.left_files() == [], SOON_S), runs.left_files()


# any process, a simulated machine and one outside

LOST_S = 0.5  # of the record, at a plant's death


@contextmanager
def simulated() -> Iterator[tuple[str, ...]]:
    yield ("plant.publish_every=10",)


@contextmanager
def outside() -> Iterator[tuple[str, ...]]:
    """The example of a robot, at the sockets where a run looks for it."""
    process = subprocess.Popen(PYTHON)
    try:
        yield External.settings
    finally:
        process.send_signal(signal.SIGINT)  # then it removes its socket, as no killed one could
        process.wait()


@pytest.mark.parametrize("machine", [simulated, outside], ids=lambda machine: machine.__name__)
def test_any_node_may_be_killed_or_frozen_at_any_moment(
    runs: Runs, machine: Callable[[], AbstractContextManager[tuple[str, ...]]]
) -> None:
    rng, reactions, deaths = random.Random(SEED), Reactions(), list[float]()
    with machine() as settings:
        given = (*SETTINGS, *settings, *RESTARTED, "run.duration=3000", "supervision.window=0.001")
        run = runs.start("trailer_pursuit", *given, words=("--every", "10", "--arm"))
        run.wait_open()
        with Watch(run.name) as watch, HostWatch() as host:
            watch.status("active", within_s=START_S)
            for _ in range(MANY):
                victim, number = rng.choice([CONTROLLER, TARGET, PLANT]), rng.choice([signal.SIGKILL, signal.SIGSTOP])
                if victim == CONTROLLER:
                    reactions.add(*react(run, watch, host, number, rng))
                    continue
                time.sleep(rng.uniform(0.05, 0.1))
                pids, newest = run.pids(), watch.status("active", time.monotonic_ns())
                if number == signal.SIGSTOP:  # the goals that are out already carry the controller
                    run.kill(victim, number)
                    time.sleep(rng.uniform(0.0, TIMEOUT / 4))
                run.kill(victim)
                assert eventually(lambda: run.is_open() and run.pids()[victim] != pids[victim], START_S), run.stderr  # noqa: B023
                if victim == PLANT:
                    deaths.append(newest.t)
                    assert run.ask("status")["lifecycle"] in ("inactive", "unconfigured")
                    run.arm(watch)
                assert watch.status("active", time.monotonic_ns()).fault == ""
        run.stop()
    if reactions.good or reactions.stalled:
        reactions.judge(f"{machine.__name__}: any node, {MANY} kills and freezes")
    lives = sorted(run.csv.parent.glob(f"{run.name}.life*.csv"), key=lambda file: int(file.stem.rpartition("life")[2]))
    ends = [float(file.read_text().splitlines()[-1].partition(",")[0]) for file in lives]
    assert len(ends) == len(deaths)
    assert all(end >= known - LOST_S for end, known in zip(ends, deaths, strict=True)), (ends, deaths)
    assert runs.left_files() == []
