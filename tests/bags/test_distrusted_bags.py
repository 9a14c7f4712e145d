"""Recordings that are damaged, or of a stranger: refused in one line, or read without what cannot be believed."""

import io
import json
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np
import pytest
import zstandard
from mcap.reader import make_reader

from servonode.record.bag import read_bag
from servonode.record.info import info, info_text
from servonode.record.mcap_records import Records, new_writer
from servonode.record.recover import recover_bag
from servonode.record.write import BagError, new_file
from servonode.simulation.replay import replay
from servonode.simulation.rows_of_messages import runs_in
from servonode.views.summary import summary_rows
from tests.bags.test_bags import Change, changed, only
from tests.helpers.recorded import recorded
from tests.helpers.refusals import command as servo
from tests.helpers.refusals import refused_command as refused
from tests.helpers.wings import needs_wing


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("whole") / "a.mcap", "trailer_pursuit_lockstep", "run.duration=0.5")


def with_values(**values: Any) -> Callable[[bytes], bytes]:
    """Other values in a JSON text; None takes a key away."""

    def change(data: bytes) -> bytes:
        content = json.loads(data) | values
        return json.dumps({name: value for name, value in content.items() if value is not None}).encode()

    return change


def of_rows(change: Callable[[dict[str, Any]], None]) -> Change:
    """Other arrays in the rows."""

    def changed_rows(data: bytes) -> bytes:
        arrays, packed = dict(np.load(io.BytesIO(data))), io.BytesIO()
        change(arrays)
        np.savez(packed, **arrays)
        return packed.getvalue()

    return only("rows.npz", changed_rows)


def bit_flipped(whole: Path, file: Path, content: bytes, after: int = 40) -> Path:
    """The recording with one bit changed behind where this content stands."""
    data = bytearray(whole.read_bytes())
    data[data.index(content) + after] ^= 1
    file.write_bytes(data)
    return file


def rewritten(whole: Path, file: Path, change: Callable[[int, bytes], bytes]) -> Path:
    """The recording with the content of its records changed, by their numbers, and nothing summed up anew."""
    data, at, made = whole.read_bytes(), 8, bytearray(whole.read_bytes()[:8])
    while at < len(data) - 8:
        kind, size = struct.unpack_from("<BQ", data, at)
        content = change(kind, data[at + 9 : at + 9 + size])
        made += struct.pack("<BQ", kind, len(content)) + content
        at += 9 + size
    file.write_bytes(made + data[-8:])
    return file


@pytest.mark.parametrize("key", [b"seed", b"wall_ns", b"processor", b"checksum"])
def test_metadata_with_one_other_bit_is_read_from_its_second_copy(tmp_path: Path, whole: Path, key: bytes) -> None:
    bag = read_bag(bit_flipped(whole, tmp_path / "flipped.mcap", key, len(key) + 4))
    assert (bag.about, bag.damage) == (read_bag(whole).about, ["the metadata 'servonode' is damaged; it is left out"])
    assert replay(bag, bag.closed_loop()).differing_messages == 0


def test_an_ending_with_one_other_bit_is_not_believed(tmp_path: Path, whole: Path) -> None:
    bag = read_bag(bit_flipped(whole, tmp_path / "flipped.mcap", b'"completed"', 4))
    assert (bag.ending, bag.damage) == ({}, ["the metadata 'servonode_ending' is damaged; it is left out"])


@pytest.mark.parametrize(("content", "after"), [(b"servonode 0", 3), (b"servonode.State", -30)])
def test_a_changed_byte_that_nothing_uses_is_told(tmp_path: Path, whole: Path, content: bytes, after: int) -> None:
    data = whole.read_bytes()
    place = data.index(content) if after > 0 else data.rindex(content)
    file = tmp_path / "flipped.mcap"
    file.write_bytes(data[: place + after] + bytes([data[place + after] ^ 1]) + data[place + after + 1 :])
    assert "its checksum is another" in info(read_bag(file))["damage"][0]
    assert info(read_bag(whole))["damage"] == []


def chunk(kind: str, data: bytes, size: int) -> bytes:
    """The content of a chunk that claims to have a size."""
    return (
        struct.pack("<QQQI", 0, 1, size, 0)
        + struct.pack("<I", len(kind))
        + kind.encode()
        + struct.pack("<Q", len(data))
        + data
    )


