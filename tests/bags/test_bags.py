"""Recordings of real runs: read by the MCAP library alone, looked into, cut off, recovered, exported, replayed."""

import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from mcap.reader import make_reader
from mcap.records import Attachment, Channel, Message, Metadata, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import Writer

from servonode.cli.main import main
from servonode.closed_loop.launch_file import launch_of_table, table_of
from servonode.record.bag import read_bag
from servonode.record.info import info
from servonode.record.mcap_records import DRAWN
from servonode.simulation.replay import replay
from servonode.version import VERSION
from tests.helpers.extras import json_validator, oracle
from tests.helpers.runs import MANY, START_S, Runs, eventually, operator, private_runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
Change = Callable[[str, bytes], bytes | None]  # name of an attachment, a metadata or a topic, content; None: left out
QUIET = ("plant.safety.command_timeout_floor=5", "plant.safety.lateness_limit=10")  # a busy host is not tested


def recorded(folder: Path, launch: str, *settings: str) -> Path:
    """The recording of a run that completed."""
    file = folder / f"{launch}.mcap"
    with private_runs(folder) as runs:
        run = runs.start(launch, *settings, words=("--record", str(file)))
        run.ends_with(0, START_S)
    return file


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("lockstep"), "trailer_pursuit_lockstep", "run.duration=4")


@pytest.fixture(scope="module")
def realtime(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """The recording, and the wall's clock before and after the run [ns]."""
    began = time.time_ns()
    folder = tmp_path_factory.mktemp("realtime")
    file = recorded(folder, "trailer_pursuit", "run.duration=3", "run.speed=2", "plant.publish_every=1", *QUIET)
    return file, began, time.time_ns()


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


def servo(*words: str) -> "subprocess.CompletedProcess[str]":
    """The command line in this process, for what starts no other."""
    result = CliRunner().invoke(main, words)
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)


def refused(*words: str) -> str:
    """The one line with which the command is refused."""
    result = servo(*words)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), (result.stdout, result.stderr)
    return result.stderr.removeprefix("servonode: ").rstrip()


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
    assert (log[-1] - log[0]) / 1e9 == pytest.approx((t[-1] - t[0]) / 2, rel=0.2)  # speed 2


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
    assert (result.returncode, found["topics"]["controller/command"], found["missing"]) == (0, 401, {})
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
    csv = tmp_path / "rows.csv"
    result = servo("bag", "export", str(lockstep), str(csv))
    assert (result.returncode, result.stdout) == (0, f"{csv} (4001 rows)\n")
    written = next(lockstep.parent.rglob("*.csv"))
    assert csv.read_bytes() == written.read_bytes()


def test_rows_are_exported_with_all_digits_in_each_format(lockstep: Path, tmp_path: Path) -> None:
    pq = oracle("pyarrow.parquet")

    for name in ("rows.npz", "rows.parquet", "commands.npz", "commands.csv", "commands.parquet"):
        topic = ("--topic", "controller/command") if name.startswith("commands") else ()
        assert servo("bag", "export", str(lockstep), str(tmp_path / name), *topic).returncode == 0
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
    assert (result.returncode, found["differing"], found["left_out"], found["fields"]) == (0, 0, 0, {}), result.stderr
    assert found["compared"] == 401 if kind == "lockstep" else found["compared"] > 50


def test_again_refuses_a_recording_in_real_time(realtime: tuple[Path, int, int]) -> None:
    assert "recorded in real time, where no two runs are equal" in refused("replay", str(realtime[0]), "--again")


def test_again_gives_the_identical_recording(lockstep: Path) -> None:
    result = operator("replay", str(lockstep), "--again", "--json")
    found = json.loads(result.stdout)
    assert (result.returncode, found["differing"]) == (0, 0), result.stdout
    assert found["compared"] > 3 * 401


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
    assert (result.returncode, min(each["k"] for each in found.values())) == (1, first)
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
        assert result.returncode == 0, result.stderr
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
    assert servo("bag", "recover", str(file), "--out", str(made)).returncode == 0
    assert 0 < len(messages(made)) < len(messages(lockstep))


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
        later: "written by servonode 9.0 in format 9, this version reads format 1; use that version",
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


