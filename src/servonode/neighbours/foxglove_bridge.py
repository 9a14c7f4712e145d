"""A bridge from one run to Foxglove: what the run does, its numbers to change, and the emergency stop.

It is a process of its own beside the run: the run's nodes do not know it, and what a client does not read in time is
dropped for that client. The server of the SDK takes connections from all programs of this computer and all pages in its
browsers, of whatever origin: whoever changes a number or stops the run shows the token that the bridge prints.
"""

import hmac
import json
import logging
import secrets
import time
from typing import Any

from servonode.errors import ServonodeError
from servonode.neighbours.bridged import beside, stop_run
from servonode.neighbours.foxglove_messages import Channels
from servonode.neighbours.foxglove_numbers import Numbers
from servonode.neighbours.foxglove_scene import SOLIDS
from servonode.neighbours.libraries import library
from servonode.neighbours.live import live_moments
from servonode.neighbours.moments import Layout
from servonode.operator.listener import step_back
from servonode.operator.run_parameters import RunParameters
from servonode.views.live_run import LiveRun

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

log = logging.getLogger(__name__)


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
