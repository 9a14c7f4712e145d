"""One table says what a message holds: schemas, `topic info` and the help agree with the structs."""

import pytest
from msgspec import structs

import servonode
from servonode.bus import TOPICS
from servonode.bus.messages import fields_of
from servonode.bus.topology import NODES
from servonode.cli.topic import WHICH
from servonode.cli.topic_text import table
from servonode.record.write import schemas

PUBLISHED = {topic for node in NODES.values() for topic in node.publishes}


@pytest.mark.parametrize("topic", TOPICS)
def test_every_field_has_a_kind_and_says_what_it_is(topic: str) -> None:
    fields = fields_of(TOPICS[topic])
    assert [each.name for each in fields] == [each.name for each in structs.fields(TOPICS[topic])]
    assert all(each.what and each.kind.text for each in fields)


def test_schemas_of_a_recording_hold_the_fields_of_the_structs() -> None:
    loop = servonode.load("trailer_pursuit")
    found = schemas(loop.closed_loop)
    topics = {name: each for name, each in found.items() if name.partition("/")[2] in PUBLISHED}
    assert {name.partition("/")[2] for name in topics} == PUBLISHED
    for name, schema in topics.items():
        fields = structs.fields(TOPICS[name.partition("/")[2]])
        assert list(schema["properties"]) == [each.name for each in fields]
    assert topics["plant/state"]["properties"]["std"]["properties"].keys() >= {"V", "X"}


def test_topic_info_calls_numbers_numbers_and_lists_lists() -> None:
    kinds = {(entry.topic, each["name"]): each["kind"] for entry in table(None) for each in entry.fields()}
    numbers = [("state", name) for name in ("std", "innovation", "consistency", "rejected")]
    assert {kinds[each] for each in numbers} == {"numbers by name"}
    assert kinds["command", "goal"] == "list of numbers"
    assert {each for each, kind in kinds.items() if kind == "text"} == {
        (topic, name)
        for topic in PUBLISHED
        for name in ("node", "fault", "fault_name", "lifecycle", "safe_state")
        if name in {each.name for each in structs.fields(TOPICS[topic])}
    }


def test_the_help_of_the_topic_commands_names_every_topic() -> None:
    assert all(f" {topic}" in WHICH for topic in PUBLISHED)
