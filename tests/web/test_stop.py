"""The stop button of the page, pressed again and again while the plant does not answer."""

import asyncio
import threading

import pytest

from servonode.operator.operator_requests import Stop
from servonode.web import stop
from servonode.web.stop import AT_ONCE, StopButton

PRESSES = 40


def test_many_presses_wait_for_two_stops_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []
    go_on = threading.Event()

    def stop_all(runs: list[str]) -> tuple[list[Stop], list[str]]:
        begun.append(runs)
        go_on.wait(20)
        return [], []

    async def press() -> list[dict[str, object]]:
        button = StopButton("a_run")
        pressed = []
        for _ in range(PRESSES):
            pressed.append(asyncio.ensure_future(button.press()))
            await asyncio.sleep(0.001)
        assert len(begun) == AT_ONCE
        go_on.set()
        answers = await asyncio.gather(*pressed)
        assert len(begun) == AT_ONCE + 1
        await button.press()  # of a stop of its own
        assert len(begun) == AT_ONCE + 2
        return answers

    monkeypatch.setattr(stop, "stop_all", stop_all)
    answers = asyncio.run(press())
    assert answers == PRESSES * [{"confirmed": False, "text": "no run 'a_run' is in progress, so nothing was stopped"}]
