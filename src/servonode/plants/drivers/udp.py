"""The UDP driver: a microcontroller on a network, a packet of docs/reference/firmware.md in each datagram."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from servonode.plants.drivers.driver import DriverError, Stated, check_pace
from servonode.plants.drivers.packet_driver import packet_driver

if TYPE_CHECKING:  # imported when a socket is opened
    from servonode.plants.drivers.transport import Transport

SECTION = "plant.device"


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


def _said(stated: Stated) -> list[str]:
    """Who else can reach the machine."""
    place = parsed(stated.device["address"])
    assert place is not None  # else `_check` has refused it
    who = "any user of this computer" if ip_address(place[0]).is_loopback else "every computer of that network"
    return [f"{who} can send packets to {stated.device['address']}, and in its name; there are no keys"]


def _transport(stated: Stated) -> "Transport":
    from servonode.plants.drivers.udp_transport import UdpTransport

    place = parsed(stated.device["address"])
    assert place is not None  # else it was refused
    return UdpTransport(*place)


DRIVER = packet_driver(
    "udp", "a microcontroller on a network", ("device.address", "device.open_network"), _transport, _said, check=_check
)
