"""PlotJuggler's ZMQ subscriber in Python: what it receives, how it flattens it, what it drops without a word.

Version 3, as in its releases 3.10 to 3.17 (`datastream_zmq.cpp`, `nlohmann_parsers.cpp`); version 4 subscribes and
flattens alike, and shows texts besides. Rebuilt from reading these, not run against the program.

    python -m tests.helpers.plotjuggler ADDRESS     prints a line once something has come, and goes on
"""

import math
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgpack
import zmq


class Refused(Exception):
    """A message that PlotJuggler drops."""


def words_of(filtered: str) -> list[str]:
    """What it subscribes to for a text in the field of topics."""
    return [word for word in re.split(r"[,; \t]+", filtered) if word] or [""]


def parsed(payload: bytes) -> Any:
    """The one msgpack object that the payload is, as nlohmann::json reads it."""
    try:
        found = msgpack.unpackb(payload, strict_map_key=False)  # refuses trailing bytes
    except (msgpack.exceptions.ExtraData, ValueError) as error:
        raise Refused(str(error)) from None
    _check_keys(found)
    return found


def _check_keys(value: Any) -> None:
    inside: Any = ()
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Refused("a key that is no text")
        inside = value.values()
    for each in value if isinstance(value, list) else inside:
        _check_keys(each)


def flattened(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """Series and value of everything in it that is plotted."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flattened(each, f"{name}/{key}")
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from flattened(each, f"{name}[{i}]")
    elif isinstance(value, bool | int | float):
        yield name, float(value)


class PlotJuggler:
    """A SUB socket, and the series of what came; the field `t` is typed into its dialog as the time."""

    def __init__(self, address: str, topics: str = "") -> None:
        self.series: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.refused: list[str] = []
        self.frames: list[list[bytes]] = []
        self._untimed: set[str] = set()  # topics of which a message had no such field: off for good
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        for word in words_of(topics):
            self._socket.setsockopt(zmq.SUBSCRIBE, word.encode())
        self._socket.connect(address)

    def receives(self, topic: str, within_s: float) -> bool:
        """Whether a message of the topic comes within so long; what comes is taken."""
        end = time.monotonic() + within_s
        while time.monotonic() < end and not any(frames[0].decode() == topic for frames in self.frames):
            self.receive_for(0.1)
        return time.monotonic() < end

    def receive_for(self, seconds: float) -> None:
        """Take what comes for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._socket.poll(math.ceil(left * 1000)):
                self.take(self._socket.recv_multipart())

    def take(self, frames: list[bytes]) -> None:
        """Take one message: topic and payload; of a list each entry is a sample."""
        self.frames.append(frames)
        topic, payload = frames[0].decode(), frames[1]
        try:
            content = parsed(payload)
        except Refused as error:
            self.refused.append(str(error))
            return
        for sample in content if isinstance(content, list) else [content]:
            at = self._time(topic, sample)
            for name, value in flattened(sample, topic):
                self.series[name].append((at, value))

    def _time(self, topic: str, sample: Any) -> float:
        found = sample.get("t") if isinstance(sample, dict) else None
        if isinstance(found, int | float) and topic not in self._untimed:
            return float(found)
        self._untimed.add(topic)
        return time.monotonic()

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()

    def __enter__(self) -> "PlotJuggler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if __name__ == "__main__":
    with PlotJuggler(sys.argv[1]) as viewer:
        while True:
            viewer.receive_for(0.1)
            if viewer.frames:
                print("received", flush=True)
                viewer.receive_for(600.0)
