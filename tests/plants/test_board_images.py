"""Boards: each program is what its processor starts."""

import struct
from pathlib import Path

import pytest

from tests.helpers.boards import BOARDS, addresses, program, tool

FLASH = {"qemu": (0x0, 2**22), "rp2040": (0x10000100, 2**21 - 256), "stm32f446": (0x08000000, 2**19)}
RAM_ENDS = {"qemu": 0x20400000, "rp2040": 0x20040000, "stm32f446": 0x20020000}
BOOT2 = 256  # bytes before the RP2040's program


def crc_32(data: bytes) -> int:
    """CRC-32/MPEG-2."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return crc


@pytest.mark.slow
@pytest.mark.parametrize("board", BOARDS)
def test_a_board_compiles_without_a_warning_and_begins_as_its_processor_reads_it(board: str, tmp_path: Path) -> None:
    file, image = program(board), tmp_path / "image"
    tool("objcopy", "-O", "binary", file, image)
    content, (begin, room) = image.read_bytes(), FLASH[board]
    if board == "rp2040":
        assert crc_32(b"123456789") == 0x0376E6E7
        assert crc_32(content[: BOOT2 - 4]) == int.from_bytes(content[BOOT2 - 4 : BOOT2], "little")
        content = content[BOOT2:]
    stack, start = struct.unpack_from("<2I", content)
    found = addresses(file)
    assert found["vectors"] == begin
    assert stack == RAM_ENDS[board]
    assert start == found["reset"] | 1  # in Thumb code
    assert len(content) <= room
    interrupts = {each for (each,) in struct.iter_unpack("<I", content[64 : 64 + 4 * 48])}
    handler = {"qemu": "receive", "rp2040": "serve_uart", "stm32f446": "serve_usart"}[board]
    assert found[handler] | 1 in interrupts
