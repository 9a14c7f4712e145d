"""The disk cache of kernels: written atomically, verified by SHA-256 before anything of it is executed.

A kernel is a folder `<cache>/<key>/` with its text, a description as JSON, its machine code, what the code holds (see
`kernels.contents`), and a manifest: the key, and size and digest of each file. The key covers the sources that define
the kernel and the versions of everything that turns them into machine code; a changed definition is another key, never
a stale hit. What is damaged, of another key, or made for another processor is never loaded: it is made again.

Whoever can write into the cache can have anything run: a kernel is code. So it is looked at only where nobody but its
user, or root, can write, from the root of the file system on. Elsewhere kernels are made for this process alone:
slower, but a machine still starts.

Processes that want the same kernel at once make it once. The maker holds a lock on the folder in which it builds, until
it ends, even if it is killed; the others wait, then load what it has made. A build that loads other kernels holds its
own lock meanwhile: kernels never need each other in a circle, and so never wait for each other in one.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from time import monotonic

import msgspec

from servonode import kernels
from servonode.definitions.ownership import exposed, not_mine
from servonode.definitions.progress import doing, done, progress_of
from servonode.errors import ServonodeError
from servonode.kernels.contents import Contents, Target
from servonode.kernels.host import this_host, version_of
from servonode.kernels.native import Kernel

_TEXT, _DESCRIPTION, _MANIFEST = "kernel.txt", "description.json", "manifest.json"
_CODE, _CONTENTS = "code.bin", "code.json"
_FILES = {_TEXT, _DESCRIPTION, _CODE, _CONTENTS}
_MOST_MANIFEST = 10_000  # bytes
_BUILDING = ".building-"  # folders in which a kernel is made, each locked by its maker
_PATIENCE = 1.0  # s, after which it is said what is made or waited for
_C_PRINTER = ("c99", "c_")  # sources of kernels/ that have no part in machine code
_log = logging.getLogger(__name__)
_loaded: dict[str, tuple[Kernel, bytes]] = {}  # with their descriptions, by name
_with_numbers: set[str] = set()  # names of those whose text holds numbers of a launch file
_TAKEN = re.compile(r"^from (kernel_\w+) import", re.MULTILINE)

Build = Callable[[], tuple[str, bytes]]
Files = dict[str, bytes]


class CacheError(ServonodeError, ValueError):
    """The kernel cache cannot be read or written; the text says which folder and how to fix it."""


class Unusable(Exception):
    """What is in the folder of a kernel cannot be loaded; the text says why."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int
    digest: str


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    files: dict[str, _File]


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


@cache
def versions_digest() -> str:
    """A digest of interpreter, processor and libraries: what the machine code depends on beside its source."""
    folder = Path(kernels.__file__).parent
    sources = (each for each in folder.glob("*.py") if not each.name.startswith(_C_PRINTER))
    libraries = [f"{name} {version_of(name)}" for name in ("numpy", "sympy")]
    return _digest("\n".join([repr(this_host()), sources_digest(*sorted(sources)), *libraries]).encode())


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


def load(key: str, build: Build, what: str = "", numbers: bool = False) -> tuple[Kernel, bytes]:
    """The compiled kernel and the description of a key, from the cache or built by `build`; once per process.

    `build` returns the text (see `kernels.language`) and the description. What takes longer than a second to make is
    said, with `what`. Where others can write into the cache it is
    not used, which is reported once.

    numbers: the text holds numbers of a launch file. It is compiled once for all texts that differ in numbers only,
    with the bits of each, and so is each kernel that takes functions from it.

    Raises:
        CacheError: the cache cannot be read or written.
    """
    name = f"kernel_{key}"
    if name not in _loaded:
        files = _files(cache_root() / key, lambda: _compiled(build, what or "a kernel of the loop", numbers))
        kernel = Kernel(name, files[_TEXT].decode(), files[_CODE], Contents.of(files[_CONTENTS]))
        _loaded[name] = kernel, files[_DESCRIPTION]
        if numbers or _takes_numbers(kernel.text):
            _with_numbers.add(name)
    return _loaded[name]


def has_numbers(name: str) -> bool:
    """Whether the text of a kernel that this process has loaded holds numbers of a launch file."""
    return name in _with_numbers


def _takes_numbers(text: str) -> bool:
    return any(each in _with_numbers for each in _TAKEN.findall(text))


def kept_text(key: str, make: Callable[[], str]) -> str:
    """The text of a key that took long to find, from the cache or made.

    Raises:
        CacheError: the cache cannot be read or written.
    """
    return _files(cache_root() / key, lambda: _no_kernel(make().encode()))[_TEXT].decode()


def _kept_code(ir: str, make: Callable[[], tuple[bytes, Target]]) -> tuple[bytes, Target]:
    """Object code of LLVM IR that several kernels share, and what it is for, from the cache or made."""
    files = _files(cache_root() / key_of("code", ir), lambda: _no_kernel(b"", *make()))
    return files[_CODE], Contents.of(files[_CONTENTS]).target


