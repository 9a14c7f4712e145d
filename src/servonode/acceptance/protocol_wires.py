"""The connection of a host to the machine it checks: two addresses (docs/reference/protocol.md), or a driver's link."""

import select
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Protocol

import zmq

from servonode.bus import (
    BusError,
    Link,
    Message,
    MessageError,
    clear_devices_folder,
    decode,
    encode,
    make_devices_folder,
)
from servonode.bus.zmq_io import Context, Secure, bind, connect, new_context, numeric, open_socket

OURS = ("unsent", "unread")  # what a link counts that this computer was too slow for


class NobodyThere(BusError):
    """No machine answered, or an address is not available; the text has the remedy."""


@dataclass(frozen=True)
class Misfit:
    """Received data that is not a message, with the remedy in the text."""

    subject: str
    text: str


class Wire(Protocol):
    """Carries messages to a machine and back."""

    def open(self) -> None:
        """Open it; raises BusError."""

    def send(self, topic: str, message: Message) -> None:
        """Send one message."""

    def receive(self, wait_ms: int) -> list[Message | Misfit]:
        """The messages that have come, after a wait of at most `wait_ms` for one."""

    def close(self) -> None:
        """Send what is still queued, and free everything."""


class ZmqWire:
    """Two addresses, without the bounds and counts of a run's link. secure: gives a socket its keys."""

    def __init__(self, state: str, applied: str, secure: Secure | None = None) -> None:
        self._addresses, self._secure = (state, applied), secure

    def open(self) -> None:
        """Bind the address of applied inputs, connect to that of the states; raises NobodyThere."""
        try:
            state, applied = (numeric(each) for each in self._addresses)
        except BusError as error:
            raise NobodyThere(str(error)) from None
        make_devices_folder(self._addresses)
        self._context: Context = new_context()
        self._path: Path | None = None
        self._out, self._into = (open_socket(self._context, kind, self._secure) for kind in (zmq.PUB, zmq.SUB))
        self._into.setsockopt(zmq.SUBSCRIBE, b"")
        try:
            self._path = bind(self._out, applied)
        except BusError as error:
            self.close()
            raise NobodyThere(f"{applied} cannot be bound ({error}); stop the run that uses it") from None
        connect(self._into, state)

    def send(self, topic: str, message: Message) -> None:
        """Publish one message."""
        self._out.send_multipart([topic.encode(), encode(message)])

    def receive(self, wait_ms: int) -> list[Message | Misfit]:
        """The next message, or nothing."""
        if not self._into.poll(wait_ms):
            return []
        return [read_frames(self._into.recv_multipart())]

    def close(self) -> None:
        """Close the sockets, and remove the path that was bound."""
        self._out.close(linger=100)
        self._into.close(linger=0)
        self._context.term()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        clear_devices_folder()


def read_frames(frames: list[bytes]) -> Message | Misfit:
    """The message in the frames of the bus."""
    if len(frames) != 2:
        return Misfit("frames", f"a message has {len(frames)} frames; send the topic and one msgpack map")
    try:
        return decode(frames[0], frames[1])
    except MessageError as error:
        topic = frames[0][:20].decode(errors="replace")
        return Misfit("type", f"{topic}: {error}; see the page's tables")


class LinkWire:
    """The link of a driver. remedy: for messages that it refuses."""

    def __init__(self, link: Link, remedy: str = "check the wire") -> None:
        self._link, self._remedy = link, remedy
        self._counted: Counter[str] = Counter()

    def open(self) -> None:
        """Open the link; raises BusError."""
        self._link.open()

    def send(self, topic: str, message: Message) -> None:
        """Send one message."""
        self._link.send(topic, message)

    def receive(self, wait_ms: int) -> list[Message | Misfit]:
        """The messages that have come, and a `Misfit` for each reason of refused ones."""
        if self._link.lost:
            raise NobodyThere(self._link.lost)
        poll = select.poll()
        for fd in self._link.fds:
            poll.register(fd, select.POLLIN)
        due = self._link.due()  # what waits for a free line
        poll.poll(wait_ms if due is None else min(wait_ms, max(due - monotonic_ns(), 0) // 1_000_000))
        came: list[Message | Misfit] = [message for _, message in self._link.receive()]
        for reason in self._link.counts - self._counted:
            if reason not in OURS:
                text = f"what comes is not what a machine sends ({reason}); {self._remedy}"
                came.append(Misfit("packets", text))
        self._counted = Counter(self._link.counts)
        return came

    def close(self) -> None:
        """Close the link."""
        self._link.close()
