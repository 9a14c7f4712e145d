"""Wires in memory: for each driver a machine that answers at its own time, and a line with a rate, a delay and a loss.

    made = wire("serial", events)
    with made.plugged():
        plant = driven_plant(loop_of("serial"), lambda: events.now)  # reaches made's machine
        made.freeze()

    with Computer(loop_of("serial"), wire=wired("serial")) as computer:  # tests/virtual.py
        computer.wire.freeze()

Only the lowest call of a driver is replaced: the datagram socket, pyserial's port, python-can's bus, the sockets of
libzmq. Whatever stands above is that of a run, and so are the bytes: those of the C firmware, compiled for this
computer, and of the robots in examples/. Nothing waits. All that happens is planned in a queue of events, and a
machine goes on in its own time, whatever its host does.
"""

import errno
import json
import math
import random
import runpy
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

from servonode.bus import Link, Message, decode
from servonode.bus.codec import BOUND, encode_frames, message_intake
from servonode.bus.link import MACHINE_TOPICS
from servonode.bus.topology import PLANT
from servonode.closed_loop.closed_loop import ClosedLoop, resolve
from servonode.closed_loop.launch_file import read_launch
from servonode.plants.drivers import DRIVERS, packets
from servonode.plants.drivers.can import BITS as FRAME_BITS
from servonode.plants.drivers.can import Joiner
from servonode.plants.drivers.serial import unstuffed
from servonode.plants.drivers.simulated_device import LoopbackLink
from servonode.plants.drivers.udp import UdpTransport
from tests.helpers import machine_packets
from tests.helpers.board import LAUNCH, Board, library
from tests.helpers.extras import python_can
from tests.helpers.packages import WHEELS

EXAMPLES = Path(__file__).parents[1] / "examples"
S = 1_000_000_000  # ns
MS = 1_000_000
SERIAL_BITS = 10  # of a byte, with its start and stop bit
STATES = ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")
TO, BY = 0x101, 0x102  # identifiers of frames on a CAN bus
Falsify = Callable[[dict[str, Any]], list[dict[str, Any]]]  # of k, and state or readings, what is said in its place


@dataclass
class Way:
    """One direction: bytes take their time, and may be lost or spoilt.

    rate: bit/s; None: any number. bits: of so many bytes on the line. loses: whether what is sent as this number, from
    0 on, is lost. spoils: what becomes of it.
    """

    delay_ns: int = 0
    rate: float | None = None
    bits: Callable[[int], float] = lambda size: SERIAL_BITS * size
    loses: Callable[[int], bool] = lambda _: False
    spoils: Callable[[bytes], bytes] = lambda data: data
    cut: bool = False
    sent: int = 0
    free: int = 0  # when all that was sent has left

    def leave(self, now: int, size: int) -> int:
        """When bytes have left that are sent now."""
        self.free = max(self.free, now) + (math.ceil(self.bits(size) / self.rate * S) if self.rate else 0)
        return self.free

    def carry(self, queue: Any, data: bytes, arrives: Callable[[bytes], object]) -> int:
        """Carry what is sent now to who takes it; when it has left."""
        left, lost = self.leave(queue.now, len(data)), self.cut or self.loses(self.sent)
        self.sent += 1
        if not lost:
            queue.plan(left + self.delay_ns, partial(arrives, self.spoils(data)))
        return left


def losing(share: float, seed: int = 1) -> Callable[[int], bool]:
    """That loses this share of what is sent."""
    return lambda number: random.Random(f"{seed} {number}").random() < share


def spoiling(share: float, seed: int = 1) -> Callable[[bytes], bytes]:
    """That changes up to three bytes of this share of what is sent."""
    rng = random.Random(seed)

    def spoilt(data: bytes) -> bytes:
        if not data or rng.random() >= share:
            return data
        found = bytearray(data)
        for _ in range(3):
            found[rng.randrange(len(found))] ^= rng.randrange(1, 256)
        return bytes(found)

    return spoilt