def _no_kernel(text: bytes, code: bytes = b"", target: Target | None = None) -> Files:
    """What is kept beside kernels, in the form of one."""
    contents = Contents(target or Target("", "", this_host()), (), {}, {}, {})
    return {_TEXT: text, _DESCRIPTION: b"{}", _CODE: code, _CONTENTS: contents.as_json()}


def text_of(name: str) -> str:
    """The text of a kernel that this process has loaded, by its name."""
    return _loaded[name][0].text


def loaded_digests() -> dict[str, str]:
    """A digest of the text of each kernel that this process has loaded, by its name: equal texts compute the same."""
    return {name: _digest(kernel.text.encode()) for name, (kernel, _) in _loaded.items()}


def _compiled(build: Build, what: str, numbers: bool) -> Files:
    from servonode.kernels.build import built, built_for_numbers

    with _saying(f"deriving and compiling {what}, once"), progress_of(what):
        begin = monotonic()
        text, description = build()
        lines, derived = text.count("\n"), monotonic()
        doing("compiling", f"{lines} lines")
        shared = numbers or _takes_numbers(text)
        code, content = built_for_numbers(text, text_of, _kept_code) if shared else built(text, text_of)
        times = f"derived in {derived - begin:.1f} s, {lines} lines compiled in {monotonic() - derived:.1f} s"
        done(f"{what}: {times}")
    return {_TEXT: text.encode(), _DESCRIPTION: description, _CODE: code, _CONTENTS: content.as_json()}


def _files(folder: Path, make: Callable[[], Files]) -> Files:
    """The files of a kernel, from its folder or made."""
    problem = _danger(folder)
    if problem is None:
        with contextlib.suppress(Unusable):  # looked at again when nobody else works on it
            found = entry(folder)
            if found is not None:
                return found
        problem = _prepared(folder)
    if problem is None:
        with _build_folder(folder) as work:
            problem = _danger(folder)  # it may be there by now
            if problem is None:
                return _found_again(folder, work) or _made(folder, work, make)
    _say_unused(problem)
    return make()


