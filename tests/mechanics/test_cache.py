"""The kernel cache: built once, verified each time, never half written."""

import errno
import fcntl
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servonode.kernels.build import built
from servonode.kernels.language import KernelError
from servonode.mechanics import cache, ownership
from servonode.mechanics.cache import CacheError, load
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
    cache._passing.clear()
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
    code = "import sys\nfrom servonode.mechanics import cache\n"
    code += f"print(cache.load({KEY!r}, None)[0].twice(1.5), 'llvmlite' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "3.0 False\n", run.stderr
    assert {file.name for file in folder.iterdir()} == {*FILES}
    cache.verified(folder)  # nothing was written by loading


def test_within_a_process_a_key_is_one_module() -> None:
    assert load(KEY, build)[0] is load(KEY, no_build)[0]


def is_refused(folder: Path, file: str) -> bool:
    """Whether loading is refused with folder, file and remedy in the text, and nothing is imported."""
    with pytest.raises(CacheError) as caught:
        load(KEY, no_build)
    text = str(caught.value)
    assert f"the kernel cache {folder} is damaged" in text
    assert "remove that folder, the next run derives and compiles it again" in text
    assert NAME not in cache._loaded
    return file in text


def files_of(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("where", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("pattern", FILES)
def test_a_flipped_byte_is_refused(folder: Path, pattern: str, where: float) -> None:
    (file,) = folder.rglob(pattern)
    data = bytearray(file.read_bytes())
    data[int(where * len(data))] ^= 0x01
    file.write_bytes(data)
    # within the manifest a flipped digest accuses the file it belongs to
    assert is_refused(folder, file.name) or pattern == "manifest.json"


def test_any_flipped_bit_of_the_manifest_is_refused(folder: Path) -> None:
    manifest = folder / "manifest.json"
    good = manifest.read_bytes()
    for i in range(len(good)):
        manifest.write_bytes(good[:i] + bytes([good[i] ^ 0x04]) + good[i + 1 :])
        with pytest.raises(CacheError):
            cache.verified(folder)
    manifest.write_bytes(good)
    cache.verified(folder)


@pytest.mark.parametrize("pattern", FILES)
def test_a_missing_file_is_refused(folder: Path, pattern: str) -> None:
    (file,) = folder.rglob(pattern)
    file.unlink()
    assert is_refused(folder, file.name)


@pytest.mark.parametrize("pattern", FILES)
def test_an_empty_file_is_refused(folder: Path, pattern: str) -> None:
    (file,) = folder.rglob(pattern)
    file.write_bytes(b"")
    assert is_refused(folder, file.name)


@pytest.mark.parametrize("name", ["notes.txt", "code.so"])
def test_an_extra_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_text("")
    assert is_refused(folder, name)


def test_an_empty_folder_is_refused(root: Path) -> None:
    (root / KEY).mkdir(parents=True)
    assert is_refused(root / KEY, "manifest.json")


def test_a_manifest_that_is_no_table_is_refused(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")
    assert is_refused(folder, "manifest.json")


def test_after_the_mend_the_kernel_is_built_again(folder: Path) -> None:
    (folder / "kernel.txt").write_text("broken")
    with pytest.raises(CacheError):
        load(KEY, no_build)
    shutil.rmtree(folder)
    assert load(KEY, build)[0].twice(1.5) == 3.0


def test_a_kernel_removed_while_it_is_loaded_can_be_loaded_again(folder: Path) -> None:
    load(KEY, no_build)
    shutil.rmtree(folder)
    assert load(KEY, build)[1] == DESCRIPTION


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


def test_a_full_disk_is_refused_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CacheError, match="free the disk"):
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
    digests = {file.name: cache._digest(file.read_bytes()) for file in cache._content(folder)}
    (folder / "manifest.json").write_text(json.dumps(digests))
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
    code = "import os\nfrom servonode.mechanics import cache\n"
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
            import traceback

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


BUILDER = """\
import sys, time
from pathlib import Path
from servonode.mechanics.cache import load

mine, other = Path(sys.argv[1]), Path(sys.argv[2])

def build():
    mine.touch()
    for _ in range(3000):  # both processes are inside their build
        if other.exists():
            break
        time.sleep(0.01)
    return sys.argv[3], b"{}"

module, description = load("test_concurrent", build)
print(module.twice(1.5), description.decode())
"""


def test_two_processes_that_build_at_once_both_succeed(root: Path, tmp_path: Path) -> None:
    flags = [str(tmp_path / name) for name in ("first", "second")]
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, *order, SOURCE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for order in (flags, flags[::-1])
    ]
    for builder in builders:
        out, err = builder.communicate(timeout=60)
        assert (builder.returncode, out) == (0, "3.0 {}\n"), err
    assert [each.name for each in root.iterdir()] == ["test_concurrent"]
    cache.verified(root / "test_concurrent")


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
