"""A program's generated module: the servo law and the terms it is made of.

`law(t, x, y, c, K, out)` reads the goal y and writes the answer out (see `layout`), and returns a status: 0 good,
i > 0: guard i is violated, -1: W is singular, -2: a result is not finite. K (3, n_s, n_s) holds K0, K1 and KI.
Whoever runs it compares the determinant with that of the control instant before (`layout.Answer.compare`).
"""

from collections.abc import Iterable
from typing import Any

from servonode.controllers.engine import extended_source
from servonode.controllers.engine.keep_source import (
    Kept,
    goal_rows,
    keep_lines,
    kept_inputs,
    rows_of,
    solver_text,
)
from servonode.controllers.engine.kernels import LawKernel
from servonode.controllers.engine.law_description import completion_of, describe_program, splits
from servonode.controllers.engine.law_solve import CONDITION_LIMIT, solved_inputs
from servonode.controllers.engine.law_texts import Texts, arguments, follow_text
from servonode.controllers.engine.layout import (
    GIVES_WAY,
    GOOD,
    NOT_FINITE,
    SINGULAR,
    YIELDED,
    AnswerLayout,
    GoalLayout,
    law_sizes,
)
from servonode.controllers.engine.program import Limit, gain_symbol, late, weight_symbol
from servonode.controllers.engine.servo import Servo
from servonode.definitions.progress import doing
from servonode.errors import ModelError
from servonode.mechanics import computed, emit
from servonode.mechanics.description import ProgramDescription
from servonode.mechanics.emit import Block, Constants
from servonode.mechanics.kernels import Signature, sizes_text
from servonode.mechanics.linear_solve import solves
from servonode.mechanics.machine_source import describe
from servonode.mechanics.symbols import margins_and_sides

Expr = Any


def law_source(servo: Servo, damping: float = 0.0, integral: bool = False, weighted: bool = False) -> str:
    """The text of the generated module of a program.

    With `damping` > 0 a W whose condition is above 1/damping is answered by damped least squares,
    tau = W^T (W W^T + eps^2 1)^-1 z with eps at most that share of the norm of W, instead of the
    status that stops the law. With `integral` the array y ends with the
    integrals s of the residuals, and K[2] s is fed back as well. `weighted`: a least norm has a weight for each input,
    the last of the parameters.

    Raises:
        ModelError: there are not as many residuals as inputs and the program gives no inputs itself.
    """
    model, program = servo.equations.model, servo.program
    if not program.inputs:
        _check_count(servo)
    if servo.extension and integral:
        degrees = ", ".join(map(str, servo.relative_degrees))
        text = f"program {program.name}: its residuals have relative degrees {degrees}, for which there is no integral "
        raise ModelError(f"{text}action; leave integral out of [controller.gains]", program.place)
    description = describe_program(servo, damping, integral, weighted)
    goal = GoalLayout.of(description)
    doing("deriving", "text of its functions")
    constants = extended_source.constants_of(servo, description.weighted)
    body = start_functions(servo, constants, goal)
    block, texts = arguments(servo, goal, constants), None
    if servo.extension:
        body += extended_source.extended_functions(servo, servo.extension, constants, goal)
    elif not program.inputs:
        texts = Texts(servo, block, [servo.resolved(each.margin) for each in program.guards])
        body.append(_terms(block, texts))
    if servo.faces:
        body.append(_keep_rows(servo, goal, constants))
    if program.watches:
        body.append(_values(servo, goal, "watched", [each.expression for each in program.watches], constants))
    if found := splits(model, program):
        followed = [*(each.output for each in found), *(each.goal for each in found)]
        body.append(_values(servo, goal, "tracked", followed, constants, len(found)))
    law = _law(servo, description, goal, block, texts, damping)
    sizes = sizes_text(law_sizes(describe(model), description))
    solver = [solver_text(servo, damping > 0)] if servo.keeping else []
    shared = [*solves(*body, law), *computed.functions(model.tree, constants, *body, law)]
    return "\n\n".join([emit.HEADER + sizes + constants.source(), *solver, *shared, *body, law])


