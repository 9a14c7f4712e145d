"""Packets as frames of a CAN bus, and back: docs/reference/firmware.md, the section on CAN.

Byte 0 of a frame has whether it is the first (bit 7) and the last (bit 6) of its packet, and its number in it, modulo
64; up to 7 bytes of the packet follow. The packet's own checksum says whether what came together belongs together.
"""

from collections import Counter

from servonode.plants.drivers.packets import SIZE

DATA = 7  # bytes of a packet in a frame
BITS = 135  # of a frame of 8 bytes on the bus at most, with the bits that are stuffed in
FIRST, LAST, NUMBER = 0x80, 0x40, 0x3F


def frames_of(packet: bytes) -> list[bytes]:
    """The frames of a packet."""
    starts = range(0, len(packet), DATA)
    return [
        bytes([FIRST * (at == 0) | LAST * (at == starts[-1]) | (i & NUMBER)]) + packet[at : at + DATA]
        for i, at in enumerate(starts)
    ]


class Joiner:
    """Puts frames together to packets. counts: those that came out of order (`frame`), or made too much (`length`)."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._packet = bytearray()
        self._next = -1  # number of the frame that comes next; -1: a first one

    def take(self, frame: bytes) -> bytes:
        """The packet that a frame completes; empty: none."""
        if len(frame) < 2:
            return self._refuse("frame")
        head = frame[0]
        if head & FIRST:
            self._counts["frame"] += self._next >= 0  # the packet before has no end
            self._packet.clear()
            self._next = 0
        if self._next < 0 or head & NUMBER != self._next & NUMBER:
            return self._refuse("frame")
        self._packet += frame[1:]
        self._next += 1
        if len(self._packet) > SIZE:
            return self._refuse("length")
        if not head & LAST:
            return b""
        self._next = -1
        return bytes(self._packet)

    def _refuse(self, reason: str) -> bytes:
        self._counts[reason] += 1
        self._next = -1
        return b""
