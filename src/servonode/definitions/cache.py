"""Kernels from the disk cache, or derived, compiled and kept there; once per process.

Their keys cover the sources that define a kernel and everything that turns them into machine code (`keys`).
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from servonode.definitions.keys import code_digest, code_key, key_of, versions_digest
from servonode.definitions.progress import doing, done, progress_of
from servonode.definitions.store import CacheError, cache_root, reported, stored
from servonode.kernels.contents import Contents

if TYPE_CHECKING:
    from servonode.kernels.native import Kernel

__all__ = [
    "CacheError",
    "cache_root",
    "code_digest",
    "has_numbers",
    "kept_text",
    "key_of",
    "load",
    "loaded_digests",
    "text_of",
    "versions_digest",
]
_loaded: dict[str, tuple["Kernel", bytes]] = {}  # with their descriptions, by name
_with_numbers: set[str] = set()  # names of those whose text holds numbers of a launch file
_TAKEN = re.compile(r"^from (kernel_\w+) import", re.MULTILINE)

Build = Callable[[], tuple[str, bytes]]


class Compiled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel as it is kept: its text, what its maker says about it, its machine code."""

    text: str
    description: bytes
    code: bytes
    contents: Contents


def load(
    key: str, build: Build, what: str = "", numbers: bool = False, later: Sequence[str] = ()
) -> tuple["Kernel", bytes]:
    """The compiled kernel and the description of a key, from the cache or built by `build`; once per process.

    `build` returns the text (see `kernels.language`) and the description. What takes longer than a second to make is
    said, with `what`. Where others can write into the cache it is not used, which is reported once.

    numbers: the text holds numbers of a launch file. It is compiled once for all texts that differ in numbers only,
    with the bits of each, and so is each kernel that takes functions from it.
    later: functions that are not compiled here, see `build.built`.

    Raises:
        CacheError: the cache cannot be read or written.
    """
    name = f"kernel_{key}"
    if name not in _loaded:
        from servonode.kernels.native import Kernel  # with llvmlite, which takes 50 ms: commands without kernels do not

        found = stored(key, Compiled, lambda: _compiled(build, what or "a kernel of the loop", numbers, later))
        _loaded[name] = Kernel(name, found.text, found.code, found.contents), found.description
        if numbers or _takes_numbers(found.text):
            _with_numbers.add(name)
    return _loaded[name]


def has_numbers(name: str) -> bool:
    """Whether the text of a kernel that this process has loaded holds numbers of a launch file."""
    return name in _with_numbers


def _takes_numbers(text: str) -> bool:
    return any(each in _with_numbers for each in _TAKEN.findall(text))


def kept_text(key: str, make: Callable[[], str], what: str = "") -> str:
    """The text of a key that took long to find, from the cache or made; `what` is said where it takes seconds to make.

    Raises:
        CacheError: the cache cannot be read or written.
    """

    def found() -> str:
        with reported(f"computing {what}, once"), progress_of(what):
            return make()

    return stored(key, str, found if what else make)


def _kept_code(ir: str, make: Callable[[], bytes]) -> bytes:
    """Object code of LLVM IR, from the cache or made."""
    return stored(code_key(ir), bytes, make)


def text_of(name: str) -> str:
    """The text of a kernel that this process has loaded, by its name."""
    return _loaded[name][0].text


def loaded_digests() -> dict[str, str]:
    """A digest of the text of each kernel that this process has loaded, by its name: equal texts compute the same."""
    return {name: hashlib.sha256(kernel.text.encode()).hexdigest() for name, (kernel, _) in _loaded.items()}


def _compiled(build: Build, what: str, numbers: bool, later: Sequence[str]) -> Compiled:
    from servonode.kernels.build import built

    with reported(f"deriving and compiling {what}, once"), progress_of(what):
        begin = monotonic()
        text, description = build()
        lines, derived = text.count("\n"), monotonic()
        doing("compiling", f"{lines} lines")
        code, contents = built(text, text_of, _kept_code, numbers or _takes_numbers(text), later)
        times = f"derived in {derived - begin:.1f} s, {lines} lines compiled in {monotonic() - derived:.1f} s"
        done(f"{what}: {times}")
    return Compiled(text, description, code, contents)
