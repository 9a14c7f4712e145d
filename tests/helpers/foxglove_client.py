"""A client of Foxglove's websocket protocol, which shares nothing with the server's SDK."""

import base64
import json
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mcap.records import Schema
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.helpers.extras import oracle
from tests.helpers.runs import START_S

MESSAGE, CALL, ANSWER = 1, 2, 3  # first byte of what is no text


class FoxgloveClient:
    """A connection: channels and services by name as the server has told, and what has come."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.channels: dict[str, dict[str, Any]] = {}
        self.services: dict[str, dict[str, Any]] = {}
        self.statuses: list[str] = []
        self.server = json.loads(socket.recv(START_S))

    def find(self, topics: set[str]) -> None:
        """Wait until these topics and a service are told."""
        while not topics <= self.channels.keys() or not self.services:
            self.next()

    def next(self) -> tuple[str, Any]:
        """What comes next: its kind, and its content."""
        received = self.socket.recv(START_S)
        if isinstance(received, bytes):
            return _read(received)
        told = json.loads(received)
        self.channels |= {each["topic"]: each for each in told.get("channels", ())}
        self.services |= {each["name"]: each for each in told.get("services", ())}
        if told["op"] == "status":
            self.statuses.append(told["message"])
        return told["op"], told

    def until(self, kind: str, wanted: Callable[[Any], bool] = lambda _: True) -> Any:
        """The next content of a kind that is wanted."""
        limit = time.monotonic() + START_S
        while time.monotonic() < limit:
            found, content = self.next()
            if found == kind and wanted(content):
                return content
        raise AssertionError(f"no {kind} has come; told: {self.statuses}")

    def ask(self, op: str, **content: Any) -> None:
        self.socket.send(json.dumps({"op": op, **content}))

    def subscribe(self, *topics: str) -> None:
        ids = [self.channels[topic]["id"] for topic in topics]
        self.ask("subscribe", subscriptions=[{"id": each, "channelId": each} for each in ids])

    def decoder(self, topic: str) -> Callable[[bytes], Any]:
        """What decodes a topic's messages by the schema that the server has told."""
        channel = self.channels[topic]
        if channel["encoding"] == "json":
            validator = oracle("jsonschema").Draft202012Validator(json.loads(channel["schema"]))

            def decoded(data: bytes) -> Any:
                validator.validate(content := json.loads(data))
                return content

            return decoded
        schema = Schema(1, base64.b64decode(channel["schema"]), channel["schemaEncoding"], channel["schemaName"])
        decode = oracle("mcap_protobuf.decoder").DecoderFactory().decoder_for(channel["encoding"], schema)
        assert decode
        return decode  # type: ignore[no-any-return]

    def parameters(self, *names: str) -> dict[str, Any]:
        """The values of these parameters, or of all."""
        self.ask("getParameters", parameterNames=names, id="get")
        return _values(self.until("parameterValues", lambda told: told.get("id") == "get"))

    def set(self, **values: Any) -> dict[str, Any]:
        """Set parameters, a dot for each __; the answer."""
        named = [{"name": name.replace("__", "."), "value": value} for name, value in values.items()]
        self.ask("setParameters", parameters=named, id="set")
        return _values(self.until("parameterValues", lambda told: told.get("id") == "set"))

    def until_told(self, text: str) -> str:
        """The status that has this text, which may have come before."""
        limit = time.monotonic() + START_S
        while True:
            for i, message in enumerate(self.statuses):
                if text in message:
                    del self.statuses[: i + 1]
                    return message
            assert time.monotonic() < limit, (text, self.statuses)
            self.next()

    def call(self, service: str, payload: bytes) -> dict[str, Any]:
        """Call a service; its answer."""
        number = self.services[service]["id"]
        self.socket.send(struct.pack("<BIII", CALL, number, 1, 4) + b"json" + payload)
        return json.loads(self.until("answer"))  # type: ignore[no-any-return]


def _values(told: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in told["parameters"]}


def _read(received: bytes) -> tuple[str, Any]:
    if received[0] == MESSAGE:
        channel, stamp = struct.unpack_from("<IQ", received, 1)
        return "message", (channel, stamp, received[13:])
    assert received[0] == ANSWER
    _, _, length = struct.unpack_from("<III", received, 1)
    return "answer", received[13 + length :]


@contextmanager
def foxglove_client(port: int) -> Iterator[FoxgloveClient]:
    """A client of the server at this port."""
    protocol = Subprotocol("foxglove.sdk.v1")
    with connect(f"ws://127.0.0.1:{port}", subprotocols=[protocol], max_size=None, ping_interval=None) as socket:
        yield FoxgloveClient(socket)
