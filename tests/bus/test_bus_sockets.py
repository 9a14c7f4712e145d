import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import zmq

from servonode.bus import Bus, BusError, Requester, State, encode, subscriptions_expected
from servonode.bus.codec import HWM
from servonode.bus.zmq_io import CLOSE_MS
from tests.helpers.events import LONG_S, eventually, soon

HEADER = {"t": 0.1, "run": 1, "k": 1, "mono": 1, "node": "plant", "src": 1}
SECOND = 10**9  # ns


def state(seq: int) -> State:
    return State(**HEADER, seq=seq, state={"x": 0.1}, input={}, control=True)


def received(subscriber, n: int = 1):
    """Messages until n have come or a minute has gone."""
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


@pytest.fixture
def raw(folder):
    """A foreign publisher bound in the plant's place."""
    context = zmq.Context()
    opened = context.socket(zmq.XPUB)
    opened.bind(f"ipc://{folder}/plant.pub")
    yield opened
    context.destroy(linger=0)


@pytest.mark.parametrize("subscriber_first", [True, False])
def test_the_first_message_after_the_subscription_was_seen_arrives(plant, controller, subscriber_first):
    if subscriber_first:
        subscriber = controller.subscriber({"plant": ["state"]})
    publisher = plant.publisher(1)
    assert not publisher.ready() or subscriber_first
    if not subscriber_first:
        subscriber = controller.subscriber({"plant": ["state"]})
    assert eventually(publisher.ready)
    publisher.publish("state", state(1))
    assert received(subscriber) == [("state", state(1))]


def test_subscriptions_are_counted_for_each_subscriber_and_go_with_it(folder, plant, controller):
    wanted = {"plant": ["state", "applied"]}
    publisher = plant.publisher(subscriptions_expected("plant", [wanted, wanted, {"target": ["target"]}]))
    controller.subscriber(wanted)
    with Bus(folder, "recorder") as recorder:
        recorder.subscriber(wanted)
        assert eventually(publisher.ready)
        assert publisher.subscriptions == {"state": 2, "applied": 2}
    assert eventually(lambda: publisher.subscriptions_seen() == 2)


def test_a_drain_keeps_order_up_to_its_bound_and_ends_with_the_newest(plant, controller):
    publisher, subscriber = plant.publisher(1), controller.subscriber({"plant": ["state"]})
    assert eventually(publisher.ready)
    first: list[tuple[str, State]] = []
    for i in range(100):
        publisher.publish("state", state(i))
    assert eventually(lambda: len(first) == 30 or first.extend(subscriber.receive(bound=30 - len(first))))
    rest = received(subscriber, 70)
    assert [m.seq for _, m in first + rest] == list(range(100))
    assert len(first) == 30


def test_a_stalled_reader_blocks_nobody_and_then_sees_the_newest(folder, plant, controller):
    publisher, stalled = plant.publisher(2), controller.subscriber({"plant": ["state"]})
    with Bus(folder, "echo") as other:
        reader = other.subscriber({"plant": ["state"]})
        assert eventually(publisher.ready)
        for i in range(6 * HWM):
            publisher.publish("state", state(i))
            if i % 100 == 0:
                reader.receive()

    def sees_the_newest() -> bool:
        publisher.publish("state", state(10**6))
        return any(message.seq == 10**6 for _, message in stalled.receive())

    assert eventually(sees_the_newest)


def test_what_is_not_two_good_frames_of_an_asked_topic_is_counted(raw, controller):
    subscriber = controller.subscriber({"plant": ["state"]})
    assert raw.poll(60_000)
    good = encode(state(5))
    raw.send(b"state")
    raw.send_multipart([b"state", good, b"third"])
    raw.send_multipart([b"state", *[b""] * 50])
    raw.send_multipart([b"state2", good])
    raw.send_multipart([b"state", b"\x91" * 60000])
    raw.send_multipart([b"state", good + b"\x00"])
    raw.send_multipart([b"status", good])  # not subscribed: ZeroMQ drops it
    raw.send_multipart([b"state", good])
    assert received(subscriber) == [("state", state(5))]
    assert subscriber.counts == {"frames": 3, "topic": 1, "type": 1, "malformed": 1}


def test_a_message_beyond_the_size_limit_is_never_delivered(raw, controller):
    subscriber = controller.subscriber({"plant": ["state"]})
    assert raw.poll(60_000)
    raw.send_multipart([b"state", b"x" * 70000])
    assert not subscriber.wait(soon(0.05))
    assert subscriber.receive() == []


