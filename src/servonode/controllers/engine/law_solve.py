"""The solve for the inputs: W tau = z, completed by relations, the least norm or forces along the gradients."""

from typing import NamedTuple

from servonode.controllers.engine.law_texts import Texts, dot
from servonode.controllers.engine.servo import Servo
from servonode.mechanics import emit
from servonode.mechanics.emit import Block

CONDITION_LIMIT = 1e8  # above it a solve with W has lost half of its digits


class Solved(NamedTuple):
    """Texts of a solution, of the condition number, and of a number with the sign of the determinant."""

    x: list[str]
    condition: str
    determinant: str = ""


def solved_inputs(block: Block, servo: Servo, texts: Texts, z: list[str], damping: float, shares: list[str]) -> Solved:
    """Emit the inputs that realise the demand, completed as the program states, and the condition number.

    shares: one over the weight of each input in the least norm; empty where all weigh the same.
    """
    W = texts.W
    if servo.program.least_norm:
        return _least_norm(block, texts, z, shares, damping)
    if servo.program.ideal or servo.posture:
        return _along_gradients(block, texts, z, damping)
    for *row, beside in texts.relations:
        W, z = [*W, row], [*z, beside]
    exact = solve_texts(block, W, z, _single_condition(block, texts))
    if not damping:
        return exact
    gram = [[dot(block, row, other) for other in W] for row in W]
    y = _damped(block, gram, z, damping, f"{exact.condition}*{exact.condition}")
    return exact._replace(x=_where_regular(block, exact.x, _weighted(W, y), exact.condition, 1.0 / damping))


def _along_gradients(block: Block, texts: Texts, z: list[str], damping: float) -> Solved:
    """B_r tau = M_r d + J^T mu with J M_r^-1 J^T mu = z - J d; the condition is that of J M_r^-1 J^T.

    d is what a posture wants beyond the accelerations without inputs, 0 without a posture.
    """
    d, n = texts.posture, len(texts.M)
    gram = [[dot(block, row, column) for column in texts.along] for row in texts.J]
    if d:
        z = [block.let(emit.combine((("-", j, a) for j, a in zip(row, d, strict=True)), each))
             for row, each in zip(texts.J, z, strict=True)]  # fmt: skip
    multipliers, condition = _solved_gram(block, gram, z, damping, _single_condition(block, texts) if d else "1.0")
    forces = _weighted(texts.J, multipliers)
    if d:
        rows = [[texts.M[max(i, k)][min(i, k)] for k in range(n)] for i in range(n)]
        forces = [emit.combine((("+", m, a) for m, a in zip(row, d, strict=True)), block.let(force))
                  for row, force in zip(rows, forces, strict=True)]  # fmt: skip
    B = [list(row) for row in zip(*texts.B, strict=True)]
    if all(text == ("1.0" if i == k else "0.0") for k, row in enumerate(B) for i, text in enumerate(row)):
        return Solved([block.let(text) for text in forces], condition)
    return Solved(solve_texts(block, B, [block.let(text) for text in forces], "1.0").x, condition)


def _solved_gram(
    block: Block, gram: list[list[str]], z: list[str], damping: float, single: str
) -> tuple[list[str], str]:
    """y of gram y = z, damped near where gram is singular, if there is damping; the condition, `single` of one row."""
    y, condition, _ = solve_texts(block, gram, z, single)
    if not damping:
        return y, condition
    return _where_regular(block, y, _damped(block, gram, z, damping, condition), condition, damping**-2), condition


def _damped(block: Block, gram: list[list[str]], z: list[str], damping: float, condition: str) -> list[str]:
    """The solution of a positive semidefinite system with a share of its trace on the diagonal.

    The share grows from 0, where the system's condition is 1/damping^2, to damping^2, where it is singular: so that the
    inputs do not jump.
    """
    trace = " + ".join(row[i] for i, row in enumerate(gram))
    share = f"max(0.0, {damping**2!r} - 1.0/fabs({condition}))"
    shift = block.let(f"{share}*({trace}) + 1e-300")
    return solve_texts(block, [[block.let(f"{each} + {shift}") if i == k else each for k, each in enumerate(row)]
                               for i, row in enumerate(gram)], z, "1.0").x  # fmt: skip