# machines
#
# A machine has `start` (again: it knows no run), `take` what has come, `advance` in its own time, and `due`, when it
# next does something by itself; what it says goes to `said`. `truth` is its true state, `acting` are the inputs that
# act on it. `order` reads what was sent to it, `opened` and `closed` read and change its own states (`Wire.falsify`).


class Order(NamedTuple):
    """What a host has sent: when, `setup` or `applied`, whether it ends the run, and its inputs."""

    at: int
    kind: str
    final: bool = False
    inputs: tuple[float, ...] = ()


class Firmware:
    """The C firmware of a launch file's robot; readings: that sends only those of its sensors; law: with its law.

    changes: what is replaced in its sources, and by what.
    """

    def __init__(
        self, readings: bool = False, law: bool = True, any_speed: bool = False, launch: str = LAUNCH,
        changes: tuple[tuple[str, str], ...] = (),
    ) -> None:  # fmt: skip
        self.said: Callable[[bytes], object] = lambda _: None
        self._options = {"readings": readings, "law": law, "any_speed": any_speed}
        self._library, (self._states, self._n_inputs) = library(launch, changes), names_of(launch)
        self._starts = 0
        self.board: Board

    def start(self, now: int) -> None:  # noqa: ARG002
        self._starts += 1
        self.board = Board(lambda data: self.said(data), 8 + self._starts, self._library, **self._options)

    def take(self, now: int, data: bytes) -> None:
        self.board.receive(now, data)

    def advance(self, now: int) -> None:
        self.board.advance(now)

    def due(self) -> int | None:
        return self.board.due()

    def truth(self) -> dict[str, float]:
        return dict(zip(self._states, self.board.truth()[1], strict=False))

    def acting(self) -> tuple[float, ...]:
        return tuple(self.board.truth()[2][: self._n_inputs])

    def order(self, at: int, data: bytes) -> Order:
        head, payload = packets.decode(data)
        if head.type == packets.SETUP:
            return Order(at, "setup")
        inputs = machine_packets.read_applied(payload[: 8 + 4 * self._n_inputs], self._n_inputs)[1]  # without a goal
        return Order(at, "applied", bool(head.flags & packets.FINAL), inputs)

    def opened(self, data: bytes) -> dict[str, Any] | None:
        head, payload = packets.decode(data)
        if head.type == packets.STATE:
            content = packets.read_state(payload, len(self._states), self._n_inputs)
            return {"k": head.step, "packet": data, "state": dict(zip(self._states, content.states, strict=True))}
        if head.type == packets.READINGS:
            said = packets.read_readings(payload, head.step, self._n_inputs, packets.MOST_READINGS)
            return {"k": head.step, "packet": data, "readings": list(said.readings)}
        return None

    def closed(self, said: dict[str, Any]) -> bytes:
        head, payload = packets.decode(said["packet"])
        if head.type == packets.STATE:
            states = packets.read_state(payload, len(self._states), self._n_inputs)
            changed = machine_packets.state_payload(states._replace(states=tuple(said["state"].values())))
        else:
            readings = packets.read_readings(payload, head.step, self._n_inputs, packets.MOST_READINGS)
            changed = machine_packets.readings_payload(readings._replace(readings=tuple(said["readings"])))
        return packets.encode(head._replace(step=said["k"]), changed)


@cache
def names_of(launch: str) -> tuple[tuple[str, ...], int]:
    """The names of the states of a launch file's machine, and how many inputs it has."""
    description = resolve(read_launch(launch), strict=False).machine.description
    return description.state_names, len(description.input_names)


class Idle(Exception):
    """Leaves the loop of a robot of examples/, which would wait now."""


