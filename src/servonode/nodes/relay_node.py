"""The relay of a run on two computers: stands for the nodes that run on the other one, over one connection.

Nodes, operators and viewers connect to it in the run's folder as to those nodes. It carries messages and requests, and
makes no decision about the machine: where the network is gone, the plant misses commands, and acts by itself.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from servonode.bus import Bus, Message, Status, Wanted
from servonode.bus.curve import Authenticator
from servonode.bus.envelope import (
    Busy,
    Clock,
    Echo,
    End,
    Ended,
    Envelope,
    Hello,
    Refused,
    Reply,
    Request,
    Stranger,
    Topic,
    Want,
)
from servonode.bus.keys import OBSERVE, OPERATE, ROLE_OF, ROLES, KeyStore, TrustedKey
from servonode.bus.messages import MAX_TEXT, Lifecycle
from servonode.bus.topology import PLANT, RELAY
from servonode.bus.tunnel import ClockOffset, Peer, Tunnel
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.hosts import bind_address
from servonode.nodes.meeting import Meeting, manifest
from servonode.nodes.node import NO_ARGUMENTS, EventNode
from servonode.nodes.relayed import RelayedRequests, RelayedTopics, decode_summaries, encode_summaries
from servonode.record.shared_memory import NodeMemory

CLOCK_NS = 100_000_000  # between two exchanges of time stamps
WANT_NS = 1_000_000_000  # between two lists of wanted topics, if they are the same
LAST_NS = 4_000_000_000  # for which the end of the nodes here is waited for
SAID_NS, AGAIN_NS = 2_000_000_000, 50_000_000  # for which the end is said, and how often
LOOK_NS = 10_000_000  # between two looks whether they have ended


def tunnel_of(closed_loop: ClosedLoop) -> Tunnel:
    """The connection to the other computer. Raises BusError, KeyFileError where it cannot be made."""
    computer = closed_loop.computer
    assert computer is not None
    address = bind_address(computer.address) if computer.listens else computer.address
    if closed_loop.insecure:
        return Tunnel(address, computer.listens)
    keys = Authenticator(KeyStore(), closed_loop.own_key)
    if computer.listens:
        return Tunnel(address, True, keys, keys.server(*ROLES))
    return Tunnel(address, False, keys, keys.client(computer.key, *computer.others_roles), computer.key)


class RelayNode(EventNode):
    """Carries what the two computers' nodes say to each other. memories: of all nodes, with what they leave at the end.

    Its status has the offset of the other computer's clock, the delay of the link, and what was refused. It has more
    attributes than a dozen, because it joins the parts that each do one thing.
    """

    def __init__(
        self,
        closed_loop: ClosedLoop,
        bus: Bus,
        listeners: Sequence[Wanted],
        tunnel: Tunnel,
        memories: Mapping[str, NodeMemory],
        start: int,
    ) -> None:
        """start: the same for all relays of this computer's part of the run, also for one that replaces another."""
        super().__init__(RELAY, bus, listeners, time.monotonic_ns)
        computer = closed_loop.computer
        assert computer is not None
        self._tunnel, self._memories = tunnel, memories
        self._here, self._there = computer.nodes, computer.others
        self._topics = RelayedTopics(bus, self._here, self._there, listeners, self._send)
        self._requests = RelayedRequests(bus, self._here, self._there, self._send)
        self.meeting = Meeting(self._here, self._there, manifest(closed_loop), start, computer.listens, _say)
        self._clock = ClockOffset()
        self._insecure, self._listens = closed_loop.insecure, computer.listens
        self._clock_ns = self._want_ns = 0  # when the next is due
        self._wanted: Want | None = None  # as it was told last
        self._others_ready = False  # whether all is connected on the other computer
        self._k = 0
        self._was_connected = self._was_key_refused = False
        self._is_over = self._told = False  # whether the run is over here, and whether the other computer knows that

    # for the launcher

    @property
    def is_refused(self) -> bool:
        """Whether this computer cannot take part; the one that listens waits for another attempt instead."""
        return bool(self.meeting.refused) and not self._listens

    def ready(self) -> bool:
        """Whether both computers have met, and all their nodes are connected."""
        return self.meeting.met and self._others_ready and self._topics.ready() and self.outbox.ready()

    def describe(self) -> dict[str, Any]:
        more = {"met": self.meeting.met, "link": self._text()[:MAX_TEXT], "counts": self._counted()}
        found = super().describe()
        return found | more | {"text": found["text"][:MAX_TEXT]}

    @property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle.FINISHED if self._is_over and not self.failed else super().lifecycle

    def _text(self) -> str:
        """What people want to know of the other computer."""
        if not self.active:
            return self.meeting.refused or self._key_refused() or self._silent()
        clock = self._clock.values()
        if not clock:
            return ""
        return (
            f"there and back {clock['delay_s'] * 1e3:.2f} ms, at most {clock['delay_max_s'] * 1e3:.2f} ms; the other's "
            f"clock is {clock['offset_s']:+.6f} s from ours, within {clock['offset_error_s'] * 1e3:.2f} ms"
        )

    def _silent(self) -> str:
        unread = self._tunnel.counts["refused_frames"] and not self.meeting.met
        why = "; what comes from there cannot be read: install the same version on both computers" if unread else ""
        return f"the other computer does not answer{why}"

    def _key_refused(self) -> str:
        """Why the other computer does not let us connect, with the remedy; empty: nothing of that is known."""
        if not self._tunnel.key_refused:
            return ""
        name, needed = self._tunnel.own_key, sorted({ROLE_OF[node] for node in self._here} or {OBSERVE})
        roles = " --role ".join((*needed, OPERATE))
        return (
            f"the other computer does not trust our key {name!r}; there: servonode keys trust {name}.key --role {roles}"
        )

    def handle_request(self, verb: str, arguments: Mapping[str, Any] = NO_ARGUMENTS) -> dict[str, Any]:
        """The status; an emergency stop, by a signal that was meant for the plant, goes to the plant."""
        if verb == "estop" and PLANT in self._there:
            self._requests.order(PLANT, verb)
            return {"done": True}
        return super().handle_request(verb, arguments)

    # one turn

    @property
    def fds(self) -> list[int]:
        return [*self._tunnel.fds, *self._topics.fds]

    def work(self) -> float:
        """Carry what has come; returns how long to sleep [s] unless more comes."""
        now = time.monotonic_ns()
        wake_ns = self._tunnel.look(now)
        self._tunnel.receive(self._take)
        self._topics.look()
        connected = self.meeting.connected(now)
        self._note(connected)
        if not self.stop:
            self.meeting.greet(now, self._tunnel.send)
        if self.is_refused and not self.failed:
            self.fail("refused", self.meeting.refused, self.t)
            self.stop = True
        self._take_time(self._topics.carry(connected))
        self._requests.carry(now, connected)
        if connected:
            self._exchange(now)
        self.active = connected
        if self.status_is_due():
            self._publish_status()
        if self._tunnel.waits():
            return 0.0
        return min(max(wake_ns - now, 0), CLOCK_NS) / 1e9 if wake_ns else CLOCK_NS / 2e9

    def all_counts(self) -> dict[str, int]:
        found = Counter(super().all_counts())
        for part in (self._tunnel.counts, self.meeting.counts, self._topics.counts, self._requests.counts):
            found.update(part)
        return dict(found)

    def _counted(self) -> dict[str, int]:
        return {name: number for name, number in self.all_counts().items() if number}

    def values(self) -> dict[str, float]:
        """The clock and the delay of the other computer, and for how long it has been silent [s]."""
        silent = (time.monotonic_ns() - self.meeting.received_ns) / 1e9 if self.meeting.met else 0.0
        found = self._clock.values() | {"connected": float(self.active), "silent_s": silent}
        return found | ({"insecure": 1.0} if self._insecure else {})

    # what comes, and goes

    def _take(self, peer: Peer, key: TrustedKey | None, said: Envelope) -> None:
        """Act on what the other computer has said."""
        now = time.monotonic_ns()
        match said:
            case Hello() | Refused() | Busy():
                if self.meeting.take(peer, key, said, now, self._tunnel.send):
                    self._begin()
            case Stranger():
                self.meeting.hurry()
            case _ if not self.meeting.note(peer, now):
                self.counts["refused_unmet"] += 1
                self._tunnel.send(peer, Stranger())
            case Topic():
                message = self._topics.publish(said, key)
                self._take_time(message if said.node == PLANT else None)
            case Request():
                self._requests.ask(said, key)
            case Reply():
                if problem := self._requests.answered(said):
                    _say(problem)
            case Want():
                self._others_ready = said.ready
                self._topics.want(said.topics)
            case Clock():
                self._send(Echo(said.sent, now, time.monotonic_ns()))
            case Echo():
                self._clock.add(said.sent, said.came, said.answered, now)
            case End():
                self._send(Ended())
                self._others_end(said.summaries, key)
            case Ended():
                self._told = True

    def _take_time(self, message: Message | None) -> None:
        """Take the time of a message of the plant."""
        if message is not None:
            self._k, self.t, self.outbox.run = message.k, message.t, message.run

    def _send(self, envelope: Envelope) -> None:
        if self.meeting.peer is not None:
            self._tunnel.send(self.meeting.peer, envelope)

    def _exchange(self, now: int) -> None:
        """Send a time stamp, and what is wanted here, where they are due."""
        if now >= self._clock_ns:
            self._clock_ns = now + CLOCK_NS
            self._send(Clock(time.monotonic_ns()))
        wanted = Want(self._topics.ready(), self._topics.wanted_here())
        if wanted != self._wanted or now >= self._want_ns:
            self._wanted, self._want_ns = wanted, now + WANT_NS
            self._send(wanted)

    def _publish_status(self) -> None:
        self.outbox.send(
            Status, self._k, self.t, lifecycle=self.lifecycle, counts=self._counted(), values=self.values()
        )

    # begin and end

    def _begin(self) -> None:
        """The other computer was met, or has started anew."""
        self._clock.forget()
        self._want_ns = self._clock_ns = 0
        self._others_ready = False
        self._topics.want(())

    def _note(self, connected: bool) -> None:
        """Say when the connection begins or is lost, and once when the other computer begins to refuse our key."""
        if connected and not self._was_connected:
            _say("the other computer is connected")
        elif self._was_connected and not (connected or self.meeting.ended):
            self.counts["link_lost"] += 1
            _say("nothing has come from the other computer for 1.5 s; the plant goes on by itself")
        self._was_connected = connected
        if self._tunnel.key_refused and not self._was_key_refused:
            _say(self._key_refused())
        self._was_key_refused = self._tunnel.key_refused

    def _others_end(self, summaries: bytes, key: TrustedKey | None) -> None:
        """The run of the other computer has ended: keep what its nodes left; without the plant the run is over here."""
        if self.meeting.ended:  # it was said before
            return
        if key is not None and not {ROLE_OF[node] for node in self._there} <= set(key.roles):
            self.counts[f"role_of_key_{key.name}"] += 1
            return
        self.meeting.ended = True
        try:
            for node, summary in decode_summaries(summaries).items():
                if node in self._there:
                    self._memories[node].write_summary(summary)
        except ValueError:
            self.counts["refused_end"] += 1
        if PLANT in self._there:
            self.stop = True
        elif not self._is_over:
            _say("the other computer has ended its part; the plant goes on by itself")

    def finish(self) -> None:
        """Carry on until the nodes here have left their summaries, then send these until they have arrived.

        Where the plant ran here, the other computer ends by this, and what its nodes left is waited for.
        """
        self._is_over, self._told = True, False
        self._publish_status()  # so that the launcher ends the nodes here

        def left() -> dict[str, dict[str, Any]]:
            return {node: self._memories[node].summary for node in self._here}

        self._carry(0 if self.is_refused else LAST_NS, LOOK_NS, lambda: all(left().values()))
        self.work()
        end = End(encode_summaries(left()))

        def said() -> bool:
            if self.meeting.peer is None or (self._told and (self.meeting.ended or PLANT in self._there)):
                return True
            if not self._told:
                self._send(end)  # again, for a slow network may have dropped it
            return False

        self._carry(SAID_NS, AGAIN_NS, said)
        self._tunnel.close()

    def _carry(self, for_ns: int, pause_ns: int, until: Callable[[], bool]) -> None:
        """Carry on for this time at most, and ask at least every `pause_ns` whether it is enough."""
        limit = time.monotonic_ns() + for_ns
        while time.monotonic_ns() < limit and not until():
            self.bus.wait(time.monotonic_ns() + pause_ns, self.fds)
            self.work()


def _say(text: str) -> None:
    """Print a line as this node."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201
