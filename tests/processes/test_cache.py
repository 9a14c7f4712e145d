"""The kernel cache: built once, checked by each process, never half written, made again where it is damaged."""

import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from servonode.definitions import cache, store
from servonode.definitions.cache import Compiled, load, versions_digest
from servonode.kernels.build import built
from tests.definitions.test_cache import (
    DESCRIPTION,
    FILE,
    KEY,
    NAME,
    SOURCE,
    counted,
    ended,
    forked,
    kernels,
    new_process,
)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache; this process has its own digests already."""
    versions_digest()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    new_process()
    yield tmp_path / "servonode" / "kernels"
    new_process()


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    """The kernel as it is kept."""
    return Compiled(SOURCE, DESCRIPTION, *built(SOURCE, cache.text_of))


@pytest.fixture
def file(compiled: Compiled, root: Path) -> Path:
    """Its file in this test's cache."""
    for each in (root.parent, root):
        each.mkdir(mode=0o700)
    store.write(root / FILE, compiled)
    (root / FILE).chmod(0o600)
    return root / FILE


def all_well(count: int, work: Callable[[int], None]) -> None:
    """Assert that this work ends without an error in so many processes at once."""
    children = [forked(partial(work, i)) for i in range(count)]
    assert [ended(child) for child in children] == [0] * count


@pytest.mark.parametrize("damaged", [False, True])
def test_five_processes_at_once_do_the_work_once(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: bool
) -> None:
    if damaged:
        for each in (root.parent, root):
            each.mkdir(mode=0o700)
        (root / FILE).touch(0o600)

    def work(_: int) -> None:
        module, description = load(KEY, lambda: counted(tmp_path / "counter"))
        assert (module.twice(1.5), description) == (3.0, DESCRIPTION)

    all_well(5, work)
    assert (tmp_path / "counter").read_text() == "built\n"
    assert kernels(root) == [FILE]


def test_builds_that_load_other_kernels_do_not_wait_for_each_other(root: Path, tmp_path: Path) -> None:
    def upper() -> tuple[str, bytes]:
        load(KEY, lambda: counted(tmp_path / "counter", 0.05))
        return f"from {NAME} import twice\n\n\ndef four(x: f64) -> f64:\n    return twice(twice(x))\n", b""

    def work(i: int) -> None:
        if i % 2:
            load(KEY, lambda: counted(tmp_path / "counter", 0.05))
        assert load(f"upper{i // 2 % 2}", upper)[0].four(1.0) == 4.0

    all_well(8, work)
    assert (tmp_path / "counter").read_text() == "built\n"
    assert kernels(root) == [FILE, "upper0.kernel", "upper1.kernel"]


def test_where_the_maker_is_killed_one_of_those_who_wait_makes_it(root: Path, tmp_path: Path) -> None:
    def killed() -> tuple[str, bytes]:
        (tmp_path / "begun").touch()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    maker = forked(lambda: load(KEY, killed))
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    all_well(3, lambda _: load(KEY, lambda: counted(tmp_path / "counter")))
    assert ended(maker) == -signal.SIGKILL
    assert (tmp_path / "counter").read_text() == "built\n"
    assert kernels(root) == [FILE]


def test_without_locks_processes_that_build_at_once_both_succeed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def both() -> tuple[str, bytes]:
        (tmp_path / str(os.getpid())).touch()
        for _ in range(3000):  # until both are inside their build
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