class Example:
    """A robot of examples/, whose loop is left where it would wait, and entered again.

    Subclasses `make` it, have it `obey` a message as its loop does, and say whether its own time `goes_on`: then it
    looks each millisecond.
    """

    def __init__(self) -> None:
        self.said: Callable[[bytes], object] = lambda _: None
        self.now = 0
        self.robot: Any = None
        self.time = SimpleNamespace(monotonic=lambda: self.now / S, monotonic_ns=lambda: self.now)
        self._next: int | None = None

    def start(self, now: int) -> None:
        self.now = now
        self.robot = self.make()

    def take(self, now: int, data: bytes) -> None:
        self.now = now
        self.obey(data)
        self.advance(now)

    def advance(self, now: int) -> None:
        self.now = now
        with suppress(Idle):
            self.robot.serve()
        self._next = now + MS if self.goes_on() else None

    def due(self) -> int | None:
        return self._next

    def truth(self) -> dict[str, float]:
        return dict(zip(STATES, map(float, self.robot.x), strict=False))

    def acting(self) -> tuple[float, ...]:
        return tuple(map(float, self.robot.u))


@cache
def example(file: Path) -> dict[str, Any]:
    """The names of a program of examples/."""
    return runpy.run_path(str(file))


def idle(*_: object) -> Any:
    """Leave the loop."""
    raise Idle


def joined(topic: bytes, payload: bytes) -> bytes:
    """The two frames of a message as one."""
    return topic + b"\0" + payload


def parted(data: bytes) -> tuple[bytes, bytes]:
    """The two frames of what was one."""
    topic, _, payload = data.partition(b"\0")
    return topic, payload


class External(Example):
    """The robot of examples/external_plant.py; speeds: with drives that take speeds."""

    def __init__(self, speeds: bool = False, any_speed: bool = False) -> None:
        super().__init__()
        self._speeds, self._any_speed = speeds, any_speed

    def make(self) -> Any:
        if self._speeds:
            from tests.helpers import speed_robot

            kind, names = speed_robot.SpeedRobot, speed_robot.EXAMPLE["Robot"].__init__.__globals__
        else:
            kind = example(EXAMPLES / "external_plant.py")["Robot"]
            names = kind.__init__.__globals__
        names["time"] = self.time
        out = SimpleNamespace(bind=idle_call, send_multipart=lambda frames: self.said(joined(*frames)))
        into = SimpleNamespace(connect=idle_call, subscribe=idle_call, poll=idle)
        sockets = {"out": out, "into": into}
        opened = SimpleNamespace(instance=lambda: SimpleNamespace(socket=sockets.__getitem__))
        names["zmq"] = SimpleNamespace(Context=opened, PUB="out", SUB="into")
        self._names = names
        return kind("state", "applied", self._any_speed)

    def obey(self, data: bytes) -> None:
        topic, message = parted(data)
        with suppress(ValueError, LookupError, TypeError, AttributeError, ArithmeticError):  # as `serve` does
            taken = self._names["msgpack"].unpackb(message)
            (self.robot.begin if topic == b"setup" else self.robot.apply)(taken)

    def advance(self, now: int) -> None:
        self._names["time"] = self.time  # another one may have been made since
        super().advance(now)

    def goes_on(self) -> bool:
        return bool(self.robot.running and self.robot.setup["mode"] == "realtime")

    def order(self, at: int, data: bytes) -> Order:
        topic, message = parted(data)
        said = decode(topic, message)
        return Order(at, "setup") if topic == b"setup" else Order(at, "applied", said.final, tuple(said.input.values()))

    def opened(self, data: bytes) -> dict[str, Any] | None:
        topic, message = parted(data)
        return msgspec.msgpack.decode(message) if topic == b"state" else None

    def closed(self, said: dict[str, Any]) -> bytes:
        return joined(b"state", msgspec.msgpack.encode(said | {"t": said["k"] * 1e-3}))


def idle_call(*_: object) -> None:
    """Nothing to do in memory."""


