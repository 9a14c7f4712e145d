"""The key of a kernel: what changes it, and what does not."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from servonode.definitions import cache as keys
from servonode.definitions.cache import code_of, digest_of_code, key_of, reached
from servonode.kernels.host import this_host, version_of
from tests.helpers.packaged import machine_key

SOURCES = {
    "room": b'"""A room."""\n',
    "room.derive": b'''\
"""Derives."""
from servonode.room import emit  # the printer


def derive(x: float) -> float:
    """Twice x."""
    return 2.0 * x
''',
    "room.emit": b"def emit():\n    from servonode.room.late import WORDS\n    return WORDS\n",
    "room.late": b'from servonode.elsewhere import words\nWORDS = "text"\n',
    "room.other": b"import servonode.room.derive\n",
}


@pytest.fixture(autouse=True)
def digests_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a process that has not yet made a key."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for each in (keys.versions_digest, keys.code_digest, keys._code):
        each.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of servonode's sources, whose keys are asked for."""
    folder = tmp_path / "servonode"
    for room in keys.ROOMS:
        shutil.copytree(keys._FOLDER / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(keys, "_FOLDER", folder)
    return folder


def machine_key_now() -> str:
    for each in (keys.versions_digest, keys.code_digest, keys._code):
        each.cache_clear()
    return machine_key("diff_drive_trailer", {})


@pytest.mark.parametrize(
    ("module", "before", "after"),
    [
        ("room.derive", b"2.0 * x", b"3.0 * x"),
        ("room.derive", b"x: float", b"y: float"),
        ("room.emit", b"return WORDS", b"return WORDS * 2"),  # a module that is imported
        ("room.late", b'"text"', b'"texts"'),  # and one that a function of it imports
        ("room", b'"""A room."""\n', b"SIZE = 1\n"),  # and the package that runs first
        ("room.derive", b"import emit", b"import emit, other"),
        ("room.derive", b"from servonode.room import emit", b"from servonode import room, tables"),
    ],
)
def test_code_that_is_reached_changes_the_digest(module: str, before: bytes, after: bytes) -> None:
    changed = SOURCES | {module: SOURCES[module].replace(before, after)}
    assert changed != SOURCES
    assert digest_of_code(code_of(changed), "room.derive") != digest_of_code(code_of(SOURCES), "room.derive")


def test_a_module_that_is_not_reached_does_not_change_the_digest() -> None:
    changed = SOURCES | {"room.other": b"print(1)"}
    assert digest_of_code(code_of(changed), "room.derive") == digest_of_code(code_of(SOURCES), "room.derive")


def test_a_machine_is_derived_again_when_what_derives_it_changes_and_then_alone(package: Path) -> None:
    before = machine_key_now()
    for module, text, changes in (
        ("mechanics/machine", "CHANGED = True", False),  # which only uses it
        ("controllers/engine/law_source", "CHANGED = True", False),
        ("mechanics/derive", "CHANGED = True", True),
        ("kernels/llvm", "CHANGED = True", True),
    ):
        file = package / f"{module}.py"
        file.write_text(f"{file.read_text()}\n{text}\n")
        after = machine_key_now()
        assert (after != before) == changes, (module, text)
        before = after


def test_every_module_that_is_imported_for_a_text_has_part_in_its_key() -> None:
    code = "import sys; from servonode.mechanics.machine_source import source_and_description; "
    code += "import servonode.mechanics.derive, servonode.mechanics.changes; "
    code += "from servonode.mechanics import *; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    sources = keys._sources()
    found = reached(code_of(sources), "mechanics", "mechanics.changes", "mechanics.machine_source")
    imported = {each.removeprefix("servonode.") for each in done.stdout.split() if each.startswith("servonode.")}
    assert imported & sources.keys() <= found


def test_a_key_is_of_this_host_and_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    keys_of = {key_of("a", "b"), key_of("ab"), key_of("a", "c"), key_of("a", "b", "")}
    for fact in ({"processor": "elsewhere"}, {"python": "elsewhere"}, {"llvmlite": "elsewhere"}, {"optimisation": 1}):
        other = msgspec.structs.replace(this_host(), **fact)
        monkeypatch.setattr(keys, "this_host", lambda other=other: other)
        keys.versions_digest.cache_clear()
        keys_of.add(key_of("a", "b"))
    assert len(keys_of) == 8


def test_the_version_of_a_library_is_that_which_it_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("llvmlite", "numpy", "sympy", "scipy"):
        assert version_of(name) == importlib.metadata.version(name)
    (tmp_path / "odd.py").touch()  # without its usual folder
    (tmp_path / "odd.egg-info").write_text("Name: odd\nVersion: 7.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert version_of("odd") == "7.5"
