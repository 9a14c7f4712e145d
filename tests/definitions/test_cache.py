"""The kernel cache: built once, checked by each process, never half written, made again where it is damaged."""

import errno
import fcntl
import logging
import os
import re
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from servonode.definitions import cache, ownership, references, store
from servonode.definitions.cache import CacheError, Compiled, load, versions_digest
from servonode.kernels.build import built
from servonode.kernels.language import KernelError
from servonode.mechanics.machine import Machine

SOURCE = """\
def twice(x: f64) -> f64:
    return 2.0 * x
"""
POISON = SOURCE.replace("2.0", "3.0")
DESCRIPTION = b'{"what": "a test"}'
USERS = dict(os.environ)  # with the user's cache
KEY = "test_cache_of_servonode"  # no real key: those are hexadecimal
NAME = f"kernel_{KEY}"
FILE = f"{KEY}.kernel"
OTHER = 54321  # a user id that nobody has
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away and become another user")


def build() -> tuple[str, bytes]:
    return SOURCE, DESCRIPTION


def no_build() -> tuple[str, bytes]:
    raise AssertionError("built although it is cached")


def new_process() -> None:
    """What a new process knows of kernels: nothing."""
    cache._loaded.pop(NAME, None)
    store._report_unused.cache_clear()


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


def kernels(root: Path) -> list[str]:
    """The files of the cache, but for those of object code, which others share."""
    return sorted(each.name for each in root.iterdir() if not each.name.startswith("code_"))


def test_other_modules_that_derive_the_same_compile_nothing_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(KEY, build)
    new_process()
    monkeypatch.setattr("servonode.kernels.build._object_code", lambda _: pytest.fail("compiled again"))
    assert load("another_key", build)[0].twice(1.5) == 3.0
    assert len([each for each in root.iterdir() if each.name.startswith("code_")]) == 1


def test_a_kernel_is_built_when_it_is_not_cached(root: Path) -> None:
    module, description = load(KEY, build)
    assert (module.twice(1.5), description) == (3.0, DESCRIPTION)
    assert load(KEY, no_build)[0] is module  # within a process a key is one module
    assert kernels(root) == [FILE]
    new_process()
    module, description = load(KEY, no_build)
    assert (module.twice(1.5), description) == (3.0, DESCRIPTION)


def test_a_cached_kernel_needs_no_compiler(file: Path) -> None:
    code = "import sys\nfrom servonode.definitions import cache\n"
    code += f"print(cache.load({KEY!r}, None)[0].twice(1.5), 'servonode.kernels.build' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "3.0 False\n", run.stderr


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(change(file.read_bytes()))


def flipped(where: float) -> Callable[[Path], object]:
    def change(data: bytes) -> bytes:
        at = int(where * (len(data) - 1))
        return data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :]

    return rewritten(change)