class Wheels(Example):
    """The robot of examples/driver/robot.py."""

    def make(self) -> Any:
        names = example(WHEELS / "robot.py")["Robot"].__init__.__globals__
        opened = SimpleNamespace(bind=idle_call, sendto=lambda data, _: self.said(data))
        names["socket"] = SimpleNamespace(socket=lambda *_: opened, AF_INET=0, SOCK_DGRAM=0)
        names["select"], names["time"] = SimpleNamespace(select=idle), self.time
        self._names = names
        return names["Robot"](0)

    def obey(self, data: bytes) -> None:
        self._names["time"] = self.time
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # as `serve` does
            self.robot.listen(json.loads(data), "host")

    def goes_on(self) -> bool:
        return bool(self.robot.run and self.robot.own_clock)

    def acting(self) -> tuple[float, ...]:
        return tuple(map(float, self.robot.torque))

    def order(self, at: int, data: bytes) -> Order:
        told = json.loads(data)
        return Order(at, "setup") if told.get("begin") else Order(at, "applied", told["end"], tuple(told["torque"]))

    def opened(self, data: bytes) -> dict[str, Any] | None:
        told = json.loads(data)
        return told | {"state": dict(zip(STATES, told["state"], strict=True))}

    def closed(self, said: dict[str, Any]) -> bytes:
        return json.dumps(said | {"t": said["k"] * 1e-3, "state": list(said["state"].values())}).encode()


# wires


class Wire:
    """A machine and its wire, on a queue of events.

    queue: has the present time [ns] as `now`, and `plan(at, happening)`. machine: None where the plant simulates it.
    to, back: the two ways. silent: whether it says nothing though it receives. falsify: what it says in the place of
    its states. wake: called when something has come to the host. waits: how the plant waits for so long [ns] where its
    driver does so in one call, as when it closes.
    """

    def __init__(self, queue: Any, machine: Any = None) -> None:
        self.queue, self.machine = queue, machine
        self.to, self.back = Way(), Way()
        self.wake: Callable[[], object] = lambda: None
        self.waits: Callable[[int], object] = lambda ns: setattr(queue, "now", queue.now + ns)
        self.falsify: Falsify | None = None
        self.silent = self.frozen = self.dead = self.pulled = False
        self.came: deque[bytes] = deque()  # to the host, and not read yet
        self.sent: list[tuple[int, bytes]] = []  # by the host, and when
        self._kept: list[bytes] = []  # that came to a machine that is frozen
        self._turn = 0
        if machine is not None:
            machine.said = self._said
            machine.start(queue.now)

    # between machine and line

    def send(self, data: bytes) -> None:
        """The host sends."""
        self.sent.append((self.queue.now, data))
        self.to.carry(self.queue, data, self._reaches)

    def _reaches(self, data: bytes) -> None:
        if self.dead or self.to.cut:
            return
        if self.frozen:
            self._kept.append(data)
            return
        self.take(data)
        self._plan()

    def take(self, data: bytes) -> None:
        """The machine takes what the line brings."""
        self.machine.take(self.queue.now, data)

    def _plan(self) -> None:
        """Plan what the machine does next by itself."""
        self._turn += 1
        if (due := self.machine.due()) is not None:
            self.queue.plan(due, partial(self._goes_on, self._turn))

    def _goes_on(self, turn: int) -> None:
        if turn == self._turn and not self.frozen and not self.dead:
            self.machine.advance(self.queue.now)
            self._plan()

    def _said(self, data: bytes) -> None:
        if self.silent:
            return
        said = self.machine.opened(data) if self.falsify else None
        for each in [data] if said is None else [self.machine.closed(false) for false in self.falsify(said)]:
            self.say(each)

    def say(self, data: bytes) -> None:
        """Let a message of the machine leave."""
        self.back.carry(self.queue, data, self._comes)

    def _comes(self, data: bytes) -> None:
        if not self.back.cut:
            self.deliver(data)
            self.wake()

    def deliver(self, data: bytes) -> None:
        """Let the host find what has come."""
        self.came.append(data)

    # what happens to it

    def freeze(self, frozen: bool = True) -> int:
        """Serve the machine no more, as a debugger does, or again; the time of it."""
        before, self.frozen = self.frozen, frozen
        if before and not frozen:
            kept, self._kept = self._kept, []
            self.goes_on(kept)
        return self.queue.now

    def goes_on(self, kept: Sequence[bytes]) -> None:
        """Let a machine that was frozen take what has come meanwhile."""
        for each in kept:
            self.take(each)
        self.machine.advance(self.queue.now)
        self._plan()

    def kill(self) -> int:
        """End the machine at once; the time of it."""
        self.dead, self._kept = True, []
        return self.queue.now

    def restart(self) -> None:
        """Start it again: it knows no run."""
        self.dead = self.frozen = False
        self.machine.start(self.queue.now)
        self._plan()

    def pull(self) -> int:
        """Pull the cable; the time of it."""
        self.pulled = self.to.cut = self.back.cut = True
        return self.queue.now

    def plug(self) -> None:
        """Put it back."""
        self.pulled = self.to.cut = self.back.cut = False

    # what is found

    @property
    def orders(self) -> list[Order]:
        """The messages that the host has sent, oldest first."""
        return [self.machine.order(at, data) for at, data in self.messages()]

    def messages(self) -> list[tuple[int, bytes]]:
        """What the host has sent, each message as a whole."""
        return self.sent

    @property
    def acting(self) -> tuple[float, ...]:
        """The inputs that act on the machine now."""
        return self.machine.acting()

    # the driver

    @contextmanager
    def plugged(self) -> Iterator[None]:
        """While it lasts, what this wire's driver opens is this wire."""
        with pytest.MonkeyPatch.context() as patch:
            self.connect(patch)
            yield

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        """Put this wire in the place of what its driver opens."""

    def time(self) -> SimpleNamespace:
        """The module `time`, as a transport uses it."""
        return SimpleNamespace(
            monotonic_ns=lambda: self.queue.now,
            monotonic=lambda: self.queue.now / S,
            sleep=lambda seconds: self.waits(round(seconds * S)),
        )


