"""Packets over UDP, one a datagram, between one peer and a socket to which nobody else can send."""

import socket
from collections import Counter

from servonode.bus import BusError
from servonode.plants.drivers.packets import SIZE

IP_RECVERR, IPV6_RECVERR = 11, 25  # options of Linux: the next call then reports an unreachable port


class UdpTransport:
    """A UDP socket, bound to the address from which the peer is reached; open it after the fork."""

    lost = ""  # a network cannot tell

    def __init__(self, address: str, port: int) -> None:
        self.counts: Counter[str] = Counter()
        self.came = 0
        self.place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        self._peer = (address, port)
        self._family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket: socket.socket | None = None
        self._refused = False  # whether nobody listens at the peer's address

    def open(self) -> None:
        """Bind to the address from which the peer is reached; BusError where it cannot be reached."""
        opened = socket.socket(self._family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            with socket.socket(self._family, socket.SOCK_DGRAM) as probe:
                probe.connect(self._peer)  # sends nothing
                own = probe.getsockname()[0]
            opened.bind((own, 0))
            if self._family == socket.AF_INET:
                opened.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
            else:
                opened.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        except OSError as error:
            opened.close()
            text = f"{self._peer[0]} cannot be reached from this computer ({error.strerror})"
            raise BusError(f"{text}; check the network, or give another plant.device.address") from None
        self._socket = opened

    @property
    def fds(self) -> tuple[int, ...]:
        """The socket's descriptor."""
        return () if self._socket is None else (self._socket.fileno(),)

    @property
    def hint(self) -> str:
        """A possible reason why the peer does not answer; empty: it has answered."""
        where = f"{self._peer[0]} port {self._peer[1]}"
        if self._refused:
            return f"nobody listens at {where}; start the firmware, or give its plant.device.address"
        return (
            ""
            if self.came
            else f"nothing comes from {where}; is the board on, is that its address, does no other host drive it?"
        )

    def due(self) -> int | None:
        """None: nothing waits."""
        return None

    def send(self, packet: bytes) -> None:
        """Send a datagram."""
        if self._socket is None:
            return
        for _ in range(2):  # the first call may only report that the one before found nobody
            try:
                self._socket.sendto(packet, self._peer)
                return
            except BlockingIOError:
                break
            except OSError:
                self._refused = True
        self.counts["unsent"] += 1

    def receive(self, bound: int) -> list[bytes]:
        """The datagrams of the peer, at most so many; those of others are counted."""
        taken: list[bytes] = []
        for _ in range(bound):
            if self._socket is None:
                break
            try:
                data, sender = self._socket.recvfrom(SIZE + 1)
            except BlockingIOError:
                break
            except OSError:
                self._refused = True
                continue
            if sender[:2] != self._peer:
                self.counts["peer"] += 1
                continue
            self.came += len(data)
            self._refused = False
            taken.append(data)
        return taken

    def reopen(self) -> None:
        """Do nothing: a socket is never lost."""

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()
