"""The kernel cache: built once, checked by each process, never half written, made again where it is damaged."""

import errno
import fcntl
import grp  # noqa: F401  (which another user may be unable to import)
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from servonode.definitions import cache, store
from servonode.definitions.cache import CacheError, Compiled, load, versions_digest
from servonode.kernels.build import built
from tests.definitions.test_cache import (
    DESCRIPTION,
    FILE,
    KEY,
    NAME,
    OTHER,
    SOURCE,
    as_root,
    build,
    kernels,
    new_process,
    no_build,
)


@pytest.fixture(autouse=True)
def root(compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache; this process has its own digests already."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    new_process()
    yield tmp_path / "servonode" / "kernels"
    new_process()


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    """The kernel as it is kept."""
    versions_digest()
    return Compiled(SOURCE, DESCRIPTION, *built(SOURCE, cache.text_of))


@pytest.fixture
def file(compiled: Compiled, root: Path) -> Path:
    """Its file in this test's cache."""
    for each in (root.parent, root):
        each.mkdir(mode=0o700)
    store.write(root / FILE, compiled)
    (root / FILE).chmod(0o600)
    return root / FILE


def forked(work: Callable[[], object]) -> int:
    """The id of a child process that does this work and ends with 0 where it raises nothing."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001  (the last frame of a process)
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# other users, as whom nothing can be written


def succeeds_as_another_user(work: Callable[[], object]) -> bool:
    def as_other() -> None:
        os.setgroups([])
        os.setgid(OTHER)
        os.setuid(OTHER)
        work()

    return ended(forked(as_other)) == 0


@pytest.fixture
def readable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to which every user comes, for a cache."""
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        Path(home).chmod(0o755)
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        monkeypatch.setenv("HOME", home)
        yield Path(home)


def shared_file(compiled: Compiled, home: Path) -> Path:
    folder = home / "servonode" / "kernels"
    folder.mkdir(parents=True)
    store.write(folder / FILE, compiled)
    for each in (folder, folder.parent):
        each.chmod(0o755)
    return folder / FILE


@as_root
def test_what_another_user_cannot_read_or_write_is_one_line_and_a_warm_cache_works(
    compiled: Compiled, readable: Path
) -> None:
    def is_refused(wanted: str) -> None:
        with pytest.raises(CacheError) as caught:
            load(KEY, build)
        assert str(caught.value).startswith(wanted)
        assert "\n" not in str(caught.value)

    cold = f"the kernel cache {readable}/servonode/kernels cannot be written (Permission denied); free the"
    assert succeeds_as_another_user(partial(is_refused, cold))
    shared = shared_file(compiled, readable)
    shared.chmod(0o600)
    unreadable = f"the kernel cache {shared} may not be read; have its owner allow it (chmod -R go+rX)"
    assert succeeds_as_another_user(partial(is_refused, unreadable))
    everything = [readable, *readable.rglob("*")]

    def works() -> None:
        module, description = load(KEY, no_build)
        assert (module.twice(1.5), description) == (3.0, DESCRIPTION)

    for owner in (0, OTHER):
        for each in everything:
            os.chown(each, owner, owner)
            each.chmod(0o555 if each.is_dir() else 0o444)
        assert succeeds_as_another_user(works)
        assert [readable, *readable.rglob("*")] == everything


# many processes at once


def all_well(count: int, work: Callable[[int], None]) -> None:
    """Assert that this work ends without an error in so many processes at once."""
    children = [forked(partial(work, i)) for i in range(count)]
    assert [ended(child) for child in children] == [0] * count


def counted(counter: Path, seconds: float = 0.1) -> tuple[str, bytes]:
    """A build that takes a while, and says in a file that it has begun."""
    with counter.open("a") as file:
        file.write("built\n")
    time.sleep(seconds)
    return SOURCE, DESCRIPTION


def test_many_processes_at_once_do_the_work_once_and_another_one_does_where_the_maker_is_killed(
    root: Path, tmp_path: Path
) -> None:
    counter = tmp_path / "counter"

    def lower(_: int) -> None:
        module, description = load(KEY, lambda: counted(counter))
        assert (module.twice(1.5), description) == (3.0, DESCRIPTION)

    def upper() -> tuple[str, bytes]:
        load(KEY, lambda: counted(counter, 0.05))
        return f"from {NAME} import twice\n\n\ndef four(x: f64) -> f64:\n    return twice(twice(x))\n", b""

    def both(i: int) -> None:
        if i % 2:
            load(KEY, lambda: counted(counter, 0.05))
        assert load(f"upper{i // 2 % 2}", upper)[0].four(1.0) == 4.0

    def killed() -> tuple[str, bytes]:
        (tmp_path / "begun").touch()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    all_well(5, lower)
    (root / FILE).write_bytes(b"")  # damaged
    all_well(5, lower)
    assert (counter.read_text(), kernels(root)) == ("built\n" * 2, [FILE])
    (root / FILE).unlink()
    all_well(8, both)  # builds that load other kernels do not wait for each other
    assert (counter.read_text(), kernels(root)) == ("built\n" * 3, [FILE, "upper0.kernel", "upper1.kernel"])
    (root / FILE).unlink()
    maker = forked(lambda: load(KEY, killed))
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    all_well(3, lower)
    assert ended(maker) == -signal.SIGKILL
    assert counter.read_text() == "built\n" * 4


def test_without_locks_processes_that_build_at_once_both_succeed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def both() -> tuple[str, bytes]:
        (tmp_path / str(os.getpid())).touch()
        for _ in range(12000):  # until both are inside their build
            if len(list(tmp_path.glob("[0-9]*"))) == 2:
                return SOURCE, b"{}"
            time.sleep(0.01)
        raise AssertionError("the other process is not there")

    def work(_: int) -> None:
        assert load(KEY, both)[0].twice(1.5) == 3.0

    monkeypatch.setattr(fcntl, "flock", no_locks)
    all_well(2, work)
    assert kernels(root) == [FILE]
    assert store.read(root / FILE, Compiled)
