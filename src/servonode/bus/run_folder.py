"""The private folder of one run: its sockets, the lock on the run's name, the registry that tools read."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from servonode.bus.processes import Named
from servonode.errors import ServonodeError

IPC_LIMIT = 107  # bytes of a Unix socket's path
LOCK = "lock"
REGISTRY = "registry.json"
RUNTIME = "SERVONODE_RUNTIME_DIR"  # names the folder of runs itself

_NODE_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
CONNECT_S = 1.0  # s, to learn whether an endpoint is alive


class BusError(ServonodeError, RuntimeError):
    """The bus cannot be set up here; the text says how to fix it."""


class RunNameTaken(BusError):
    """Another run of this name is in progress; `pid` holds it (0: not known)."""

    def __init__(self, name: str, pid: int) -> None:
        holder = f"process {pid} (or a child it left behind)" if pid else "another process"
        super().__init__(f"run {name!r} is held by {holder}; stop it, or give this run another --name")
        self.pid = pid


def endpoint(folder: Path, node: str, kind: str) -> str:
    """`ipc://` address of a node's "pub" or "req" socket; BusError if the system cannot hold it."""
    if not _NODE_NAME.fullmatch(node):
        raise BusError(f"node name {node!r} is not usable; take 1 to 40 of letters, digits, _ and -")
    path = folder / f"{node}.{kind}"
    length = len(os.fsencode(path))
    if length > IPC_LIMIT:
        raise BusError(
            f"endpoint {path} has {length} bytes, a Unix socket takes {IPC_LIMIT}; "
            f"set {RUNTIME} to a shorter folder or shorten the node's name"
        )
    return f"ipc://{path}"


def base_folder() -> Path:
    """The folder for new runs: SERVONODE_RUNTIME_DIR, else below XDG_RUNTIME_DIR if that is ours, else below the
    temporary folder.

    Raises BusError where SERVONODE_RUNTIME_DIR is set, but is not a private folder of this user: what was asked for
    by name is not replaced by something else. `operator/find_runs.py` knows where others may have made theirs.
    """
    chosen = os.environ.get(RUNTIME, "")
    if chosen:
        problem = distrust(Path(chosen), (os.getuid(),)) if chosen.startswith("/") else "is not an absolute path"
        if problem:
            raise BusError(f"{RUNTIME}: {chosen} {problem}; set it to a folder of yours with mode 0700, or unset it")
        return Path(chosen)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        with contextlib.suppress(OSError):
            found = Path(runtime).stat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                return Path(runtime) / "servonode"
    return temporary_folders()[-1] / f"servonode-{os.getuid()}"


def temporary_folders() -> list[Path]:
    """Where this environment may keep temporary files, the one that can be written last.

    `tempfile` finds out by writing, so its answer changes when a disk is full or descriptors are used up.
    """
    found = []
    for word in ("TMPDIR", "TEMP", "TMP"):
        folder = Path(os.environ.get(word, ""))
        if folder.is_absolute() and folder.is_dir():
            found.append(folder)
            if os.access(folder, os.W_OK | os.X_OK):
                return found
    return [*found, Path("/tmp")]


def folder_name(name: str) -> str:
    """The folder's name for a run of this name; short, because the path of a socket has few bytes."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def is_run_name(name: str) -> bool:
    """Whether a run may have this name, which files get too."""
    return name.isprintable() and 0 < len(name) <= 100 and "/" not in name


def run_path(name: str) -> Path:
    """Where a new run of this name has its folder, whether it exists or not."""
    return base_folder() / folder_name(name)


def run_folder(name: str) -> "RunFolder":
    """The folder of run `name`, made, locked and cleaned of what a dead run left.

    Raises RunNameTaken if a run of this name lives, BusError if the folder is not private to this user.
    """
    if not is_run_name(name):
        raise BusError(f"run name {name[:40]!r} is not usable; take 1 to 100 printable characters without /")
    path = run_path(name)
    for _ in range(100):  # a run that ends meanwhile removes the file that was just opened
        try:
            _private(path.parent)
            _private(path)
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue
        if _locked(lock, path / LOCK, name):
            return RunFolder(name, path, lock)
    raise BusError(f"{path} keeps vanishing while it is set up; is something cleaning that folder?")


def _private(path: Path) -> None:
    """Make the folder 0700; BusError if what is there belongs to or is open to others."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    problem = distrust(path, (os.getuid(),))
    if problem:
        raise BusError(f"{path} {problem}; remove it, or set {RUNTIME} to a folder of yours with mode 0700")


def distrust(path: Path, owners: Collection[int]) -> str | None:
    """Why a folder's content is not trusted: another user than these could have put it there; None: it is trusted."""
    try:
        found = path.lstat()
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"  # lstat: a link to a folder is refused too
    if found.st_uid not in owners:
        return f"belongs to user {found.st_uid}"
    return f"has mode {mode:04o}, open to others" if mode & 0o077 else None


