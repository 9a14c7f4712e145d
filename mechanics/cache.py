"""The disk cache of kernels: written atomically, verified by SHA-256 before anything of it is executed.

A kernel is a folder `<cache>/<key>/` with its text, a description as JSON, its machine code, what the code holds (see
`kernels.native`), and a manifest of digests. The key covers the sources that define the kernel and the versions of
everything that turns them into machine code; a changed definition is another key, never a stale hit.

Whoever can write into the cache can have anything run: a kernel is code. So it is looked at only where nobody but its
user, or root, can write, from the root of the file system on. Elsewhere kernels are made for this process alone:
slower, but a machine still starts.
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

from servonode import kernels
from servonode.errors import ServonodeError
from servonode.kernels import contents
from servonode.kernels.native import Kernel
from servonode.mechanics.ownership import exposed, not_mine

_LIBRARIES = ("llvmlite", "numpy", "sympy")
_TEXT, _DESCRIPTION, _MANIFEST = "kernel.txt", "description.json", "manifest.json"
_CODE, _CONTENTS = "code.bin", "code.json"
_BUILDING = ".building-"  # folders in which a kernel is made, each locked by its maker
_log = logging.getLogger(__name__)
_loaded: dict[str, Kernel] = {}  # by name
_passing: dict[str, dict[str, bytes]] = {}  # the files of kernels that were made for this process alone, by key

Build = Callable[[], tuple[str, bytes]]
Files = dict[str, bytes]


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
    parts.append(sources_digest(Path(kernels.__file__).parent))
    parts += [f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES]
    return _digest("\n".join(parts).encode())


@cache
def _processor_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(
        sorted({line for line in lines if line.startswith(("model name", "flags", "CPU part", "Features"))})
    )


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


def load(key: str, build: Build) -> tuple[Kernel, bytes]:
    """The compiled kernel and the description of a key, from the cache or built by `build`.

    `build` returns the text (see `kernels.language`) and the description. Where others can write into the cache it is
    not used, which is said once.

    Raises:
        CacheError: the folder of this key is damaged, or the cache cannot be written.
    """
    name = f"kernel_{key}"
    files = _files(key, lambda: _compiled(*build()))
    if name not in _loaded:
        content = contents.Contents.of(files[_CONTENTS])
        _loaded[name] = Kernel(name, files[_TEXT].decode(), files[_CODE], content)
    return _loaded[name], files[_DESCRIPTION]


def text_of(name: str) -> str:
    """The text of a kernel that this process has loaded, by its name."""
    return _loaded[name].text


def _compiled(text: str, description: bytes) -> Files:
    from servonode.kernels.build import built

    code, content = built(text, text_of)
    return {_TEXT: text.encode(), _DESCRIPTION: description, _CODE: code, _CONTENTS: content.as_json()}


def _files(key: str, make: Callable[[], Files]) -> Files:
    """The files of a key, from its folder or made."""
    folder = cache_root() / key
    if key in _passing:
        return _passing[key]
    try:
        problem, there = _danger(folder), folder.is_dir()
    except PermissionError as error:
        raise _not_read(folder) from error
    if problem is None and there:
        return verified(folder)
    files = make()
    problem = problem or _write(folder, files)
    if problem is not None:
        _say_unused(problem)
        _passing[key] = files
    return files


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


def verified(folder: Path) -> Files:
    """The files of a kernel, each checked against the manifest.

    Raises:
        CacheError: a file is missing, changed or not listed, or may not be read.
    """
    files: Files = {}
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        if not isinstance(manifest, dict):
            raise ValueError("not a table")
        files = {str(file.relative_to(folder)): file.read_bytes() for file in _content(folder)}
        found = {name: _digest(data) for name, data in files.items()}
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
    return files


def _not_read(folder: Path) -> CacheError:
    return CacheError(
        f"the kernel cache {folder} may not be read; have its owner allow it (chmod -R go+rX), or set "
        "XDG_CACHE_HOME to a folder of your own"
    )


def _content(folder: Path) -> Iterable[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and file.name != _MANIFEST)


def _write(folder: Path, files: Files) -> str | None:
    """Write the files of a kernel into its folder; why not, where others could write there meanwhile."""
    try:
        for each in (*reversed(folder.parent.parents), folder.parent):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
        problem = _danger(folder)
        if problem is not None:
            return problem
        _clear_left_over(folder.parent)
        manifest = {name: _digest(data) for name, data in files.items()}
        with _build_folder(folder.parent) as work:
            for name, data in {**files, _MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode()}.items():
                (work / name).write_bytes(data)
                (work / name).chmod(0o600)  # whatever the umask
            _publish(work, folder)
    except OSError as error:
        raise _not_written(folder.parent, error) from error
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
