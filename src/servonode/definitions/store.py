"""The disk cache: a file for each key, checked when it is read, made by one process at a time, moved into place whole.

Whoever can write into the cache can have anything run, for it holds machine code. So it is used only where nobody but
its user, or root, can write, from the root of the file system on. Elsewhere everything is made for this process alone:
slower, but a machine still starts. A damaged file, or another key's, is never used; it is made again.

Processes that want the same entry at once make it once. The maker holds a lock on the file that it will move into
place, until it ends, even if it is killed; the others wait, then load what it has made. A maker may ask for other
entries meanwhile: entries never need each other in a circle, and so never wait for each other in one.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from servonode.definitions.ownership import exposed, foreign_owner
from servonode.errors import ServonodeError

SUFFIX = ".kernel"
NOTICE_AFTER_S = 1.0  # s; a build or a wait longer than this is reported
_BUILDING = ".building-"  # a file that is being made, locked by its maker
_log = logging.getLogger(__name__)
Kept = TypeVar("Kept")


class CacheError(ServonodeError, ValueError):
    """The kernel cache cannot be read or written; the text says which folder and how to fix it."""


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/servonode/kernels` (default `~/.cache`); relative values of the variable are ignored.

    Raises:
        CacheError: the user has no home.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    if Path(configured).is_absolute():
        return Path(configured) / "servonode" / "kernels"
    try:
        return Path.home() / ".cache" / "servonode" / "kernels"
    except RuntimeError as error:
        raise CacheError("there is no home folder for the kernel cache; set XDG_CACHE_HOME to a folder") from error


def stored(key: str, kind: type[Kept], make: Callable[[], Kept]) -> Kept:
    """The value of a key, a struct or text of this kind, from the cache or made.

    Raises:
        CacheError: the cache cannot be read or written.
    """
    file = cache_root() / (key + SUFFIX)
    problem = untrusted_reason(file)
    if problem is None:
        found = read(file, kind)
        if found is not None:
            return found
        with _writing(file):
            for each in (*reversed(file.parent.parents), file.parent):
                if not each.exists():
                    each.mkdir(mode=0o700, exist_ok=True)
        problem = untrusted_reason(file)
    if problem is None:
        with _building(file) as place:
            problem = untrusted_reason(file)  # it may be there by now
            if problem is None:
                found = read(file, kind)
                if found is None and file.exists():
                    _log.warning("the kernel cache %s is damaged; it is made again", file)
                return _made(file, place, make) if found is None else found
    _report_unused(problem)
    return make()


def read(file: Path, kind: type[Kept]) -> Kept | None:
    """The value in a file; None if it is missing, damaged or of another key.

    Raises:
        CacheError: it may not be read.
    """
    try:
        header, _, content = file.read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _not_read(file, error) from error
    if header != _header(file, content):
        return None
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except msgspec.DecodeError:
        return None


def write(file: Path, value: object) -> None:
    """Write a value into a file, with the line by which `read` knows it."""
    content = msgspec.msgpack.encode(value)
    file.write_bytes(_header(file, content) + b"\n" + content)


def _header(file: Path, content: bytes) -> bytes:
    key = file.name.removeprefix(_BUILDING).removesuffix(SUFFIX)
    return f"servonode {key} {hashlib.sha256(content).hexdigest()}".encode()


def untrusted_reason(file: Path) -> str | None:
    """Why another user could have changed this file of the cache, with the remedy; None: no other user could.

    Raises:
        CacheError: it may not be looked at.
    """
    root = cache_root()
    own = root.parent  # from here on the folders are servonode's own
    try:
        linked = next((each for each in (own, root, file) if each.is_symlink()), None)
        problem = f"{linked} is a link" if linked else exposed(root) or foreign_owner(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _not_read(file, error) from error
    if problem is None:
        return None
    inside = problem.startswith(str(own))
    remedy = f"remove {own}, to have it made again, private" if inside else "let nobody but you write there"
    return f"{problem}; {remedy}, or set XDG_CACHE_HOME to a folder of your own"


@cache
def _report_unused(problem: str) -> None:
    _log.warning(
        "the kernel cache is not used: %s. Until then each process derives and compiles its kernels again", problem
    )


def _not_read(file: Path, error: OSError) -> CacheError:
    if isinstance(error, PermissionError):
        problem, remedy = "may not be read", "have its owner allow it (chmod -R go+rX), or "
    else:
        problem, remedy = f"cannot be read ({error.strerror})", ""
    return CacheError(f"the kernel cache {file} {problem}; {remedy}set XDG_CACHE_HOME to a folder of your own")


@contextlib.contextmanager
def _writing(file: Path) -> Iterator[None]:
    """What the system refuses within is an error about the cache."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"the kernel cache {file.parent} cannot be written ({error.strerror}); free the disk, "
            "or set XDG_CACHE_HOME to a folder that can be written"
        ) from error


def _made(file: Path, place: Path, make: Callable[[], Kept]) -> Kept:
    """The value, made, written at `place` and moved to its file."""
    value = make()
    with _writing(file):
        write(place, value)
        try:
            place.replace(file)
        except FileNotFoundError:  # a file system without locks: another process has moved it
            if not file.exists():
                raise
    return value


@contextlib.contextmanager
def _building(file: Path) -> Iterator[Path]:
    """An empty file beside this one, for one process at a time. It is removed afterwards, unless it was moved."""
    place = file.with_name(_BUILDING + file.name)
    with _writing(file):
        lock = _locked(place)
    try:
        yield place
    finally:
        with contextlib.suppress(OSError):
            if _is_at(lock, place):
                place.unlink()
        _unlock(lock)


def _locked(place: Path) -> int:
    """A descriptor of the file at `place`, made if need be, that holds its lock."""
    while True:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _wait(lock, place)
            if _is_at(lock, place):  # else its last maker has moved or removed it
                return lock
        except BaseException:
            _unlock(lock)
            raise
        _unlock(lock)


def _wait(lock: int, place: Path) -> None:
    """Wait for the lock; on a file system without locks each process makes its own."""
    with contextlib.suppress(OSError):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            name = place.name.removeprefix(_BUILDING).removesuffix(SUFFIX)
            with reported(f"another process makes the kernel {name}, which is waited for"):
                fcntl.flock(lock, fcntl.LOCK_EX)


def _is_at(lock: int, place: Path) -> bool:
    """Whether the file of the descriptor is still at its place."""
    try:
        return os.path.samestat(place.lstat(), os.fstat(lock))
    except FileNotFoundError:
        return False


def _unlock(lock: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has the descriptor too
    os.close(lock)


@contextlib.contextmanager
def reported(text: str) -> Iterator[None]:
    """Report what is done within, once it has taken longer than NOTICE_AFTER_S."""
    notice = threading.Timer(NOTICE_AFTER_S, _log.info, (text,))
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()
        notice.join()  # processes that are forked next have no other thread
