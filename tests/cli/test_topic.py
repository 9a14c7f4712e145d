"""`servonode topic` and `node`: what a real run publishes and is made of, and that it never waits for them."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO

import pytest
from msgspec import msgpack, structs

from servonode.bus import TOPICS as bus_topics
from servonode.bus import Bus, run_folder
from servonode.bus.processes import Named
from servonode.cli import topic_rates
from servonode.cli.topic_rates import bandwidth, bandwidth_text, delay_of, delay_text, rate, rate_text
from servonode.cli.topic_table import table
from servonode.cli.topic_values import NoSuchField, chosen, flat
from servonode.cli.watch import Screen
from servonode.operator.raw_inbox import Raw
from tests.helpers.refusals import command, refused_command
from tests.helpers.runs import END_S, Process, Runs, eventually, private_runs

ECHO = ("topic", "echo")
TOPICS = (
    "controller/command", "controller/estimate", "controller/parameters", "controller/report", "controller/status",
    "plant/applied", "plant/parameters", "plant/state", "plant/status", "target/parameters", "target/status",
    "target/target",
)  # fmt: skip
NONE = "no run is in progress; start one with servonode run FILE"
FROZEN_S = 4.0  # in which the plant publishes more than the system's buffers and those of the echo hold
FORGIVING = ("run.speed=1", "run.duration=600", "plant.safety.command_timeout_floor=5")  # a busy host is not tested


@contextmanager
def began(*words: str, of: tuple[str, ...] = ECHO) -> Iterator["subprocess.Popen[str]"]:
    """The command in a process of its own, once it has printed a line; killed at the end."""
    typed = [sys.executable, "-m", "servonode.cli.main", *of, *words]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def refused(*words: str, of: tuple[str, ...] = ECHO) -> str:
    """The one line with which the command is refused."""
    return refused_command(*of, *words)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A run in progress, which all tests look at; the last one ends it."""
    with private_runs(tmp_path_factory.mktemp("topic")) as runs:
        run = runs.start("trailer_pursuit", "plant.publish_every=1", *FORGIVING)
        run.wait_open()
        yield run


def test_messages_are_printed_as_they_come(run: Process) -> None:
    states = [json.loads(line) for line in lines(*ECHO, "plant/state", "-n", "3", "--json")]
    assert [state["seq"] - states[0]["seq"] for state in states] == [0, 1, 2]
    assert {(state["topic"], state["node"], state["t"] == state["k"] / 1000) for state in states} == {
        ("state", "plant", True)
    }
    assert states[0]["state"].keys() == {"X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2"}

    printed = lines(*ECHO, run.name, "status", "-n", "9")
    assert {line.split()[0] for line in printed} == {"plant/status", "controller/status", "target/status"}
    assert all(' lifecycle="active" ' in line and " t=" in line for line in printed)

    choices = (
        "choose applied, command, estimate, parameters, report, state, status, target, or one node's: target/target, "
    )
    assert f"topic 'plant/command' is not published in this run; {choices}" in refused("plant/command")
    assert refused("nowhere", "state").startswith("no run named 'nowhere' is in progress; choose ")


def lines(*words: str) -> list[str]:
    """What a command prints that succeeds without a word on standard error."""
    result = command(*words)
    assert (result.exit_code, result.stderr) == (0, ""), result
    return result.stdout.splitlines()


