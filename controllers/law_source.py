"""A program's generated module: the servo law and the terms it is made of.

`law(t, x, y, c, K, out)` writes the inputs, the residuals, their rates, the condition number of W and the scale of
each limit (1 where it does not act), and returns a status: 0 good, i > 0: guard i is violated, -1: W is singular,
-2: a result is not finite. y holds targets, then signals, each with its derivatives, then the program's own states,
then the integrals if there are any; K (3, n_s, n_s) holds K0, K1 and KI.
"""

from typing import Any

import sympy

from servonode.controllers.program import Limit, Program, gain_symbol, late
from servonode.controllers.servo import Servo, resolved
from servonode.mechanics import emit
from servonode.mechanics.description import Completion, ProgramDescription
from servonode.mechanics.emit import Block, Constants, njit
from servonode.mechanics.machine_source import SOLVE_SOURCE, lower_triangle, unpack_lower
from servonode.mechanics.model import ModelError

Expr = Any
CONDITION_LIMIT = 1e8  # above it a solve with W has lost half of its digits
GOOD, SINGULAR, NOT_FINITE = 0, -1, -2


def describe_program(servo: Servo, integral: bool = False) -> ProgramDescription:
    """The names, units, defaults and texts of a program on a machine, without its expressions."""
    program = servo.program
    return ProgramDescription(
        name=program.name,
        description=program.description,
        residuals=tuple(each.quantity for each in program.residuals),
        degrees=servo.degrees,
        parameters=tuple(each.quantity for each in program.parameters),
        targets=tuple(each.name for each in program.targets),
        signals=tuple(each.quantity for each in program.signals),
        signal_defaults=tuple(each.default for each in program.signals),
        target_order=servo.target_order,
        signal_order=servo.signal_order,
        guards=tuple(each.requirement for each in program.guards),
        relations=len(_relation_rows(servo)),
        completion=_completion(program),
        integral=integral,
        explicit=bool(program.inputs),
        places=tuple(str(each.place) for each in program.residuals),
        required=tuple(p.name for p in program.parameters if p.quantity.default is None and p not in program.start),
        states=tuple(each.quantity for each in program.states),
        limits=tuple(each.quantity for each in program.limits),
        requirements=tuple(each.requirement for each in program.requirements),
        warnings=tuple(each.requirement for each in program.warnings),
    )


def _completion(program: Program) -> Completion:
    if program.ideal:
        return "ideal"
    return "least_norm" if program.least_norm else "none"


def _relation_rows(servo: Servo) -> list[list[Expr]]:
    """Each relation's coefficients of the inputs, and what stands beside them, negated: F tau = tau_0."""
    model, program = servo.equations.model, servo.program
    still = dict.fromkeys(model.inputs, sympy.Integer(0))
    rows = []
    for relation in program.relations:
        stated = resolved(servo.equations, program, relation)
        row = [sympy.diff(stated, u) for u in model.inputs]
        if any(each.free_symbols & set(model.inputs) for each in row) or not any(row):
            raise ModelError(
                f"program {program.name}: the relation {relation} must be linear in the inputs, its coefficients free "
                "of them; state it as such, for example U1 + U2",
                program.place.argument("relations"),
            )
        rows.append([*row, -stated.xreplace(still)])
    return rows


def law_source(servo: Servo, damping: float = 0.0, integral: bool = False) -> str:
    """The text of the generated module of a program.

    With `damping` > 0 a singular W is answered by damped least squares, tau = W^T (W W^T + eps^2 1)^-1 z with eps
    that share of the norm of W, instead of the status that stops the law. With `integral` the array y ends with the
    integrals s of the residuals, and K[2] s is fed back as well.

    Raises:
        ModelError: there are not as many residuals as inputs and the program states no inputs itself.
    """
    model, program = servo.equations.model, servo.program
    if not program.inputs:
        _check_count(servo)
    constants = Constants([*model.parameters, *program.parameters])
    body = []  # each function costs compile time, so what nothing calls is left out
    if any(each.quantity.default is None for each in program.parameters):
        body.append(_start(servo))
    if program.requirements or program.warnings:
        body.append(_conditions(servo))
    if program.states:
        body += [_start_states(servo), _state_rates(servo, constants)]
        body.append(_FOLLOW.format(n=len(program.states), at=_first_state(servo)))
    if not program.inputs:
        body.append(_terms(servo, constants))
    law = _law(servo, constants, damping, integral)
    solve = [SOLVE_SOURCE] if "solve_in_place(" in law else []
    return "\n\n".join([emit.HEADER + constants.source(), *solve, *body, law])