class UdpWire(Wire):
    """Datagrams; nobody but the machine is there."""

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        wire = self

        class InMemory(UdpTransport):
            def open(self) -> None:
                self._socket, self.fds = Datagrams(wire, self._peer), (-1,)

        patch.setattr("servonode.plants.drivers.udp.UdpTransport", InMemory)


class Datagrams:
    """A datagram socket. Where the machine has died, its computer says so once to the next call."""

    def __init__(self, wire: Wire, peer: tuple[str, int] = ("", 0)) -> None:
        self._wire, self._peer, self._refused = wire, peer, False

    def _complain(self) -> None:
        refused, self._refused = self._refused, False
        if refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")

    def sendto(self, data: bytes, _: tuple[str, int]) -> None:
        self._complain()
        self._refused = self._wire.dead
        self._wire.send(data)

    def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
        self._complain()
        if not self._wire.came:
            raise BlockingIOError
        return self._wire.came.popleft()[:size], self._peer

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._wire.came.clear()

    # as one that is connected

    def setblocking(self, _: bool) -> None: ...
    def connect(self, _: tuple[str, int]) -> None: ...

    def send(self, data: bytes) -> None:
        self.sendto(data, self._peer)

    def recv(self, size: int) -> bytes:
        return self.recvfrom(size)[0]


class LinedWire(Wire):
    """A line with a rate, on which the machine has what the firmware's line.c keeps: the newest packet, and a fault."""

    machine: Firmware

    def __init__(self, queue: Any, machine: Firmware) -> None:
        super().__init__(queue, machine)
        self._sending = False

    def frame(self) -> bytes:
        """The next frame that leaves; empty: nothing waits."""
        raise NotImplementedError

    def say(self, data: bytes) -> None:
        self.machine.board.put(data)
        self._pump()

    def _pump(self) -> None:
        if not self._sending and (frame := self.frame()):
            self._sending = True
            self.queue.plan(self.back.carry(self.queue, frame, self._comes), self._sent)

    def _sent(self) -> None:
        self._sending = False
        if not self.dead:
            self._pump()


