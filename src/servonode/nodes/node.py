"""The common parts of all nodes: an identity, an outbox that stamps messages, an inbox, a status, a summary."""

import math
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from servonode.bus import (
    LARGEST,
    TOPICS,
    AnyBus,
    AnyPublisher,
    Lifecycle,
    Message,
    Parameters,
    Status,
    Wanted,
    subscriptions_expected,
)
from servonode.bus.durations import Clock
from servonode.bus.messages import EXACT, MOST_NUMBERS
from servonode.bus.topology import CONTROLLER, GET, NODES, PLANT, SET
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.parameters import parameters_of
from servonode.nodes.fault_ladder import Fault

STATUS_PERIOD_NS = 200_000_000
_TOPIC_OF = {kind: word for word, kind in TOPICS.items()}
NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})
TOO_LATE = "numbers of this run were changed meanwhile; ask again"


class Change(NamedTuple):
    """A request: new values by dotted key, and the numbers with which the node is to compute from then on."""

    values: dict[str, float]
    numbers: list[float]


class ChangedParameters:
    """What was changed since the start of a node. revision: how many requests have changed something."""

    def __init__(self, closed_loop: ClosedLoop, node: str) -> None:
        self.values: dict[str, float] = {}
        self.revision = 0
        self._node = node
        self._known = {each.key: each for each in parameters_of(closed_loop).values() if each.node == node}

    def as_dict(self) -> dict[str, Any]:
        return {"revision": self.revision, "values": dict(self.values)}

    def read(self, arguments: Mapping[str, Any]) -> Change | str:
        """The change that a request asks for; a text says why it is refused."""
        values, numbers, revision = (arguments.get(name) for name in ("values", "numbers", "revision"))
        follows = self._node == CONTROLLER  # whose numbers may follow from values of the plant
        if not (
            isinstance(values, dict)
            and (values or follows)
            and isinstance(numbers, list)
            and len(numbers) <= MOST_NUMBERS
        ):
            return f"give values by key, and at most {MOST_NUMBERS} numbers"
        for key, value in values.items():
            known = self._known.get(key)
            if known is None:
                return f"{str(key)[:80]!r} cannot be changed here; see servonode param list"
            if not _is_number(value):
                return f"{key}: a value is no number; give a finite one"
            if complaint := known.complaint(value):
                return f"{key}: {complaint}"
        if not all((each is None and self._node == PLANT) or _is_number(each) for each in numbers):
            return "numbers holds something else than finite numbers, or null for no limit of the plant"
        if revision != self.revision:
            return TOO_LATE
        return Change(
            {key: float(value) for key, value in values.items()},
            infinite([math.inf if each is None else float(each) for each in numbers]),
        )

    def note(self, values: Mapping[str, float]) -> None:
        """Note a change that acts."""
        self.values |= values
        self.revision += 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def infinite(numbers: Iterable[float]) -> list[float]:
    """The numbers of a message, of which the largest, which it can hold, stand for infinite ones."""
    return [math.copysign(math.inf, each) if abs(each) == LARGEST else each for each in numbers]


def start_id() -> int:
    """A new random id of this start, small enough to be exact as a float."""
    return secrets.randbelow(EXACT - 1) + 1


class Outbox:
    """Publishes the messages of one node with the common header: number per topic, clocks, ids."""

    def __init__(self, node: str, publisher: AnyPublisher, clock: Clock = time.monotonic_ns) -> None:
        self.node = node
        self.src = start_id()
        self.run = self.src  # the plant's own id; other nodes repeat the plant's id
        self.clock = clock
        self._publisher = publisher
        self._seq = dict.fromkeys(NODES[node].publishes, -1)

    def ready(self) -> bool:
        """Whether all expected subscriptions are held, so that the next message reaches everybody."""
        return self._publisher.ready()

    def readers(self) -> int:
        """The number of subscriptions made since the start; it grows when a reader connects."""
        self._publisher.subscriptions_seen()
        return self._publisher.subscription_count

    def has_subscriber(self, topic: str) -> bool:
        """Whether the topic has a subscriber, also one that subscribed to a prefix of its name."""
        return self._publisher.has_subscriber(topic)

    def send(self, kind: type[Message], k: int, t: float, **values: Any) -> Message:
        """Publish one message."""
        topic = _TOPIC_OF[kind]
        message = self._stamped(topic, kind, k, t, values)
        self._publisher.publish(topic, message)
        return message

    def resend(self, message: Message) -> None:
        """Publish an earlier message once more, under its number."""
        self._publisher.publish(_TOPIC_OF[type(message)], replace(message, run=self.run, mono=self.clock()))

    def send_all(self, kind: type[Message], several: Iterable[tuple[int, float, dict[str, Any]]]) -> None:
        """Publish messages at once, each given as (k, t, values)."""
        topic = _TOPIC_OF[kind]
        self._publisher.publish_all(topic, [self._stamped(topic, kind, k, t, values) for k, t, values in several])

    def _stamped(self, topic: str, kind: type[Message], k: int, t: float, values: dict[str, Any]) -> Message:
        seq = self._seq[topic] = self._seq[topic] + 1
        return kind(t=t, seq=seq, run=self.run, k=k, mono=self.clock(), node=self.node, src=self.src, **values)