def by_another(file: Path) -> None:
    load("other", lambda: (POISON, DESCRIPTION))
    cache._loaded.pop("kernel_other")
    file.with_name("other.kernel").rename(file)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit of the header": flipped(0.005),
    "a bit of the code": flipped(0.3),
    "cut off": rewritten(lambda data: data[: len(data) // 2]),
    "longer": rewritten(lambda data: data + b"\0"),
    "empty": rewritten(lambda _: b""),
    "deeply nested": rewritten(lambda _: b"[" * 100_000),
    "no kernel": lambda file: store.write(file, {"text": SOURCE, "description": b""}),  # with the right checksum
    "another kernel": by_another,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_kernel_is_made_again(file: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    """In place, which one line says with the file."""
    DAMAGE[kind](file)
    assert load(KEY, build)[0].twice(1.5) == 3.0
    (line,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert line == f"the kernel cache {file} is damaged; it is made again"
    assert kernels(file.parent) == [FILE]
    new_process()
    assert load(KEY, no_build)[0].twice(1.5) == 3.0


def test_a_kernel_that_is_removed_while_it_is_read_is_made_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = store.untrusted_reason

    def removed_meanwhile(place: Path) -> str | None:
        found = original(place)
        place.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(store, "untrusted_reason", removed_meanwhile)
    assert load(KEY, build)[0].twice(1.5) == 3.0


class _Broken(Exception):
    pass


def _fails() -> tuple[str, bytes]:
    raise _Broken


@pytest.mark.parametrize(("make", "error"), [(_fails, _Broken), (lambda: ("def broken(:\n", b""), KernelError)])
def test_a_failed_build_leaves_nothing_behind(root: Path, make: Callable[[], Any], error: type) -> None:
    with pytest.raises(error):
        load(KEY, make)
    assert NAME not in cache._loaded
    assert list(root.iterdir()) == []


# what the user is told


def test_a_cache_that_cannot_be_used_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", tmp_path / ("x" * 300), tmp_path / "/".join(["x" * 200] * 30)):
        monkeypatch.setenv("XDG_CACHE_HOME", str(home))
        with pytest.raises(CacheError) as caught:
            load(KEY, build)
        text = str(caught.value)
        assert f"the kernel cache {home / 'servonode' / 'kernels'}" in text
        assert re.search(r"cannot be (read|written) \((Not a directory|File name too long)\)", text)
        assert "set XDG_CACHE_HOME to a folder" in text
        assert "\n" not in text


def test_a_full_disk_is_refused_and_keeps_no_half_kernel(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CacheError, match="free the disk"):
        load(KEY, build)
    assert list(root.iterdir()) == []


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: type) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", classmethod(homeless))
    with pytest.raises(CacheError, match="set XDG_CACHE_HOME"):
        load(KEY, build)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # is ignored
    assert cache.cache_root() == Path.home() / ".cache" / "servonode" / "kernels"


# nobody else's code


@pytest.fixture
def poisoned(file: Path) -> Path:
    """The file of a kernel that somebody else has made: its code is another, and its checksum is right."""
    store.write(file, Compiled(SOURCE, DESCRIPTION, *built(POISON, cache.text_of)))
    return file


OWN: dict[str, Callable[[Path], None]] = {  # of the cache's home
    "as it is": lambda _: None,  # or the tests below could not fail
    "below a sticky folder": lambda home: home.chmod(0o1777),
    "by a link of one's own": lambda home: (home / "link").symlink_to("."),
}


@pytest.mark.parametrize("way", OWN)
def test_a_poisoned_kernel_of_ones_own_would_run(
    poisoned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    OWN[way](tmp_path)
    if (tmp_path / "link").exists():
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link" / "link"))
    assert load(KEY, no_build)[0].twice(1.5) == 4.5


def is_not_used(caplog: pytest.LogCaptureFixture, problem: str) -> bool:
    """Whether the kernel is built for this process alone, nothing of the cache is run, and one line says why."""
    assert load(KEY, build)[0].twice(1.5) == 3.0
    assert load(KEY, no_build)[1] == DESCRIPTION
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert line.startswith("the kernel cache is not used: ")
    assert "set XDG_CACHE_HOME to a folder of your own" in line
    assert "\n" not in line
    return problem in line


def to_link(place: Path) -> None:
    place.rename(f"{place}.aside")
    place.symlink_to(f"{place}.aside")


CHANGES: dict[str, Callable[[Path], None]] = {  # by what is told of it
    "can be written by other users (mode 0777); ": lambda place: place.chmod(0o777),
    f"belongs to user {OTHER}; ": lambda place: os.chown(place, OTHER, OTHER),
    "is a link; remove ": to_link,
}


@pytest.mark.parametrize("text", CHANGES)
@pytest.mark.parametrize("where", ["", "servonode", "servonode/kernels", f"servonode/kernels/{FILE}"])
def test_what_another_user_could_have_changed_is_not_run(
    poisoned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, where: str
) -> None:
    if os.getuid() != 0 and "belongs" in text:
        pytest.skip("only root can give files away")
    if not where and "link" in text:
        return  # a link to the cache's home is followed, and looked at
    place = tmp_path.resolve() / where
    CHANGES[text](place)
    assert is_not_used(caplog, f"{place} {text}")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_read(
    file: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], None]
) -> None:
    file.unlink()
    make(file)  # a pipe would hang
    assert is_not_used(caplog, f"{file} is no file; ")


def test_what_appears_while_a_process_waits_is_looked_at_too(
    poisoned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, aside = store._locked, poisoned.rename(tmp_path / "aside")

    def waits(place: Path) -> int:
        lock = original(place)
        if aside.exists():  # at the first wait; that for the object code comes after it
            aside.rename(poisoned)
            poisoned.chmod(0o666)
        return lock

    monkeypatch.setattr(store, "_locked", waits)
    assert is_not_used(caplog, f"{poisoned} can be written by other users (mode 0666); remove ")


def test_the_folder_above_a_cache_must_be_private_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all" / "mine").mkdir(parents=True)
    (tmp_path / "all").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "all" / "mine"))
    assert is_not_used(caplog, f"{tmp_path.resolve() / 'all'} can be written by other users (mode 0777); let ")


@as_root
def test_a_way_to_the_cache_by_another_users_link_is_not(
    poisoned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "link").symlink_to(".")
    os.chown(tmp_path / "link", OTHER, OTHER, follow_symlinks=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert is_not_used(caplog, f"link belongs to user {OTHER}; ")


def test_an_access_list_that_lets_another_user_write_is_seen(
    poisoned: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_is_private", lambda *_: True)  # the group is the user's own
    poisoned.chmod(0o660)
    assert ownership.foreign_owner(poisoned) is None
    entries = [(1, 6, -1), (2, 6, OTHER), (4, 0, -1), (16, 6, -1), (32, 0, -1)]  # OTHER may read and write
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
    try:
        os.setxattr(poisoned, "system.posix_acl_access", access)
    except OSError:
        pytest.skip("a file system without access control lists")
    assert is_not_used(caplog, f"{poisoned} can be written by other users (mode 0660); remove ")


def test_links_that_go_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert ownership.exposed(tmp_path / "a" / "x") is None  # nothing can be read there


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_what_is_made_is_private_whatever_the_umask(root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        load(KEY, build)
    finally:
        os.umask(before)
    assert {each.stat().st_mode & 0o777 for each in (root.parent, root)} == {0o700}
    assert (root / FILE).stat().st_mode & 0o777 == 0o600


# several at once


def test_threads_that_want_a_kernel_at_once_make_it_once(root: Path) -> None:
    begun, made = threading.Barrier(4), list[str]()

    def wanted(_: int) -> Any:
        begun.wait(60.0)
        return load(KEY, lambda: made.append("built") or build())[0]  # type: ignore[func-returns-value]

    with ThreadPoolExecutor(4) as threads:
        loaded = list(threads.map(wanted, range(4)))
    assert made == ["built"]
    assert [each.twice(1.5) for each in loaded] == [3.0] * 4


def test_who_waits_for_a_kernel_says_so_and_can_be_interrupted(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "NOTICE_AFTER_S", 0.05)
    caplog.set_level(logging.INFO)
    file.unlink()
    maker = os.open(file.with_name(f".building-{FILE}"), os.O_CREAT | os.O_RDONLY)
    fcntl.flock(maker, fcntl.LOCK_EX)
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    interrupt = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))

    class Told(logging.Handler):
        """Has it interrupted once it has said that it waits, which it does for ever."""

        def emit(self, record: logging.LogRecord) -> None:
            if "which is waited for" in record.getMessage():
                interrupt.start()

    logging.getLogger().addHandler(told := Told())
    with pytest.raises(KeyboardInterrupt):
        load(KEY, no_build)
    logging.getLogger().removeHandler(told)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    os.close(maker)
    assert f"another process makes the kernel {KEY}, which is waited for" in caplog.text
    assert load(KEY, build)[0].twice(1.5) == 3.0


WARM = """\
import sys
from servonode.controllers import load_law
from servonode.controllers.engine.signals import load_signals
from servonode.plants import packaged_machine

source = packaged_machine("diff_drive_trailer")
key, machine = source.key, source.load({})
for name in ("pursuit", "rates"):
    options = {"variant": "finite"} if name == "pursuit" else {}
    load_law(name, machine, key, source.definition.call, options, {})
load_signals({"x": "2 + 0.3*t", "y": "0"}, 2)
print("sympy" in sys.modules)
"""


def test_a_process_that_finds_all_kernels_never_imports_sympy(trailer: Machine) -> None:
    for _ in range(2):  # the first run fills the user's cache where a kernel is missing
        run = subprocess.run(
            [sys.executable, "-c", WARM], capture_output=True, text=True, env=USERS, timeout=120, check=False
        )
        assert run.returncode == 0, run.stderr
        if run.stdout == "False\n":
            return
    pytest.fail("sympy was imported although every kernel was cached")


def test_packages_of_another_environment_on_the_path_are_no_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "machine.py"
    file.write_text("import installed_elsewhere, my_folder\n")
    for folder, name in (("site-packages", "installed_elsewhere"), ("mine", "my_folder")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text("")
        monkeypatch.syspath_prepend(tmp_path / folder)
    assert references._reached(file) == {file, tmp_path / "mine" / "my_folder.py"}
