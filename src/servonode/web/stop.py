"""The emergency stop of the page: what `servonode estop` does, in threads that do nothing else."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from servonode.bus import BusError
from servonode.operator.operator_requests import Stop, stop_all

AT_ONCE = 4  # stops that run at the same time; one takes two seconds at most


class StopButton:
    """Stops the run of this name, or in a folder, and tells what its plant has answered; no name: all runs."""

    def __init__(self, name: str, where: str = "") -> None:
        self.follow(name, where)
        self._threads = ThreadPoolExecutor(AT_ONCE, "stop")
        for _ in range(AT_ONCE):  # started now: later none might be left
            self._threads.submit(int)
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting: asyncio.Future[dict[str, Any]] | None = None  # a stop that has not begun yet

    def follow(self, name: str, where: str = "") -> None:
        """Stop this run from now on."""
        self._name, self.where = name, where or name

    async def press(self) -> dict[str, Any]:
        """Stop it: {"confirmed": whether every plant of the run is stopped, "text": what to show}.

        Presses that come while AT_ONCE stops run already share the next one: nobody waits longer than for two.
        """
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._stop_when_free())
        return await asyncio.shield(self._waiting)

    async def _stop_when_free(self) -> dict[str, Any]:
        async with self._free:
            self._waiting = None  # a press from now on is answered by a stop that begins after it
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._stop)

    def _stop(self) -> dict[str, Any]:
        try:
            stops, unknown = stop_all([self.where] if self.where else [])
        except (BusError, OSError) as error:
            return {"confirmed": False, "text": str(error)}
        texts = [_text(stop) for stop in stops] or [f"no run {self._name!r} is in progress, so nothing was stopped"]
        return {
            "confirmed": bool(stops) and not unknown and all(stop.confirmed for stop in stops),
            "text": "; ".join(texts),
        }


def _text(stop: Stop) -> str:
    if not stop.confirmed:
        return f"{stop.run}: {stop.text}"
    how = f"process {stop.pid} was signalled" if stop.signalled else "by request only"
    return f"{stop.run}: stopped, confirmed by its plant ({stop.lifecycle}); {how}"
