"""The UDP driver: a microcontroller on a network, a packet of docs/reference/firmware.md in each datagram."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from servonode.bus import BusError
from servonode.plants.drivers.driver import DriverError, Stated, check_pace
from servonode.plants.drivers.packet_driver import SECTION, packet_driver
from servonode.plants.drivers.packets import SIZE
from servonode.plants.drivers.transport import Transport

IP_RECVERR, IPV6_RECVERR = 11, 25  # options of Linux: the next call then reports an unreachable port


class UdpTransport(Transport):
    """A UDP socket, bound to the address from which the peer is reached; nobody else can send to it."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(f"[{address}]:{port}" if ":" in address else f"{address}:{port}")
        self._peer = (address, port)
        self._socket: socket.socket | None = None
        self._refused = False  # whether nobody listens at the peer's address

    def open(self) -> None:
        """Bind to the address from which the peer is reached; BusError where it cannot be reached."""
        family = socket.AF_INET6 if ":" in self._peer[0] else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(self._peer)  # sends nothing
                own = probe.getsockname()[0]
            opened.bind((own, 0))
            if family == socket.AF_INET:
                opened.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
            else:
                opened.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        except OSError as error:
            opened.close()
            text = f"{self._peer[0]} cannot be reached from this computer ({error.strerror})"
            raise BusError(f"{text}; check the network, or give another plant.device.address") from None
        self._socket, self.fds = opened, (opened.fileno(),)

    @property
    def hint(self) -> str:
        """A possible reason why the peer does not answer; empty: it has answered."""
        where = f"{self._peer[0]} port {self._peer[1]}"
        if self._refused:
            return f"nobody listens at {where}; start the firmware, or give its plant.device.address"
        text = f"nothing comes from {where}; is the board on, is that its address, does no other host drive it?"
        return "" if self.came else text

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

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        opened, self._socket, self.fds = self._socket, None, ()
        if opened is not None:
            opened.close()


def parsed(text: str) -> tuple[str, int] | None:
    """Address and port of a text such as `127.0.0.1:9875` or `[::1]:9875`; None for any other text."""
    host, _, port = text.rpartition(":")
    try:
        address = ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        return None
    bracketed = host.startswith("[")
    if isinstance(address, IPv6Address) != bracketed or not (
        port.isascii() and port.isdecimal() and 0 < int(port) < 65536
    ):
        return None
    return str(address), int(port)


def _check(stated: Stated) -> None:
    """Refuse what is not a numeric address, one open to others without leave, and a speed hardware cannot have."""
    text = stated.device["address"]
    if not text:
        raise DriverError(SECTION, "address", "missing; give the board's address and port, such as 127.0.0.1:9875")
    place = parsed(text)
    if place is None:
        remedy = "give a numeric address and a port, such as 127.0.0.1:9875 or [::1]:9875"
        raise DriverError(SECTION, "address", f"{text!r} is not an address; {remedy}")
    address = ip_address(place[0])
    if address.is_unspecified or address.is_multicast or address == IPv4Address("255.255.255.255"):
        raise DriverError(SECTION, "address", f"{text!r} is not the address of one machine; give the board's own")
    if not address.is_loopback and not stated.device["open_network"]:
        text = f"{text!r} may be reached by other computers, and packets have no keys: whoever can send to it can move "
        remedy = "use a network of the two alone and say plant.device.open_network = true, or a serial line"
        raise DriverError(SECTION, "address", f"{text}the machine or lie about its state; {remedy}")
    check_pace(stated)


def _exposure(stated: Stated) -> list[str]:
    """Who else can reach the machine."""
    place = _place(stated)
    who = "any user of this computer" if ip_address(place[0]).is_loopback else "every computer of that network"
    return [f"{who} can send packets to {stated.device['address']}, and in its name; there are no keys"]


def _place(stated: Stated) -> tuple[str, int]:
    place = parsed(stated.device["address"])
    assert place is not None  # else `_check` has refused it
    return place


DRIVER = packet_driver(
    "udp",
    "a microcontroller on a network",
    ("device.address", "device.open_network"),
    lambda stated: UdpTransport(*_place(stated)),
    _exposure,
    check=_check,
)
