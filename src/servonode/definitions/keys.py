"""Keys of the cache: digests of all that a kernel depends on.

The text of a kernel depends on what states it, and on the modules that turn this into text. A changed definition is
another key, never a stale hit; a comment in a module that derives, or a change in one that does not, is no other key.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from servonode.definitions.store import stored
from servonode.kernels.host import this_host, version_of

_PACKAGE = "servonode"
_FOLDER = Path(__file__).parents[1]
ROOMS = ("kernels", "mechanics", "controllers/engine", "controllers/inversion")  # their modules make kernels


def key_of(*parts: str) -> str:
    """The cache key of the given definition parts, on this computer and with these versions of the libraries."""
    return _digest("\0".join((*parts, versions_digest())).encode())[:32]


@cache
def versions_digest() -> str:
    """A digest of what the machine code of a text depends on: interpreter, processor, libraries, and the compiler."""
    libraries = [f"{name} {version_of(name)}" for name in ("numpy", "sympy")]
    return _digest("\n".join([repr(this_host()), code_digest("kernels.build"), *libraries]).encode())


@cache
def code_digest(*modules: str) -> str:
    """A digest of the code of servonode's modules, given without the package's name, and of those that they import.

    Imports are followed within ROOMS: the others read, keep, or word, but make nothing of a kernel. Comments,
    docstrings and the layout of lines do not count. It is kept in the cache, for parsing takes half a second.

    Raises:
        CacheError: the cache cannot be read or written.
    """
    sources = _sources()
    digest = hashlib.sha256(repr((modules, sys.version)).encode())
    for name, source in sources.items():
        digest.update(name.encode() + b"\0" + source + b"\0")
    return stored(digest.hexdigest()[:32], str, lambda: digest_of_code(sources, *modules))


@cache
def _sources() -> dict[str, bytes]:
    """The sources of ROOMS by the names of their modules."""
    files = (file for room in ROOMS for file in sorted((_FOLDER / room).glob("*.py")))
    named = ((file.relative_to(_FOLDER).with_suffix("").parts, file) for file in files)
    return {".".join(parts).removesuffix(".__init__"): file.read_bytes() for parts, file in named}


def digest_of_code(sources: Mapping[str, bytes], *modules: str) -> str:
    """The digest of `code_digest`, for sources by module."""
    digest = hashlib.sha256()
    for name, tree in sorted(_reached(sources, modules).items()):
        digest.update(f"{name}\0{ast.dump(_without_docstrings(tree))}\0".encode())
    return digest.hexdigest()


def _reached(sources: Mapping[str, bytes], modules: tuple[str, ...]) -> dict[str, ast.Module]:
    """The modules and those that they import, in turn, as far as there are sources of them."""
    found: dict[str, ast.Module] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in sources and name not in found:
            found[name] = ast.parse(sources[name])
            waiting += [*_imported(found[name]), name.rpartition(".")[0]]
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    """What a module imports from servonode, within functions and for type checkers too; some are no modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        yield from (each.removeprefix(f"{_PACKAGE}.") for each in names if each.startswith(f"{_PACKAGE}."))


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return tree


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
