"""`servonode topic` and `node`: what a real run publishes and is made of, and that it never waits for them."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from msgspec import msgpack, structs

from servonode.bus import TOPICS as bus_topics
from servonode.bus import Bus, run_folder
from servonode.bus.processes import Named
from servonode.cli import topic
from servonode.cli.operate import Screen
from servonode.cli.topic import bandwidth, bandwidth_text, delay_of, delay_text, rate, rate_text
from servonode.cli.topic_text import NoSuchField, chosen, flat, table
from servonode.operator.listener import Raw
from tests.helpers.refusals import command, refused_command
from tests.helpers.runs import private_runtime

ECHO = ("topic", "echo")
TOPICS = (
    "controller/command", "controller/estimate", "controller/parameters", "controller/report", "controller/status",
    "plant/applied", "plant/parameters", "plant/state", "plant/status", "target/parameters", "target/status",
    "target/target",
)  # fmt: skip
NONE = "no run is in progress; start one with servonode run FILE"


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A runtime folder in which nothing runs."""
    with private_runtime() as found:
        yield found


def refused(*words: str, of: tuple[str, ...] = ECHO) -> str:
    """The one line with which the command is refused."""
    return refused_command(*of, *words)


def test_a_watched_status_is_refreshed_in_place_in_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "4")
    monkeypatch.setenv("TERM", "xterm")
    node = {"lifecycle": "active", "t": 1.0, "values": {}, "counts": {"x" * 90: 1}}
    report = {"run": "sphero", "pid": 7, "pids": {}, "nodes": {"plant": node, "target": node, "relay": node}}

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), StringIO()
    for screen in (Screen(terminal), Screen(pipe)):
        screen.show(report)
        screen.show(report)
    first, again = terminal.getvalue().split("\x1b[3F")  # as many lines up as were shown
    assert first == again
    assert first.startswith("\x1b[Jsphero  (process 7)\n  plant")
    assert max(map(len, first.removeprefix("\x1b[J").splitlines())) < 60
    line = "sphero   plant: active   t = 1.000 s   target: active   t = 1.000 s   relay: active   t = 1.000 s\n"
    assert pipe.getvalue() == line * 2


def test_without_a_run_there_is_the_table_of_topics_and_for_the_rest_one_line(runtime: Path) -> None:
    for words in (("topic", "list"), ("topic", "info", "state"), ("topic", "list", "--json")):
        result = command(*words)
        assert result.exit_code == 0
        assert result.stderr == "servonode: no run is in progress; these are the topics of any run\n"
    assert [line.split()[0] for line in command("topic", "list").stdout.splitlines()] == sorted(
        [*TOPICS, "relay/status"]
    )
    assert re.search(r"\n  age +number +s +age of", command("topic", "info", "state").stdout)
    for words in (("echo", "state"), ("hz", "state"), ("bw", "state"), ("delay", "state")):
        assert refused(*words, of=("topic",)) == NONE
    assert refused("list", of=("node",)) == refused("info", "plant", of=("node",)) == NONE
    unknown = command("topic", "info", "staet")
    assert unknown.exit_code == 2
    assert "topic 'staet' is not published" in unknown.stderr
    nowhere = "no run named 'nowhere' is in progress; start one with servonode run FILE"
    assert refused("list", "nowhere", of=("topic",)) == nowhere
    assert refused("state", "--csv", "--json").startswith("give --csv or --json, not both")
    assert refused("state", "--once", "-n", "3").startswith("give --once or -n COUNT, not both")
    assert refused("a", "b", "c").startswith("give one topic, with at most one run before it")


def test_a_topic_that_stays_silent_ends_an_echo_that_is_told_how_long_to_wait(runtime: Path) -> None:
    with run_folder("left") as folder, Bus(folder.path, "plant") as bus:
        bus.publisher()
        own = {"pids": {"plant": os.getpid()}, "starts": {"plant": Named.of(os.getpid()).start}}
        folder.register(["plant"], own | {"open": True})
        result = command(*ECHO, "left", "state", "--timeout", "0.3")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "servonode: nothing came on state for 0.3 s\n"
        result = command("node", "info", "left", "plant", "--json")  # nobody answers there
        assert result.exit_code == 1
        assert json.loads(result.stdout)["error"]


def test_rates_are_computed_as_ros2_does() -> None:
    assert rate_text(rate([0.0, 0.1, 0.2, 0.3])) == (
        "average rate: 10.000\n\tmin: 0.100s max: 0.100s std dev: 0.00000s window: 4"
    )
    assert rate([1.0]) == {}
    sizes = [(0.0, 500), (0.5, 1500), (1.0, 2500)]
    assert bandwidth_text(bandwidth(sizes)) == (
        "4.00 KB/s from 3 messages\n\tMessage size mean: 1.50 KB min: 500 B max: 2.50 KB"
    )
    assert delay_text(delay_of([0.001, 0.003])) == (
        "average delay: 0.002000\n\tmin: 0.001000s max: 0.003000s std dev: 0.001000s window: 2"
    )
    assert bandwidth([]) == delay_of([]) == {}


def test_what_is_no_message_is_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    payloads = (b"\xc1", msgpack.encode({"mono": 10**9}), b"", msgpack.encode({"mono": 2 * 10**9}), b"\x93")

    class TopicReader:
        def batches(self) -> Iterator[list[Raw]]:
            yield [Raw("plant", "state", payload) for payload in payloads]

    @contextmanager
    def followed(*_: object) -> Iterator[TopicReader]:
        yield TopicReader()

    monkeypatch.setattr(topic, "followed", followed)
    topic.hz.main(["state"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("average rate: 1.000\n")


def test_fields_have_names_down_to_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    values = flat({"t": 1.0, "state": {"V": 0.5, "n": [1.0, 2.0]}, "reasons": ["power", "limit:U1"], "none": []})
    assert values == {"t": 1.0, "state.V": 0.5, "state.n[0]": 1.0, "state.n[1]": 2.0, "reasons": "power;limit:U1"}
    assert list(chosen(values, ["state.n", "t"])) == ["state.n[0]", "state.n[1]", "t"]
    with pytest.raises(NoSuchField, match=re.escape("did you mean state.n[0]? Choose t, state.V, state.n[0]")):
        chosen(values, ["state.n0"])


def test_every_field_of_every_message_is_described_and_has_a_kind() -> None:
    for entry in table(None):
        for each in entry.fields():
            assert each["what"], f"{entry.name} {each['name']}"
            assert each["kind"]
    fields = [info for kind in bus_topics.values() for info in structs.fields(kind)]
    assert all(getattr(info.type, "__metadata__", ())[-1].description for info in fields)
