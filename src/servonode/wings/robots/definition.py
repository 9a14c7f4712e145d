"""The definition of a machine by a robot's file, for launch files. Neither MuJoCo nor sympy identifies it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servonode.definitions import cache
from servonode.errors import ServonodeError
from servonode.kernels.host import version_of
from servonode.mechanics.machine import load_machine
from servonode.plants import MachineSource
from servonode.plants.machine_files import FileDefinition, FileParts, MachineFiles, Solids
from servonode.wings.robots.file_text import RobotError, scan
from servonode.wings.robots.robot import Robot, by_name, identifier

if TYPE_CHECKING:
    from servonode.wings.robots.contacts import Contacts

HOLDING = ("wheels", "radius", "rollers", "feet", "friction")  # settings of what holds a robot beside loops


@dataclass(frozen=True)
class RobotDefinition(FileDefinition):
    """A URDF or MJCF file; what a launch file states in [plant.robot] are the arguments of `read` and `Contacts`."""

    function: str = "robot"

    def readers(self) -> list[str]:
        modules = (f"wings.robots.{each}" for each in ("read", "model", "judge"))
        code = cache.code_digest(*modules, rooms=("wings/robots",))
        return [code, *([f"mujoco {version_of('mujoco')}"] if find_spec("mujoco") else [])]

    def sources(self) -> set[Path]:
        """The file and all files that it includes; raises as `scan`."""
        return {file.resolve() for file in scan(self.file).files}

    def call(self, *arguments: Any, **options: Any) -> Any:  # noqa: ARG002
        """The Model; raises as `read` and `model`."""
        from servonode.wings.robots.judge import looked_over
        from servonode.wings.robots.model import model

        robot, contacts = self.robot(**options)
        return model(replace(robot, dropped=robot.dropped + looked_over(robot, self._alone(options))), contacts)

    def robot(self, **options: Any) -> "tuple[Robot, Contacts]":
        """The robot, and what is stated of its contacts; raises as `read`."""
        from servonode.wings.robots.contacts import Contacts
        from servonode.wings.robots.read import read

        stated = {each.name: options[each.name] for each in fields(Contacts) if each.name in options}
        contacts = Contacts(**stated)
        settings = {word: value for word, value in self._alone(options).items() if word not in stated}
        return read(self.file, **settings, held=bool(contacts.wheels or contacts.feet)), contacts

    def states(self, name: str, *seen: Path) -> bool:  # noqa: ARG002
        return name in ("SOLIDS", "PARTS") or (name == "SERVOS" and self.file.suffix.lower() != ".urdf")

    def attribute(self, name: str) -> Any:
        found = {"SOLIDS": self._solids, "PARTS": self._parts, "SERVOS": self._servos}
        return found[name] if self.states(name) else None

    def _servos(self, settings: Any) -> dict[str, Any]:
        return {identifier(each.name): each.servo for each in self.robot(**settings)[0].actuators if each.servo}

    def judge(self, settings: Mapping[str, Any]) -> None:
        """Refuse a machine that does not move as MuJoCo moves the file; the verdict is kept in the cache of kernels.

        What holds the robot beside loops comes after the comparison.

        Raises:
            RobotError: it does not; the text says where the difference begins.
        """
        alone = self._alone(settings)
        source = MachineSource(self, alone)

        def verdict() -> str:
            from servonode.wings.robots.judge import judged

            robot, _ = self.robot(**settings)
            return judged(robot, lambda: load_machine(source.key, source.build, {}, self.reference), alone)

        if text := cache.stored(cache.key_of("judged", source.key), str, verdict):
            raise RobotError(f"{self.file.name}: {text}")

    def _alone(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a robot without what holds it beside loops; rolling: an argument of `read`."""
        more = ("independent",) if any(word in settings for word in HOLDING) else ()  # of what is left then
        alone = {word: value for word, value in settings.items() if word not in (*HOLDING, *more)}
        if wheels := settings.get("wheels"):
            alone = {"base": "planar"} | alone
            alone["rolling"] = [wheels.get(name, "") for name in by_name(wheels, settings.get("rollers"))]
        return alone

    def _solids(self, settings: Any) -> Solids:  # noqa: ARG002
        from servonode.wings.robots.solids import solids

        try:
            found, lines = solids(self.file)
        except (OSError, ServonodeError, ValueError) as error:
            return Solids(left_out=(str(error),))
        return Solids(tuple(found), tuple(lines))

    def _parts(self, settings: Any) -> FileParts:
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
