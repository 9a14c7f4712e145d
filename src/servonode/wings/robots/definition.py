"""The definition of a machine by a robot's file, for launch files. Neither MuJoCo nor sympy identifies it."""

from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servonode.definitions import cache
from servonode.errors import ServonodeError
from servonode.kernels.host import version_of
from servonode.plants import MachineSource
from servonode.plants.machine_files import FileDefinition, FileParts, MachineFiles, Solids
from servonode.wings.robots.file_text import scan

if TYPE_CHECKING:
    from servonode.wings.robots.contacts import Contacts
    from servonode.wings.robots.robot import Robot


@dataclass(frozen=True)
class RobotDefinition(FileDefinition):
    """A URDF or MJCF file; what a launch file states in [plant.robot] are the arguments of `read` and `Contacts`."""

    function: str = "robot"

    def readers(self) -> list[str]:
        code = cache.code_digest("wings.robots.read", "wings.robots.model", rooms=("wings/robots",))
        return [code, *([f"mujoco {version_of('mujoco')}"] if find_spec("mujoco") else [])]

    def sources(self) -> set[Path]:
        """The file and all files that it includes; raises as `scan`."""
        return {file.resolve() for file in scan(self.file).files}

    def call(self, *arguments: Any, **options: Any) -> Any:  # noqa: ARG002
        """The Model; raises as `read` and `model`."""
        from servonode.wings.robots.model import model

        return model(*self.robot(**options))

    def robot(self, **options: Any) -> "tuple[Robot, Contacts]":
        """The robot, and what is stated of its contacts; raises as `read`."""
        from servonode.wings.robots.contacts import Contacts
        from servonode.wings.robots.read import read
        from servonode.wings.robots.wheels import by_name

        stated = {each.name: options.pop(each.name) for each in fields(Contacts) if each.name in options}
        contacts = Contacts(**stated)
        if contacts.wheels:
            options = {"base": "planar"} | options
        rolling = [contacts.wheels.get(name, "") for name in by_name(contacts.wheels, contacts.rollers)]
        return read(self.file, **options, rolling=rolling, held=bool(contacts.wheels or contacts.feet)), contacts

    def states(self, name: str, *seen: Path) -> bool:  # noqa: ARG002
        return name in ("SOLIDS", "PARTS")

    def attribute(self, name: str) -> Any:
        return {"SOLIDS": self._solids, "PARTS": self._parts}[name] if self.states(name) else None

    def _solids(self, settings: Any) -> Solids:  # noqa: ARG002
        from servonode.wings.robots.solids import solids

        try:
            found, lines = solids(self.file)
        except (OSError, ServonodeError, ValueError) as error:
            return Solids(left_out=(str(error),))
        return Solids(tuple(found), tuple(lines))

    def _parts(self, settings: Any) -> FileParts:
        from servonode.wings.robots.robot import identifier

        robot, _ = self.robot(**settings)
        alone = (each.name for each in robot.joints if each.kind in ("hinge", "slide"))
        names = [each.name for each in robot.bodies] + [each.name for each in robot.frames]
        return FileParts(
            frames={identifier(name): name for name in names},
            joints={name: identifier(name) for name in alone},
            meshes=robot.meshes,
        )


def robot_of(source: MachineSource) -> "Robot | None":
    """The robot of a machine that is one of a robot's file; None of others. Raises as `read`."""
    definition = source.definition
    return definition.robot(**source.settings)[0] if isinstance(definition, RobotDefinition) else None


def _source(model: Any, name: str, file: str) -> str:
    from servonode.wings.robots.source import source

    return source(model, name, file)


FILES = MachineFiles(
    what="a URDF or MJCF file, whose name ends in .urdf, .xml, .mjcf",
    find=RobotDefinition.found,
    section="plant.robot",
    source=_source,
)
