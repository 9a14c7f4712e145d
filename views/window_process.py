"""The window of `servonode run --plot`, a process of its own: started, its output printed, never waited for."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from servonode.bus import Status
from servonode.nodes.launcher import Progress
from servonode.views.interpreter import fresh


@dataclass(frozen=True)
class Options:
    """What a user may choose. panels: "NAME,NAME" each; span [s] of plant time; save: file of the save key."""

    panels: tuple[str, ...] = ()
    span: float | None = None
    save: str | None = None


class WindowProcess:
    """A fresh interpreter with the window on a run; the run does not depend on it.

    It stays in the command's process group, so that Ctrl-C reaches it too, and holds none of its files.
    """

    def __init__(self, name: str, options: Options) -> None:
        self._words = [name, json.dumps(asdict(options))]
        self._process: subprocess.Popen[bytes] | None = None
        self._output = -1
        self._partial = b""

    def start(self) -> None:
        """Start it; `look` prints its output."""
        self._output, write = os.pipe()
        os.set_blocking(self._output, False)
        self._process = subprocess.Popen(
            fresh("servonode.views.window", *self._words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=write,
        )
        os.close(write)

    def look(self) -> None:
        """Print what it has written to its standard error since the last call."""
        if self._process is None:
            return
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._output, 65536):
                *lines, self._partial = (self._partial + chunk).split(b"\n")
                for line in lines:
                    print(f"[window] {line.decode(errors='replace')}", file=sys.stderr)  # noqa: T201
        self._process.poll()

    def leave(self) -> None:
        """Stop reading its output; the window stays open until its user closes it."""
        if self._process is None:
            return
        self.look()
        os.close(self._output)
        self._process.returncode = self._process.poll() or 0  # else Python would warn that it is still running
        self._process = None


@contextlib.contextmanager
def window_beside(name: str, options: Options | None, line: Progress) -> Iterator[tuple[Callable[[], None], Progress]]:
    """The functions for a launcher to call at its start and with each status; without options no window opens."""
    if options is None:
        yield lambda: None, line
        return
    window = WindowProcess(name, options)

    def progress(status: dict[str, Status]) -> None:
        window.look()
        line(status)

    try:
        yield window.start, progress
    finally:
        window.leave()
