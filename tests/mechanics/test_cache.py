"""The kernel cache: built once, verified by each process, never half written, made again where it is damaged."""

import errno
import fcntl
import json
import logging
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from servonode.definitions import cache, ownership, references
from servonode.definitions.cache import CacheError, Unusable, load
from servonode.kernels.build import built
from servonode.kernels.host import this_host, version_of
from servonode.kernels.language import KernelError
from servonode.mechanics.machine import Machine

SOURCE = """\
def twice(x: f64) -> f64:
    return 2.0 * x
"""
DESCRIPTION = b'{"what": "a test"}'
USERS = dict(os.environ)  # with the user's cache
KEY = "test_cache_of_servonode"  # no real key: those are hexadecimal
NAME = f"kernel_{KEY}"


FILES = ("kernel.txt", "description.json", "code.bin", "code.json", "manifest.json")


def build() -> tuple[str, bytes]:
    return SOURCE, DESCRIPTION


def no_build() -> tuple[str, bytes]:
    raise AssertionError("built although it is cached")


def forget() -> None:
    """What a new process knows: nothing."""
    cache._loaded.pop(NAME, None)
    cache._say_unused.cache_clear()


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget()
    yield tmp_path / "servonode" / "kernels"
    forget()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished kernel, to be copied."""
    home = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        forget()
        load(KEY, build)
        forget()
    return home / "servonode" / "kernels" / KEY


@pytest.fixture
def folder(compiled: Path, root: Path) -> Path:
    """A fresh copy of it in this test's cache."""
    shutil.copytree(compiled, root / KEY)
    return root / KEY


def test_a_kernel_is_built_when_it_is_not_cached(root: Path) -> None:
    module, description = load(KEY, build)
    assert module.twice(1.5) == 3.0
    assert description == DESCRIPTION
    assert (root / KEY / "kernel.txt").read_text() == SOURCE


def test_nothing_but_the_kernel_stays_behind(root: Path) -> None:
    load(KEY, build)
    assert [each.name for each in root.iterdir()] == [KEY]


def test_a_cached_kernel_is_not_built_again(folder: Path) -> None:
    module, description = load(KEY, no_build)
    assert module.twice(1.5) == 3.0
    assert description == DESCRIPTION


def test_a_cached_kernel_brings_its_machine_code(folder: Path) -> None:
    code = "import sys\nfrom servonode.definitions import cache\n"
    code += f"print(cache.load({KEY!r}, None)[0].twice(1.5), 'llvmlite' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "3.0 False\n", run.stderr
    assert {file.name for file in folder.iterdir()} == {*FILES}
    assert cache.entry(folder)  # nothing was written by loading


def test_within_a_process_a_key_is_one_module() -> None:
    assert load(KEY, build)[0] is load(KEY, no_build)[0]


def is_made_again(folder: Path, caplog: pytest.LogCaptureFixture, what: str) -> bool:
    """Whether the kernel is made again, in place, which one line says with the folder and what is wrong with it."""
    assert load(KEY, build)[0].twice(1.5) == 3.0
    (line,) = (each.getMessage() for each in caplog.records if each.levelno == logging.WARNING)
    assert line.startswith(f"the kernel cache {folder} is ")
    assert line.endswith("; it is made again")
    assert [each.name for each in folder.parent.iterdir()] == [KEY]
    forget()
    assert load(KEY, no_build)[0].twice(1.5) == 3.0
    return what in line


def complete(folder: Path) -> None:
    """Give an entry the manifest of its files as they are."""
    files = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "manifest.json"}
    (folder / "manifest.json").write_bytes(cache.manifest_of(folder.name, files))


