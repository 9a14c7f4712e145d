"""The runs of this user, wherever they were started: in a desktop session, by a service, cron, sudo, in a container.

The environment of whoever starts a run decides where its folder is, and an operator may have another environment. So
all places are searched. The content of a folder that others can write is never used: it could name any process.
"""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servonode.bus.processes import Named, listener
from servonode.bus.run_folder import LOCK, REGISTRY, RUNTIME, BusError, distrust, folder_name, temporary_folders
from servonode.bus.topology import PLANT

LOGIN = Path("/run/user")  # folders that a login creates for its user
TITLE = b"servonode: "  # with which the title of a node's process begins
LARGEST = 2**20  # bytes of a file that describes a run


@dataclass(frozen=True)
class Found:
    """The folder of a run, alive or not, and its content. `registry` is empty where it cannot be read."""

    path: Path
    owner: int  # user
    registry: dict[str, Any] = field(repr=False)
    signed: dict[str, Any] = field(repr=False)  # written by the plant's own process

    @property
    def name(self) -> str:
        """The run's name; its folder where no name is written down that belongs to this folder."""
        for name in (each.get("run") for each in (self.registry, self.signed)):
            if isinstance(name, str) and name.isprintable() and folder_name(name) == self.path.name:
                return name
        return str(self.path)

    def described(self) -> dict[str, Any]:
        """The registry; BusError where it cannot be read."""
        if not self.registry:
            raise BusError(f"run {self.name!r} is in progress, but {self.path / REGISTRY} cannot be read; stop the run")
        return self.registry

    def plant(self) -> Named | None:
        """The plant's process, as it or the launcher wrote it down, if it lives; no connection is made."""
        named = (Named.read(self.signed), self.process(PLANT))
        return next((each for each in named if each is not None and each.lives(self.owner)), None)

    def process(self, node: str) -> Named | None:
        """A node's process as the launcher wrote it down, alive or not."""
        pids, starts = (self.registry.get(word) for word in ("pids", "starts"))
        if not isinstance(pids, dict) or not isinstance(starts, dict):
            return None
        return Named.read({"pid": pids.get(node), "start": starts.get(node), "space": self.registry.get("space")})

    def listener(self) -> Named | None:
        """The process that holds the plant's request socket, for a run that names no process; None: not known."""
        pid = listener(self._request_socket)
        named = Named.of(pid) if pid else None
        return named if named is not None and named.lives(self.owner) else None

    def lives(self) -> bool:
        """Whether the run is in progress: its launcher or its plant lives, or a process holds its request socket."""
        launcher = Named.read(self.registry)
        if launcher is not None and launcher.lives(self.owner):
            return True
        return self.plant() is not None or listener(self._request_socket) is not None

    @property
    def _request_socket(self) -> Path:
        return self.path / f"{PLANT}.req"


def places(of_processes: bool = False) -> list[Path]:
    """The folders that are searched for runs: those that exist and are private, each once.

    of_processes: also those in which a running node has its folder, whatever this environment says.
    """
    found: dict[tuple[int, int], Path] = {}
    for path in (*_candidates(), *(places_of_processes() if of_processes else ())):
        if distrust(path, owners()) is None:
            with suppress(OSError):
                identity = path.stat()
                found.setdefault((identity.st_dev, identity.st_ino), path)
    return list(found.values())


def distrusted() -> list[str]:
    """The folders that exist but are not searched, each with the reason."""
    problems = {path: distrust(path, owners()) for path in _candidates() if os.path.lexists(path)}
    return [f"{path} {problem}" for path, problem in problems.items() if problem]


def owners() -> list[int]:
    """The users whose runs this user may operate: under sudo also the user who called it."""
    user, caller = os.getuid(), os.environ.get("SUDO_UID", "")
    return [user, int(caller)] if user == 0 and caller.isascii() and caller.isdecimal() and int(caller) else [user]


