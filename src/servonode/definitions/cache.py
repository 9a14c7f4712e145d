"""Kernels from the disk cache, or derived, compiled and kept there; once per process.

Their keys cover the sources that define a kernel and everything that turns them into machine code. The text of a kernel
depends on what states it, and on the modules that turn this into text. A changed definition is another key, never a
stale hit; a change in a module that does not derive is no other key.
"""

import gc
import hashlib
import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from servonode.definitions.progress import doing, done, progress_of
from servonode.definitions.store import SUFFIX, CacheError, cache_root, read, reported, stored, untrusted_reason
from servonode.kernels.contents import Contents

if TYPE_CHECKING:
    from servonode.kernels.native import Kernel

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from servonode.kernels.host import this_host, version_of

__all__ = [
    "CacheError",
    "cache_root",
    "code_digest",
    "has_numbers",
    "kept_text",
    "key_of",
    "load",
    "loaded_digests",
    "stored",
    "text_of",
    "versions_digest",
    "wasm_of",
]
_loaded: dict[str, tuple["Kernel", bytes]] = {}  # with their descriptions, by name
_with_numbers: set[str] = set()  # names of those whose text holds numbers of a launch file
_TAKEN = re.compile(r"^from (kernel_\w+) import", re.MULTILINE)

Build = Callable[[], tuple[str, bytes]]
_PACKAGE = "servonode"
_FOLDER = Path(__file__).parents[1]
_NAMED = re.compile(rf"{_PACKAGE}([\w.]*)(?: import (\([^)]*\)|[^\n]*))?")
ROOMS = (
    "kernels",
    "mechanics",
    "controllers/engine",
    "controllers/inversion",
)  # their modules make kernels


def key_of(*parts: str) -> str:
    """The cache key of the given definition parts, on this computer and with these versions of the libraries."""
    return _digest("\0".join((*parts, versions_digest())).encode())[:32]


def code_key(ir: str) -> str:
    """The cache key of object code: what turns LLVM IR into it is llvmlite for this processor, as one module asks."""
    host = this_host()
    parts = (ir, host.processor, host.llvmlite, str(host.optimisation), _code().digests["kernels.build"])
    return "code_" + _digest("\0".join(parts).encode())[:32]


@cache
def versions_digest() -> str:
    """A digest of what the machine code of a text depends on: interpreter, processor, libraries, and the compiler."""
    libraries = [f"{name} {version_of(name)}" for name in ("numpy", "sympy")]
    return _digest("\n".join([repr(this_host()), code_digest("kernels.build"), *libraries]).encode())


class Code(NamedTuple):
    """Modules by name: a digest of each source, and the names that it takes from servonode, some no modules."""

    digests: dict[str, str]
    imports: dict[str, list[str]]


@cache
def code_digest(*modules: str, rooms: tuple[str, ...] = ()) -> str:
    """A digest of the code of servonode's modules, given without the package's name, and of those that they import.

    Imports are followed within ROOMS: the others read, keep, or word, but make nothing of a kernel. rooms: and within
    these, of a wing that makes machines.
    """
    return digest_of_code(_code(*rooms), *modules)


@cache
def _code(*rooms: str) -> Code:
    return code_of(_sources(*ROOMS, *rooms))


def _sources(*rooms: str) -> dict[str, bytes]:
    """The sources of rooms by the names of their modules."""
    files = (file for room in rooms for file in sorted((_FOLDER / room).glob("*.py")))
    named = ((file.relative_to(_FOLDER).with_suffix("").parts, file) for file in files)
    return {".".join(parts).removesuffix(".__init__"): file.read_bytes() for parts, file in named}


def code_of(sources: Mapping[str, bytes]) -> Code:
    """The code of sources by module."""
    return Code(
        {name: hashlib.sha256(source).hexdigest() for name, source in sources.items()},
        {name: sorted(set(_imported(source.decode()))) for name, source in sources.items()},
    )


def digest_of_code(code: Code, *modules: str) -> str:
    """The digest of `code_digest`, for any code."""
    parts = [f"{name}\0{code.digests[name]}" for name in sorted(reached(code, *modules))]
    return _digest("\0".join(parts).encode())


def reached(code: Code, *modules: str) -> set[str]:
    """The modules and those that they import, in turn, as far as there is code of them."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in code.digests and name not in found:
            found.add(name)
            waiting += [*code.imports[name], name.rpartition(".")[0]]
    return found


def _imported(source: str) -> Iterator[str]:
    """What a module imports from servonode, within functions and for type checkers too, and what else it names."""
    for package, names in _NAMED.findall(source):
        prefix = package.removeprefix(".")
        yield prefix
        listed = re.sub(r"#.*|[()\\]", "", names).split(",")
        yield from (f"{prefix}.{each.split()[0]}".removeprefix(".") for each in listed if each.split())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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


def wasm_of(functions: Mapping[str, tuple[str, str]]) -> bytes:
    """The WebAssembly module of functions of kernels that this process has loaded, see `kernels.wasm.wasm_module`.

    Raises:
        CacheError: the cache cannot be read or written.
    """
    parts = [repr(sorted(functions.items())), code_digest("kernels.wasm")]

    def made() -> bytes:
        from servonode.kernels.wasm import wasm_module

        return wasm_module(functions, text_of)

    return stored(key_of("wasm", *parts), bytes, made)


def kept_description(key: str) -> bytes | None:
    """The description of a key, if it is in the cache: nothing is made, and nothing of it is run."""
    file = cache_root() / f"{key}{SUFFIX}"
    found = read(file, Compiled) if untrusted_reason(file) is None else None
    return None if found is None else found.description


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


def text_of(name: str) -> str:
    """The text of a kernel that this process has loaded, by its name."""
    return _loaded[name][0].text


def loaded_digests() -> dict[str, str]:
    """A digest of the text of each kernel that this process has loaded, by its name: equal texts compute the same."""
    return {name: hashlib.sha256(kernel.text.encode()).hexdigest() for name, (kernel, _) in _loaded.items()}


@contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage collection, which takes a tenth of the time: expressions make no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _compiled(build: Build, what: str, numbers: bool, later: Sequence[str]) -> Compiled:
    from servonode.kernels.build import built
    from servonode.kernels.library import functions_of

    with reported(f"deriving and compiling {what}, once"), progress_of(what), _no_collections():
        begin = monotonic()
        text, description = build()
        lines, derived = text.count("\n"), monotonic()
        doing("compiling", f"{lines} lines")

        def kept_code(ir: str, make: Callable[[], bytes]) -> bytes:
            return stored(code_key(ir), bytes, make)

        inner = (*later, *functions_of("tree"))  # which Python never calls
        code, contents = built(text, text_of, kept_code, numbers or _takes_numbers(text), inner)
        times = f"derived in {derived - begin:.1f} s, {lines} lines compiled in {monotonic() - derived:.1f} s"
        done(f"{what}: {times}")
    return Compiled(text, description, code, contents)