def _check_count(servo: Servo) -> None:
    """As many rows as inputs, or fewer with a completion."""
    model, program = servo.equations.model, servo.program
    n_s, n_rows, n_tau = len(program.residuals), len(program.residuals) + len(program.relations), len(model.inputs)
    if program.ideal and len(model.velocities) != n_tau:
        text = f"program {program.name}: ideal=True needs as many inputs as velocities, {model.name} has {n_tau} and "
        text += f"{len(model.velocities)}; complete it by relations or least_norm"
        raise ModelError(text, program.place.argument("ideal"))
    if n_rows == n_tau or ((program.least_norm or program.ideal) and n_rows == n_s < n_tau):
        return
    inputs = ", ".join(u.name for u in model.inputs)
    relations = f" and {len(program.relations)} relations" if program.relations else ""
    more = "state as many residuals as inputs; with more they cannot all be served"
    fewer = (
        "state as many residuals as inputs: complete it with another one (for example for the speed), with relations "
        "between the inputs, or with least_norm=True"
    )
    mend = more if n_rows > n_tau else fewer
    raise ModelError(
        f"program {program.name} states {n_s} servo-constraints{relations} for the {n_tau} inputs of {model.name} "
        f"({inputs}): {mend}",
        program.place.argument("residuals"),
    )


def signal_symbols(program: Program, target_order: int, signal_order: int) -> list[Expr]:
    """The symbols of the array y, in its order."""
    symbols = [each.derivative(n) for each in program.targets for n in range(target_order + 1)]
    symbols += [each.derivative(n) for each in program.signals for n in range(signal_order + 1)]
    return [*symbols, *program.states]


def _first_state(servo: Servo) -> int:
    """Where the program's own states begin in y."""
    return len(signal_symbols(servo.program, servo.target_order, servo.signal_order)) - len(servo.program.states)


def _arguments(servo: Servo, block: Block, integral: bool = False) -> list[str]:
    """Load state, targets, signals and the program's states; the texts of the integrals at the end of y."""
    block.load("x", servo.equations.model.state)
    signals = signal_symbols(servo.program, servo.target_order, servo.signal_order)
    block.load("y", signals)
    return [f"y[{len(signals) + i}]" for i in range(len(servo.f))] if integral else []


def _start(servo: Servo) -> str:
    """Generated `start(t, x, y, p, out)`: values of the parameters that are computed at the start."""
    block = Block(None)
    _arguments(servo, block)
    block.load("p", [*servo.equations.model.parameters, *servo.program.parameters])
    stated = [servo.program.start.get(p, 0) for p in servo.program.parameters if p.quantity.default is None]
    expressions = [resolved(servo.equations, servo.program, each) for each in stated]
    block.store("out", block.evaluate(expressions))
    decorator = njit("void(f8, f8[::1], f8[::1], f8[::1], f8[::1])")
    return f"{decorator}def start(t_, x, y, p, out):\n{str(block) or '    pass'}\n"


def _start_states(servo: Servo) -> str:
    """Generated `start_states(t, x, y, p, out)`: the program's own states at the start."""
    block = Block(None)
    _arguments(servo, block)
    block.load("p", [*servo.equations.model.parameters, *servo.program.parameters])
    starts = [resolved(servo.equations, servo.program, each.start) for each in servo.program.states]
    block.store("out", block.evaluate(starts))
    decorator = njit("void(f8, f8[::1], f8[::1], f8[::1], f8[::1])")
    return f"{decorator}def start_states(t_, x, y, p, out):\n{str(block) or '    pass'}\n"


def _conditions(servo: Servo) -> str:
    """Generated `conditions(t, x, y, p, gains, late, out)`: margins of the requirements, then of the warnings."""
    program, block = servo.program, Block(None)
    _arguments(servo, block)
    block.load("p", [*servo.equations.model.parameters, *program.parameters])
    block.load("gains", [gain_symbol(each.quantity.name) for each in program.residuals])
    margins = [resolved(servo.equations, program, e.margin) for e in (*program.requirements, *program.warnings)]
    block.store("out", block.evaluate(margins))
    decorator = njit("void(f8, f8[::1], f8[::1], f8[::1], f8[::1], f8, f8[::1])")
    return f"{decorator}def conditions(t_, x, y, p, gains, {emit.local(late)}, out):\n{str(block) or '    pass'}\n"


