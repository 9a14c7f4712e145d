"""How nodes receive each other's messages: no thread, one read per message, and connected again whatever happens."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from servonode.bus import Bus, DirectSubscriber, Publisher, Requester, State, encode
from servonode.bus.codec import HWM
from tests.helpers.descriptors import no_free_descriptor
from tests.helpers.events import LONG_S, soon

SECOND = 10**9  # ns


def state(seq: int, node: str = "plant") -> State:
    return State(t=0.1, run=1, k=1, mono=1, node=node, src=1, seq=seq, state={"x": 0.1}, input={}, control=True)


def join(publisher: Publisher, subscriber: DirectSubscriber) -> None:
    """Both sides come by, as nodes do, until the subscriptions are held."""
    deadline = soon()
    while not publisher.ready():
        assert soon(0) < deadline
        subscriber.wait(soon(0.002))
        assert subscriber.receive() == []


def received(subscriber: DirectSubscriber, n: int = 1) -> list[int]:
    """The numbers of the messages until n have come or a minute has gone."""
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


@pytest.fixture
def raw(folder: Path) -> "Iterator[zmq.Socket[bytes]]":
    """A publisher of libzmq in the plant's place."""
    context = zmq.Context()
    opened = context.socket(zmq.XPUB)
    opened.bind(f"ipc://{folder}/plant.pub")
    yield opened
    context.destroy(linger=0)


def subscribed(raw: "zmq.Socket[bytes]", subscriber: DirectSubscriber) -> None:
    deadline = soon()
    while not raw.poll(5):
        assert soon(0) < deadline
        subscriber.wait(soon(0.002))
        subscriber.receive()
    raw.recv()


@pytest.mark.parametrize("subscriber_first", [True, False])
def test_the_first_message_after_the_subscription_was_seen_arrives(
    plant: Bus, controller: Bus, subscriber_first: bool
) -> None:
    if subscriber_first:
        subscriber = controller.direct_subscriber({"plant": ["state"]})
    publisher = plant.publisher(1)
    if not subscriber_first:
        subscriber = controller.direct_subscriber({"plant": ["state"]})
    join(publisher, subscriber)
    publisher.publish("state", state(1))
    assert received(subscriber) == [1]


def test_no_thread_is_started(plant: Bus, controller: Bus) -> None:
    before = len(list(Path("/proc/self/task").iterdir()))
    publisher, subscriber = plant.publisher(1), controller.direct_subscriber({"plant": ["state"]})
    join(publisher, subscriber)
    assert len(list(Path("/proc/self/task").iterdir())) == before


def test_each_publisher_is_heard_in_order_and_none_is_slept_through(folder: Path, plant: Bus, controller: Bus) -> None:
    with Bus(folder, "target") as target:
        publishers = [plant.publisher(1), target.publisher(1)]
        subscriber = controller.direct_subscriber({"plant": ["state"], "target": ["state"]})
        for publisher in publishers:
            join(publisher, subscriber)
        assert not controller.wait(soon(0.01))
        for i in range(200):
            publishers[i % 2].publish("state", state(i))
            assert controller.wait(soon())
            if i % 3 == 0:  # after the wait: it comes with this drain or wakes the next wait
                publishers[1 - i % 2].publish("state", state(1000 + i))
                first = [message.seq for _, message in subscriber.receive()]
                assert sorted(first or received(subscriber)) in ([i], [i, 1000 + i])
                if 1000 + i not in first:
                    assert controller.wait(soon())
                    assert received(subscriber) == [1000 + i]
            else:
                assert received(subscriber) == [i]
        assert not controller.wait(soon(0.01))
        for i in range(50):
            publishers[0].publish("state", state(i))
            publishers[1].publish("state", state(100 + i))
        got = received(subscriber, 100)
        assert [seq for seq in got if seq < 100] == list(range(50))
        assert [seq for seq in got if seq >= 100] == list(range(100, 150))


def test_a_drain_ends_at_its_bound_and_what_is_left_is_not_slept_on(plant: Bus, controller: Bus) -> None:
    publisher, subscriber = plant.publisher(1), controller.direct_subscriber({"plant": ["state"]})
    join(publisher, subscriber)
    for i in range(100):
        publisher.publish("state", state(i))
    first = [message.seq for _, message in subscriber.receive(bound=30)]
    assert controller.wait(soon())
    assert first + received(subscriber, 70) == list(range(100))
    assert len(first) == 30


