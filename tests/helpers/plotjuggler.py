"""PlotJuggler's ZMQ subscriber in Python: what it receives, how it flattens it, what it drops without a word.

It takes what versions 3 (`datastream_zmq.cpp`, `nlohmann_parsers.cpp` of its releases 3.10 to 3.17) and 4 (the plugins
`zmq-subscriber` and `json-parser`, autumn 2026) both take as it is meant, and refuses the rest. Rebuilt from reading
these, not run against the program.
"""

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgpack
import zmq

LONGEST_LIST = 500  # entries of a list that are shown


class Refused(Exception):
    """A message that PlotJuggler drops, or takes for another."""


def parsed(payload: bytes) -> Any:
    """The one msgpack map that the payload is, as nlohmann::json reads it."""
    try:
        found = msgpack.unpackb(payload)  # refuses trailing bytes, and keys that are no text
    except (msgpack.exceptions.ExtraData, ValueError) as error:
        raise Refused(str(error)) from None
    if not isinstance(found, dict) or not isinstance(found.get("t"), int | float):
        raise Refused("no map with a time")
    return found


def flattened(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """Series and value of everything in it that is plotted by both versions."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flattened(each, f"{name}/{key}")
    elif isinstance(value, list):
        for i, each in enumerate(value[:LONGEST_LIST]):
            yield from flattened(each, f"{name}[{i}]")
    elif isinstance(value, bool | int | float):
        yield name, float(value)


class PlotJuggler:
    """A SUB socket, and the series of what came; `topics` as typed into the field of its dialog."""

    def __init__(self, address: str, topics: str = "") -> None:
        self.series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.refused: list[str] = []
        self.frames: list[list[bytes]] = []
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        for word in [word for word in re.split(r"[,; \t]+", topics) if word] or [""]:
            self._socket.setsockopt(zmq.SUBSCRIBE, word.encode())
        self._socket.connect(address)

    def receives(self, topic: str, within_s: float) -> bool:
        """Whether a message of the topic comes within so long; what comes is taken."""
        end = time.monotonic() + within_s
        while time.monotonic() < end and not any(frames[0].decode() == topic for frames in self.frames):
            self.receive_for(0.05)
        return time.monotonic() < end

    def receive_for(self, seconds: float) -> None:
        """Take what comes for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._socket.poll(math.ceil(left * 1000)):
                self.take(self._socket.recv_multipart())

    def take(self, frames: list[bytes]) -> None:
        """Take one message: a topic that is not empty, and one payload."""
        self.frames.append(frames)
        try:
            if len(frames) != 2 or not all(frames):
                raise Refused("not two frames")
            content = parsed(frames[1])
            for name, value in flattened(content, frames[0].decode()):
                self.series[name].append((content["t"], value))
        except Refused as error:
            self.refused.append(str(error))

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()

    def __enter__(self) -> "PlotJuggler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
