"""Who may import whom, by CONTRIBUTING's table; no circle; what a fresh process loads, and what is packed."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from servonode.api import simulate
from servonode.cli.create import COPIES
from servonode.version import VERSION

ROOT = Path(__file__).parent.parent
# which import nothing else of the package
EVERYBODYS = {f"servonode.{each}" for each in ("version", "errors", "tables", "arrays", "extensions")}


def table_of_rooms() -> tuple[dict[str, set[str]], dict[str, int]]:
    """What each room may import beside itself and what is everybody's, and its lines at most, as CONTRIBUTING says.

    A plus behind a room's name: and what that room may import.
    """
    found: dict[str, set[str]] = {}
    most: dict[str, int] = {}
    for line in (ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines():
        if row := re.fullmatch(r"\| `([\w/]+)/` \| .* \| (\S.*) \| (\d+) \|", line):
            names = re.findall(r"`([\w/]+)`(\+?)", row[2])
            found[row[1]] = {name for name, _ in names}.union(*(found[name] for name, plus in names if plus))
            most[row[1]] = int(row[3])
    return found, most


MAY_IMPORT, LINES_AT_MOST = table_of_rooms()
ROOMS = [room for room in MAY_IMPORT if "/" not in room and room != "servonode"]
WINGS = [room for room in MAY_IMPORT if room.startswith("wings/")]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "servonode"
HEAVY = {"sympy", "scipy", "matplotlib", "llvmlite", "numpy", "zmq", "msgspec"}
LARGEST = 0.25  # of all lines, what one room may hold


def module_of(file: Path) -> str:
    """The name by which a source is imported."""
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The room of a module; the facade is the room `servonode`, and what `python -m` runs is of the command line."""
    if module == "servonode.__main__":
        return "cli"
    parts = module.split(".")[1:]
    if parts[:2] == ["plants", "drivers"] or (parts[:1] == ["wings"] and len(parts) > 1):
        return "/".join(parts[:2])
    return parts[0] if parts and parts[0] in ROOMS else "servonode"


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module name that a source imports, also inside functions and by `import_module`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                assert node.level == 0, f"line {node.lineno}: a relative import"
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id="import_module" | "__import__"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name
            case ast.Attribute(value=ast.Name(id="time"), attr="time"):
                yield "time.time"


