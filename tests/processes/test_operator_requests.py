"""The operator's verbs: beside a run that answers as its plant would, one that does not, and none."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from servonode.bus import RunFolder, run_folder, run_path
from servonode.bus.processes import Named
from servonode.operator import find_runs as found_runs
from servonode.operator import operator_requests
from servonode.operator.find_runs import find_runs, owners
from tests.helpers.events import LONG_S
from tests.helpers.runs import SOON_S, private_runtime
from tests.nodes.test_operator_requests import (
    ASKED,
    OF_ANY,
    START_S,
    Answer,
    Node,
    line,
    obedient,
    registered,
    servo,
    this_process,
)


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


# which run


OF_ANY["fault"] = "RUN drive off"  # never without a name


# the emergency stop


def test_it_needs_no_launcher(going: Callable[..., Node]) -> None:
    node = going("sphero")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    registry = registered("sphero", pid=process.pid)
    assert servo("estop").stdout == f"sphero: stopped (fault), {ASKED}\n"
    registry.write_text(registry.read_text()[:40])  # torn
    assert servo("estop", "sphero").stdout == f"{registry.parent}: stopped (fault), {ASKED}\n"
    registry.unlink()
    assert servo("estop", "sphero").stdout == f"{registry.parent}: stopped (fault), {ASKED}\n"
    assert servo("estop").stdout == f"{registry.parent}: stopped (fault), {ASKED}\n"
    assert node.asked == ["estop"] * 4


HUNG = """
import os, signal, socket, sys
requests = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b"stopped"), os._exit(0)))
requests.bind(sys.argv[1])
requests.listen(16)
os.write(1, b"!")
while True:
    signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a socket tells who listens on Linux only")
@pytest.mark.usefixtures("impatient")
def test_a_plant_that_does_not_answer_is_sent_the_signal() -> None:
    with run_folder("sphero") as folder:
        words = [sys.executable, "-c", HUNG, str(folder.path / "plant.req")]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as plant:
            assert plant.stdout is not None
            assert plant.stdout.read(1) == b"!"
            folder.register(["plant"], {"pids": {"plant": os.getpid()}})  # without its start: it may be anybody's
            text = line(servo("estop"), 1)
            assert plant.stdout.read() == b"stopped"
            assert plant.wait(START_S) == 0
    assert text.startswith("sphero: not confirmed: node 'plant' ")
    sent = f"process {plant.pid} was sent SIGUSR1 and stops as soon as it runs"
    assert text.endswith((f"; {sent}", f"; the plant's process {plant.pid} is gone"))


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


# where runs are found


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, runtime: Path) -> Iterator[Path]:
    """A second folder in which runs of this user may be, with a short path."""
    with tempfile.TemporaryDirectory(prefix="sn-") as folder:
        yield Path(folder)


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
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    run_path("dead").mkdir(mode=0o700)
    (run_path("dead") / "registry.json").write_text(json.dumps({"run": "dead", "pid": ended.pid, "nodes": {}}))
    assert "no run named 'dead'" in line(servo("reset", "dead"), 2)
    begin = time.monotonic()
    assert find_runs() == {}
    assert time.monotonic() - begin < SOON_S


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_under_sudo_only_the_callers_own_processes_are_signalled(
    elsewhere: Path, got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVONODE_RUNTIME_DIR", str(elsewhere))
    for wrong in ("", "x", "-1", "٣"):
        monkeypatch.setenv("SUDO_UID", wrong)
        assert owners() == [os.getuid()]
    monkeypatch.setenv("SUDO_UID", "4242")
    assert owners() == [os.getuid(), 4242]
    with monkeypatch.context() as user:
        user.setattr(os, "getuid", lambda: 1000)
        assert owners() == [1000]
    monkeypatch.setattr("servonode.operator.operator_requests.CONFIRM_S", 0.05)
    code = "import os, signal; os.setuid(4242); os.write(1, b'!'); signal.pause()"
    with run_folder("sphero") as folder, subprocess.Popen([sys.executable, "-c", code], stdout=-1) as theirs:
        assert theirs.stdout is not None
        assert theirs.stdout.read(1) == b"!"
        folder.register(["plant"], this_process())  # the caller's folder names a process of root's
        for path in (elsewhere, folder.path, folder.path / "registry.json"):
            os.chown(path, 4242, 4242)
        assert servo("estop").exit_code == 2
        assert got == []
        named = Named.of(theirs.pid)
        folder.register(["plant"], {"pids": {"plant": named.pid}, "starts": {"plant": named.start}})
        os.chown(folder.path / "registry.json", 4242, 4242)
        assert servo("estop").exit_code == 1
        assert theirs.wait(START_S) == -signal.SIGUSR1


# runs elsewhere

NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
ELSEWHERE = """
mkdir -m 700 $1/there $1/here
SERVONODE_RUNTIME_DIR=$1/there $2 -m servonode.cli.main run trailer_pursuit --name far --no-report --set run.speed=1 \
  --set run.duration=600 --set plant.safety.command_timeout_floor=5 > $1/out 2>&1 &
run=$!
export SERVONODE_RUNTIME_DIR=$1/here
for i in $(seq 300); do [ -S $1/there/*/plant.req ] && break; sleep 0.1; done
$2 -m servonode.cli.main estop
code=$?
kill -INT $run
wait $run
exit $code
"""


def has_namespaces() -> bool:
    """Whether this user may make namespaces of processes."""
    able = shutil.which("unshare") and subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False)
    return bool(able) and able.returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="namespaces of processes are not available (unshare)")
def test_estop_reaches_a_run_in_an_unknown_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [*NAMESPACE, "sh", "-c", ELSEWHERE, "sh", folder, sys.executable]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("far: stopped (fault), confirmed; process ")
