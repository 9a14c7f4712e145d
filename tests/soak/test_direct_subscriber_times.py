"""How nodes receive each other's messages: no thread, one read per message, and connected again whatever happens."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.bus import Bus, DirectSubscriber, Publisher
from servonode.bus.codec import HWM
from tests.bus.test_direct_subscriber import SECOND, state


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


@pytest.mark.parametrize("bound", [True, False])
def test_waiting_sleeps_rather_than_spins(plant: Bus, controller: Bus, bound: bool) -> None:
    subscriber = controller.direct_subscriber({"plant": ["state"]})
    if bound:
        join(plant.publisher(1), subscriber)
    used = time.thread_time()
    assert not controller.wait(soon(0.3))
    assert time.thread_time() - used < 0.05


def test_waiting_ends_at_the_deadline_to_well_below_a_millisecond(plant: Bus, controller: Bus) -> None:
    subscriber = controller.direct_subscriber({"plant": ["state"]})
    join(plant.publisher(1), subscriber)
    lateness = []
    for _ in range(21):
        deadline = soon(0.0023)
        assert not subscriber.wait(deadline)
        lateness.append(time.monotonic_ns() - deadline)
    assert min(lateness) >= 0
    assert sorted(lateness)[10] < 0.7e6  # ns


def test_a_stalled_reader_blocks_nobody_and_then_sees_the_newest(plant: Bus, controller: Bus) -> None:
    publisher, stalled = plant.publisher(1), controller.direct_subscriber({"plant": ["state"]})
    join(publisher, stalled)
    longest = 0.0
    for i in range(6 * HWM):
        start = time.perf_counter()
        publisher.publish("state", state(i))
        longest = max(longest, time.perf_counter() - start)
    assert longest < 0.5  # s: it never waits for a reader; the rest is the machine's own stalls
    while stalled.receive():
        plant.wait(0)
    publisher.publish("state", state(10**6))
    assert received(stalled)[-1] == 10**6
