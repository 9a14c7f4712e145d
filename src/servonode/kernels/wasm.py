"""From kernels to a WebAssembly module, which browsers compute with. Not imported where it is in the cache.

LLVM's object for wasm32 is a module but for what it exports. It imports its memory, the start of its stack, and the
functions of libm that WebAssembly has no instruction for: sin, cos, atan2 and their like.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm

from servonode.kernels import ir
from servonode.kernels.build import TextOf, object_for
from servonode.kernels.contents import ENTRY
from servonode.kernels.language import parse
from servonode.kernels.llvm import llvm_text

OPTIMISATION = 2  # LLVM's level
TRIPLE, FEATURES = "wasm32-unknown-unknown", "+bulk-memory,+sign-ext,+nontrapping-fptoint"
_CUSTOM, _EXPORT, _SYMBOLS, _OF_FUNCTION, _OF_DATA = 0, 7, 8, 0, 1  # kinds of sections, of their parts, of symbols
_CODE, _INDICES, _WITH_ADDEND = 10, (0, 6, 7), (3, 4, 5, 8, 9, 11, 14, 15, 16, 17)  # a section; kinds of relocations
_UNDEFINED, _NAMED = 0x10, 0x40  # flags of a symbol
_BEHIND_EXPORTS = frozenset({8, 9, 10, 11, 12})  # sections: start, elements, code, data, and the number of its parts


def wasm_module(functions: Mapping[str, tuple[str, str]], text_of: TextOf) -> bytes:
    """A module that exports functions of kernels, each by its name here; with what they call, and nothing else.

    functions: kernel and function of each. text_of: gives the text of a kernel. An export takes the address of slots of
    8 bytes, one an argument, and returns 8 bytes (see `llvm.llvm_text`).

    Raises:
        KernelError: a kernel has no such function.
    """
    lines = (f"from {kernel} import {function} as {name}\n" for name, (kernel, function) in functions.items())
    module = parse("".join(lines), text_of)
    entries = {name: module.names[name] for name in functions}
    return with_exports(object_for(_machine(), llvm_text(_needed(module, entries), entries=entries), OPTIMISATION))


def _needed(module: ir.Module, entries: Mapping[str, ir.Signature]) -> ir.Module:
    """The module with these functions and those that they call, in turn."""
    wanted, waiting = set[str](), [each.symbol for each in entries.values()]
    while waiting:
        symbol = waiting.pop()
        if symbol not in wanted:
            wanted.add(symbol)
            waiting += module.functions[symbol].calls
    return replace(module, functions={name: each for name, each in module.functions.items() if name in wanted})


@functools.cache
def _machine() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu="generic", features=FEATURES, opt=OPTIMISATION)


class _Bytes:
    """Reads the bytes of a module, one after the other."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    @property
    def left(self) -> bool:
        return self.at < len(self.data)

    def number(self) -> int:
        """A whole number of seven bits a byte, lowest first."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def part(self) -> bytes:
        """The bytes whose number comes first."""
        size = self.number()
        self.at += size
        return self.data[self.at - size : self.at]


def _encoded(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _encoded(rest) if rest else bytes([low])


def _sized(data: bytes) -> bytes:
    return _encoded(len(data)) + data


def with_exports(code: bytes) -> bytes:
    """An object as a module that exports each of its functions `entry.NAME` as NAME, without what linkers read."""
    head, sections, found, padded = code[:8], list[tuple[int, bytes]](), dict[str, int](), list[int]()
    reader = _Bytes(code, 8)
    while reader.left:
        kind = reader.number()
        content = reader.part()
        if kind != _CUSTOM:
            sections.append((kind, content))
        elif (name := (inner := _Bytes(content)).part()) in (b"linking", b"reloc.CODE"):
            inner.number()  # its version, or the section
            if name == b"linking":
                found |= dict(_functions(inner))
            else:
                padded += _padded(inner)
    sections = [(kind, _short(content, padded) if kind == _CODE else content) for kind, content in sections]
    listed = b"".join(_sized(name.encode()) + b"\0" + _encoded(index) for name, index in found.items())
    before = [each for each in sections if each[0] not in _BEHIND_EXPORTS]
    behind = [each for each in sections if each[0] in _BEHIND_EXPORTS]
    whole = [*before, (_EXPORT, _encoded(len(found)) + listed), *behind]
    return head + b"".join(bytes([kind]) + _sized(content) for kind, content in whole)


def _functions(linking: _Bytes) -> Iterator[tuple[str, int]]:
    """The entries among the functions of a table of symbols, with their numbers."""
    while linking.left:
        kind, part = linking.number(), _Bytes(linking.part())
        for _ in range(part.number() if kind == _SYMBOLS else 0):
            of, flags = part.number(), part.number()
            defined = not flags & _UNDEFINED
            if of == _OF_DATA:
                part.part()
                for _ in range(3 if defined else 0):  # its segment, place and size
                    part.number()
                continue
            index = part.number()
            named = (defined or flags & _NAMED) and of != 3  # 3: a section, which has no name
            name = part.part().decode() if named else ""
            if of == _OF_FUNCTION and defined and name.startswith(ENTRY):
                yield name.removeprefix(ENTRY), index


def _padded(relocations: _Bytes) -> Iterator[int]:
    """Where in the code the numbers of functions, types and globals stand, in five bytes each for a linker to fill."""
    for _ in range(relocations.number()):
        kind, at, _ = relocations.number(), relocations.number(), relocations.number()
        if kind in _WITH_ADDEND:
            relocations.number()
        if kind in _INDICES:
            yield at


def _short(code: bytes, padded: list[int]) -> bytes:
    """A section of code whose padded numbers have as few bytes as they need."""
    reader, bodies = _Bytes(code), list[bytes]()
    n = reader.number()
    for _ in range(n):
        end = reader.number() + reader.at
        parts, at = list[bytes](), reader.at
        for place in (each for each in sorted(padded) if at <= each < end):
            parts += [code[at:place], _encoded(_Bytes(code, place).number())]
            at = place + 5
        bodies.append(_sized(b"".join([*parts, code[at:end]])))
        reader.at = end
    return _encoded(n) + b"".join(bodies)
