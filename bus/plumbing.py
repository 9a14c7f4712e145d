"""What all ZeroMQ sockets of servonode share: limits, safe binding, bounded reading, exact waiting."""

import select
import socket
import time
from collections.abc import Iterable
from pathlib import Path

import zmq

from servonode.bus.faces import HWM
from servonode.bus.folder import BusError
from servonode.bus.messages import MAX_PAYLOAD

RECONNECT_MS = 2  # a peer that starts or restarts is found within milliseconds
RECONNECT_MAX_MS = 20  # and one that stays away costs little
CONNECT_S = 1.0  # s, to learn whether an endpoint is alive

# Plain integers: arithmetic on zmq's enumerations costs more than the send itself.
EVENTS, NOBLOCK = int(zmq.EVENTS), int(zmq.NOBLOCK)
POLLIN, MORE = int(zmq.POLLIN), int(zmq.SNDMORE | zmq.NOBLOCK)

Socket = zmq.Socket[bytes]


def open_socket(context: "zmq.Context[Socket]", kind: zmq.SocketType) -> Socket:
    """A socket with the limits that all of servonode's have."""
    opened = context.socket(kind)
    opened.setsockopt(zmq.LINGER, 0)  # else ending the context waits for peers that never read
    opened.setsockopt(zmq.MAXMSGSIZE, MAX_PAYLOAD)
    opened.setsockopt(zmq.SNDHWM, HWM)
    opened.setsockopt(zmq.RCVHWM, HWM)
    opened.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    opened.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    return opened


def bind_socket(opened: Socket, address: str) -> Path:
    """Bind to an ipc address; comes out with its path. BusError if another process listens there.

    ZeroMQ itself silently takes the path away from the first one. A path that nobody listens on is what a
    killed process left, and may be taken.
    """
    path = Path(address.removeprefix("ipc://"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        except OSError as error:
            raise BusError(f"{address} cannot be used ({error}); remove that file") from None
        else:
            raise BusError(f"{address} is served already, by another node of this name; stop it or rename this one")
    try:
        opened.bind(address)
    except zmq.ZMQError as error:
        raise BusError(f"{address} cannot be bound ({error}); does its folder exist?") from None
    return path


class Reader:
    """Reads one socket without blocking, and remembers what is known of it.

    Asking for EVENTS costs as much as a receive, so it is asked only when the answer may have changed. Once
    they say that nothing waits, the next arrival makes the file descriptor `fd` readable.
    """

    def __init__(self, opened: Socket) -> None:
        self._socket = opened
        self.fd = int(opened.get(zmq.FD))
        self.readable: bool | None = None  # as of the last look; None: something was done since

    def disturbed(self) -> None:
        """Say that the socket was used otherwise: a send may swallow the signal of an arrival."""
        self.readable = None

    def look(self) -> bool:
        """Whether a message waits."""
        self.readable = bool(int(self._socket.get(EVENTS)) & POLLIN)
        return self.readable

    def read(self) -> list[bytes] | None:
        """The frames of the message that waits, at most four of them kept, or None."""
        if not (self.readable or self.look()):
            return None
        self.readable = None
        recv = self._socket.recv
        try:
            # copy=False, because the frame knows whether more follow, where the socket must be asked
            frame = recv(NOBLOCK, copy=False)
            frames = [frame.bytes]
            while frame.more:
                frame = recv(NOBLOCK, copy=False)
                if len(frames) < 4:
                    frames.append(frame.bytes)
        except zmq.Again:  # its sender went away meanwhile
            return None
        return frames


class Waiter:
    """Sleeps until one of several sockets is readable.

    A socket's file descriptor only tells, once, that something about it changed, hence the looks before each
    sleep; a wake-up may be for nothing. `select` sleeps to the microsecond where zmq's own poll rounds to milliseconds.
    """

    def __init__(self, *readers: Reader) -> None:
        self._readers = {reader.fd: reader for reader in readers}

    def add(self, reader: Reader) -> None:
        """Watch this socket too."""
        self._readers[reader.fd] = reader

    def wait(self, deadline_ns: int | None, fds: Iterable[int] = ()) -> bool:
        """Whether a socket or one of `fds` is signalled before the monotonic deadline [ns]; None: no deadline.

        What is readable already returns at once, so drain all sockets between two waits.
        """
        readers = self._readers
        for reader in readers.values():
            if reader.readable or (reader.readable is None and reader.look()):
                return True
        watched = [*readers, *fds]
        timeout: float | None = None
        while True:
            if deadline_ns is not None:
                timeout = max((deadline_ns - time.monotonic_ns()) * 1e-9, 0.0)
            signalled = select.select(watched, (), (), timeout)[0]
            for fd in signalled:
                if fd in readers:  # most likely a message; if not, the read finds none, and a look here is saved
                    readers[fd].readable = True
            if signalled:
                return True
            if timeout == 0.0:
                return False
