"""The dimensions of a program's expressions on a machine: residuals, inputs, own states, guards."""

from fractions import Fraction

from servonode.controllers.engine.program import Program
from servonode.mechanics.description import MOST_DERIVATIVES
from servonode.mechanics.dimensions import PER_SECOND, Dimensions, known_dimensions, only_signs, stated_dimension, times
from servonode.mechanics.model import Model


def program_mismatches(model: Model, program: Program) -> tuple[list[str], list[str]]:
    """What does not fit in a program's equations, and its units that are not known, as sentences."""
    known, _ = known_dimensions(model)
    unknown: list[str] = []
    for own in [each.quantity for each in program.parameters] + [each.quantity for each in program.states]:
        stated = stated_dimension(own.name, own.unit, unknown)
        known |= {} if stated is None else {own.name: stated}
    for moving in (*program.targets, *program.signals):
        stated = stated_dimension(moving.name, moving.quantity.unit, unknown)
        for order in range(MOST_DERIVATIVES + 1 if stated is not None else 0):
            known[moving.derivative(order).name] = times(stated, PER_SECOND, Fraction(order))  # type: ignore[arg-type]
    found = Dimensions(known, only_signs)
    for setpoint in program.setpoints:
        of = found.of(f"setpoint {setpoint.name}", setpoint.expression, setpoint.place)
        known |= {} if of is None else {setpoint.name: of}
    for row in program.residuals:
        name = row.quantity.name
        found.expect(f"residual {name}", row.expression, stated_dimension(name, row.quantity.unit, unknown), row.place)
        found.expect(f"damping of residual {name}", row.damping, None, row.place)
    place = program.place
    for u, value in program.inputs.items():
        found.expect(f"input {u.name}", value, known.get(u.name), place.argument("inputs"))
    for each in program.watches:
        of = stated_dimension(each.quantity.name, each.quantity.unit, unknown)
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
