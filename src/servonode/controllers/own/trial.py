"""A first command of a controller of the user's own, in a process of its own: what it gives, or why it gives nothing.

A launcher forks its nodes before anything has made threads, which libraries of controllers do. So nothing of a
controller is imported there: a child is forked that tries it, and ends.
"""

import contextlib
import os
import select
import signal
import time

import msgspec

from servonode.arrays import Array
from servonode.controllers.own.law import OwnLaw
from servonode.errors import ModelError

TIME_S = 60.0  # s, for its construction and its first commands
COMMANDS = 5  # that are timed, after the first, each of a controller that begins again
END = b"\n"  # of what is told: helpers of the controller's may keep the pipe open behind it
ENDED = "ended the process in which it was tried"


class Trial(msgspec.Struct, frozen=True):
    """What a controller gave at the initial state. residuals: the unit of each; command_s: of a warm command [s]."""

    residuals: dict[str, str] = {}
    command_s: float = 0.0
    refusal: str = ""  # why it cannot be used


def tried(law: OwnLaw, start: Array, goal: Array) -> Trial:
    """What the controller of a law gives at an initial state and goal.

    Raises:
        ModelError: it fails; the text names its line.
    """
    found = _in_child(law, start, goal) if hasattr(os, "fork") else _tried(law, start, goal)
    if found.refusal:
        raise ModelError(found.refusal)
    return found


def _tried(law: OwnLaw, start: Array, goal: Array) -> Trial:
    begun = law.begin()
    answer, taken = begun.answer(), 0.0
    for i in range(COMMANDS + 1):
        begun.reset()
        before = time.perf_counter()
        if begun.compute(0.0, start, goal, answer):
            return Trial(refusal=answer.why)
        taken = max(taken, time.perf_counter() - before) if i else 0.0
    try:
        return Trial(begun.stated_residuals(0.0, start, goal), taken)
    except ModelError as error:
        return Trial(refusal=str(error))


def _in_child(law: OwnLaw, start: Array, goal: Array) -> Trial:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_child(law, start, goal, write)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)  # both do this, whichever comes first
    os.close(write)
    try:
        said = _read_until(read, time.monotonic() + TIME_S)
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # its helpers too
        os.waitpid(pid, 0)
    place = law.own.source.definition.place
    if said is None:
        return Trial(refusal=f"{place}: has not given a command within {TIME_S:g} s; make its construction shorter")
    try:
        return msgspec.json.decode(said, type=Trial)
    except msgspec.MsgspecError:
        return Trial(refusal=f"{place}: {ENDED} before its first command; raise an error instead")


def _be_child(law: OwnLaw, start: Array, goal: Array, write: int) -> None:
    """Try it in a process group of its own, tell the parent, and end whatever happens."""
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(2, 1)  # what it prints, also from C, is not the command's output
        said = msgspec.json.encode(_tried(law, start, goal)) + END
        while said:
            said = said[os.write(write, said) :]
    finally:
        os._exit(0)


def _read_until(read: int, limit: float) -> bytes | None:
    """All that is written until `END` or the end of the pipe; None where neither comes in time."""
    said = b""
    while (left := limit - time.monotonic()) > 0:
        ready, _, _ = select.select([read], [], [], left)
        if ready:
            chunk = os.read(read, 65536)
            if not chunk:
                return said
            said += chunk
            if said.endswith(END):
                return said
    return None
