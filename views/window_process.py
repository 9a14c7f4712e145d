"""The window of `servonode run --plot` as the launcher's command sees it: started, heard, and never waited for."""

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
    """A fresh interpreter with the window on a run; whether it lives or dies changes nothing for the run.

    It stays in the command's process group, so that Ctrl-C reaches it too, and holds none of its files.
    """

    def __init__(self, name: str, options: Options) -> None:
        self._words = [name, json.dumps(asdict(options))]
        self._process: subprocess.Popen[bytes] | None = None
        self._output = -1
        self._partial = b""

    def start(self) -> None:
        """Start it; what it has to say comes out with `look`."""
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
        """Print what it wrote, and let go of it if it has ended."""
        if self._process is None:
            return
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._output, 65536):
                *lines, self._partial = (self._partial + chunk).split(b"\n")
                for line in lines:
                    print(f"[window] {line.decode(errors='replace')}", file=sys.stderr)  # noqa: T201
        self._process.poll()

    def leave(self) -> None:
        """Stop listening to it; it stays open as long as its user likes."""
        if self._process is None:
            return
        self.look()
        os.close(self._output)
        self._process.returncode = self._process.poll() or 0  # else it would be complained about as left over
        self._process = None


@contextlib.contextmanager
def window_beside(name: str, options: Options | None, line: Progress) -> Iterator[tuple[Callable[[], None], Progress]]:
    """What a launcher is to call once it has begun, and as it goes on; without options there is no window."""
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
