"""The recordings of two computers: a run of one computer is split into two of clocks that differ, and merged again."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from servonode.bus import TOPICS
from servonode.bus.topology import CONTROLLER, PLANT, RELAY, TARGET
from servonode.record.bag import Bag, read_bag
from servonode.record.merge import OTHER_RELAY, in_order
from servonode.record.run_rows import RunRows
from servonode.record.spool import MESSAGES, ROWS, Recorded, about_block, block, message_entry
from servonode.record.write import provenance, write_contents
from servonode.simulation.replay import made_otherwise
from servonode.simulation.rows_of_messages import runs_in
from tests.helpers.recorded import recorded
from tests.helpers.refusals import command as servo
from tests.helpers.refusals import refused_command as refused

APART_NS = 1_234_567_890_123  # how much later the desk's computer was switched on
DRIFT = 50e-6  # of its clock
ROUND_TRIP_S = 0.02
DESK = (CONTROLLER, TARGET)
RELAYS = {PLANT: 77, CONTROLLER: 78}  # start ids, by a node of the computer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of one computer, whose answers take far less than the clocks of two are known."""
    return recorded(tmp_path_factory.mktemp("whole") / "a.mcap", "trailer_pursuit", "run.duration=3", "run.speed=2")


def desk_clock(mono: int, begin: int) -> int:
    """A time of the plant's computer on the desk's clock."""
    return mono - APART_NS + round(DRIFT * (mono - begin))


def relay_status(mono: int, k: int, offset_ns: float, run: int, src: int) -> dict[str, Any]:
    return {
        "t": k * 0.2, "seq": k, "run": run, "k": k, "mono": mono, "node": RELAY, "src": src, "lifecycle": "active",
        "fault": "", "safe_state": "", "counts": {}, "goal_k": -1,
        "values": {"offset_s": offset_ns / 1e9, "delay_s": 1.1 * ROUND_TRIP_S,
                   "offset_error_s": ROUND_TRIP_S / 2},
    }  # fmt: skip


def relayed(bag: Bag, on_desk: bool, error_s: float) -> list[Recorded]:
    """Statuses of a computer's relay, five a second, whose offsets are wrong by `error_s`; the first knows none yet."""
    times = [mono for mono, *_ in bag.messages()]
    begin, end = times[0], times[-1]
    run = next(message["run"] for _, topic, message in bag.messages(("plant/state",)))
    found: list[Recorded] = []
    for k, mono in enumerate(range(begin, end + 200_000_000, 200_000_000)):
        there = desk_clock(mono, begin)
        offset = (mono - there if on_desk else there - mono) + (1 if on_desk else -1) * error_s * 1e9
        own = there if on_desk else mono
        found.append((own, "relay/status", relay_status(own, k, offset, run, RELAYS[CONTROLLER if on_desk else PLANT])))
    found[0][2]["values"] = {}
    return found


@dataclass(frozen=True)
class Contents:
    """What `write_contents` takes."""

    about: dict[str, str]
    launch: dict[str, Any]
    rows: RunRows
    schemas: dict[str, Any]
    messages: Iterator[Recorded]
    ending: dict[str, Any]


def half(bag: Bag, on_desk: bool, error_s: float = 0.0, desk: Iterable[str] = DESK, relay: bool = True) -> Contents:
    """What one of two computers would have recorded of a run of one."""
    begin = next(bag.messages())[0]

    def kept(node: str) -> bool:
        return (node in desk) is on_desk

    def own_messages() -> list[Recorded]:
        found = relayed(bag, on_desk, error_s) if relay else []
        for mono, topic, message in bag.messages():
            if kept(message["node"]):
                own = desk_clock(mono, begin) if on_desk else mono
                found.append((own, topic, message | ({"mono": own} if "mono" in message else {})))
        return sorted(found, key=lambda each: each[0])

    rows = RunRows({node: names for node, names in bag.rows.columns.items() if kept(node)})
    for node, names in rows.columns.items():
        for life in bag.rows.lives:
            rows.add(node, 0 if on_desk else life, bag.rows.table(node, life, len(names)))
    about, launch = dict(bag.about), bag.launch
    if on_desk:
        run = launch["table"]["run"] | {"pin": True}  # which concerns one computer alone
        launch = launch | {"table": launch["table"] | {"run": run}}
        about |= {
            "mono_ns": str(int(about["mono_ns"]) - APART_NS),
            "wall_ns": str(int(about["wall_ns"]) + 3600 * 10**9),
        }
        about |= {"processor": "another one"}
    schemas = bag.schemas() | {"relay/status": bag.schemas()["plant/status"]}
    ending = {name: json.loads(text) for name, text in bag.ending.items()}
    if on_desk:
        ending = {"ended": "completed"}
    return Contents(about, launch, rows, schemas, iter(own_messages()), ending)


