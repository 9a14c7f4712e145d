"""Goals from the page: what `servonode goal` does."""

import asyncio
from typing import Any

import msgspec

from servonode.errors import ServonodeError
from servonode.operator.operator_requests import set_goal


class GoalForm:
    """Gives a run the goals that a browser sends, one after the other."""

    def __init__(self) -> None:
        self._free = asyncio.Lock()

    async def send(self, run: str, body: bytes) -> dict[str, Any]:
        """Send on {name: value} in JSON: {"done": whether the run follows it, "text": what to show}."""
        try:
            goal = msgspec.json.decode(body, type=dict[str, float])
            async with self._free:
                answer = await asyncio.to_thread(set_goal, run or None, goal)
        except (ServonodeError, msgspec.MsgspecError, UnicodeError, RecursionError, OSError) as error:
            return {"done": False, "text": f"No goal was given: {error}"}
        shown = ", ".join(f"{name} = {value:.3g}" for name, value in goal.items())
        return {"done": True, "text": f"Goal: {shown} from t = {answer['t']:.2f} s"}