class SerialWire(LinedWire):
    """A serial port. A machine that dies takes its port along, as one on USB does."""

    def __init__(self, queue: Any, machine: Firmware, baud: int = 921600) -> None:
        super().__init__(queue, machine)
        self.baud, self.to, self.back = baud, Way(rate=baud), Way(rate=baud)
        self.port: Port | None = None

    def frame(self) -> bytes:
        return self.machine.board.next_bytes()

    def messages(self) -> list[tuple[int, bytes]]:
        return [(at, unstuffed(each)) for at, data in self.sent for each in data.split(b"\0") if each]

    def take(self, data: bytes) -> None:
        self.machine.board.bytes(self.queue.now, data)

    def deliver(self, data: bytes) -> None:
        if self.port is not None:
            self.port.deliver(data)

    def pull(self) -> int:
        if self.port is not None:
            self.port.hang_up()
        return super().pull()

    def kill(self) -> int:
        super().kill()
        return self.pull()

    def restart(self) -> None:
        self.plug()
        super().restart()

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        import serial

        driver, clock = "servonode.plants.drivers.serial", self.time()
        clock.monotonic_ns = self._clock
        patch.setattr(serial, "Serial", partial(Port, self))
        patch.setattr(f"{driver}.port_problem", lambda port: f"there is no serial port {port}" * self.pulled)
        patch.setattr("servonode.plants.drivers.transport.time", clock)

    def _clock(self) -> int:
        """What time it is; a transport asks before each write, so that what was written before left at this time."""
        if self.port is not None:
            self.port.collect()
        return self.queue.now


class Port:
    """What pyserial opens: one end of a pair of sockets."""

    def __init__(self, wire: SerialWire, port: str, baud: int, **_: object) -> None:
        if wire.pulled:
            raise OSError(errno.ENOENT, f"could not open port {port}")
        self._wire, self.baud = wire, baud
        self._near, self._far = socket.socketpair()
        for each in (self._near, self._far):
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        wire.port = self

    def fileno(self) -> int:
        return self._near.fileno()

    def reset_input_buffer(self) -> None:
        """Nothing has come yet."""

    @property
    def out_waiting(self) -> int:
        """The bytes that have not left yet."""
        return max(self._wire.to.free - self._wire.queue.now, 0) * self._wire.baud // (SERIAL_BITS * S)

    def collect(self) -> None:
        """Let the line carry what was written."""
        if self._far.fileno() < 0:
            return
        with suppress(BlockingIOError):
            while data := self._far.recv(1 << 16):
                self._wire.send(data)

    def deliver(self, data: bytes) -> None:
        """Let bytes be read; what nobody reads for long is lost."""
        with suppress(OSError):
            self._far.send(data)

    def hang_up(self) -> None:
        """The other end is gone."""
        self._far.close()

    def close(self) -> None:
        self.collect()
        self._near.close()
        self._far.close()


class CanWire(LinedWire):
    """A CAN bus, on which frames of both directions follow one another."""

    def __init__(self, queue: Any, machine: Firmware, bitrate: int = 1_000_000) -> None:
        super().__init__(queue, machine)
        self.to = self.back = Way(rate=bitrate, bits=lambda _: FRAME_BITS)
        self.bus: CanBus | None = None

    def frame(self) -> bytes:
        return self.machine.board.next_frame()

    def messages(self) -> list[tuple[int, bytes]]:
        joiner = Joiner(Counter())
        return [(at, whole) for at, data in self.sent if (whole := joiner.take(data))]

    def take(self, data: bytes) -> None:
        self.machine.board.frame(self.queue.now, data)

    def deliver(self, data: bytes) -> None:
        if self.bus is not None:
            self.bus.frames.append((BY, False, data))

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        can = python_can()
        driver = "servonode.plants.drivers.can"
        patch.setattr(can, "Bus", partial(CanBus, self))
        poll = SimpleNamespace(register=idle_call, poll=lambda _: self.bus is not None and self.bus.readable())
        patch.setattr(f"{driver}.select", SimpleNamespace(poll=lambda: poll, POLLIN=1))
        patch.setattr("servonode.plants.drivers.transport.time", self.time())