def halves(folder: Path, bag: Bag, error_s: float = 0.0, desk: Iterable[str] = DESK) -> tuple[Path, Path]:
    files = folder / "robot.mcap", folder / "desk.mcap"
    for on_desk, file in enumerate(files):
        write_contents(file, **vars(half(bag, bool(on_desk), error_s, desk)))
    return files


def merged(folder: Path, *files: Path) -> Path:
    out = folder / "merged.mcap"
    result = servo("bag", "merge", *map(str, files), "--output", str(out))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"{out} (")
    return out


def by_topic(bag: Bag) -> dict[str, list[dict[str, Any]]]:
    """The messages of each topic, without their senders' clocks."""
    found: dict[str, list[dict[str, Any]]] = {}
    for _, topic, message in bag.messages():
        found.setdefault(topic, []).append({name: each for name, each in message.items() if name != "mono"})
    return found


def rows_csv(folder: Path, bag: Path) -> bytes:
    out = folder / f"{bag.stem}.csv"
    result = servo("bag", "export", str(bag), str(out))
    assert result.exit_code == 0, result.stderr
    return out.read_bytes()


# what is the same as on one computer


@pytest.mark.parametrize("error_s", [-0.0099, 0.0, 0.0099])
@pytest.mark.slow
def test_halves_give_the_messages_the_rows_and_the_replay_of_the_whole(
    whole: Path, tmp_path: Path, error_s: float
) -> None:
    bag = read_bag(whole)
    file = merged(tmp_path, *halves(tmp_path, bag, error_s)[:: -1 if error_s > 0 else 1])
    found, one = by_topic(read_bag(file)), by_topic(bag)
    relays = [found.pop(topic) for topic in ("relay/status", OTHER_RELAY)]
    assert [{each["src"] for each in statuses} for statuses in relays] == [{77}, {78}]
    assert sorted(found.pop("run/events"), key=str) == sorted(one.pop("run/events"), key=str)
    assert found == one
    assert rows_csv(tmp_path, file) == rows_csv(tmp_path, whole)
    result = servo("replay", str(file), "--json")
    replayed = json.loads(result.stdout)
    assert (result.exit_code, replayed["differing"], replayed["left_out"]) == (0, 0, 0)
    assert replayed == json.loads(servo("replay", str(whole), "--json").stdout)
    report = tmp_path / "report.png"
    assert servo("bag", "report", str(file), "--report", str(report)).exit_code == 0
    assert report.stat().st_size > 10_000


@pytest.mark.parametrize("error_s", [-0.0099, 0.0, 0.0099])
def test_times_are_those_of_the_plant_within_the_stated_bound(whole: Path, tmp_path: Path, error_s: float) -> None:
    bag = read_bag(whole)
    read = read_bag(merged(tmp_path, *halves(tmp_path, bag, error_s)))
    times = [mono for mono, *_ in read.messages()]
    assert times == sorted(times)
    true = {(topic, m["src"], m["seq"], m["k"]): mono for mono, topic, m in bag.messages() if "seq" in m}
    errors: dict[bool, list[int]] = {True: [], False: []}
    for mono, topic, message in read.messages():
        key = topic, message.get("src"), message.get("seq"), message.get("k")
        if key in true:
            errors[message["node"] == PLANT].append(abs(mono - true[key]))
    assert max(errors[True]) == 0
    bound = float(read.merged["bound_s"])
    assert bound == ROUND_TRIP_S / 2
    assert max(errors[False]) <= 1e9 * bound
    assert (max(errors[False]) > 1e6) is (error_s != 0.0)  # what is asked is not always so
    if error_s == 0.0:
        assert max(errors[False]) < 20_000  # of the interpolation, and of floats


