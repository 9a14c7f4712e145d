"""The operator's verbs: beside a run that answers as its plant would, one that does not, and none."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import servonode
from servonode.bus import Bus, BusError, RunFolder, run_folder, run_path
from servonode.nodes.cli import main
from servonode.nodes.operate import NotStopped, OperatorError, going_on
from servonode.nodes.statistics import Durations

Answer = Callable[[dict[str, Any]], dict[str, Any]]
LIFECYCLES = {"arm": "active", "disarm": "inactive", "reset": "inactive", "estop": "fault"}
START_S = 30.0


def obedient(request: dict[str, Any]) -> dict[str, Any]:
    return {"done": True, "lifecycle": LIFECYCLES[request["ask"]]}


def refusing(request: dict[str, Any]) -> dict[str, Any]:
    return {"refused": f"the plant is finished, it cannot {request['ask']}; start it anew"}


class Node:
    """A node's door, served in a thread."""

    def __init__(self, folder: Path, node: str, answer: Answer) -> None:
        self.asked: list[str] = []
        self._folder, self._node, self._answer = folder, node, answer
        self._end, self._open = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        with Bus(self._folder, self._node) as bus:
            door = bus.requests()
            self._open.set()
            while not self._end.is_set():
                bus.wait(time.monotonic_ns() + 5_000_000)
                while (request := door.poll_request()) is not None:
                    self.asked.append(request[1]["ask"])
                    door.reply(request[0], self._answer(request[1]))

    def __enter__(self) -> "Node":
        self._thread.start()
        assert self._open.wait(START_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder of our own, with a short path for sockets: no other run is going on in it."""
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture
def going() -> Iterator[Callable[..., Node]]:
    """Starts a run: its folder, held by this process, and its plant's door."""
    with ExitStack() as stack:

        def start(name: str, answer: Answer = obedient) -> Node:
            folder: RunFolder = stack.enter_context(run_folder(name))
            folder.register(["plant"])
            return stack.enter_context(Node(folder.path, "plant", answer))

        yield start


def servo(*words: str) -> Result:
    result = CliRunner().invoke(main, words)
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    return result


def line(result: Result, code: int) -> str:
    """The one line on stderr of a command that ended with this code."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    text, end, rest = result.stderr.partition("\n")
    assert (end, rest) == ("\n", "")
    return text.removeprefix("servonode: ")


# which run


@pytest.mark.parametrize("verb", ["arm", "disarm", "reset", "estop", "status"])
def test_where_nothing_runs_there_is_nothing_to_ask(verb: str) -> None:
    assert line(servo(verb), 2) == "no run is going on; start one with servonode run FILE"
    assert line(servo(verb, "sphero"), 2) == "no run named 'sphero' is going on; none is going on"


@pytest.mark.parametrize("verb", ["arm", "disarm", "reset", "status"])
def test_of_several_runs_one_must_be_named(going: Callable[..., Node], verb: str) -> None:
    nodes = [going("left"), going("right")]
    assert line(servo(verb), 2) == "several runs are going on; name one of left, right"
    assert line(servo(verb, "centre"), 2) == "no run named 'centre' is going on; going on: left, right"
    assert [node.asked for node in nodes] == [[], []]


@pytest.mark.parametrize("verb", ["arm", "disarm", "reset"])
@pytest.mark.parametrize("words", [(), ("sphero",)])
def test_a_verb_is_asked_of_the_plant_and_its_lifecycle_printed(
    going: Callable[..., Node], verb: str, words: tuple[str, ...]
) -> None:
    node = going("sphero")
    result = servo(verb, *words)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"sphero: {LIFECYCLES[verb]}\n", "")
    assert node.asked == [verb]


@pytest.mark.parametrize("verb", ["arm", "disarm", "reset", "estop"])
def test_a_refusal_is_the_plants_own_sentence(going: Callable[..., Node], verb: str) -> None:
    going("sphero", refusing)
    assert f"the plant is finished, it cannot {verb}; start it anew" in line(servo(verb, "sphero"), 1)


def test_a_node_that_does_not_know_the_word_is_a_refusal(going: Callable[..., Node]) -> None:
    going("sphero", lambda _: {"error": "unknown request 'arm'"})
    assert line(servo("arm"), 1) == "unknown request 'arm'"


def test_a_run_without_a_plant_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.nodes.operate.ANSWER_S", 0.05)
    with run_folder("sphero") as folder:
        folder.register(["plant"])
        assert "node 'plant' is not there after" in line(servo("arm"), 1)


def test_a_dead_runs_left_over_folder_is_no_run() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    folder = run_path("dead")
    folder.mkdir(parents=True)
    (folder / "registry.json").write_text(json.dumps({"run": "dead", "pid": process.pid, "nodes": {}}))
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "registry.json").write_text("[")
    assert going_on() == []
    assert "no run named 'dead'" in line(servo("reset", "dead"), 2)


# the emergency stop


def test_without_a_name_every_run_is_stopped(going: Callable[..., Node]) -> None:
    nodes = [going("left"), going("right")]
    result = servo("estop")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "left: stopped (fault)\nright: stopped (fault)\n"
    assert [node.asked for node in nodes] == [["estop"], ["estop"]]


def test_only_the_runs_that_are_named_are_stopped(going: Callable[..., Node]) -> None:
    nodes = [going(name) for name in ("left", "middle", "right")]
    assert servo("estop", "left", "right", "left").exit_code == 0
    assert [node.asked for node in nodes] == [["estop"], [], ["estop"]]


def test_one_that_refuses_does_not_keep_others_from_stopping(going: Callable[..., Node]) -> None:
    nodes = [going("left", refusing), going("right")]
    result = servo("estop")
    assert result.exit_code == 1
    assert result.stdout == "right: stopped (fault)\n"
    assert result.stderr.startswith("servonode: left: the plant is finished")
    assert [node.asked for node in nodes] == [["estop"], ["estop"]]


def test_it_needs_no_launcher(going: Callable[..., Node]) -> None:
    node = going("sphero")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    registry = run_path("sphero") / "registry.json"
    registry.write_text(json.dumps(json.loads(registry.read_text()) | {"pid": process.pid}))
    assert servo("estop").stdout == "sphero: stopped (fault)\n"
    registry.unlink()
    assert servo("estop", "sphero").stdout == "sphero: stopped (fault)\n"
    assert node.asked == ["estop", "estop"]


HUNG = """
import os, signal, socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b"stopped"), os._exit(0)))
door.bind(sys.argv[1])
door.listen(16)
os.write(1, b"!")
while True:
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a socket tells who listens on Linux only")
def test_a_plant_that_does_not_answer_is_sent_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.nodes.operate.FIRST_S", 0.05)
    monkeypatch.setattr("servonode.nodes.operate.SECOND_S", 0.05)
    with run_folder("sphero") as folder:
        words = [sys.executable, "-c", HUNG, str(folder.path / "plant.req")]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as plant:
            assert plant.stdout is not None
            assert plant.stdout.read(1) == b"!"
            folder.register(["plant"], {"pids": {"plant": os.getpid()}})  # the socket knows better
            text = line(servo("estop"), 1)
            assert plant.stdout.read() == b"stopped"
            assert plant.wait(START_S) == 0
    assert text.startswith("sphero: not confirmed: node 'plant' ")
    assert text.endswith(f"; process {plant.pid} was sent SIGUSR1 and stops as soon as it runs")


