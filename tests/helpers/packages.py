"""Installed packages of a test's own: a folder with their metadata, as an installer leaves it, on the import path."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
WHEELS = EXAMPLES / "driver"


def install(folder: Path, package: str, drivers: Mapping[str, str], **modules: str) -> Path:
    """A package of this name whose entry points are `drivers` (name -> module:object), with these modules' sources."""
    return install_groups(folder, package, {"servonode.drivers": drivers}, **modules)


def install_groups(folder: Path, package: str, groups: Mapping[str, Mapping[str, str]], **modules: str) -> Path:
    """A package of this name with these entry points by group, with these modules' sources."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), "")
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    return folder


def install_example(folder: Path, example: str) -> Path:
    """The package of a folder of examples, by its own pyproject.toml."""
    there = EXAMPLES / example
    project = tomllib.loads((there / "pyproject.toml").read_text())
    only = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    sources = {name.removesuffix(".py"): (there / name).read_text() for name in only}
    return install_groups(folder, project["project"]["name"], project["project"]["entry-points"], **sources)


def install_wheels(folder: Path) -> Path:
    """The package of examples/driver."""
    return install_example(folder, "driver")
