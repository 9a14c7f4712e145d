"""ELF object code as one image, to be loaded anywhere: code, constants and a table of outside addresses.

From an object of x86-64 Linux this module takes what a linker takes: sections that are loaded, relocations relative to
the program counter, and symbols. Each function from outside is called through a stub that jumps to an address in a
table, which whoever loads the image fills.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

_LOADED, _PROGRESS, _SYMBOLS, _RELOCATIONS, _NO_BITS = 0x2, 1, 2, 4, 8
_R_PC32, _R_PLT32 = 2, 4
_X86_64 = 62
_ARRAY, _FUNCTION = 1, 2  # kinds of symbols
_STUB = 8  # bytes of a stub: jmp *offset(%rip), and two of padding
ALIGNMENT = 64


class ObjectError(ValueError):
    """Object code with something that no kernel has."""


@dataclass(frozen=True)
class Image:
    """Bytes that run anywhere once the `outside` addresses stand at their places in them."""

    code: bytes
    functions: dict[str, int]  # offset of each exported function
    arrays: dict[str, int]  # and of each exported array
    outside: dict[str, int]  # offset at which the address of each outside function belongs


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    info: int
    section: int
    value: int


def fits(code: bytes) -> bool:
    """Whether it is an object from which an image can be made: 64-bit ELF for x86-64."""
    return code[:6] == b"\x7fELF\x02\x01" and struct.unpack_from("<H", code, 18)[0] == _X86_64


def image_of(code: bytes) -> Image:
    """The image of an object.

    Raises:
        ObjectError: an image cannot be made from it, or it needs what kernels never need.
    """
    if not fits(code):
        raise ObjectError("not an ELF object for x86-64")
    start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * i)) for i in range(count)]
    symbols = _symbols(code, sections)
    places, image = _laid_out(code, sections)
    outside = sorted({each.name for each in symbols if each.section == 0 and each.name})
    stubs = {name: len(image) + _STUB * i for i, name in enumerate(outside)}
    slots = {name: len(image) + _STUB * (len(outside) + i) for i, name in enumerate(outside)}
    for name in outside:  # jmp *slot(%rip)
        image += b"\xff\x25" + struct.pack("<i", slots[name] - stubs[name] - 6) + b"\xcc\xcc"
    image += bytes(8 * len(outside))
    at = {i: _place(each, places, stubs) for i, each in enumerate(symbols)}
    for section in sections:
        if section.type == _RELOCATIONS and section.info in places:
            _relocate(code, section, places[section.info], image, at)
    exported = [each for each in symbols if each.section in places and each.info >> 4 == 1]
    arrays, functions = (
        {each.name: places[each.section] + each.value for each in exported if each.info & 15 == kind}
        for kind in (_ARRAY, _FUNCTION)
    )
    return Image(bytes(image), functions, arrays, slots)


def _symbols(code: bytes, sections: list[_Section]) -> list[_Symbol]:
    table = next(each for each in sections if each.type == _SYMBOLS)
    names = sections[table.link].offset
    found = []
    for i in range(table.size // 24):
        name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", code, table.offset + 24 * i)
        end = code.index(b"\0", names + name)
        found.append(_Symbol(code[names + name : end].decode(), info, section, value))
    return found


def _laid_out(code: bytes, sections: list[_Section]) -> tuple[dict[int, int], bytearray]:
    """The offset of each loaded section, and the image of the sections one after the other."""
    places, image = {}, bytearray()
    for i, each in enumerate(sections):
        if each.flags & _LOADED and each.size and each.type == _PROGRESS:
            image += bytes(-len(image) % max(each.alignment, 1))
            places[i] = len(image)
            image += code[each.offset : each.offset + each.size]
        elif each.flags & _LOADED and each.size and each.type == _NO_BITS:
            raise ObjectError("a kernel with memory of its own")
    image += bytes(-len(image) % 8)
    return places, image


def _place(symbol: _Symbol, places: dict[int, int], stubs: dict[str, int]) -> int | None:
    if symbol.section in places:
        return places[symbol.section] + symbol.value
    return stubs.get(symbol.name) if symbol.section == 0 else None


def _relocate(code: bytes, section: _Section, base: int, image: bytearray, at: dict[int, int | None]) -> None:
    for i in range(section.size // 24):
        offset, info, addend = struct.unpack_from("<QQq", code, section.offset + 24 * i)
        target, kind = at[info >> 32], info & 0xFFFFFFFF
        if kind not in (_R_PC32, _R_PLT32) or target is None:
            raise ObjectError(f"a relocation of kind {kind}")
        struct.pack_into("<i", image, base + offset, target + addend - (base + offset))
