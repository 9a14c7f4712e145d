"""The operator's verbs: beside a run that answers as its plant would, one that does not, and none."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.bus import run_folder
from servonode.bus.processes import Named
from servonode.operator import find_runs as found_runs
from servonode.operator import operator_requests
from servonode.operator.find_runs import owners
from tests.helpers.events import LONG_S
from tests.helpers.runs import PATIENT, private_runtime
from tests.nodes.test_operator_requests import (
    START_S,
    line,
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


# the emergency stop


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
for i in $(seq 1200); do [ -S $1/there/*/plant.req ] && break; sleep 0.1; done
$2 -c "$3" estop
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
        command = [*NAMESPACE, "sh", "-c", ELSEWHERE, "sh", folder, sys.executable, PATIENT]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("far: stopped (fault), confirmed; process ")
