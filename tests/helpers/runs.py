"""Runs in processes of their own: started, watched, asked, killed, and taken over by a controller of the test's.

All processes of a computer share the monotonic clock, so the `mono` [ns] of a message and the time at which a test
did something can be compared. Every run lives in a runtime folder of the test's own.
"""

import fcntl
import json
import os
import random
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from servonode.bus import (
    Applied,
    Bus,
    BusError,
    Command,
    Message,
    Requester,
    State,
    Status,
    run_path,
)
from servonode.bus.topology import CONTROLLER, PLANT, nodes_of
from servonode.operator.find_runs import TITLE, find_run
from tests.helpers.events import LONG_S, eventually

NODES = nodes_of(controlled=True)
SEED = int(os.environ.get("SERVONODE_SEED") or random.SystemRandom().randrange(10**9))  # of what happens at random
MANY = int(os.environ.get("SERVONODE_KILLS", "12"))  # kills of one kind in a slow test
# bounds of waits, at which a test fails that would wait for ever: no computer is as busy as that
START_S = 180.0  # from nothing to the first state, or to the end of a run in lockstep
END_S = 60.0
SOON_S = LONG_S  # what comes within a period or a restart
ANSWER_S = 10.0  # a minute in tests/processes
NAP_NS = 20_000_000
# settings with which each node that dies is started again at once; OFTEN: however often
RESTARTED = (*(f'supervision.{node}="on-failure"' for node in NODES), "supervision.backoff=0")
OFTEN = "supervision.attempts=100000"
Wanted = Callable[[Any], bool]


def signalled(pid: int, number: int) -> int:
    """Send a signal; the monotonic time [ns] just before."""
    now = time.monotonic_ns()
    os.kill(pid, number)
    return now


def state_of(pid: int) -> str:
    """One letter of what the system says of a process; "" if there is no such process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


class Watch:
    """Receives what nodes of a run publish: `{node: [topic words]}`. A context manager that closes."""

    def __init__(self, name: str, wanted: Mapping[str, Sequence[str]] | None = None) -> None:
        self._bus = Bus(run_path(name), "watch")
        self._inbox = self._bus.subscriber(wanted or {PLANT: ["status", "applied"], CONTROLLER: ["status"]})
        self.received: list[Message] = []

    def take(self) -> None:
        """Take what has come."""
        self.received += [message for _, message in self._inbox.receive()]

    def until(self, wanted: Wanted, after: int = 0, within_s: float = SOON_S) -> Any:
        """The first message published after `after` [monotonic ns] that is wanted; AssertionError if none comes."""
        limit = time.monotonic_ns() + round(within_s * 1e9)
        looked = 0
        while True:
            self.take()
            for message in self.received[looked:]:
                if message.mono >= after and wanted(message):
                    return message
            looked = len(self.received)
            assert time.monotonic_ns() < limit, f"nothing of the kind came within {within_s:g} s: {self._summary()}"
            self._bus.wait(time.monotonic_ns() + NAP_NS)

    def status(self, lifecycle: str = "", after: int = 0, node: str = PLANT, within_s: float = SOON_S) -> Status:
        """The first status of a node after `after`, in this lifecycle if one is named."""

        def wanted(message: Message) -> bool:
            return type(message) is Status and message.node == node and lifecycle in ("", message.lifecycle)

        found: Status = self.until(wanted, after, within_s)
        return found

    def latest(self, node: str = PLANT) -> Status:
        """The newest status of a node that has come."""
        self.take()
        return [m for m in self.received if type(m) is Status and m.node == node][-1]

    def of(self, kind: type[Message], after: int = 0) -> list[Any]:
        """All messages of a kind that were published after `after`."""
        self.take()
        return [message for message in self.received if type(message) is kind and message.mono >= after]

    def forget(self) -> None:
        """Forget what was received."""
        self.take()
        self.received.clear()

    def _summary(self) -> str:
        statuses = [m for m in self.received if type(m) is Status]
        newest = {m.node: f"{m.lifecycle} {m.fault} {m.counts}" for m in statuses}
        return f"{len(self.received)} messages, {newest}"

    def close(self) -> None:
        self._bus.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def columns_of(file: Path) -> dict[str, Any]:
    """The columns of a CSV file, by name."""
    header, *rows = file.read_text().splitlines()
    table = np.array([row.split(",") for row in rows], dtype=float).T
    return dict(zip(header.split(","), table, strict=True))


class Output:
    """The files of one run: what it printed, and its record."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.csv = folder / f"{name}.csv"
        self._stdout, self._stderr = folder / f"{name}.stdout", folder / f"{name}.stderr"

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    @property
    def printed(self) -> dict[str, Any]:
        """The one object on stdout."""
        content: dict[str, Any] = json.loads(self._stdout.read_text())
        return content

    @property
    def columns(self) -> dict[str, Any]:
        """The record, by name."""
        return columns_of(self.csv)


