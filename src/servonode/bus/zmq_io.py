"""The sockets of libzmq: all their options, and bounded reading.

They carry what leaves the run's folder, and what is not read in every tick: requests, listeners, telemetry, external
plants, the goals of others. libzmq ends the process when it gets no descriptor; see `bus/descriptors.py`.
"""

import contextlib
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import zmq

from servonode.bus.codec import HWM
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.run_folder import BusError, clear_path

RECONNECT_MS = 2  # a peer that starts or restarts is found within milliseconds
RECONNECT_MAX_MS = 20  # and one that does not arrive costs little
CONNECT_MS = 500  # over tcp: a computer that was switched off is tried again, not waited for
HANDSHAKE_MS = 1000  # a connection without handshake by then is closed
HEARTBEAT_MS, SILENT_MS = 1000, 5000  # over tcp: a peer that answers none for so long is disconnected
CLOSE_MS = 100  # for which what was sent last may still go out
DRAIN_NS = 500_000  # longest time of one drain, so that a flooding peer cannot pin the loop
PARTS_AT_ONCE = 64  # frames of one message that are read, and thrown away, in one go

# Plain integers: arithmetic on zmq's enumerations costs more than the send itself.
EVENTS, NOBLOCK = int(zmq.EVENTS), int(zmq.NOBLOCK)
POLLIN, MORE = int(zmq.POLLIN), int(zmq.SNDMORE | zmq.NOBLOCK)

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]
Secure = Callable[[Socket], None]  # gives a socket its keys, before it is bound or connected

_TCP = re.compile(r"tcp://(.+):([0-9]+)")


def new_context() -> Context:
    """A context; where this thread has a priority of real time, libzmq's threads get the next lower one.

    They would inherit it, and one that carries a flood would keep the node from its tick. Their cores are the node's.
    """
    made: Context = zmq.Context(io_threads=1)
    if sys.platform == "linux" and os.sched_getscheduler(0) == os.SCHED_FIFO:
        made.set(zmq.THREAD_SCHED_POLICY, os.SCHED_FIFO)
        made.set(zmq.THREAD_PRIORITY, max(os.sched_getparam(0).sched_priority - 1, 1))
    return made


def open_socket(
    context: Context, kind: int, secure: Secure | None = None, largest: int = MAX_PAYLOAD, queue: int = HWM
) -> Socket:
    """A socket with the options that all of servonode's have; largest: bytes of a frame, queue: messages of a peer."""
    opened = context.socket(kind)
    opened.setsockopt(zmq.LINGER, 0)  # else ending the context waits for peers that never read
    opened.setsockopt(zmq.MAXMSGSIZE, largest)
    opened.setsockopt(zmq.SNDHWM, queue)
    opened.setsockopt(zmq.RCVHWM, queue)
    opened.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    opened.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    opened.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    if secure is not None:
        secure(opened)
    return opened


def bind(opened: Socket, address: str) -> Path | None:
    """Bind a socket; returns the path to remove in the end, if it has one. BusError where that fails."""
    path = Path(address.removeprefix("ipc://")) if address.startswith("ipc://") else None
    if path is not None:
        clear_path(address, path)  # libzmq would take it from whoever listens there
    address = numeric(address)
    prepare(opened, address)
    try:
        opened.bind(address)
    except zmq.ZMQError as error:
        remedy = "; does its folder exist?" if path else ""
        raise BusError(f"{address} cannot be bound ({error}){remedy}") from None
    return path


def connect(opened: Socket, address: str) -> str:
    """Connect a socket, now or when somebody binds the address; returns that with the number of its host."""
    address = numeric(address)
    prepare(opened, address)
    opened.connect(address)
    return address


def numeric(address: str) -> str:
    """The address with its host's number in place of the name, of IPv4 where it has one; BusError where it has none.

    It is asked once, before a run: libzmq would ask at each new connection, in the one thread that carries all
    messages, and a name server that is gone would stop them.
    """
    if not (found := _TCP.fullmatch(address)):
        return address
    try:
        known = socket.getaddrinfo(found[1].strip("[]"), int(found[2]), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        remedy = "check the name, enter it in /etc/hosts, or write the number, as in tcp://192.168.1.7:PORT"
        raise BusError(f"{address}: no computer is known here as {found[1]} ({why}); {remedy}") from None
    host, port = str(min(known, key=lambda each: each[0] != socket.AF_INET)[4][0]), int(found[2])
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def prepare(opened: Socket, address: str) -> None:
    """Set the options of tcp, before a socket is bound or connected to such an address."""
    if address.startswith("tcp://"):
        opened.setsockopt(zmq.IPV6, int("[" in address))
        opened.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        if not opened.getsockopt(zmq.HEARTBEAT_IVL):  # none of its own
            opened.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
            opened.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENT_MS)


class Reader:
    """Reads one socket without blocking, and remembers what is known of it; it sends too.

    Asking for EVENTS costs as much as a receive, so it is asked only when the answer may have changed. Once
    they say that nothing waits, the next arrival makes the file descriptor `fd` readable.
    """

    def __init__(self, opened: Socket, keyed: bool = False) -> None:
        """keyed: whether to note in `user` whose key the message read last came with."""
        self.socket, self._keyed = opened, keyed
        self.user = ""  # as the answer to ZAP has named it
        self.fd = int(opened.get(zmq.FD))
        self.readable: bool | None = None  # as of the last look; None: something was done since
        self._endless = False  # in the middle of a message of too many frames

    def disturbed(self) -> None:
        """Note that the socket was used otherwise: a send may consume the signal of an arrival."""
        self.readable = None

    def send(self, *frames: bytes) -> None:
        """Send a message; never blocks. Raises zmq.Again where there is no room for it."""
        self.readable = None
        for frame in frames[:-1]:
            self.socket.send(frame, MORE)
        self.socket.send(frames[-1], NOBLOCK)

    def look(self) -> bool:
        """Whether a message waits."""
        self.readable = bool(int(self.socket.get(EVENTS)) & POLLIN)
        return self.readable

    def waits(self) -> bool:
        """Whether a message waits, asked only where it is not known."""
        return self.look() if self.readable is None else self.readable

    def read(self) -> list[bytes] | None:
        """The frames of the message that waits, at most four of them kept, or None."""
        if not (self.readable or self.look()):
            return None
        self.readable = None
        if self._endless and not self._skip():
            return None
        recv = self.socket.recv
        try:
            # copy=False, because the frame knows whether more follow, where the socket must be asked
            frame = recv(NOBLOCK, copy=False)
            frames = [frame.bytes]
            while frame.more:
                frame = recv(NOBLOCK, copy=False)
                frames.append(frame.bytes)
                if len(frames) == 4 and frame.more:
                    self._endless = True
                    self._skip()
                    break
            if self._keyed:  # the last frame, because the first one of a ROUTER is its own
                self.user = str(frame.get("User-Id"))
        except zmq.Again:  # its sender went away meanwhile
            return None
        return frames

    def _skip(self) -> bool:
        """Throw away some of what is left of a message of too many frames; whether it is over."""
        recv = self.socket.recv
        with contextlib.suppress(zmq.Again):
            for _ in range(PARTS_AT_ONCE):
                if not recv(NOBLOCK, copy=False).more:
                    self._endless = False
                    break
        return not self._endless
