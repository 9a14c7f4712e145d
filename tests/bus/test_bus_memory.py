import pytest

from servonode.bus import (
    BusError,
    MemoryBus,
    State,
    Switchboard,
    Target,
)
from servonode.bus.codec import HWM

HEADER = {"t": 0.1, "run": 1, "k": 1, "mono": 1, "node": "plant", "src": 1}


def state(seq: int, x: float = 0.1) -> State:
    return State(**HEADER, seq=seq, state={"x": x}, input={}, control=True)


def target(seq: int) -> Target:
    return Target(**HEADER, seq=seq, target={"x": 1.0})


@pytest.fixture
def pair():
    switchboard = Switchboard()
    plant, controller = MemoryBus(switchboard, "plant"), MemoryBus(switchboard, "controller")
    yield plant, controller
    plant.close()
    controller.close()


def test_messages_arrive_decoded_from_bytes_and_in_order(pair):
    plant, controller = pair
    subscriber = controller.subscriber({"plant": ["state"]})
    publisher = plant.publisher(1)
    sent = [state(i) for i in range(3)]
    for message in sent:
        publisher.publish("state", message)
    assert controller.wait(None)
    got = subscriber.receive()
    assert got == [("state", message) for message in sent]
    assert got[0][1] is not sent[0]
    assert subscriber.receive() == []
    assert not controller.wait(None)


def test_topics_not_asked_for_do_not_arrive(pair):
    plant, controller = pair
    subscriber = controller.subscriber({"plant": ["target"]})
    publisher = plant.publisher(1)
    publisher.publish("state", state(1))
    publisher.publish("target", target(2))
    assert subscriber.receive() == [("target", target(2))]
    with pytest.raises(ValueError, match="choose"):
        controller.subscriber({"plant": ["states"]})


def test_the_publisher_sees_subscriptions_made_before_and_after_it(pair):
    plant, controller = pair
    publisher = plant.publisher(2)
    assert not publisher.ready()
    controller.subscriber({"plant": ["state", "applied"]})
    assert publisher.subscriptions_seen() == 2
    assert publisher.ready()
    controller.close()
    assert publisher.subscriptions_seen() == 0


def test_what_the_wire_would_refuse_is_refused_and_counted(pair):
    plant, controller = pair
    subscriber = controller.subscriber({"plant": ["state"]})
    publisher = plant.publisher()
    publisher.publish("state", state(1, x=float("nan")))
    publisher.publish("state", state(2))
    assert subscriber.receive() == [("state", state(2))]
    assert subscriber.counts == {"non_finite": 1}


def test_a_reader_that_never_drains_keeps_a_bounded_queue(pair):
    plant, controller = pair
    subscriber = controller.subscriber({"plant": ["state"]})
    publisher = plant.publisher()
    for i in range(HWM + 10):
        publisher.publish("state", state(i))
    assert len(subscriber.receive(bound=10)) == 10
    assert len(subscriber.receive(bound=10 * HWM)) == HWM - 10


def test_a_node_name_serves_one_bus(pair):
    plant, _ = pair
    plant.publisher()
    with pytest.raises(BusError, match="rename"):
        plant.publisher()
