"""Where each command can be reached: every one is started, and the system's list of its sockets is read.

A new command must be entered here. Without keys or a certificate nothing may be reached from another computer.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from servonode.bus.keys import KeyStore
from servonode.bus.processes import beyond_this_computer, listening_sockets
from servonode.bus.run_folder import run_path
from servonode.bus.topology import CONTROLLER, PLANT, RELAY, TARGET, nodes_of
from tests.helpers.commands import verbs
from tests.helpers.extras import neighbour
from tests.helpers.pages import OPENSSL, made_certificate, needs_openssl
from tests.helpers.ports import free_port
from tests.helpers.runs import END_S, START_S, Runs, eventually, private_runs
from tests.helpers.sessions import connections_to, processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

EXAMPLE = Path(__file__).parents[2] / "examples" / "external_plant.py"
FORGIVING = ("plant.safety.command_timeout_floor=0.5", "run.speed=1", "run.duration=600")
NAP_S = 0.02  # between two looks
WATCHED_S = 1.0  # for which a command is watched once all is there that is expected
NOWHERE = {  # commands that end by themselves, with a run, a recording and keys: nobody can connect to them
    "simulate": "trailer_pursuit --set run.duration=1",
    "check": "trailer_pursuit --set run.duration=1",
    "compare": "trailer_pursuit trailer_pursuit:run.duration=2",
    "region": "trailer_look_ahead --set run.duration=5 --over plant.initial.phi=-1:1",
    "robustness": "trailer_pursuit --set run.duration=2 --seeds 2",
    "tune": "trailer_look_ahead --set run.duration=5 --over controller.gains.lambda=1:5 --runs 20",
    "fastest": "trailer_pursuit --set run.duration=5 --set plant.actuator.limit=1",
    "status": "{run}",
    "goal": "x=1.0 {run}",
    "pause": "{run}",
    "step": "3 {run}",
    "speed": "2 {run}",
    "resume": "{run}",
    "fault": "{run} drive noise --size 1e-9",
    "disarm": "{run}",
    "arm": "{run}",
    "estop": "{run}",
    "reset": "--estop {run}",
    "param list": "{run}",
    "param get": "{run} controller.gains.lambda",
    "param set": "{run} controller.gains.lambda=3",
    "param describe": "{run} controller.gains.lambda",
    "param dump": "{run} --output dumped.toml",
    "param load": "{run} {numbers}",
    "topic list": "{run}",
    "topic info": "{run} state",
    "topic echo": "{run} state -n 50",
    "node list": "{run}",
    "node info": "{run} plant",
    "recover": "{csv_spool} --raw --output recovered.csv",
    "replay": "{bag}",
    "sweep": "trailer_sweep --runs 8",
    "identify": "{bag} --parameters m1",
    "bag info": "{bag}",
    "bag report": "{bag}",
    "bag export": "{bag} rows.csv",
    "bag merge": "{bag} {bag}",  # refused, because it is one recording, once both have been read
    "bag recover": "{bag_spool} --output whole.mcap",
    "keys new": "lab",
    "keys list": "",
    "keys show": "desk",
    "keys trust": "{robot} --role controller",
    "keys revoke": "robot",
    "new": "run serpentine",
    "completion": "bash",
    "list": "",
    "show": "trailer_pursuit --c",
    "hil header": "trailer_pursuit",
    "hil sensors": "trailer_estimated",
    "doctor": "",
}
PRIVATE = ("bench",)  # commands that end by themselves, and meanwhile start processes that meet in private folders
FOLLOW = {  # commands that connect to a run and stay
    "record": "{run}",
    "plot": "{run}",
    "topic hz": "{run} state",
    "topic bw": "{run} state",
    "topic delay": "{run} state",
}


FILTERED = {  # commands whose sockets drop what comes from other computers: tests/wings/neighbours/test_ros2_network.py
    "bridge ros2": "bridge ros2 {run} --domain 100",
}


@dataclass(frozen=True)
class Reached:
    """A command and where it is reached; run: the name of the run that it starts, whose nodes have their sockets."""

    words: str
    places: tuple[str, ...] = ()
    run: str = ""
    nodes: tuple[str, ...] = nodes_of(controlled=True)


AT = {name: free_port() for name in ("page", "telemetry", "state", "applied", "foxglove")}
FAR = "--set plant.device.state=tcp://127.0.0.1:{state} --set plant.device.applied=tcp://0.0.0.0:{applied}"
NEAR = FAR.replace("0.0.0.0", "127.0.0.1")
SECURE = f"{FAR} --set plant.device.key=robot --key desk"
EXTERNAL = "trailer_pursuit_external --no-report --name alone"
RUN = "trailer_pursuit --no-report --set run.speed=1 --set run.duration=600 --name alone"
UDP = "trailer_pursuit_udp --set plant.device.address=127.0.0.1:{applied}"
HOSTS = "--set hosts.plant=tcp://robot.local:{applied} --on robot --key desk"
DESK = "--set hosts.plant=tcp://127.0.0.1:{applied} --set hosts.key=robot --key desk"
HERE = "--set hosts.plant=tcp://127.0.0.1:{applied} --on 127.0.0.1 --insecure"
REACHED = {
    "run": Reached(f"run {RUN} --record --output rows.csv", (), "alone"),
    "run, with page": Reached(f"run {RUN} --page={{page}}", ("tcp 127.0.0.1:{page}",), "alone"),
    "run, with telemetry": Reached(
        f"run {RUN} --telemetry=tcp://127.0.0.1:{{telemetry}}", ("tcp 127.0.0.1:{telemetry}",), "alone"
    ),
    "run, its machine far away, with keys": Reached(f"run {EXTERNAL} {SECURE}", ("tcp 0.0.0.0:{applied}",), "alone"),
    "run, its machine here, without keys": Reached(
        f"run {EXTERNAL} {NEAR} --insecure", ("tcp 127.0.0.1:{applied}",), "alone"
    ),
    "run, its machine on UDP": Reached(f"run {UDP} --no-report --name alone", ("udp 127.0.0.1:*",), "alone"),
    "run, whose other nodes are on another computer that connects, with keys": Reached(
        f"run {RUN} {HOSTS}", ("tcp 0.0.0.0:{applied}",), "alone", (CONTROLLER, TARGET, RELAY)
    ),
    "run, whose plant is on another computer, to which it connects": Reached(
        f"run {RUN} {DESK}", (), "alone", (PLANT, RELAY)
    ),
    "run, whose other nodes connect from this computer, without keys": Reached(
        f"run {RUN} {HERE}", ("tcp 127.0.0.1:{applied}",), "alone", (CONTROLLER, TARGET, RELAY)
    ),
    "page": Reached("page {run} --port {page}", ("tcp 127.0.0.1:{page}",)),
    "bridge foxglove": Reached("bridge foxglove {run} --port {foxglove}", ("tcp 127.0.0.1:{foxglove}",)),
    "page, with a certificate": Reached(
        "page {run} --port {page} --host 0.0.0.0 --certfile {certificate} --keyfile {certificate_key}",
        ("tcp 0.0.0.0:{page}",),
    ),
    "protocol check": Reached(
        f"protocol check --launch trailer_pursuit_external {SECURE}", ("tcp 0.0.0.0:{applied}",)
    ),
    "hil accept": Reached(f"hil accept {UDP}", ("udp 127.0.0.1:*",)),
}  # fmt: skip
WITH_KEYS = {"run, its machine far away, with keys", "protocol check"}
FROM_AFAR = {  # what other computers may reach
    *WITH_KEYS, "run, whose other nodes are on another computer that connects, with keys", "page, with a certificate",
}  # fmt: skip


class Watched:
    """`servonode` with these words in a session of its own; where its processes listened. A context manager."""

    def __init__(self, folder: Path, words: list[str], **environment: str) -> None:
        self._output = folder / "output"
        with self._output.open("w") as output:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "servonode.cli.main", *words], cwd=folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True, env={**os.environ, **environment},
            )  # fmt: skip
        self.seen: set[str] = set()

    @property
    def output(self) -> str:
        return self._output.read_text()

    def look(self) -> None:
        """Note where they listen now; the system gives any port of UDP, so that is a star."""
        found = listening_sockets(processes(self.popen.pid))
        self.seen |= {f"{each.rpartition(':')[0]}:*" if each.startswith("udp") else each for each in found}

    def watch(self, seconds: float) -> int | None:
        """Look for so long, or until the command ends; its exit code, if it has one."""
        end = time.monotonic() + seconds
        while self.popen.poll() is None and time.monotonic() < end:
            self.look()
            time.sleep(NAP_S)
        return self.popen.returncode

    def watch_until(self, holds: Any) -> None:
        """Look until it holds, and a little longer; AssertionError where it never does."""
        end = time.monotonic() + START_S
        while not holds():
            assert self.watch(NAP_S) is None, self.output
            assert time.monotonic() < end, (self.seen, self.output)
        self.watch(WATCHED_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGKILL):
            for pid in processes(self.popen.pid):
                os.kill(pid, number)
            if number == signal.SIGINT and self.popen.poll() is None:
                self.popen.send_signal(number)
                self.popen.wait(END_S)
        self.popen.wait(END_S)


class Place:
    """A run in progress, what a killed one has left, a recording, and the keys of a desk and of its robot."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        self.folder = folder
        self.desk, self.robot = KeyStore(folder / "desk"), KeyStore(folder / "robot")
        self.desk_key, self.robot_key = self.desk.new("desk"), self.robot.new("robot")
        self.desk.trust(self.robot_key, ["plant"])
        bag, dead = folder / "whole.mcap", folder / "dead.mcap"
        short = runs.start("trailer_pursuit", "run.duration=0.5", words=["--record", str(bag)])
        killed = [runs.start("trailer_pursuit", *FORGIVING, words=words) for words in ([], ["--record", str(dead)])]
        self.run = runs.start("trailer_pursuit", *FORGIVING)
        for each in (*killed, self.run):
            each.wait_open()
        time.sleep(0.5)
        for each in killed:
            each.end()
        short.ends_with(0, START_S)
        self.names = {
            "run": self.run.name, "bag": str(bag), "robot": str(self.robot_key),
            "csv_spool": str(killed[0].spools()[0]), "bag_spool": f"{dead}.spool",
        } | {name: str(port) for name, port in AT.items()}  # fmt: skip
        numbers = folder / "numbers.toml"
        numbers.write_text("controller.gains.lambda = 2\n")
        self.names["numbers"] = str(numbers)
        if OPENSSL:
            certificate, key = made_certificate(folder)
            self.names |= {"certificate": str(certificate), "certificate_key": str(key)}

    @contextmanager
    def machine(self) -> Iterator[None]:
        """The machine with its key."""
        words = [f"tcp://127.0.0.1:{AT['state']}", f"tcp://127.0.0.1:{AT['applied']}"]
        keys = ["--keys", str(self.robot_key.with_suffix(".key_secret")), str(self.desk_key)]
        process = subprocess.Popen([sys.executable, str(EXAMPLE), *words, *keys])
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def started(self, text: str, **environment: str) -> Watched:
        """This command; each in a folder of its own."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        words = text.format(**self.names).split()
        return Watched(folder, words, SERVONODE_KEYS=str(self.folder / "desk"), **environment)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("listens")
    with private_runs(folder) as runs:
        yield Place(folder, runs)


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """A virtual display."""
    if not shutil.which("Xvfb"):
        pytest.skip("needs a virtual display: apt install xvfb")
    read, write = os.pipe()
    command = ["Xvfb", "-displayfd", str(write), "-noreset", "-screen", "0", "1500x950x24"]
    with subprocess.Popen(command, pass_fds=[write], stderr=subprocess.DEVNULL) as server, os.fdopen(read) as stream:
        os.close(write)
        yield f":{stream.readline().strip()}"
        server.terminate()


def test_every_command_is_entered_here() -> None:
    entered = {*NOWHERE, *PRIVATE, *FOLLOW, *FILTERED, *(name.partition(",")[0] for name in REACHED)}
    assert entered == set(verbs())


def test_what_a_process_and_its_child_listen_at_is_found(tmp_path: Path) -> None:
    code = (
        "import os, socket, sys, time\n"
        "made = [socket.create_server(('0.0.0.0', 0)), socket.create_server(('::1', 0), family=socket.AF_INET6)]\n"
        "made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))\n"
        "made[-1].bind(('', 0))\n"
        "to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "to.connect(('127.0.0.1', 9))\n"
        "for name in (sys.argv[1], '\\0' + sys.argv[2]):\n"
        "    made.append(socket.socket(socket.AF_UNIX))\n"
        "    made[-1].bind(name)\n"
        "    made[-1].listen()\n"
        "print(*(each.getsockname()[1] for each in made[:3]), flush=True)\n"
        "if os.fork():\n"
        "    [each.close() for each in made]\n"
        "time.sleep(60)\n"
    )
    path, name = str(tmp_path / "a socket"), f"servonode-{os.getpid()}"
    command = [sys.executable, "-c", code, path, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            v4, v6, udp = process.stdout.readline().split()
            expected = {f"tcp 0.0.0.0:{v4}", f"tcp [::1]:{v6}", f"udp 0.0.0.0:{udp}", f"unix {path}", f"unix @{name}"}
            assert eventually(lambda: len(processes(process.pid)) == 2)
            found = listening_sockets(processes(process.pid))
            assert found == expected
            assert set(filter(beyond_this_computer, found)) == {f"tcp 0.0.0.0:{v4}", f"udp 0.0.0.0:{udp}"}
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def nodes_sockets(run: str, nodes: tuple[str, ...]) -> set[str]:
    """The sockets of nodes of a run, in its private folder; a relay has those of the nodes on the other computer."""
    folder = run_path(run)
    return {f"unix {folder}/{node}.{kind}" for node in nodes for kind in ("pub", "req")}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=needs_openssl) if "certificate" in each else each for each in REACHED]
)
def test_a_command_is_reached_where_it_says_and_from_other_computers_only_with_keys(place: Place, name: str) -> None:
    if name == "bridge foxglove":
        neighbour("foxglove")
    case = REACHED[name]
    places = {each.format(**place.names) for each in case.places}
    expected = places | (nodes_sockets(case.run, case.nodes) if case.run else set())
    with ExitStack() as stack:
        if name in WITH_KEYS:
            stack.enter_context(place.machine())
        watched = stack.enter_context(place.started(case.words))
        watched.watch_until(lambda: watched.seen >= expected)
        if case.run:
            assert run_path(case.run).stat().st_mode & 0o077 == 0
    assert watched.seen == expected
    assert set(filter(beyond_this_computer, watched.seen)) == (places if name in FROM_AFAR else set())


@pytest.mark.parametrize("name", FILTERED)
def test_a_command_whose_sockets_are_filtered_has_sockets_of_udp_alone(place: Place, name: str) -> None:
    neighbour("cyclonedds")
    with place.started(FILTERED[name]) as watched:
        watched.watch_until(lambda: "udp 0.0.0.0:*" in watched.seen)
    assert {each.partition(" ")[0] for each in watched.seen} == {"udp"}


@pytest.mark.parametrize("name", FOLLOW)
def test_a_command_that_follows_a_run_is_reached_nowhere(place: Place, name: str, request: Any) -> None:
    environment = {"DISPLAY": request.getfixturevalue("display")} if name == "plot" else {}
    publisher = place.run.path / f"{PLANT}.pub"
    before = connections_to(publisher)
    with place.started(f"{name} {FOLLOW[name]}", **environment) as watched:
        watched.watch_until(lambda: connections_to(publisher) > before)
    assert watched.seen == set()


@pytest.mark.parametrize("name", NOWHERE)
def test_a_command_that_ends_by_itself_is_reached_nowhere(place: Place, name: str) -> None:
    with place.started(f"{name} {NOWHERE[name]}") as watched:
        code = watched.watch(START_S)
        assert code in (0, 1, 2 if name == "bag merge" else 0), watched.output  # 1: a plant may refuse what was asked
    assert watched.seen == set()


@pytest.mark.parametrize("name", PRIVATE)
def test_processes_that_a_command_starts_meet_in_private_folders(place: Place, name: str) -> None:
    modes, end = dict[Path, int](), time.monotonic() + 2 * START_S
    with place.started(name) as watched:
        while watched.watch(NAP_S) is None:
            assert time.monotonic() < end, watched.output
            for folder in {Path(each.removeprefix("unix ")).parent for each in watched.seen} - modes.keys():
                with suppress(OSError):
                    modes[folder] = folder.stat().st_mode & 0o077
        assert watched.popen.returncode == 0, watched.output
    assert len(modes) >= 3
    assert {each.partition(" ")[0] for each in watched.seen} == {"unix"}
    assert set(modes.values()) == {0}