def test_waiting_ends_when_a_message_a_request_or_a_descriptor_comes(folder, plant, controller):
    publisher, subscriber = plant.publisher(1), controller.subscriber({"plant": ["state"]})
    requests = controller.requests()
    assert eventually(publisher.ready)
    assert not controller.wait(soon(0))

    threading.Timer(0.05, publisher.publish, ("state", state(1))).start()
    assert controller.wait(soon())
    assert len(subscriber.receive()) == 1
    assert not controller.wait(soon(0.01))

    client = threading.Thread(target=ask_once, args=(folder,))
    client.start()
    while (asked := requests.poll_request()) is None:  # a wake-up may be for nothing, such as a connection
        assert controller.wait(soon())
    identity, request = asked
    requests.reply(identity, request)
    client.join()
    assert requests.poll_request() is None

    read_end, write_end = os.pipe()
    os.write(write_end, b"x")
    assert controller.wait(soon(), [read_end])
    assert controller.wait(0, [read_end])
    os.close(read_end)
    os.close(write_end)


def ask_once(folder: Path) -> None:
    with Requester(folder, "controller") as requester:
        assert requester.ask({"verb": "ping"}, LONG_S) == {"verb": "ping"}


def test_no_arrival_is_slept_through_in_a_long_exchange(folder, plant):
    """Two nodes answer each other; each also answers requests, whose sends touch the same descriptors."""
    publisher, echoes = plant.publisher(1), plant.subscriber({"controller": ["state"]})
    echo = threading.Thread(target=echo_states, args=(folder,))
    echo.start()
    assert eventually(publisher.ready)
    with Requester(folder, "controller") as requester:
        for i in range(500):
            publisher.publish("state", state(i))
            assert received(echoes)[0][1].seq == i
            if i % 10 == 0:
                assert requester.ask({"i": i}, LONG_S) == {"i": i}
    publisher.publish("state", state(10**6))
    echo.join()


def echo_states(folder: Path) -> None:
    with Bus(folder, "controller") as bus:
        publisher, subscriber, requests = bus.publisher(1), bus.subscriber({"plant": ["state"]}), bus.requests()
        assert eventually(publisher.ready)
        while bus.wait(soon()):
            for _, message in subscriber.receive():
                if message.seq == 10**6:
                    return
                publisher.publish("state", message)
            while (request := requests.poll_request()) is not None:
                requests.reply(*request)


def test_a_second_node_of_the_same_name_is_refused(folder, plant):
    plant.publisher()
    with Bus(folder, "plant") as second, pytest.raises(BusError, match="rename"):
        second.publisher()


def test_closing_with_unsent_messages_ends_and_twice_is_harmless(folder):
    bus = Bus(folder, "plant")
    publisher = bus.publisher()
    other = Bus(folder, "controller")
    other.subscriber({"plant": ["state"]})
    eventually(publisher.ready, 0.2)
    for i in range(3000):
        publisher.publish("state", state(i))
    for closing in (bus, other, bus, other):
        closing.close()
    assert list(folder.iterdir()) == []
    gc.collect()  # a leaked socket or context would warn here, and warnings are errors


def test_endpoints_that_cannot_be_are_refused_with_the_remedy(folder):
    with pytest.raises(BusError, match="SERVONODE_RUNTIME_DIR"):
        Bus(folder / ("x" * 100), "plant")
    for name in ("", "a/b", "..", "a b", "n" * 41):
        with pytest.raises(BusError, match="letters, digits"):
            Bus(folder, name)
    with Bus(folder / "none", "plant") as bus, pytest.raises(BusError, match="exist"):
        bus.publisher()
    with Bus(folder, "plant") as bus, pytest.raises(ValueError, match="choose"):
        bus.subscriber({"controller": ["comand"]})


IN_REAL_TIME = """
import os, time, zmq
from servonode.bus.zmq_io import new_context, open_socket
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(7))
context = new_context()
opened = open_socket(context, zmq.SUB)
def tasks():
    for task in map(int, os.listdir("/proc/self/task")):
        if os.sched_getscheduler(task) == os.SCHED_FIFO:
            yield task == os.getpid(), os.sched_getparam(task).sched_priority
end = time.monotonic() + 60
while any(priority == 7 for own, priority in tasks() if not own) and time.monotonic() < end:
    time.sleep(0.01)  # a thread gives itself its priority once it has begun
for each in tasks():
    print(*each)
opened.close()
context.term()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of real time are asked for on Linux alone")
def test_threads_of_libzmq_have_the_priority_below_the_node():
    done = subprocess.run([sys.executable, "-c", IN_REAL_TIME], capture_output=True, text=True, check=False)
    if "PermissionError" in done.stderr:
        pytest.skip("no priority of real time is granted here")
    assert sorted(done.stdout.split("\n")) == ["", "False 6", "False 6", "True 7"]


def test_a_close_waits_only_for_what_answers_requests(folder, monkeypatch):
    waited = {}
    close = zmq.Socket.close
    monkeypatch.setattr(zmq.Socket, "close", lambda it, linger: waited.update({it.type: linger}) or close(it, linger))
    with Bus(folder, "launcher") as launcher:
        launcher.subscriber({"plant": ["state"]})
        launcher.requests()
    assert waited == {zmq.SUB: 0, zmq.ROUTER: CLOSE_MS}