def _state_rates(servo: Servo, constants: Constants) -> str:
    """Generated `state_rates(t, x, y, c, out)`: the rates of the program's own states."""
    block = Block(constants)
    _arguments(servo, block)
    block.store("out", block.evaluate(servo.state_rates))
    return f"{njit('void(f8, f8[::1], f8[::1], f8[::1], f8[::1])')}def state_rates(t_, x, y, c, out):\n{block}\n"


_FOLLOW = '''\
@njit("void(f8, f8[::1], f8[::1], f8[::1], f8, f8[::1])", cache=True, error_model="numpy")
def follow(t, x, y, c, passed, memory):
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


class _Texts:
    """Emitted f, f', J, W and the drift b = delta + J a0 of a servo law."""

    def __init__(self, servo: Servo, block: Block, guards: list[Expr]) -> None:
        equations, program = servo.equations, servo.program
        n_v, n_s = len(equations.model.velocities), len(servo.f)
        n_tau = len(equations.model.inputs)
        parts = [lower_triangle(equations), list(-equations.h_r), list(equations.B_r.T)]
        parts += [servo.f, servo.f_dot, list(servo.J), servo.delta, guards]
        bounds = [resolved(equations, program, each.at_most) for each in program.limits]
        relations = [entry for row in _relation_rows(servo) for entry in row]
        parts += [servo.damping, bounds, relations]
        flat = iter(block.evaluate([expression for part in parts for expression in part]))
        lower, free, B, self.f, self.f_dot, J, self.delta, self.guards, *more = (
            [next(flat) for _ in part] for part in parts
        )
        self.damping, self.bounds, rows = more
        self.relations = [rows[i : i + n_tau + 1] for i in range(0, len(rows), n_tau + 1)]
        self.J = [J[i * n_v : (i + 1) * n_v] for i in range(n_s)]
        self.B = [B[k * n_v : (k + 1) * n_v] for k in range(n_tau)]  # by input
        columns = [free, *self.B, *(self.J if program.ideal else [])]
        a0, *solved = emit.solve_spd(block, unpack_lower(lower, n_v), columns)
        self.a0, self.R, self.along = a0, solved[:n_tau], solved[n_tau:]
        self.W = [[_dot(block, row, column) for column in self.R] for row in self.J]
        self.b = [
            block.let(emit.combine((("+", j, a) for j, a in zip(row, a0, strict=True)), delta))
            for row, delta in zip(self.J, self.delta, strict=True)
        ]


def _dot(block: Block, row: list[str], column: list[str]) -> str:
    text = emit.combine(("+", a, b) for a, b in zip(row, column, strict=True))
    return text if emit.is_zero(text) else block.let(text)


def _terms(servo: Servo, constants: Constants) -> str:
    """Generated `terms(t, x, y, c, f, f_dot, J, delta, W, b, F)` for checks and reports."""
    block = Block(constants)
    _arguments(servo, block)
    texts = _Texts(servo, block, [])
    for array, values in (("f", texts.f), ("f_dot", texts.f_dot), ("delta", texts.delta), ("b", texts.b)):
        block.store(array, values)
    for array, rows in (("J", texts.J), ("W", texts.W)):
        block.lines += [f"    {array}[{i}, {k}] = {text}" for i, row in enumerate(rows) for k, text in enumerate(row)]
    block.lines += [f"    F[{i}, {k}] = {text}" for i, row in enumerate(texts.relations)
                    for k, text in enumerate(row[:-1])]  # fmt: skip
    vectors = "f8[::1], f8[::1], f8[:, ::1], f8[::1], f8[:, ::1], f8[::1], f8[:, ::1]"
    decorator = njit(f"void(f8, f8[::1], f8[::1], f8[::1], {vectors})")
    return f"{decorator}def terms(t_, x, y, c, f, f_dot, J, delta, W, b, F):\n{block}\n"


def _law(servo: Servo, constants: Constants, damping: float, integral: bool) -> str:
    """Generated `law(t, x, y, c, K, out)`; out = inputs, f, f', condition, scales."""
    block, program = Block(constants), servo.program
    integrals = _arguments(servo, block, integral)
    guards = [resolved(servo.equations, program, each.margin) for each in program.guards]
    scales: dict[Limit, str] = {}
    if program.inputs:
        tau, f, f_dot, guard_texts, bounds = _stated_inputs(servo, block, guards)
        condition = "1.0"
    else:
        texts = _Texts(servo, block, guards)
        f, f_dot, guard_texts, bounds = texts.f, texts.f_dot, texts.guards, texts.bounds
        z = _wanted(servo, block, texts, integrals, scales)
        tau, condition = _inputs(block, servo, texts, z, damping)
    _limit_inputs(servo, block, tau, bounds, scales)
    _watch_expressions(servo, block, scales)
    block.store("out", [*tau, *f, *f_dot, condition, *(scales[each] for each in program.limits)])
    block.lines += _status(guard_texts, "1.0" if damping else condition, tau)
    decorator = njit("i8(f8, f8[::1], f8[::1], f8[::1], f8[:, :, ::1], f8[::1])")
    return f"{decorator}def law(t_, x, y, c, K, out):\n{block}\n"


def _stated_inputs(
    servo: Servo, block: Block, guards: list[Expr]
) -> tuple[list[str], list[str], list[str], list[str], list[str]]:
    """Inputs, f, f', guards and limits' bounds of a program that states its inputs."""
    equations, program = servo.equations, servo.program
    stated = [resolved(equations, program, program.inputs[u]) for u in equations.model.inputs]
    bounds = [resolved(equations, program, each.at_most) for each in program.limits]
    parts = [stated, servo.f, servo.f_dot, guards, bounds]
    flat = iter(block.evaluate([expression for part in parts for expression in part]))
    tau, f, f_dot, guard_texts, bound_texts = ([next(flat) for _ in part] for part in parts)
    return tau, f, f_dot, guard_texts, bound_texts


def _scaled(block: Block, vector: list[str], bound: str) -> tuple[list[str], str]:
    """The vector brought within the bound, and the scale; what is not finite stays so."""
    square = emit.combine(("+", each, each) for each in vector)
    scale = block.let(f"{bound}/max({bound}, sqrt({square}))")
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


def _watch_expressions(servo: Servo, block: Block, scales: dict[Limit, str]) -> None:
    """The scales of limits on expressions, which the program applies itself."""
    watched = [each for each in servo.program.limits if each.kind == "expressions"]
    texts = block.evaluate([resolved(servo.equations, servo.program, each.scale) for each in watched])
    scales |= dict(zip(watched, texts, strict=True))


def _status(guards: list[str], condition: str, tau: list[str]) -> list[str]:
    """Lines that return the status; one return only, as numba counts references of arrays around early ones."""
    finite = " and ".join(f"isfinite({text})" for text in tau)
    tests = [(f"{text} > 0.0", i) for i, text in enumerate(guards, 1)]
    tests += [(f"fabs({condition}) < {CONDITION_LIMIT!r}", SINGULAR), (finite, NOT_FINITE)]
    lines = [f"    status = {GOOD}"]
    for word, (test, status) in zip(["if", *["elif"] * len(tests)], tests, strict=False):
        lines.append(f"    {word} not ({test}):\n        status = {status}")
    return [*lines, "    return status"]


def _wanted(servo: Servo, block: Block, texts: _Texts, integrals: list[str], scales: dict[Limit, str]) -> list[str]:
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


def _inputs(block: Block, servo: Servo, texts: _Texts, z: list[str], damping: float) -> tuple[list[str], str]:
    """Emit the inputs that serve the residuals, completed by relations or by the least norm, and the condition."""
    W = texts.W
    if servo.program.least_norm:
        return _least_norm(block, texts, z)
    if servo.program.ideal:
        return _along_gradients(block, texts, z)
    for *row, beside in texts.relations:
        W, z = [*W, row], [*z, beside]
    tau_exact, condition = _solve(block, W, z, _single_condition(block, texts))
    return (_damped(block, W, z, tau_exact, condition, damping) if damping else tau_exact), condition


def _along_gradients(block: Block, texts: _Texts, z: list[str]) -> tuple[list[str], str]:
    """B_r tau = J^T lambda with J M_r^-1 J^T lambda = z; the condition is that of J M_r^-1 J^T."""
    gram = [[_dot(block, row, column) for column in texts.along] for row in texts.J]
    multipliers, condition = _solve(block, gram, z, "1.0")
    n_v = len(texts.a0)
    forces = [emit.combine(("+", row[k], each) for row, each in zip(texts.J, multipliers, strict=True))
              for k in range(n_v)]  # fmt: skip
    B = [[column[k] for column in texts.B] for k in range(n_v)]
    if all(text == ("1.0" if i == k else "0.0") for k, row in enumerate(B) for i, text in enumerate(row)):
        return [block.let(text) for text in forces], condition
    tau, _ = _solve(block, B, [block.let(text) for text in forces], "1.0")
    return tau, condition


def _damped(
    block: Block, W: list[list[str]], z: list[str], exact: list[str], condition: str, damping: float
) -> list[str]:
    """The exact inputs where W is regular, else those of damped least squares."""
    square = " + ".join(f"{each}*{each}" for row in W for each in row)
    shift = block.let(f"{damping**2!r}*({square}) + 1e-300")
    gram = [[_dot(block, row, other) for other in W] for row in W]
    for i, row in enumerate(gram):
        row[i] = block.let(f"{row[i]} + {shift}")
    y, _ = _solve(block, gram, z, "1.0")
    columns = [emit.combine(("+", row[k], each) for row, each in zip(W, y, strict=True)) for k in range(len(W[0]))]
    regular = f"fabs({condition}) < {CONDITION_LIMIT!r}"
    return [block.let(f"{tau} if {regular} else {text}") for tau, text in zip(exact, columns, strict=True)]


def _least_norm(block: Block, texts: _Texts, z: list[str]) -> tuple[list[str], str]:
    """tau = W^T (W W^T)^-1 z; the condition is that of W, the root of that of W W^T."""
    W = texts.W
    gram = [[_dot(block, row, other) for other in W] for row in W]
    y, squared = _solve(block, gram, z, "1.0")
    tau = [
        block.let(emit.combine(("+", row[k], each) for row, each in zip(W, y, strict=True))) for k in range(len(W[0]))
    ]
    return tau, _single_condition(block, texts) if len(W) == 1 else block.let(f"sqrt({squared})")


def _single_condition(block: Block, texts: _Texts) -> str:
    """norm(J) norm(R) / norm(W) of a single row: how nearly the inputs' responses R miss the residual's row J."""
    if len(texts.W) != 1:
        return ""
    responses = [each for column in texts.R for each in column]
    row, response, reached = (
        " + ".join(f"fabs({each})" for each in entries) for entries in (texts.J[0], responses, texts.W[0])
    )
    return block.let(f"({row})*({response})/({reached})")


def _solve(block: Block, W: list[list[str]], z: list[str], single: str) -> tuple[list[str], str]:
    """Emit tau of W tau = z, and the condition number of W in the 1-norm, norm(W) norm(W^-1).

    A single number has no condition of its own; there `single` is returned.
    """
    if len(z) == 1:
        return [block.let(f"{z[0]}/{W[0][0]}")], single
    if len(z) == 2:
        (a, b), (c, d) = W
        inverse = block.let(f"1.0/({emit.combine([('+', a, d), ('-', b, c)])})")
        tau = [
            block.let(f"({emit.combine([('+', z[0], d), ('-', b, z[1])])})*{inverse}"),
            block.let(f"({emit.combine([('+', a, z[1]), ('-', c, z[0])])})*{inverse}"),
        ]
        norm = f"max(fabs({a}) + fabs({c}), fabs({b}) + fabs({d}))"
        norm_of_inverse = f"max(fabs({d}) + fabs({c}), fabs({b}) + fabs({a}))"
        return tau, block.let(f"{norm}*{norm_of_inverse}*fabs({inverse})")
    return _solve_general(block, W, z)


def _solve_general(block: Block, W: list[list[str]], z: list[str]) -> tuple[list[str], str]:
    """The same for three and more: pivoted elimination, once for tau and once per column of the inverse."""
    n = len(z)
    block.lines += [f"    S = empty(({n}, {n}))", f"    v = empty({n})"]
    norm = block.let(f"max({', '.join(' + '.join(f'fabs({row[k]})' for row in W) for k in range(n))})")
    fill = [f"    S[{i}, {k}] = {text}" for i, row in enumerate(W) for k, text in enumerate(row)]
    columns = [[f"    v[{i}] = {1.0 if i == k else 0.0}" for i in range(n)] for k in range(n)]
    inverse_norms = []
    for column in columns:
        block.lines += [*fill, *column, f"    solve_in_place({n}, S, v)"]
        inverse_norms.append(block.let(" + ".join(f"fabs(v[{i}])" for i in range(n))))
    block.lines += [*fill, *(f"    v[{i}] = {text}" for i, text in enumerate(z))]
    block.lines.append(f"    regular = solve_in_place({n}, S, v)")
    tau = [block.let(f"v[{i}]") for i in range(n)]
    return tau, block.let(f"{norm}*max({', '.join(inverse_norms)}) if regular else 1e300")