def _check_count(servo: Servo) -> None:
    """Check that there are as many rows as inputs, or fewer and a completion."""
    model, program = servo.equations.model, servo.program
    n_s, n_rows, n_tau = len(program.residuals), len(program.residuals) + len(program.relations), len(model.inputs)
    completion = completion_of(program)
    if completion in ("ideal", "posture") and len(model.velocities) != n_tau:
        word = "ideal=True" if program.ideal else "posture="
        text = f"program {program.name}: {word} needs as many inputs as velocities, {model.name} has {n_tau} and "
        text += f"{len(model.velocities)}; complete it by relations or least_norm"
        raise ModelError(text, program.place.argument(completion))
    if completion == "posture" and n_rows >= n_tau:
        text = f"program {program.name} has {n_s} servo-constraints for {n_tau} inputs, which leave nothing free that "
        raise ModelError(f"{text}a posture could move; leave one out", program.place.argument("posture"))
    if n_rows == n_tau or (completion != "none" and n_rows == n_s < n_tau):
        return
    inputs = ", ".join(u.name for u in model.inputs)
    relations = f" and {len(program.relations)} relations" if program.relations else ""
    more = "give as many residuals as inputs; with more they cannot all be realised"
    fewer = (
        "give as many residuals as inputs: complete it with another one (for example for the speed), with relations "
        "between the inputs, or with least_norm=True or posture= (of a launch file: [controller.weights] or "
        "[controller.posture])"
    )
    remedy = more if n_rows > n_tau else fewer
    raise ModelError(
        f"program {program.name} has {n_s} servo-constraints{relations} for the {n_tau} inputs of {model.name} "
        f"({inputs}): {remedy}",
        program.place.argument("residuals"),
    )


def _terms(block: Block, texts: Texts) -> str:
    """Generated `terms(t, x, y, c, f, f_dot, J, delta, W, b, F)` for checks and reports; the block stays as it is."""
    n = len(block.lines)
    for array, values in (("f", texts.f), ("f_dot", texts.f_dot), ("delta", texts.delta), ("b", texts.b)):
        block.store(array, values)
    for array, rows in (("J", texts.J), ("W", texts.W), ("F", [row[:-1] for row in texts.relations])):
        block.store_table(array, rows)
    found = block.function(Signature.of(LawKernel, "terms"), "t")
    del block.lines[n:]
    return found


