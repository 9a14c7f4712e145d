"""The disk cache of generated modules: written atomically, verified by SHA-256 before anything is imported.

A kernel is a folder `<cache>/<key>/` with the generated source, a description as JSON, the machine code that
numba keeps beside the source, and a manifest of digests. numba itself neither notices nor survives a damaged
file, so the manifest is checked first. The key covers the sources that define the kernel and the versions of
everything that turns them into machine code; a changed definition is another key, never a stale hit.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

_LIBRARIES = ("numba", "llvmlite", "numpy", "sympy")
_SOURCE, _DESCRIPTION, _MANIFEST = "kernel.py", "description.json", "manifest.json"


class CacheError(ValueError):
    """The kernel cache is damaged or cannot be written; the text says which folder and how to mend it."""


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/servonode/kernels` (default `~/.cache`); relative values of the variable are ignored."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    return base / "servonode" / "kernels"


@cache
def versions_digest() -> str:
    """A digest of interpreter, processor and libraries: what the machine code depends on beside its source."""
    parts = [sys.version, platform.machine(), platform.processor(), _processor_model()]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES]
    return _digest("\n".join(parts).encode())


@cache
def _processor_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


@cache
def sources_digest(*folders: Path) -> str:
    """A digest of every Python source directly in the folders (a file counts as itself)."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.glob("*.py")) if folder.is_dir() else [folder]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def key_of(*parts: str) -> str:
    """The cache key of the given definition parts."""
    return _digest("\0".join((*parts, versions_digest())).encode())[:32]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load(key: str, build: Callable[[], tuple[str, bytes]]) -> tuple[ModuleType, bytes]:
    """The compiled module and the description of a key, from the cache or built by `build`.

    `build` returns the generated source and the description. The module keeps one stable name in `sys.modules`,
    as numba's stored machine code demands.

    Raises:
        CacheError: the folder of this key is damaged, or the cache cannot be written.
    """
    folder = cache_root() / key
    name = f"servonode_kernel_{key}"
    if name in sys.modules and folder.exists():
        return sys.modules[name], (folder / _DESCRIPTION).read_bytes()
    if not folder.exists():
        _write(folder, name, build)
        if name in sys.modules:  # compiled in this process a moment ago
            return sys.modules[name], (folder / _DESCRIPTION).read_bytes()
    verify(folder)
    return _import(folder, name), (folder / _DESCRIPTION).read_bytes()


def verify(folder: Path) -> None:
    """Check every file of a kernel against its manifest.

    Raises:
        CacheError: a file is missing, changed or not listed.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        if not isinstance(manifest, dict):
            raise ValueError("not a table")
        found = {str(file.relative_to(folder)): _digest(file.read_bytes()) for file in _content(folder)}
    except (OSError, ValueError):
        manifest, found = {}, {_MANIFEST: ""}
    if manifest != found:
        wrong = sorted(name for name in {*manifest, *found} if manifest.get(name) != found.get(name))
        raise CacheError(
            f"the kernel cache {folder} is damaged ({', '.join(wrong[:3])}); remove that folder, "
            "the next run derives and compiles it again"
        )


def _content(folder: Path) -> Iterable[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and file.name != _MANIFEST)


def _write(folder: Path, name: str, build: Callable[[], tuple[str, bytes]]) -> None:
    source, description = build()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
    except OSError as error:
        raise _not_written(folder.parent, error) from error
    try:
        (work / _SOURCE).write_text(source, encoding="utf-8")
        (work / _DESCRIPTION).write_bytes(description)
        _import(work, name)
        manifest = {str(file.relative_to(work)): _digest(file.read_bytes()) for file in _content(work)}
        (work / _MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
        _publish(work, folder)
        sys.modules[name].__file__ = str(folder / _SOURCE)
    except OSError as error:
        sys.modules.pop(name, None)
        raise _not_written(folder.parent, error) from error
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _not_written(folder: Path, error: OSError) -> CacheError:
    return CacheError(
        f"the kernel cache {folder} cannot be written ({error.strerror}); free the disk, or set "
        "XDG_CACHE_HOME to a folder that can be written"
    )


def _publish(work: Path, folder: Path) -> None:
    """Move a finished kernel into place; another process that was faster has written the same."""
    try:
        work.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _import(folder: Path, name: str) -> ModuleType:
    """Execute the generated source as module `name`; numba compiles, or finds its code beside the source."""
    from numba import config

    module = ModuleType(name)
    file = folder / _SOURCE
    module.__file__ = str(file)
    sys.modules[name] = module
    elsewhere, config.CACHE_DIR = config.CACHE_DIR, ""  # machine code stays inside the verified folder
    try:
        code = compile(file.read_text(encoding="utf-8"), str(file), "exec")
        exec(code, module.__dict__)  # noqa: S102  (our own text, verified)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        config.CACHE_DIR = elsewhere
    return module
