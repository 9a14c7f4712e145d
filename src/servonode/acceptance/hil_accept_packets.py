"""Packets that firmware must refuse, for `servonode hil accept`: good ones of inputs with one defect."""

import struct
from binascii import crc_hqx
from collections.abc import Callable

from servonode.plants.drivers.packets import LAST_STEP, STATE, VERSION


def _sealed(packet: bytes) -> bytes:
    """The packet with its CRC corrected."""
    return packet[:-2] + struct.pack("<H", crc_hqx(packet[:-2], 0xFFFF))


def _with(at: int, field: bytes) -> Callable[[bytes], bytes]:
    """Puts this into a packet, from this byte on."""
    return lambda packet: _sealed(packet[:at] + field + packet[at + len(field) :])


LENGTH = "compare the length with the payload's"
PACKETS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "corrupt packet": (
        lambda packet: packet[:-1] + bytes((packet[-1] ^ 1,)), "compare the CRC before anything else is accepted",
    ),
    "other magic": (_with(0, b"\0"), "refuse what does not begin with the magic number"),
    "other version": (_with(2, bytes((VERSION + 1,))), "refuse packets of another protocol version"),
    "other type": (_with(3, bytes((STATE,))), "take setups and `applied` alone"),
    "late step": (_with(20, struct.pack("<Q", LAST_STEP + 1)), "refuse steps above 2^53"),
    "unknown flag": (_with(28, b"\x08"), "refuse flags that have no meaning"),
    "short packet": (lambda packet: _sealed(packet[:-3]), LENGTH),
    "long packet": (lambda packet: _sealed(packet + bytes(4)), LENGTH),
}  # fmt: skip
