"""The common first lines of a law's generated functions: arguments, f, f', J, W, and the completion."""

from itertools import accumulate, pairwise
from typing import Any

import sympy

from servonode.controllers.engine.faces import contact_form
from servonode.controllers.engine.kernels import LawKernel
from servonode.controllers.engine.layout import GoalLayout
from servonode.controllers.engine.servo import Servo
from servonode.errors import ModelError
from servonode.mechanics import emit
from servonode.mechanics.description import derivatives
from servonode.mechanics.emit import Block, Constants
from servonode.mechanics.kernels import Signature
from servonode.mechanics.machine_source import lower_triangle, unpack_lower

Expr = Any


def relation_rows(servo: Servo) -> list[list[Expr]]:
    """Each relation's coefficients of the inputs, and the negated remaining terms: F tau = tau_0."""
    model, program = servo.equations.model, servo.program
    still = dict.fromkeys(model.inputs, sympy.Integer(0))
    rows = []
    for relation in program.relations:
        stated = servo.resolved(relation)
        row = [sympy.diff(stated, u) for u in model.inputs]
        if any(each.free_symbols & set(model.inputs) for each in row) or not any(row):
            raise ModelError(
                f"program {program.name}: the relation {relation} must be linear in the inputs, its coefficients free "
                "of them; write it so, for example U1 + U2",
                program.place.argument("relations"),
            )
        rows.append([*row, -stated.xreplace(still)])
    return rows


def arguments(servo: Servo, goal: GoalLayout, constants: Constants | None, states: bool = True) -> Block:
    """A block that has loaded state, targets, signals and, unless told not to, the program's states."""
    block, program = Block(constants), servo.program
    block.load("x", servo.equations.model.state)
    targets = [each.derivative(n) for each, n in derivatives(program.targets, servo.target_order)]
    signals = [each.derivative(n) for each, n in derivatives(program.signals, servo.signal_order)]
    own = program.states if states else ()
    for part, symbols in ((goal.targets, targets), (goal.signals, signals), (goal.states, own)):
        block.load("y", symbols, part.start)
    return block


class Texts:
    """Emitted f, f', J, W and the drift b = delta + J a0 of a servo law."""

    def __init__(self, servo: Servo, block: Block, guards: list[Expr]) -> None:
        equations, program = servo.equations, servo.program
        n_v, n_s = len(equations.model.velocities), len(servo.f)
        n_tau = len(equations.model.inputs)
        parts = [lower_triangle(equations), list(-equations.h_r), list(equations.B_r.T)]
        parts += [servo.f, servo.f_dot, list(servo.J), servo.delta, guards]
        bounds = [servo.resolved(each.at_most) for each in program.limits]
        relations = [entry for row in relation_rows(servo) for entry in row]
        parts += [servo.damping, bounds, relations, servo.posture]
        own = [each.entries for each in servo.faces if not each.motion]
        contact = contact_form(equations) if any(each.by_force for each in servo.faces) else []
        parts += [[entry for face in own for entry in face], [entry for part in contact for entry in part]]
        flat = iter(block.evaluate([expression for part in parts for expression in part]))
        lower, free, B, self.f, self.f_dot, J, self.delta, self.guards, *more = (
            [next(flat) for _ in part] for part in parts
        )
        self.damping, self.bounds, rows, posture, faces, self.contact = more
        ends = [0, *accumulate(map(len, own))]
        self.faces = [faces[start:end] for start, end in pairwise(ends)]  # of each that is no chain, see `Face.entries`
        self.relations = [rows[i : i + n_tau + 1] for i in range(0, len(rows), n_tau + 1)]
        self.J = [J[i * n_v : (i + 1) * n_v] for i in range(n_s)]
        self.B = [B[k * n_v : (k + 1) * n_v] for k in range(n_tau)]  # by input
        by_rows = n_v >= emit.MANY and 1 < n_s < n_tau and not servo.keeping  # W by M^-1 J^T, fewer than M^-1 B
        responses = [] if by_rows else self.B
        columns = [free, *responses, *(self.J if program.ideal or posture or by_rows else [])]
        self.M = unpack_lower(lower, n_v)
        a0, *solved = emit.solve_spd(block, self.M, columns)
        self.a0, self.R, self.along = a0, solved[: len(responses)], solved[len(responses) :]
        differences = [
            emit.combine([("+", "1.0", wanted), ("-", "1.0", a)]) for wanted, a in zip(posture, a0, strict=False)
        ]
        self.posture = [block.let(each) for each in differences]  # accelerations beyond those without inputs
        outer, inner = self.along if by_rows else self.J, self.B if by_rows else self.R
        self.W = [[dot(block, row, column) for column in inner] for row in outer]
        self.b = [
            block.let(emit.combine((("+", j, a) for j, a in zip(row, a0, strict=True)), delta))
            for row, delta in zip(self.J, self.delta, strict=True)
        ]


def dot(block: Block, row: list[str], column: list[str]) -> str:
    text = emit.combine(("+", a, b) for a, b in zip(row, column, strict=True))
    return text if emit.is_zero(text) else block.let(text)


def follow_text(n: int, goal: GoalLayout) -> str:
    """Generated `follow(t, x, y, c, passed, memory)` of n states of a law's own."""
    return Signature.of(LawKernel, "follow").definition() + _FOLLOW.format(n=n, at=goal.states.start)


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
