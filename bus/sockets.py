"""The bus over ZeroMQ: publishers bind, subscribers connect, and only `wait` sleeps.

All sockets of a node live in its one thread. Make the bus after the fork: contexts and their I/O threads do
not survive one.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import zmq

from servonode.bus.codec import encode_frames
from servonode.bus.faces import BOUND, Intake, Wanted
from servonode.bus.folder import endpoint
from servonode.bus.messages import Message
from servonode.bus.plumbing import MORE, NOBLOCK, Reader, Socket, Waiter, bind_socket, open_socket
from servonode.bus.requests import Requests


class Publisher:
    """The node's one publishing socket; sees the subscriptions that reach it."""

    def __init__(self, opened: Socket, expected_subscriptions: int) -> None:
        self._send = super(zmq.Socket, opened).send  # pyzmq's own layer above it doubles what a frame costs
        self._reader = Reader(opened)
        self._waiter = Waiter(self._reader)
        self.expected_subscriptions = expected_subscriptions
        self.subscriptions: Counter[str] = Counter()  # held at present, by topic word
        self.joined = 0  # subscriptions ever made

    def publish(self, topic: str, message: Message) -> None:
        """Send to all that listen now; never blocks. What a full queue cannot take is dropped for its reader.

        Raises ValueError if the message is not of this topic, and what `encode` raises.
        """
        frame, payload = encode_frames(topic, message)
        self._send(frame, MORE)
        self._send(payload, NOBLOCK)
        self._reader.disturbed()

    def subscriptions_seen(self) -> int:
        """How many subscriptions are held at present; those of a closed or dead subscriber go."""
        for _ in range(BOUND):
            frames = self._reader.read()
            if frames is None:
                break
            word = frames[0][1:].decode("utf-8", "replace")
            if frames[0][:1] == b"\x01":
                self.subscriptions[word] += 1
                self.joined += 1
            elif frames[0][:1] == b"\x00":
                self.subscriptions[word] -= 1
        return self.subscriptions.total()

    def listened(self, topic: str) -> bool:
        """Whether somebody held a subscription to this topic when they were last counted."""
        return self.subscriptions[topic] > 0

    def ready(self) -> bool:
        """Whether the expected subscriptions are held, so that the next message reaches all."""
        return self.subscriptions_seen() >= self.expected_subscriptions

    def wait_ready(self, deadline_ns: int) -> bool:
        """Sleep until `ready`; False if the monotonic deadline [ns] comes first."""
        while not self.ready():
            if not self._waiter.wait(deadline_ns):
                return False
        return True


class Subscriber:
    """A socket connected to other nodes' publishers, before or after these start.

    When a publisher restarts, the connection comes back by itself and the subscription with the next
    `receive` or `wait`.
    """

    def __init__(self, reader: Reader, intake: Intake) -> None:
        self._reader = reader
        self._waiter = Waiter(reader)
        self._intake = intake
        self.counts = intake.counts  # refused messages by reason

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """What waits, oldest first, at most `bound` messages; never blocks. A topic's last is its newest."""
        taken: list[tuple[str, Message]] = []
        read, take = self._reader.read, self._intake.take
        for _ in range(bound):
            frames = read()
            if frames is None:
                break
            if len(frames) != 2:
                self.counts["frames"] += 1
            elif (message := take(frames[0], frames[1])) is not None:
                taken.append(message)
        return taken

    def wait(self, deadline_ns: int | None) -> bool:
        """Whether something came before the monotonic deadline [ns]; None waits for ever."""
        while self._waiter.wait(deadline_ns):
            if self._reader.look():
                return True
        return False


class Bus:
    """All sockets of one node, on one context with one I/O thread; a context manager that closes.

    The endpoints are `<folder>/<node>.pub` and `<folder>/<node>.req`. BusError is raised where a path is too
    long, already served by another process, or cannot be bound.
    """

    def __init__(self, folder: Path | str, node: str) -> None:
        self.folder = Path(folder)
        self.node = node
        self._publishes = endpoint(self.folder, node, "pub")
        self._answers = endpoint(self.folder, node, "req")
        self._context: zmq.Context[Socket] = zmq.Context(io_threads=1)
        self._owner = os.getpid()
        self._sockets: list[Socket] = []
        self._bound: list[Path] = []
        self._waiter = Waiter()

    def publisher(self, expected_subscriptions: int = 0) -> Publisher:
        """The node's publisher, bound; `ready` once that many subscriptions are held."""
        opened = self._open(zmq.XPUB)
        opened.setsockopt(zmq.XPUB_VERBOSER, 1)  # show each subscription and its end, not only the first
        self._bound.append(bind_socket(opened, self._publishes))
        return Publisher(opened, expected_subscriptions)

    def subscriber(self, wanted: Wanted) -> Subscriber:
        """A subscriber to `{publisher node: [topic words]}`; ValueError for an unknown word.

        One socket serves all, so a word asked of one node is taken from any of them.
        """
        intake = Intake(wanted)
        addresses = [endpoint(self.folder, node, "pub") for node in wanted]
        opened = self._open(zmq.SUB)
        for word in intake.words:
            opened.setsockopt(zmq.SUBSCRIBE, word)
        for address in addresses:
            opened.connect(address)
        reader = Reader(opened)
        self._waiter.add(reader)
        return Subscriber(reader, intake)

    def requests(self) -> Requests:
        """The node's door for requests, bound."""
        opened = self._open(zmq.ROUTER)
        self._bound.append(bind_socket(opened, self._answers))
        reader = Reader(opened)
        self._waiter.add(reader)
        return Requests(opened, reader)

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        """Whether a subscriber, a request or one of `fds` is signalled before the monotonic deadline [ns].

        None waits for ever. Drain all subscribers and requests between two waits. `fds` are for such as
        `signal.set_wakeup_fd`: a signal whose handler returns does not end the sleep.
        """
        return self._waiter.wait(deadline_ns, fds)

    def close(self) -> None:
        """Close all sockets and end the context; unsent messages are dropped. A second call does nothing."""
        if self._context.closed or os.getpid() != self._owner:
            return
        for opened in self._sockets:
            opened.close(linger=0)
        self._context.term()
        for path in self._bound:  # ZeroMQ leaves them
            path.unlink(missing_ok=True)

    def _open(self, kind: zmq.SocketType) -> Socket:
        opened = open_socket(self._context, kind)
        self._sockets.append(opened)
        return opened

    def __enter__(self) -> "Bus":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
