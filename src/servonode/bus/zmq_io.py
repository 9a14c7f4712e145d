"""Common functions of servonode's sockets: limits, safe binding, bounded reading."""

import contextlib
import socket
from pathlib import Path
from typing import Any

import zmq

from servonode.bus.interfaces import HWM
from servonode.bus.messages import MAX_PAYLOAD
from servonode.bus.run_folder import BusError

RECONNECT_MS = 2  # a peer that starts or restarts is found within milliseconds
RECONNECT_MAX_MS = 20  # and one that does not arrive costs little
CONNECT_S = 1.0  # s, to learn whether an endpoint is alive
BACKLOG = 512  # connections that wait to be accepted
DRAIN_NS = 500_000  # longest time of one drain, so that a flooding peer cannot pin the loop
PARTS_AT_ONCE = 64  # frames of one message that are read, and thrown away, in one go

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


def place_of(address: str) -> tuple[socket.AddressFamily, Any]:
    """Family and place of ipc:///PATH or tcp://HOST:PORT, as `socket` takes them."""
    if address.startswith("ipc://"):
        return socket.AF_UNIX, address.removeprefix("ipc://")
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return family, (host.strip("[]").replace("localhost", "127.0.0.1"), int(port))


def listen(address: str) -> tuple[socket.socket, Path | None]:
    """A socket that listens at an address, and its path if it has one. BusError where that fails."""
    family, place = place_of(address)
    path = Path(place) if family == socket.AF_UNIX else None
    if path is not None:
        clear_path(address, path)
    opened = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if path is None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a run before may linger
        opened.bind(place)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        remedy = "; does its folder exist?" if path else ""
        raise BusError(f"{address} cannot be bound ({error.strerror}){remedy}") from None
    return opened, path


def clear_path(address: str, path: Path) -> None:
    """Remove what a killed process left at the path; BusError if another process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            pass
        except OSError as error:
            raise BusError(f"{address} cannot be used ({error}); remove that file") from None
        else:
            raise BusError(f"{address} is served already, by another node of this name; stop it or rename this one")
    path.unlink(missing_ok=True)


class Reader:
    """Reads one socket without blocking, and remembers what is known of it.

    Asking for EVENTS costs as much as a receive, so it is asked only when the answer may have changed. Once
    they say that nothing waits, the next arrival makes the file descriptor `fd` readable.
    """

    def __init__(self, opened: Socket) -> None:
        self._socket = opened
        self.fd = int(opened.get(zmq.FD))
        self.readable: bool | None = None  # as of the last look; None: something was done since
        self._endless = False  # in the middle of a message of too many frames

    def disturbed(self) -> None:
        """Note that the socket was used otherwise: a send may consume the signal of an arrival."""
        self.readable = None

    def look(self) -> bool:
        """Whether a message waits."""
        self.readable = bool(int(self._socket.get(EVENTS)) & POLLIN)
        return self.readable

    def has_room(self) -> bool:
        """Always: what comes waits in the socket's own queue."""
        return True

    def read(self) -> list[bytes] | None:
        """The frames of the message that waits, at most four of them kept, or None."""
        if not (self.readable or self.look()):
            return None
        self.readable = None
        if self._endless and not self._skip():
            return None
        recv = self._socket.recv
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
        except zmq.Again:  # its sender went away meanwhile
            return None
        return frames

    def _skip(self) -> bool:
        """Throw away some of what is left of a message of too many frames; whether it is over."""
        recv = self._socket.recv
        with contextlib.suppress(zmq.Again):
            for _ in range(PARTS_AT_ONCE):
                if not recv(NOBLOCK, copy=False).more:
                    self._endless = False
                    break
        return not self._endless
