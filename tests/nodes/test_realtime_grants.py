"""What a node asks of the system for real time: each is tried, none is fatal, and the line says what came of it."""

import json
import os
import resource
import subprocess
import sys
from typing import Any

import pytest

from servonode.closed_loop.launch_keys import Run
from servonode.nodes import realtime_grants as grants
from servonode.nodes.realtime_grants import NotGranted, ask, asked

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
MEMORY = "memory locked"
FIFO, CORES = "SCHED_FIFO", "cores pinned"


def run(**keys: Any) -> Run:
    return Run(**{"duration": 1.0, "mode": "realtime", **keys})


IN_A_PROCESS = """
import json, mmap
from pathlib import Path
from servonode.nodes.realtime_grants import ask
from servonode.closed_loop.launch_keys import Run

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}

untouched = mmap.mmap(-1, 64 << 20)
before = memory()
given = ask(Run(duration=1.0, mode="realtime", priority=1, pin=True), "plant")
slack = int(Path("/proc/self/timerslack_ns").read_text())
print(json.dumps(given.as_dict() | {"before": before, "after": memory(), "slack": slack}))
"""


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """What a process of its own was granted, so that nothing of it stays with the tests; its memory [KiB]."""
    if sys.platform != "linux":
        pytest.skip("asks Linux")
    done = subprocess.run([sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, timeout=60, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would have been asked of the system, which grants everything on cores 2, 3, 5 and 7."""
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(grants, "_call", lambda *words: made.append(words))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 5, 3, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: made.append(("cores", *cores)))
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, kind, p: made.append((kind, p.sched_priority)))
    return made


# the line


@LINUX
def test_the_line_says_what_was_granted_and_why_the_rest_was_not() -> None:
    def no() -> str:
        raise NotGranted("not asked; run.pin")

    given = asked({"timer slack": lambda: "timer slack 1 us", CORES: no})
    assert given.line() == "real time: timer slack 1 us; not: cores pinned (not asked; run.pin)"
    assert given.as_dict() == {"granted": ["timer slack 1 us"], "refused": {CORES: "not asked; run.pin"}}
    assert asked({CORES: lambda: "core 0"}).line() == "real time: core 0"
    assert asked({CORES: no}).line() == "real time: nothing granted; not: cores pinned (not asked; run.pin)"


@LINUX
@pytest.mark.parametrize("error", [OSError(1, "Operation not permitted"), AttributeError("no such function")])
def test_what_the_system_refuses_is_not_fatal(error: Exception) -> None:
    def refused() -> str:
        raise error

    given = asked({MEMORY: refused, CORES: lambda: "core 0"})
    assert given.granted == ("core 0",)
    assert given.refused[MEMORY] in ("refused: Operation not permitted", "refused: no such function")


def test_on_another_system_nothing_is_asked(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    given = ask(run(priority=50, pin=True), "plant")
    assert given.granted == ()
    assert set(given.refused.values()) == {"not available on this system"}
    assert calls == []


# what is asked


def test_without_wishes_slack_and_memory_are_asked(calls: list[Any]) -> None:
    given = ask(run(), "plant")
    assert given.line() == (
        "real time: timer slack 1 us, memory locked; "
        "not: SCHED_FIFO (not asked; run.priority), cores pinned (not asked; run.pin)"
    )
    assert calls == [("prctl", 29, 1000, 0, 0, 0), ("mlockall", 1 | 2 | 4)]
    assert ask(run(lock_memory=False), "plant").refused[MEMORY] == "not asked; run.lock_memory"


def test_in_lockstep_only_the_slack_is_asked(calls: list[Any]) -> None:
    given = ask(run(mode="lockstep", priority=50, pin=True), "plant")
    assert given.granted == ("timer slack 1 us",)
    assert given.refused == dict.fromkeys((MEMORY, FIFO, CORES), "only in real time")
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("cores", "node", "pinned", "priority"),
    [
        ({7, 5, 3, 2}, "plant", (2,), 51),
        ({7, 5, 3, 2}, "controller", (3,), 50),
        ({7, 5, 3, 2}, "target", (5, 7), None),
        ({4, 1}, "target", (4,), None),  # the controller's too
        ({3}, "plant", (), 51),
    ],
)
def test_plant_has_the_higher_priority_and_each_its_core(
    calls: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    cores: set[int],
    node: str,
    pinned: tuple[int, ...],
    priority: int | None,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    given = ask(run(priority=50, pin=True), node)
    assert [call[1] for call in calls if call[0] == os.SCHED_FIFO] == ([priority] if priority else [])
    assert [call[1:] for call in calls if call[0] == "cores"] == ([pinned] if pinned else [])
    assert given.refused.get(FIFO) == (None if priority else "for plant and controller only")
    assert given.refused.get(CORES) == (None if pinned else "only core 3 is given; widen taskset or cpuset")


# what is refused says how to fix it


def test_a_priority_that_is_not_permitted(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    why = ask(run(priority=50), "controller").refused[FIFO]
    assert why == "50 not permitted; rtprio 51 in /etc/security/limits.conf, or CAP_SYS_NICE"


@pytest.mark.parametrize("capable", [False, True])
def test_a_limit_on_locked_memory(calls: list[Any], monkeypatch: pytest.MonkeyPatch, capable: bool) -> None:
    def refuse(*_: Any) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8 << 20, 8 << 20))
    monkeypatch.setattr(grants, "has_capability", lambda _: capable)
    given = ask(run(), "plant")
    why = "limited to 8192 KiB; ulimit -l unlimited, or memlock in /etc/security/limits.conf"
    assert given.refused.get(MEMORY) == (None if capable else why)
    assert (MEMORY in given.granted) is capable


def test_memory_that_the_kernel_does_not_lock(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *_: int) -> None:
        if name == "mlockall":
            raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(grants, "_call", refuse)
    given = ask(run(), "plant")
    assert given.refused[MEMORY] == "refused: Cannot allocate memory; give CAP_IPC_LOCK"
    assert given.granted == ("timer slack 1 us",)


# on the system as it is


def test_each_wish_is_granted_or_explained(given: dict[str, Any]) -> None:
    assert len(given["granted"]) + len(given["refused"]) == 4
    assert all(given["refused"].values())
    assert "timer slack 1 us" in given["granted"]
    assert given["slack"] <= 1000  # newer kernels say 0 of SCHED_FIFO, which has none


def test_locked_memory_is_not_read_in_or_copied(given: dict[str, Any]) -> None:
    if MEMORY not in given["granted"]:
        pytest.skip("locked memory is limited here")
    before, after = given["before"], given["after"]
    assert before["VmLck"] == 0
    assert after["VmLck"] > before["VmRSS"]
    assert after["VmRSS"] - before["VmRSS"] < 32 * 1024  # of the 64 MiB that lie untouched
