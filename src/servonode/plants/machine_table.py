"""A machine that a launch file states itself, in [plant.machine]: its keys, and its definition. It needs no Python."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from servonode.definitions import cache
from servonode.definitions.source_location import KeyPlace, Place
from servonode.plants.keys import key
from servonode.plants.machine_files import FileDefinition

SECTION = "plant.machine"
Text = Annotated[str, Meta(min_length=1)]
Expression = float | str
Size = Annotated[float, Meta(gt=0)]


def stated(sentence: str, unit: str = "") -> Meta:
    """What a key of a machine is; none of them varies from run to run."""
    return key(sentence, unit, derived="part of the machine's equations")


Description = Annotated[str, stated("what it is, in a few words")]


class StatedState(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[plant.machine.coordinates.NAME], velocities: a coordinate or a velocity; a text alone is its unit."""

    unit: Annotated[str, stated("its unit, such as m or rad")] = "1"
    description: Description = ""
    start: Annotated[float, stated("its value at t = 0 where [plant.initial] gives none", "its unit")] = 0.0
    limit: Annotated[Size | None, stated("its largest plausible magnitude", "its unit")] = None
    rate_limit: Annotated[Size | None, stated("its fastest plausible change", "its unit per s")] = None


class StatedFirstOrder(StatedState, frozen=True, kw_only=True):
    """[plant.machine.first_order.NAME]: a state that is no motion, such as the current of a motor."""

    rate: Annotated[Expression, stated("its derivative, linear in the inputs")]


class StatedParameter(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[plant.machine.parameters.NAME]: a constant; a number alone is its default."""

    default: Annotated[float, stated("its value where [plant.parameters] gives none", "its unit")]
    unit: Annotated[str, stated("its unit; the units of equations are checked where parameters have some")] = "1"
    description: Description = ""
    above: Annotated[float | None, stated("what it must exceed", "its unit")] = None
    at_least: Annotated[float | None, stated("its least value", "its unit")] = None


class StatedInput(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[plant.machine.inputs.NAME]: a force that the controller commands; a text alone is what it acts on."""

    acts_on: Annotated[Expression, stated("the rate on which it does work, as x_dot: its power is input times rate")]
    unit: Annotated[str | None, stated("its unit (absent: N or N m where it acts on the rate of a coordinate)")] = None
    description: Description = ""
    limit: Annotated[Size | None, stated("its largest magnitude", "its unit")] = None
    at_least: Annotated[float | None, stated("its least value, 0 of what only pushes or pulls", "its unit")] = None


class StatedForce(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[[plant.machine.forces]]: a known force."""

    force: Annotated[Expression, stated("the force, of states, parameters and t")]
    acts_on: Annotated[Expression, stated("the rate on which it does work")]


class StatedConstraint(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[plant.machine.constraints.NAME]: what a contact keeps at zero, by a force of that name; a text alone is this."""

    expression: Annotated[
        Expression, stated("what is zero: linear in rates, as y_dot*cos(psi) - x_dot*sin(psi), or without any")
    ]
    unit: Annotated[str, stated("the unit of the force")] = "N"
    description: Description = ""


class StatedOutput(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[plant.machine.outputs.NAME]: a monitored value, which residuals may contain; a text alone is its expression."""

    expression: Annotated[Expression, stated("its expression, of states, rates, inputs and the forces of constraints")]
    unit: Annotated[str, stated("its unit")] = "1"
    description: Description = ""


class StatedCondition(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[plant.machine.faults.NAME], warnings, requirements: what must hold; a text alone is this."""

    relation: Annotated[Text, stated('what must hold, such as "abs(theta) < 1.2"')]
    text: Annotated[str, stated("what it means that this does not hold (absent: the name)")] = ""


class StatedMachine(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[plant.machine]: a machine that needs no Python. Its expressions are like residuals; x_dot is the rate of x."""

    name: Annotated[Text, stated("its name")] = "machine"
    description: Description = ""
    coordinates: Annotated[
        dict[str, str | StatedState],
        stated('the coordinates by name, each a unit or a table: { x = "m", phi = "rad" }'),
    ]
    parameters: Annotated[dict[str, float | StatedParameter], stated("the constants by name: numbers, or tables")] = {}
    terms: Annotated[
        dict[str, Expression],
        stated("abbreviations by name, as the place of a mass, for all other expressions; NAME_dot is the rate of one"),
    ] = {}
    kinetic: Annotated[Expression, stated("the kinetic energy", "J")]
    potential: Annotated[Expression, stated("the potential energy", "J")] = 0.0
    dissipation: Annotated[Expression, stated("half of the power that is lost, such as c*x_dot**2/2", "W")] = 0.0
    inputs: Annotated[
        dict[str, str | StatedInput], stated("the inputs by name, each the rate on which it does work, or a table")
    ] = {}
    forces: Annotated[list[StatedForce], stated("known forces")] = []
    constraints: Annotated[
        dict[str, Expression | StatedConstraint], stated("constraints by the name of their force")
    ] = {}
    independent: Annotated[
        list[str] | dict[str, Expression],
        stated("with constraints, the coordinates that determine all others, or velocities by name, linear in rates"),
    ] = []
    velocities: Annotated[
        dict[str, str | StatedState], stated("the velocities in kinematics or independent, each a unit or a table")
    ] = {}
    kinematics: Annotated[
        dict[str, Expression], stated("the rates of coordinates in velocities, in place of independent ones")
    ] = {}
    first_order: Annotated[dict[str, StatedFirstOrder], stated("states that are no motions")] = {}
    outputs: Annotated[dict[str, Expression | StatedOutput], stated("monitored values by name")] = {}
    faults: Annotated[dict[str, str | StatedCondition], stated("what must hold, or the run ends")] = {}
    warnings: Annotated[dict[str, str | StatedCondition], stated("what must hold, or a run warns")] = {}
    requirements: Annotated[dict[str, str | StatedCondition], stated("what must hold of the parameters")] = {}
    safe: Annotated[dict[str, Expression], stated("the inputs after a fault, such as a brake (absent: zero)")] = {}

    drawing: Annotated[
        list[dict[str, Any]],
        stated("how it is drawn: tables of lines, polygons, circles, dots, arrows and trails, in m"),
    ] = []

    def __str__(self) -> str:
        """The reference of its definition."""
        return f"[{SECTION}]"


@dataclass(frozen=True)
class TableDefinition(FileDefinition):
    """The machine of a table; identified by what stands in it, wherever that is."""

    function: str = SECTION
    table: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, machine: StatedMachine, folder: Path) -> "TableDefinition":
        """The definition of a machine in a launch file that stands in a folder."""
        return cls(str(machine), folder / str(machine), table=to_builtins(machine))

    def digest(self, *arguments: Any, **options: Any) -> str:  # noqa: ARG002
        return hashlib.sha256(json.dumps(self.table).encode()).hexdigest()

    def readers(self) -> list[str]:
        return [cache.code_digest("mechanics.model_of_table")]

    def sources(self) -> set[Path]:
        return set()

    @property
    def place(self) -> Place:
        return KeyPlace(SECTION, 0)

    def call(self, *arguments: Any, **options: Any) -> Any:  # noqa: ARG002
        """The Model; raises as `model_of_table`."""
        from servonode.mechanics.model_of_table import model_of_table

        return model_of_table(self.table, SECTION)
