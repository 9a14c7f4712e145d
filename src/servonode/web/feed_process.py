"""The process that listens to a run for the page's server, and draws its views into lines on standard output.

It alone runs the machine's code and the libraries of mathematics, and only when the processor is otherwise idle. What
the server does not read waits in a pipe of bounded size; what it then does not take from the bus is dropped there.
While nobody looks at the page it draws nothing: it keeps the rows that a browser will show first.
"""

import os
import select
import sys
import time
from collections.abc import Callable

import msgspec

from servonode.bus.processes import Named
from servonode.errors import ServonodeError
from servonode.nodes.node_process import call_process
from servonode.operator.listener import give_way
from servonode.views.live_run import LiveRun
from servonode.web.frames import Frames

FPS = 30


def feed(
    source: LiveRun,
    write: Callable[[bytes], None],
    wait: Callable[[float], bool],
    until: Callable[[], bool] | None = None,
) -> None:
    """Write frames of the run, and of the next one of its name, without end.

    wait: waits for this many seconds at most; whether somebody looks then. until: the run may be still to come, until
    this holds.
    """
    if not source.wait_open(until):
        return
    frames = Frames(source)
    period, due, looked_at = 1 / FPS, time.monotonic(), wait(0.0)
    while True:
        if source.look(time.monotonic()):
            frames = Frames(source)
        source.take_in()
        if looked_at:
            for line in frames.lines():
                write(line)
        due = max(due + period, time.monotonic())
        looked_at = wait(max(due - time.monotonic(), 1e-3))


class Viewers:
    """Waits, and reads on a descriptor what the server sends: `1` when somebody looks at the page, `0` when nobody."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._any = descriptor, False

    def wait(self, seconds: float) -> bool:
        """Whether somebody looks, after this time at most; BrokenPipeError when the server has gone."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            told = os.read(self._descriptor, 64)
            if not told:
                raise BrokenPipeError
            self._any = told.endswith(b"1")
        return self._any


def _write(line: bytes) -> None:
    """The whole of it: a pipe takes as much as it has room for."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(1, rest) :]


def main(name: str, where: str, launcher: str) -> int:
    """Feed the page on the run of this name, or in this folder, which the process `launcher` may be about to start."""
    give_way()
    call_process("page feed", name)
    starter = Named.of(int(launcher)) if int(launcher) else None
    source = LiveRun(name, where, who="page", estimates=True)
    try:
        feed(source, _write, Viewers(0).wait, (lambda: not starter.lives(os.getuid())) if starter else None)
    except BrokenPipeError:  # the server has gone
        return 0
    except KeyboardInterrupt:
        return 130
    except ServonodeError as error:
        sys.stderr.write(f"{error}\n")
        _write(b"end %s\n" % msgspec.json.encode(str(error)))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