def test_metadata_says_what_was_merged_and_how_well_the_clocks_are_known(whole: Path, tmp_path: Path) -> None:
    bag = read_bag(whole)
    robot, desk = halves(tmp_path, bag)
    fault = {"name": "law", "text": "of the desk", "t": 1.0, "node": CONTROLLER}
    ending = {"ended": "fault", "faults": [fault], "lost_messages": {CONTROLLER: 2}}
    desk.unlink()
    write_contents(desk, **vars(replace(half(bag, True), ending=ending)))
    file = merged(tmp_path, robot, desk)
    read = read_bag(file)
    assert (read.about, read.launch) == (bag.about, bag.launch)
    assert json.loads(read.merged["nodes"]) == [CONTROLLER, RELAY, TARGET]
    assert float(read.merged["offset_s"]) == pytest.approx(APART_NS / 1e9, abs=1e-3)
    drifted = float(read.merged["last_offset_s"]) - float(read.merged["offset_s"])
    assert drifted == pytest.approx(-DRIFT * 1.5, rel=0.5)
    assert json.loads(read.merged["ended"]) == "fault"
    assert json.loads(read.ending["ended"]) == json.loads(bag.ending["ended"])
    assert [each["text"] for each in json.loads(read.ending["faults"])][-1:] == ["of the desk"]
    assert json.loads(read.ending["lost_messages"])[CONTROLLER] == 2
    assert json.loads(read.ending["stats"]) == json.loads(bag.ending["stats"])
    assert made_otherwise(read) == ["another processor"]  # the controller's computer is what counts
    text = servo("bag", "info", str(file)).stdout
    line = "Merged:      controller, relay, target of another computer; from its clock to the plant's: +1234.56"
    assert line in text
    assert " s, within 10.000 ms\n" in text
    assert json.loads(servo("bag", "info", str(file), "--json").stdout)["missing"] == {}


def test_without_statuses_of_one_relay_those_of_the_other_give_the_clock(whole: Path, tmp_path: Path) -> None:
    bag = read_bag(whole)
    robot, desk = halves(tmp_path, bag)
    desk.unlink()
    write_contents(desk, **vars(half(bag, True, relay=False)))
    read = read_bag(merged(tmp_path, robot, desk))
    true = {(m["src"], m["seq"]): mono for mono, _, m in bag.messages(("controller/command",))}
    found = {(m["src"], m["seq"]): mono for mono, _, m in read.messages(("controller/command",))}
    assert found.keys() == true.keys()
    assert max(abs(found[key] - true[key]) for key in true) < 20_000


@pytest.mark.parametrize("desk", [(TARGET,), (CONTROLLER,)])
@pytest.mark.parametrize("error_s", [-0.0099, 0.0099])
def test_each_node_may_be_the_one_elsewhere(whole: Path, tmp_path: Path, desk: tuple[str, ...], error_s: float) -> None:
    file = merged(tmp_path, *halves(tmp_path, read_bag(whole), error_s, desk))
    assert json.loads(read_bag(file).merged["nodes"]) == sorted([*desk, RELAY])
    assert rows_csv(tmp_path, file) == rows_csv(tmp_path, whole)
    replayed = json.loads(servo("replay", str(file), "--json").stdout)
    assert (replayed["differing"], replayed["left_out"]) == (0, 0)


def test_a_killed_computer_has_left_a_spool_which_is_merged_too(whole: Path, tmp_path: Path) -> None:
    bag = read_bag(whole)
    robot, _ = halves(tmp_path, bag)
    spool = spool_of(half(bag, True), tmp_path / "desk.mcap.spool")
    file = merged(tmp_path, robot, spool)
    assert json.loads(read_bag(file).merged["ended"]) == "killed"
    assert rows_csv(tmp_path, file) == rows_csv(tmp_path, whole)
    assert servo("replay", str(file)).exit_code == 0


def spool_of(contents: Contents, file: Path) -> Path:
    """A spool with the same contents."""
    clock = {name: int(contents.about[name]) for name in ("wall_ns", "mono_ns")}
    about = {"launch": contents.launch, "every": 1, "run": contents.about["run"], "columns": contents.rows.columns}
    about |= {"topics": list(TOPICS), "clock": clock, "made_by": provenance(), "schemas": contents.schemas}
    blocks, ends = [about_block(about)], dict.fromkeys(MESSAGES.values(), 0)
    for node, names in contents.rows.columns.items():
        rows = contents.rows.all_of(node, len(names))
        blocks.append(block(ROWS[node], 0, np.column_stack([np.zeros(len(rows)), rows]).tobytes()))
    for _, topic, message in contents.messages:
        node, _, word = topic.partition("/")
        if node in MESSAGES:
            entry, kind = message_entry(word, msgspec.msgpack.encode(message)), MESSAGES[node]
            blocks.append(block(kind, ends[kind], entry))
            ends[kind] += len(entry)
    file.write_bytes(b"".join(blocks))
    return file