class CanBus:
    """What python-can opens. frames: that have come and are not read, with identifier and whether it is a long one."""

    def __init__(self, wire: CanWire, **_: object) -> None:
        if wire.pulled:
            raise OSError(errno.ENETDOWN, "Network is down")
        self.frames: deque[tuple[int, bool, bytes]] = deque()
        self.sent: list[bytes] = []
        self._wire = wire
        wire.bus = self

    def fileno(self) -> int:
        return 2**30  # of nothing; nobody waits here

    def readable(self) -> bool:
        return bool(self.frames) or self._wire.pulled

    def send(self, frame: Any, timeout: float) -> None:  # noqa: ARG002
        if self._wire.pulled:
            raise OSError(errno.ENETDOWN, "Network is down")
        if frame.arbitration_id == TO:
            self.sent.append(bytes(frame.data))
            self._wire.send(bytes(frame.data))

    def recv(self, timeout: float) -> Any:  # noqa: ARG002
        import can

        if self._wire.pulled:
            raise OSError(errno.ENETDOWN, "Network is down")
        if not self.frames:
            return None
        identifier, extended, data = self.frames.popleft()
        return can.Message(arbitration_id=identifier, is_extended_id=extended, data=data)

    def shutdown(self) -> None:
        self._wire.bus = None


class ExternalWire(Wire):
    """The two sockets of an external plant, without keys."""

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr("servonode.bus.ExternalLink", lambda *_, **__: MemoryLink(self))


class MemoryLink(Link):
    """A `Link` of messages as they are on the wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._intake = wire, message_intake({"machine": MACHINE_TOPICS})
        self.counts, self.problems = self._intake.counts, self._intake.problems

    def send(self, topic: str, message: Message) -> None:
        self._wire.send(joined(*encode_frames(topic, message)))

    def receive(self, bound: int = BOUND) -> list[tuple[str, Message]]:
        came = self._wire.came
        found = (self._intake.take(*parted(came.popleft())) for _ in range(min(bound, len(came))))
        return [each for each in found if each is not None]

    def listened(self) -> bool | None:
        return not self._wire.dead and not self._wire.pulled


class WheelsWire(Wire):
    """The driver of examples/driver, as one of another package, and its robot."""

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        names = install_own(patch)
        patch.setitem(names, "socket", SimpleNamespace(socket=lambda *_: Datagrams(self), AF_INET=0, SOCK_DGRAM=0))
        patch.setitem(names, "time", self.time())


def install_own(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Have the driver of examples/driver found; the names of its module."""
    driver = example(WHEELS / "servonode_wheels.py")["DRIVER"]
    patch.setitem(DRIVERS, driver.name, driver)
    names: dict[str, Any] = driver.open.__globals__
    return names


class LoopbackWire(Wire):
    """The simulated machine behind a link in the plant's own process, which keeps its own time."""

    link: LoopbackLink | None = None

    def connect(self, patch: pytest.MonkeyPatch) -> None:
        wire = self

        class Watched(LoopbackLink):
            def __init__(self, *of: Any) -> None:
                super().__init__(*of)
                wire.link = self

            def _happen(self, now: int) -> None:
                if not (wire.frozen or wire.dead):
                    super()._happen(now)

            def _from_machine(self, now: int, frames: Any) -> None:
                if not (wire.silent or wire.pulled):
                    super()._from_machine(now, frames)

            def send(self, topic: str, message: Message) -> None:
                if not (wire.pulled or wire.dead):
                    super().send(topic, message)

            def due(self) -> int | None:
                return None if wire.frozen or wire.dead else super().due()

        patch.setattr("servonode.plants.drivers.simulated_device.LoopbackLink", Watched)

    def goes_on(self, kept: Sequence[bytes]) -> None:
        """It catches up when it is next looked at."""

    @property
    def acting(self) -> tuple[float, ...]:
        plant = self.link.device.plant if self.link else None
        return () if plant is None else tuple(plant.held.tolist())

    def restart(self) -> None:
        raise NotImplementedError("it lives as long as the plant's process")


@dataclass(frozen=True)
class Kind:
    """A wire, the machine at its end, and a run over it: its launch file and its settings, as in `--set`."""

    wire: Callable[..., Wire]
    machine: Callable[[], Any] | None = None
    settings: tuple[str, ...] = ("run.speed=1",)
    launch: str = "trailer_pursuit"


