"""The operator's verbs: beside a run that answers as its plant would, one that does not, and none."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import servonode
from servonode.bus import Bus, BusError, Requester, RunFolder, run_folder, run_path
from servonode.bus.durations import Durations
from servonode.bus.processes import Named, listener
from servonode.cli.main import main
from servonode.operator import find_runs as found_runs
from servonode.operator import operator_requests
from servonode.operator.find_runs import Found, distrusted, find_run, find_runs, no_run_error, places
from servonode.operator.operator_requests import NeverArmed, NotStopped, OperatorError
from tests.helpers.commands import verbs
from tests.helpers.events import LONG_S, soon
from tests.helpers.runs import private_runtime

Answer = Callable[[dict[str, Any]], dict[str, Any]]
LIFECYCLES = {"arm": "active", "disarm": "inactive", "reset": "inactive", "reset_estop": "inactive", "estop": "fault"}
ASKED = "confirmed; by request only"  # of a run whose registry names no process
START_S = LONG_S
NOBODY = 2**22 + 1  # no process has this number


def obedient(request: dict[str, Any]) -> dict[str, Any]:
    return {"done": True, "lifecycle": LIFECYCLES[request["ask"]]}


def refusing(request: dict[str, Any]) -> dict[str, Any]:
    return {"refused": f"the plant is finished, it cannot {request['ask']}; restart it"}


class Node:
    """A node's request socket, served in a thread."""

    def __init__(self, folder: Path, node: str, answer: Answer) -> None:
        self.asked: list[str] = []
        self._folder, self._node, self._answer = folder, node, answer
        self._end, self._open = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        with Bus(self._folder, self._node) as bus:
            requests = bus.requests()
            self._open.set()
            while not self._end.is_set():
                bus.wait(soon(0.005))
                while (request := requests.poll_request()) is not None:
                    self.asked.append(request[1]["ask"])
                    requests.reply(request[0], self._answer(request[1]))

    def __enter__(self) -> "Node":
        self._thread.start()
        assert self._open.wait(START_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder of our own: no other run is in progress in it; those of other tests are not looked for."""
    monkeypatch.setattr(found_runs, "places_of_processes", list)
    for limit in ("ANSWER_S", "CONFIRM_S"):  # however busy the computer is
        monkeypatch.setattr(operator_requests, limit, LONG_S)
    with private_runtime() as folder:
        yield folder


@pytest.fixture
def going() -> Iterator[Callable[..., Node]]:
    """Starts a run: its folder, held by this process, and its plant's request socket."""
    with ExitStack() as stack:

        def start(name: str, answer: Answer = obedient) -> Node:
            folder: RunFolder = stack.enter_context(run_folder(name))
            folder.register(["plant"])
            return stack.enter_context(Node(folder.path, "plant", answer))

        yield start


def registered(name: str, **more: Any) -> Path:
    """The registry of a run, with other entries."""
    registry = run_path(name) / "registry.json"
    registry.write_text(json.dumps(json.loads(registry.read_text()) | more))
    return registry


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


OPERATE = {  # every command that asks or watches one run; RUN stands where its name may be
    **dict.fromkeys(("arm", "disarm", "reset", "status", "pause", "resume", "record"), "RUN"),
    "status --watch": "RUN",
    "status --json": "RUN",
    "step": "3 RUN",
    "speed": "0.5 RUN",
    "goal": "x=1 RUN",
    "node info": "RUN plant",
    **dict.fromkeys(("param list", "param dump"), "RUN"),
    **dict.fromkeys(("param get", "param describe"), "RUN controller.gains.lambda"),
    "param set": "RUN controller.gains.lambda=3",
    **dict.fromkeys(("topic echo", "topic hz", "topic bw", "topic delay"), "RUN state"),
}
OF_ANY = {"topic list": "RUN", "topic info": "RUN state", "node list": "RUN", "estop": "RUN"}  # without a name too
OF_ANY["fault"] = "RUN drive off"  # never without a name
OTHERS = {  # of "Operate", which need no run in progress, or have tests of their own for that
    "plot", "page", "param load", "recover", "replay", "bag info", "bag report", "bag export", "bag merge",
    "bag recover", "keys new", "keys list", "keys show", "keys trust", "keys revoke",
    "bridge foxglove", "bridge ros2",
}  # fmt: skip


def called(verb: str, name: str = "") -> list[str]:
    """What is typed to ask for it, of a run with this name or without a name."""
    return [*verb.split(), *(OPERATE | OF_ANY)[verb].replace("RUN", name).split()]


def test_every_command_for_operators_is_tried_here() -> None:
    names = {each.name for each in main.by_section(click.Context(main))["Operate"]}
    operate = {verb for verb in verbs() if verb.split()[0] in names}
    assert operate - OPERATE.keys() - OF_ANY.keys() - OTHERS == set()


@pytest.mark.parametrize("verb", OPERATE | OF_ANY)
def test_where_nothing_runs_there_is_nothing_to_ask(verb: str) -> None:
    nothing = "start one with servonode run FILE"
    if verb in OPERATE:
        assert line(servo(*called(verb)), 2) == f"no run is in progress; {nothing}"
    assert line(servo(*called(verb, "sphero")), 2) == f"no run named 'sphero' is in progress; {nothing}"


@pytest.mark.parametrize("verb", OPERATE | OF_ANY)
def test_of_several_runs_one_must_be_named(going: Callable[..., Node], verb: str) -> None:
    nodes = [going("left"), going("right")]
    if verb not in ("estop", "fault"):  # for all, and never without a name
        assert line(servo(*called(verb)), 2) == "several runs are in progress; name one of left, right"
    assert line(servo(*called(verb, "centre")), 2) == "no run named 'centre' is in progress; choose left, right"
    assert [node.asked for node in nodes] == [[], []]


@pytest.mark.parametrize("verb", ["arm", "disarm", "reset", "resume", "speed"])
def test_an_answer_is_one_json_object(going: Callable[..., Node], verb: str) -> None:
    going("sphero", lambda request: {"done": True, "lifecycle": "active", "note": f"asked {request['ask']}"})
    printed = json.loads(servo(*called(verb), "--json").stdout)
    assert (printed["run"], printed["lifecycle"]) == ("sphero", "active")


def test_a_pause_waits_until_plant_time_stands_still(going: Callable[..., Node]) -> None:
    asked = list[dict[str, Any]]()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        stands = {
            "lifecycle": "active",
            "t": 1.24 + (len(asked) > 4) / 100,
            "paused": len(asked) > 4,
            "pauses_at": 1.25,
        }
        return stands if request["ask"] == "status" else {"done": True, "lifecycle": "active", "until": 1.25}

    going("sphero", answer)
    result = servo("step", "7", "--json")
    assert json.loads(result.stdout) == {"run": "sphero", "lifecycle": "active", "t": 1.25, "paused": True}
    assert [request["ask"] for request in asked] == ["step", *["status"] * 4]
    assert asked[0]["periods"] == 7
    assert servo("pause").stdout == "sphero: paused at t = 1.25 s\n"


def test_a_pause_that_a_fault_forestalls_is_told(going: Callable[..., Node]) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        stands = {"lifecycle": "fault", "fault": "law", "text": "no rank", "t": 1.0, "paused": False}
        return stands if request["ask"] == "status" else {"done": True, "lifecycle": "active"}

    going("sphero", answer)
    assert line(servo("pause"), 1) == "sphero is not paused, because its plant is fault: law: no rank"


@pytest.mark.parametrize("words", [("pause",), ("step", "7")])
def test_a_pause_that_somebody_else_ends_before_it_is_seen_is_told(
    words: tuple[str, ...], going: Callable[..., Node]
) -> None:
    stands = {"lifecycle": "active", "t": 1.24, "paused": False, "pauses_at": None}
    going("sphero", lambda request: stands if request["ask"] == "status" else {"done": True, "lifecycle": "active"})
    assert line(servo(*words), 1) == "sphero is not paused: it was resumed by somebody else"


@pytest.mark.parametrize(
    ("ago", "before", "certain"),
    [(1.0, 2.0, True), (1.0, 1.005, False), (1.0, 0.5, False), (None, 2.0, False)],  # 1.005: clocks differ by 1 %
)
def test_a_reset_counts_only_where_it_certainly_came_later(
    ago: float | None, before: float, certain: bool, going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_requests, "LOOK_S", LONG_S)
    monkeypatch.setattr(operator_requests, "time", SimpleNamespace(monotonic=lambda: 100.0))
    going("sphero", lambda _: {"lifecycle": "inactive", "reset_ago": ago})
    assert operator_requests.reset_since("sphero", 100.0 - before) is certain
    assert not operator_requests.reset_since("none", 100.0 - before)


@pytest.mark.parametrize("verb", ["arm", "disarm", "reset"])
def test_a_verb_is_asked_of_the_plant_and_its_lifecycle_printed(going: Callable[..., Node], verb: str) -> None:
    node = going("sphero")
    for words in ((), ("sphero",)):
        result = servo(verb, *words)
        assert (result.exit_code, result.stdout, result.stderr) == (0, f"sphero: {LIFECYCLES[verb]}\n", "")
    assert node.asked == [verb] * 2


@pytest.mark.parametrize("verb", ["arm", "disarm", "reset", "estop"])
def test_a_refusal_is_the_plants_own_sentence(going: Callable[..., Node], verb: str) -> None:
    going("sphero", refusing)
    assert f"the plant is finished, it cannot {verb}; restart it" in line(servo(verb, "sphero"), 1)
    going("other", lambda _: {"error": f"unknown request {verb!r}"})
    assert f"unknown request {verb!r}" in line(servo(verb, "other"), 1)


# the emergency stop


def test_without_a_name_every_run_is_stopped_and_else_those_that_are_named(going: Callable[..., Node]) -> None:
    nodes = [going("left"), going("right")]
    result = servo("estop")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"left: stopped (fault), {ASKED}\nright: stopped (fault), {ASKED}\n"
    assert [node.asked for node in nodes] == [["estop"], ["estop"]]
    assert servo("estop", "right", "right").exit_code == 0
    assert [node.asked for node in nodes] == [["estop"], ["estop"] * 2]


def test_it_needs_no_launcher(going: Callable[..., Node]) -> None:
    node = going("sphero")
    registry = registered("sphero", pid=NOBODY)
    assert servo("estop").stdout == f"sphero: stopped (fault), {ASKED}\n"
    registry.write_text(registry.read_text()[:40])  # torn
    assert servo("estop", "sphero").stdout == f"{registry.parent}: stopped (fault), {ASKED}\n"
    registry.unlink()
    assert servo("estop", "sphero").stdout == f"{registry.parent}: stopped (fault), {ASKED}\n"
    assert servo("estop").stdout == f"{registry.parent}: stopped (fault), {ASKED}\n"
    assert node.asked == ["estop"] * 4


def test_one_that_refuses_does_not_keep_others_from_stopping(going: Callable[..., Node]) -> None:
    nodes = [going("left", refusing), going("right")]
    result = servo("estop")
    assert result.exit_code == 1
    assert result.stdout == f"right: stopped (fault), {ASKED}\n"
    assert result.stderr.startswith("servonode: left: not confirmed: the plant is finished")
    assert [node.asked for node in nodes] == [["estop"], ["estop"]]


def this_process(plant: bool = True) -> dict[str, Any]:
    """What a registry says of a run whose plant is this process, or one that had its id before."""
    now = Named.of(os.getpid())
    return {"pids": {"plant": now.pid}, "starts": {"plant": now.start - (not plant)}}


@pytest.fixture
def got() -> Iterator[list[int]]:
    """The emergency stops that this process gets by signal."""
    numbers: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGUSR1, previous)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servonode.operator.operator_requests.LOOK_S", 0.02)
    monkeypatch.setattr("servonode.operator.operator_requests.CONFIRM_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_estop_signals_only_a_process_named_with_its_start(got: list[int]) -> None:
    with run_folder("sphero") as folder:
        folder.register(["plant"])
        assert line(servo("estop"), 1).endswith("; its process is unknown")
        folder.register(["plant"], {"pids": {"plant": os.getpid()}})
        assert line(servo("estop"), 1).endswith("; its process is unknown")
        folder.register(["plant"], this_process(plant=False))  # the plant is dead, and its id another's
        assert line(servo("estop"), 1).endswith("; its process is unknown")
        folder.register(["plant"], this_process() | {"space": "pid:[1]"})  # the ids of another container
        assert servo("estop").exit_code == 2
        assert got == []
        folder.register(["plant"], this_process())
        text = f"process {os.getpid()} was sent SIGUSR1 and stops as soon as it runs"
        assert line(servo("estop"), 1).endswith(text)
        assert got == [signal.SIGUSR1]
        (folder.path / "registry.json").write_text("{")
        assert line(servo("estop", "sphero"), 2).startswith("no run named 'sphero'")  # who holds it is not told
        folder.sign("plant")
        assert line(servo("estop", "sphero"), 1).startswith("sphero: not confirmed: node 'plant' does not answer after")
        assert got == [signal.SIGUSR1] * 2


@pytest.mark.usefixtures("impatient")
def test_estop_signals_every_process_before_it_asks(got: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def no_sockets(*_: Any) -> None:
        asked.append(len(got))
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("socket.socket", no_sockets)
    monkeypatch.setattr("servonode.operator.operator_requests.Requester", no_sockets)

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", no_thread)
    with run_folder("left") as left, run_folder("right") as right:
        for folder in (left, right):
            folder.register(["plant"], this_process() | {"pid": 0})  # without a launcher, nor a request socket
            assert listener(folder.path / "plant.req") is None
        asked.clear()
        result = servo("estop", "--json")
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    assert printed["exit"] == 1
    assert [each["run"] for each in printed["runs"]] == ["left", "right"]
    for each, folder in zip(printed["runs"], (left, right), strict=True):
        assert each == stop_of(folder.name, folder.path, confirmed=False, text=each["text"])
        assert "Too many open files" in each["text"]
    assert set(asked) == {2}


def stop_of(run: str, folder: Path, **more: Any) -> dict[str, Any]:
    """The JSON object of the stop of a run whose plant is this process."""
    known = {"run": run, "folder": str(folder), "pid": os.getpid(), "signalled": True}
    return known | {"confirmed": True, "lifecycle": "", "text": ""} | more


def test_estop_says_what_was_signalled_and_confirmed(going: Callable[..., Node], got: list[int]) -> None:
    going("sphero")
    registered("sphero", **this_process())
    result = servo("estop")
    assert result.stdout == f"sphero: stopped (fault), confirmed; process {os.getpid()} was signalled\n"
    printed = json.loads(servo("estop", "sphero", "--json").stdout)
    assert printed["runs"] == [stop_of("sphero", run_path("sphero"), lifecycle="fault")]
    assert got == [signal.SIGUSR1] * 2


def test_estop_with_a_wrong_name_stops_the_others(going: Callable[..., Node]) -> None:
    node = going("left")
    result = servo("estop", "rihgt", "left")
    assert (result.exit_code, result.stdout) == (2, f"left: stopped (fault), {ASKED}\n")
    assert result.stderr == "servonode: no run named 'rihgt' is in progress; choose left\n"
    with pytest.raises(BusError, match="no run named 'rihgt'"):
        servonode.estop("rihgt", "left")
    assert node.asked == ["estop"] * 2


# where runs are found


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, runtime: Path) -> Iterator[Path]:
    """A second folder in which runs of this user may be, with a short path."""
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        yield Path(folder)


WAYS = ("SERVONODE_RUNTIME_DIR", "XDG_RUNTIME_DIR", "TMPDIR", "login")


def made(way: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Have new runs made in a folder as the environment of their starter may name it."""
    for word in WAYS[:3]:
        patch.delenv(word, raising=False)
    if way == "login":
        patch.setenv("XDG_RUNTIME_DIR", str(folder / str(os.getuid())))
        (folder / str(os.getuid())).mkdir(mode=0o700)
        patch.setattr("servonode.operator.find_runs.LOGIN", folder)
    else:
        patch.setenv(way, str(folder))


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_found_wherever_it_was_started(
    way: str, elsewhere: Path, runtime: Path, going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        made(way, elsewhere, patch)
        node = going("sphero")
        assert run_path("sphero").is_relative_to(elsewhere)
    assert not run_path("sphero").is_relative_to(elsewhere)
    with pytest.raises(BusError):
        find_run("sphero")
    if way == "login":  # as from cron, which has nothing in its environment
        monkeypatch.setattr("servonode.operator.find_runs.LOGIN", elsewhere)
    else:  # among others, and not where a new run would go
        monkeypatch.setenv(way, str(elsewhere))
    if way == "SERVONODE_RUNTIME_DIR":
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert find_run("sphero").registry["pid"] == os.getpid()
    assert list(find_runs()) == ["sphero"]
    for word in ("arm", "disarm", "reset", "estop"):
        assert servo(word, "sphero").exit_code == 0
    assert servo("estop").exit_code == servo("estop", "sphero").exit_code == 0
    assert node.asked == ["arm", "disarm", "reset", "estop", "estop", "estop"]


def test_estop_stops_both_runs_of_one_name(
    elsewhere: Path, going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVONODE_RUNTIME_DIR", str(elsewhere))
    nodes = [going("sphero")]
    paths = [run_path("sphero")]
    monkeypatch.delenv("SERVONODE_RUNTIME_DIR")
    nodes.append(going("sphero"))
    paths.append(run_path("sphero"))
    monkeypatch.setenv("SERVONODE_RUNTIME_DIR", str(elsewhere))
    for verb in ("arm", "disarm", "reset", "status"):
        text = line(servo(verb, "sphero"), 2)
        assert text.endswith(f"'sphero' are in progress; give one of their folders instead: {paths[0]}, {paths[1]}")
    assert line(servo("arm"), 2) == f"several runs are in progress; name one of {', '.join(sorted(map(str, paths)))}"
    assert [node.asked for node in nodes] == [[], []]
    assert servo("arm", str(paths[1])).stdout == "sphero: active\n"
    for words in (("estop",), ("estop", "sphero")):
        result = servo(*words)
        assert sorted(result.stdout.splitlines()) == sorted(f"{path}: stopped (fault), {ASKED}" for path in paths)
    assert servonode.estop().keys() == {str(path) for path in paths}
    assert [node.asked for node in nodes] == [["estop"] * 3, ["arm", *["estop"] * 3]]


def test_a_file_that_is_no_registry_holds_nobody_up(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVONODE_RUNTIME_DIR", str(elsewhere))
    for name in ("pipe", "link", "huge", "deep", "list"):
        run_path(name).mkdir(mode=0o700)
    os.mkfifo(run_path("pipe") / "registry.json")
    (run_path("link") / "registry.json").symlink_to("/dev/zero")
    with (run_path("huge") / "registry.json").open("wb") as stream:
        stream.truncate(2**33)
    (run_path("deep") / "registry.json").write_text("[" * 100_000)
    (run_path("list") / "registry.json").write_text('["run"]')
    run_path("dead").mkdir(mode=0o700)
    (run_path("dead") / "registry.json").write_text(json.dumps({"run": "dead", "pid": NOBODY, "nodes": {}}))
    assert "no run named 'dead'" in line(servo("reset", "dead"), 2)
    assert find_runs() == {}


def test_folder_of_others_is_not_believed(elsewhere: Path, got: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVONODE_RUNTIME_DIR", str(elsewhere))
    with run_folder("sphero") as folder:
        folder.register(["plant"], this_process())
        for path in (folder.path, elsewhere):
            path.chmod(0o770)
            result = servo("estop")
            assert result.exit_code == 2
            assert result.stderr.startswith("servonode: no run is in progress; start one with servonode run FILE")
            assert (f"; ignored: {path} has mode 0770, open to others" in result.stderr) == (path == elsewhere)
            assert find_runs() == {}
            path.chmod(0o700)
        link = Path(os.environ["TMPDIR"]) / f"servonode-{os.getuid()}"
        link.symlink_to(elsewhere)
        assert distrusted() == [f"{link} is not a folder"]
        os.chown(elsewhere, 4242, -1) if os.getuid() == 0 else monkeypatch.setattr(os, "getuid", lambda: 4242)
        assert places() == []
        assert any("belongs to user" in each for each in distrusted())
        assert got == []


def test_run_is_refused_in_a_folder_that_is_not_private(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, problem in (
        ("relative", "is not an absolute path"),
        (str(elsewhere / "nowhere"), "cannot be looked at (No such file or directory)"),
        (str(elsewhere), "has mode 0755, open to others"),
    ):
        elsewhere.chmod(0o755)
        monkeypatch.setenv("SERVONODE_RUNTIME_DIR", value)
        result = servo("run", "trailer_pursuit", "--no-report")
        remedy = "set it to a folder of yours with mode 0700, or unset it"
        assert line(result, 2) == f"SERVONODE_RUNTIME_DIR: {value} {problem}; {remedy}\n".strip()
    elsewhere.chmod(0o700)
    with run_folder("sphero") as folder:
        assert folder.path.parent == elsewhere
    assert elsewhere.is_dir()  # its user's own, however empty


def test_the_request_loads_nothing_heavy(going: Callable[..., Node]) -> None:
    going("sphero")
    heavy = "'numpy', 'sympy', 'llvmlite', 'scipy', 'matplotlib', 'logging', 'asyncio'"
    code = (
        "import sys; from servonode.cli.main import main\n"
        "from servonode.operator import operator_requests as requests\n"
        f"requests.CONFIRM_S = {LONG_S}\n"
        "try: main(['estop', 'sphero'])\n"
        f"except SystemExit as end: print(end.code, [m for m in ({heavy}) if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=START_S)
    assert done.stdout == f"sphero: stopped (fault), {ASKED}\n0 []\n", done.stderr


# how a run stands


def standing(**more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"fault": "", "text": "", "counts": {}, "values": {}}
    return {"node": "plant", "lifecycle": "active", "t": 1.25} | empty | more


def measured() -> dict[str, float]:
    durations = Durations()
    durations.add(0.002)
    return {"rate": 1.0, "round_trip": 0.002, **durations.flat("round_trip"), **durations.flat("period")}


def test_status_shows_every_node_and_who_does_not_answer(
    going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {"fault": "stale_command", "text": "no fresh command for 30 ms", "lifecycle": "fault", "safe_state": "damp"}
    counts = {"missed_commands": 3, "saturated": 0, "refused_age": 1}
    going("sphero", lambda _: standing(**fault, counts=counts, values=measured()))
    registered("sphero", nodes={"plant": {}, "controller": {}})
    with Node(run_path("sphero"), "controller", lambda _: standing(node="controller")):
        result = servo("status")
        as_json = servo("status", "sphero", "--json")
        from_python = servonode.status()
    assert result.exit_code == as_json.exit_code == 0
    assert [row.split() for row in result.stdout.replace(fault["text"], "TEXT").splitlines()] == [
        ["sphero", "(process", f"{os.getpid()})"],
        ["plant", "fault", "safe", "state", "damp", "t", "=", "1.250", "s", "FAULT", "stale_command:", "TEXT"],
        ["controller", "active", "t", "=", "1.250", "s"],
        ["timing", "[ms]", "p50", "p99", "p99.9", "max"],
        ["plant", "period", "2.000", "2.000", "2.000", "2.000"],
        ["plant", "round", "trip", "2.000", "2.000", "2.000", "2.000"],
        ["plant", "missed_commands", "3,", "refused_age", "1"],
    ]
    assert json.loads(as_json.stdout) == from_python
    assert from_python["nodes"]["plant"]["counts"] == counts

    class Impatient(Requester):
        """Waits for the controller, which is gone, no longer."""

        def ask(self, request: dict[str, Any], timeout_s: float, *, expires: bool = True) -> dict[str, Any]:
            return super().ask(request, 0.05 if self.node == "controller" else timeout_s, expires=expires)

    monkeypatch.setattr(operator_requests, "Requester", Impatient)
    result = servo("status")
    assert result.exit_code == 1
    assert "  controller  NO ANSWER: node 'controller' does not answer after 0.05 s" in result.stdout
    assert "  plant       fault   safe state damp" in result.stdout


# from Python


def test_the_verbs_are_functions_of_servonode(going: Callable[..., Node]) -> None:
    node = going("sphero")
    assert [servonode.arm("sphero"), servonode.arm(), servonode.disarm("sphero")] == ["active", "active", "inactive"]
    assert servonode.estop("sphero") == servonode.estop() == {"sphero": "fault"}
    assert [servonode.reset("sphero"), servonode.reset("sphero", estop=True)] == ["inactive"] * 2
    assert node.asked == ["arm", "arm", "disarm", "estop", "estop", "reset", "reset_estop"]


def test_in_python_what_fails_is_raised(going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BusError, match="no run is in progress"):
        servonode.estop()
    with pytest.raises(BusError, match="no run named 'left'"):
        servonode.arm("left")
    going("left", refusing)
    node = going("right")
    with pytest.raises(OperatorError, match="it cannot reset; restart it"):
        servonode.reset("left")
    with pytest.raises(NotStopped, match="left: not confirmed: the plant is finished, it cannot estop"):
        servonode.estop("left", "right")
    assert node.asked == ["estop"]
    with run_folder("empty") as folder:
        folder.register(["plant"])
        monkeypatch.setattr(operator_requests, "ANSWER_S", 0.05)
        with pytest.raises(TimeoutError, match="node 'plant' does not answer after"):
            servonode.arm("empty")


# waiting for a run


def test_arming_waits_for_a_run_and_for_its_machine(
    going: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert servo("arm", "late", "--wait", "0").exit_code == 2
    answers = iter(
        [{"refused": "the machine has not answered yet", "later": True}, {"done": True, "lifecycle": "arming"}]
    )
    pauses = list[float]()

    def pause(seconds: float) -> None:
        """The run begins in the second pause."""
        pauses.append(seconds)
        if len(pauses) == 2:
            going("late", lambda _: next(answers))

    monkeypatch.setattr(operator_requests, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=pause))
    result = servo("arm", "late", "--wait", "30")
    assert (result.exit_code, result.stdout, len(pauses)) == (0, "late: arming\n", 3)


def test_arm_wait_tells_not_yet_from_never(going: Callable[..., Node]) -> None:
    for name, later in (("waits", True), ("never", False)):
        going(name, lambda _, later=later: {"refused": "it cannot be armed now", "later": later})
    assert line(servo("arm", "waits", "--wait", "0.2"), 1) == "it cannot be armed now"
    assert line(servo("arm", "never", "--wait", "60"), 2) == "it cannot be armed now"
    assert line(servo("arm", "never"), 1) == "it cannot be armed now"


def test_arm_wait_never_takes_the_next_run_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(registries: list[dict[str, Any] | None]) -> Callable[..., Found]:
        def find(_: str | None) -> Found:
            registry = registries.pop(0)
            if registry is None:
                raise no_run_error("x")
            return Found(Path("/run/x"), 0, {"run": "x", **registry}, {})

        return find

    def asked(*_: Any, **__: Any) -> dict[str, Any]:
        return {"refused": "not yet", "later": True}

    monkeypatch.setattr(operator_requests, "_asked", asked)
    for registries, text in (
        ([{"start": 1}, {"start": 1}, None], "the run has ended; it was not armed"),
        ([{"start": 1}, {"start": 1}, {"start": 2}], "the run has ended, and another one"),
    ):
        monkeypatch.setattr(operator_requests, "find_run", found([*registries]))
        with pytest.raises(NeverArmed, match=text):
            servonode.arm("x", wait=60.0)


def test_what_moves_a_machine_is_no_near_word() -> None:
    for word in ("parm", "set", "amr", "rest", "dsarm"):
        assert not re.search(r"\b(arm|reset|disarm)\b", line(servo(word), 2).partition("; see")[0].partition("'; ")[2])
    assert "did you mean estop?" in line(servo("estp"), 2)
    assert line(servo("run", "trailer_pursuit", "--amr"), 2) == (
        "No such option '--amr'. Did you mean '--name'? see servonode run --help"
    )
