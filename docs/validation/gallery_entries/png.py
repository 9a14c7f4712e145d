"""Small PNG files in all their colours: no palette, which would give an arrow the colour of a path."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

STEPS = 31
ROUNDED = np.round(np.round(np.arange(256) / 255 * STEPS) / STEPS * 255).astype(np.uint8)


def packed(image: Image.Image) -> bytes:
    """The smaller of two PNG files: rows filtered as Pillow does it, or not at all, which suits flat colours.

    Red, green and blue are rounded by at most 4 of 255, which nobody sees; that makes the file a third smaller.
    """
    filtered = io.BytesIO()
    image = Image.fromarray(ROUNDED[np.asarray(image.convert("RGB"))])
    image.save(filtered, "png", optimize=True)
    return min(_unfiltered(image), filtered.getvalue(), key=len)


def _unfiltered(image: Image.Image) -> bytes:
    width, height = image.size
    rows = np.asarray(image).reshape(height, 3 * width)
    data = zlib.compress(np.insert(rows, 0, 0, axis=1).tobytes(), 9)  # before each row its filter, 0: none
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits of red, green and blue
    chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    texts = (
        struct.pack(">I", len(text)) + name + text + struct.pack(">I", zlib.crc32(name + text)) for name, text in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(texts)