def serial(baud: int) -> tuple[str, ...]:
    """The settings for a serial line of this rate."""
    return 'plant.driver="serial"', 'plant.device.port="/dev/memory"', f"plant.device.baud={baud}", *COMMANDED


COMMANDED = ("run.speed=1", "plant.safety.limit=1.0")
LOOPBACK = ('plant.driver="loopback"', "run.speed=1", "plant.link.delay=0.0005")
UDP = ('plant.driver="udp"', 'plant.device.address="127.0.0.1:9875"', *COMMANDED)
SERIAL = serial(921600)
CAN = (
    'plant.driver="can"', 'plant.device.channel="can0"', "plant.device.bitrate=1_000_000",
    f"plant.device.id_to={TO}", f"plant.device.id_from={BY}", *COMMANDED,
)  # fmt: skip
EXTERNAL = (
    'plant.driver="external"', 'plant.device.state="tcp://127.0.0.1:9872"',
    'plant.device.applied="tcp://127.0.0.1:9873"', *COMMANDED,
)  # fmt: skip
ESTIMATED = (
    "plant.device.sends=readings", 'estimator.sensors=["encoder_left", "encoder_right", "gyroscope"]',
    "estimator.process_noise=0.001", "estimator.initial_std=0.001",
)  # fmt: skip
SPEEDS = ('plant.command="velocity"', "plant.actuator.bandwidth=200", "plant.safety.speed_limit=50")
# fmt: off
WIRES: dict[str, Kind] = {
    "simulated": Kind(Wire),
    "mujoco": Kind(Wire, launch="trailer_pursuit_mujoco"),
    "loopback": Kind(LoopbackWire, None, (*LOOPBACK, "plant.link.jitter=0.0005")),
    "speeds": Kind(LoopbackWire, None, (*LOOPBACK, *SPEEDS)),
    "udp": Kind(UdpWire, Firmware, UDP),
    "serial": Kind(SerialWire, Firmware, SERIAL),
    "can": Kind(CanWire, Firmware, CAN),
    "sensors_only": Kind(SerialWire, partial(Firmware, readings=True), (*SERIAL, *ESTIMATED)),
    "device_law": Kind(SerialWire, Firmware, (*SERIAL, "plant.device.law=true")),
    "external": Kind(ExternalWire, External, EXTERNAL),
    "external_speeds": Kind(ExternalWire, partial(External, speeds=True), (*EXTERNAL, *SPEEDS)),
    "own_driver": Kind(WheelsWire, Wheels, ('plant.driver="wheels"', *COMMANDED)),
    "57600 baud": Kind(partial(SerialWire, baud=57600), Firmware, (*serial(57600), "plant.device.state_rate=50")),
    "115200 baud": Kind(partial(SerialWire, baud=115200), Firmware, serial(115200)),
    "460800 baud": Kind(partial(SerialWire, baud=460800), Firmware, serial(460800)),
}
# fmt: on


def wire(kind: str, queue: Any) -> Wire:
    """The wire of this kind, with a machine at its end that has started."""
    found = WIRES[kind]
    return found.wire(queue, found.machine() if found.machine else None)


@cache
def loop_of(kind: str, *settings: str, launch: str = "") -> ClosedLoop:
    """The closed loop of a run over such a wire, made once; settings, launch: further ones, another launch file."""
    with pytest.MonkeyPatch.context() as patch:
        install_own(patch)
        return resolve(read_launch(launch or WIRES[kind].launch, [*WIRES[kind].settings, *settings]), strict=False)


def wired(kind: str | Callable[[Any], Wire]) -> Callable[[Any, pytest.MonkeyPatch], Wire]:
    """What puts such a wire, or one that is made on a queue, between a virtual computer's plant and its machine."""

    def made(computer: Any, patch: pytest.MonkeyPatch) -> Wire:
        found = wire(kind, computer.events) if isinstance(kind, str) else kind(computer.events)
        found.wake = lambda: computer.processes[PLANT].wake()
        found.waits = lambda ns: computer.processes[PLANT].spend(ns)
        found.connect(patch)
        return found

    return made
