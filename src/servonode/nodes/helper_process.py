"""A helper process of a run: the run starts it and prints its output, but never waits for it."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from servonode.bus import Status
from servonode.nodes.node_process import Output

if TYPE_CHECKING:  # the helpers themselves need nothing of a run
    from servonode.nodes.launcher import Progress

END = b"\n"  # tells a process that the run has ended
END_S = 2.0  # s (wall clock), for a process that is to end with the run


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
def beside(processes: Sequence[ProcessBeside], line: "Progress") -> "Iterator[tuple[Callable[[], None], Progress]]":
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
