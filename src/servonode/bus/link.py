"""The link to a machine that is another process: two addresses, one publisher on each.

Publishers bind, subscribers connect: the machine binds the address of its states, servonode that of the applied inputs.
Whoever can reach an address can also send to it, so both must be local; see docs/reference/protocol.md.
"""

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

import zmq

from servonode.bus.codec import BOUND, encode_frames, message_intake
from servonode.bus.descriptors import ensure_room
from servonode.bus.messages import Message
from servonode.bus.run_folder import IPC_LIMIT, BusError
from servonode.bus.zmq_io import Context, Secure, bind, new_context, numeric, open_socket
from servonode.bus.zmq_publisher import LARGEST, ConnectionLimit, ZmqPublisher, listen
from servonode.bus.zmq_subscriber import Subscriber

MACHINE_TOPICS = ("state", "status")  # what a machine publishes
SENT_TOPICS = ("setup", "applied")  # and subscribes to
QUEUE = 4  # messages that wait for a machine that does not read; newer ones are lost
FINALS, FINAL_S = 5, 0.01  # how often, and after which times, the message that ends a run is sent again
SEND_BUFFER = 16384  # bytes that the system keeps for it, enough for 1000 inputs a second over a network of 20 ms
_TCP = re.compile(r"tcp://(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?")


def port_of(address: str) -> int | None:
    """The port of a tcp address of this computer alone; 0 where it has none that can be used, None for any other."""
    found = _TCP.fullmatch(address)
    if not found:
        return None
    port = int(found[1] or 0)
    return port if port <= 65535 else 0


def check_telemetry(address: str) -> str | None:
    """Why telemetry cannot be published at an address, in one sentence with the remedy; None for a usable one."""
    port = port_of(address)
    if port:
        return None
    if port == 0:
        return f"{address!r} has no usable port; take one from 1024 to 65535, as in tcp://127.0.0.1:9872"
    if address.startswith("tcp://"):
        return (
            f"{address!r} may be reached from other computers, and this link has no keys yet; take "
            "tcp://127.0.0.1:9872, and on the other computer: ssh -L 9872:127.0.0.1:9872 USER@THIS_COMPUTER"
        )
    return f"{address!r} is not an address; take tcp://127.0.0.1:PORT or tcp://[::1]:PORT"


class Wire(Protocol):
    """A way to a machine; it is opened after the fork, and no call blocks.

    What a wire does not state is that of one that cannot be lost, has nothing to wait for, and nothing to free.
    counts: received data that is no message, or no packet, by reason.
    """

    counts: Counter[str]

    @property
    def lost(self) -> str:
        """Why nothing can come any more, such as an unplugged cable, with the remedy; empty: something can."""
        return ""

    @property
    def hint(self) -> str:
        """A possible reason why the machine does not answer, as far as the wire shows; empty: not known."""
        return ""

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when something may have come; none: it is not open."""
        return ()

    def open(self) -> None:
        """Open it. Raises BusError where that fails."""
        return

    def due(self) -> int | None:
        """The monotonic time [ns] at which to call `receive` although no fd is readable, or None."""
        return None

    def renew(self) -> None:
        """Connect again; what is in transit may be lost."""
        return

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        return


class Link(Wire, Protocol):
    """A wire for messages: it sends some to a machine, and receives the machine's."""

    def send(self, topic: str, message: Message) -> None:
        """Send one message; it is lost if the machine does not read."""

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """The messages that have come, oldest first, at most `bound`."""

    def listened(self) -> bool | None:
        """Whether a machine has subscribed to what is sent; None: not known."""
        return None


_FAR = re.compile(r"tcp://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]*))?")


def check_address(text: str, far: bool = False) -> str | None:
    """Why a machine's address cannot be used, in one sentence with the remedy; None for a valid address.

    far: whether it may be one that other computers reach.
    """
    if text.startswith("ipc://"):
        return _check_path(text.removeprefix("ipc://"))
    if far:
        return _check_far(text)
    if (port := port_of(text)) is not None:
        if port:
            return None
        return f"{text!r} has no usable port; take one from 1024 to 65535, as in tcp://127.0.0.1:9873"
    if text.startswith("tcp://"):
        return (
            f"{text!r} may be reached from other computers, and this link has no keys; "
            "take tcp://127.0.0.1:PORT, tcp://[::1]:PORT or ipc:///PATH"
        )
    return f"{text!r} is not an address; take tcp://127.0.0.1:PORT, tcp://[::1]:PORT or ipc:///PATH"


def _check_far(text: str) -> str | None:
    """As `check_address`, for what is no path and may be reached from other computers."""
    found = _FAR.fullmatch(text)
    if not found:
        return (
            f"{text!r} is not an address; take tcp://HOST:PORT or ipc:///PATH, where HOST is a name, a number such as "
            "192.168.1.7 or [fd00::7], or, of this computer, 0.0.0.0 for all its networks"
        )
    if not 0 < int(found[1] or 0) <= 65535:
        return f"{text!r} has no usable port; take one from 1024 to 65535, as in tcp://HOST:9873"
    return None