def test_what_comes_while_only_requests_are_waited_for_is_kept(
    plant: Bus, controller: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, subscriber = plant.publisher(1), controller.direct_subscriber({"plant": ["state"]})
    controller.requests()
    deadline = soon()
    while not publisher.ready():  # what connects, shakes hands and subscribes is this wait
        assert soon(0) < deadline
        controller._waiter.wait_for_request(soon(0.002))
    for i in range(HWM + 50):
        publisher.publish("state", state(i))
        if i % 10 == 0:
            controller._waiter.wait_for_request(soon(0.001))
    sleeps, rest = list[int](), controller._waiter._sleep

    def counted(deadline_ns: int | None, watched: list[int]) -> list[int]:
        sleeps.append(len(watched))
        return rest(deadline_ns, watched)

    monkeypatch.setattr(controller._waiter, "_sleep", counted)
    controller._waiter.wait_for_request(soon(0.2))
    assert len(sleeps) < 20  # with more than it keeps, too, it sleeps
    assert received(subscriber, HWM + 50) == list(range(HWM + 50))


def test_what_was_kept_meanwhile_ends_the_next_wait_although_nothing_new_comes(plant: Bus, controller: Bus) -> None:
    publisher, subscriber = plant.publisher(1), controller.direct_subscriber({"plant": ["state"]})
    join(publisher, subscriber)
    for i in range(10):
        publisher.publish("state", state(i))
    controller._waiter.wait_for_request(soon(0.05))
    assert received(subscriber, 10) == list(range(10))


def test_a_stalled_reader_blocks_nobody_and_then_sees_the_newest(plant: Bus, controller: Bus) -> None:
    publisher, stalled = plant.publisher(1), controller.direct_subscriber({"plant": ["state"]})
    join(publisher, stalled)
    for i in range(6 * HWM):
        publisher.publish("state", state(i))
    while stalled.receive():
        plant.wait(0)
    publisher.publish("state", state(10**6))
    assert received(stalled)[-1] == 10**6


def test_what_is_not_two_good_frames_of_an_asked_topic_is_counted(raw: "zmq.Socket[bytes]", controller: Bus) -> None:
    subscriber = controller.direct_subscriber({"plant": ["state"]})
    subscribed(raw, subscriber)
    good = encode(state(5))
    raw.send(b"state")
    raw.send_multipart([b"state", good, b"third"])
    raw.send_multipart([b"state2", good])
    raw.send_multipart([b"state", b"\x91" * 60000])
    raw.send_multipart([b"state", good + b"\x00"])
    raw.send_multipart([b"state", good])
    assert received(subscriber) == [5]
    assert subscriber.counts == {"frames": 2, "topic": 1, "type": 1, "malformed": 1}


@pytest.mark.parametrize(
    ("frames", "reason"), [([b"state", b"x" * 70000], "length"), ([b"state", *[b""] * 50], "frames")]
)
def test_what_is_too_large_is_never_delivered_and_the_publisher_is_heard_again(
    raw: "zmq.Socket[bytes]", controller: Bus, frames: list[bytes], reason: str
) -> None:
    subscriber = controller.direct_subscriber({"plant": ["state"]})
    subscribed(raw, subscriber)
    raw.send_multipart(frames)
    deadline = soon()
    while not subscriber.counts[reason]:
        assert soon(0) < deadline
        subscriber.wait(soon(0.01))
        assert subscriber.receive() == []
    raw.setsockopt(zmq.RCVTIMEO, 0)
    subscribed(raw, subscriber)  # that of the old connection ends
    deadline = soon()
    got: list[int] = []
    while not got and soon(0) < deadline:
        raw.send_multipart([b"state", encode(state(7))])
        subscriber.wait(soon(0.01))
        got = [message.seq for _, message in subscriber.receive()]
    assert got[0] == 7


def test_without_a_free_descriptor_a_node_goes_on_and_connects_once_there_is_one(folder: Path, controller: Bus) -> None:
    subscriber = controller.direct_subscriber({"plant": ["state"]})
    with no_free_descriptor():
        assert not controller.wait(soon(0.05))
        assert subscriber.receive() == []
    with Bus(folder, "plant") as bus:
        publisher = bus.publisher(1)
        join(publisher, subscriber)
        publisher.publish("state", state(2))
        assert received(subscriber) == [2]


def test_no_arrival_is_slept_through_in_a_long_exchange(folder: Path, plant: Bus) -> None:
    """Two nodes answer each other; each also answers requests."""
    publisher, echoes = plant.publisher(1), plant.direct_subscriber({"controller": ["state"]})
    begun = threading.Event()
    echo = threading.Thread(target=echo_states, args=(folder, begun))
    echo.start()
    join(publisher, echoes)
    while not begun.is_set():  # until the echo's publisher holds our subscription too
        echoes.wait(soon(0.002))
        assert echoes.receive() == []
    with Requester(folder, "controller") as requester:
        for i in range(500):
            publisher.publish("state", state(i))
            assert received(echoes) == [i]
            if i % 10 == 0:
                assert requester.ask({"i": i}, LONG_S) == {"i": i}
    publisher.publish("state", state(10**6))
    echo.join()


def echo_states(folder: Path, begun: threading.Event) -> None:
    with Bus(folder, "controller") as bus:
        publisher, subscriber, requests = bus.publisher(1), bus.direct_subscriber({"plant": ["state"]}), bus.requests()
        join(publisher, subscriber)
        begun.set()
        while bus.wait(soon()):
            for _, message in subscriber.receive():
                if message.seq == 10**6:
                    return
                publisher.publish("state", message)
            while (request := requests.poll_request()) is not None:
                requests.reply(*request)


def test_closing_twice_is_harmless_and_frees_all(folder: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    plant, controller = Bus(folder, "plant"), Bus(folder, "controller")
    join(plant.publisher(1), controller.direct_subscriber({"plant": ["state"]}))
    for closing in (plant, controller, plant, controller):
        closing.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_published_at_once_arrives_as_if_one_by_one(plant: Bus, controller: Bus) -> None:
    publisher, subscriber = plant.publisher(1), controller.direct_subscriber({"plant": ["state"]})
    join(publisher, subscriber)
    publisher.publish_all("state", [])
    publisher.publish_all("state", [state(i) for i in range(100)])
    publisher.publish("state", state(100))
    assert received(subscriber, 101) == list(range(101))
    with pytest.raises(ValueError, match="carries Command, not State"):
        publisher.publish_all("command", [state(1)])  # type: ignore[list-item]