def _candidates() -> Iterator[Path]:
    """All folders in which runs of these users may be, in the order in which a new run would choose."""
    for word, below in ((RUNTIME, ""), ("XDG_RUNTIME_DIR", "servonode")):
        if os.environ.get(word, "").startswith("/"):
            yield Path(os.environ[word]) / below
    for user in owners():
        yield LOGIN / str(user) / "servonode"
        yield from (folder / f"servonode-{user}" for folder in temporary_folders())


def places_of_processes() -> list[Path]:
    """The folders in which nodes of these users that are running keep their runs; empty on a system without /proc.

    A node is known by its title, and its folder by the lock that it holds open. Nodes in another namespace of
    processes, as in a container, are not seen.
    """
    found = []
    for process, words in own_processes():
        if words.startswith(TITLE):
            with suppress(OSError):  # it has ended
                links = [each.readlink() for each in (process / "fd").iterdir()]
                found += [each.parents[1] for each in links if each.name == LOCK and len(each.parts) > 3]
    return list(dict.fromkeys(found))


def own_processes() -> Iterator[tuple[Path, bytes]]:
    """The processes of these users: folder in /proc, and command line; none on a system without it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            if process.stat().st_uid in owners():
                yield process, (process / "cmdline").read_bytes()


def folders_of_runs(name: str | None = None, of_processes: bool = False) -> list[Found]:
    """The folders of runs of this name (absent: of all), alive or not; a path means the run in that folder.

    of_processes: as for `places`.
    """
    found = []
    for place in places(of_processes):
        with suppress(OSError):
            for path in sorted(place.iterdir()):
                wanted = name is None or path.name == folder_name(name) or str(path) == name
                if wanted and (entry := _found(path)) is not None:
                    found.append(entry)
    return found


def _found(path: Path) -> Found | None:
    """The run to which a folder belongs; None where it is not a private folder, or cannot be read."""
    if distrust(path, owners()) is not None:
        return None
    with suppress(OSError):
        owner = path.lstat().st_uid
        return Found(path, owner, _content(path / REGISTRY, owner), _content(path / f"{PLANT}.pid", owner))
    return None


def _content(file: Path, owner: int) -> dict[str, Any]:
    """The map in a file; empty if there is no such file of this owner. Never blocks, as a pipe would."""
    with suppress(OSError, ValueError, RecursionError):
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and status.st_uid == owner and status.st_size <= LARGEST:
                content = json.loads(stream.read(LARGEST))
                return content if isinstance(content, dict) else {}
    return {}


def find_runs(name: str | None = None) -> dict[str, Found]:
    """The runs that are in progress, of this name or in this folder (absent: all), by name.

    Runs of the same name have the names of their folders. They come in the order of the places.
    """
    living = [each for each in folders_of_runs(name) if each.lives()]
    names = [each.name for each in living]
    return {each.name if names.count(each.name) == 1 else str(each.path): each for each in living}


def robots_of(name: str | None) -> list[str | None]:
    """The runs of the robots of a launch that runs under this name; else the name alone, of a run as any other."""
    if name is None or find_runs(name):
        return [name]
    return [*sorted(each for each in find_runs() if each.startswith(f"{name}."))] or [name]


def find_run(name: str | None = None) -> Found:
    """The run of this name or in this folder (absent: the only one in progress). BusError unless just one matches."""
    found = find_runs(name)
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        raise no_run_error(name)
    if name is None:
        raise BusError(f"several runs are in progress; name one of {', '.join(sorted(found))}")
    folders = ", ".join(str(each.path) for each in found.values())
    raise BusError(f"{len(found)} runs named {name!r} are in progress; give one of their folders instead: {folders}")


def no_run_error(name: str | None) -> BusError:
    """The error where no run, or no run of this name, was found."""
    skipped = "".join(f"; ignored: {each}" for each in distrusted())
    if name is None:
        return BusError(f"no run is in progress; start one with servonode run FILE{skipped}")
    if (robots := robots_of(name)) != [name]:
        return BusError(f"{name} has several robots; name one of {', '.join(map(str, robots))}")
    runs = find_runs()
    there = f"choose {', '.join(sorted(runs))}" if runs else "start one with servonode run FILE"
    return BusError(f"no run named {name!r} is in progress; {there}{skipped}")
