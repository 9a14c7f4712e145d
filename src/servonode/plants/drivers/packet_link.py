"""The link to a microcontroller: messages as the packets of docs/reference/firmware.md, and back."""

import struct
from binascii import crc32
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from servonode.bus import Applied, Lifecycle, Link, Message, Setup, State, Status
from servonode.bus.codec import BOUND
from servonode.mechanics.description import MachineDescription, packed, unpacked
from servonode.plants.drivers import packets
from servonode.plants.drivers.applied_inputs import AppliedNearGoal, AppliedSafeAction
from servonode.plants.drivers.driver import DriverContext
from servonode.plants.drivers.link_watch import CLIPPED, LAW
from servonode.plants.drivers.safe_map import sent_safe_map
from servonode.plants.drivers.transport import Transport

NODE = "firmware"
RESOLUTION = 2.0**-22  # relative; readings of 32 bits that differ by less may be equal
RUNS = 4  # newest runs whose late packets are recognized
LONGEST_NS = 2**63 - 1


class PacketLink(Link):
    """A `Link` over packets: a transport, and what translates each kind of message.

    A packet's ids have 32 bits and stand for the longer ids of the messages.
    """

    def __init__(self, transport: Transport, context: DriverContext) -> None:
        machine = context.machine
        description = machine.description
        # of those whose readings the machine sends in place of its state, in its order; none: it sends its state
        self._sensors: Sequence[str] = context.estimate.sensors if context.estimate else ()
        self.counts: Counter[str] = transport.counts
        self.schema, self._other_schema = _schemas(description, bool(self._sensors))
        self.safe = sent_safe_map(machine, context.start, bool(self._sensors))
        self.brakes = not self._sensors and self.safe.any()  # by itself, as long as it is told to
        self._transport, self._clock, self._state_every = transport, context.clock, context.state_every
        # type checkers take no bound methods in the place of methods
        self.open, self.due, self.renew, self.close = transport.open, transport.due, transport.renew, transport.close  # type: ignore[method-assign]
        self._layout, self._inputs = description.layout, description.input_names
        self._n_states, self._law = machine.n_state, context.law
        self._runs: dict[int, int] = {}  # for the newest runs: the id in packets -> the id in messages
        self._run = 0  # id in messages of the run that was asked for last
        self._step = 0.0  # plant step of that run [s]
        self._problems_here: list[tuple[str, Message]] = []  # problems on this side, worded as statuses of the machine
        self._good = 0  # good packets received

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable when something may have come."""
        return self._transport.fds

    @property
    def lost(self) -> str:
        """Why nothing can come any more, with the remedy; empty: something can."""
        return self._transport.lost

    @property
    def hint(self) -> str:
        """A possible reason why the machine does not answer, for people; empty: not known."""
        return self._transport.lost or ("" if self._good else self._transport.hint)

    # to the machine

    def send(self, topic: str, message: Message) -> None:  # noqa: ARG002
        """Send a setup or applied inputs; a message that does not fit into a packet is a fault of this run."""
        try:
            self._transport.send(self.packet_of(message))
        except (struct.error, OverflowError) as error:
            self._report(f"what is to be sent does not fit into a packet ({error})")

    def packet_of(self, message: Message) -> bytes:
        """The packet of a setup or of applied inputs; struct.error or OverflowError where it does not fit into one."""
        assert isinstance(message, Setup | Applied)  # nothing else goes to a machine
        return self._setup(message) if isinstance(message, Setup) else self._applied(message)

    def _setup(self, message: Setup) -> bytes:
        self._run, self._step = message.run, message.step
        self._remember(message.run)
        limits = [message.limits.get(name, packets.LARGEST) for name in self._inputs]
        content = packets.SetupContent(
            self.schema, round(message.step * 1e9), _ns(message.period), _ns(message.timeout), message.speed,
            [_at_most(each) for each in limits], self.safe.tolist(), unpacked(self._layout, message.start),
            packets.OwnLaw(self._law.schema, [_at_most(each) for each in self._law.tolerance]) if self._law else None,
        )  # fmt: skip
        flags = (packets.LOCKSTEP if message.mode == "lockstep" else 0) | (packets.LAW if self._law else 0)
        return packets.encode(
            self._head(packets.SETUP, message, self._state_every or -1, flags), packets.setup_payload(content)
        )

    def _applied(self, message: Applied) -> bytes:
        values = [message.input[name] for name in self._inputs]
        goal = None
        if isinstance(message, AppliedNearGoal):
            at, step, *entries = message.goal
            goal = packets.Goal(int(at), int(step), entries)
        brake = isinstance(message, AppliedSafeAction)
        flags = (packets.FINAL if message.final else 0) | (packets.LAW if goal else 0) | (packets.BRAKE if brake else 0)
        head = self._head(packets.APPLIED, message, message.state_seq, flags)
        return packets.encode(head, packets.applied_payload(message.until, values, goal))

    def _head(self, kind: int, message: Message, reply: int, flags: int) -> packets.Head:
        run, source = self._short_run(message.run), _short(message.src)
        return packets.Head(kind, run, source, message.seq, packets.NONE if reply < 0 else reply, message.k, flags)

    def _short_run(self, run: int) -> int:
        """The id of a run in packets, which no other of the newest runs has."""
        short = _short(run)
        while self._runs.get(short, run) != run:
            short = short % packets.NONE + 1
        return short

    def _remember(self, run: int) -> None:
        """Remember the id in packets of a run that a setup asks for, as long as it is one of the newest."""
        short = self._short_run(run)
        self._runs.pop(short, None)
        self._runs[short] = run
        if len(self._runs) > RUNS:
            del self._runs[next(iter(self._runs))]

    # from the machine

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        """The messages that have come, oldest first, at most `bound`."""
        taken = []
        for data in self._transport.receive(bound):
            try:
                message = self._message(*packets.decode(data))
            except packets.PacketError as error:
                self.counts[error.reason] += 1
                if error.reason == "version":
                    text = f"it speaks packets of version {error.version}, and servonode of version {packets.VERSION}"
                    self._report(f"{text}; flash firmware of this version of servonode, or install the other one")
                continue
            if message is not None:
                taken.append(message)
        taken += self._problems_here
        self._problems_here.clear()
        return taken

    def _message(self, head: packets.Head, payload: bytes) -> tuple[str, Message] | None:
        """The message of a packet; raises PacketError."""
        measured: dict[str, Any]
        if head.type == packets.STATE and not self._sensors:
            state = packets.read_state(payload, self._n_states, len(self._inputs))
            refused, inputs, measured = state.refused, state.inputs, {"state": packed(self._layout, list(state.states))}
        elif head.type == packets.READINGS and self._sensors:
            said = packets.read_readings(payload, head.step, len(self._inputs), len(self._sensors))
            refused, inputs, measured = said.refused, said.inputs, self._readings(head.step, said.readings)
        elif head.type == packets.FAULT:
            code, detail = packets.read_fault(payload)
        else:
            raise packets.PacketError("type")
        self._good += 1
        run = self._runs.get(head.run)
        if run is None:
            self.counts["run"] += 1
            return None
        header: dict[str, Any] = {
            "t": head.step * self._step, "seq": head.seq, "run": run, "k": head.step, "mono": self._clock(),
            "node": NODE, "src": head.source,
        }  # fmt: skip
        if head.type == packets.FAULT:
            text = self._fault_text(code, detail)
            return "status", Status(**header, lifecycle=Lifecycle.FAULT, fault=text, counts={}, values={})
        extra = {"machine_refused": float(refused), "machine_safe": float(head.flags & packets.SAFE)}
        if self._law:
            extra[LAW] = float(head.flags & packets.LAW > 0)
            extra[CLIPPED] = float(head.flags & packets.CLIPPED > 0)
        return "state", State(
            **header, **measured, input=dict(zip(self._inputs, inputs, strict=True)), control=False,
            applied_seq=-1 if head.reply == packets.NONE else head.reply, extra=extra,
        )  # fmt: skip

    def _readings(self, step: int, readings: Iterable[packets.SensorReading]) -> dict[str, Any]:
        """The fields of a state message for these readings, in a packet of this step; it has no state."""
        found: dict[str, list[float]] = {}
        for each in readings:
            found.setdefault(self._sensors[each.sensor], []).extend((float(step - each.ago), each.value))
        return {"state": {}, "readings": found}

    def _fault_text(self, code: int, detail: int) -> str:
        if code == packets.OTHER_SCHEMA and detail == self._other_schema:
            sends, remedy = ("its state", "leave plant.device.sends out") if self._sensors else (
                "readings of its sensors alone", 'give plant.device.sends = "readings" and an [estimator]'
            )  # fmt: skip
            return f"its firmware sends {sends}; {remedy}, or flash the other one"
        return packets.fault_text(code, detail, self.schema, self._law.schema if self._law else 0)

    def _report(self, text: str) -> None:
        """Report a problem of the present run as a fault of the machine."""
        if self._run and not self._problems_here:
            self._problems_here.append(("status", Status(
                t=0.0, seq=0, run=self._run, k=0, mono=self._clock(), node=NODE, src=1, lifecycle=Lifecycle.FAULT,
                fault=text, counts={}, values={},
            )))  # fmt: skip


def _schemas(description: MachineDescription, readings: bool) -> tuple[int, int]:
    """The schema of a machine that sends its state (`readings`: only readings); then that of the other kind."""
    names = description.name, description.state_names, description.input_names
    found = packets.schema_of(*names), packets.readings_schema_of(*names, (each.name for each in description.sensors))
    return found[::-1] if readings else found


def _short(number: int) -> int:
    """32 bits that stand for a long id; never all 0 or all 1."""
    return crc32(number.to_bytes(8, "little")) % (packets.NONE - 1) + 1


def _ns(seconds: float) -> int:
    """Seconds in whole nanoseconds, clipped to 64 bits."""
    return max(min(round(seconds * 1e9), LONGEST_NS), -LONGEST_NS)


def _at_most(limit: float) -> float:
    """The largest 32-bit number that is not above a limit."""
    if limit >= packets.LARGEST:
        return packets.LARGEST
    if np.float32(limit) <= limit:
        return limit
    return float(np.nextafter(np.float32(limit), np.float32(0)))
