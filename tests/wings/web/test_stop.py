"""The stop button of the page, pressed again and again while the plant does not answer."""

import asyncio
import threading

import pytest

from servonode.operator.operator_requests import Stop
from servonode.wings.web import server
from servonode.wings.web.server import STOPS, GoalForm, StopButton

PRESSES = 40
BOUND_S = 60.0  # of what comes at once on a quiet computer


def test_many_presses_wait_for_two_stops_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []
    begins, go_on = threading.Semaphore(0), threading.Event()

    def stop_all(runs: list[str]) -> tuple[list[Stop], list[str]]:
        begun.append(runs)
        begins.release()
        go_on.wait(BOUND_S)
        return [], []

    async def press() -> list[dict[str, object]]:
        button = StopButton("a_run")
        pressed = []
        for number in range(PRESSES):
            pressed.append(asyncio.ensure_future(button.press()))
            if number < STOPS:
                assert await asyncio.to_thread(begins.acquire, timeout=BOUND_S)
        assert len(begun) == STOPS
        go_on.set()
        answers = await asyncio.gather(*pressed)
        assert len(begun) == STOPS + 1
        await button.press()  # of a stop of its own
        assert len(begun) == STOPS + 2
        return answers

    monkeypatch.setattr(server, "stop_all", stop_all)
    answers = asyncio.run(press())
    assert answers == PRESSES * [{"confirmed": False, "text": "no run 'a_run' is in progress, so nothing was stopped"}]


def test_a_goal_after_the_end_names_the_run_that_has_ended() -> None:
    told = asyncio.run(GoalForm().send("base_tap", "/nowhere/14da90d8", b'{"x": 1}'))
    assert told == {"done": False, "text": "No goal was given: run 'base_tap' has ended"}
    assert "no run is in progress" in asyncio.run(GoalForm().send("", "", b'{"x": 1}'))["text"]