class Process(Output):
    """`servonode run` in a process of its own, its output in files, or all three standard streams on a terminal.

    It has a method more than fifteen because a test does all that is done to a run through it.
    terminal: descriptor of one, which becomes the process's own. limits: as of `ulimit`, by the number of the resource.
    inside: the words before the command that have it run elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        launch: str,
        *settings: str,
        words: Sequence[str] = (),
        name: str = "",
        terminal: int = -1,
        limits: Mapping[int, int] | None = None,
        inside: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, name or f"test-{os.getpid()}-{time.monotonic_ns()}")
        self.path = run_path(self.name)
        command = [*inside, sys.executable, "-m", "servonode.cli.main", "run", launch, "--name", self.name]
        command += ["--no-report", "--json", "--output", str(self.csv), *words]
        command += [word for setting in settings for word in ("--set", setting)]

        def prepare() -> None:
            for kind, limit in (limits or {}).items():
                resource.setrlimit(kind, (limit, limit))
            if terminal >= 0:
                os.setsid()
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        with self._stdout.open("w") as stdout, self._stderr.open("w") as stderr:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
            streams = dict.fromkeys(streams, terminal) if terminal >= 0 else streams
            self.popen = subprocess.Popen(command, preexec_fn=prepare, **streams)

    def fault(self, name: str) -> dict[str, Any]:
        """The fault of this name among those that were printed."""
        faults = {each["name"]: each for each in self.printed["faults"]}
        assert name in faults, f"{faults}\n{self.stderr}"
        found: dict[str, Any] = faults[name]
        return found

    def registry(self) -> dict[str, Any]:
        """What the run says of itself; empty while it says nothing."""
        with suppress(BusError):
            return find_run(self.name).registry
        return {}

    def is_open(self) -> bool:
        """Whether all nodes have been started."""
        assert self.popen.poll() is None, self.stderr
        return bool(self.registry().get("open"))

    def pids(self) -> dict[str, int]:
        """The nodes' processes."""
        return dict(self.registry()["pids"])

    def wait_open(self, within_s: float = START_S) -> None:
        """Until all nodes have been started."""
        assert eventually(self.is_open, within_s), self.stderr

    def kill(self, node: str, number: int = signal.SIGKILL) -> int:
        """Send a node a signal; the time [monotonic ns] just before."""
        return signalled(self.pids()[node], number)

    def ask(self, word: str, node: str = PLANT, within_s: float | None = None) -> dict[str, Any]:
        """The answer of a node to an operator's word."""
        with Requester(self.path, node) as requester:
            return requester.ask(
                {"ask": word}, within_s or ANSWER_S, expires=word != "estop"
            )  # as servonode estop asks it

    def order(self, word: str) -> str:
        """Have the plant carry out an operator's word; its lifecycle after that."""
        answer = self.ask(word)
        assert answer.get("done"), answer
        return str(answer["lifecycle"])

    def armed_again(self) -> bool:
        """Whether a reset, if it is still needed, and arming were accepted; a machine may have started anew."""
        self.ask("reset_origin")
        return bool(self.ask("arm").get("done"))

    def arm(self, watch: Watch) -> Status:
        """Arm, once the controller answers; the status that says active."""
        asked = time.monotonic_ns()
        assert eventually(lambda: self.ask("arm").get("done")), self.ask("arm")
        return watch.status("active", asked)

    def ends_with(self, code: int, within_s: float = END_S) -> None:
        """The launcher ends by itself, and nothing of it is left."""
        assert self.popen.wait(within_s) == code, self.stderr
        assert "Traceback" not in self.stderr, self.stderr
        assert self.left_over() == []
        assert not self.path.exists()

    def stop(self) -> None:
        """Break the run off."""
        self.popen.send_signal(signal.SIGINT)
        self.popen.send_signal(signal.SIGCONT)
        self.ends_with(130)

    def writer(self) -> int:
        """The process that writes the record."""
        (found,) = self.left_over(b"writer")
        return found

    def spools(self) -> list[Path]:
        """The records that lie beside the CSV file."""
        return sorted(self.csv.parent.glob("*.spool"))

    def left_over(self, node: bytes = b"") -> list[int]:
        """Processes of servonode that carry the run's name, and this node's if one is given.

        They are killed at the end: a process of others, in whose command the name is a word of a text, is none of them.
        """
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                words = command.rstrip(b"\0").split(b" " if command.startswith(TITLE) else b"\0")
                ours = any(word.startswith(b"servonode") for word in words)  # a node's title, or python -m servonode...
                named = ours and self.name.encode() in words and (not node or words[1:2] == [node])
                if named and state_of(int(folder.name)) != "Z":
                    found.append(int(folder.name))
        return found

    def end(self) -> None:
        """Kill whatever is left of it."""
        for pid in [*self.left_over(), self.popen.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.popen.wait(END_S)


PATIENT = f"""
from servonode.operator import operator_requests as limits
limits.ANSWER_S = limits.CONFIRM_S = {LONG_S}
from servonode.cli.main import main
main()
"""


def operator(*words: str, descriptors: int = 0, patient: bool = False, **more: Any) -> subprocess.CompletedProcess[str]:
    """`servonode` with these words as a process of its own; `descriptors`: with no more than so many of them.

    patient: it waits for answers and confirmations for a minute.
    """
    command = [sys.executable, *(["-c", PATIENT] if patient else ["-m", "servonode.cli.main"]), *words]
    if descriptors:
        command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False, **more)


