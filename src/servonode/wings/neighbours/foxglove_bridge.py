"""A bridge from one run to Foxglove: what the run does, its numbers to change, and the emergency stop.

It is a process of its own beside the run: the run's nodes do not know it, and what a client does not read in time is
dropped for that client. The server of the SDK takes connections from all programs of this computer and all pages in its
browsers, of whatever origin: whoever changes a number or stops the run shows the token that the bridge prints.

The run's numbers that may change are parameters of Foxglove. The server's threads call `shown` and `take`, which never
wait: one of them that did would delay the emergency stop of another client. The run is asked in the thread of `work`, a
few times a second at most.
"""

import hmac
import json
import logging
import math
import queue
import secrets
import time
from collections.abc import Collection, Mapping
from typing import Any

from servonode.closed_loop.parameters import parameters_of
from servonode.errors import LONGEST, ServonodeError
from servonode.operator.listener import step_back
from servonode.operator.run_parameters import RunParameters
from servonode.views.live_run import LiveRun
from servonode.wings.neighbours.bridged import beside, live_moments, stop_run
from servonode.wings.neighbours.foxglove_messages import SOLIDS, Channels
from servonode.wings.neighbours.libraries import library
from servonode.wings.neighbours.moments import Layout

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


ADDRESS = "127.0.0.1"
RATE, SOLIDS_S = 30.0, 1.0  # Hz; s between two sendings of the shapes of a robot's file, at least
BACKLOG = 128  # messages that wait for a client; of more, its oldest are dropped
SECRET = 24  # bytes
STOP = "/stop"
REQUEST = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
REPLY = {
    "type": "object",
    "properties": {"success": {"type": "boolean"}, "message": {"type": "string"}},
    "required": ["success", "message"],
}


class PortTaken(ServonodeError, RuntimeError):
    """The server cannot listen there; the text says why and what to do."""


def serve(run: str, port: int) -> None:
    """Bridge the run of this name, or in this folder, until it has ended.

    Raises:
        BusError: there is no such run; PortTaken: nothing can listen at this port.
    """
    logging.getLogger("foxglove").setLevel(logging.CRITICAL)  # what strangers send could fill a terminal
    step_back()
    with LiveRun(run, who="foxglove") as source:
        source.wait_open()
        FoxgloveBridge(source).run(port)


class FoxgloveBridge:
    """The run that `source` is connected to, shown by a server of Foxglove's websocket protocol."""

    def __init__(self, source: LiveRun) -> None:
        assert source.closed_loop is not None
        self._source, self._layout = source, Layout.of(source.closed_loop)
        self._token = secrets.token_urlsafe(SECRET)
        parameters = RunParameters(source.run)
        self._folder = str(parameters.run.path)
        self._numbers = Numbers(parameters, self._token)
        self._listener = _Listener(self._numbers)

    def run(self, port: int) -> None:
        """Show the run and answer requests until it has ended."""
        context = library("foxglove").Context()
        channels = Channels(self._layout, context)
        server = self._server(port, context)
        try:
            log.info("%s is on ws://%s:%d: %s", self._source.name, ADDRESS, port, server.app_url())
            log.info("token for %s and to change numbers: %s", STOP, self._token)
            self._numbers.follow(server)
            with beside(self._numbers.work) as check:
                self._show(channels, check)
        finally:
            server.stop()

    def _show(self, channels: Channels, check: Any) -> None:
        shown = -SOLIDS_S
        for moment in live_moments(self._source, RATE, self._layout):
            check()
            if moment is None:
                continue
            if self._listener.wants_solids and (now := time.monotonic()) >= shown + SOLIDS_S:
                shown, self._listener.wants_solids = now, False
                channels.log_solids(moment)
            channels.log(moment)

    def _server(self, port: int, context: Any) -> Any:
        foxglove, websocket = library("foxglove"), library("foxglove.websocket")
        can = websocket.Capability
        try:
            return foxglove.start_server(
                name=self._source.name,
                host=ADDRESS,
                port=port,
                capabilities=[can.Parameters, can.Services],
                server_listener=self._listener,
                supported_encodings=["json"],
                services=[self._service(foxglove)],
                context=context,
                message_backlog_size=BACKLOG,
            )
        except RuntimeError as error:
            raise PortTaken(
                f"no server at {ADDRESS}:{port} ({error}); name a free port with --port, as --port {port + 1}"
            ) from None

    def _service(self, foxglove: Any) -> Any:
        def message(name: str, schema: Any) -> Any:
            made = foxglove.Schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
            return foxglove.MessageSchema(encoding="json", schema=made)

        kind = foxglove.ServiceSchema(
            "servonode.Stop",
            request=message("servonode.StopRequest", REQUEST),
            response=message("servonode.StopReply", REPLY),
        )
        return foxglove.Service(STOP, schema=kind, handler=self._stop)

    def _stop(self, request: Any) -> bytes:
        """Answer a call of the emergency stop, in a thread of its own."""
        if hmac.compare_digest(_token_of(request.payload), self._token.encode()):
            done, text = stop_run(self._folder, STOP)
        else:
            done, text = False, 'not stopped: give {"token": "..."} with the token that the bridge has printed'
        return json.dumps({"success": done, "message": text}).encode()


def _token_of(payload: bytes) -> bytes:
    """The token in a request; none where it is no such request."""
    try:
        return str(json.loads(payload)["token"]).encode()
    except (ValueError, TypeError, LookupError, RecursionError):
        return b""


class _Listener:
    """What the server's threads call for its clients; calls that are not stated here do nothing."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers, self.wants_solids = numbers, False

    def on_subscribe(self, _client: Any, channel: Any) -> None:
        self.wants_solids |= channel.topic == SOLIDS

    def on_get_parameters(self, _client: Any, names: list[str], *_: Any) -> list[Any]:
        return self._numbers.shown(names)

    def on_set_parameters(self, client: Any, parameters: list[Any], *_: Any) -> list[Any]:
        return self._numbers.take(client.id, {each.name: each.get_value() for each in parameters})

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *_: None
