"""The numbers of a run on the page: its requests, passed on one by one to the process that judges them."""

import asyncio
import contextlib
import subprocess

from servonode.views.interpreter import fresh

ANSWER_S = 20.0  # in which an answer must have come; the first one loads the machine
WAITING = 8  # requests that may wait
LARGEST = 2**20  # bytes of an answer


class NumbersProcess:
    """The process for the run of a name, started at the first request, and again after it has failed."""

    def __init__(self, name: str, where: str = "") -> None:
        self.follow(name, where)
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    def follow(self, name: str, where: str = "") -> None:
        """Read and change the numbers of this run from now on."""
        self._where = where or name

    async def ask(self, body: bytes) -> bytes | None:
        """The answer to a request; None: nothing has come, or too many wait."""
        if self._waiting >= WAITING:
            return None
        self._waiting += 1
        try:
            async with self._turn:
                return await self._answer(body.replace(b"\n", b" "))
        finally:
            self._waiting -= 1

    async def _answer(self, body: bytes) -> bytes | None:
        if self._process is None or self._process.returncode is not None:
            command = fresh("servonode.web.numbers_process", self._where)
            pipe = subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=LARGEST)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            process.stdin.write(body + b"\n")
            async with asyncio.timeout(ANSWER_S):
                await process.stdin.drain()
                if line := await process.stdout.readline():
                    return line
        await self.close()  # what it answers later would belong to another request
        return None

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