def test_rows_of_a_plant_that_was_started_again_are_those_of_its_lives(whole: Path, tmp_path: Path) -> None:
    """The desk's computer knows no lives of the plant: its rows are in one."""
    once = read_bag(whole)
    twice = write_twice(once, tmp_path / "twice.mcap")
    read = read_bag(merged(tmp_path, *halves(tmp_path, twice)))
    assert read.rows.lives == [0, 1, 2]
    for node, names in once.rows.columns.items():
        table = once.rows.table(node, 0, len(names))
        for life, rows in {0: table, 1: table[:0] if node == CONTROLLER else table, 2: table}.items():
            np.testing.assert_array_equal(read.rows.table(node, life, len(names)), rows)
    assert len(runs_in(read, read.closed_loop())) == 3


def write_twice(bag: Bag, file: Path) -> Bag:
    """A recording in which the plant died at the end, was started, died unanswered, and did all of it once more."""
    messages = list(bag.messages())
    length = messages[-1][0] - messages[0][0] + 1_000_000_000

    def again(times: int) -> list[Recorded]:
        late = times * length
        unanswered = times == 1
        return [
            (mono + late, topic, message | {"run": message["run"] + times, "mono": mono + late})
            for mono, topic, message in messages
            if "run" in message and not (unanswered and message["node"] in DESK)
        ]

    rows = RunRows(bag.rows.columns)
    for node, names in bag.rows.columns.items():
        for life in (0, 1, 2):
            table = bag.rows.table(node, 0, len(names))
            rows.add(node, life, table[:0] if node == CONTROLLER and life == 1 else table)
    messages_of_all = iter([*messages, *again(1), *again(2)])
    write_contents(file, bag.about, bag.launch, rows, bag.schemas(), messages_of_all, {})
    return read_bag(file)


# order


def state(at: int, seq: int, run: int = 1) -> Recorded:
    return at, "plant/state", {"run": run, "seq": seq, "src": run}


def command(at: int, re: int, goal: int = -1, run: int = 1) -> Recorded:
    return at, "controller/command", {"run": run, "seq": 900 + re, "src": 5, "re": re, "target_seq": goal}


def goal(at: int, seq: int) -> Recorded:
    return at, "target/target", {"run": 1, "seq": seq, "src": 6}


def ordered(plant: list[Recorded], other: list[Recorded]) -> list[tuple[int, str, int]]:
    return [(at, topic, message["seq"]) for at, topic, message in in_order(iter(plant), iter(other))]


def test_a_command_whose_clock_is_early_stands_behind_its_state_at_that_time() -> None:
    assert ordered([state(100, 0), state(200, 1)], [command(90, 0), command(150, 1), command(160, 7)]) == [
        (100, "plant/state", 0), (100, "controller/command", 900), (200, "plant/state", 1),
        (200, "controller/command", 901), (200, "controller/command", 907),
    ]  # fmt: skip


def test_a_goal_whose_clock_is_late_stands_before_the_command_that_used_it() -> None:
    plant = [state(100, 0), command(101, 0, goal=3)]
    assert ordered(plant, [goal(150, 2), goal(160, 3), goal(170, 4)]) == [
        (100, "plant/state", 0), (101, "target/target", 2), (101, "target/target", 3), (101, "controller/command", 900),
        (170, "target/target", 4),
    ]  # fmt: skip


def test_a_state_that_is_sent_again_is_not_waited_for() -> None:
    plant = [state(100, 0), state(400, 0)]
    assert ordered(plant, [command(200, 0)])[1] == (200, "controller/command", 900)


def test_a_command_does_not_wait_for_a_state_that_is_not_recorded() -> None:
    assert ordered([state(100, 0), state(300, 2)], [command(200, 1)])[1] == (200, "controller/command", 901)


# what is refused


Change = Callable[[Contents], Contents]


def with_launch(contents: Contents, section: str, **keys: Any) -> Contents:
    table = contents.launch["table"]
    table = table | {section: table.get(section, {}) | keys}
    return replace(contents, launch=contents.launch | {"table": table})


def of_another_run(contents: Contents) -> Contents:
    moved = ((mono, topic, message | {"run": 3}) for mono, topic, message in contents.messages)
    return replace(contents, messages=moved)