def test_recordings_do_not_overwrite(tmp_path: Path) -> None:
    there = tmp_path / "there.mcap"
    there.write_bytes(b"")
    line = refused("run", "trailer_pursuit", "--record", str(there))
    assert line.startswith(f"--record {there}: the file exists already; name another file, or remove it")
    line = refused("run", "trailer_pursuit", "--record", str(tmp_path / "a.csv"))
    assert "a recording is an MCAP file; name it FILE.mcap" in line
    words = ["run", "trailer_pursuit_lockstep", "--set", "run.duration=0.2", "--no-report", "--record", "--name", "r"]
    for number in (1, 2):
        assert operator(*words, cwd=tmp_path).returncode == 0
        assert sorted(each.name for each in tmp_path.glob("r*.mcap")) == ["r.2.mcap", "r.mcap"][-number:]


# a run goes on


def test_a_run_that_goes_on_is_recorded_by_listening(runs: Runs, tmp_path: Path) -> None:
    run = runs.start("trailer_pursuit", "run.speed=1", "run.duration=600", *QUIET)
    run.wait_open()
    file = tmp_path / "listened.mcap"
    command = [sys.executable, "-m", "servonode.cli.main", "record", run.name, "--out", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{run.name}: recording into {file}; Ctrl-C ends it\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=START_S)
    run.stop()
    assert process.returncode in (0, 1), err  # 1: a busy host has made it miss messages, which it says
    assert out.startswith(f"{file} (")
    found = json.loads(servo("bag", "info", str(file), "--json").stdout)
    assert found["topics"]["plant/state"] > 50
    result = servo("replay", str(file), "--json")
    assert json.loads(result.stdout)["differing"] == 0, result.stdout
    assert servo("bag", "report", str(file), "--report", str(tmp_path / "report.png"), "--json").returncode == 0
    assert (tmp_path / "report.png").stat().st_size > 10_000


def test_without_a_run_there_is_nothing_to_record(runs: Runs) -> None:
    assert refused("record") == "no run is in progress; start one with servonode run FILE"


# deaths and disks


def killed_after(runs: Runs, seconds: float) -> tuple[Path, int]:
    """The recording of a run of which all processes were killed, and when [monotonic ns]."""
    file = runs.folder / f"{time.monotonic_ns()}.mcap"
    run = runs.start("trailer_pursuit", "run.speed=1", "run.duration=600", *QUIET, words=("--record", str(file)))
    run.wait_open()
    time.sleep(seconds)
    victims = [run.popen.pid, run.writer(), *run.pids().values()]
    killed = time.monotonic_ns()
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    run.popen.wait(START_S)
    return Path(f"{file}.spool"), killed


def assert_at_most_lost(spool: Path, killed: int, seconds: float) -> float:
    bag = read_bag(Path(str(spool).removesuffix(".spool")))  # by the name that it would have had
    last = max(mono for mono, *_ in bag.messages())
    assert (killed - last) / 1e9 <= seconds
    return (killed - last) / 1e9


def test_when_all_is_killed_the_spool_is_read_and_made_a_bag(runs: Runs) -> None:
    spool, killed = killed_after(runs, 1.0)
    assert_at_most_lost(spool, killed, 2.0)  # 0.6 s on a quiet machine, which the slow test asks for
    result = servo("bag", "recover", str(spool))
    assert result.returncode == 0, result.stderr
    made = Path(str(spool).removesuffix(".spool"))
    assert len(messages(made)) > 100
    assert servo("replay", str(made)).returncode == 0
    assert json.loads(servo("bag", "info", str(made), "--json").stdout)["ended"] == "killed"


