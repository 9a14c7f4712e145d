"""The disk cache of generated modules: written atomically, verified by SHA-256 before anything is imported.

A kernel is a folder `<cache>/<key>/` with the generated source, a description as JSON, the machine code that
numba keeps beside the source, and a manifest of digests. numba itself neither notices nor survives a damaged
file, so the manifest is checked first. The key covers the sources that define the kernel and the versions of
everything that turns them into machine code; a changed definition is another key, never a stale hit.

Whoever can write into the cache can have anything run: a kernel is code, and numba's own files are pickles. So it is
looked at only where nobody but its user, or root, can write, from the root of the file system on. Elsewhere kernels
are made in a private temporary folder, for this process: slower, but a machine still starts.
"""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from servonode.errors import ServonodeError
from servonode.mechanics.ownership import exposed, not_mine

_LIBRARIES = ("numba", "llvmlite", "numpy", "sympy")
_SOURCE, _DESCRIPTION, _MANIFEST = "kernel.py", "description.json", "manifest.json"
_BUILDING = ".building-"  # folders in which a kernel is made, each locked by its maker
_log = logging.getLogger(__name__)
_passing: dict[str, tuple[ModuleType, bytes]] = {}  # kernels that were made for this process alone, by key

Build = Callable[[], tuple[str, bytes]]