def _danger(folder: Path) -> str | None:
    """Why another user could have changed this kernel's folder, with the remedy; None: no other user could.

    Raises:
        CacheError: it may not be looked at.
    """
    root = cache_root()
    own = root.parent  # from here on the folders are servonode's own
    try:
        linked = next((each for each in (own, root, folder) if each.is_symlink()), None)
        problem = f"{linked} is a link" if linked else exposed(folder) or not_mine(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _not_read(folder, error) from error
    if problem is None:
        return None
    inside = problem.startswith(str(own))
    remedy = f"remove {own}, to have it made again, private" if inside else "let nobody but you write there"
    return f"{problem}; {remedy}, or set XDG_CACHE_HOME to a folder of your own"


@cache
def _say_unused(problem: str) -> None:
    _log.warning(
        "the kernel cache is not used: %s. Until then each process derives and compiles its kernels again", problem
    )


def entry(folder: Path) -> Files | None:
    """The files of a kernel that may be loaded, or None where there is no folder of it.

    Raises:
        Unusable: a file is missing, changed or not listed, or they are another kernel's, or made for another host.
        CacheError: a file may not be read.
    """
    if not os.path.lexists(folder):
        return None
    try:
        files = _verified(folder)
        host = Contents.of(files[_CONTENTS]).target.host
    except PermissionError as error:
        raise _not_read(folder, error) from error
    except OSError as error:
        raise Unusable(f"damaged ({Path(error.filename or folder).name}: {error.strerror})") from error
    except ValueError as error:
        raise Unusable(f"damaged ({_CONTENTS})") from error
    difference = host.difference(this_host())
    if difference:
        raise Unusable(f"made for {difference}")
    return files


def _verified(folder: Path) -> Files:
    """The files of a kernel's folder, which are those of the manifest and as they were written."""
    manifest = _manifest(folder)
    if manifest.key != folder.name:
        raise Unusable("another kernel's")
    strange = ({each.name for each in folder.iterdir()} - {_MANIFEST}) ^ _FILES or manifest.files.keys() ^ _FILES
    if strange:
        raise Unusable(f"damaged ({', '.join(sorted(strange)[:3])})")
    return {name: _read(folder / name, stated) for name, stated in manifest.files.items()}


def _manifest(folder: Path) -> _Manifest:
    with (folder / _MANIFEST).open("rb") as file:
        data = file.read(_MOST_MANIFEST)
    try:
        return msgspec.json.decode(data, type=_Manifest)
    except ValueError as error:
        raise Unusable(f"damaged ({_MANIFEST})") from error


def _read(file: Path, stated: _File) -> bytes:
    """The content of a file, if it is what the manifest states. A file of another size is not read."""
    if file.stat().st_size == stated.size:
        data = file.read_bytes()
        if _digest(data) == stated.digest:
            return data
    raise Unusable(f"damaged ({file.name})")


def _not_read(folder: Path, error: OSError) -> CacheError:
    if isinstance(error, PermissionError):
        problem, remedy = "may not be read", "have its owner allow it (chmod -R go+rX), or "
    else:
        problem, remedy = f"cannot be read ({error.strerror})", ""
    return CacheError(f"the kernel cache {folder} {problem}; {remedy}set XDG_CACHE_HOME to a folder of your own")


def _not_written(folder: Path, error: OSError) -> CacheError:
    return CacheError(
        f"the kernel cache {folder.parent} cannot be written ({error.strerror}){_complaint(folder)}; free the disk, "
        "or set XDG_CACHE_HOME to a folder that can be written"
    )


def _complaint(folder: Path) -> str:
    """What is wrong with a kernel that is there, and why it had to be written at all."""
    try:
        entry(folder)
    except Unusable as reason:
        return f", though its {folder.name} is {reason} and must be made again"
    return ""


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What the system refuses within is an error about the cache."""
    try:
        yield
    except OSError as error:
        raise _not_written(folder, error) from error


def _prepared(folder: Path) -> str | None:
    """Make the folders above a kernel's; why others could write there, if they can."""
    with _writing(folder):
        for each in (*reversed(folder.parent.parents), folder.parent):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
    return _danger(folder)


@contextlib.contextmanager
def _build_folder(folder: Path) -> Iterator[Path]:
    """A private folder in which one process at a time makes a kernel. It is removed afterwards."""
    import shutil
    import tempfile

    place = folder.parent / f"{_BUILDING}{folder.name}"
    with _writing(folder):
        lock = _locked(place)
    work = None
    try:
        with _writing(folder):
            work = Path(tempfile.mkdtemp(dir=place))
        yield work
    finally:
        if work:
            shutil.rmtree(work, ignore_errors=True)
        with contextlib.suppress(OSError):
            place.rmdir()  # if another process without locks does not build there
        _unlock(lock)


def _locked(place: Path) -> int:
    """A descriptor of the folder at `place`, made if need be, that holds its lock. What a killed maker left is gone."""
    while True:
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        try:
            lock = _opened(place)
        except FileNotFoundError:  # another process has removed it meanwhile
            continue
        try:
            alone = _wait(lock, place)
            if _is_at(lock, place):
                if alone:
                    _empty(place)
                return lock
        except BaseException:
            _unlock(lock)
            raise
        _unlock(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _wait(lock: int, place: Path) -> bool:
    """Wait for the lock; false on a file system without locks, where each process makes its own kernel."""
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            name = place.name.removeprefix(_BUILDING)
            with _saying(f"another process makes the kernel {name}, which is waited for"):
                fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _saying(text: str) -> Iterator[None]:
    """Say what takes so long, once it has taken a second."""
    notice = threading.Timer(_PATIENCE, _log.info, (text,))
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()
        notice.join()  # processes that are forked next have no other thread


def _is_at(lock: int, place: Path) -> bool:
    """Whether the folder is still at its place; another process may have removed it before it was locked."""
    try:
        return os.path.samestat(place.lstat(), os.fstat(lock))
    except FileNotFoundError:
        return False


def _empty(folder: Path) -> None:
    import shutil

    for each in folder.iterdir():
        shutil.rmtree(each, ignore_errors=True)


def _unlock(lock: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has the descriptor too
    os.close(lock)


def _found_again(folder: Path, work: Path) -> Files | None:
    """What another process has made while this one waited. What cannot be loaded is removed, which is reported."""
    try:
        return entry(folder)
    except Unusable as reason:
        _log.warning("the kernel cache %s is %s; it is made again", folder, reason)
        with _writing(folder):
            _remove(folder, work)
        return None


def _remove(folder: Path, work: Path) -> None:
    """Move a folder aside at once, so that nobody meets half of it, then remove it."""
    import shutil

    with contextlib.suppress(OSError):
        folder.chmod(0o700)  # one that may not be written cannot be moved
    aside = work / "replaced"
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _made(folder: Path, work: Path, make: Callable[[], Files]) -> Files:
    """The files of a kernel, made, and moved into place."""
    files = make()
    with _writing(folder):
        _clear_left_over(folder.parent)
        finished = work / "finished"
        finished.mkdir(mode=0o700)
        for name, data in {**files, _MANIFEST: manifest_of(folder.name, files)}.items():
            (finished / name).write_bytes(data)
            (finished / name).chmod(0o600)  # whatever the umask
        _publish(finished, folder)
    return files


def manifest_of(key: str, files: Files) -> bytes:
    """The manifest of the files of a kernel."""
    stated = {name: _File(len(data), _digest(data)) for name, data in files.items()}
    return msgspec.json.format(msgspec.json.encode(_Manifest(key, stated)), indent=1)


def _clear_left_over(parent: Path) -> None:
    """Remove the folders of killed compilations; a locked one is still in use."""
    import shutil

    for folder in parent.glob(f"{_BUILDING}*"):
        with contextlib.suppress(OSError):
            lock = _opened(folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                _unlock(lock)


def _publish(finished: Path, folder: Path) -> None:
    """Move a finished kernel into place; where another process was faster, its content is the same."""
    try:
        finished.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