@cache
def names_imported(file: Path) -> frozenset[str]:
    """Every name that a source imports, and `time.time` where it is used.

    The public face names types of wings for type checkers, which a run never imports.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    if file.parent == PACKAGE:
        tree.body = [
            each for each in tree.body if not (isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test))
        ]
    return frozenset(imported(tree))


def modules_imported(module: str) -> set[str]:
    """The modules of servonode that a module imports."""
    found = {name if name in MODULES else name.rpartition(".")[0] for name in names_imported(MODULES[module])}
    return (found & MODULES.keys()) - {module}


def test_a_source_imports_only_the_rooms_it_may() -> None:
    imports = [(module, name) for module in MODULES for name in modules_imported(module) - EVERYBODYS]
    allowed = {room: {room, *others} for room, others in MAY_IMPORT.items()}
    assert [
        f"{module} imports {name}" for module, name in imports if room_of(name) not in allowed[room_of(module)]
    ] == []


def test_the_core_imports_no_wing() -> None:
    core = [module for module in MODULES if not module.startswith("servonode.wings")]
    pairs = [(module, name) for module in core for name in modules_imported(module) if "servonode.wings." in name]
    assert "servonode.extensions" in core
    assert [f"{module} imports {name}" for module, name in pairs] == []


def wings_named(module: str) -> set[str]:
    """The wings that a module imports or names in any text, such as a reference that is imported later.

    The public face says to type checkers alone which types of wings it answers with.
    """
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    texts = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    found = {word for text in texts for word in re.findall(r"\bservonode\.(wings\.\w+)", text)}
    imports = names_imported(MODULES[module])
    found |= {word for each in imports for word in re.findall(r"^servonode\.(wings\.\w+)", each)}
    return {each.replace(".", "/") for each in found}


def test_the_core_names_no_wing_and_a_wing_no_other() -> None:
    named = {module: wings_named(module) - {room_of(module)} for module in MODULES}
    assert {module: wings for module, wings in named.items() if wings} == {}
    if entry_points := [each for each in MODULES if each.endswith(".entry_points")]:
        assert {word for each in entry_points for word in wings_named(each)} == set(WINGS)


def circles(imports: dict[str, set[str]]) -> list[str]:
    """What is left when modules that import nothing that is left are taken away, again and again."""
    left = dict(imports)
    while done := [module for module, names in left.items() if not names & left.keys()]:
        for module in done:
            del left[module]
    return sorted(left)


def test_imports_have_no_circle() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"c"}, "e": set()}) == ["a", "b", "c", "d"]
    assert circles({module: modules_imported(module) for module in MODULES}) == []
    found = [each for each in MODULES if "servonode.cli.main" in modules_imported(each)]  # which loads verbs by name
    assert found == ["servonode.__main__"]


def test_what_every_room_may_import_imports_nothing_else_of_the_package() -> None:
    assert all(modules_imported(module) <= EVERYBODYS for module in EVERYBODYS)


def test_cache_key_digests_all_that_makes_a_kernel() -> None:
    digested = ("servonode.kernels", "servonode.mechanics", "servonode.controllers.engine")
    makers = [module for module in MODULES if module.startswith(digested)]
    assert "servonode.controllers.engine.program" in makers
    others = {name for module in makers for name in modules_imported(module) if not name.startswith(digested)}
    # definitions decide where a kernel is found and what an error names, never what a kernel holds
    assert {name for name in others if not name.startswith("servonode.definitions.")} <= EVERYBODYS


def test_no_room_is_larger_than_its_budget_nor_is_one_the_house() -> None:
    lines = dict.fromkeys(MAY_IMPORT, 0)
    for module, file in [*MODULES.items(), *((module_of(each), each) for each in PACKAGE.rglob("*.pyi"))]:
        lines[room_of(module)] += len(file.read_text(encoding="utf-8").splitlines())
    beyond = [
        f"{room}: {lines[room]} lines, at most {most}" for room, most in LINES_AT_MOST.items() if lines[room] > most
    ]
    assert beyond == []
    assert max(lines.values()) < LARGEST * sum(lines.values()), lines


def test_sources_run_on_the_monotonic_clock() -> None:
    assert [module for module, file in MODULES.items() if "time.time" in names_imported(file)] == []


def test_the_table_would_notice_a_forbidden_import() -> None:
    lazily = "def f():\n    from servonode.nodes import node\n    import_module('servonode.bus.codec')\n"
    assert set(imported(ast.parse(lazily))) == {"servonode.nodes.node", "servonode.bus.codec"}
    assert "time.time" in set(imported(ast.parse("import time\nclock = time.time\n")))


def test_every_folder_is_a_room_and_four_links_lead_to_rooms() -> None:
    assert {each.parent.name for each in PACKAGE.glob("*/__init__.py")} - {"wings"} == set(ROOMS)
    wings = {f"wings/{each.parent.name}" for each in PACKAGE.glob("wings/*/__init__.py")}
    assert wings in (set(WINGS), set())  # the core's tests are run without any
    links = {each.name: each.resolve() for each in ROOT.iterdir() if each.is_symlink() and each.name[0] != "."}
    assert links == {room: PACKAGE / room for room in ("controllers", "launch", "nodes", "plants")}


def loaded_by(code: str) -> set[str]:
    """The modules in a fresh interpreter after `code`."""
    script = f"import sys\n{code}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def of_wings(loaded: set[str]) -> set[str]:
    """What was loaded of wings, but their entry points, which every search reads."""
    inside = {each for each in loaded if each.startswith("servonode.wings.") and each.count(".") > 2}
    return {each for each in inside if not each.endswith(".entry_points")}


def test_a_run_with_a_picture_loads_nothing_of_a_wing(tmp_path: Path) -> None:
    words = ["run", "trailer_pursuit_lockstep", "--set", "run.duration=0.1", "--report", str(tmp_path / "a.png")]
    words += ["--name", f"picture{os.getpid()}"]  # other runs may be in progress
    loaded = loaded_by(f"from servonode.cli.main import main\ntry: main({words})\nexcept SystemExit: pass")
    assert "servonode.views.report" in loaded
    assert of_wings(loaded) == set()


def test_what_users_copy_is_packed_beside_the_rooms() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    outside = {each for each in COPIES if not (PACKAGE / each).is_dir()}
    assert wheel["sources"] == {"src/servonode": "servonode"} | {each: f"servonode/{each}" for each in outside}
    assert set(wheel["only-include"]) == wheel["sources"].keys()


def test_an_installed_checkout_adds_servonode_alone_to_the_path() -> None:
    assert [each.name for each in SOURCE.iterdir()] == ["servonode"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["dev-mode-dirs"] == ["src"]


def test_a_folder_of_the_same_name_does_not_hide_the_package(tmp_path: Path) -> None:
    (tmp_path / "servonode").mkdir()  # as the parent folder of a clone holds one
    command = [sys.executable, "-c", "import servonode; print(servonode.__version__)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{VERSION}\n"


def test_a_driver_of_servonode_loads_neither_mujoco_nor_the_table_of_installed_packages() -> None:
    loaded = loaded_by("import servonode; servonode.load('trailer_pursuit').closed_loop.driver")
    assert "servonode.closed_loop" in loaded
    assert not loaded & {"mujoco", "importlib.metadata"}
    assert not of_wings(loaded)


def test_a_simulation_loads_nothing_of_a_wing_but_entry_points() -> None:
    ending = "try: main(['simulate', 'trailer_pursuit', '--set', 'run.duration=0.1'])\nexcept SystemExit: pass"
    loaded = loaded_by(f"from servonode.cli.main import main\n{ending}")
    assert "servonode.simulation.simulate" in loaded
    assert not of_wings(loaded)


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    loaded = loaded_by("import servonode, servonode.cli.main")
    assert "servonode" in loaded
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("servonode.cli.")} == {"servonode.cli.main"}


def test_the_help_loads_no_room_but_the_command_lines() -> None:
    ending = "try: main(['--help'])\nexcept SystemExit: pass"
    loaded = loaded_by(f"from servonode.cli.main import main\n{ending}")
    assert "servonode.cli.simulate" in loaded
    assert not loaded & HEAVY
    core = {each for each in loaded if each.startswith("servonode.") and not each.startswith("servonode.wings.")}
    lights = {"servonode", "cli", "nodes", "export", "views"}  # the terminal; what an export or a view is
    assert {room_of(name) for name in core} <= lights
    assert {room_of(name) for name in of_wings(loaded)} <= {
        "wings/explore",
        "wings/acceptance",
        "wings/web",
        "wings/neighbours",
        "wings/robots",
    }


def test_a_simulation_from_a_warm_cache_loads_no_sympy() -> None:
    options = {"run__duration": 0.1, "every": 1}
    simulate("trailer_pursuit", **options)  # type: ignore[arg-type]
    loaded = loaded_by(f"import servonode; servonode.simulate('trailer_pursuit', **{options})")
    assert "servonode.kernels.native" in loaded
    assert not loaded & {"sympy", "scipy", "matplotlib", "servonode.kernels.build"}
