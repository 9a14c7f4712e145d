"""The definition of a machine by a robot's file, for launch files. Neither MuJoCo nor sympy identifies it."""

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from servonode.definitions.references import Definition, NotFound, Option
from servonode.definitions.source_location import Place
from servonode.wings.robots.file_text import scan

if TYPE_CHECKING:
    from servonode.wings.robots.contacts import Contacts
    from servonode.wings.robots.robot import Robot


@dataclass(frozen=True)
class RobotDefinition(Definition):
    """A URDF or MJCF file; what a launch file states in [plant.robot] are the arguments of `read` and `Contacts`."""

    function: str = "robot"
    modules: ClassVar[tuple[str, ...]] = ("wings.robots.read", "wings.robots.model")
    libraries: ClassVar[tuple[str, ...]] = ("mujoco",)

    @property
    def options(self) -> dict[str, Option]:
        return {}

    def digest(self, *arguments: Any, **options: Any) -> str:  # noqa: ARG002
        """A digest of the file and of all files that it includes; raises as `scan`."""
        digest = hashlib.sha256()
        for name, content in sorted((file.name, file.read_bytes()) for file in self.sources()):
            digest.update(name.encode() + b"\0" + content + b"\0")
        return digest.hexdigest()

    def sources(self) -> set[Path]:
        return {file.resolve() for file in scan(self.file).files}

    def from_folder(self, folder: str) -> str:
        return f"./{folder}"

    @property
    def place(self) -> Place:
        return Place(str(self.file), 1)

    @property
    def takes_plant(self) -> bool:
        return False

    def call(self, *arguments: Any, **options: Any) -> Any:  # noqa: ARG002
        """The Model; raises as `read` and `model`."""
        from servonode.wings.robots.model import model

        return model(*self.robot(**options))

    def robot(self, **options: Any) -> "tuple[Robot, Contacts]":
        """The robot, and what is stated of its contacts; raises as `read`."""
        from servonode.wings.robots.contacts import Contacts
        from servonode.wings.robots.read import read

        stated = {each.name: options.pop(each.name) for each in fields(Contacts) if each.name in options}
        contacts = Contacts(**stated)
        if contacts.wheels:
            options = {"base": "planar"} | options
        return read(self.file, **options, held=bool(contacts.wheels or contacts.feet)), contacts

    def states(self, name: str, *seen: Path) -> bool:  # noqa: ARG002
        return False

    def attribute(self, name: str) -> Any:  # noqa: ARG002
        return None


def find_robot(reference: str, folder: Path) -> RobotDefinition:
    """The definition of a robot's file, its path relative to a folder.

    Raises:
        NotFound: there is no such file.
    """
    file = folder / reference
    if not file.is_file():
        raise NotFound(f"there is no file {file}; the path is relative to the launch file's folder")
    return RobotDefinition(reference, file)