@pytest.mark.parametrize("claimed", [1 << 28, 1000])
@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_a_chunk_that_would_expand_is_left_out(
    tmp_path: Path, whole: Path, kind: str, claimed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = {"zstd": zstandard.compress, "lz4": lz4.frame.compress}[kind]
    bomb = chunk(kind, pack(bytes(1 << 28)), claimed)
    bag = read_bag(rewritten(whole, tmp_path / "bomb.mcap", lambda number, data: bomb if number == 6 else data))
    tracemalloc.start()
    try:
        assert list(bag.messages()) == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()
    assert bag.damage[0].startswith("a chunk of ")


def test_rows_that_would_expand_are_left_out(tmp_path: Path, whole: Path) -> None:
    def grown(data: bytes) -> bytes:
        arrays, packed = dict(np.load(io.BytesIO(data))), io.BytesIO()
        np.savez_compressed(packed, **arrays | {"plant_life0": np.zeros((1_000_000, arrays["plant_life0"].shape[1]))})
        return packed.getvalue()

    bag = read_bag(changed(whole, tmp_path / "grown.mcap", only("rows.npz", grown)))
    assert (bag.rows.lives, "they would expand to" in bag.damage[0]) == ([], True)


@pytest.mark.parametrize(
    "stats",
    ['{"round_trip_s": [1]}', '{"counts": 3}', '{"injected": [{}]}', '{"nodes": {"plant": {"period_s": {"p50": "x"}}}}',
     '{"speed_changes": ["x"]}', '{"incomplete": 3}', "[" * 500 + "]" * 500],
)  # fmt: skip
def test_statistics_of_other_types_are_left_out(tmp_path: Path, whole: Path, stats: str) -> None:
    bag = read_bag(changed(whole, tmp_path / "strange.mcap", only("servonode_ending", with_values(stats=stats))))
    assert (bag.ending, "how it ended cannot be read" in bag.damage[0]) == ({}, True)


ENDINGS: list[dict[str, Any]] = [
    {}, {"round_trip_s": {"p50": 1.0}}, {"nodes": {"plant": {"period_s": {"p50": 1.0}}}}
]  # fmt: skip


def with_ending(ending: Any) -> Change:
    """These statistics of a run, as JSON."""
    return only("servonode_ending", with_values(stats=json.dumps(ending)))


@pytest.mark.parametrize("ending", ENDINGS)
def test_statistics_that_lack_something_are_shown_without_it(tmp_path: Path, whole: Path, ending: Any) -> None:
    bag = read_bag(changed(whole, tmp_path / "strange.mcap", with_ending(ending)))
    (run,) = runs_in(bag, bag.closed_loop())
    assert summary_rows(run, "r")


@pytest.mark.slow
def test_a_recording_that_was_cut_says_where_it_ended(tmp_path: Path, whole: Path) -> None:
    lacks, ended = "the recording ended at t = 0.200 s: disk full", json.dumps("completed")
    stats = json.dumps(json.loads(read_bag(whole).ending["stats"]) | {"incomplete": lacks})
    change = only("servonode_ending", with_values(incomplete=json.dumps(lacks), ended=ended, stats=stats))
    file = str(changed(whole, tmp_path / "cut.mcap", change))
    assert f"Ended:       completed; {lacks}\n" in servo("bag", "info", file).stdout
    assert f"record            {lacks}\n" in servo("bag", "report", file, "--report", str(tmp_path / "r.png")).stdout
    assert f"{file}: completed; {lacks}\n" in servo("replay", file).stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [(("simulate", "trailer_circle", "--output"), "a.parquet"), (("simulate", "trailer_circle", "--output"), "a.json"),
     (("run", "trailer_circle", "--no-report", "-o"), "a.npz"), (("recover", "a.csv.spool", "--output"), "a.mcap"),
     (("bag", "recover", "a.mcap.spool", "--output"), "a.csv"),
     (("bag", "merge", "a.mcap", "b.mcap", "--output"), "a.csv")],
)  # fmt: skip
def test_a_name_that_promises_another_format_is_refused(tmp_path: Path, words: tuple[str, ...], name: str) -> None:
    assert f"{name}: what is written is " in refused(*words, str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [("run", "trailer_circle", "--record"), ("run", "trailer_circle", "--output"), ("simulate", "trailer_circle", "-o"),
     ("simulate", "trailer_circle", "--report"),
     pytest.param(("identify", "--parameters", "m1"), marks=needs_wing("explore")), ("bag", "recover"),
     ("recover",), ("simulate",), ("check",), ("bag", "info"), ("replay",), ("compare", "trailer_circle")],
)  # fmt: skip
def test_a_link_that_leads_back_to_itself_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = {"--record": "a.mcap", "-o": "a.csv", "--output": "a.csv", "--report": "a.png"}.get(words[-1], "a.mcap")
    Path(name).symlink_to("b")
    Path("b").symlink_to(name)
    assert name in refused(*words, name)


