"""The bus over ZeroMQ: publishers bind, subscribers connect, and only `wait` sleeps.

Nodes exchange states and commands in their one thread, by `bus/ipc/`: a thread of libzmq would be woken first, and then
wake the node. Everything else is libzmq's, whose thread reads meanwhile. Make the bus after the fork: such threads do
not survive one.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import zmq

from servonode.bus.codec import BOUND, Intake, Wanted, message_intake
from servonode.bus.descriptors import ensure_room
from servonode.bus.ipc.connection import PublisherConnection
from servonode.bus.ipc.publisher import Publisher
from servonode.bus.ipc.waiting import Waiter
from servonode.bus.messages import Message
from servonode.bus.requests import LARGEST_REQUEST, QUEUE, Requests
from servonode.bus.run_folder import endpoint
from servonode.bus.zmq_io import CLOSE_MS, Context, Reader, Socket, bind, connect, new_context, open_socket
from servonode.bus.zmq_subscriber import Subscriber


class DirectSubscriber:
    """Receives from the publishers of other nodes in this thread, before or after these start.

    When a publisher restarts, it is connected to and subscribed to again by the next `receive` or `wait`.
    """

    def __init__(self, connections: list[PublisherConnection], intake: Intake[Any]) -> None:
        self._connections = connections
        self._waiter = Waiter()
        for connection in connections:
            self._waiter.keep_connected(connection)
        self.counts = intake.counts  # refused messages by reason

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """The waiting messages, oldest first for each publisher, at most `bound`; never blocks.

        A publisher that floods is read for DRAIN_NS; what is left comes with the next drain.
        """
        taken: list[tuple[str, Message]] = []
        for connection in self._connections:
            if connection.readable is False:  # as the last wait found
                connection.readable = None
            elif len(taken) < bound:
                connection.receive_into(taken, bound)
        return taken

    def wait(self, deadline_ns: int | None) -> bool:
        """Whether something may have come before the monotonic deadline [ns]; None waits for ever."""
        return self._waiter.wait(deadline_ns)


AnySubscriber = Subscriber[Message] | DirectSubscriber


class Bus:
    """All sockets of one node; a context manager that closes.

    The endpoints are `<folder>/<node>.pub` and `<folder>/<node>.req`. BusError is raised where a path is too
    long, already served by another process, or cannot be bound.
    """

    def __init__(self, folder: Path | str, node: str, publisher: Callable[[str, int], Publisher] = Publisher) -> None:
        """publisher: makes the node's own, at an address, for so many subscriptions."""
        self.folder = Path(folder)
        self.node, self._made = node, publisher
        for kind in ("pub", "req"):
            endpoint(self.folder, node, kind)  # a path that is too long is refused here
        ensure_room()
        self._context: Context | None = None
        self._owner = os.getpid()
        self._sockets: list[Socket] = []
        self._publishers: list[Publisher] = []
        self._connections: list[PublisherConnection] = []
        self._is_closed = False
        self._bound: list[Path] = []
        self._waiter = Waiter()

    def publisher(self, expected_subscriptions: int = 0) -> Publisher:
        """The node's publisher, bound; `ready` once that many subscriptions are held."""
        publisher = self.publisher_for(self.node, expected_subscriptions)
        self._waiter.serve(publisher)
        return publisher

    def subscriber(self, wanted: Wanted) -> AnySubscriber:
        """A subscriber to `{publisher node: [topic words]}`; ValueError for an unknown word.

        One socket serves all, so a word asked of one node is taken from any of them.
        """
        intake = message_intake(wanted)
        addresses = self._addresses(wanted)
        subscriber = Subscriber(self._open(zmq.SUB), intake, *addresses)
        self._waiter.add(subscriber.reader)
        return subscriber

    def direct_subscriber(self, wanted: Wanted, intake: Intake[Any] | None = None) -> DirectSubscriber:
        """As `subscriber`, without a thread of its own, for nodes: what they do not read in time is dropped sooner.

        intake: one that takes the messages otherwise.
        """
        intake = intake or message_intake(wanted)
        connections = [PublisherConnection(address, intake) for address in self._addresses(wanted)]
        for connection in connections:
            self._waiter.keep_connected(connection)
        self._connections += connections
        return DirectSubscriber(connections, intake)

    def requests(self) -> Requests:
        """The node's request socket, bound."""
        return Requests(self.requests_for(self.node))

    def publisher_for(self, node: str, expected_subscriptions: int) -> Publisher:
        """A publisher bound in place of another node, which runs on another computer; `look` at it when its `fd` says.

        It is closed with the bus.
        """
        made = self._made if node == self.node else Publisher
        publisher = made(endpoint(self.folder, node, "pub"), expected_subscriptions)
        self._publishers.append(publisher)
        return publisher

    def requests_for(self, node: str) -> Reader:
        """A ROUTER socket bound where requests to a node come."""
        opened = self._open(zmq.ROUTER, LARGEST_REQUEST, QUEUE)
        path = bind(opened, endpoint(self.folder, node, "req"))
        self._bound += [path] if path else []
        return self._reader(opened)

    def requests_to(self, node: str) -> Reader:
        """A DEALER socket that sends requests to another node."""
        opened = self._open(zmq.DEALER)
        connect(opened, endpoint(self.folder, node, "req"))
        return self._reader(opened)

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        """Whether a subscriber, a request or one of `fds` is signalled before the monotonic deadline [ns].

        None waits for ever. Drain all subscribers and requests between two waits. `fds` are for such as
        `signal.set_wakeup_fd`: a signal whose handler returns does not end the sleep.
        """
        return self._waiter.wait(deadline_ns, fds)

    def close(self) -> None:
        """Close all sockets and end the context; what is not sent yet is dropped. A second call does nothing."""
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        for connection in self._connections:
            connection.close()
        for publisher in self._publishers:
            publisher.close()
        for opened in self._sockets:
            opened.close(linger=0 if opened.type == zmq.SUB else CLOSE_MS)  # for the reply to a stop
        if self._context is not None:
            self._context.term()
        for path in self._bound:
            path.unlink(missing_ok=True)

    def _addresses(self, wanted: Wanted) -> list[str]:
        return [endpoint(self.folder, node, "pub") for node in wanted]

    def _open(self, kind: int, *limits: int) -> Socket:
        if self._context is None:
            self._context = new_context()
        opened = open_socket(self._context, kind, None, *limits)
        self._sockets.append(opened)
        return opened

    def _reader(self, opened: Socket) -> Reader:
        reader = Reader(opened)
        self._waiter.add(reader)
        return reader

    def __enter__(self) -> "Bus":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
