"""The numbers of a run that may change, as parameters of Foxglove.

The server's threads call `shown` and `take`, which never wait: one of them that did would delay the emergency stop of
another client. The run is asked in the thread of `work`, a few times a second at most.
"""

import hmac
import logging
import math
import queue
import time
from collections.abc import Collection, Mapping
from typing import Any

from servonode.closed_loop.parameters import parameters_of
from servonode.errors import LONGEST, ServonodeError
from servonode.neighbours.libraries import library
from servonode.operator.run_parameters import RunParameters

TOKEN = "token"  # the parameter that a client sets before others
WAITING = 16  # changes that wait for their turn
PAUSE_S, LOOK_S, SAID_S = 0.1, 1.0, 1.0  # s between changes, two reads of the run, lines on what is not taken

log = logging.getLogger(__name__)


class Numbers:
    """What may change in a run, and who may change it: clients that have set the parameter `token` to the secret."""

    def __init__(self, run: RunParameters, token: str) -> None:
        self._run, self._token = run, token.encode()
        self._known = {key: each.value for key, each in parameters_of(run.closed_loop).items()}
        self._may_change = set[int]()
        self._changes: queue.Queue[Mapping[str, Any]] = queue.Queue(WAITING)
        self._server: Any = None
        self._asked, self._read, self._said = True, -math.inf, -math.inf

    def follow(self, server: Any) -> None:
        """Tell the clients of this server from now on what happens."""
        self._server = server

    def shown(self, names: Collection[str] = ()) -> list[Any]:
        """The parameters of these names, or all; a limit that is infinite has no value, and clients do not see it."""
        self._asked = True
        return self._parameters(names)

    def take(self, client: int, values: Mapping[str, Any]) -> list[Any]:
        """Have a client's values judged and sent soon; the parameters as they are until then."""
        if TOKEN in values:
            self._take_token(client, values[TOKEN])
        if changes := {name: value for name, value in values.items() if name != TOKEN}:
            self._take_changes(client, changes)
        return self._parameters(values)

    def work(self) -> None:
        """Send the next change, and read the numbers again if a client has asked for them."""
        try:
            self._change(self._changes.get(timeout=PAUSE_S))
            time.sleep(PAUSE_S)
        except queue.Empty:
            if self._asked and time.monotonic() >= self._read + LOOK_S:
                self._look()

    def _parameters(self, names: Collection[str] = ()) -> list[Any]:
        values: dict[str, Any] = {TOKEN: "", **self._known}
        made = library("foxglove").Parameter
        return [
            made(name, value=None if value in (math.inf, -math.inf) else value)
            for name, value in values.items()
            if not names or name in names
        ]

    def _take_token(self, client: int, value: Any) -> None:
        if hmac.compare_digest(str(value).encode(), self._token):
            self._may_change.add(client)
        else:
            self._not_taken("the token is not the one that the bridge has printed")

    def _take_changes(self, client: int, changes: Mapping[str, Any]) -> None:
        if client not in self._may_change:
            self._not_taken(f"nothing was changed: first set the parameter {TOKEN} to what the bridge has printed")
            return
        try:
            self._changes.put_nowait(changes)
        except queue.Full:
            self._not_taken(f"nothing was changed: {WAITING} changes wait already; send fewer")

    def _not_taken(self, text: str) -> None:
        """Say so, but not at the rate at which it comes."""
        if (now := time.monotonic()) >= self._said + SAID_S:
            self._said = now
            self._tell("Warning", text)

    def _change(self, changes: Mapping[str, Any]) -> None:
        try:
            acting = self._run.change({key: _number(key, value) for key, value in changes.items()})
            for each in acting:
                text = ", ".join(f"{key} = {value:g}" for key, value in each.values.items())
                self._tell("Info", f"{text}: from step {each.k} on, t = {each.t:.6g} s ({each.node})")
        except (ServonodeError, OSError) as error:
            self._tell("Error", f"refused: {error}")
        self._look(changes)

    def _look(self, changes: Collection[str] = ()) -> None:
        """Read the numbers, and send those of `changes` and all that are new to the clients that follow them."""
        before = self._known
        try:
            self._known = {key: each.value for key, each in self._run.now().items()}
        except (ServonodeError, OSError) as error:
            self._tell("Warning", f"the numbers of the run were not read: {error}")
        self._read, self._asked = time.monotonic(), False
        new = [key for key, value in self._known.items() if key in changes or value != before.get(key)]
        if new:
            self._server.publish_parameter_values(self._parameters(new))

    def _tell(self, level: str, text: str) -> None:
        log.log(logging.INFO if level == "Info" else logging.WARNING, "%s", text)
        self._server.publish_status(text, getattr(library("foxglove").StatusLevel, level))


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ServonodeError(f"{key} = {repr(value)[:LONGEST]} is not a number")
    return float(value)