@pytest.mark.parametrize("name", ["", ".", "/", "pipe.mcap", "/dev/zero", "x" * 300])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe.mcap")
    file = str(tmp_path / name) if name.startswith("pipe") else name
    assert "give the .mcap file of a recording" in refused("bag", "info", file)


def test_a_launch_file_with_one_other_bit_is_not_believed(tmp_path: Path, whole: Path) -> None:
    file = bit_flipped(whole, tmp_path / "launch.mcap", b"launch.jsonapplication/json"[:11] + b"\x10\0\0\0application")
    assert "the attachment launch.json is damaged" in refused("replay", str(file))


def test_damaged_rows_are_made_of_messages(tmp_path: Path, whole: Path) -> None:
    file = bit_flipped(whole, tmp_path / "rows.mcap", b"application/x-npz", 4000)
    told = servo("bag", "info", str(file))
    assert (told.exit_code, "Rows:        none" in told.stdout) == (0, True)
    assert "Damaged:     the attachment rows.npz is damaged; it is left out" in told.stdout
    exported = servo("bag", "export", str(file), str(tmp_path / "rows.csv"))
    assert (exported.exit_code, exported.stdout.endswith("(51 rows)\n")) == (0, True), exported
    recovered = servo("bag", "recover", str(file))
    assert recovered.exit_code == 0
    with (tmp_path / "rows.recovered.mcap").open("rb") as stream:
        assert {each.name for each in make_reader(stream).iter_attachments()} == {"launch.json", "launch.toml"}


def test_bag_cut_before_its_messages_is_named_as_cut(tmp_path: Path, whole: Path) -> None:
    file = tmp_path / "begun.mcap"
    file.write_bytes(whole.read_bytes()[:200])
    assert "its end is cut off" in refused("bag", "info", str(file))


@pytest.mark.parametrize(
    "change",
    [
        only("servonode", with_values(wall_ns="soon")),
        only("servonode", with_values(run=None)),
        only("servonode", with_values(run="../../x")),
        only("servonode", with_values(mode=None)),
        only("servonode", with_values(kernels="[1]")),
        only("servonode", with_values(files='{"a": 1}')),
        only("launch.json", with_values(table=[1])),
        only("launch.json", with_values(path=None)),
        only("launch.json", lambda _: b"[" * 100_000),
    ],
)
def test_bag_invalid_metadata_and_launch_files_are_refused(tmp_path: Path, whole: Path, change: Change) -> None:
    with pytest.raises(BagError, match=r"its metadata or launch\.json is damaged"):
        read_bag(changed(whole, tmp_path / "strange.mcap", change))


@pytest.mark.parametrize(
    "change",
    [
        of_rows(lambda arrays: arrays.update(plant_life0=np.array([{"code": 1}], dtype=object))),
        of_rows(lambda arrays: arrays.update(plant_life0=arrays["plant_life0"].ravel())),
        of_rows(lambda arrays: arrays.update(plant_lifex=arrays["plant_life0"])),
        of_rows(lambda arrays: arrays.update(plant_columns=np.array(3))),
        of_rows(lambda arrays: arrays["plant_life0"].fill(np.nan)),
        only("rows.npz", lambda _: b"PK"),
        only("servonode_ending", with_values(faults="[3]")),
        only("servonode_ending", with_values(stats="{")),
    ],
)
def test_bag_invalid_rows_and_endings_are_left_out(tmp_path: Path, whole: Path, change: Change) -> None:
    bag = read_bag(changed(whole, tmp_path / "strange.mcap", change))
    assert (not bag.rows.lives or not bag.ending, "cannot be read" in bag.damage[0]) == (True, True)
    assert info_text(info(bag))