def _check_path(path: str) -> str | None:
    """As `check_address`, for the path of a Unix socket."""
    if not path.startswith("/") or "\0" in path:
        return f"'ipc://{path}' has no absolute path; write ipc:///PATH"
    length = len(os.fsencode(path))
    if length > IPC_LIMIT:
        return f"'ipc://{path}' has a path of {length} bytes, a Unix socket takes {IPC_LIMIT}; take a shorter one"
    return None


class ExternalLink(Link):
    """A link over sockets of libzmq, read and written in the calling thread and within bounds; open it after the fork.

    secure: gives a socket its keys, before it is bound or connected. far: whether other computers may reach them.
    """

    def __init__(
        self, state_address: str, applied_address: str, secure: Secure | None = None, far: bool = False
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.problems: dict[str, str] = {}  # what was wrong with the newest refused message, by reason
        self._far = far
        self._addresses = (state_address, applied_address)
        self._secure = secure
        self._context: Context | None = None
        self._publisher: ZmqPublisher | None = None
        self._subscriber: Subscriber[Message] | None = None
        self._owner = 0
        self._bound: Path | None = None
        self._final: tuple[bytes, bytes] | None = None  # the message that ends the run

    def open(self) -> None:
        """Bind the address of the inputs, connect to that of the states; raises BusError where that fails."""
        state, applied = self._addresses
        for address in self._addresses:
            if complaint := check_address(address, self._far):
                raise BusError(complaint)
        if state == applied:
            raise BusError(f"{state} cannot serve states and inputs; give the machine a second address")
        state, applied = numeric(state), numeric(applied)
        ensure_room()
        self._owner = os.getpid()
        self._context = new_context()
        intake = message_intake({"machine": MACHINE_TOPICS})
        self.counts, self.problems = intake.counts, intake.problems
        self._publisher = self._publish(self._context, applied)
        self._subscriber = Subscriber(open_socket(self._context, zmq.SUB, self._secure), intake, state, persistent=True)

    def take_all(self) -> None:
        """Take what comes by any topic, so that wrong ones are counted; for checks of a machine."""
        assert self._subscriber is not None
        self._subscriber.subscribe(b"")

    def _publish(self, context: Context, address: str) -> ZmqPublisher:
        opened = open_socket(context, zmq.XPUB, self._secure, LARGEST, QUEUE)
        opened.setsockopt(zmq.SNDBUF, SEND_BUFFER)
        limit: ConnectionLimit | None = None
        try:
            if address.startswith("tcp://"):
                limit = ConnectionLimit(opened, listen(address), self.counts)
            else:
                self._bound = bind(opened, address)
        except BusError as error:
            context.destroy(linger=0)  # with the socket for keys, if there is one
            remedy = "stop the other run that uses it, or set plant.device.applied to another address"
            raise BusError(f"{self._addresses[1]} cannot be bound ({error}); {remedy}") from None
        return ZmqPublisher(opened, SENT_TOPICS, limit)

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when the machine may have sent something."""
        return () if self._subscriber is None else (self._subscriber.fd,)

    def send(self, topic: str, message: Message) -> None:
        """Publish one message; never blocks."""
        assert self._publisher is not None
        frames = encode_frames(topic, message)
        self._final = frames if getattr(message, "final", False) else None
        self._publisher.publish(*frames)

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """The messages that have come, oldest first, at most `bound` and as many as DRAIN_NS allow; never blocks."""
        assert self._subscriber is not None
        assert self._publisher is not None
        self._publisher.look()
        return self._subscriber.receive(bound)

    def due(self) -> int | None:
        """0 where a drain ended early, because what waits already gives no signal."""
        return None if self._subscriber is None else self._subscriber.due()

    def renew(self) -> None:
        """Connect again, at once."""
        if self._subscriber is not None:
            self._subscriber.renew()

    def listened(self) -> bool | None:
        """Whether a machine has subscribed to anything that is sent."""
        return self._publisher is not None and self._publisher.is_subscribed()

    def close(self) -> None:
        """Send what is still queued, close all. A second call, or one in a forked child, does nothing."""
        publisher, subscriber, context = self._publisher, self._subscriber, self._context
        if os.getpid() != self._owner or publisher is None or subscriber is None or context is None:
            return
        self._publisher = self._subscriber = self._context = None
        if self._final is not None:
            for _ in range(FINALS):  # a queue that was full has lost it
                time.sleep(FINAL_S)
                publisher.publish(*self._final)
        publisher.close()
        subscriber.close()
        context.term()
        if self._bound:
            self._bound.unlink(missing_ok=True)
