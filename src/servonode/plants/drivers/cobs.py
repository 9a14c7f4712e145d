"""COBS, the framing of packets on a serial line: no zero byte within a packet, and one at its end."""


def stuffed(data: bytes) -> bytes:
    """The data encoded by COBS, without zero bytes, and the zero byte that ends it."""
    out, parts = bytearray(), data.split(b"\0")
    for i, part in enumerate(parts):
        last = i + 1 == len(parts)
        full = (len(part) - last) // 254 if part else 0  # blocks of 254 bytes that no zero follows
        for at in range(0, 254 * full, 254):
            out += b"\xff" + part[at : at + 254]
        out.append(len(part) - 254 * full + 1)
        out += part[254 * full :]
    return bytes(out) + b"\0"


def unstuffed(frame: bytes) -> bytes:
    """The data of a frame that came without its last zero byte; empty where the frame is no COBS."""
    out, i = bytearray(), 0
    while i < len(frame):
        code = frame[i]
        part = frame[i + 1 : i + code]
        if code == 0 or len(part) != code - 1 or 0 in part:
            return b""
        out += part
        i += code
        if code < 0xFF and i < len(frame):
            out.append(0)
    return bytes(out)
