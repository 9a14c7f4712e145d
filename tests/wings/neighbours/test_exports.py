"""`servonode bag export` for ROS 2, Foxglove and rerun: what is written is read back by other libraries."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from mcap.reader import make_reader

from servonode.cli.main import main as servonode_main
from servonode.export.exports import of_wings
from servonode.record.bag import Bag
from servonode.simulation.rows_of_messages import runs_in
from servonode.wings.neighbours import libraries
from servonode.wings.neighbours.export import WRITERS, export
from servonode.wings.neighbours.foxglove_messages import values, values_schema
from servonode.wings.neighbours.moments import Layout, Moment
from servonode.wings.neighbours.recorded import moments_of_bag
from servonode.wings.neighbours.ros2_messages import messages, topic
from tests.helpers.extras import MUJOCO, NO_MUJOCO, json_validator, neighbour, oracle
from tests.helpers.recorded import recording

EXAMPLES = Path(__file__).parents[3] / "examples"
LOCKSTEP = 'run.mode="lockstep"'
LIBRARIES = {"ros2": "rosbags", "foxglove": "foxglove", "rerun": "rerun"}
EXPORTS = {name: each for name, each in of_wings().items() if name in WRITERS}
RUNS = {
    "trailer": ("trailer_pursuit_lockstep", "run.duration=1"),
    "sphero": ("sphero_pursuit_lockstep", "run.duration=1"),
    "snowboarder": ("snowboarder_slalom_lockstep", "run.duration=1"),
    "hoop": ("hoop_rolls", LOCKSTEP, "run.duration=1"),
    "ball": ("ball_circle", LOCKSTEP, "run.duration=1"),
    "robot": (str(EXAMPLES / "tray" / "tray.toml"), LOCKSTEP, "run.duration=0.5"),
}


class Recorded:
    """A recording with all that is told of it."""

    def __init__(self, bag: Bag) -> None:
        self.bag, self.closed_loop = bag, bag.closed_loop()
        self.layout = Layout.of(self.closed_loop)
        self.moments = list(moments_of_bag(bag, self.closed_loop))

    def written(self, tool: str) -> Path:
        """The export for a tool, which is made once."""
        neighbour(LIBRARIES[tool])
        file = self.bag.file.with_name(f"{tool}{EXPORTS[tool].ending}")
        if not file.exists():
            export(self.bag, self.closed_loop, tool, file)
        return file


@pytest.fixture(scope="module", params=RUNS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    if request.param == "robot" and not MUJOCO:
        pytest.skip(NO_MUJOCO)
    launch, *settings = RUNS[request.param]
    return Recorded(recording(tmp_path_factory.mktemp(request.param), launch, *settings))


@pytest.fixture(scope="module")
def trailer(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    launch, *settings = RUNS["trailer"]
    return Recorded(recording(tmp_path_factory.mktemp("alone"), launch, *settings))


def read(file: Path, factory: Any) -> Iterator[tuple[str, Any, Any, int, Any]]:
    """Topic, schema, channel, time [ns] and decoded message of each message of an MCAP file."""
    with file.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[factory] if factory else [])
        for schema, channel, message in reader.iter_messages():
            assert schema is not None
            decoder = factory.decoder_for(channel.message_encoding, schema) if factory else None
            yield channel.topic, schema, channel, message.log_time, decoder(message.data) if decoder else message.data


def plain(message: Any) -> Any:
    """A decoded message of ROS 2 as nested dicts, lists and numbers."""
    if hasattr(message, "__slots__"):
        return {name.lstrip("_"): plain(getattr(message, name)) for name in message.__slots__}
    return [plain(each) for each in message] if isinstance(message, (list, tuple)) else message


def same(found: Any, told: Any) -> bool:
    """Whether nested values have the same bits, NaN included."""
    if isinstance(told, dict):
        return found.keys() == told.keys() and all(same(found[name], each) for name, each in told.items())
    if isinstance(told, list):
        return len(found) == len(told) and all(map(same, found, told))
    return bool(found == told or (found != found and told != told))


def told_to_ros2(recorded: Recorded) -> list[tuple[str, str, int, dict[str, Any]]]:
    befores = [None, *recorded.moments]
    return [
        (name, kind, each.stamp_ns, message)
        for before, each in zip(befores, recorded.moments, strict=False)
        for name, kind, message in messages(recorded.layout, each, before)
    ]


def test_ros2_reads_every_message_that_was_told_to_the_bit(recorded: Recorded) -> None:
    factory = oracle("mcap_ros2.decoder").DecoderFactory()
    file = recorded.written("ros2")
    found = list(read(file, factory))
    told = told_to_ros2(recorded)
    assert len(found) == len(told)
    by_time = sorted(told, key=lambda each: each[2])
    times = [time for *_, time, _ in found]
    assert times == sorted(times)
    groups: dict[Any, list[Any]] = defaultdict(list)
    for name, kind, time, message in by_time:
        groups[name, kind, time].append(message)
    for name, schema, channel, time, message in found:
        assert (schema.encoding, channel.message_encoding) == ("ros2msg", "cdr")
        wanted = groups[name, schema.name, time].pop(0)
        assert same(plain(message), wanted), (name, plain(message), wanted)


def test_ros2_types_are_the_published_definitions(recorded: Recorded) -> None:
    typesys = neighbour("rosbags.typesys")
    file = recorded.written("ros2")
    seen = {schema.name: schema.data.decode() for _, schema, *_ in read(file, None)}
    for release in (typesys.Stores.ROS2_HUMBLE, typesys.Stores.ROS2_JAZZY):
        store = typesys.get_typestore(release)
        for name, text in seen.items():
            known = typesys.get_types_from_msg(text, name)[name]
            assert known[1] == store.fielddefs[name][1], (release, name)  # fields; constants do not travel


def test_ros2_joint_states_are_the_runs_states_to_the_bit(recorded: Recorded) -> None:
    factory = oracle("mcap_ros2.decoder").DecoderFactory()
    file = recorded.written("ros2")
    run = runs_in(recorded.bag, recorded.closed_loop)[-1]
    found = [message for name, *_, message in read(file, factory) if name == "/joint_states"]
    rows = np.searchsorted(run.t, [each.t for each in recorded.moments])
    names = [name.replace("-", "_") for name in found[0].name]
    for i, each in zip(rows, found, strict=True):
        assert list(each.position) == [run.state[name][i] for name in names]


def test_ros2_odometry_is_the_transform_of_its_frame(recorded: Recorded) -> None:
    factory = oracle("mcap_ros2.decoder").DecoderFactory()
    found: dict[str, list[Any]] = defaultdict(list)
    for name, *_, message in read(recorded.written("ros2"), factory):
        found[name].append(message)
    assert recorded.layout.base
    assert len(found["/odom"]) == len(found["/tf"]) == len(recorded.moments)
    for odom, tf in zip(found["/odom"], found["/tf"], strict=True):
        first = tf.transforms[0]
        assert (odom.header.frame_id, odom.child_frame_id) == (first.header.frame_id, first.child_frame_id)
        assert plain(odom.pose.pose.position) == plain(first.transform.translation)
        assert plain(odom.pose.pose.orientation) == plain(first.transform.rotation)


def test_rosbags_reads_the_export_too(trailer: Recorded) -> None:
    file = trailer.written("ros2")
    highlevel = neighbour("rosbags.highlevel")
    with highlevel.AnyReader([file]) as reader:
        kinds = {each.topic: each.msgtype for each in reader.connections}
        assert kinds["/goal/x_y"] == "geometry_msgs/msg/PointStamped"
        assert kinds["/input/U1"] == kinds["/residual/heading"] == "std_msgs/msg/Float64"
        assert kinds["/diagnostics"] == "diagnostic_msgs/msg/DiagnosticArray"
        for connection, _, data in reader.messages():
            reader.deserialize(data, connection.msgtype)


def test_diagnostics_come_once_a_second_and_when_something_changes(trailer: Recorded) -> None:
    told = [time for name, _, time, _ in told_to_ros2(trailer) if name == "/diagnostics"]
    changes = [
        each.stamp_ns
        for before, each in zip(trailer.moments, trailer.moments[1:], strict=False)
        if (before.lifecycle, before.fault) != (each.lifecycle, each.fault)
    ]
    seconds = {each.stamp_ns // 10**9 for each in trailer.moments}
    assert set(changes) <= set(told)
    assert len(told) <= len(seconds) + len(changes)


def test_names_of_topics_are_names_of_ros() -> None:
    assert topic("input", "left-wheel torque") == "/input/left_wheel_torque"
    assert topic("goal", "a__b") == "/goal/a_b"
    assert topic("residual", "2nd") == "/residual/n2nd"


def check_foxglove(recorded: Recorded, file: Path) -> None:
    factory = oracle("mcap_protobuf.decoder").DecoderFactory()
    known = neighbour("foxglove.messages")
    frames, counts, last = {"world", *recorded.layout.frames}, defaultdict(int), 0
    validator = json_validator(values_schema(recorded.layout))
    told: Iterator[Moment] = iter(recorded.moments)
    for name, schema, channel, time, message in read(file, factory):
        counts[name] += 1
        assert time >= last
        last = time
        if name == "/values":
            assert json.loads(schema.data) == values_schema(recorded.layout)
            content = json.loads(message)
            validator.validate(content)
            assert content == values(recorded.layout, next(told))
            continue
        assert channel.message_encoding == schema.encoding == "protobuf"
        assert schema.data == getattr(known, schema.name.removeprefix("foxglove.")).get_schema().data
        if name == "/tf":
            check_transforms(message, recorded.layout)
        if name in ("/scene", "/solids"):
            assert {each.frame_id for each in message.entities} <= frames
    moments = len(recorded.moments)
    assert counts["/values"] == counts["/scene"] == moments
    assert counts["/tf"] == moments
    assert counts["/solids"] == bool(recorded.layout.solids)
    assert counts["/log"] == sum(len(each.events) for each in recorded.moments)


def check_transforms(message: Any, layout: Layout) -> None:
    assert [each.child_frame_id for each in message.transforms] == list(layout.frames)
    for each in message.transforms:
        q = each.rotation
        assert q.x**2 + q.y**2 + q.z**2 + q.w**2 == pytest.approx(1.0, abs=1e-12)


def test_foxglove_has_messages_of_its_own_schemas_in_known_frames(recorded: Recorded) -> None:
    check_foxglove(recorded, recorded.written("foxglove"))


def test_foxglove_shows_outline_and_goal_where_they_are(trailer: Recorded) -> None:
    factory = oracle("mcap_protobuf.decoder").DecoderFactory()
    file = trailer.written("foxglove")
    drawn = [message for name, *_, message in read(file, factory) if name == "/scene"]
    for moment, message in zip(trailer.moments, drawn, strict=True):
        entities = {each.id: each for each in message.entities}
        lines = [np.array([(p.x, p.y, p.z) for p in line.points]) for line in entities["machine"].lines]
        for line, wanted in zip(lines, (each for each in moment.lines if len(each) > 1), strict=True):
            np.testing.assert_array_equal(line, wanted)
        if np.isfinite(moment.points["x_y"]).all():
            at = entities["goals"].spheres[0].pose.position
            assert [at.x, at.y, at.z] == moment.points["x_y"].tolist()


def chunks_of(file: Path) -> dict[str, Any]:
    """The columns of each entity of a file of rerun, as its SDK reads them."""
    reader = neighbour("rerun.chunk").RrdReader(file)
    found: dict[str, list[Any]] = defaultdict(list)
    for chunk in reader.stream().to_chunks():
        found[chunk.entity_path].append(chunk.to_record_batch())
    return found


def column(batches: list[Any], name: str) -> Any:
    """A column of an entity in the order of the wall clock."""
    rows = [
        (wall.value, value.as_py())
        for batch in batches
        for wall, value in zip(batch.column("wall"), batch.column(name), strict=True)
    ]
    return sorted(rows, key=lambda row: row[0])


def test_rerun_reads_joints_frames_and_times_back(recorded: Recorded) -> None:
    found = chunks_of(recorded.written("rerun"))
    stamps = [each.stamp_ns for each in recorded.moments]
    for j, name in enumerate(recorded.layout.joints):
        rows = column(found[f"/joint/{name}"], "Scalars:scalars")
        assert [stamp for stamp, _ in rows] == stamps
        assert [value[0] for _, value in rows] == [each.positions[j] for each in recorded.moments]
    for i, name in enumerate(recorded.layout.frames):
        rows = column(found[f"/world/{name}"], "Transform3D:translation")
        places = np.array([value[0] for _, value in rows])
        np.testing.assert_allclose(places, [each.poses[i, :, 3] for each in recorded.moments], rtol=1e-6, atol=1e-6)
    solids = [path for path in found if "/solid_" in path]
    assert len(solids) == len(recorded.layout.solids)


def command(*words: str) -> Any:
    return CliRunner().invoke(servonode_main, ["bag", "export", *words])


@pytest.mark.parametrize("tool", EXPORTS)
def test_the_command_writes_each_export_and_refuses_other_endings(trailer: Recorded, tool: str, tmp_path: Path) -> None:
    neighbour(LIBRARIES[tool])
    known = EXPORTS[tool]
    file = tmp_path / f"out{known.ending}"
    result = command(str(trailer.bag.file), str(file), f"--{tool}", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[known.unit] > 100
    wrong = command(str(trailer.bag.file), str(tmp_path / "out.csv"), f"--{tool}")
    assert wrong.exit_code == 2
    assert f"an export with --{tool} is an {known.ending} file; name it out{known.ending}" in wrong.stderr
    again = command(str(trailer.bag.file), str(file), f"--{tool}")
    assert again.exit_code == 2
    assert "exists already" in again.stderr


def test_two_tools_at_once_are_refused(trailer: Recorded, tmp_path: Path) -> None:
    result = command(str(trailer.bag.file), str(tmp_path / "out.mcap"), "--ros2", "--foxglove")
    assert result.exit_code == 2
    assert "--ros2 and --foxglove exclude each other; give one of them" in result.stderr
    result = command(str(trailer.bag.file), str(tmp_path / "out.rrd"), "--rerun", "--topic", "plant/state")
    assert "--rerun and --topic exclude each other" in result.stderr


@pytest.mark.parametrize("tool", EXPORTS)
def test_a_missing_library_is_named_with_its_remedy(
    trailer: Recorded, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(libraries, "import_module", absent)
    file = tmp_path / f"out{EXPORTS[tool].ending}"
    result = command(str(trailer.bag.file), str(file), f"--{tool}")
    extra = "rerun" if tool == "rerun" else "neighbours"
    assert result.exit_code == 2
    assert f'pip install "servonode[{extra}]"' in result.stderr
    assert not list(tmp_path.glob("out*"))


def test_what_is_not_known_is_left_out_of_every_message(trailer: Recorded) -> None:
    first = trailer.moments[0]
    unknown = dict.fromkeys(first.residuals, np.nan)
    moment = Moment(**{**vars(first), "residuals": unknown, "points": {"x_y": np.full(3, np.nan)}})
    names = [name for name, *_ in messages(trailer.layout, moment)]
    assert not [name for name in names if name.startswith(("/residual", "/goal"))]
    assert values(trailer.layout, moment)["residual"] == {}
