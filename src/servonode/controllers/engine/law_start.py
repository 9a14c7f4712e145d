"""Generated functions beside the law: values at the initial state, conditions on it, the program's own states."""

from collections.abc import Sequence
from typing import Any

from servonode.controllers.engine.kernels import LawKernel
from servonode.controllers.engine.law_texts import arguments
from servonode.controllers.engine.layout import GoalLayout
from servonode.controllers.engine.program import gain_symbol, late
from servonode.controllers.engine.servo import Servo
from servonode.mechanics.emit import Block, Constants
from servonode.mechanics.signatures import Signature
from servonode.mechanics.symbols import margins_and_sides

Expr = Any


def start_functions(servo: Servo, constants: Constants, goal: GoalLayout) -> list[str]:
    """Their texts; each costs compile time, so what nothing calls is left out."""
    program, texts = servo.program, []
    if program.start:  # parameters that are computed at the start
        without = [each for each in program.parameters if each.quantity.default is None]
        texts.append(
            _at_start(servo, goal, "start", [program.start[each] for each in without if each in program.start])
        )
    if program.requirements or program.warnings:
        texts.append(_conditions(servo, goal))
    if program.states and servo.extension is None:
        texts.append(_at_start(servo, goal, "initial_states", [each.start for each in program.states]))
        texts.append(_state_rates(servo, goal, constants))
        texts.append(follow_text(len(program.states), goal))
    return texts


def follow_text(n: int, goal: GoalLayout) -> str:
    """Generated `follow(t, x, y, c, passed, memory)` of n states of a law's own."""
    return Signature.of(LawKernel, "follow").definition() + _FOLLOW.format(n=n, at=goal.states.start)


def _at_start(servo: Servo, goal: GoalLayout, name: str, stated: Sequence[Expr]) -> str:
    """Generated `NAME(t, x, y, p, out)`: the values of expressions at the initial state."""
    block = Block(None)
    arguments(servo, block, goal)
    block.load("p", [*servo.equations.model.parameters, *servo.program.parameters])
    block.store("out", block.evaluate([servo.resolved(each) for each in stated]))
    return block.function(Signature.of(LawKernel, name), "t")


def _conditions(servo: Servo, goal: GoalLayout) -> str:
    """Generated `conditions(t, x, y, p, gains, late, out)`: of the requirements, then of the warnings, the margins and
    the values of both sides.
    """
    program, block = servo.program, Block(None)
    arguments(servo, block, goal)
    block.load("p", [*servo.equations.model.parameters, *program.parameters])
    block.load("gains", [gain_symbol(each.quantity.name) for each in program.residuals])
    conditions = (*program.requirements, *program.warnings)
    stated = [servo.resolved(each) for each in margins_and_sides(conditions)]
    block.store_rows("out", block.evaluate(stated), len(conditions))
    return block.function(Signature.of(LawKernel, "conditions"), "t", late.name)


def _state_rates(servo: Servo, goal: GoalLayout, constants: Constants) -> str:
    """Generated `state_rates(t, x, y, c, out)`: the rates of the program's own states."""
    block = Block(constants)
    arguments(servo, block, goal)
    block.store("out", block.evaluate(servo.state_rates))
    return block.function(Signature.of(LawKernel, "state_rates"), "t")


_FOLLOW = '''\
    """Heun's rule for the program's own states, `passed` s after the call before; they end in y and in memory.

    memory (2 n,) holds them and their rates at that call.
    """
    for i in range({n}):
        y[{at} + i] = memory[i] + passed*memory[{n} + i]
    rates = empty({n})
    state_rates(t, x, y, c, rates)
    for i in range({n}):
        memory[i] += 0.5*passed*(memory[{n} + i] + rates[i])
        y[{at} + i] = memory[i]
    state_rates(t, x, y, c, rates)
    for i in range({n}):
        memory[{n} + i] = rates[i]
'''
