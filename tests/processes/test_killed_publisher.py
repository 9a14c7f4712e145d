import signal
import subprocess
import sys
import time

import pytest

from servonode.bus import Bus, State

HEADER = {"t": 0.1, "run": 1, "k": 1, "mono": 1, "node": "plant", "src": 1}
SECOND = 10**9  # ns


def state(seq: int) -> State:
    return State(**HEADER, seq=seq, state={"x": 0.1}, input={}, control=True)


def soon(seconds: float = 3.0) -> int:
    return time.monotonic_ns() + round(seconds * SECOND)


def received(subscriber, n: int = 1):
    """Messages until n have come or 3 s have gone."""
    got, deadline = [], soon()
    while len(got) < n and subscriber.wait(deadline):
        got += subscriber.receive()
    return got


@pytest.fixture
def plant(folder):
    with Bus(folder, "plant") as bus:
        yield bus


@pytest.fixture
def controller(folder):
    with Bus(folder, "controller") as bus:
        yield bus


def test_a_killed_publisher_leaves_a_path_that_the_next_takes_and_readers_follow(folder, controller):
    subscriber = controller.subscriber({"plant": ["state"]})
    code = (
        "import sys, time; from servonode.bus import Bus\n"
        "bus = Bus(sys.argv[1], 'plant'); p = bus.publisher(1)\n"
        "p.wait_ready(time.monotonic_ns() + 3 * 10**9)\n"
        "print(p.ready(), flush=True); time.sleep(30)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"True\n"
        child.send_signal(signal.SIGKILL)
    assert (folder / "plant.pub").exists()
    with Bus(folder, "plant") as bus:
        publisher = bus.publisher(1)
        deadline = soon()
        while not publisher.ready() and time.monotonic_ns() < deadline:
            assert not subscriber.wait(soon(0.005))
        publisher.publish("state", state(2))
        assert received(subscriber) == [("state", state(2))]
