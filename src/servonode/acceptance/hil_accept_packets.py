"""Packets that firmware must refuse, for `servonode hil accept`: each has one defect."""

import struct
from binascii import crc_hqx
from collections.abc import Callable

import numpy as np

from servonode.acceptance.protocol_host import Host, new_id
from servonode.plants.drivers.packet_link import PacketLink

Make = Callable[[Host, PacketLink, float], bytes]  # makes a packet with this value for every input

FIRST_INPUT = 40  # byte of a packet at which the inputs begin


def _good(host: Host, link: PacketLink, value: float, run: int = 0, src: int = 0) -> bytes:
    return link.packet_of(host.applied(value, run=run, src=src))


def _sealed(packet: bytes) -> bytes:
    """The packet with its CRC corrected."""
    return packet[:-2] + struct.pack("<H", crc_hqx(packet[:-2], 0xFFFF))


def _corrupt(host: Host, link: PacketLink, value: float) -> bytes:
    data = bytearray(_good(host, link, 0.0))
    data[FIRST_INPUT : FIRST_INPUT + 4] = struct.pack("<f", value)  # with the CRC of the original
    return bytes(data)


def _other_version(host: Host, link: PacketLink, value: float) -> bytes:
    data = _good(host, link, value)
    return _sealed(data[:2] + bytes((data[2] + 1,)) + data[3:])


def _not_finite(number: float) -> Make:
    def make(host: Host, link: PacketLink, value: float) -> bytes:
        data = _good(host, link, value)
        return _sealed(data[:FIRST_INPUT] + struct.pack("<f", number) + data[FIRST_INPUT + 4 :])

    return make


WRONG: dict[str, tuple[Make, str]] = {
    "corrupt packet": (_corrupt, "compare the CRC before anything else is accepted"),
    "other version": (_other_version, "refuse packets of another protocol version"),
    "short packet": (
        lambda host, link, value: _sealed(_good(host, link, value)[:-3]),
        "compare the length with the payload's",
    ),
    "foreign run": (
        lambda host, link, value: _good(host, link, value, run=new_id()),
        "take inputs of the run of the last setup alone",
    ),
    "foreign host": (
        lambda host, link, value: _good(host, link, value, src=new_id()),
        "take inputs of the host alone that began the run",
    ),
    "nan": (_not_finite(np.nan), "test inputs with isfinite before they are clamped"),
    "infinity": (_not_finite(np.inf), "test inputs with isfinite before they are clamped"),
}
