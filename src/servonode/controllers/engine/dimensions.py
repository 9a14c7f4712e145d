"""The dimensions of a program's expressions on a machine: residuals, inputs, own states, guards."""

from fractions import Fraction

from servonode.controllers.engine.program import Program
from servonode.mechanics.description import MOST_DERIVATIVES
from servonode.mechanics.dimensions import (
    PER_SECOND,
    Dimension,
    Dimensions,
    UnitError,
    known_dimensions,
    only_signs,
    stated_dimension,
    times,
)
from servonode.mechanics.model import Model


def program_mismatches(model: Model, program: Program) -> tuple[list[str], list[str]]:
    """What does not fit in a program's equations, and its units that are not known, as sentences."""
    known, _ = known_dimensions(model)
    unknown: list[str] = []

    def dimension(name: str, unit: str) -> Dimension | None:
        try:
            return stated_dimension(unit)
        except UnitError as error:
            unknown.append(f"{name}: {error}")
            return None

    for own in [each.quantity for each in program.parameters] + [each.quantity for each in program.states]:
        stated = dimension(own.name, own.unit)
        known |= {} if stated is None else {own.name: stated}
    for moving in (*program.targets, *program.signals):
        stated = dimension(moving.name, moving.quantity.unit)
        for order in range(MOST_DERIVATIVES + 1 if stated is not None else 0):
            known[moving.derivative(order).name] = times(stated, PER_SECOND, Fraction(order))  # type: ignore[arg-type]
    found = Dimensions(known, only_signs)
    for setpoint in program.setpoints:
        of = found.of(f"setpoint {setpoint.name}", setpoint.expression, setpoint.place)
        known |= {} if of is None else {setpoint.name: of}
    for row in program.residuals:
        name = row.quantity.name
        found.expect(f"residual {name}", row.expression, dimension(name, row.quantity.unit), row.place)
        found.expect(f"damping of residual {name}", row.damping, None, row.place)
    place = program.place
    for u, value in program.inputs.items():
        found.expect(f"input {u.name}", value, known.get(u.name), place.argument("inputs"))
    for each in program.watches:
        of = dimension(each.quantity.name, each.quantity.unit)
        found.expect(f"watch {each.quantity.name}", each.expression, of, each.place)
    for state, rate in program.states.items():
        mine = known.get(state.name)
        wanted = None if mine is None else times(mine, PER_SECOND)
        found.expect(f"rate of state {state.name}", rate, wanted, place.argument("states"))
        found.expect(f"initial value of state {state.name}", state.start, mine, state.place)
    for parameter, value in program.start.items():
        wanted = known.get(parameter.name)
        found.expect(f"initial value of {parameter.name}", value, wanted, place.argument("start"))
    for condition in (*program.guards, *program.requirements, *program.warnings):
        found.expect("a condition", condition.margin, None, condition.place)
    for relation in program.relations:
        found.expect("a relation", relation, None, place.argument("relations"))
    return list(dict.fromkeys(found.mismatches)), unknown
