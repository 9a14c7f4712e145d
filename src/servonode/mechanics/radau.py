"""The step of the implicit method: two stages of Radau IIA by simplified Newton iterations, as generated text.

The increments z of the stages solve z = h (A x 1) F(x + z). Each iteration solves

    (1 - h A x J) d = h (A x 1) F(x + z) - z

with J = dF/dx by differences at the beginning of the step, which changes how fast it converges and not to what. Where
it has not converged after MOST iterations the state is set to nan, which ends the run: no step is taken on trust.
"""

from collections.abc import Sequence

from servonode.mechanics.linear_solve import solves

MOST = 20  # iterations; smooth motions take 3 to 5
CONVERGED = 1e-13  # last change over the size of the state
DIFFERENCE = 1.5e-8  # of a state, over its size and 1

_STEP = """\
    base = empty({n1})
    first = empty({n1})
    second = empty({n1})
    J = empty(({n}, {n}))
    S = empty(({n2}, {n2}))
    d = empty({n2})
    z = empty({n2})
    evaluate(t, x, u, c, base)
    for j in range({n}):
        kept = x[j]
        x[j] = kept + {difference!r} * (fabs(kept) + 1.0)
        change = x[j] - kept
        evaluate(t, x, u, c, first)
        x[j] = kept
        for i in range({n}):
            J[i, j] = (first[i] - base[i]) / change
    for i in range({n}):
        z[i] = {c0!r} * h * base[i]
        z[{n} + i] = h * base[i]
    left = 1
    rounds = 0
    while left == 1 and rounds < {most}:
        evaluate_beside(t + {c0!r} * h, x, z, 0, u, c, first)
        evaluate_beside(t + h, x, z, {n}, u, c, second)
        for i in range({n}):
            d[i] = h * ({a00!r} * first[i] + {a01!r} * second[i]) - z[i]
            d[{n} + i] = h * ({a10!r} * first[i] + {a11!r} * second[i]) - z[{n} + i]
            for j in range({n}):
                S[i, j] = -{a00!r} * h * J[i, j]
                S[i, {n} + j] = -{a01!r} * h * J[i, j]
                S[{n} + i, j] = -{a10!r} * h * J[i, j]
                S[{n} + i, {n} + j] = -{a11!r} * h * J[i, j]
        for i in range({n2}):
            S[i, i] += 1.0
        largest = 0.0
        for i in range({n}):
            largest = max(largest, fabs(x[i] + z[{n} + i]))
        if solve_{n2}(S, d) == 0:
            rounds = {most}
        left = 0
        for i in range({n2}):
            z[i] += d[i]
            size = fabs(x[i % {n}]) + fabs(z[i]) + 0.001 * largest
            if not fabs(d[i]) <= {converged!r} * size:
                left = 1
        rounds += 1
    evaluate_beside(t + {c0!r} * h, x, z, 0, u, c, first)
    evaluate_beside(t + h, x, z, {n}, u, c, second)
    x[{n}] += h * ({a10!r} * first[{n}] + {a11!r} * second[{n}])
    for i in range({n}):
        x[i] += z[{n} + i]
        if left == 1:
            x[i] = sqrt(-1.0)
{ends}"""


def source(definition: str, a: Sequence[Sequence[float]], n: int, inputs: Sequence[str], ends: Sequence[str]) -> str:
    """The text of the functions of a step with its first line; n states, and what the step ends with."""
    (a00, a01), (a10, a11) = a
    step = definition + _STEP.format(
        n=n, n1=n + 1, n2=2 * n, c0=a00 + a01, a00=a00, a01=a01, a10=a10, a11=a11, most=MOST, converged=CONVERGED,
        difference=DIFFERENCE, ends="".join(f"{line}\n" for line in ends),
    )  # fmt: skip
    return "\n\n".join([_evaluate(n, inputs), *solves(step), step])


def _evaluate(n: int, inputs: Sequence[str]) -> str:
    """Generated `evaluate`, the rates at x, and `evaluate_beside`, those at x and the increments from `at` on."""
    arrays = "u: f64[n_tau], c: f64[n_constants], k: f64[n_x]"
    values = [f"u[{i}]" for i in range(len(inputs))]
    states, beside = [f"x[{i}]" for i in range(n)], [f"x[{i}] + z[at + {i}]" for i in range(n)]
    heads = (
        (f"def evaluate(t: f64, x: f64[n_x], {arrays}):", states),
        (f"def evaluate_beside(t: f64, x: f64[n_x], z: f64[{2 * n}], at: i64, {arrays}):", beside),
    )
    body = "    r = rhs({})\n    for i in range({}):\n        k[i] = r[i]\n"
    return "\n\n".join(f"{head}\n{body.format(', '.join(['t', *at, *values, 'c']), n + 1)}" for head, at in heads)
