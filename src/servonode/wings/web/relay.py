"""What the feed says, kept for browsers: the newest of each kind of line, and a bounded number of rows.

Every browser is told what it has not seen yet, when it has drawn what it was told before: nobody waits for one that is
slow or frozen.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable

LINE = 2**24  # bytes of a line at most
NEWEST = ("waiting", "layout", "wanted", "scene", "status", "end")  # of these only the newest line counts
FIRST = ("layout", "rows", "wanted")  # after these another line of the same frame follows
CHUNKS = 2400  # lines of rows that are kept
BYTES = 16 * 2**20  # of them together
QUIET_S = 0.5  # s after which a browser is told that there is nothing new


class Relay:
    """Lines of a feed by version: the number of lines that had come by then."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, bytes]] = {}
        self._rows: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._void = 0  # version up to which rows are gone
        self.version = 0
        self._received = time.monotonic()
        self._news = asyncio.Event()
        self._looked_at = False
        self._tell_feed: Callable[[bytes], object] | None = None

    def set_feed(self, tell: Callable[[bytes], object] | None) -> None:
        """From now on `tell` takes to the feed whether anybody looks; None: there is no feed any more."""
        self._tell_feed = tell
        self._say_whether_looked_at()

    def looked_at(self, browsers: int) -> None:
        """Tell the feed, if it is news, whether anybody looks now that there are so many browsers."""
        if bool(browsers) != self._looked_at:
            self._looked_at, self._received = bool(browsers), time.monotonic()  # it was quiet because nobody looked
            self._say_whether_looked_at()

    def _say_whether_looked_at(self) -> None:
        if self._tell_feed is not None:
            self._tell_feed(b"1" if self._looked_at else b"0")

    def take(self, line: bytes) -> None:
        """Take a line of the feed."""
        word, _, content = line.rstrip(b"\n").partition(b" ")
        kind = word.decode()
        self.version += 1
        self._received = time.monotonic()
        if kind == "layout":
            self._rows.clear()
            self._newest.clear()
            self._bytes, self._void = 0, self.version
        if kind in NEWEST:
            self._newest[kind] = (self.version, content)
        elif kind == "rows":
            self._keep(content)
        if kind not in FIRST:
            self._news.set()
            self._news = asyncio.Event()

    def end(self, text: bytes) -> None:
        """The feed has ended; `text` is a string of JSON that says why. What it said itself comes first."""
        if "end" not in self._newest:
            self.take(b"end " + text)

    def _keep(self, content: bytes) -> None:
        self._rows.append((self.version, content))
        self._bytes += len(content)
        while len(self._rows) > CHUNKS or self._bytes > BYTES:
            self._void, gone = self._rows.popleft()
            self._bytes -= len(gone)

    async def news(self, seen: int) -> None:
        """Wait until there is something that a browser has not seen, but not long."""
        if self.version > seen:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), QUIET_S)

    def since(self, seen: int) -> bytes:
        """What is new to a browser that has seen this version, as an object of JSON.

        One that has missed rows that are gone gets all that is kept; "anew" tells it to forget what it has.
        """
        anew = seen < self._void
        seen = 0 if anew else seen
        parts = [b'"quiet":%.2f' % (time.monotonic() - self._received)]
        parts += [b'"anew":true'] if anew else []
        parts += [b'"%s":%s' % (kind.encode(), each) for kind, (at, each) in self._newest.items() if at > seen]
        rows = [each for at, each in self._rows if at > seen]
        parts += [b'"rows":[%s]' % b",".join(rows)] if rows else []
        return b"{%s}" % b",".join(parts)
