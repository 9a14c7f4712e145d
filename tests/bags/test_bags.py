"""Recordings of real runs: read by the MCAP library alone, looked into, cut off, recovered, exported, replayed."""

import json
import math
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.records import Attachment, Channel, Message, Metadata, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import Writer

from servonode.cli.start_checks import bag_file
from servonode.closed_loop.launch_file import launch_of_table, table_of
from servonode.record.bag import read_bag
from servonode.record.mcap_records import DRAWN
from servonode.simulation.replay import replay
from servonode.version import VERSION
from tests.helpers.extras import json_validator, oracle
from tests.helpers.recorded import recorded
from tests.helpers.refusals import command as servo
from tests.helpers.refusals import refused_command as refused

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

Change = Callable[[str, bytes], bytes | None]  # name of an attachment, a metadata or a topic, content; None: left out

QUIET = ("plant.safety.command_timeout_floor=5", "plant.safety.lateness_limit=10")  # a busy host is not tested


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("lockstep") / "trailer_pursuit_lockstep.mcap"
    return recorded(file, "trailer_pursuit_lockstep", "run.duration=4")


@pytest.fixture(scope="module")
def realtime(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """The recording, and times of the wall's clock between which its messages lie [ns]."""
    began = time.time_ns()
    file = tmp_path_factory.mktemp("realtime") / "trailer_pursuit.mcap"
    recorded(file, "trailer_pursuit", "run.duration=3", "run.speed=2", "plant.publish_every=1")
    return file, began, time.time_ns() + 1_600_000_000


def messages(file: Path) -> list[tuple[str, Any, Any]]:
    """Topic, schema and record of each message, by the library alone."""
    with file.open("rb") as stream:
        return [(channel.topic, schema, message) for schema, channel, message in make_reader(stream).iter_messages()]


def of_nodes(file: Path) -> list[tuple[str, Any, Any]]:
    """The same without what viewers draw, which stands behind the others."""
    return [each for each in messages(file) if not each[0].startswith(DRAWN)]


def changed(whole: Path, file: Path, change: Change) -> Path:
    """The recording written again, with other content of the same kind."""
    schemas: dict[int, int] = {}
    channels: dict[int, tuple[int, str]] = {}
    with whole.open("rb") as source, file.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        for record in StreamReader(source).records:
            if isinstance(record, Schema) and record.id not in schemas:
                schemas[record.id] = writer.register_schema(record.name, record.encoding, record.data)
            elif isinstance(record, Channel) and record.id not in channels:
                number = writer.register_channel(record.topic, "json", schemas[record.schema_id])
                channels[record.id] = number, record.topic
            elif isinstance(record, Message):
                number, topic = channels[record.channel_id]
                if (data := change(topic, record.data)) is not None:
                    writer.add_message(number, record.log_time, data, record.publish_time, record.sequence)
            elif isinstance(record, Attachment) and (data := change(record.name, record.data)) is not None:
                writer.add_attachment(0, 0, record.name, record.media_type, data)
            elif isinstance(record, Metadata):
                text = change(record.name, json.dumps(record.metadata).encode())
                metadata = json.loads(text or b"{}")
                writer.add_metadata(record.name, {key: metadata[key] for key in metadata if key != "checksum"})
        writer.finish()
    return file


def only(name: str, content: Callable[[bytes], bytes | None]) -> Change:
    """Change what has this name alone."""
    return lambda each, data: content(data) if each == name else data


# what the library alone reads


def test_schemas_times_and_numbers_hold_for_every_mcap_reader(
    realtime: tuple[Path, int, int],
) -> None:
    file, began, ended = realtime
    numbers: dict[str, list[int]] = {}
    validators: dict[int, Any] = {}
    for topic, schema, message in messages(file):
        content = json.loads(message.data)
        assert (schema.encoding, topic != "") == ("jsonschema", True)
        validator = validators.setdefault(schema.id, json_validator(json.loads(schema.data)))
        node, _, word = topic.partition("/")
        frequent = word != "status" and (node in ("controller", "target") or topic in ("plant/state", "plant/applied"))
        if not frequent or len(numbers.get(topic, ())) % 20 == 0:  # they are alike, and validation is slow
            validator.validate(content)
        assert set(content) <= set(validator.schema["properties"]), topic
        assert began < message.log_time == message.publish_time < ended
        if topic != "run/events" and not topic.startswith(DRAWN):
            assert message.sequence == content["seq"]
            numbers.setdefault(topic, []).append(message.sequence)
    for topic, found in numbers.items():
        distinct = sorted(set(found))
        assert distinct == list(range(distinct[-1] + 1)), topic
    assert len(numbers["plant/state"]) >= 3001  # at 1 kHz, both ends included
    assert {"plant/state", "plant/applied", "controller/command", "controller/report", "target/target"} < numbers.keys()
    states = [message for topic, _, message in messages(file) if topic == "plant/state"]
    log = np.array([each.log_time for each in states])
    t = np.array([json.loads(each.data)["t"] for each in states])
    assert np.all(np.diff(log) >= 0)
    assert (log[-1] - log[0]) / 1e9 == pytest.approx((t[-1] - t[0]) / 2, rel=0.02)  # speed 2


def test_metadata_says_what_was_run_by_what(lockstep: Path) -> None:
    with lockstep.open("rb") as stream:
        reader = make_reader(stream)
        metadata = {each.name: each.metadata for each in reader.iter_metadata()}
        attachments = {each.name: each.data for each in reader.iter_attachments()}
        header = reader.get_header()
    about = metadata["servonode"]
    assert header.library == f"servonode {VERSION}"
    assert (about["machine"], about["program"], about["mode"], about["seed"]) == (
        "diff_drive_trailer", "pursuit", "lockstep", "1",
    )  # fmt: skip
    assert about["servonode"] == VERSION
    assert len(json.loads(about["kernels"])) >= 2
    assert json.loads(attachments["launch.json"])["table"]["run"]["duration"] == 4
    written = launch_of_table(tomllib.loads(attachments["launch.toml"].decode()))
    assert table_of(written) == json.loads(attachments["launch.json"])["table"]
    assert json.loads(metadata["servonode_ending"]["ended"]) == "completed"


# info


def test_info_shows_what_is_in_it(lockstep: Path) -> None:
    result = servo("bag", "info", str(lockstep), "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["topics"]["controller/command"], found["missing"]) == (0, 401, {})
    assert (found["rows"], found["t_end"], found["ended"], found["damage"]) == (
        {"plant": 4001, "controller": 401}, 4.0, "completed", [],
    )  # fmt: skip
    events = [(each["node"], each["event"], each["text"]) for each in found["events"]]
    assert ("plant", "lifecycle", "active") in events
    assert events[-1] == ("plant", "lifecycle", "finished")
    text = servo("bag", "info", str(lockstep)).stdout
    assert "Run:         " in text
    assert "  controller/command             401\n" in text


# rows


def test_a_recording_gives_the_rows_that_out_writes(lockstep: Path, tmp_path: Path) -> None:
    csv, written = tmp_path / "rows.csv", tmp_path / "written.csv"
    result = servo("bag", "export", str(lockstep), str(csv))
    assert (result.exit_code, result.stdout) == (0, f"{csv} (4001 rows)\n")
    words = ("--set", "run.duration=4", "--loop", "nodes", "--every", "1", "--output", str(written))
    assert servo("simulate", "trailer_pursuit_lockstep", *words).exit_code == 0
    assert csv.read_bytes() == written.read_bytes()


def test_rows_are_exported_with_all_digits_in_each_format(lockstep: Path, tmp_path: Path) -> None:
    pq = oracle("pyarrow.parquet")

    for name in ("rows.npz", "rows.parquet", "commands.npz", "commands.csv", "commands.parquet"):
        topic = ("--topic", "controller/command") if name.startswith("commands") else ()
        assert servo("bag", "export", str(lockstep), str(tmp_path / name), *topic).exit_code == 0
    bag = read_bag(lockstep)
    (run,) = bag.runs(bag.closed_loop())
    with np.load(tmp_path / "rows.npz") as arrays:
        assert arrays["unit of V"] == "m/s"
        table = pq.read_table(tmp_path / "rows.parquet")
        assert table.schema.field("V").metadata == {b"unit": b"m/s"}
        for name, column in run.columns.items():
            np.testing.assert_array_equal(arrays[name], column)
            np.testing.assert_array_equal(table[name].to_numpy(), column)
    commands = [json.loads(m.data) for topic, _, m in messages(lockstep) if topic == "controller/command"]
    with np.load(tmp_path / "commands.npz") as arrays:
        np.testing.assert_array_equal(arrays["input.U1"], [each["input"]["U1"] for each in commands])
    first = (tmp_path / "commands.csv").read_text().splitlines()[1].split(",")
    assert float(first[1]) == commands[0]["t"]


# replay


@pytest.mark.parametrize("kind", ["lockstep", "realtime"])
def test_the_controller_computes_every_command_anew_bit_by_bit(
    kind: str, lockstep: Path, realtime: tuple[Path, int, int]
) -> None:
    result = servo("replay", str(lockstep if kind == "lockstep" else realtime[0]), "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["differing"], found["left_out"], found["fields"]) == (0, 0, 0, {}), result.stderr
    assert found["compared"] == 401 if kind == "lockstep" else found["compared"] > 50


def test_again_refuses_a_recording_in_real_time(realtime: tuple[Path, int, int]) -> None:
    assert "recorded in real time, where no two runs are equal" in refused("replay", str(realtime[0]), "--again")


def test_replay_finds_the_first_step_of_a_gain_changed_by_one_bit(lockstep: Path) -> None:
    bag = read_bag(lockstep)
    control = bag.closed_loop().control
    assert control is not None
    gain = math.nextafter(float(control.gains.K1[1, 1]) / 2, math.inf)  # of relative degree 2: K1 = 2 lambda
    setting = f"controller.gains.lambda_heading={gain!r}"
    changed = bag.closed_loop([setting])
    first = next((k for k, was, now in laws_at_control_instants(bag, changed) if was != now), None)
    result = servo("replay", str(lockstep), "--diff", "--json", "--set", setting)
    found = json.loads(result.stdout)["first"]
    assert (result.exit_code, min(each["k"] for each in found.values())) == (1, first)
    assert {each["name"] for each in found.values()} <= {"input.U1", "input.U2"}
    line = servo("replay", str(lockstep), "--set", setting).stdout.splitlines()[1]
    assert line.startswith(f"  step {first}, t = {first / 1000:g} s: input.U")


def laws_at_control_instants(bag: Any, changed: Any) -> Iterator[tuple[int, list[float], list[float]]]:
    """Step, recorded inputs, inputs of the changed law: evaluated without any node, on the goal's own expressions."""
    law, targets = changed.control.law, changed.targets
    y, goal = np.zeros(law.goal_layout.size), np.zeros(len(targets.entries))
    states = {m["k"]: m for _, _, m in bag.messages(("plant/state",))}
    for _, _, command in bag.messages(("controller/command",)):
        k = command["k"]
        t = states[k]["t"]
        x = np.append(list(states[k]["state"].values()), 0.0)[: len(states[k]["state"])]
        targets.evaluate(t, goal)
        y[law.goal_layout.targets] = goal
        yield k, list(command["input"].values()), law.evaluate(t, x, y).inputs.tolist()


def test_one_bit_of_one_command_is_found_and_named(lockstep: Path, tmp_path: Path) -> None:
    def altered(data: bytes) -> bytes:
        content = json.loads(data)
        if content["k"] == 1230:
            content["input"]["U2"] = math.nextafter(content["input"]["U2"], math.inf)
        return json.dumps(content).encode()

    bag = read_bag(changed(lockstep, tmp_path / "altered.mcap", only("controller/command", altered)))
    found = replay(bag, bag.closed_loop())
    assert (found.compared, found.differing_messages, dict(found.differing)) == (401, 1, {"input.U2": 1})
    first = found.first["input.U2"]
    assert (first.k, first.t, first.recorded) == (1230, 1.23, math.nextafter(first.computed, math.inf))


# bags that are cut off, damaged, foreign


def test_recovery_of_a_cut_bag_keeps_all_before_the_cut(lockstep: Path, tmp_path: Path) -> None:
    whole, size = of_nodes(lockstep), lockstep.stat().st_size
    with lockstep.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    begin = summary.chunk_indexes[0].chunk_start_offset
    counts = []
    for number, end in enumerate([*np.linspace(begin + 100, size - 1, 5).astype(int)]):
        file = tmp_path / f"{number}.mcap"
        file.write_bytes(lockstep.read_bytes()[:end])
        found = json.loads(servo("bag", "info", str(file), "--json").stdout)
        assert found["damage"] == ["its end is cut off; servonode bag recover makes it whole"]
        result = servo("bag", "recover", str(file))
        made = tmp_path / f"{number}.recovered.mcap"
        assert result.exit_code == 0, result.stderr
        kept = of_nodes(made)
        counts.append(len(kept))
        assert [m.data for *_, m in kept] == [m.data for *_, m in whole][: len(kept)]
        assert made.stat().st_size > 0
    assert counts == sorted(counts)
    assert counts[-1] == len(whole)
    assert refused("bag", "recover", str(lockstep)) == f"{lockstep}: is whole; there is nothing to recover"


def test_a_damaged_chunk_costs_its_messages_alone(lockstep: Path, tmp_path: Path) -> None:
    with lockstep.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert len(summary.chunk_indexes) > 1
    first = summary.chunk_indexes[0]
    data = bytearray(lockstep.read_bytes())
    data[first.chunk_start_offset + first.chunk_length // 2] ^= 0xFF
    file = tmp_path / "damaged.mcap"
    file.write_bytes(data)
    (text,) = json.loads(servo("bag", "info", str(file), "--json").stdout)["damage"]
    assert text.startswith("a chunk of ")
    made = tmp_path / "made.mcap"
    assert servo("bag", "recover", str(file), "--output", str(made)).exit_code == 0
    assert 0 < len(messages(made)) < len(messages(lockstep))


def test_a_recording_of_format_1_is_read(lockstep: Path, tmp_path: Path) -> None:
    def first(name: str, data: bytes) -> bytes:
        return data.replace(b'"format": "2"', b'"format": "1"') if name == "servonode" else data

    bag = read_bag(changed(lockstep, tmp_path / "first.mcap", first))
    assert (bag.about["format"], bag.damage, len(bag.rows.newest("plant"))) == ("1", [], 4001)


def test_what_is_no_recording_is_refused_in_one_line(lockstep: Path, tmp_path: Path) -> None:
    absent, text, foreign, later = (tmp_path / name for name in ("absent.mcap", "a.mcap", "b.mcap", "c.mcap"))
    text.write_text("t,X\n0,0\n")
    with foreign.open("wb") as stream:
        writer = Writer(stream)
        writer.start(library="rosbag2")
        writer.finish()
    with later.open("wb") as stream:
        writer = Writer(stream)
        writer.start(library="servonode 9.0")
        writer.add_metadata("servonode", {"format": "9", "servonode": "9.0"})
        writer.add_attachment(0, 0, "launch.json", "application/json", b"{}")
        writer.finish()
    because = {
        absent: "cannot be read (No such file or directory); give the .mcap file of a recording",
        text: "not a recording; give an .mcap file, or the .spool file that a killed run left",
        foreign: "an MCAP file, but not a recording of servonode (rosbag2); give one of run --record",
        later: "written by servonode 9.0 in format 9, this version reads formats 1 and 2; use that version",
    }
    for file, why in because.items():
        for words in (("bag", "info"), ("replay",), ("bag", "recover"), ("bag", "report")):
            assert refused(*words, str(file)) == f"{file}: {why}"
    assert refused("bag", "export", str(lockstep), "rows.xls") == (
        "rows.xls: is not a format of exports; name it FILE.csv, FILE.npz, FILE.parquet"
    )
    line = refused("bag", "export", str(lockstep), str(tmp_path / "a.csv"), "--topic", "plant/stat")
    assert line.startswith(f"{lockstep}: holds no topic 'plant/stat'; choose controller/command, ")
    there = tmp_path / "there.csv"
    there.write_text("mine")
    assert refused("bag", "export", str(lockstep), str(there)).startswith(f"{there} exists already; name another file")
    assert there.read_text() == "mine"


# a run goes on


@pytest.mark.usefixtures("runs")
def test_without_a_run_there_is_nothing_to_record() -> None:
    assert refused("record") == "no run is in progress; start one with servonode run FILE"


def test_recordings_do_not_overwrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there.mcap"
    there.write_bytes(b"")
    line = refused("run", "trailer_pursuit", "--record", str(there))
    assert line.startswith(f"--record {there}: the file exists already; name another file, or remove it")
    line = refused("run", "trailer_pursuit", "--record", str(tmp_path / "a.csv"))
    assert "a recording is an MCAP file; name it FILE.mcap" in line
    monkeypatch.chdir(tmp_path)
    for name in ("r.mcap", "r.2.mcap", "r.3.mcap"):
        assert bag_file("", "r") == Path(name)
        spool = Path(f"{name}.spool")  # of another run
        spool.touch()
        assert "another run records there, or was killed; name another file" in refused(
            "run", "trailer_pursuit", "--record", name
        )


# docs


def test_script_of_the_docs_needs_no_servonode(lockstep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how_to" / "recordings.md").read_text()
    script = text.partition("```python\n")[2].partition("```")[0]
    assert "servonode" not in script
    assert len(script.strip().splitlines()) <= 11
    shutil.copy(lockstep, tmp_path / "pursuit.mcap")
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "recordings.md", "exec"), {})  # noqa: S102  (the page's own)
    plt.close("all")
    assert (tmp_path / "hitch.png").read_bytes().startswith(b"\x89PNG")
