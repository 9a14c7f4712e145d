"""The link to a machine that is another process: two addresses, one publisher on each.

Publishers bind, subscribers connect: the machine binds where it publishes its states, servonode where it publishes
what is applied. Whoever can reach an address can also speak on it, so both must be local; see docs/protocol.md.
"""

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

from servonode.bus.descriptors import ensure_room
from servonode.bus.hearer import Hearer
from servonode.bus.interfaces import BOUND, Intake
from servonode.bus.messages import Message
from servonode.bus.publisher import Publisher
from servonode.bus.run_folder import IPC_LIMIT, BusError
from servonode.bus.zmq_io import listen

HEARD = ("state", "status")  # the topics a machine publishes

_TCP = re.compile(r"tcp://(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?")


class Link(Protocol):
    """Sends to a machine and hears it; nothing here blocks."""

    counts: Counter[str]  # what came and was no message, by reason

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable when something may have come."""

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
    """Why a machine's address cannot be used, in one sentence with the remedy, or None for a good one."""
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
    """A link over sockets, all of it in this thread and within bounds; open it after the fork."""

    def __init__(self, state_address: str, applied_address: str) -> None:
        self.counts: Counter[str] = Counter()
        self._addresses = (state_address, applied_address)
        self._publisher: Publisher | None = None
        self._hearer: Hearer | None = None
        self._owner = 0
        self._bound: Path | None = None

    def open(self) -> None:
        """Bind the one address and connect to the other; raises BusError where that cannot be."""
        state, applied = self._addresses
        for address in self._addresses:
            if complaint := check_address(address):
                raise BusError(complaint)
        if state == applied:
            raise BusError(f"{state} cannot serve states and inputs; give the machine a second address")
        self._owner = os.getpid()
        self._publisher = self._publish(applied)
        intake = Intake({"machine": HEARD})
        self.counts = intake.counts
        self._hearer = Hearer(state, intake)

    def _publish(self, address: str) -> Publisher:
        ensure_room()
        try:
            listening, self._bound = listen(address)
        except BusError as error:
            remedy = "stop the other run that uses it, or set plant.device.applied to another address"
            raise BusError(f"{address} cannot be bound ({error}); {remedy}") from None
        return Publisher(listening, 1)

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable when something came from the machine, or somebody came to listen whom it is time to see."""
        if self._hearer is None or self._publisher is None:
            return ()
        server = self._publisher.server
        return (self._hearer.fd, server.fd) if time.monotonic_ns() >= server.due_ns else (self._hearer.fd,)

    def send(self, topic: str, message: Message) -> None:
        """Publish one message; never blocks."""
        assert self._publisher is not None
        self._publisher.publish(topic, message)

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """What has come, oldest first, at most `bound` messages and as many as DRAIN_NS allow; never blocks."""
        assert self._hearer is not None
        assert self._publisher is not None
        self._publisher.subscriptions_seen()
        return self._hearer.receive(bound)

    def due(self) -> int | None:
        """At once where a drain ended early, for what waits already gives no signal; else when to connect again."""
        return None if self._hearer is None else self._hearer.due()

    def renew(self) -> None:
        """Connect anew, at once."""
        if self._hearer is not None:
            self._hearer.renew()

    def listened(self) -> bool | None:
        """Whether a machine has subscribed to anything that is sent."""
        return self._publisher is not None and self._publisher.subscriptions_seen() > 0

    def close(self) -> None:
        """Let the last messages go, close all. A second call, or one in a fork, does nothing."""
        publisher, hearer = self._publisher, self._hearer
        if os.getpid() != self._owner or publisher is None:
            return
        self._publisher = self._hearer = None
        publisher.server.close()
        if hearer is not None:
            hearer.close()
        if self._bound:
            self._bound.unlink(missing_ok=True)
