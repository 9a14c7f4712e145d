"""Firmware, a host and the wire between them in a time of their own: what is late is late by exactly so much."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from servonode.bus import Link
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drivers import packets
from servonode.plants.drivers.packets import (
    APPLIED,
    BRAKE,
    FAULT,
    FINAL,
    LOCKSTEP,
    NONE,
    READINGS,
    SAFE,
    SETUP,
    STATE,
    Head,
)
from servonode.wings.acceptance.hil_accept import accept_over
from servonode.wings.acceptance.protocol_check import Plan, Report
from tests.helpers import machine_packets

MS = 1_000_000  # ns
WIRE_NS = MS // 5  # from one side to the other
STATE_STEPS = 5  # from one state to the next
LONGEST_NS = 500 * MS  # its own timeout, whatever a host asks for


class Time:
    """What time it is [ns]. stalls: when this computer has something else to do, and for how long."""

    def __init__(self, stalls: Callable[[int], int] = lambda now: 0) -> None:  # noqa: ARG005
        self.now, self._stall = 10**9, stalls

    def clock(self) -> int:
        return self.now

    def pass_to(self, until: int) -> None:
        """The host sleeps until then, and perhaps longer."""
        before, self.now = self.now, max(self.now, until)
        if self.now > before:
            self.now += self._stall(self.now)


class Board:
    """A transport to firmware of the robot with the trailer, which rolls as the model says; or to a machine at rest.

    at_rest: the state of a machine that stays there, whatever a host says. brakes, flags: whether its safe action acts
    after the timeout, and its states say so. brakes_on: whether it acts on in a new run until an input comes. sensors:
    how many it has whose readings it sends in place of its state.
    timeout: how it changes the one that it is asked for [ns]. keeps_host: whether a second host is refused.
    clamps_below: whether limits are kept from below too. lost_s: for how long
    after the end of a run nothing reaches it or comes from it [s]. ends_twice: whether a second `final` is no surprise.
    """

    lost = hint = ""
    came = 1
    fds: tuple[int, ...] = ()

    def __init__(
        self, time: Time, parameters: dict[str, float], timeout: Callable[[int], float] = lambda asked: asked,
        keeps_host: bool = True, clamps_below: bool = True, lost_s: float = 0.0,
        ends_twice: bool = False, at_rest: list[float] | None = None,
        brakes: bool = True, flags: bool = True, brakes_on: bool = True, sensors: int = 0,
    ) -> None:  # fmt: skip
        self.counts = Counter[str]()
        self.place = "paper"
        self._time, self._p, self._timeout, self._keeps = time, parameters, timeout, keeps_host
        self._clamps_below, self._lost_ns, self._back = clamps_below, lost_s * 1e9, -math.inf
        self._ends_twice, self._at_rest = ends_twice, at_rest
        self._brakes, self._flags, self._brakes_on, self._sensors = brakes, flags, brakes_on, sensors
        self._to_board: list[tuple[int, bytes]] = []
        self.to_host: list[tuple[int, bytes]] = []
        self._setup: Any = None
        self._run = self._host = self._seq = self._refused = self._schema = 0
        self._setup_seq, self._driven_limits = -1, ()
        self._sent: dict[int, float] = {}  # when each packet was sent
        self._taken, self._k, self._first, self._begun, self._fresh = NONE, 0, 0, 0, 0
        self._running = self._safe = self._driven = False
        self._u: tuple[float, ...] = ()
        self._x = at_rest or [0.0] * 8
        self.strongest = 0.0  # the largest input that ever acted

    # the transport

    def open(self) -> None: ...
    def close(self) -> None: ...
    def renew(self) -> None: ...
    def due(self) -> None: ...

    def send(self, packet: bytes) -> None:
        self._to_board.append((self._time.now + WIRE_NS, packet))

    def receive(self, bound: int) -> list[bytes]:
        self.advance()
        came = [data for at, data in self.to_host if at <= self._time.now][:bound]
        del self.to_host[: len(came)]
        return came

    # the firmware

    def advance(self) -> None:
        """All that happens up to now: steps and packets, in order."""
        now = self._time.now
        while True:
            step = self._begun + (self._k + 1 - self._first) * MS if self._running else math.inf
            packet = self._to_board[0][0] if self._to_board else math.inf
            if min(step, packet) > now:
                return
            if packet <= step:
                at, data = self._to_board.pop(0)
                self._refused += at >= self._back and not self._take(at, data)
            else:
                self._step(int(step))

    def _take(self, at: int, data: bytes) -> bool:
        try:
            head, payload = packets.decode(data)
            if head.type == SETUP:
                return self._begin(at, head, machine_packets.read_setup(payload, head.flags))
            if head.type != APPLIED:
                return False
            return self._apply(at, head, machine_packets.read_applied(payload, len(self._u), head.flags)[1])
        except packets.PacketError:
            return False

    def _begin(self, at: int, head: Head, setup: Any) -> bool:
        owned = self._running and not self._safe and at - self._fresh < self._setup.timeout
        late = head.source == self._host and head.run != self._run and head.seq <= self._setup_seq
        if (head.source != self._host and owned and self._keeps) or late:
            return False
        unusable = setup.timeout <= 0 or setup.step != MS or setup.speed != 1 or min(setup.limits) < 0
        if unusable or setup.schema != (self._schema or setup.schema) or head.flags & LOCKSTEP:
            self._running, self._setup_seq, self._run = False, head.seq, head.run
            self._send(at, packets.encode(self._head(FAULT, head.run), machine_packets.fault_payload(4, 0)))
            return True
        if head.run != self._run:
            own = min(setup.timeout, LONGEST_NS)
            self._setup_seq, self._schema, self._sent = head.seq, setup.schema, {}
            self._setup, self._run, self._host = setup._replace(timeout=self._timeout(own)), head.run, head.source
            self._k, self._first, self._begun, self._fresh = head.step, head.step, at, at
            self._taken, self._seq, self._running = NONE, 0, True
            if head.step == 0 and not self._at_rest:
                self._x, self._driven, self._safe = list(setup.start), False, False
            self._safe = self._safe and self._brakes_on
            self._act(self._safe_action() if self._safe else [0.0] * len(setup.limits))
        if self._running:
            self._publish(at)
        return True

    def _apply(self, at: int, head: Head, inputs: tuple[float, ...]) -> bool:
        if not self._running or (head.run, head.source) != (self._run, self._host):
            return self._ends_twice and bool(head.flags & FINAL)
        if head.flags & FINAL:
            self._running, self._safe, self._back = False, self._driven, at + self._lost_ns
            return True
        recent = at - self._sent.get(head.reply, -math.inf) < self._setup.timeout
        if not recent or (self._taken != NONE and head.seq <= self._taken):
            return False
        self._taken, self._fresh, self._safe, self._driven = head.seq, at, bool(head.flags & BRAKE), True
        self._driven_limits = self._setup.limits
        self._act(self._safe_action() if self._safe else inputs, -1.0 if self._clamps_below else -math.inf)
        return True

    def _act(self, inputs: Any, below: float = -1.0) -> None:
        """Let these act within the limits; `below`: of a limit, the least."""
        limits = self._setup.limits
        if self._taken == NONE and self._driven:
            limits = tuple(map(min, limits, self._driven_limits))
        self._u = tuple(max(below * most, min(u, most)) for u, most in zip(inputs, limits, strict=True))
        self.strongest = max(self.strongest, *map(abs, self._u))

    def _safe_action(self) -> list[float]:
        x = [*self._x, 1.0]
        return [self._brakes * sum(a * b for a, b in zip(row, x, strict=True)) for row in self._setup.safe]

    def _step(self, at: int) -> None:
        if not self._at_rest:
            self._roll()
        self._k += 1
        if self._driven and at - self._fresh >= self._setup.timeout:
            self._safe = True
        if self._safe:
            self._act(self._safe_action())
        if (self._k - self._first) % STATE_STEPS == 0:
            self._publish(at)

    def _roll(self) -> None:
        X, Y, psi, phi, V, Omega, theta1, theta2 = self._x
        h, p = 1e-3, self._p
        X, Y, psi = X + h * V * math.cos(psi), Y + h * V * math.sin(psi), psi + h * Omega
        phi += h * (-V / p["b"] * math.sin(phi) - Omega)
        theta1, theta2 = theta1 + h * (V - p["l"] * Omega) / p["r"], theta2 + h * (V + p["l"] * Omega) / p["r"]
        self._x = [X, Y, psi, phi, V, Omega, theta1, theta2]

    def _publish(self, at: int) -> None:
        if self._sensors:
            readings = tuple(packets.SensorReading(i, 0, 0.0) for i in range(self._sensors))
            payload = machine_packets.readings_payload(packets.ReadingsContent(self._refused, self._u, readings))
            return self._send(at, packets.encode(self._head(READINGS, self._run), payload))
        content = packets.StateContent(self._refused, tuple(self._x), self._u)
        return self._send(at, packets.encode(self._head(STATE, self._run), machine_packets.state_payload(content)))

    def _head(self, kind: int, run: int) -> Head:
        self._seq += 1
        says = self._safe and self._flags and kind != FAULT
        return Head(kind, run, 9, self._seq, self._taken, self._k, SAFE if says else 0)

    def _send(self, at: int, data: bytes) -> None:
        self._sent[self._seq] = at
        if at >= self._back:
            self.to_host.append((at + WIRE_NS, data))


def waiting(board: Any, time: Time) -> Callable[[Link, int], None]:
    """What waits for a board, in its time."""

    def wait(_: Link, wait_ms: int) -> None:
        """Sleep until something comes, half a millisecond at a time."""
        end = time.now + wait_ms * MS
        board.advance()
        while time.now < end and not (board.to_host and board.to_host[0][0] <= time.now):
            time.pass_to(min(end, time.now + MS // 2))
            board.advance()

    return wait


def accepted(
    closed_loop: ClosedLoop, plan: Plan, stalls: Callable[[int], int] = lambda now: 0, **board: Any  # noqa: ARG005
) -> tuple[Report, Board]:  # fmt: skip
    """What `servonode hil accept` says of such a board, on a computer with these stalls, and the board."""
    time = Time(stalls)
    there = Board(time, dict(closed_loop.machine.parameters), **board)
    return accept_over(there, closed_loop, plan, waiting(there, time), time.clock), there
