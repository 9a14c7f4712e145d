"""How nodes receive each other's messages: no thread, one read per message, and connected again whatever happens."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.bus import Bus, DirectSubscriber, Publisher, State

SECOND = 10**9  # ns


def state(seq: int, node: str = "plant") -> State:
    return State(t=0.1, run=1, k=1, mono=1, node=node, src=1, seq=seq, state={"x": 0.1}, input={}, control=True)


def soon(seconds: float = 3.0) -> int:
    return time.monotonic_ns() + round(seconds * SECOND)


def join(publisher: Publisher, subscriber: DirectSubscriber) -> None:
    """Both sides come by, as nodes do, until the subscriptions are held."""
    deadline = soon()
    while not publisher.ready():
        assert time.monotonic_ns() < deadline
        subscriber.wait(soon(0.002))
        assert subscriber.receive() == []


def received(subscriber: DirectSubscriber, n: int = 1) -> list[int]:
    """The numbers of the messages until n have come or 3 s have gone."""
    got: list[int] = []
    deadline = soon()
    while len(got) < n and subscriber.wait(deadline):
        got += [message.seq for _, message in subscriber.receive()]
    return got


@pytest.fixture
def plant(folder: Path) -> Iterator[Bus]:
    with Bus(folder, "plant") as bus:
        yield bus


@pytest.fixture
def controller(folder: Path) -> Iterator[Bus]:
    with Bus(folder, "controller") as bus:
        yield bus


def test_a_killed_publisher_is_followed_by_the_one_in_its_place(folder: Path, controller: Bus) -> None:
    subscriber = controller.direct_subscriber({"plant": ["state"]})
    code = (
        "import sys, time; from servonode.bus import Bus\n"
        "bus = Bus(sys.argv[1], 'plant'); p = bus.publisher(1)\n"
        "p.wait_ready(time.monotonic_ns() + 20 * 10**9)\n"
        "print(p.ready(), flush=True); time.sleep(30)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as child:
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.append(child.stdout.readline()))  # type: ignore[union-attr]
        reader.start()
        while reader.is_alive():
            subscriber.wait(soon(0.01))
            subscriber.receive()
        child.send_signal(signal.SIGKILL)
    assert said == ["True\n"]
    assert (folder / "plant.pub").exists()
    with Bus(folder, "plant") as bus:
        publisher = bus.publisher(1)
        join(publisher, subscriber)
        publisher.publish("state", state(2))
        assert received(subscriber) == [2]
