"""The keeps of a launch file, added to a program: expressions of the machine, the program and contact forces."""

from dataclasses import replace

from servonode.controllers.engine.faces import smooth_parts
from servonode.controllers.engine.keeping import Keeping
from servonode.controllers.engine.program import Program, keep
from servonode.controllers.engine.stated_expressions import Reader, StatedError
from servonode.definitions.source_location import NOWHERE
from servonode.errors import did_you_mean
from servonode.mechanics.model import Model


def with_keeps(model: Model, program: Program, keeping: Keeping) -> Program:
    """The program that also keeps what a launch file states, and has its priorities.

    Raises:
        StatedError: an expression is wrong, a keep has the name of one of the program, or a residual does not exist.
    """
    names = [each.quantity.name for each in program.residuals]
    if strange := [each for each in keeping.priorities if each not in names]:
        text = f"program {program.name} has no residual {strange[0]!r}; {did_you_mean(strange[0], names)}"
        raise StatedError(f"priority.{strange[0]}", f"{text}choose {', '.join(names) or 'a program with residuals'}")
    own = {each.quantity.name for each in program.keep}
    reader, made = _reader(model, program), list(program.keep)
    for name, stated in keeping.keeps.items():
        if name in own:
            raise StatedError(f"keep.{name}", f"program {program.name} keeps something of this name; give another one")
        expression = reader(f"keep.{name}", stated.expression)
        unit = reader.unit(smooth_parts(expression, f"keep {name}", NOWHERE)[0])
        each = keep(name, expression, " ".join(stated.expression.split()), unit, priority=stated.priority)
        made.append(replace(each, place=NOWHERE))
    residuals = [replace(e, priority=keeping.priorities.get(e.quantity.name, e.priority)) for e in program.residuals]
    return replace(program, residuals=residuals, keep=made)


def _reader(model: Model, program: Program) -> Reader:
    """Knows all that a goal may contain, contact forces, accelerations and inputs."""
    late = [q.acceleration for q in model.coordinates] + [v.rate for v in model.velocities]
    late += [each.multiplier for each in model.constraints] + list(model.inputs)
    own = {each.name: each for each in (*late, *program.parameters, *program.states)}
    reader = Reader(model, (*program.signals, *program.targets), own, at_once=True)
    reader.units |= {each.multiplier: each.quantity.unit for each in model.constraints}
    reader.units |= {u: u.quantity.unit for u in model.inputs}
    return reader