class Node:
    """The base of all nodes: inbox, outbox, counters, faults, answers to the operator, a summary of the run.

    stop: whether the node is to end. Subclasses define `describe`, the state of the node.
    """

    def __init__(
        self, name: str, bus: AnyBus, listeners: Sequence[Wanted], clock: Clock, subscribes: Wanted | None = None
    ) -> None:
        """subscribes: the node's subscriptions; None: those of the table of nodes."""
        self.name, self.bus, self.clock = name, bus, clock
        self.inbox = bus.subscriber(NODES[name].subscribes if subscribes is None else subscribes)
        self.outbox = Outbox(name, bus.publisher(subscriptions_expected(name, listeners)), clock)
        self.counts: Counter[str] = Counter()
        self.faults: list[Fault] = []  # of the whole run
        self.stop = False
        self.parameters: ChangedParameters | None = None  # None: nobody can change any, as within one process
        self.changed: Message | None = None  # what was published of the newest change
        self._told = 0  # subscriptions made up to the last status

    def ready(self) -> bool:
        """Whether all expected subscriptions are held, so that the node may start."""
        return self.outbox.ready()

    def halt(self) -> None:
        """Have the node end in good order."""
        self.stop = True

    def describe(self) -> dict[str, Any]:
        """The state of the node, in words and numbers."""
        raise NotImplementedError

    def handle_request(self, verb: str, arguments: Mapping[str, Any] = NO_ARGUMENTS) -> dict[str, Any]:
        """The answer to an operator's request: the status, changed numbers, or a refusal of what it cannot do.

        arguments: the other entries of the request, whose types nobody has checked.
        """
        if verb not in NODES[self.name].verbs:
            return {"refused": f"the {self.name} does not handle {verb}; send it to the {PLANT}"}
        if verb in (GET, SET) and self.parameters is not None:
            return {"done": True, **self.parameters.as_dict()} if verb == GET else self._set(self.parameters, arguments)
        return self.describe()

    def use(self, numbers: list[float]) -> tuple[int, float]:
        """Compute with other numbers from a step on, which is returned with its time [s]; none of them acts before.

        Raises:
            ValueError: the numbers do not fit, or may not act.
        """
        raise NotImplementedError

    def _set(self, parameters: ChangedParameters, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Change numbers, all of a request or none, and publish what acts."""
        change = parameters.read(arguments)
        if isinstance(change, str):
            return {"refused": change}
        try:
            k, t = self.use(change.numbers)
        except ValueError as error:
            return {"refused": str(error)}
        parameters.note(change.values)
        numbers = [max(-LARGEST, min(each, LARGEST)) for each in change.numbers]
        self.changed = self.outbox.send(Parameters, k, t, values=dict(parameters.values), numbers=numbers)
        return {"done": True, "k": k, "t": t, **parameters.as_dict()}

    def keep(self, changed: Parameters) -> None:
        """Compute with the numbers that were changed before this node was restarted."""
        if self.parameters is None or changed.numbers is UNSET:
            return
        self.use(infinite(changed.numbers))
        self.parameters.note(changed.values)
        self.changed = self.outbox.send(
            Parameters, changed.k, changed.t, values=changed.values, numbers=changed.numbers
        )

    def tell_new_readers(self) -> None:
        """Publish again what was changed, for those who have subscribed since the last call."""
        before, self._told = self._told, self.outbox.readers()
        if self.changed is not None and self._told > before:
            self.outbox.resend(self.changed)

    def all_counts(self) -> dict[str, int]:
        """The node's counters, and by reason the messages that the inbox refused."""
        return dict(self.counts) | {f"refused_{name}": n for name, n in self.inbox.counts.items()}

    def summary(self) -> dict[str, Any]:
        """The node's result for the launcher at the end of the run."""
        changed = self.parameters.values if self.parameters is not None else {}
        return {
            "faults": [fault.as_dict() for fault in self.faults],
            "counts": self.all_counts(),
            "changed": dict(changed),
        }


class EventNode(Node):
    """A node driven by messages: controller and target. `work` handles what has arrived and returns."""

    def __init__(
        self, name: str, bus: AnyBus, listeners: Sequence[Wanted], clock: Clock, subscribes: Wanted | None = None
    ) -> None:
        super().__init__(name, bus, listeners, clock, subscribes)
        self.failed: Fault | None = None  # the fault in which the node is; None: no fault
        self.active = False  # whether the plant publishes states
        self.t = 0.0  # plant time that the node has reached [s]
        self._status_due = 0

    @property
    def fds(self) -> Sequence[int]:
        """Descriptors on which to sleep too."""
        return ()

    def finish(self) -> None:
        """Called once no work is left."""

    def work(self) -> float:
        """Handle what has arrived; returns how long to sleep [s] unless more comes."""
        raise NotImplementedError

    def fail(self, name: str, text: str, t: float) -> None:
        """Enter the fault state and stay in it."""
        self.failed = Fault(name, text, t, self.name)
        self.faults.append(self.failed)

    @property
    def lifecycle(self) -> Lifecycle:
        if self.failed:
            return Lifecycle.FAULT
        return Lifecycle.ACTIVE if self.active else Lifecycle.INACTIVE

    def values(self) -> dict[str, float]:
        """The measured times, by flat names."""
        return {}

    def describe(self) -> dict[str, Any]:
        fault, text = (self.failed.name, self.failed.text) if self.failed else ("", "")
        status = {"node": self.name, "lifecycle": self.lifecycle, "fault": fault, "text": text, "t": self.t}
        return status | {"counts": dict(self.counts), "values": self.values()}

    def status_is_due(self) -> bool:
        """Whether a status is to be published now; the next one is due a period later."""
        now = self.clock()
        if now < self._status_due:
            return False
        self._status_due = now + STATUS_PERIOD_NS
        return True

    def publish_status(self, k: int, t: float, **more: float) -> None:
        """Publish lifecycle, fault, counters, and the values with `more`; for new readers also what was changed."""
        self.tell_new_readers()
        self.outbox.send(
            Status, k, t, lifecycle=self.lifecycle, fault=self.failed.name if self.failed else "",
            counts=dict(self.counts), values=self.values() | more,
        )  # fmt: skip
