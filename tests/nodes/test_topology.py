"""The table of nodes: who subscribes has a publisher, and what is counted or started follows from it."""

import pytest

from servonode.bus import TOPICS, subscriptions_expected
from servonode.bus.topology import (
    CONTROLLER,
    NODES,
    PLANT,
    TARGET,
    launcher_subscribes,
    nodes_of,
    publishers,
    subscribers,
)
from servonode.nodes.node_main import OPERATOR
from servonode.operator.listener import NoSuchTopic, named


@pytest.mark.parametrize("node", NODES)
def test_each_subscription_has_its_publisher(node: str) -> None:
    for other, topics in NODES[node].subscribes.items():
        assert other != node
        assert set(topics) <= set(NODES[other].publishes)


def test_every_topic_of_a_run_has_a_publisher_and_a_device_has_its_own() -> None:
    assert {topic for entry in NODES.values() for topic in entry.publishes} == TOPICS.keys() - {"setup"}
    assert len(TOPICS) == len(set(TOPICS.values()))  # a message is published under one topic


def test_the_plant_starts_last_and_is_alone_without_a_controller() -> None:
    assert nodes_of(controlled=True) == (TARGET, CONTROLLER, PLANT)
    assert nodes_of(controlled=False) == (PLANT,)


@pytest.mark.parametrize(
    ("controlled", "launcher", "expected"),
    [
        (True, True, {PLANT: 6, CONTROLLER: 3, TARGET: 5}),  # a controller says both its words to both
        (True, False, {PLANT: 4, CONTROLLER: 1, TARGET: 3}),
        (False, True, {PLANT: 2}),
        (False, False, {PLANT: 0}),
    ],
)
def test_publisher_waits_for_its_subscribers(controlled: bool, launcher: bool, expected: dict[str, int]) -> None:
    nodes = nodes_of(controlled)
    listeners = subscribers(nodes, launcher)
    assert {node: subscriptions_expected(node, listeners) for node in nodes} == expected
    assert launcher_subscribes(nodes).keys() == set(nodes)


def test_request_socket_takes_the_verbs_of_all_nodes() -> None:
    assert set(OPERATOR) == {verb for entry in NODES.values() for verb in entry.verbs}
    assert all("status" in entry.verbs for entry in NODES.values())


def test_a_topic_is_named_alone_or_with_its_node() -> None:
    assert named("status", nodes_of(controlled=True)) == {node: ["status"] for node in nodes_of(controlled=True)}
    assert named("plant/status", NODES) == {PLANT: ["status"]}
    assert named("command", NODES) == publishers(["command"]) == {CONTROLLER: ["command"]}


@pytest.mark.parametrize("word", ["stat", "plant/command", "/state", "plant/", "nowhere/state", ""])
def test_a_topic_that_nobody_publishes_is_refused_with_the_choices(word: str) -> None:
    with pytest.raises(NoSuchTopic, match=r"; choose applied, command, .*, or one node's: target/target, .*, plant/"):
        named(word, NODES)
    with pytest.raises(
        NoSuchTopic, match=r"; choose applied, parameters, state, status, or one node's: plant/state, plant/"
    ):
        named("command", nodes_of(controlled=False))
