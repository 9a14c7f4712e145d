"""The recordings of a folder for the page's server: their list, kept as the folder changes, and their reports.

A browser names a recording by the number that it has in the list, never by a path. Files are read by processes of their
own (`recordings_process`); here they are only counted.
"""

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from servonode.views.interpreter import fresh
from servonode.web.reports_made import Made, Reports

SUFFIX = ".mcap"
MOST = 200  # recordings in the list: the newest
LOOK_S = 1.0  # between two looks at the folder
LIST_S = 30.0  # for a process that reads what files are
LINE = 2**16  # bytes of what it says of one


class Identity(NamedTuple):
    """A file as it was: another one of its name, or one that was written again, is another recording."""

    name: str
    inode: int
    size: int
    changed_ns: int
    regular: bool


@dataclass
class Entry:
    """A recording in the list: its number for browsers, and what is known of it; None: it was not read yet."""

    number: int
    file: Identity
    found: dict[str, Any] | None = None

    def told(self) -> dict[str, Any]:
        """What a browser is told."""
        shown = self.file.name.encode(errors="replace").decode()
        known = {"number": self.number, "file": shown, "bytes": self.file.size, "changed_ns": self.file.changed_ns}
        return {**known, **(self.found or {"waits": True})}


@dataclass
class Listing:
    """The recordings of a folder, the newest first; how many more there are; why the folder cannot be read."""

    entries: list[Entry] = field(default_factory=list)
    more: int = 0
    problem: str = ""


class Recordings:
    """The recordings in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reports = Reports(folder)
        self._numbers = count(1)
        self._listing = Listing()
        self._looked = -LOOK_S
        self._looking = asyncio.Lock()

    async def told(self) -> dict[str, Any]:
        """The list for browsers."""
        await self._look()
        listing = self._listing
        entries = [each.told() for each in listing.entries]
        return {"folder": str(self._folder), "recordings": entries, "more": listing.more, "problem": listing.problem}

    async def report(self, number: int) -> Made | None:
        """The report of a recording, or what it waits for; None: there is no recording of this number."""
        await self._look()
        entry = next((each for each in self._listing.entries if each.number == number), None)
        if entry is None:
            return None
        if entry.found and "problem" in entry.found:
            return Made(entry.file.name, problem=entry.found["problem"])
        return self._reports.of(number, entry.file.name)

    async def close(self) -> None:
        """End what is being made."""
        await self._reports.close()

    async def _look(self) -> None:
        async with self._looking:
            if time.monotonic() < self._looked + LOOK_S:
                return
            files, more, problem = await asyncio.to_thread(recordings_in, self._folder)
            known = {each.file: each for each in self._listing.entries}
            entries = [known.get(file) or Entry(next(self._numbers), file) for file in files]
            self._listing = Listing(entries, more, problem)
            await self._read([each for each in entries if each.found is None])
            self._looked = time.monotonic()

    async def _read(self, entries: Sequence[Entry]) -> None:
        """Find out what these are, all by one process."""
        for each in entries:
            if not each.file.regular:
                each.found = {"problem": "it is a link or no file, which a page does not follow"}
        unread = [each for each in entries if each.found is None]
        if unread:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LIST_S):
                    await self._describe(unread)

    async def _describe(self, entries: list[Entry]) -> None:
        process = await asyncio.create_subprocess_exec(
            *fresh("servonode.web.recordings_process", "list"), cwd=self._folder, limit=LINE,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([each.file.name for each in entries]).encode())
            process.stdin.close()
            for each in entries:
                line = await process.stdout.readline()
                whole = line.endswith(b"\n")
                each.found = json.loads(line) if whole else {"problem": "it cannot be read: its reader was ended"}
                if not whole:  # those behind it are tried again
                    break
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def recordings_in(folder: Path) -> tuple[list[Identity], int, str]:
    """The recordings in a folder, the newest first, MOST at most; how many more; why it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = [identity for each in entries if each.name.endswith(SUFFIX) if (identity := _identity(each))]
    except OSError as error:
        return [], 0, f"{folder} cannot be read ({error.strerror})"
    found.sort(key=lambda each: each.changed_ns, reverse=True)
    return found[:MOST], max(len(found) - MOST, 0), ""


def _identity(entry: "os.DirEntry[str]") -> Identity | None:
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError:  # it has gone
        return None
    return Identity(entry.name, about.st_ino, about.st_size, about.st_mtime_ns, stat.S_ISREG(about.st_mode))