def final_of_run(launch: Path, *values: str) -> dict[str, Any]:
    """What `servonode run --json` of a launch file, with these values set, prints once it has completed."""
    words = [word for value in values for word in ("--set", value)]
    done = operator("run", str(launch), "--no-report", "--json", *words)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def stopped_early(run: Process, rng: random.Random, within_s: float = 0.3) -> float:
    """Kill the plant, and send its successor SIGUSR1 at a random moment of its first `within_s`, often an early one.

    It must live on, stopped; it is released then. The moment [s] comes out.
    """
    before, wait = children(run.popen.pid), within_s * rng.random() ** 2
    with Watch(run.name, {PLANT: ["status"]}) as watch:
        run.kill(PLANT)
        assert eventually(lambda: children(run.popen.pid) - before), run.stderr
        (successor,) = children(run.popen.pid) - before
        time.sleep(wait)
        sent = signalled(successor, signal.SIGUSR1)
        assert watch.status("fault", sent).fault == "estop", f"after {wait} s"
    stands = run.ask("status")
    assert [each["name"] for each in stands["faults"]] == ["estop"], f"after {wait} s"
    assert eventually(lambda: run.is_open() and run.pids()[PLANT] == successor), f"after {wait} s: {run.stderr}"
    assert "reset --estop" in run.ask("reset")["refused"]
    assert run.order("reset_estop") == "inactive"
    time.sleep(0.1)  # until the launcher knows of it: what it knows to be stopped it stops again
    return wait


def children(pid: int) -> set[int]:
    """The children of a process."""
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


class Runs:
    """Starts runs in a runtime folder of their own, and ends what is left of them."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder = folder
        self.runtime = runtime
        self.started: list[Process] = []
        self.ends = ExitStack()  # what else ends with them

    def start(self, launch: str, *settings: str, **options: Any) -> Process:
        """A run with these settings, as in `--set`, and the options of `Process`."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        self.started.append(Process(folder, launch, *settings, **options))
        return self.started[-1]

    def left_files(self) -> list[str]:
        """What lies in the runtime folder."""
        return sorted(str(path.relative_to(self.runtime)) for path in self.runtime.rglob("*"))


@contextmanager
def private_runtime() -> Iterator[Path]:
    """A runtime folder with a short path, for sockets: this process and its children see no run outside it.

    But for `/run/user`, where children look too: have them ask for a run by its name.
    """
    made = tempfile.TemporaryDirectory
    with made(prefix="sn-") as runtime, made(prefix="sn-") as temporary, pytest.MonkeyPatch.context() as patch:
        patch.delenv("SERVONODE_RUNTIME_DIR", raising=False)
        patch.setenv("XDG_RUNTIME_DIR", runtime)
        patch.setenv("TMPDIR", temporary)
        patch.setattr("servonode.operator.find_runs.LOGIN", Path(temporary) / "login")
        yield Path(runtime)


@contextmanager
def private_runs(folder: Path) -> Iterator[Runs]:
    """Runs in a runtime folder of their own; this process looks there too."""
    with private_runtime() as runtime:
        runs = Runs(folder, runtime)
        try:
            yield runs
        finally:
            runs.ends.close()
            for process in runs.started:
                process.end()


Answer = Callable[[State], Any]  # a Command, bytes in its place, a list of these, or None for none


