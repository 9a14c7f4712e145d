"""Keys of the cache: digests of all that a kernel depends on.

The text of a kernel depends on what states it, and on the modules that turn this into text. A changed definition is
another key, never a stale hit; a change in a module that does not derive is no other key.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from servonode.kernels.host import this_host, version_of

_PACKAGE = "servonode"
_FOLDER = Path(__file__).parents[1]
_NAMED = re.compile(rf"{_PACKAGE}([\w.]*)(?: import (\([^)]*\)|[^\n]*))?")
ROOMS = ("kernels", "mechanics", "robots", "controllers/engine", "controllers/inversion")  # their modules make kernels


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
def code_digest(*modules: str) -> str:
    """A digest of the code of servonode's modules, given without the package's name, and of those that they import.

    Imports are followed within ROOMS: the others read, keep, or word, but make nothing of a kernel.
    """
    return digest_of_code(_code(), *modules)


@cache
def _code() -> Code:
    return code_of(_sources())


def _sources() -> dict[str, bytes]:
    """The sources of ROOMS by the names of their modules."""
    files = (file for room in ROOMS for file in sorted((_FOLDER / room).glob("*.py")))
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