def test_a_run_in_real_time_is_not_compared_with_one_in_lockstep(whole: Path) -> None:
    assert "leave --set run.mode out" in refused("replay", str(whole), "--again", "--set", "run.mode=realtime")


def test_recovered_bag_says_how_its_run_ended(tmp_path: Path, whole: Path) -> None:
    file = bit_flipped(whole, tmp_path / "rows.mcap", b"application/x-npz", 4000)
    assert recover_bag(read_bag(file), tmp_path / "made.mcap")
    made = read_bag(tmp_path / "made.mcap")
    assert made.ending == read_bag(whole).ending


def test_rows_of_another_machine_are_refused(tmp_path: Path, whole: Path) -> None:
    def narrow(arrays: dict[str, Any]) -> None:
        arrays |= {name: arrays[name][..., :4] for name in ("plant_life0", "plant_columns")}

    bag = read_bag(changed(whole, tmp_path / "other.mcap", of_rows(narrow)))
    with pytest.raises(BagError, match="have other columns"):
        runs_in(bag, bag.closed_loop())


@pytest.mark.parametrize(
    "content",
    [
        b"null",
        b"[]",
        b"\xff",
        b'{"t": 1}',
        with_values(k="x"),
        with_values(src=None),
        with_values(seq=2**70),
        with_values(counts=None),
        with_values(counts=[1]),
        with_values(fault=3),
    ],
)
def test_bag_invalid_messages_are_left_out(tmp_path: Path, whole: Path, content: Any) -> None:
    change = content if callable(content) else lambda _: content
    bag = read_bag(changed(whole, tmp_path / "strange.mcap", only("plant/status", change)))
    assert info_text(info(bag))
    assert replay(bag, bag.closed_loop()).compared == 51


def test_states_of_another_machine_and_no_states_are_refused(tmp_path: Path, whole: Path) -> None:
    for change, text in (
        (with_values(state={"q": 1.0}), "does not belong to the machine"),
        (lambda _: None, "holds no rows"),
    ):
        bare = changed(whole, tmp_path / "bare.mcap", only("rows.npz", lambda _: None))
        bag = read_bag(changed(bare, tmp_path / "none.mcap", only("plant/state", change)))
        with pytest.raises(BagError, match=text):
            runs_in(bag, bag.closed_loop())


def test_where_nothing_can_be_written_another_file_is_asked_for(tmp_path: Path, whole: Path) -> None:
    file = bit_flipped(whole, tmp_path / "rows.mcap", b"application/x-npz", 4000)
    out = tmp_path / "nowhere" / "made.mcap"
    told = refused("bag", "recover", str(file), "--output", str(out))
    assert told == f"{out}: cannot be written (No such file or directory); name another with --output"


def test_a_recording_that_was_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "made.mcap"

    def make() -> None:
        with new_file(file) as stream:
            file.write_bytes(b"another's")
            stream.write(b"ours")

    with pytest.raises(FileExistsError):
        make()
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"another's", [file])


def test_drafts_of_killed_processes_alone_are_removed(tmp_path: Path) -> None:
    killed, living = (tmp_path / f"made.mcap.{pid}.part" for pid in (2**22 + 1, os.getppid()))
    for draft in (killed, living):
        draft.touch()
    with new_file(tmp_path / "made.mcap") as stream:
        stream.write(b"ours")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "made.mcap", living]


def test_a_recording_of_a_large_machine_at_rest_does_not_expand_too_much(tmp_path: Path) -> None:
    state = {f"q{i}": 0.0 for i in range(600)}
    with (tmp_path / "rest.mcap").open("wb") as stream:
        writer = new_writer(stream, "servonode")
        channel = writer.register_channel("plant/state", "json", writer.register_schema("State", "jsonschema", b"{}"))
        for k in range(100):
            at = 10**16 + k * 10**7
            writer.add_message(channel, at, json.dumps({"seq": k, "mono": at, "state": state}).encode(), at)
        writer.finish()
    records = Records(tmp_path / "rest.mcap", [])
    assert (sum(1 for _ in records.messages()), records.damage) == (100, [])
