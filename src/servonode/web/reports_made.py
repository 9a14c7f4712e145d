"""Reports of recordings, made one at a time by a process that has a time limit, and kept while the page lives."""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from servonode.views.interpreter import fresh

TIME_S = 120.0  # for a report
KEPT = 12  # reports
PIECE = 2**18  # bytes that are sent at once
_MAKING = "Its report is being made, and will be shown here."


@dataclass
class Made:
    """A report, a file without a name and the policy of its page; or the reason why not, or what it waits for."""

    name: str
    policy: str = ""
    problem: str = ""
    waits: str = ""
    file: IO[bytes] | None = None

    @property
    def size(self) -> int:
        """Of the report [bytes]."""
        return os.fstat(self.file.fileno()).st_size if self.file else 0

    async def pieces(self) -> AsyncIterator[bytes]:
        """The report, to its end even where it is dropped meanwhile."""
        assert self.file is not None
        descriptor, at = os.dup(self.file.fileno()), 0
        try:
            while piece := await asyncio.to_thread(os.pread, descriptor, PIECE, at):
                at += len(piece)
                yield piece
        finally:
            os.close(descriptor)

    def drop(self) -> None:
        """Let its file go."""
        if self.file:
            self.file.close()


class Reports:
    """The reports of a folder's recordings, by their numbers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[int, Made] = {}
        self._making: tuple[str, asyncio.Task[None]] | None = None

    def of(self, number: int, name: str) -> Made:
        """The report of a recording, which is begun if none exists and no other is being made.

        Nothing is queued: who still wants it asks again.
        """
        made = self._made.get(number)
        if made is not None:
            if made.problem:  # said once; asked again, it is tried again
                del self._made[number]
            return made
        if self._making and not self._making[1].done():
            other = self._making[0]
            return Made(name, waits=_MAKING if other == name else f"It waits until the report of {other} is made.")
        self._making = name, asyncio.create_task(self._make(number, name))
        return Made(name, waits=_MAKING)

    async def close(self) -> None:
        """End what is being made."""
        if self._making:
            self._making[1].cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._making[1]
        for made in self._made.values():
            made.drop()
        self._made.clear()

    async def _make(self, number: int, name: str) -> None:
        made = Made(name)
        try:
            made.file = tempfile.TemporaryFile()  # noqa: SIM115  (it is dropped below, or with what is kept)
            answer = await self._answer(name, made.file.fileno())
            made.policy, made.problem = answer.get("policy", ""), answer.get("problem", "")
        except OSError as error:
            made.problem = f"its report cannot be made ({error.strerror})"
        finally:
            if not made.policy:
                made.drop()
        self._made[number] = made
        while len(self._made) > KEPT:
            self._made.pop(next(iter(self._made))).drop()

    async def _answer(self, name: str, descriptor: int) -> dict[str, Any]:
        """What the process says that writes a report into a descriptor."""
        command = fresh("servonode.web.recordings_process", "report", name, str(descriptor))
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self._folder, pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(TIME_S):
                said, _ = await process.communicate()
        except TimeoutError:
            return {"problem": f"its report was not made within {TIME_S:.0f} s; {_instead(name)}"}
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode == 0:
            answer: dict[str, Any] = json.loads(said)
            return answer
        return {
            "problem": f"the process that makes its report was ended ({_end(process.returncode)}); {_instead(name)}"
        }


def _end(code: int | None) -> str:
    return signal.strsignal(-code) or str(code) if code is not None and code < 0 else f"exit code {code}"


def _instead(name: str) -> str:
    return f"try servonode bag report {shlex.quote(name)}"
