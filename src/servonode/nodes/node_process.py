"""The child processes of the launcher: how they are forked, and what is known of them; helpers beside a run."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from setproctitle import setproctitle

from servonode.bus import BusError, Status
from servonode.nodes.terminal import Lines

CRASHED = 3  # exit code after an exception; 0 and 1 are the codes of a run
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # signals that the launcher handles
STOP = signal.SIGUSR1  # the emergency stop: blocked from before the fork until the child's bus handles it
LAST_OUTPUT_S = 1.0  # how long the last output may wait for the launcher to read it
_PR_SET_PDEATHSIG = 1

Progress = Callable[[dict[str, Status]], None]  # takes the newest status of each node
END = b"\n"  # tells a process that the run has ended
END_S = 2.0  # s (wall clock), for a process that is to end with the run


@dataclass
class Output:
    """The output of a process, from the read end of a pipe, which never waits."""

    name: str
    output: int
    partial: bytes = b""

    def forward(self) -> None:
        """Print what has come, each line after the name of the process."""
        with contextlib.suppress(BlockingIOError):
            while self.output >= 0 and (chunk := os.read(self.output, 65536)):
                *lines, self.partial = (self.partial + chunk).split(b"\n")
                for line in lines:
                    print(f"[{self.name}] {line.decode(errors='replace')}", file=sys.stderr)  # noqa: T201

    def close(self) -> None:
        """Close it; a second call does nothing."""
        if self.output >= 0:
            os.close(self.output)
            self.output = -1


@dataclass(kw_only=True)
class Child(Output):
    """A forked process: a node's, or the writer's. output: of its stdout and stderr."""

    pid: int
    code: int | None = None  # exit code; a negative one is the signal that killed it

    def has_ended(self) -> bool:
        """Whether the process has ended; `code` is then known."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def describe(self) -> str:
        """How it ended, in words."""
        if self.code is not None and self.code < 0:
            return f"{self.name} was killed by {signal.Signals(-self.code).name}"
        if self.code == CRASHED:
            return f"{self.name} failed; see its message above"
        return f"{self.name} ended early with exit code {self.code}"


def forked(name: str, run: str, live: Callable[[], int], on_orphaned: int) -> Child:
    """Fork a child that runs `live` and ends with its exit code; its output goes to a pipe.

    It has a process group of its own, so that Ctrl-C reaches only the launcher, and receives the signal `on_orphaned`
    when the launcher dies (Linux). STOP is blocked in it until its bus unblocks it. `ps` and `top` show its name
    and the run's.
    """
    read, write = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # else a signal might reach the child with the launcher's handlers, or kill it
    signal.pthread_sigmask(signal.SIG_BLOCK, (*SIGNALS, STOP))
    pid = os.fork()
    if pid == 0:
        code = CRASHED
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, lambda *_: os._exit(CRASHED))  # until its bus has handlers of its own
            signal.signal(signal.SIGQUIT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            os.setpgid(0, 0)
            _die_with(parent, on_orphaned)
            call_process(name, run)
            os.dup2(write, 1)
            os.dup2(write, 2)
            os.close(read)
            os.close(write)
            _redirect_output()
            code = live()
        except BusError as error:
            print(f"cannot start: {error}", file=sys.stderr)  # noqa: T201
        except BaseException:  # noqa: BLE001  (the last frame of a process: print and exit)
            import traceback

            traceback.print_exc()
        finally:
            if isinstance(sys.stderr, Lines):
                sys.stderr.drain(LAST_OUTPUT_S)
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*SIGNALS, STOP))
    os.close(write)
    os.set_blocking(read, False)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    return Child(name, read, pid=pid)


def call_process(name: str, run: str) -> None:
    """Have `ps` and `top` show what this process is: `servonode: controller trailer_pursuit`.

    In a fresh interpreter, which has loaded its modules now, Ctrl-C is an exception again.
    """
    setproctitle(f"servonode: {name} {run}")
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _redirect_output() -> None:
    """In the child, replace stdout and stderr by output that never waits for the launcher."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Lines):
            stream.release()
    os.set_blocking(2, False)
    sys.stdout = sys.stderr = Lines(2)


def _die_with(parent: int, number: int) -> None:
    """Have this process receive signal `number` when its parent dies (only on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


class ProcessBeside:
    """A process with a fresh interpreter, on which the run does not depend; it inherits none of the command's files.

    label: printed before each line of its standard error. descriptors: those that it inherits. ends: whether it ends
    with the run: then a byte on its standard input tells it to, and Ctrl-C does not reach it. Else it stays in the
    command's process group, so that Ctrl-C reaches it, and is left alone at the end.
    """

    def __init__(self, label: str, command: Sequence[str], descriptors: Sequence[int] = (), ends: bool = False) -> None:
        self._command, self._descriptors, self._ends = command, descriptors, ends
        self._process: subprocess.Popen[bytes] | None = None
        self._output = Output(label, -1)

    def start(self) -> None:
        """Start it; `look` prints its output."""
        self._output.output, write = os.pipe()
        os.set_blocking(self._output.output, False)
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE if self._ends else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=write,
            pass_fds=self._descriptors,
            process_group=0 if self._ends else None,
        )
        os.close(write)

    def look(self) -> bool:
        """Print its standard error since the last call; returns whether it lives."""
        if self._process is None:
            return False
        self._output.forward()
        return self._process.poll() is None

    def leave(self) -> None:
        """Stop reading its output; a process that ends with the run is told to end, and killed if it does not."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended
                os.write(self._process.stdin.fileno(), END)  # closing alone would not show: the nodes hold copies
            self._process.stdin.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.look()
        self._output.close()
        self._process.returncode = self._process.poll() or 0  # else Python would warn that it is still running
        self._process = None


@contextlib.contextmanager
def beside(processes: Sequence[ProcessBeside], line: Progress) -> Iterator[tuple[Callable[[], None], Progress]]:
    """The functions for a launcher to call at its start and with each status; the latter calls `line` too."""

    def start() -> None:
        for process in processes:
            process.start()

    def progress(status: dict[str, Status]) -> None:
        for process in processes:
            process.look()
        line(status)

    try:
        yield start, progress
    finally:
        for process in processes:
            process.leave()
