"""The numbers of a run in progress: read from its nodes, judged in this process, and sent to the nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from servonode.bus import BusError
from servonode.bus.messages import LARGEST
from servonode.bus.topology import CONTROLLER, GET, NODES, PLANT, SET
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import launch_of_table
from servonode.closed_loop.parameters import Parameter, judged, numbers_of, parameter, parameters_of
from servonode.operator.find_runs import Found, find_run
from servonode.operator.operator_requests import OperatorError, ask


def stored_closed_loop(registry: dict[str, Any]) -> ClosedLoop:
    """The resolved launch file of a run, from its registry; raises as `resolve`, BusError where it has none."""
    stored = registry.get("launch")
    if not stored:
        raise BusError(f"run {registry.get('run')!r} does not say what it runs; its servonode has another version")
    launch = launch_of_table(stored["table"], path=Path(stored["path"]), file=stored["file"])
    return resolve(launch, strict=False)


@dataclass(frozen=True)
class Acting:
    """What a node has answered: the new values act from this plant step on, at plant time t [s]."""

    node: str
    values: dict[str, float]
    k: int
    t: float


class RunParameters:
    """The numbers of a run that may change while it is in progress; the launch file is resolved once."""

    def __init__(self, name: str | None = None) -> None:
        """The run of this name, or in this folder; absent: the only one in progress. Raises BusError, LaunchError."""
        self.run: Found = find_run(name)
        self.closed_loop: ClosedLoop = stored_closed_loop(self.run.registry)

    def now(self) -> dict[str, Parameter]:
        """All of them, as they are now."""
        changed = self._changed(self._states())
        return parameters_of(self.closed_loop.changed(changed) if changed else self.closed_loop)

    def get(self, key: str) -> Parameter:
        """One of them; LaunchError for an unknown key, and for one that may not change, with the reason."""
        parameter(self.closed_loop, key)
        return self.now()[key]

    def stated(self, everything: bool = False) -> dict[str, Any]:
        """Those that have changed, or all, as a launch file states them: entries of a list as the whole list."""
        changed = self.changed()
        loop = self.closed_loop.changed(changed) if changed else self.closed_loop
        known, found = parameters_of(loop), dict[str, Any]()
        for key in known if everything else changed:
            names = list(takewhile(lambda name: not name.isdecimal(), key.split(".")))
            value: Any = known[key].value if ".".join(names) == key else loop.stated
            for name in names if value is loop.stated else ():
                value = value[name] if isinstance(value, Mapping) else getattr(value, name)
            found[".".join(names)] = value
        return found

    def node_of(self, key: str) -> str:
        """The node that computes with a number; raises as `get`."""
        return parameter(self.closed_loop, key).node

    def changed(self) -> dict[str, float]:
        """Those that have changed since the start of their node."""
        return self._changed(self._states())

    def change(self, values: Mapping[str, float]) -> list[Acting]:
        """Judge all of these values together, then have each node take its own ones, all at once or none.

        The nodes do so one after the other, the plant first. What acts already is said where a later one refuses.

        Raises:
            LaunchError: one is refused, and nothing was sent; OperatorError: a node refuses, or does not answer.
        """
        by_node: dict[str, dict[str, float]] = {}
        for key, value in values.items():
            by_node.setdefault(self.node_of(key), {})[key] = value
        states = self._states()
        new = judged(self.closed_loop, self._changed(states), values)
        if PLANT in by_node and CONTROLLER in states and new.control and new.control.law.description.limited:
            by_node.setdefault(CONTROLLER, {})  # whose law keeps the limits
        acting: list[Acting] = []
        for node in sorted(by_node, key=lambda each: each != PLANT):  # which alone refuses what was judged to be good
            try:
                acting.append(self._send(new, node, by_node[node], states[node]["revision"]))
            except OperatorError as error:
                done = ", ".join(f"{key} = {value:g}" for each in acting for key, value in each.values.items())
                raise OperatorError(f"{error}; these act already: {done}") if done else error from None
        return acting

    def _send(self, new: ClosedLoop, node: str, values: dict[str, float], revision: int) -> Acting:
        numbers = np.clip(numbers_of(new, node), -LARGEST, LARGEST).tolist()  # which stand for infinite ones
        answer = ask(self.run, node, SET, values=values, numbers=numbers, revision=revision)
        return Acting(node, values, int(answer["k"]), float(answer["t"]))

    def _states(self) -> dict[str, dict[str, Any]]:
        """Of each node, its revision and the values that were changed."""
        nodes = [node for node in self.run.registry["nodes"] if GET in NODES[node].verbs]
        return {node: ask(self.run, node, GET) for node in nodes}

    def _changed(self, states: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        return {key: value for each in states.values() for key, value in each["values"].items()}