def without_offsets(contents: Contents) -> Contents:
    return replace(contents, messages=(each for each in contents.messages if each[1] != "relay/status"))


def test_what_are_no_two_halves_of_one_run_is_refused_in_one_line(whole: Path, tmp_path: Path) -> None:
    bag = read_bag(whole)
    robot, desk = halves(tmp_path, bag)
    changes: dict[str, tuple[bool, Change]] = {
        "other_launch": (True, lambda each: with_launch(each, "controller", period=0.25)),
        "other_run": (True, of_another_run),
        "no_offset": (True, without_offsets),
        "no_offset_either": (False, without_offsets),
    }
    files = {name: tmp_path / f"{name}.mcap" for name in changes}
    for name, (on_desk, change) in changes.items():
        write_contents(files[name], **vars(change(half(bag, on_desk))))
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(desk.read_bytes()[:-3000])
    halves_of_one = "give two recordings of one run"
    period = bag.launch["table"]["controller"]["period"]
    because = {
        (desk, desk): "neither holds messages of the plant; give the recording of its computer too",
        (whole, desk): "both hold messages of the controller and the target; give the recordings that servonode run "
        "--record made on the two computers",
        (files["other_launch"], robot): f"of another launch file than {robot}: [controller] period = 0.25, there "
        f"{period}; {halves_of_one}",
        (robot, files["other_run"]): f"not of the run in {robot}, for none of its messages names a start of that "
        f"plant; {halves_of_one}",
        (files["no_offset_either"], files["no_offset"]): "no relay/status in them has an offset_s, so that their "
        "clocks cannot be compared; record with servonode run --record on both computers",
        (robot, cut): "is damaged; merge what servonode bag recover makes of it",
    }  # fmt: skip
    names = {(robot, files["other_run"]): files["other_run"], (robot, cut): cut}
    names |= {(files["other_launch"], robot): files["other_launch"]}
    for given, text in because.items():
        assert refused("bag", "merge", *map(str, given), "--output", str(tmp_path / "out.mcap")) == (
            f"{names.get(given, ', '.join(map(str, given)))}: {text}"
        )
    assert not (tmp_path / "out.mcap").exists()
    assert refused("bag", "merge", str(robot), str(desk), "--output", str(whole)).startswith(f"{whole}: exists already")


def test_keys_that_concern_one_computer_may_differ(whole: Path, tmp_path: Path) -> None:
    bag = read_bag(whole)
    robot, _ = halves(tmp_path, bag)
    on_desk = with_launch(half(bag, True), "hosts", plant="tcp://robot.local:7400", key="robot")
    desk = tmp_path / "pinned.mcap"
    write_contents(desk, **vars(with_launch(on_desk, "run", pin=True)))
    assert read_bag(merged(tmp_path, robot, desk)).launch == bag.launch


def test_a_half_alone_has_its_messages_and_says_where_the_rest_is(whole: Path, tmp_path: Path) -> None:
    robot, desk = halves(tmp_path, read_bag(whole))
    rows = json.loads(servo("bag", "info", str(desk), "--json").stdout)["rows"]
    assert rows == {CONTROLLER: len(read_bag(whole).rows.newest(CONTROLLER))}
    remedy = "join it with the recording of the other computer: servonode bag merge"
    assert refused("bag", "export", str(desk), str(tmp_path / "a.csv")).endswith(remedy)
    for each in (robot, desk):
        result = servo("replay", str(each))
        assert (result.exit_code, result.stderr.endswith(f"{remedy}\n")) == (2, True)


def test_times_between_the_statuses_of_a_relay_are_interpolated(whole: Path, tmp_path: Path) -> None:
    """Two messages of the desk are as far apart as on the plant's clock, wherever the statuses stand."""
    bag = read_bag(whole)
    read = read_bag(merged(tmp_path, *halves(tmp_path, bag)))
    known = next(mono for mono, _, message in read.messages((OTHER_RELAY,)) if message["values"])
    pairs = zip(bag.messages(("controller/command",)), read.messages(("controller/command",)), strict=True)
    true, found = zip(*((one[0], other[0]) for one, other in pairs if one[0] > known), strict=True)
    assert len(found) > 100
    steps = np.array([b - a for a, b in pairwise(found)]) - np.array([b - a for a, b in pairwise(true)])
    assert np.max(np.abs(steps)) < 2_000
