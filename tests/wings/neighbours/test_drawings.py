"""A recording has frames and drawings for Foxglove, which no reader of recordings sees."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader

from servonode.cli.deliver import _drawings
from servonode.record.bag import Bag, read_bag
from servonode.record.info import info
from servonode.record.mcap_records import DRAWN
from servonode.record.recover import recover_bag
from servonode.record.write import write_contents
from servonode.simulation.rows_of_messages import runs_in
from servonode.views.run_view import drawing
from servonode.wings.neighbours.recorded import moments_of_bag
from tests.helpers.extras import neighbour, oracle
from tests.helpers.recorded import recording


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Bag:
    return recording(tmp_path_factory.mktemp("drawn"), "trailer_pursuit", "run.duration=6", "run.speed=2")


def drawn_in(file: Path) -> list[tuple[str, str, int, Any]]:
    """Topic, type, time and content of what viewers draw."""
    with file.open("rb") as stream:
        found = make_reader(stream).iter_messages()
        return [
            (channel.topic, schema.name, message.log_time, json.loads(message.data))
            for schema, channel, message in found
            if schema is not None and channel.topic.startswith(DRAWN)
        ]


def without(bag: Bag, file: Path) -> Path:
    """The same recording as it would be without drawings."""
    write_contents(file, bag.about, bag.launch, bag.rows, bag.schemas(), bag.messages(), {})
    return file


def test_a_recording_has_frames_and_outline_within_its_time(bag: Bag) -> None:
    found = drawn_in(bag.file)
    assert {(topic, kind) for topic, kind, *_ in found} == {
        ("/tf", "foxglove.FrameTransforms"),
        ("/scene", "foxglove.SceneUpdate"),
    }
    told = info(bag)
    assert all(told["begin_ns"] <= at <= told["end_ns"] for _, _, at, _ in found)
    scenes = [content for topic, _, _, content in found if topic == "/scene"]
    assert 20 < len(scenes) < 40  # 10 a second of the wall clock, for 3 s
    moments = list(moments_of_bag(bag, bag.closed_loop(), 5.0))
    assert len(moments) == len(scenes)
    for moment, content in zip(moments, scenes, strict=True):
        points = content["entities"][0]["lines"][0]["points"]
        np.testing.assert_allclose([list(each.values()) for each in points], moment.lines[0], atol=6e-6)


def test_every_drawing_is_valid_in_the_schema_of_its_type(bag: Bag) -> None:
    json_format = oracle("google.protobuf.json_format")
    pool_of = oracle("google.protobuf.descriptor_pb2").FileDescriptorSet
    factory, pools = oracle("google.protobuf.message_factory"), oracle("google.protobuf.descriptor_pool")
    known = neighbour("foxglove.messages")
    for _, kind, _, content in drawn_in(bag.file):
        schema = getattr(known, kind.removeprefix("foxglove.")).get_schema()
        pool = pools.DescriptorPool()
        for each in pool_of.FromString(schema.data).file:
            pool.Add(each)
        message = factory.GetMessageClass(pool.FindMessageTypeByName(kind))
        json_format.ParseDict(in_protobufs_json(content), message())


def in_protobufs_json(content: Any) -> Any:
    """Times as protobuf writes them in JSON."""
    if isinstance(content, dict) and content.keys() == {"sec", "nsec"}:
        return f"{np.datetime64(content['sec'], 's')}.{content['nsec']:09d}Z"
    if isinstance(content, dict):
        return {name: in_protobufs_json(each) for name, each in content.items()}
    return [in_protobufs_json(each) for each in content] if isinstance(content, list) else content


def test_readers_of_recordings_find_what_they_would_find_without(bag: Bag, tmp_path: Path) -> None:
    plain = read_bag(without(bag, tmp_path / "plain.mcap"))
    assert list(plain.messages()) == list(bag.messages())
    assert plain.schemas() == bag.schemas()
    assert bag.damage == plain.damage == []
    ours, theirs = info(bag), info(plain)
    assert [ours[word] for word in ("topics", "rows", "events", "begin_ns", "end_ns")] == [
        theirs[word] for word in ("topics", "rows", "events", "begin_ns", "end_ns")
    ]
    for a, b in zip(runs_in(bag, bag.closed_loop()), runs_in(plain, plain.closed_loop()), strict=True):
        assert {name: column.tobytes() for name, column in a.columns.items()} == {
            name: column.tobytes() for name, column in b.columns.items()
        }


def test_drawings_are_a_small_part_of_a_recording(bag: Bag, tmp_path: Path) -> None:
    plain = without(bag, tmp_path / "plain.mcap").stat().st_size
    assert plain < bag.file.stat().st_size < 1.15 * plain


def test_a_recording_that_was_cut_off_is_recovered_with_its_messages(bag: Bag, tmp_path: Path) -> None:
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(bag.file.read_bytes()[: int(0.8 * bag.file.stat().st_size)])
    whole = tmp_path / "whole.mcap"
    recover_bag(read_bag(cut), whole)
    found = list(read_bag(whole).messages())
    assert found == list(bag.messages())[: len(found)]
    assert len(found) > 100


def test_a_recording_without_states_is_made_without_drawings(bag: Bag, tmp_path: Path) -> None:
    empty = tmp_path / "empty.mcap"
    write_contents(empty, bag.about, bag.launch, bag.rows, bag.schemas(), iter(()), {})
    found, words = _drawings(drawing(), read_bag(empty), bag.closed_loop())
    assert found == []
    assert words.startswith(f"; without drawings: {empty}: holds no plant/state")