@pytest.mark.parametrize("where", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_mended(folder: Path, caplog: pytest.LogCaptureFixture, name: str, where: float) -> None:
    data = bytearray((folder / name).read_bytes())
    data[int(where * len(data))] ^= 0x01
    (folder / name).write_bytes(data)
    # within the manifest a flipped digest accuses the file it belongs to
    assert is_made_again(folder, caplog, name) or name == "manifest.json"


def test_any_flipped_bit_of_the_manifest_is_noticed(folder: Path) -> None:
    manifest = folder / "manifest.json"
    good = manifest.read_bytes()
    for i in range(len(good)):
        manifest.write_bytes(good[:i] + bytes([good[i] ^ 0x04]) + good[i + 1 :])
        with pytest.raises(Unusable):
            cache.entry(folder)
    manifest.write_bytes(good)
    assert cache.entry(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_any_other_length_is_noticed(folder: Path, name: str) -> None:
    good = (folder / name).read_bytes()
    for data in (b"", good[:1], good[: len(good) // 2], good[:-1], good + b"\0", good + good, b"\0" * len(good)):
        (folder / name).write_bytes(data)
        with pytest.raises(Unusable, match="damaged"):
            cache.entry(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_made_again(folder: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    (folder / name).unlink()
    assert is_made_again(folder, caplog, f"damaged ({name}")


@pytest.mark.parametrize("name", ["manifest.json", "code.bin", "notes.txt"])
def test_a_folder_in_place_of_a_file_is_made_again(folder: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name / "deep" / "er").mkdir(parents=True)
    assert is_made_again(folder, caplog, f"damaged ({name}")


@pytest.mark.parametrize("kind", ["file", "empty folder", "of nobody's writing"])
def test_what_is_in_the_place_of_a_kernel_is_replaced(
    folder: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    if kind == "of nobody's writing":
        (folder / "code.bin").unlink()
        folder.chmod(0o500)
    else:
        shutil.rmtree(folder)
        folder.touch() if kind == "file" else folder.mkdir()
    assert is_made_again(folder, caplog, "damaged (")


BOMBS = {
    "no table": b"[]",
    "brackets": b"[" * 9000,
    "nested": b'{"key": ' + b'{"key": ' * 1000,
    "NUL": b"\0" * 100,
    "no text": b'{"key": "\xff", "files": {}}',
    "number": b'{"key": "%s", "files": {"code.bin": {"size": 1e999, "digest": ""}}}' % KEY.encode(),
    "absolute": b'{"key": "%s", "files": {"/etc/passwd": {"size": 1, "digest": ""}}}' % KEY.encode(),
    "above": b'{"key": "%s", "files": {"../x": {"size": 1, "digest": ""}}}' % KEY.encode(),
    "NUL in a name": b'{"key": "%s", "files": {"\\u0000": {"size": 1, "digest": ""}}}' % KEY.encode(),
}


@pytest.mark.parametrize("manifest", BOMBS.values(), ids=BOMBS)
def test_a_manifest_that_is_none_is_made_again(folder: Path, caplog: pytest.LogCaptureFixture, manifest: bytes) -> None:
    (folder / "manifest.json").write_bytes(manifest)
    assert is_made_again(folder, caplog, "damaged (")


@pytest.mark.parametrize("name", ["manifest.json", "code.bin"])
def test_a_huge_file_is_not_read(folder: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    with (folder / name).open("r+b") as file:
        file.truncate(1 << 42)
    assert is_made_again(folder, caplog, name)


def test_contents_that_are_none_are_made_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "code.json").write_bytes(b"[" * 100_000)
    complete(folder)
    assert is_made_again(folder, caplog, "damaged (code.json)")


def test_a_file_of_another_kernel_is_noticed(folder: Path) -> None:
    other = folder.with_name("other")
    load(other.name, lambda: (POISON, DESCRIPTION))
    cache._loaded.pop(f"kernel_{other.name}")
    for name in FILES:
        mine = (folder / name).read_bytes()
        if mine != (other / name).read_bytes():
            shutil.copy(other / name, folder / name)
            with pytest.raises(Unusable):
                cache.entry(folder)
            (folder / name).write_bytes(mine)


def test_another_kernel_in_its_place_is_not_run(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    load("other", lambda: (POISON, DESCRIPTION))
    cache._loaded.pop("kernel_other")
    shutil.rmtree(folder)
    folder.with_name("other").rename(folder)
    assert is_made_again(folder, caplog, "another kernel's")


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        ("processor", "made for another processor"),
        ("python", "made for Python elsewhere"),
        ("llvmlite", "made for llvmlite elsewhere"),
    ],
)
def test_machine_code_of_another_host_is_made_again(
    folder: Path, caplog: pytest.LogCaptureFixture, fact: str, text: str
) -> None:
    contents = json.loads((folder / "code.json").read_bytes())
    assert contents["target"]["processor"]
    assert contents["target"]["features"]
    contents["target"]["host"][fact] = "elsewhere"
    (folder / "code.json").write_text(json.dumps(contents))
    complete(folder)
    assert is_made_again(folder, caplog, text)


def test_the_version_of_a_library_is_that_which_it_states() -> None:
    import importlib.metadata

    for name in ("llvmlite", "numpy", "sympy", "scipy"):
        assert version_of(name) == importlib.metadata.version(name)


def test_the_version_of_a_library_without_its_usual_folder_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.py").touch()
    (tmp_path / "odd.egg-info").write_text("Name: odd\nVersion: 7.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert version_of("odd") == "7.5"


def test_a_key_is_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.key_of("a")
    for other in ("processor", "python", "llvmlite"):
        monkeypatch.setattr(cache, "this_host", lambda other=other: msgspec.structs.replace(this_host(), **{other: ""}))
        cache.versions_digest.cache_clear()
        assert cache.key_of("a") != before
    cache.versions_digest.cache_clear()


def test_a_kernel_removed_while_it_is_loaded_is_loaded_still(folder: Path) -> None:
    load(KEY, no_build)
    shutil.rmtree(folder)
    assert load(KEY, no_build)[1] == DESCRIPTION


def test_a_kernel_that_is_removed_while_it_is_read_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = cache._verified

    def removed_meanwhile(place: Path) -> Any:
        (place / "code.bin").unlink(missing_ok=True)
        try:
            return original(place)
        finally:
            shutil.rmtree(place)

    monkeypatch.setattr(cache, "_verified", removed_meanwhile)
    assert load(KEY, build)[0].twice(1.5) == 3.0


class _Broken(Exception):
    pass


def _fails() -> tuple[str, bytes]:
    raise _Broken


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (_fails, _Broken),
        (lambda: ("def broken(:\n", b""), KernelError),
        (lambda: ("1/0\n", b""), KernelError),
    ],
)
def test_a_failed_build_leaves_nothing_behind(root: Path, make: Callable[[], Any], error: type) -> None:
    with pytest.raises(error):
        load(KEY, make)
    assert NAME not in cache._loaded
    assert not root.exists() or list(root.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_refused_with_the_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CacheError) as caught:
        load(KEY, build)
    assert f"the kernel cache {tmp_path / 'file' / 'servonode' / 'kernels'} cannot be written" in str(caught.value)
    assert "set XDG_CACHE_HOME to a folder that can be written" in str(caught.value)


def test_a_full_disk_is_refused_with_the_mend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    (folder / "code.bin").unlink()
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CacheError, match="free the disk"):
        load(KEY, build)
    assert list(folder.parent.iterdir()) == []


def test_a_damaged_kernel_that_cannot_be_made_again_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    (folder / "code.bin").unlink()
    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(CacheError) as caught:
        load(KEY, no_build)
    assert (
        f"the kernel cache {folder.parent} cannot be written (Read-only file system), though its {KEY} is damaged (co"
        in str(caught.value)
    )


def test_a_name_that_is_too_long_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / ("x" * 300), tmp_path / "/".join(["x" * 200] * 30)):
        monkeypatch.setenv("XDG_CACHE_HOME", str(place))
        with pytest.raises(CacheError, match=r"cannot be (read|written) \(File name too long\)"):
            load(KEY, build)


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: type) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", classmethod(homeless))
    with pytest.raises(CacheError, match="set XDG_CACHE_HOME"):
        load(KEY, build)


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.cache_root() == Path.home() / ".cache" / "servonode" / "kernels"


def test_another_definition_has_another_key() -> None:
    keys = {cache.key_of("a", "b"), cache.key_of("ab"), cache.key_of("a", "c"), cache.key_of("a", "b", "")}
    assert len(keys) == 4


def test_a_changed_source_has_another_digest(tmp_path: Path) -> None:
    digests = set()
    for folder, name, text in (("1", "a.py", "x"), ("2", "a.py", "y"), ("3", "b.py", "x")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
        digests.add(cache.sources_digest(tmp_path / folder))
    assert len(digests) == 3


# nobody else's code

OTHER = 54321  # a user id that nobody has
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away and become another user")
POISON = SOURCE.replace("2.0", "3.0")


@pytest.fixture
def poisoned(folder: Path, tmp_path: Path) -> Path:
    """The folder of a kernel that somebody else has made: its code is another, and its manifest is right."""
    code, contents = built(POISON, cache.text_of)
    (folder / "code.bin").write_bytes(code)
    (folder / "code.json").write_bytes(contents.as_json())
    complete(folder)
    return folder


def test_a_poisoned_kernel_of_ones_own_would_run(poisoned: Path) -> None:  # or the tests below could not fail
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


@pytest.mark.parametrize("what", [".", "servonode", "servonode/kernels", f"servonode/kernels/{KEY}"])
def test_a_folder_that_others_can_write_is_not_run(
    poisoned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    (tmp_path / what).chmod(0o777)
    assert is_not_used(caplog, f"{(tmp_path / what).resolve()} can be written by other users (mode 0777); ")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_others_can_write_is_not_run(
    poisoned: Path, folder: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    (folder / name).chmod(0o666)
    assert is_not_used(caplog, f"{folder / name} can be written by other users (mode 0666); remove ")


def test_what_appears_while_a_process_waits_is_looked_at_too(
    poisoned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, aside = cache._locked, poisoned.rename(tmp_path / "aside")

    def waits(place: Path) -> int:
        lock = original(place)
        aside.rename(poisoned)
        (poisoned / "code.bin").chmod(0o666)
        return lock

    monkeypatch.setattr(cache, "_locked", waits)
    assert is_not_used(caplog, f"{poisoned / 'code.bin'} can be written by other users (mode 0666); remove ")


def test_the_folder_above_a_cache_must_be_private_too(
    poisoned: Path, root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all" / "mine").mkdir(parents=True)
    (tmp_path / "servonode").rename(tmp_path / "all" / "mine" / "servonode")
    (tmp_path / "all").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "all" / "mine"))
    assert is_not_used(caplog, f"{tmp_path.resolve() / 'all'} can be written by other users (mode 0777); let ")


def test_a_sticky_folder_above_protects_what_is_ones_own(poisoned: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert load(KEY, no_build)[0].twice(1.5) == 4.5


@as_root
@pytest.mark.parametrize("what", [".", "servonode", f"servonode/kernels/{KEY}/code.bin"])
def test_another_users_kernel_is_not_run(
    poisoned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    os.chown(tmp_path / what, OTHER, OTHER)
    assert is_not_used(caplog, f"{(tmp_path / what).resolve()} belongs to user {OTHER}; ")


@pytest.mark.parametrize("what", ["servonode", "servonode/kernels", f"servonode/kernels/{KEY}"])
def test_a_link_in_the_cache_is_not_followed(
    poisoned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    (tmp_path / what).rename(tmp_path / "elsewhere")
    (tmp_path / what).symlink_to(tmp_path / "elsewhere")
    assert is_not_used(caplog, f"{tmp_path / what} is a link; remove ")


def test_a_link_within_a_kernel_is_not_followed(folder: Path, poisoned: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "code.bin").rename(folder.parent / "code.bin")
    (folder / "code.bin").symlink_to(folder.parent / "code.bin")
    assert is_not_used(caplog, f"{folder / 'code.bin'} is a link; remove ")


def test_a_pipe_in_a_kernel_does_not_hang(folder: Path, poisoned: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(folder / "pipe")
    assert is_not_used(caplog, f"{folder / 'pipe'} is neither a file nor a folder; ")


def test_a_way_to_the_cache_by_ones_own_link_is_fine(
    poisoned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(".")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link" / "link"))
    assert load(KEY, no_build)[0].twice(1.5) == 4.5


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
    file = poisoned / "code.bin"
    file.chmod(0o660)
    assert ownership.not_mine(poisoned) is None
    entries = [(1, 6, -1), (2, 6, OTHER), (4, 0, -1), (16, 6, -1), (32, 0, -1)]  # OTHER may read and write
    try:
        os.setxattr(
            file, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)
        )
    except OSError:
        pytest.skip("a file system without access control lists")
    assert is_not_used(caplog, f"{file} can be written by other users (mode 0660); remove ")


def test_links_that_go_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert ownership.exposed(tmp_path / "a" / "x") is None  # nothing can be read there


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o000, 0o077])
def test_what_is_made_is_private_whatever_the_umask(root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        load(KEY, build)
    finally:
        os.umask(before)
    made = [root.parent, root, *root.rglob("*")]
    assert {each.stat().st_mode & 0o777 for each in made if each.is_dir()} == {0o700}
    assert {each.stat().st_mode & 0o777 for each in made if each.is_file()} == {0o600}
    forget()
    assert load(KEY, no_build)[0].twice(1.5) == 3.0


def test_what_a_killed_compilation_left_is_cleared_away(root: Path, tmp_path: Path) -> None:
    left, worked_on = root / ".building-left", root / ".building-worked-on"
    for each in (left, worked_on):
        each.mkdir(parents=True)
        (each / "code.bin").write_text("half of it")
    (root / ".building-link").symlink_to(tmp_path)
    (tmp_path / "servonode").chmod(0o700)
    lock = os.open(worked_on, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # as its maker does, as long as it lives
    load(KEY, build)
    os.close(lock)
    assert sorted(each.name for each in root.iterdir()) == sorted([KEY, worked_on.name, ".building-link"])
    assert tmp_path.exists()


def test_a_compilation_that_is_killed_is_cleared_away_by_the_next(root: Path, tmp_path: Path) -> None:
    code = "import os\nfrom servonode.definitions import cache\n"
    code += "cache._publish = lambda *_: os.kill(os.getpid(), 9)\n"
    code += f"cache.load({KEY!r}, lambda: ({SOURCE!r}, b''))"
    killed = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert killed.returncode == -9
    assert [each.name[:10] for each in root.iterdir()] == [".building-"]
    load(KEY, build)
    assert [each.name for each in root.iterdir()] == [KEY]


def in_another_user(work: Callable[[], bool]) -> bool:
    """Whether it holds in a child process with another user id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            code = 0 if work() else 1
        except BaseException:  # noqa: BLE001  (the last frame of a process)
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def readable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to which every user comes, for a cache."""
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        Path(home).chmod(0o755)
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        monkeypatch.setenv("HOME", home)
        yield Path(home)


@as_root
@pytest.mark.parametrize("owner", [0, OTHER])
def test_a_warm_cache_that_cannot_be_written_works(compiled: Path, readable: Path, owner: int) -> None:
    folder = readable / "servonode" / "kernels" / KEY
    shutil.copytree(compiled, folder)
    everything = [readable, *readable.rglob("*")]
    for each in everything:
        os.chown(each, owner, owner)
        each.chmod(0o555 if each.is_dir() else 0o444)

    def works() -> bool:
        module, description = load(KEY, no_build)
        return (module.twice(1.5), description) == (3.0, DESCRIPTION)

    assert in_another_user(works)
    assert [readable, *readable.rglob("*")] == everything


@as_root
def test_a_cold_cache_that_cannot_be_written_is_one_line(compiled: Path, readable: Path) -> None:
    def is_refused() -> bool:
        try:
            load(KEY, build)
        except CacheError as error:
            wanted = f"the kernel cache {readable}/servonode/kernels cannot be written (Permission denied); free the"
            return str(error).startswith(wanted) and "\n" not in str(error)
        return False

    assert in_another_user(is_refused)


@as_root
def test_a_kernel_that_may_not_be_read_says_so(compiled: Path, readable: Path) -> None:
    folder = readable / "servonode" / "kernels" / KEY
    shutil.copytree(compiled, folder)
    for each in (folder.parent, folder.parent.parent):
        each.chmod(0o755)

    def is_refused() -> bool:
        try:
            load(KEY, build)
        except CacheError as error:
            return f"the kernel cache {folder} may not be read; have its owner allow it (chmod -R go+rX)" in str(error)
        return False

    assert in_another_user(is_refused)


# many processes at once


def all_well(count: int, work: Callable[[int], None]) -> None:
    """Assert that this work ends without an error in so many processes at once."""
    children = []
    for i in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(i)
                code = 0
            except BaseException:  # noqa: BLE001  (the last frame of a process)
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert ends == [0] * count


def counted(counter: Path, seconds: float = 0.2) -> tuple[str, bytes]:
    """A build that takes a while, and says in a file that it has begun."""
    with counter.open("a") as file:
        file.write("built\n")
    time.sleep(seconds)
    return SOURCE, DESCRIPTION


@pytest.mark.parametrize("damaged", [False, True])
def test_ten_processes_at_once_do_the_work_once(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: bool
) -> None:
    if damaged:
        (root / KEY).mkdir(parents=True)
        for each in (root.parent, root, root / KEY):
            each.chmod(0o700)

    def work(_: int) -> None:
        module, description = load(KEY, lambda: counted(tmp_path / "counter"))
        assert (module.twice(1.5), description) == (3.0, DESCRIPTION)

    all_well(10, work)
    assert (tmp_path / "counter").read_text() == "built\n"
    assert [each.name for each in root.iterdir()] == [KEY]


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
    assert sorted(each.name for each in root.iterdir()) == [KEY, "upper0", "upper1"]


def test_where_the_maker_is_killed_one_of_those_who_wait_makes_it(root: Path, tmp_path: Path) -> None:
    def killed() -> tuple[str, bytes]:
        (tmp_path / "begun").touch()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    maker = os.fork()
    if maker == 0:
        load(KEY, killed)
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    all_well(3, lambda _: load(KEY, lambda: counted(tmp_path / "counter")))
    assert os.waitstatus_to_exitcode(os.waitpid(maker, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "counter").read_text() == "built\n"
    assert [each.name for each in root.iterdir()] == [KEY]


def test_who_waits_for_a_kernel_says_so_and_can_be_interrupted(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_PATIENCE", 0.05)
    caplog.set_level(logging.INFO)
    place = root / f".building-{KEY}"
    place.mkdir(parents=True)
    (root.parent).chmod(0o700)
    maker = os.open(place, os.O_RDONLY)
    fcntl.flock(maker, fcntl.LOCK_EX)
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        load(KEY, no_build)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    os.close(maker)
    assert f"another process makes the kernel {KEY}, which is waited for" in caplog.text
    assert load(KEY, build)[0].twice(1.5) == 3.0


def test_threads_that_want_a_kernel_at_once_make_it_once(root: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        loaded = list(threads.map(lambda _: load(KEY, lambda: counted(tmp_path / "counter"))[0], range(4)))
    assert (tmp_path / "counter").read_text() == "built\n"
    assert {each.twice(1.5) for each in loaded} == {3.0}


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
    assert [each.name for each in root.iterdir()] == [KEY]
    assert cache.entry(root / KEY)


WARM = """\
import sys
from servonode.controllers import load_law
from servonode.controllers.engine.signals import load_signals
from servonode.plants import load_machine, machine_key, model_factory

key = machine_key("diff_drive_trailer", {})
machine = load_machine("diff_drive_trailer", {}, {})
for name in ("pursuit", "rates"):
    options = {"variant": "finite"} if name == "pursuit" else {}
    load_law(name, machine, key, lambda: model_factory("diff_drive_trailer")(), options, {})
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
