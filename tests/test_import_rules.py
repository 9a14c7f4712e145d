"""Who may import whom (design.md section 2), what a fresh process loads, and that packaging knows every folder."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.api import simulate

ROOT = Path(__file__).parent.parent
ROOMS = ("mechanics", "plants", "controllers", "bus", "nodes")
MAY_IMPORT = {
    "mechanics": {"mechanics"},
    "bus": {"bus"},
    "plants": {"plants", "mechanics"},
    "plants/drivers": {"plants", "mechanics", "bus"},
    "controllers": {"controllers", "mechanics"},
    "nodes": {*ROOMS, "launch"},
}
SOURCES = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))


def room_of(file: Path) -> str:
    parts = file.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[:2] == ("plants", "drivers") else parts[0]


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module name that a source imports, also inside functions and by `import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"servonode\.[\w.]+", str(node.value)):
            yield str(node.value)


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_source_imports_only_the_rooms_it_may(file: Path) -> None:
    for name in imported(parsed(file)):
        first, _, rest = name.partition(".")
        assert first not in (*ROOMS, "launch"), f"{name} makes a second copy of each module"
        if first == "servonode" and (room := rest.partition(".")[0]) in (*ROOMS, "launch"):
            assert room in MAY_IMPORT[room_of(file)], name


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_source_runs_on_the_monotonic_clock(file: Path) -> None:
    tree = parsed(file)
    assert "time.time" not in set(imported(tree))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "time"]
    assert not [node.lineno for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "time"]


def test_the_table_would_notice_a_forbidden_import() -> None:
    lazily = "def f():\n    from servonode import api\n    import_module('servonode.bus.codec')\n    import plants\n"
    assert set(imported(ast.parse(lazily))) == {"servonode.api", "servonode.bus.codec", "plants"}


def folders() -> set[str]:
    """The folders of the rooms that hold sources or launch files, as dotted names."""
    found = set()
    for room in (*ROOMS, "launch"):
        for file in (ROOT / room).rglob("*.*"):
            if file.suffix in (".py", ".toml"):
                found.add(".".join(("servonode", *file.parent.relative_to(ROOT).parts)))
    return found


def test_the_package_list_names_every_folder() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(settings["packages"]) == {"servonode", *folders()}
    assert settings["package-dir"] == {f"servonode.{room}": room for room in (*ROOMS, "launch")}


def test_every_room_at_the_top_is_linked_for_type_checkers() -> None:
    tops = {each.name for each in ROOT.iterdir() if (each / "__init__.py").is_file()} - {"servonode"}
    assert tops == set(ROOMS)
    links = {each.name: each.resolve() for each in (ROOT / "servonode").iterdir() if each.is_symlink()}
    assert links == {room: ROOT / room for room in (*ROOMS, "launch")}


def loaded_by(code: str) -> set[str]:
    """The modules in a fresh interpreter after `code`."""
    script = f"import sys\n{code}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    loaded = loaded_by("import servonode, servonode.cli.main")
    assert "servonode" in loaded
    assert not loaded & {"sympy", "scipy", "matplotlib", "numba", "numpy", "zmq"}


def test_a_simulation_from_a_warm_cache_loads_no_sympy() -> None:
    options = {"run__duration": 0.1, "every": 1}
    simulate("trailer_pursuit", **options)  # type: ignore[arg-type]
    loaded = loaded_by(f"import servonode; servonode.simulate('trailer_pursuit', **{options})")
    assert "numba" in loaded  # which itself imports the bare name scipy
    assert not loaded & {"sympy", "scipy.integrate", "matplotlib"}  # numba itself takes scipy.linalg
