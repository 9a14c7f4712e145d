"""A bound on the connections to a socket that others can reach: libzmq has none.

Without it, connections would take the descriptors that the process needs for its operator.
"""

import os
import resource
from contextlib import suppress

import zmq

from servonode.bus.zmq_io import HANDSHAKE_MS, Socket, place

CONNECTIONS = 128  # at once
PAUSE_NS = 1_500_000 * HANDSHAKE_MS  # in which libzmq closes connections without handshake
NONE_FREE = 2**31


class ConnectionLimit:
    """Unbinds a socket for a while when too many connect; who is connected already stays."""

    def __init__(self, opened: Socket, address: str) -> None:
        self._socket, self._address = opened, place(address)
        self._bind_ns = 0  # the time at which to bind again; 0: it is bound
        free, limit = _lowest_free(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # the number of a descriptor that only too many connections can have
        self._most = free + (CONNECTIONS if limit < 0 else min(CONNECTIONS, (limit - free) // 2))

    def exceeded(self, now: int) -> bool:
        """Whether it was unbound now, for PAUSE_NS; binds it again when the pause is over."""
        if self._bind_ns:
            if now >= self._bind_ns:
                self._bind_ns = now + PAUSE_NS
                with suppress(zmq.ZMQError):  # another process has taken the address meanwhile
                    self._socket.bind(self._address)
                    self._bind_ns = 0
            return False
        if _lowest_free() < self._most:
            return False
        self._socket.unbind(self._address)
        self._bind_ns = now + PAUSE_NS
        return True


def _lowest_free() -> int:
    """The lowest number of a descriptor that is free: at least so many are taken."""
    try:
        free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return NONE_FREE
    os.close(free)
    return free
