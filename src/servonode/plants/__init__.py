"""Plants: one file per machine, the plant contract, the simulated plant."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from servonode.definitions import cache
from servonode.definitions.references import Definition, find, kind_of
from servonode.errors import ModelError
from servonode.mechanics.changes import Changes, changed
from servonode.mechanics.machine import Machine
from servonode.mechanics.machine import load_machine as _load
from servonode.plants.machine_files import FileDefinition, FileParts, Solids, machine_files
from servonode.plants.machine_table import StatedMachine, TableDefinition
from servonode.plants.physical_model import PhysicalModel
from servonode.plants.prepare import Preparation
from servonode.plants.servos import Servo
from servonode.plants.view import View

PLANTS: dict[str, str] = {
    "diff_drive_trailer": "differential-drive robot with a passive trailer",
    "mobile_base": "mobile base on two driven wheels, a unicycle",
    "pendulum_sphero": "rolling spherical shell with a pendulum drive",
    "hoop_on_profile": "hoop rolling on a curved profile",
    "ball_on_turntable": "ball rolling on a turning plate",
    "snowboarder": "two-link snowboarder on an inclined plane",
}
Stated = TypeVar("Stated")


@dataclass(frozen=True)
class MachineSource:
    """A machine as a launch file specifies it: its definition, its options, and what is changed in it."""

    definition: Definition
    settings: Mapping[str, Any] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)

    @property
    def packaged(self) -> bool:
        """Whether it is a machine of servonode itself."""
        return self.definition.reference in PLANTS

    @cached_property  # a Model at hand is written out for it, which takes seconds of a large one
    def key(self) -> str:
        """The cache key: the machine's own sources, the derivation's, its options and changes."""
        derivation = cache.code_digest("mechanics", "mechanics.changes", "mechanics.machine_source")
        stated = (dict(self.settings), dict(self.changes.varying), dict(self.changes.disturbance))
        definition = self.definition.digest(**self.settings)
        readers = self.definition.readers()
        return cache.key_of("machine", definition, derivation, json.dumps(stated, sort_keys=True), *readers)

    def build(self) -> Any:
        """The Model (this imports sympy).

        Raises:
            ModelError: the definition fails, returns no Model, or cannot take the changes.
        """
        from servonode.mechanics.model import Model

        model = self.definition.call(**self.settings)
        if not isinstance(model, Model):
            text = f"{self.definition.function}() returned {type(model).__name__}, not a Model"
            raise ModelError(f"{text}; end it with return Model(...)", self.definition.place)
        return changed(model, self.changes) if self.changes else model

    def load(self, parameters: Mapping[str, float]) -> Machine:
        """The machine, derived and compiled, or from the cache.

        Raises:
            CacheError, ModelError, ParameterError: see `servonode.mechanics.machine.load_machine`.
            StatementError: what can tell it says that the machine is not that of its file.
        """
        machine = _load(self.key, self.build, parameters, self.definition.reference, bool(self.changes))
        if isinstance(self.definition, FileDefinition):
            self.definition.judge(self.settings)
        return machine

    def preparation(self) -> Preparation | None:
        """What the machine finds out itself before a run: the `PREPARE` beside its function, if any.

        Raises:
            ModelError: it is no Preparation.
        """
        return self._given("PREPARE", Preparation, "function")

    def solids(self) -> Solids:
        """What is seen of its bodies: the `SOLIDS` beside its function, or of its file, if any.

        Raises:
            ModelError: they are no Solids.
        """
        return self._given("SOLIDS", Solids, "(Solid(...),)", called=True) or Solids()

    def parts(self) -> FileParts:
        """What else its file has: its `PARTS`, if any; raises as the reader of the file."""
        return self._given("PARTS", FileParts, "...", called=True) or FileParts()

    def servos(self) -> Mapping[str, Servo]:
        """The drives of its file that are servos, by the names of their inputs or the same without a suffix."""
        return self._given("SERVOS", dict, "...", called=True) or {}

    def physics(self) -> PhysicalModel | None:
        """The machine as bodies, joints and contacts: the `PHYSICS` beside its function, if any.

        Raises:
            ModelError: it is no PhysicalModel.
        """
        return self._given("PHYSICS", PhysicalModel, "...")

    def _given(self, name: str, kind: type[Stated], arguments: str, called: bool = False) -> Stated | None:
        """What is given under this name beside its function, if anything; ModelError where it is not of this kind.

        called: it may be a function that returns it, called with the settings.
        """
        stated = self.definition.attribute(name) if self.definition.states(name) else None  # without it no sympy
        if called and callable(stated):
            function = stated
            stated = self.definition.run(lambda: function(self.settings))
        if stated is not None and not isinstance(stated, kind):
            text = f"{self.definition.file.name}: {name} is no {kind.__name__}"
            raise ModelError(f"{text}; write it as {name} = {kind.__name__}({arguments})")
        return stated

    def views(self) -> tuple[View, ...]:
        """How the machine is drawn: the `VIEW` beside its function, one or several, if any (this imports sympy).

        It may be a function that returns them, called with the settings.

        Raises:
            ModelError: it is neither a View nor Views, or the function fails.
        """
        stated = self._given("VIEW", object, "View(...)", called=True)
        views = tuple(stated) if isinstance(stated, (tuple, list)) else () if stated is None else (stated,)
        for number, view in enumerate(views):
            if not isinstance(view, View):
                several = isinstance(stated, (tuple, list))
                word, remedy = (f"VIEW[{number}]", "(View(...), View(...))") if several else ("VIEW", "View(...)")
                raise ModelError(f"{self.definition.file.name}: {word} is not a View; write it as VIEW = {remedy}")
        return views


def find_machine(reference: str | StatedMachine, folder: Path) -> Definition:
    """The definition of a machine: a name in PLANTS, an entry point, "package.module:model", "./file.py:model", the
    path of a file that a wing or another package reads, as a robot's, or the machine itself, as a launch file has it.

    Raises:
        NotFound: there is no such machine; ModelError: its file is not Python.
    """
    if isinstance(reference, StatedMachine):
        return TableDefinition.of(reference, folder)
    if kind_of(reference) == "robot":
        return machine_files(reference).find(reference, folder)
    packaged = {name: f"servonode.plants.{name}" for name in PLANTS}
    return find(reference, packaged, folder, "machine")


def packaged_machine(name: str, settings: Mapping[str, Any] | None = None) -> MachineSource:
    """A machine of PLANTS."""
    return MachineSource(find_machine(name, Path()), settings or {})
