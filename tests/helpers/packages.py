"""Installed packages of a test's own: a folder with their metadata, as an installer leaves it, on the import path."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

WHEELS = Path(__file__).parents[2] / "examples" / "driver"


def install(folder: Path, package: str, drivers: Mapping[str, str], **modules: str) -> Path:
    """A package of this name whose entry points are `drivers` (name -> module:object), with these modules' sources."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in drivers.items())
    (metadata / "entry_points.txt").write_text(f"[servonode.drivers]\n{lines}")
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    return folder


def install_wheels(folder: Path) -> Path:
    """The package of examples/driver, by its own pyproject.toml."""
    project = tomllib.loads((WHEELS / "pyproject.toml").read_text())
    entries = project["project"]["entry-points"]["servonode.drivers"]
    only = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    sources = {name.removesuffix(".py"): (WHEELS / name).read_text() for name in only}
    return install(folder, project["project"]["name"], entries, **sources)