def private_folder(path: Path) -> None:
    """Make the folder 0700, and the one it is in; BusError if what is there belongs to or is open to others."""
    for _ in range(100):  # another process that finds it empty removes it
        with contextlib.suppress(FileNotFoundError):
            _private(path.parent)
            return _private(path)
    raise BusError(f"{path} keeps vanishing while it is set up; is something cleaning that folder?")


def remove_empty(folder: Path) -> None:
    """Remove an empty folder, and the one it is in, which stays if the user chose it."""
    chosen = str(folder.parent) == os.environ.get(RUNTIME, "").rstrip("/")
    for each in (folder,) if chosen else (folder, folder.parent):
        with contextlib.suppress(OSError):  # not empty: another run, or a machine, is there
            each.rmdir()


def _locked(lock: int, path: Path, name: str) -> bool:
    """Whether `lock` is now held and still the file at `path`; raises RunNameTaken. Closes it otherwise."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(lock, 20, 0).decode("ascii", "replace")
        os.close(lock)
        raise RunNameTaken(name, int(pid) if pid.isdecimal() else 0) from None
    with contextlib.suppress(FileNotFoundError):
        if os.fstat(lock).st_ino == path.stat().st_ino:
            return True
    os.close(lock)
    return False


class RunFolder:
    """One run's folder while its lock is held. Get it from `run_folder`; a context manager that releases."""

    def __init__(self, name: str, path: Path, lock: int) -> None:
        self.name = name
        self.path = path
        self.started_ns = time.monotonic_ns()
        self._lock = lock  # -1: given back
        self._owner = os.getpid()
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(self._owner).encode(), 0)
        self._clean()
        self.register(())

    def register(self, nodes: Iterable[str], extra: Mapping[str, Any] | None = None) -> None:
        """Write the registry, whole or not at all: run, pid and its start, begin [monotonic ns], endpoints, `extra`."""
        registry = {
            "run": self.name,
            **asdict(Named.of(self._owner)),
            "started_ns": self.started_ns,
            "nodes": {node: {kind: endpoint(self.path, node, kind) for kind in ("pub", "req")} for node in nodes},
            **(extra or {}),
        }
        self._write(REGISTRY, registry)

    def sign(self, node: str) -> None:
        """In a node's process: write down its id, for an emergency stop that comes before the registry is written.

        Raises BusError where that cannot be written: a plant that nobody can find must not start.
        """
        try:
            self._write(f"{node}.pid", {"run": self.name, **asdict(Named.of(os.getpid()))})
        except OSError as error:
            raise BusError(f"{self.path} cannot be written ({error.strerror}); make room there") from None

    def _write(self, file: str, content: Mapping[str, Any]) -> None:
        """Write a file, whole or not at all."""
        draft = self.path / f"{file}.tmp"
        draft.write_text(json.dumps(content, indent=1))
        draft.replace(self.path / file)

    def forget(self) -> None:
        """Drop this process's copy of the lock; every forked child calls it at its start.

        The lock lives until the last copy is closed, so a child that kept one would hold the name after the
        launcher's death. Nothing is unlocked here.
        """
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def inherit(self) -> bool:
        """In a child whose launcher has died: remove the folder; False while another process still holds the name."""
        with contextlib.suppress(OSError):
            lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if _locked(lock, self.path / LOCK, self.name):
                    self._lock, self._owner = lock, os.getpid()
                    self.release()
            except RunNameTaken:
                return False
        return True

    def release(self) -> None:
        """Remove the folder and free the name. In a forked child only `forget`; a second call does nothing."""
        if self._lock >= 0 and os.getpid() == self._owner:
            self._clean()
            (self.path / LOCK).unlink(missing_ok=True)
            remove_empty(self.path)
        self.forget()

    def _clean(self) -> None:
        """Remove every file of a run but the lock; none is in use while the lock is ours."""
        for entry in self.path.iterdir():
            if entry.name != LOCK and not (entry.is_dir() and not entry.is_symlink()):
                entry.unlink(missing_ok=True)

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def refusal_at(path: Path) -> OSError | None:
    """Why no connection is made to a Unix socket; None: a process listens there."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(CONNECT_S)
            probe.connect(str(path))
    except OSError as error:
        return error
    return None


def clear_path(address: str, path: Path) -> None:
    """Remove what a killed process left at the path; BusError if another process listens there."""
    error = refusal_at(path)
    if error is None:
        raise BusError(f"{address} is served already, by another node of this name; stop it or rename this one")
    if isinstance(error, FileNotFoundError):
        return
    if not isinstance(error, ConnectionRefusedError):
        raise BusError(f"{address} cannot be used ({error}); remove that file")
    path.unlink(missing_ok=True)
