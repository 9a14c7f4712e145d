"""Goals from the page: what `servonode goal` does."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request

from servonode.errors import ServonodeError
from servonode.operator.operator_requests import set_goal

LARGEST = 1024  # bytes of a goal


class GoalForm:
    """Gives a run the goals that a browser sends, one after the other."""

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    async def send(self, run: str, request: Request) -> dict[str, Any]:
        """Send on {name: value}: {"done": whether the run follows it, "text": what to show}."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                return {"done": False, "text": f"a goal has at most {LARGEST} bytes; nothing was sent on"}
        try:
            goal = msgspec.json.decode(body, type=dict[str, float])
            async with self._free:
                answer = await asyncio.to_thread(set_goal, run or None, goal)
        except (ServonodeError, msgspec.MsgspecError, UnicodeError, RecursionError, OSError) as error:
            return {"done": False, "text": f"No goal was given: {error}"}
        shown = ", ".join(f"{name} = {value:.3g}" for name, value in goal.items())
        return {"done": True, "text": f"Goal: {shown} from t = {answer['t']:.2f} s"}
