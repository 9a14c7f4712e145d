"""Text streams that never wait for their reader: a stopped terminal, a full pipe, or none at all.

A launcher that waited for its terminal would no longer check its nodes. Output that cannot be written at once is kept,
up to a bound; beyond it the oldest is dropped. Output that nobody can read any more is dropped too.
"""

import contextlib
import io
import os
import select
import socket
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator

KEPT_BYTES = 1 << 16
SLICE_BYTES = 512  # bytes of one write that might block otherwise; a writable pipe takes so many
LAST_S = 2.0  # longest wait of the last output for a reader that takes nothing
STANDARD = {0: "standard input", 1: "standard output", 2: "standard error"}


class Lines(io.TextIOBase):
    """A text stream to a descriptor, line by line.

    descriptor: written to without ever waiting for it. bound: bytes kept for a slow reader; None: any number. failed:
    the first error of a write; slowness is no error.
    """

    def __init__(self, descriptor: int, bound: int | None = KEPT_BYTES) -> None:
        self._descriptor = descriptor
        self._bound = bound
        self._line: list[str] = []
        self._waiting: deque[bytes] = deque()
        self._begun = False  # whether the first waiting line is partly written
        self._size = 0
        self._closes: Callable[[], None] = lambda: None
        self._send = self._sender()
        self.failed: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # libraries try whether a stream takes bytes
            raise TypeError(f"a text stream takes str, not {type(text).__name__}")
        self._line.append(text)
        if text.endswith("\n"):
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Write what can be written at once."""
        if self._line:
            data = "".join(self._line).encode(errors="backslashreplace")
            self._line.clear()
            self._waiting.append(data)
            self._size += len(data)
        self._drop()
        self._write()

    def drain(self, within_s: float = LAST_S) -> bool:
        """Write all; False if the reader takes nothing for this long [s], or a write has failed."""
        self.flush()
        limit, left = time.monotonic() + within_s, self._size
        while self._waiting:
            if time.monotonic() > limit:
                return False
            self._is_writable(limit - time.monotonic())
            self._write()
            if self._size < left:
                limit, left = time.monotonic() + within_s, self._size
        return self.failed is None

    def release(self) -> None:
        """Close what was opened here, and drop all further output: for a forked child with its own stream."""
        self._closes()
        self._closes = lambda: None
        self._send = len

    def _drop(self) -> None:
        """Drop the oldest lines beyond the bound, but not a partly written one."""
        while self._bound is not None and self._size > self._bound and len(self._waiting) > 1 + self._begun:
            first = self._waiting.popleft() if self._begun else b""
            self._size -= len(self._waiting.popleft())
            if first:
                self._waiting.appendleft(first)

    def _write(self) -> None:
        while self._waiting:
            data = self._waiting[0]
            try:
                n = self._send(data)
            except BlockingIOError:
                return
            except OSError as error:  # the reader is gone, or a file cannot be written
                self.failed = self.failed or error
                n = len(data)
            self._size -= n
            if n == len(data):
                self._waiting.popleft()
                self._begun = False
            else:
                self._waiting[0], self._begun = data[n:], True

    def _is_writable(self, within_s: float = 0.0) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(within_s * 1e3))

    def _sender(self) -> Callable[[bytes], int]:
        """A function that writes to the descriptor without waiting, and without changing its mode for others."""
        mode = os.fstat(self._descriptor).st_mode
        if stat.S_ISSOCK(mode):
            copy = socket.socket(fileno=os.dup(self._descriptor))
            self._closes = copy.close
            return lambda data: copy.send(data, socket.MSG_DONTWAIT)
        if stat.S_ISREG(mode) or not os.get_blocking(self._descriptor):
            return lambda data: os.write(self._descriptor, data)
        opened = _opened_anew(self._descriptor)
        if opened < 0:
            return self._carefully
        self._closes = lambda: os.close(opened)
        return lambda data: os.write(opened, data)

    def _carefully(self, data: bytes) -> int:
        """Write a little, and only if it is writable: for a terminal or pipe that cannot be opened again."""
        if not self._is_writable():
            raise BlockingIOError
        return os.write(self._descriptor, data[:SLICE_BYTES])


def _opened_anew(descriptor: int) -> int:
    """The same terminal or pipe, opened again as non-blocking, so that other holders stay blocking; or -1."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        return os.open(f"/proc/self/fd/{descriptor}", flags)
    with contextlib.suppress(OSError):  # another user's terminal, as after su
        os.tcgetpgrp(descriptor)  # raises unless it is the controlling terminal
        return os.open("/dev/tty", flags)
    return -1


@contextlib.contextmanager
def never_waiting() -> Iterator[tuple[Lines | None, Lines | None]]:
    """Replace standard output and error by `Lines`; yields them, None for one without a descriptor (in a test)."""
    import logging  # imported here, because the operator's commands import this module and must be quick

    before = sys.stdout, sys.stderr
    logged = [each for each in logging.getLogger().handlers if getattr(each, "stream", None) is before[1]]
    out = error = None
    try:  # a signal may raise at any of these lines
        out = _lines(sys.stdout, None)
        error = _lines(sys.stderr, KEPT_BYTES)
        sys.stdout, sys.stderr = out or sys.stdout, error or sys.stderr
        for handler in logged:
            handler.setStream(sys.stderr)  # type: ignore[attr-defined]
        yield out, error
    finally:
        for handler in logged:
            handler.setStream(before[1])  # type: ignore[attr-defined]
        sys.stdout, sys.stderr = before
        for lines in (out, error):
            if lines is not None:
                lines.flush()
                lines.release()


def _lines(stream: object, bound: int | None) -> Lines | None:
    if not isinstance(stream, io.TextIOWrapper):
        return None
    try:
        stream.flush()
        return Lines(stream.fileno(), bound)
    except OSError:  # no descriptor, or one that cannot be used
        return None


def drain_output(printed: Lines | None, said: Lines | None, code: int, wanted: bool) -> int:
    """Wait a little for the readers of the last output; returns the exit code, not 0 where a result was lost.

    wanted: whether a result that is not read in time counts as lost; else it need not be read, as on a stopped
    terminal.
    """
    taken = printed is None or printed.drain()
    if printed is not None and not taken and (wanted or not isinstance(printed.failed, BrokenPipeError | None)):
        why = printed.failed.strerror if printed.failed else f"nobody read it for {LAST_S:g} s"
        if said is not None:
            said.write(f"servonode: standard output: the result could not be written ({why})\n")
        code = code or 1
    if said is not None:
        said.drain()
    return code


def fill_closed() -> list[int]:
    """Open the null device for closed standard descriptors; returns those that were closed.

    Else a socket or a pipe would get their numbers, and be written to.
    """
    closed = []
    for descriptor in STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            closed.append(descriptor)
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115
    return closed