@pytest.mark.slow
def test_random_deaths_cost_at_most_six_tenths_of_a_second(runs: Runs, rng: np.random.Generator) -> None:
    costs = []
    for _ in range(MANY // 4):
        spool, killed = killed_after(runs, float(rng.uniform(0.3, 2.0)))
        costs.append(assert_at_most_lost(spool, killed, 0.6))
        spool.unlink()
    print(f"\n{MANY // 4} deaths: at worst {max(costs):.3f} s lost")


@pytest.mark.slow
def test_a_recorder_that_is_killed_again_and_again_loses_nothing(runs: Runs, rng: np.random.Generator) -> None:
    file = runs.folder / "killed.mcap"
    run = runs.start("trailer_pursuit", "run.speed=1", "run.duration=600", *QUIET, words=("--record", str(file)))
    run.wait_open()
    killed = 0
    while killed < MANY // 2:
        time.sleep(float(rng.uniform(0.1, 1.0)))
        for writer in run.left_over(b"writer"):
            os.kill(writer, signal.SIGKILL)
            killed += 1
    time.sleep(2.0)
    run.popen.send_signal(signal.SIGTERM)
    run.ends_with(143)
    found = json.loads(servo("bag", "info", str(file), "--json").stdout)
    assert found["missing"] == {}
    assert found["topics"]["plant/state"] > 200
    assert json.loads(servo("replay", str(file), "--json").stdout)["differing"] == 0


def test_a_recording_that_reaches_a_limit_says_where_it_ended(runs: Runs, tmp_path: Path) -> None:
    file, settings = tmp_path / "a.mcap", ("run.duration=6", "run.speed=2", "plant.publish_every=1", *QUIET)
    words, limits = ("--record", str(file), "--every", "100"), {resource.RLIMIT_FSIZE: 400_000}
    run = runs.start("trailer_pursuit", *settings, words=words, limits=limits)
    assert run.popen.wait(START_S) == 1
    bag = read_bag(file)
    (text,) = re.findall(r"the recording ended at t = [1-5]\.\d\d\d s: File too large", bag.ended)
    assert f"servonode: {file}: {text}\n" in run.stderr
    assert (bag.ended, json.loads(bag.ending["exit"])) == (f"completed; {text}", 1)
    assert json.loads(bag.ending["lost_messages"])["plant"] > 100
    assert (len(bag.rows.newest("plant")), run.spools(), list(tmp_path.glob("*.spool"))) == (61, [], [])


def overwritten(file: Path) -> None:
    with Path(f"{file}.spool").open("r+b") as stream:
        stream.write(bytes(30))


def replaced(file: Path) -> None:
    Path(f"{file}.spool").unlink()
    Path(f"{file}.spool").write_text("another's")


@pytest.mark.parametrize(
    ("harm", "code", "says"),
    [
        (lambda file: file.write_text("another's"), 1, "cannot be written (File exists); what was recorded is kept: "),
        (overwritten, 1, " bytes are damaged or cut off, and left out"),
        (replaced, 0, ""),
    ],
)
def test_what_befalls_its_files_during_a_run_costs_no_recording(
    runs: Runs, tmp_path: Path, harm: Callable[[Path], None], code: int, says: str
) -> None:
    file = tmp_path / "a.mcap"
    run = runs.start("trailer_pursuit", "run.duration=1.5", "run.speed=1", *QUIET, words=("--record", str(file)))
    run.wait_open()
    spool = Path(f"{file}.spool")
    assert eventually(lambda: spool.stat().st_size > 30_000)
    harm(file)
    assert run.popen.wait(START_S) == code, run.stderr
    assert says in run.stderr
    assert "completed after 1.500 s" in run.stderr
    if file.read_bytes() == b"another's":
        command = run.stderr.partition("is kept: servonode ")[2].splitlines()[0].split()
        assert servo(*command).returncode == 0
        file = Path(command[-1])
    assert info(read_bag(file))["topics"]["plant/state"] == 151
    assert len(read_bag(file).rows.newest("plant")) == 1501
    assert spool.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_ends_the_recording_and_not_the_run(runs: Runs, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode()}")
    try:
        run = runs.start(
            "trailer_pursuit", "run.speed=3", "run.duration=4.5", "plant.publish_every=1", *QUIET,
            words=("--record", str(small / "a.mcap")),
        )  # fmt: skip
        assert run.popen.wait(START_S) == 1
        ended = tuple(run.printed[word] for word in ("t", "ended", "faults", "exit"))
        assert ended == (4.5, "completed", [], 1)
        spool = small / "a.mcap.spool"
        assert f"[writer] {spool}: cannot be written (No space left on device); the recording ends here" in run.stderr
        remedy = f"what was recorded is kept: servonode bag recover {spool}"
        assert f"a.mcap: cannot be written (No space left on device); {remedy}" in run.stderr
        out = tmp_path / "out.mcap"
        assert servo("bag", "recover", str(spool), "--out", str(out)).returncode == 0
        assert len(messages(out)) > 100
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


# docs


def test_script_of_the_docs_needs_no_servonode(lockstep: Path, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how_to" / "recordings.md").read_text()
    script = text.partition("```python\n")[2].partition("```")[0]
    assert "servonode" not in script
    assert len(script.strip().splitlines()) <= 11
    shutil.copy(lockstep, tmp_path / "pursuit.mcap")
    environment = {**os.environ, "MPLBACKEND": "agg"}
    subprocess.run([sys.executable, "-I", "-c", script], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "hitch.png").read_bytes().startswith(b"\x89PNG")
