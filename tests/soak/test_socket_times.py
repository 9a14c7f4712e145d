import gc
import time

import pytest

from servonode.bus import Bus
from servonode.bus.codec import HWM
from tests.bus.test_bus_sockets import SECOND, state
from tests.helpers.events import eventually


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


def test_a_stalled_reader_blocks_nobody_and_then_sees_the_newest(folder, plant, controller):
    publisher, stalled = plant.publisher(2), controller.subscriber({"plant": ["state"]})
    with Bus(folder, "echo") as other:
        reader = other.subscriber({"plant": ["state"]})
        assert eventually(publisher.ready)
        longest = 0.0
        for i in range(6 * HWM):
            start = time.perf_counter()
            publisher.publish("state", state(i))
            longest = max(longest, time.perf_counter() - start)
            if i % 100 == 0:
                reader.receive()
        assert longest < 0.5  # s: it never waits for a reader; the rest is the machine's own stalls
    while stalled.receive():
        time.sleep(0.02)
    publisher.publish("state", state(10**6))
    assert received(stalled)[-1][1].seq == 10**6


def test_waiting_ends_at_the_deadline_to_well_below_a_millisecond(plant, controller):
    plant.publisher()
    subscriber = controller.subscriber({"plant": ["state"]})
    lateness = []
    for _ in range(21):
        deadline = soon(0.0023)
        assert not subscriber.wait(deadline)
        lateness.append(time.monotonic_ns() - deadline)
    assert min(lateness) >= 0
    assert sorted(lateness)[10] < 0.7e6  # ns; zmq's own poll would round 2.3 ms up to 3


def test_waiting_sleeps_rather_than_spins(controller):
    controller.subscriber({"plant": ["state"]})
    controller.requests()
    used = time.thread_time()
    assert not controller.wait(soon(0.2))
    assert time.thread_time() - used < 0.05


def test_closing_with_unsent_messages_is_quick_and_twice_is_harmless(folder):
    bus = Bus(folder, "plant")
    publisher = bus.publisher()
    other = Bus(folder, "controller")
    other.subscriber({"plant": ["state"]})
    eventually(publisher.ready, 0.2)
    for i in range(3000):
        publisher.publish("state", state(i))
    start = time.perf_counter()
    for closing in (bus, other, bus, other):
        closing.close()
    assert time.perf_counter() - start < 1.0
    assert list(folder.iterdir()) == []
    gc.collect()  # a leaked socket or context would warn here, and warnings are errors
