"""Machines in files that are read and never run, as a robot's: what reads them, and what they have beside equations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode import extensions
from servonode.arrays import Array
from servonode.definitions.references import SOURCES, Definition, NotFound, ending_of

Triangles = npt.NDArray[np.intp]


@dataclass(frozen=True)
class MachineFiles:
    """What an extension of the kind "sources" adds under the ending of its files' names, without the dot.

    Attributes:
        what: one of its files, with all endings: "a URDF or MJCF file, whose name ends in .urdf, .xml, .mjcf".
        find: the definition of a file, its path relative to a folder; raises NotFound.
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
