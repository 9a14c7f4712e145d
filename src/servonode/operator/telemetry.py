"""The telemetry: a helper process that republishes the messages of all nodes at one address, for any viewer.

`python -m servonode.operator.telemetry RUN FOLDER PID SOCKET` serves at a listening socket that it inherits. Each
message is published as two frames: NODE/TOPIC, and the payload unchanged. It polls the nodes a few tens of times a
second, with idle processor time, and only the topics that its own subscribers want.
"""

import contextlib
import os
import select
import socket
import sys
import time
from collections import Counter

import zmq

from servonode.bus import BusError, Wanted
from servonode.bus.topology import NODES
from servonode.bus.zmq_io import Context, new_context, open_socket
from servonode.bus.zmq_publisher import LARGEST, ConnectionLimit, ZmqPublisher
from servonode.nodes.node_process import call_process
from servonode.operator.find_runs import Found
from servonode.operator.listener import START_S, Raw, RawInbox, RawListener, give_way

NAME = "telemetry"
WORDS = tuple(f"{node}/{topic}" for node, entry in NODES.items() for topic in entry.publishes)
POLLS = 50  # polls a second while there are subscribers
IDLE_S = 0.05  # between two looks at the subscriptions without subscribers
# how long a topic is read after its last subscriber has left, so that brief changes do not reach the nodes
KEPT_S = 1.0


class Followed(RawListener):
    """A listener to the run that one launcher has started in a folder, never to another run there."""

    def __init__(self, folder: str, launcher: int) -> None:
        super().__init__(folder, lambda _: {})
        self._launcher = launcher
        self.inbox = RawInbox({}, 0.0)

    def found(self) -> Found:
        found = super().found()
        if found.described().get("pid") != self._launcher:
            raise BusError(f"{found.path} belongs to another run now")
        return found

    def _connected(self, found: Found, wanted: Wanted) -> RawInbox:  # noqa: ARG002  (what is wanted changes)
        self.inbox.join(found)
        return self.inbox

    def hurry(self, pause_s: float = 0.0) -> None:
        """Look for the run after this many seconds at the latest."""
        self._look_due = min(self._look_due, time.monotonic() + pause_s)


class Telemetry:
    """Passes the messages of a run on to its subscribers. lifeline: a descriptor, readable when the launcher ends."""

    def __init__(self, publisher: ZmqPublisher, run: Followed, lifeline: int) -> None:
        self._publisher, self._run, self._lifeline = publisher, run, [lifeline]
        self._wanted: dict[str, float] = {}  # the topics that are read, each with the time until which it is

    def serve(self) -> None:
        """Serve until the run has ended."""
        run = self._run
        while self._goes_on():
            now = time.monotonic()
            self._want(now, anew=run.look(now))
            self._pass_on(run.inbox.receive())
            if not run.registry or run.inbox.missing():
                run.hurry(START_S)
            pause = 1 / POLLS if self._wanted else IDLE_S
            select.select(self._lifeline, (), (), pause)
        self._pass_on(run.inbox.receive())
        run.inbox.close()
        self._publisher.close()

    def _goes_on(self) -> bool:
        """Whether to continue: the launcher has not ended the run, or has died and the run lives without it."""
        if self._lifeline:
            with contextlib.suppress(BlockingIOError):
                if os.read(self._lifeline[0], 1):
                    return False
                self._lifeline.clear()
                self._run.hurry()
                self._run.look(time.monotonic())
        return bool(self._lifeline) or self._run.alive

    def _want(self, now: float, anew: bool) -> None:
        """Subscribe to the topics that have subscribers, or had a moment ago. anew: the run has just been found."""
        self._publisher.look()
        wanted = self._wanted | {word: now + KEPT_S for word in WORDS if self._publisher.has_subscriber(word)}
        wanted = {word: until for word, until in wanted.items() if until > now}
        if anew or wanted.keys() != self._wanted.keys():
            nodes: dict[str, list[str]] = {node: [] for node in self._run.registry.get("nodes", ())}
            for node, _, topic in (word.partition("/") for word in wanted):
                nodes.get(node, []).append(topic)
            self._run.inbox.want(nodes)
            self._run.hurry()
        self._wanted = wanted

    def _pass_on(self, came: list[Raw]) -> None:
        for each in came:
            self._publisher.publish(f"{each.node}/{each.topic}".encode(), each.payload)


def serving(context: Context, listening: int) -> ZmqPublisher:
    """A publisher at an inherited descriptor that listens on tcp, to a bounded number of viewers."""
    opened = open_socket(context, zmq.XPUB, None, LARGEST)
    return ZmqPublisher(opened, WORDS, ConnectionLimit(opened, socket.socket(fileno=listening), Counter()))


def main() -> None:
    run, folder, launcher, listening = sys.argv[1:]
    give_way()
    call_process(NAME, run)
    os.set_blocking(0, False)
    context: Context = new_context()
    Telemetry(serving(context, int(listening)), Followed(folder, int(launcher)), 0).serve()
    context.term()


if __name__ == "__main__":
    main()