def report(*words: str, after: str) -> tuple[str, str]:
    """Two lines of a command that reports once a second until it is interrupted, from one that holds `after` on."""
    with began(*words, of=("topic",)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        found = next(line for line in process.stdout if after in line)
        second = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == 130
        assert process.stderr.read() == "servonode: interrupted\n"
        return found, second


def test_topics_and_nodes_of_a_run_are_shown_in_the_words_of_ros2(run: Process) -> None:
    assert lines("topic", "list") == list(TOPICS)
    assert "plant/state [State]" in lines("topic", "list", run.name, "-t")
    assert "plant/state [State] to controller: The state of the plant, measured at step `k`." in lines(
        "topic", "list", "-v"
    )
    assert [each["name"] for each in json.loads("".join(lines("topic", "list", "--json")))] == list(TOPICS)
    shown = lines("topic", "info", run.name, "status")
    assert shown[:4] == [
        "Type: Status",
        "A node's lifecycle state, its fault, and its counters.",
        "Publisher count: 3 (controller, plant, target)",
        "Subscription count: 3 (launcher, target, controller)",
    ]
    (described,) = json.loads("".join(lines("topic", "info", "plant/state", "--json")))
    assert described["publishers"] == ["plant"]
    assert described["fields"][0] == {"name": "t", "kind": "number", "unit": "s", "what": "plant time"}
    assert lines("node", "list") == ["controller", "plant", "target"]
    plant = lines("node", "info", run.name, "plant")
    assert plant[:3] == ["plant", f"  Process: {run.pids()['plant']}", "  Lifecycle: active"]
    assert {"    controller/command: Command", "    plant/applied: Applied", "    estop"} <= set(plant)
    assert "has no node 'plan'; did you mean plant? choose controller, plant, target" in refused(
        "plan", of=("node", "info")
    )

    assert float(*lines(*ECHO, "state", "--field", "state.V", "--once")) == pytest.approx(0.0, abs=2.0)
    header, *rows = csv.reader(lines(*ECHO, "state", "--csv", "--field", "t", "--field", "state", "-n", "3"))
    assert header[:3] == ["t", "state.X", "state.Y"]
    assert [float(row[0]) - float(rows[0][0]) for row in rows] == pytest.approx([0.0, 0.001, 0.002])
    header, row = csv.reader(lines(*ECHO, "plant/state", "--csv", "--once"))
    assert dict(zip(header, row, strict=True))["node"] == "plant"
    assert json.loads(*lines(*ECHO, "state", "--json", "--field", "node", "--once")) == {"node": "plant"}
    assert lines(*ECHO, "state", "--field", "node", "--field", "final", "--once") == ['node="plant" final=false']
    problem = "there is no field 'state.Vv'; did you mean state.V? Choose t, seq, run, k, mono, node, src, state.X, "
    assert refused("state", "--field", "state.Vv").startswith(problem)

    asked = (
        ("average rate: ", "hz", "plant/state", "--window", "200"),
        ("/s from ", "bw", "state"),
        ("average delay: ", "delay", run.name, "state", "--window", "50"),
        ("plant/status average rate: ", "hz", "status"),
    )
    with ThreadPoolExecutor() as pool:
        rate, size, delay, slow = pool.map(lambda each: report(*each[1:], after=each[0]), asked)
    average, spread = rate
    assert float(average.removeprefix("average rate: ")) == pytest.approx(1000.0, rel=0.1)
    assert re.fullmatch(r"\tmin: \d\.\d{3}s max: \d\.\d{3}s std dev: \d\.\d{5}s window: 200\n", spread)
    average, spread = size
    assert re.fullmatch(r"\d+\.\d\d KB/s from 100 messages\n", average)
    assert re.fullmatch(r"\tMessage size mean: \d+ B min: \d+ B max: \d+ B\n", spread)
    average, spread = delay
    assert 0.0 < float(average.removeprefix("average delay: ")) < END_S  # of a busy computer
    assert spread.endswith(" window: 50\n")
    average, _ = slow
    assert float(average.rpartition(" ")[2]) == pytest.approx(5.0, rel=0.2)


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


def test_a_run_does_not_wait_for_an_echo_that_is_frozen_or_closed(run: Process) -> None:
    with began("state") as frozen, began("state") as cut:
        assert cut.stdout is not None
        assert cut.stderr is not None
        cut.stdout.close()
        assert cut.wait(END_S) == 0
        assert cut.stderr.read() == ""
        frozen.send_signal(signal.SIGSTOP)
        begin = run.ask("status")["t"]
        assert eventually(lambda: run.ask("status")["t"] > begin + FROZEN_S, END_S)
    stands = run.ask("status")
    assert (stands["lifecycle"], stands["values"]["rate"]) == ("active", pytest.approx(1.0, abs=0.05))


def test_what_follows_a_run_ends_with_it_or_by_an_interrupt(run: Process) -> None:
    with (
        began(run.name, "state") as interrupted,
        began("plant/status", "--json") as left,
        began("state", of=("topic", "hz")) as rate,
        began("--watch", of=("status",)) as watch,
        began("--watch", "--json", of=("status",)) as cut,
        began("--watch", of=("status",)) as stopped,
    ):
        stopped.send_signal(signal.SIGINT)
        assert stopped.wait(END_S) == 130
        assert stopped.stderr is not None
        assert stopped.stderr.read() == "servonode: interrupted\n"
        assert cut.stdout is not None
        assert json.loads(cut.stdout.readline())["run"] == run.name
        cut.stdout.close()
        assert cut.wait(END_S) == 0
        assert cut.stderr is not None
        assert cut.stderr.read() == ""
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.wait(END_S) == 130
        run.stop()
        out, err = left.communicate(timeout=END_S)
        assert (left.returncode, err) == (0, "")
        assert json.loads(out.splitlines()[-1])["lifecycle"] == "finished"
        shown, said = watch.communicate(timeout=END_S)
        assert (watch.returncode, said) == (0, f"{run.name}: the run has ended\n")
        assert all(line.startswith(f"{run.name}   plant: ") for line in shown.splitlines())
        assert rate.stderr is not None
        assert (rate.wait(END_S), rate.stderr.read()) == (0, "")


def test_without_a_run_there_is_the_table_of_topics_and_for_the_rest_one_line(runs: Runs) -> None:
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


def test_a_topic_that_stays_silent_ends_an_echo_that_is_told_how_long_to_wait(runs: Runs) -> None:
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

    monkeypatch.setattr(topic_rates, "followed", followed)
    topic_rates.hz.main(["state"], standalone_mode=False)
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