def _law(
    servo: Servo, described: ProgramDescription, goal: GoalLayout, block: Block, texts: Texts | None, damping: float
) -> str:
    """Generated `law(t, x, y, c, K, out)`. texts: already in the block, of a program without extension and inputs."""
    program, answer = servo.program, AnswerLayout.of(described, len(servo.equations.model.inputs))
    guards = [servo.resolved(each.margin) for each in program.guards]
    scales: dict[Limit, str] = {}
    kept: Kept | None = None
    free: list[str] = []  # what an extension would have without what it keeps
    if program.inputs:
        tau, f, f_dot, guard_texts, bounds = _stated_inputs(servo, block, guards)
        condition, determinant = "1.0", ""
    elif servo.extension:
        extended = extended_source.Texts(servo, servo.extension, block, goal)
        tau, f, f_dot, condition, determinant = extended_source.law_texts(extended)
        kept, free = extended.kept, extended.free
        guard_texts, bounds = block.evaluate(guards), block.evaluate([each.at_most for each in program.limits])
    else:
        assert texts is not None
        f, f_dot, guard_texts, bounds = texts.f, texts.f_dot, texts.guards, texts.bounds
        integrals = [f"y[{i}]" for i in range(goal.integrals.start, goal.integrals.stop)]
        z = _wanted(servo, block, texts, integrals, scales)
        shares = [1 / weight_symbol(each.name) for each in servo.equations.model.inputs] if described.weighted else []
        tau, condition, determinant = solved_inputs(block, servo, texts, z, damping, block.evaluate(shares))
    _limit_inputs(servo, block, tau, bounds, scales)
    inputs = tau
    if servo.keeping and not kept:
        rows = rows_of(servo, block, texts, None)
        kept = kept_inputs(servo, block, rows, lambda: goal_rows(servo, block, texts, damping), tau, damped=damping > 0)
        inputs = kept.tau
    watched = [each for each in program.limits if each.kind == "expressions"]  # which the program applies itself
    scales |= dict(zip(watched, block.evaluate([servo.resolved(each.scale) for each in watched]), strict=True))
    acting = [scales[each] for each in program.limits]
    told = [determinant] * (answer.determinant.stop - answer.determinant.start)
    parts = answer.arranged(
        inputs=inputs, residuals=f, rates=f_dot, condition=[condition], scales=acting,
        margins=kept.margins if kept else [], active=kept.active if kept else [],
        keeping=["1.0*keeping"] if kept else [], determinant=told,
    )  # fmt: skip
    block.store("out", parts)
    signs = [">" if each.requirement.strict else ">=" for each in program.guards]
    tests = [f"{text} {sign} 0.0" for text, sign in zip(guard_texts, signs, strict=True)]
    tests += kept.tests if kept else []
    block.lines += _status(tests, "1.0" if damping else condition, [*tau, *free, *(kept.tau if kept else [])])
    if kept and not servo.yields:
        block.lines.append(f"    if status == {GOOD} and keeping == {GIVES_WAY}:\n        status = {YIELDED}")
    return block.function(Signature.of(LawKernel, "law"), "t", result="status")


def _keep_rows(servo: Servo, goal: GoalLayout, constants: Constants) -> str:
    """Generated `keep_rows(t, x, y, c, out)`, see `keep_source.keep_lines`."""
    block, atom = arguments(servo, goal, constants), None
    if servo.extension:
        atom = extended_source.Texts(servo, servo.extension, block, goal).text
    keep_lines(servo, block, rows_of(servo, block, None, atom))
    return block.function(Signature.of(LawKernel, "keep_rows"), "t")


def _stated_inputs(
    servo: Servo, block: Block, guards: list[Expr]
) -> tuple[list[str], list[str], list[str], list[str], list[str]]:
    """Inputs, f, f', guards and limits' bounds of a program that states its inputs."""
    equations, program = servo.equations, servo.program
    stated = [servo.resolved(program.inputs[u]) for u in equations.model.inputs]
    bounds = [servo.resolved(each.at_most) for each in program.limits]
    parts = [stated, servo.f, servo.f_dot, guards, bounds]
    flat = iter(block.evaluate([expression for part in parts for expression in part]))
    tau, f, f_dot, guard_texts, bound_texts = ([next(flat) for _ in part] for part in parts)
    return tau, f, f_dot, guard_texts, bound_texts


def _scaled(block: Block, vector: list[str], bound: str) -> tuple[list[str], str]:
    """The vector scaled down to the bound, and the scale; what is not finite stays so."""
    square = emit.combine(("+", each, each) for each in vector)
    norm, most = block.let(f"sqrt({square})"), block.let(f"max({bound}, 0.0)")
    scale = block.let(f"{most}/{norm} if {norm} > {most} else 1.0")
    return [block.let(f"{scale}*{each}") for each in vector], scale


def _limit_inputs(servo: Servo, block: Block, tau: list[str], bounds: list[str], scales: dict[Limit, str]) -> None:
    """Scale the inputs of each limit on inputs, in place."""
    inputs = list(servo.equations.model.inputs)
    for each, bound in zip(servo.program.limits, bounds, strict=True):
        if each.kind == "inputs":
            at = [inputs.index(u) for u in each.of]
            limited, scales[each] = _scaled(block, [tau[i] for i in at], bound)
            for i, text in zip(at, limited, strict=True):
                tau[i] = text


