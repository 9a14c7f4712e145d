"""The link to a machine that is another process: two addresses, one publisher on each.

Publishers bind, subscribers connect: the machine binds where it publishes its states, servonode where it publishes
what is applied. Whoever can reach an address can also speak on it, so both must be local; see docs/protocol.md.
"""

import contextlib
import os
import re
from collections import Counter
from pathlib import Path
from typing import Protocol

import zmq

from servonode.bus.faces import BOUND, Intake
from servonode.bus.folder import IPC_LIMIT, BusError
from servonode.bus.messages import Message
from servonode.bus.plumbing import Reader, Socket, bind_socket, open_socket
from servonode.bus.sockets import Publisher, Subscriber

HEARD = ("state", "status")  # the topics a machine publishes
SEEN_OFF_MS = 100  # how long closing waits for the last message to leave

_TCP = re.compile(r"tcp://(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?")


class Link(Protocol):
    """Sends to a machine and hears it; nothing here blocks."""

    counts: Counter[str]  # what came and was no message, by reason
    fds: tuple[int, ...]  # readable when something may have come

    def open(self) -> None:
        """Open what it is made of. Raises BusError where that cannot be."""

    def send(self, topic: str, message: Message) -> None:
        """Send one message; what cannot be taken is lost."""

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """What has come, oldest first, at most `bound` messages."""

    def due(self) -> int | None:
        """The monotonic time [ns] at which something comes without making `fds` readable, if any."""

    def renew(self) -> None:
        """Connect anew to what the machine publishes; what is on its way may be lost."""

    def listened(self) -> bool | None:
        """Whether somebody hears what is sent; None: not known."""

    def close(self) -> None:
        """Free everything; a second call does nothing."""


def check_address(text: str) -> str | None:
    """Why a machine's address cannot be used, in one sentence with the mend, or None for a good one."""
    if text.startswith("ipc://"):
        return _check_path(text.removeprefix("ipc://"))
    if found := _TCP.fullmatch(text):
        if 1 <= int(found[1] or 0) <= 65535:
            return None
        return f"{text!r} has no usable port; take one from 1024 to 65535, as in tcp://127.0.0.1:9873"
    if text.startswith("tcp://"):
        return (
            f"{text!r} may be reached from other computers, and this link has no keys; "
            "take tcp://127.0.0.1:PORT, tcp://[::1]:PORT or ipc:///PATH"
        )
    return f"{text!r} is no address; take tcp://127.0.0.1:PORT, tcp://[::1]:PORT or ipc:///PATH"


def _check_path(path: str) -> str | None:
    """The same for a Unix socket's path."""
    if not path.startswith("/") or "\0" in path:
        return f"'ipc://{path}' has no absolute path; write ipc:///PATH"
    length = len(os.fsencode(path))
    if length > IPC_LIMIT:
        return f"'ipc://{path}' has a path of {length} bytes, a Unix socket takes {IPC_LIMIT}; take a shorter one"
    return None


class ExternalLink:
    """A link over sockets, on a context of its own in this thread; open it after the fork."""

    def __init__(self, state_address: str, applied_address: str) -> None:
        self.counts: Counter[str] = Counter()
        self.fds: tuple[int, ...] = ()
        self._addresses = (state_address, applied_address)
        self._context: zmq.Context[Socket] | None = None
        self._owner = 0
        self._sockets: list[Socket] = []
        self._bound: Path | None = None
        self._more = False  # the last drain left something, perhaps

    def open(self) -> None:
        """Bind the one address and connect to the other; raises BusError where that cannot be."""
        state, applied = self._addresses
        for address in self._addresses:
            if complaint := check_address(address):
                raise BusError(complaint)
        if state == applied:
            raise BusError(f"{state} cannot serve states and inputs; give the machine a second address")
        self._context, self._owner = zmq.Context(io_threads=1), os.getpid()
        try:
            self._publisher = self._publish(applied)
            self._subscriber = self._subscribe(state)
        except BaseException:
            self.close()
            raise

    def _publish(self, address: str) -> Publisher:
        opened = self._socket(zmq.XPUB, address)
        opened.setsockopt(zmq.XPUB_VERBOSER, 1)
        try:
            if address.startswith("ipc://"):
                self._bound = bind_socket(opened, address)
            else:
                opened.bind(_numeric(address))
        except (BusError, zmq.ZMQError) as error:
            mend = "stop the other run that uses it, or set plant.device.applied to another address"
            raise BusError(f"{address} cannot be bound ({error}); {mend}") from None
        return Publisher(opened, 1)

    def _subscribe(self, address: str) -> Subscriber:
        intake = Intake({"machine": HEARD})
        self.counts = intake.counts
        opened = self._socket(zmq.SUB, address)
        for word in intake.words:
            opened.setsockopt(zmq.SUBSCRIBE, word)
        opened.connect(_numeric(address))
        reader = Reader(opened)
        self.fds = (reader.fd,)
        return Subscriber(reader, intake)

    def _socket(self, kind: zmq.SocketType, address: str) -> Socket:
        assert self._context is not None
        opened = open_socket(self._context, kind)
        opened.setsockopt(zmq.IPV6, int("[" in address))
        self._sockets.append(opened)
        return opened

    def send(self, topic: str, message: Message) -> None:
        """Publish one message; never blocks."""
        self._publisher.publish(topic, message)

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """What has come, oldest first, at most `bound` messages; never blocks."""
        taken = self._subscriber.receive(bound)
        self._more = len(taken) == bound
        return taken

    def due(self) -> int | None:
        """At once where a drain ended at its bound, for what waits already gives no signal; else `fds` tell."""
        return 0 if self._more else None

    def renew(self) -> None:
        """Connect anew: ZeroMQ never comes back by itself to a publisher that has sent too large a message."""
        opened, address = self._sockets[1], _numeric(self._addresses[0])
        with contextlib.suppress(zmq.ZMQError):  # not connected any more
            opened.disconnect(address)
        opened.connect(address)

    def listened(self) -> bool | None:
        """Whether a machine has subscribed to anything that is sent."""
        return self._publisher.subscriptions_seen() > 0

    def close(self) -> None:
        """Let the last messages go, close all, end the context. A second call, or one in a fork, does nothing."""
        context, self._context = self._context, None
        if context is None or os.getpid() != self._owner:
            return
        for opened in self._sockets:
            opened.close(linger=SEEN_OFF_MS if opened.type == zmq.XPUB else 0)
        context.term()
        if self._bound:
            self._bound.unlink(missing_ok=True)


def _numeric(address: str) -> str:
    """ZeroMQ binds to no host names."""
    return address.replace("//localhost:", "//127.0.0.1:")
