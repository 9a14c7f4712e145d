"""Two computers on this one: namespaces with a network between them that is as bad as a test says.

Each computer has its own network, processes, host name, names of hosts, monotonic clock, runtime folder and keys; only
the files are shared. What a test asks of a run on one of them goes over its Unix sockets, and so past the network.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

import pytest

from servonode.bus.keys import KeyStore
from servonode.bus.topology import PLANT
from tests.helpers import enter, network
from tests.helpers.host import host_s
from tests.helpers.runs import END_S, START_S, Process, Watch, children, signalled
from tests.helpers.wall_clock import WallClock

HOUR_S = 3600
SLACK_S, DISTURBED_S = 0.25, 0.03  # for a computer that is busy; from where on it keeps processes waiting
NAMES = {"robot": "10.77.0.1", "desk": "10.77.0.2"}
SPACES = ("--net", "--uts", "--mount", "--pid", "--time")
# what the first process of a computer does; it ends with its stdin, and all others with it
BOOT = """set -e
ip link set lo up
hostname "$1"
mount --bind "$2" /etc/hosts
if [ -d /run/user ]; then mount -t tmpfs tmpfs /run/user; fi
echo ready
trap "" CHLD
exec cat
"""


@cache
def missing() -> str:
    """Why there can be no two computers here; empty: there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "two computers are made by namespaces, which needs Linux and root"
    absent = [each for each in ("unshare", "ip") if shutil.which(each) is None]
    if absent:
        return f"the command {absent[0]} is not found: apt-get install util-linux iproute2"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is not there: the system has no TUN devices"
    tried = subprocess.run(["unshare", *SPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"namespaces are not allowed here: {tried.stderr.strip()}"


class Computer:
    """A computer with a name and an address. A context manager that switches it off.

    ahead_s: by how much its monotonic clock is ahead of this computer's.
    """

    def __init__(self, folder: Path, name: str, ahead_s: int = 0) -> None:
        self.name, self.address, self.folder = name, NAMES[name], folder / name
        self._ends = ExitStack()
        runtime, temporary = (self._ends.enter_context(tempfile.TemporaryDirectory(prefix="sn-")) for _ in range(2))
        for each in (self.folder, self.folder / "config"):
            each.mkdir(mode=0o700)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.wall_clock = WallClock(self.folder / "wall_clock")
        self.environment = {"XDG_RUNTIME_DIR": runtime, "TMPDIR": temporary, "PATH": path}
        self.environment |= {"XDG_CONFIG_HOME": str(self.folder / "config"), **self.wall_clock.environment}
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{at} {each} {each}.local\n" for each, at in NAMES.items()))
        command = ["unshare", *SPACES, "--mount-proc", f"--monotonic={ahead_s}", "--fork"]
        command += ["sh", "-c", BOOT, "sh", name, str(hosts)]
        stderr = self._ends.enter_context((self.folder / "stderr").open("w"))
        self._outer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self._ends.callback(self.kill)
        assert self._outer.stdout is not None
        assert self._outer.stdout.readline() == "ready\n", (self.folder / "stderr").read_text()
        (self.pid,) = children(self._outer.pid)  # of its first process, as seen here
        self.keys = KeyStore(self.folder / "config" / "servonode" / "keys")

    @property
    def inside(self) -> list[str]:
        """The words before a command that have it run on this computer, in its folder."""
        return [sys.executable, "-S", enter.__file__, str(self.pid), str(self.folder)]

    @contextmanager
    def started(self, *words: str, **more: Any) -> Iterator["subprocess.Popen[str]"]:
        """Start a command, and kill it in the end; the process that comes out waits for it."""
        with self.here():
            process = subprocess.Popen([*self.inside, *words], text=True, **more)
        with process:
            try:
                yield process
            finally:
                for pid in children(process.pid) if process.poll() is None else ():
                    signalled(pid, signal.SIGKILL)

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Have a command done."""
        with self.here():
            options = {"capture_output": True, "text": True, "timeout": START_S, "check": False} | more
            return subprocess.run([*self.inside, *words], **options)

    def servonode(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Have a command of servonode done."""
        return self.run(sys.executable, "-m", "servonode.cli.main", *words, **more)

    def python(self, code: str, *words: str) -> Any:
        """What a program prints as JSON."""
        done = self.run(sys.executable, "-c", code, *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def here(self) -> Iterator[None]:
        """This process has the computer's environment, and so finds its runs."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("SERVONODE_RUNTIME_DIR", "SERVONODE_KEYS", "TEMP", "TMP"):
                patch.delenv(name, raising=False)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            yield

    def processes(self) -> dict[int, int]:
        """Its processes: their ids as seen here, by those that they have there."""
        found, space = {}, Path(f"/proc/{self.pid}/ns/pid").stat()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.path.samestat((folder / "ns" / "pid").stat(), space):
                    status = (folder / "status").read_text()
                    (line,) = [each for each in status.splitlines() if each.startswith("NSpid:")]
                    found[int(line.split()[-1])] = int(folder.name)
        return found

    def kill(self) -> None:
        """Kill all its processes at once; there is nothing that could still clear away."""
        if self._outer.poll() is None:
            for pid in children(self._outer.pid):
                signalled(pid, signal.SIGKILL)
        self._outer.communicate(timeout=END_S)

    def close(self) -> None:
        self._ends.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RunThere(Process):
    """`servonode run` on a computer."""

    def __init__(self, computer: Computer, launch: str, *settings: str, **options: Any) -> None:
        self.computer = computer
        folder = Path(tempfile.mkdtemp(dir=computer.folder))
        with computer.here():
            super().__init__(folder, launch, *settings, inside=computer.inside, **options)

    def registry(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.path / "registry.json").read_text())
            return found
        return {}

    def pids(self) -> dict[str, int]:
        there = self.computer.processes()
        return {node: there[pid] for node, pid in self.registry()["pids"].items()}

    def watch(self, *topics: str) -> Watch:
        """What its plant publishes."""
        with self.computer.here():
            return Watch(self.name, {PLANT: topics or ("status", "applied")})

    def stop(self) -> None:
        (launcher,) = children(self.popen.pid)  # of enter.py, which passes no signal on
        signalled(launcher, signal.SIGINT)
        self.ends_with(130)

    def left_over(self, node: bytes = b"") -> list[int]:
        return [pid for pid in super().left_over(node) if pid in self.computer.processes().values()]


class Network:
    """The network between two computers. A context manager that ends it."""

    def __init__(self, computers: Sequence[Computer], seed: int = 1) -> None:
        self._names = [each.name for each in computers]
        sides = [word for each in computers for word in (str(each.pid), each.address)]
        command = [sys.executable, network.__file__, str(seed), *sides]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == {}

    def set(self, sender: str = "", **quality: float) -> dict[str, int]:
        """Treat packets of this computer, of both where none is named, by this `network.Quality` from now on.

        What is not named stays. What has become of packets until now comes out.
        """
        change = quality | ({"side": self._names.index(sender)} if sender else {})
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(change) + "\n")
        self._popen.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, int]:
        assert self._popen.stdout is not None
        found: dict[str, int] = json.loads(self._popen.stdout.readline())
        return found

    def close(self) -> None:
        self._popen.kill()
        self._popen.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pair:
    """A robot and a desk, and the network between them; they trust each other's key once `exchange_keys` is done."""

    def __init__(self, robot: Computer, desk: Computer, between: Network) -> None:
        self.robot, self.desk, self.network = robot, desk, between
        self._runs: list[RunThere] = []

    def exchange_keys(self, robot: Sequence[str] = ("plant",), desk: Sequence[str] = ("controller",)) -> None:
        """A key pair for each computer, which the other one trusts for these roles."""
        public = {each.name: each.keys.new(each.name) for each in (self.robot, self.desk)}
        self.desk.keys.trust(public["robot"], list(robot))
        self.robot.keys.trust(public["desk"], list(desk))

    def start(self, computer: Computer, launch: str, *settings: str, **options: Any) -> RunThere:
        """A run on one of them, as `Runs.start`."""
        self._runs.append(RunThere(computer, launch, *settings, **options))
        return self._runs[-1]

    def kill(self, computer: Computer) -> None:
        """Switch a computer off: nothing comes from it any more, not even that its connections are closed."""
        self.network.set(computer.name, cut=True)
        computer.kill()

    def end(self) -> None:
        """Kill what is left of the runs."""
        for run in self._runs:
            run.popen.kill()
            run.popen.wait(END_S)


@contextmanager
def two_computers(folder: Path, robot_ahead_s: int = 0, desk_ahead_s: int = HOUR_S) -> Iterator[Pair]:
    """A robot and a desk whose monotonic clocks are far from each other; skips the test where it cannot have them."""
    if reason := missing():
        pytest.skip(reason)
    with (
        Computer(folder, "robot", robot_ahead_s) as robot,
        Computer(folder, "desk", desk_ahead_s) as desk,
        Network([robot, desk]) as between,
    ):
        pair = Pair(robot, desk, between)
        try:
            yield pair
        finally:
            pair.end()


def reaction_s(timeout_s: float, begin: int, end: int) -> float:
    """How long a reaction to silence may take [s] between two times of this process [monotonic ns].

    A process that this computer does not run begins its waits afresh then.
    """
    late_s = host_s(begin, end)
    return timeout_s + SLACK_S + (timeout_s + 2 * late_s if late_s > DISTURBED_S else 0.0)
