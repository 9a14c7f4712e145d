"""Machines in files that are read and never run, as a robot's: what reads them, and what they have beside equations."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode import extensions
from servonode.arrays import Array
from servonode.definitions.references import SOURCES, Definition, NotFound, Option, ending_of
from servonode.definitions.source_location import Place

Triangles = npt.NDArray[np.intp]


@dataclass(frozen=True)
class FileDefinition(Definition):
    """A machine in a file that is read. Its reader overrides `call`, which returns the Model for some settings.

    And `readers`, where the machine depends on the versions of libraries; `sources`, where there are more files than
    one; `states` and `attribute`, where the file has surfaces (`SOLIDS`), names of its own (`PARTS`) or servos
    (`SERVOS`); `judge`, where something else can tell whether the machine is that of the file.
    """

    function: str = "machine"

    @classmethod
    def found(cls, reference: str, folder: Path) -> Self:
        """The definition of a file, its path relative to a folder.

        Raises:
            NotFound: there is no such file.
        """
        file = folder / reference
        if not file.is_file():
            raise NotFound(f"there is no file {file}; the path is relative to the launch file's folder")
        return cls(reference, file)

    @property
    def options(self) -> dict[str, Option]:
        return {}

    def digest(self, *arguments: Any, **options: Any) -> str:  # noqa: ARG002
        """A digest of the file and of all files that it includes."""
        digest = hashlib.sha256()
        for name, content in sorted((file.name, file.read_bytes()) for file in self.sources()):
            digest.update(name.encode() + b"\0" + content + b"\0")
        return digest.hexdigest()

    def sources(self) -> set[Path]:
        return {self.file.resolve()}

    def from_folder(self, folder: str) -> str:
        return f"./{folder}"

    @property
    def place(self) -> Place:
        return Place(str(self.file), 1)

    @property
    def takes_plant(self) -> bool:
        return False

    def states(self, name: str, *seen: Path) -> bool:  # noqa: ARG002
        return False

    def attribute(self, name: str) -> Any:  # noqa: ARG002
        return None

    def judge(self, settings: Mapping[str, Any]) -> None:
        """Refuse the machine with these settings, once it is compiled, if it does not move as the file says."""

    def run(self, work: Callable[[], Any]) -> Any:
        return work()  # of the reader's code, for the file has none


@dataclass(frozen=True)
class MachineFiles:
    """What an extension of the kind "sources" adds under the ending of its files' names, without the dot.

    Attributes:
        what: one of its files, with all endings: "a URDF or MJCF file, whose name ends in .urdf, .xml, .mjcf".
        find: the definition of a file, its path relative to a folder, such as `FileDefinition.found`.
        section: that of launch files whose keys beyond their defaults are the machine's settings, such as plant.robot.
        source: the text of a Python file with this Model, as a name, of a file's name; None: such files cannot be had.
    """

    what: str
    find: Callable[[str, Path], Definition]
    section: str = ""
    source: Callable[[Any, str, str], str] | None = None


@dataclass(frozen=True)
class Solid:
    """The surface of a body: a link or frame of the machine's tree, or "world", the ground.

    points (n, 3) [m] in its axes; triangles (m, 3): their corners by the numbers of points.
    """

    frame: str
    points: Array
    triangles: Triangles


@dataclass(frozen=True)
class Solids:
    """What is seen of a machine's bodies: the `SOLIDS` of its file. left_out: a line for each that is not."""

    solids: tuple[Solid, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileParts:
    """What else a machine's file has: its `PARTS`.

    frames: its own names of links and frames, by those of the machine. joints: the coordinate of each joint of one, by
    its own names. meshes: files that a driver reads beside it, each with the name of a link or frame.
    """

    frames: Mapping[str, str] = field(default_factory=dict)
    joints: Mapping[str, str] = field(default_factory=dict)
    meshes: tuple[tuple[str, str], ...] = ()


def machine_files(reference: str) -> MachineFiles:
    """Who reads this file as a machine.

    Raises:
        NotFound: nobody does, or what does is broken.
    """
    try:
        added = extensions.find(SOURCES, ending_of(reference))
        if added is not None:
            return added.load(MachineFiles)
    except extensions.ExtensionError as error:
        raise NotFound(str(error)) from error
    what = " or ".join(dict.fromkeys(each.load(MachineFiles).what for each in extensions.of_wings(SOURCES).values()))
    raise NotFound(f"{reference}: give {what or 'another file, for no wing reads machines'}")


def files_with(section: str) -> MachineFiles | None:
    """The files whose machines have their settings in a section of launch files; None: nobody reads such."""
    wings = section in extensions.of_wings("sections")
    found = (extensions.find(SOURCES, each) for each in (extensions.of_wings if wings else extensions.names)(SOURCES))
    loaded = (each.load(MachineFiles) for each in found if each is not None)
    return next((each for each in loaded if each.section == section), None)