def _where_regular(block: Block, exact: list[str], damped: list[str], condition: str, limit: float) -> list[str]:
    """The exact texts where the condition is below its limit, else the damped ones."""
    regular = f"fabs({condition}) < {min(limit, CONDITION_LIMIT)!r}"
    return [block.let(f"{one} if {regular} else {other}") for one, other in zip(exact, damped, strict=True)]


def _least_norm(block: Block, texts: Texts, z: list[str], shares: list[str], damping: float) -> Solved:
    """tau = V^T (W V^T)^-1 z, V = W Q^-1 with the weights Q, which makes tau^T Q tau least; V = W without weights.

    The condition is that of W Q^(-1/2), the root of that of W V^T.
    """
    W = texts.W
    V = [[block.let(f"{each}*{share}") for each, share in zip(row, shares, strict=True)] for row in W] if shares else W
    gram = [[dot(block, row, other) for other in V] for row in W]
    y, condition = _solved_gram(block, gram, z, damping, _single_condition(block, texts))
    tau = [block.let(text) for text in _weighted(V, y)]
    return Solved(tau, condition if len(W) == 1 else block.let(f"sqrt({condition})"))


def _weighted(rows: list[list[str]], weights: list[str]) -> list[str]:
    """The texts of rows^T weights."""
    columns = zip(*rows, strict=True)
    return [emit.combine(("+", each, weight) for each, weight in zip(c, weights, strict=True)) for c in columns]


def _single_condition(block: Block, texts: Texts) -> str:
    """norm(J) norm(R) / norm(W) of a single row: how close the row J is to orthogonal to the responses R."""
    if len(texts.W) != 1:
        return ""
    responses = [each for column in texts.R for each in column]
    row, response, reached = (
        " + ".join(f"fabs({each})" for each in entries) for entries in (texts.J[0], responses, texts.W[0])
    )
    return block.let(f"({row})*({response})/({reached})")


def solve_texts(block: Block, W: list[list[str]], z: list[str], single: str) -> Solved:
    """Emit tau of W tau = z, and the condition number of W in the 1-norm, norm(W) norm(W^-1).

    A single number has no condition of its own; there `single` is returned.
    """
    if len(z) == 1:
        return Solved([block.let(f"{z[0]}/{W[0][0]}")], single, W[0][0])
    if len(z) == 2:
        (a, b), (c, d) = W
        inverse = block.let(f"1.0/({emit.combine([('+', a, d), ('-', b, c)])})")
        tau = [
            block.let(f"({emit.combine([('+', z[0], d), ('-', b, z[1])])})*{inverse}"),
            block.let(f"({emit.combine([('+', a, z[1]), ('-', c, z[0])])})*{inverse}"),
        ]
        norm = f"max(fabs({a}) + fabs({c}), fabs({b}) + fabs({d}))"
        norm_of_inverse = f"max(fabs({d}) + fabs({c}), fabs({b}) + fabs({a}))"
        return Solved(tau, block.let(f"{norm}*{norm_of_inverse}*fabs({inverse})"), inverse)
    return _solve_general(block, W, z)


def _solve_general(block: Block, W: list[list[str]], z: list[str]) -> Solved:
    """The same for three and more: pivoted elimination, once for tau and once per column of the inverse."""
    n = len(z)
    S, v = f"S{n}", f"v{n}"
    block.lines += [f"    {S} = empty(({n}, {n}))", f"    {v} = empty({n})"]
    norm = block.let(f"max({', '.join(' + '.join(f'fabs({row[k]})' for row in W) for k in range(n))})")
    fill = [f"    {S}[{i}, {k}] = {text}" for i, row in enumerate(W) for k, text in enumerate(row)]
    columns = [[f"    {v}[{i}] = {1.0 if i == k else 0.0}" for i in range(n)] for k in range(n)]
    inverse_norms = []
    for column in columns:
        block.lines += [*fill, *column, f"    solve_{n}({S}, {v})"]
        inverse_norms.append(block.let(" + ".join(f"fabs({v}[{i}])" for i in range(n))))
    block.lines += [*fill, *(f"    {v}[{i}] = {text}" for i, text in enumerate(z))]
    block.lines.append(f"    sense_{n} = solve_{n}({S}, {v})")
    tau = [block.let(f"{v}[{i}]") for i in range(n)]
    condition = block.let(f"{norm}*max({', '.join(inverse_norms)}) if sense_{n} != 0 else 1e300")
    return Solved(tau, condition, f"sense_{n}")