def test_where_the_door_is_gone_the_registry_tells_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.nodes.operate.FIRST_S", 0.02)
    monkeypatch.setattr("servonode.nodes.operate.SECOND_S", 0.02)
    got: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: got.append(number))
    try:
        with run_folder("sphero") as folder:
            folder.register(["plant"])
            assert line(servo("estop"), 1).endswith("; its process is not known")
            assert got == []
            folder.register(["plant"], {"pids": {"plant": os.getpid()}})
            assert "was sent SIGUSR1" in line(servo("estop"), 1)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert got == [signal.SIGUSR1]


def test_the_request_loads_nothing_heavy(going: Callable[..., Node]) -> None:
    going("sphero")
    heavy = "'numpy', 'sympy', 'numba', 'scipy', 'matplotlib', 'logging', 'asyncio'"
    code = (
        "import sys; from servonode.nodes.cli import main\n"
        "try: main(['estop', 'sphero'])\n"
        f"except SystemExit as end: print(end.code, [m for m in ({heavy}) if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=START_S)
    assert done.stdout == "sphero: stopped (fault)\n0 []\n", done.stderr


# how a run stands


def standing(**more: Any) -> dict[str, Any]:
    return {
        "node": "plant",
        "lifecycle": "active",
        "fault": "",
        "text": "",
        "t": 1.25,
        "counts": {},
        "values": {},
    } | more


def measured() -> dict[str, float]:
    durations = Durations()
    durations.add(0.002)
    return {"rate": 1.0, "round_trip": 0.002, **durations.flat("round_trip"), **durations.flat("period")}


def test_status_shows_every_node(going: Callable[..., Node]) -> None:
    fault = {"fault": "stale_command", "text": "no fresh command for 30 ms", "lifecycle": "fault", "rung": "damp"}
    counts = {"missed_commands": 3, "saturated": 0, "refused_age": 1}
    going("sphero", lambda _: standing(**fault, counts=counts, values=measured()))
    folder = run_path("sphero")
    registry = json.loads((folder / "registry.json").read_text())
    registry["nodes"] |= {"controller": {}}
    (folder / "registry.json").write_text(json.dumps(registry))
    with Node(folder, "controller", lambda _: standing(node="controller")):
        result = servo("status")
        as_json = servo("status", "sphero", "--json")
        from_python = servonode.status()
    assert result.exit_code == as_json.exit_code == 0
    assert [row.split() for row in result.stdout.replace(fault["text"], "TEXT").splitlines()] == [
        ["sphero", "(process", f"{os.getpid()})"],
        ["plant", "fault", "rung", "damp", "t", "=", "1.250", "s", "FAULT", "stale_command:", "TEXT"],
        ["controller", "active", "t", "=", "1.250", "s"],
        ["timing", "[ms]", "p50", "p99", "p99.9", "max"],
        ["plant", "period", "2.000", "2.000", "2.000", "2.000"],
        ["plant", "round", "trip", "2.000", "2.000", "2.000", "2.000"],
        ["plant", "missed_commands", "3,", "refused_age", "1"],
    ]
    assert json.loads(as_json.stdout) == from_python
    assert from_python["nodes"]["plant"]["counts"] == counts


def test_status_says_who_does_not_answer(going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.nodes.operate.ANSWER_S", 0.3)
    going("sphero", lambda _: standing())
    registry = run_path("sphero") / "registry.json"
    registry.write_text(json.dumps(json.loads(registry.read_text()) | {"nodes": {"plant": {}, "controller": {}}}))
    result = servo("status")
    assert result.exit_code == 1
    assert "  controller  NO ANSWER: node 'controller' is not there after 0.3 s" in result.stdout
    assert "  plant       active   t = 1.250 s\n" in result.stdout


# beside a run of real nodes

FORGIVING = ("--set", "plant.safety.command_timeout_floor=5")  # a busy host is not what is tested


@pytest.fixture
def real_run(tmp_path: Path) -> Iterator[str]:
    """The name of a run in real time that has begun; broken off at the end."""
    words = [sys.executable, "-m", "servonode.nodes.cli", "run", "trailer_pursuit", "--name", "real", "--no-report"]
    words += ["--set", "run.speed=1", "--set", "run.duration=600", *FORGIVING]
    output = tmp_path / "output"
    with output.open("w") as stream, subprocess.Popen(words, stdout=stream, stderr=stream) as process:
        try:
            limit = time.monotonic() + 2 * START_S
            while not ("real" in going_on() and until(lambda stands: stands["t"] > 0.1, 0.1)):
                assert process.poll() is None, output.read_text()
                assert time.monotonic() < limit, output.read_text()
            yield "real"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_S)


def until(condition: Callable[[dict[str, Any]], bool], seconds: float = START_S) -> dict[str, Any]:
    """How the plant stands once the condition holds; empty when it does not come to that in time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        stands = servonode.status("real")["nodes"]["plant"]
        if "error" not in stands and condition(stands):
            return dict(stands)
    return {}


def test_a_real_run_obeys(real_run: str) -> None:
    assert servonode.status()["nodes"].keys() == {"plant", "controller", "target"}
    with pytest.raises(OperatorError, match="armed already"):
        servonode.arm()
    assert servonode.estop() == {real_run: "fault"}
    stands = until(lambda stands: bool(stands["fault"]))
    assert (stands["lifecycle"], stands["fault"], stands["rung"]) == ("fault", "estop", "damp")
    with pytest.raises(OperatorError, match="servonode reset"):
        servonode.arm()
    assert servonode.reset() == "inactive"
    with pytest.raises(OperatorError, match="no fault is latched"):
        servonode.reset()
    servonode.arm()
    assert until(lambda stands: stands["lifecycle"] == "active")
    assert servonode.disarm() == "inactive"
    assert servo("status").exit_code == 0


# from Python


def test_the_verbs_are_functions_of_servonode(going: Callable[..., Node]) -> None:
    node = going("sphero")
    assert servonode.arm("sphero") == "active"
    assert servonode.arm() == "active"
    assert servonode.disarm("sphero") == "inactive"
    assert servonode.estop("sphero") == {"sphero": "fault"}
    assert servonode.estop() == {"sphero": "fault"}
    assert servonode.reset("sphero") == "inactive"
    assert node.asked == ["arm", "arm", "disarm", "estop", "estop", "reset"]


def test_in_python_what_fails_is_raised(going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.nodes.operate.ANSWER_S", 0.05)
    with pytest.raises(BusError, match="no run is going on"):
        servonode.estop()
    with pytest.raises(BusError, match="no run named 'left'"):
        servonode.arm("left")
    going("left", refusing)
    node = going("right")
    with pytest.raises(OperatorError, match="it cannot reset; start it anew"):
        servonode.reset("left")
    with pytest.raises(NotStopped, match="left: the plant is finished, it cannot estop"):
        servonode.estop("left", "right")
    assert node.asked == ["estop"]
    with run_folder("empty") as folder:
        folder.register(["plant"])
        with pytest.raises(TimeoutError, match="node 'plant' is not there"):
            servonode.arm("empty")