class Puppet:
    """The test in the place of a run's controller, whose process is killed while the launcher is held still.

    It answers control states as it is told: `answer` gives the command or commands for a state. A context manager
    that lets the launcher go on; the run then ends, for its controller is dead.
    """

    def __init__(self, run: Process) -> None:
        self.run = run
        self.src = secrets.randbelow(2**52) + 1
        self.states: list[State] = []
        self.statuses: list[Status] = []
        self.applied: list[Applied] = []
        self.answer: Answer = self.good
        self._seq = 0
        with ExitStack() as stack:
            stack.callback(signalled, run.popen.pid, signal.SIGCONT)
            signalled(run.popen.pid, signal.SIGSTOP)
            pid = run.pids()[CONTROLLER]
            signalled(pid, signal.SIGKILL)
            self.bus = stack.enter_context(Bus(run.path, CONTROLLER))
            assert eventually(self._takes_over), state_of(pid)
            self.inbox = self.bus.subscriber({PLANT: ["state", "status", "applied"]})
            self._stack = stack.pop_all()

    def _takes_over(self) -> bool:
        """Whether the dead controller's address could be had; its process takes a moment to end."""
        with suppress(BusError):
            self.publisher = self.bus.publisher()
            return True
        return False

    @property
    def counts(self) -> Counter[str]:
        """The plant's counters as of now."""
        return Counter(self.run.ask("status")["counts"])

    def refused(self, before: Counter[str], expected: Mapping[str, int]) -> dict[str, int]:
        """How many commands the plant has refused for the expected reasons since `before`.

        It is waited for until they are as many: the plant may still be taking what a stalled test has sent at once.
        """

        def found() -> dict[str, int]:
            since = self.counts - before
            return {reason: since[f"refused_{reason}"] for reason in expected}

        eventually(lambda: found() == expected)
        return found()

    def good(self, state: State, **changes: Any) -> Command:
        """A good answer to a state, all inputs zero, with changes."""
        self._seq += 1
        header = {"t": state.t, "seq": self._seq, "run": state.run, "k": state.k, "mono": time.monotonic_ns()}
        values = {"node": CONTROLLER, "src": self.src, "re": state.seq, "target_seq": -1}
        return Command(**{**header, **values, "input": dict.fromkeys(state.input, 0.0), **changes})

    def publish(self, answer: Any) -> None:
        """Publish commands; bytes go out as they are, in a command's place."""
        for each in answer if isinstance(answer, list) else [answer]:
            if isinstance(each, bytes):
                self.publisher.publish_frames(b"command", each)
            elif each is not None:
                self.publisher.publish("command", each)

    def beat(self) -> None:
        """Publish a status, as a controller that is alive does."""
        self._seq += 1
        state = self.states[-1]
        self.publisher.publish("status", Status(
            t=state.t, seq=self._seq, run=state.run, k=state.k, mono=time.monotonic_ns(), node=CONTROLLER,
            src=self.src, lifecycle="active", counts={}, values={},
        ))  # fmt: skip

    def play(self, until: Callable[[], bool], within_s: float = SOON_S) -> None:
        """Answer what comes until it is so; AssertionError when that takes too long."""
        limit = time.monotonic_ns() + round(within_s * 1e9)
        while True:
            for _, message in self.inbox.receive():
                self._on(message)
            if until():
                return
            assert time.monotonic_ns() < limit, f"not within {within_s:g} s; the plant: {self.statuses[-1:]}"
            self.bus.wait(time.monotonic_ns() + NAP_NS)

    def play_states(self, count: int) -> list[State]:
        """Answer so many more control states, and give them."""
        first = len(self.states)
        self.play(lambda: len(self.states) >= first + count)
        return self.states[first:]

    def _on(self, message: Message) -> None:
        if type(message) is Status and message.node == PLANT:
            self.statuses.append(message)
        elif type(message) is Applied:
            self.applied.append(message)
        elif type(message) is State and message.control:
            self.states.append(message)
            self.publish(self.answer(message))

    def stands(self, lifecycle: str, after: int = 0) -> bool:
        """Whether the newest status since `after` [monotonic ns] is of this lifecycle."""
        return bool(self.statuses) and self.statuses[-1].mono >= after and self.statuses[-1].lifecycle == lifecycle

    def activate(self) -> None:
        """With good answers, bring the plant to active, armed again, whatever it stood in.

        This begins anew where the plant faults: while the test waits for the reply to a request, it answers no state.
        """
        self.answer = self.good
        assert eventually(self._armed_again, START_S), self.statuses[-1:]
        self.play_states(1)

    def _armed_again(self) -> bool:
        """Whether the plant, disarmed or reset, has become active after an arming."""
        self.play_states(3)
        lifecycle = self.run.ask("status")["lifecycle"]
        if lifecycle != "inactive":
            self.run.ask("reset_estop" if lifecycle == "fault" else "disarm")
        self.play_states(3)
        asked = time.monotonic_ns()
        if not self.run.ask("arm").get("done"):
            return False
        self.play(lambda: self.stands("active", asked) or self.stands("fault", asked))
        return self.stands("active", asked)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