def _status(guards: list[str], condition: str, tau: list[str]) -> list[str]:
    """Lines that find the status."""
    finite = " and ".join(f"isfinite({text})" for text in tau)
    tests = [(test, i) for i, test in enumerate(guards, 1)]
    tests += [(f"fabs({condition}) < {CONDITION_LIMIT!r}", SINGULAR), (finite, NOT_FINITE)]
    lines = [f"    status = {GOOD}"]
    for word, (test, status) in zip(["if", *["elif"] * len(tests)], tests, strict=False):
        lines.append(f"    {word} not ({test}):\n        status = {status}")
    return lines


def _wanted(servo: Servo, block: Block, texts: Texts, integrals: list[str], scales: dict[Limit, str]) -> list[str]:
    """z = -K1 f' - K0 f - KI s - d - b, the right-hand side of W tau = z; limits act on its part J v'."""
    limited = {row.quantity.name for each in servo.program.limits if each.kind == "demand" for row in each.of}
    names = [each.quantity.name for each in servo.program.residuals]
    wanted = []
    for i, b in enumerate(texts.b):
        terms = [("-", f"K[0, {i}, {j}]", f) for j, f in enumerate(texts.f)]
        terms += [("-", f"K[1, {i}, {j}]", rate) for j, rate in enumerate(texts.f_dot)]
        terms += [("-", f"K[2, {i}, {j}]", s) for j, s in enumerate(integrals)]
        terms.append(("-", "1.0", texts.damping[i]))
        wanted.append(block.let(emit.combine([*terms, ("-", "1.0", texts.delta[i] if names[i] in limited else b)])))
    for each, bound in zip(servo.program.limits, texts.bounds, strict=True):
        if each.kind == "demand":
            at = [names.index(row.quantity.name) for row in each.of]
            scaled, scales[each] = _scaled(block, [wanted[i] for i in at], bound)
            for i, text in zip(at, scaled, strict=True):
                wanted[i] = text
    for i, name in enumerate(names):
        if name in limited:
            drift = [("-", j, a) for j, a in zip(texts.J[i], texts.a0, strict=True)]
            wanted[i] = block.let(emit.combine(drift, wanted[i]))
    return wanted


def start_functions(servo: Servo, constants: Constants, goal: GoalLayout) -> list[str]:
    """Their texts; each costs compile time, so what nothing calls is left out."""
    program, texts = servo.program, []
    if program.start:  # parameters that are computed at the start
        without = [each for each in program.parameters if each.quantity.default is None]
        found = [program.start[each] for each in without if each in program.start]
        texts.append(_values(servo, goal, "start", found))
    if conditions := (*program.requirements, *program.warnings):
        texts.append(_values(servo, goal, "conditions", margins_and_sides(conditions), n=len(conditions)))
    if program.states and servo.extension is None:
        texts.append(_values(servo, goal, "initial_states", [each.start for each in program.states]))
        texts.append(_values(servo, goal, "state_rates", program.states.values(), constants))
        texts.append(follow_text(len(program.states), goal))
    return texts


def _values(
    servo: Servo, goal: GoalLayout, name: str, stated: Iterable[Expr], constants: Constants | None = None, n: int = 0
) -> str:
    """Generated `NAME(t, x, y, c, out)`: the values of expressions, n of them a row, if they are rows.

    Without constants it is of the initial state and has parameters p in place of c; `conditions` has gains as well.
    """
    block = arguments(servo, goal, constants)
    if constants is None:
        block.load("p", [*servo.equations.model.parameters, *servo.program.parameters])
    if name == "conditions":
        block.load("gains", [gain_symbol(each.quantity.name) for each in servo.program.residuals])
    texts = block.evaluate([servo.resolved(each) for each in stated])
    if n:
        block.store_rows("out", texts, n)
    else:
        block.store("out", texts)
    return block.function(Signature.of(LawKernel, name), "t", late.name)
