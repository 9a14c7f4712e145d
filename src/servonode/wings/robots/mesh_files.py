"""The mesh files that a robot's file names: found in its folder or in its packages, else their shapes are left out."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

READ = (".stl", ".obj", ".msh")  # what MuJoCo reads
MOST_BYTES = 50_000_000  # of one file
PACKAGE = "package://"


def find_meshes(spec: Any, robot: Path) -> list[str]:
    """Give the meshes of a spec their files, and remove those that are not there; a line for each of these."""
    folder = Path(spec.compiler.meshdir) if spec.compiler.meshdir else Path()
    lines = []
    for mesh in [each for each in spec.meshes if each.file]:
        path, problem = _found(mesh.file, robot, folder)
        if path is not None:
            mesh.file = str(path)
            continue
        users = [each for each in spec.geoms if each.meshname == mesh.name]
        lines.append(f'mesh "{mesh.name}" of {len(users)} shapes: left out, for {mesh.file} {problem}')
        for each in (*users, mesh):
            spec.delete(each)
    spec.strippath, spec.compiler.meshdir = False, ""
    return lines


def _found(name: str, robot: Path, folder: Path) -> tuple[Path | None, str]:
    """The file of a mesh, else what is wrong."""
    problem = "is not there"
    for root, path in _places(name, robot.resolve().parent, folder):
        file = path.resolve()
        if not file.is_file():
            continue
        if not file.is_relative_to(root.resolve()):
            problem = f"is outside of {root}"
        elif file.suffix.lower() not in READ:
            problem = f"is none of {', '.join(READ)}"
        elif file.stat().st_size > MOST_BYTES:
            problem = f"has more than {MOST_BYTES} bytes"
        else:
            return file, ""
    return None, problem


def _places(name: str, beside: Path, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Where a mesh may be: a folder that must hold it, and the path.

    A package is a folder of its name above the robot's file, beside such a folder, or on ROS_PACKAGE_PATH.
    """
    if not name.startswith(PACKAGE):
        yield beside, beside / folder / name.removeprefix("file://")
        return
    package, _, rest = name.removeprefix(PACKAGE).partition("/")
    above = [Path(each) for each in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if each]
    for each in (beside, *beside.parents):
        above.append(each)
        if each.name == package:
            yield each, each / rest
    for each in above:
        yield each / package, each / package / rest
