"""PlotJuggler's ZMQ subscriber in Python: what it receives, how it flattens it, what it drops without a word.

Version 3, as in its releases 3.10 to 3.17 (`datastream_zmq.cpp`, `nlohmann_parsers.cpp`), and version 4, as in the
sources of its plugins `zmq-subscriber` and `json-parser` (autumn 2026). Rebuilt from reading these, not run against the
program.
"""

import math
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgpack
import zmq

LONGEST_TEXT = 100  # characters that version 4 shows as a series of texts; longer ones are dropped
LONGEST_LIST = 500  # entries of a list that version 4 shows, as its dialog has it at first


class Refused(Exception):
    """A message that PlotJuggler drops."""


def words_of(filtered: str) -> list[str]:
    """What it subscribes to for a text in the field of topics."""
    return [word for word in re.split(r"[,; \t]+", filtered) if word] or [""]


def frames_of(frames: list[bytes], version: int) -> tuple[str, bytes]:
    """Topic and payload. servonode sends no third frame, a time: it is lost in version 3."""
    if version == 3:
        if len(frames) > 1 and not frames[0]:
            frames = frames[1:]  # an empty topic shifts the frames
        if len(frames) == 1:
            return "", frames[0]
        assert len(frames) == 2, "the payload of three frames is rebuilt while it is read"
    topic, payload = frames[0], frames[1]
    if not topic or not payload:
        raise Refused("empty")  # ends the poll of version 4
    return topic.decode(), payload


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


def flattened(value: Any, name: str, version: int) -> Iterator[tuple[str, Any]]:
    """Series and value of everything in it that is plotted."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flattened(each, f"{name}/{key}", version)
    elif isinstance(value, list):
        for i, each in enumerate(value[: LONGEST_LIST if version == 4 else None]):
            yield from flattened(each, f"{name}[{i}]", version)
    elif isinstance(value, bool | int | float):
        yield name, float(value)
    elif isinstance(value, str) and version == 4 and len(value) < LONGEST_TEXT:
        yield name, value


class PlotJuggler:
    """A SUB socket, and the series of what came. time_field: typed into its dialog; empty: the time of arrival."""

    def __init__(self, address: str, topics: str = "", time_field: str = "t", version: int = 3) -> None:
        self.version, self.time_field = version, time_field
        self.series: dict[str, list[tuple[float, Any]]] = defaultdict(list)
        self.refused: list[str] = []
        self.frames: list[list[bytes]] = []
        self._untimed: set[str] = set()  # topics of which a message had no such field: off for good, in version 3
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
        """Take one message."""
        self.frames.append(frames)
        try:
            topic, payload = frames_of(list(frames), self.version)
            content = parsed(payload)
            for sample in content if isinstance(content, list) else [content]:  # a list is a batch of samples
                at = self._time(topic, sample)
                for name, value in flattened(sample, topic, self.version):
                    self.series[name].append((at, value))
        except Refused as error:
            self.refused.append(str(error))

    def _time(self, topic: str, sample: Any) -> float:
        found = sample.get(self.time_field) if isinstance(sample, dict) and self.time_field else None
        if isinstance(found, int | float) and topic not in self._untimed:
            return float(found)
        if self.time_field and self.version == 3:
            self._untimed.add(topic)
        return time.monotonic()

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()

    def __enter__(self) -> "PlotJuggler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