class CacheError(ServonodeError, ValueError):
    """The kernel cache is damaged or cannot be written; the text says which folder and how to fix it."""


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/servonode/kernels` (default `~/.cache`); relative values of the variable are ignored."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    return base / "servonode" / "kernels"


@cache
def versions_digest() -> str:
    """A digest of interpreter, processor and libraries: what the machine code depends on beside its source."""
    parts = [sys.version, platform.machine(), platform.processor(), _processor_model()]
    parts += [os.environ.get(f"NUMBA_{word}", "") for word in ("CPU_NAME", "CPU_FEATURES")]
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


def load(key: str, build: Build) -> tuple[ModuleType, bytes]:
    """The compiled module and the description of a key, from the cache or built by `build`.

    `build` returns the generated source and the description. The module keeps one stable name in `sys.modules`,
    as numba's stored machine code demands. Where others can write into the cache it is not used, which is said once.

    Raises:
        CacheError: the folder of this key is damaged, or the cache cannot be written.
    """
    folder, name = cache_root() / key, f"servonode_kernel_{key}"
    if key in _passing:
        return _passing[key]
    try:
        problem, there = _danger(folder), folder.is_dir()
    except PermissionError as error:
        raise _not_read(folder) from error
    if problem is None and not there:
        problem = _write(folder, name, build)
    if problem is not None:
        _say_unused(problem)
        _passing[key] = _made_here(name, build)
        return _passing[key]
    if name not in sys.modules:
        verify(folder)
        _import(folder, name)
    return sys.modules[name], (folder / _DESCRIPTION).read_bytes()


def _danger(folder: Path) -> str | None:
    """Why another user could have changed this kernel's folder, with the remedy; None: no other user could.

    Raises:
        PermissionError: it may not be looked at.
    """
    root = cache_root()
    own = root.parent  # from here on the folders are servonode's own
    linked = next((each for each in (own, root, folder) if each.is_symlink()), None)
    try:
        problem = f"{linked} is a link" if linked else exposed(folder) or not_mine(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if problem is None:
        return None
    inside = problem.startswith(str(own))
    remedy = f"remove {own}, to have it made anew, private" if inside else "let nobody but you write there"
    return f"{problem}; {remedy}, or set XDG_CACHE_HOME to a folder of your own"


@cache
def _say_unused(problem: str) -> None:
    _log.warning(
        "the kernel cache is not used: %s. Until then each process derives and compiles its kernels anew", problem
    )


def _made_here(name: str, build: Build) -> tuple[ModuleType, bytes]:
    """A kernel for this process alone, built in a private temporary folder that is removed afterwards."""
    if name in sys.modules:
        raise CacheError(f"module {name} is there already, from a cache that has changed hands meanwhile; start again")
    source, description = build()
    place = Path(tempfile.gettempdir())
    problem = exposed(place)
    if problem is not None:
        raise CacheError(
            f"there is no private place to compile a kernel in: {problem}; set TMPDIR to a folder of your own"
        )
    with tempfile.TemporaryDirectory(prefix="servonode-kernel-", dir=place) as work:
        (Path(work) / _SOURCE).write_text(source, encoding="utf-8")
        return _import(Path(work), name), description


def verify(folder: Path) -> None:
    """Check every file of a kernel against its manifest.

    Raises:
        CacheError: a file is missing, changed or not listed, or may not be read.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        if not isinstance(manifest, dict):
            raise ValueError("not a table")
        found = {str(file.relative_to(folder)): _digest(file.read_bytes()) for file in _content(folder)}
    except PermissionError as error:
        raise _not_read(folder) from error
    except (OSError, ValueError):
        manifest, found = {}, {_MANIFEST: ""}
    if manifest != found:
        wrong = sorted(name for name in {*manifest, *found} if manifest.get(name) != found.get(name))
        raise CacheError(
            f"the kernel cache {folder} is damaged ({', '.join(wrong[:3])}); remove that folder, "
            "the next run derives and compiles it again"
        )


def _not_read(folder: Path) -> CacheError:
    return CacheError(
        f"the kernel cache {folder} may not be read; have its owner allow it (chmod -R go+rX), or set "
        "XDG_CACHE_HOME to a folder of your own"
    )


def _content(folder: Path) -> Iterable[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and file.name != _MANIFEST)


def _write(folder: Path, name: str, build: Build) -> str | None:
    """Build a kernel into its folder; why it could not be, where others were faster to write there."""
    source, description = build()
    try:
        for each in (*reversed(folder.parent.parents), folder.parent):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
        problem = _danger(folder)
        if problem is not None:
            return problem
        _clear_left_over(folder.parent)
        with _build_folder(folder.parent) as work:
            (work / _SOURCE).write_text(source, encoding="utf-8")
            (work / _DESCRIPTION).write_bytes(description)
            _import(work, name)
            manifest = {str(file.relative_to(work)): _digest(file.read_bytes()) for file in _content(work)}
            (work / _MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
            for file in work.rglob("*"):  # whatever the umask
                file.chmod(0o700 if file.is_dir() else 0o600)
            _publish(work, folder)
        sys.modules[name].__file__ = str(folder / _SOURCE)
    except OSError as error:
        sys.modules.pop(name, None)
        raise _not_written(folder.parent, error) from error
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return None


@contextlib.contextmanager
def _build_folder(parent: Path) -> Iterator[Path]:
    """A private folder to build in, removed afterwards. Its lock is held until this process ends, even if killed."""
    while True:
        work = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=parent))
        lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if _locks(lock, work):
            break
        os.close(lock)  # another process has removed it meanwhile
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(lock)


def _locks(lock: int, folder: Path) -> bool:
    """Whether this process now holds the folder, which is still there; true also on a file system without locks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    try:
        return folder.lstat().st_ino == os.fstat(lock).st_ino
    except FileNotFoundError:
        return False


def _clear_left_over(parent: Path) -> None:
    """Remove the folders of killed compilations; a locked one is still in use."""
    for folder in parent.glob(f"{_BUILDING}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(lock)


def _not_written(folder: Path, error: OSError) -> CacheError:
    return CacheError(
        f"the kernel cache {folder} cannot be written ({error.strerror}); free the disk, or set "
        "XDG_CACHE_HOME to a folder that can be written"
    )


def _publish(work: Path, folder: Path) -> None:
    """Move a finished kernel into place; where another process was faster, its content is the same."""
    try:
        work.rename(folder)
    except OSError:
        if not folder.exists():
            raise


class _BesideTheSource:
    """Where numba keeps a kernel's machine code: beside its source and nowhere else, read without writing.

    numba's own choice tries whether it can write there, and where it cannot takes another folder, which nobody has
    looked at.
    """

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._line = file, function.__code__.co_firstlineno
        self._folder = Path(file).parent / "__pycache__"

    @classmethod
    def from_function(cls, function: Any, file: str) -> "_BesideTheSource":
        return cls(function, file)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return _digest(Path(self._py_file).read_bytes())

    def get_disambiguator(self) -> str:
        return str(self._line)


@contextlib.contextmanager
def _machine_code_beside() -> Iterator[None]:
    """Have numba keep machine code beside its source, whatever its own settings say."""
    from numba import config
    from numba.core.caching import CompileResultCacheImpl as Keeper

    chosen = getattr(config, "CACHE_LOCATOR_CLASSES", "")
    before, Keeper._locator_classes = Keeper._locator_classes, [_BesideTheSource]
    config.CACHE_LOCATOR_CLASSES = ""
    try:
        yield
    finally:
        Keeper._locator_classes, config.CACHE_LOCATOR_CLASSES = before, chosen


def _import(folder: Path, name: str) -> ModuleType:
    """Execute the generated source as module `name`; numba compiles, or finds its code beside the source."""
    module = ModuleType(name)
    file = folder / _SOURCE
    module.__file__ = str(file)
    sys.modules[name] = module
    try:
        with _machine_code_beside():
            code = compile(file.read_text(encoding="utf-8"), str(file), "exec")
            exec(code, module.__dict__)  # noqa: S102  (our own text, verified)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
