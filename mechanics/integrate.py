"""The fixed-step integrators: explicit Runge-Kutta methods as tableaus, one emitted step for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method: stage rows `a`, weights `b`, abscissae `c`, and its order."""

    name: str
    title: str
    order: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]


INTEGRATORS = {
    each.name: each
    for each in (
        Tableau("euler", "explicit Euler", 1, ((),), (1.0,), (0.0,)),
        Tableau("rk2", "midpoint rule", 2, ((), (0.5,)), (0.0, 1.0), (0.0, 0.5)),
        Tableau("heun", "Heun's method", 2, ((), (1.0,)), (0.5, 0.5), (0.0, 1.0)),
        Tableau("ralston", "Ralston's method", 2, ((), (2 / 3,)), (0.25, 0.75), (0.0, 2 / 3)),
        Tableau(
            "rk4",
            "classical Runge-Kutta",
            4,
            ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
            (1 / 6, 1 / 3, 1 / 3, 1 / 6),
            (0.0, 0.5, 0.5, 1.0),
        ),
    )
}


def step_source(tableau: Tableau, n: int, inputs: Sequence[str], projects: bool = False) -> str:
    """Generated `step_<name>(t, x, u, c, h)`: x (n + 1,) advanced in place under the held input u.

    The last entry of x is the work of inputs and losses; the right-hand side does not depend on it. With `projects`
    the step ends on the holonomic constraints.
    """
    arguments = ", ".join([*inputs, "c"])
    lines = [f"    x{i} = x[{i}]" for i in range(n)]
    lines += [f"    {name} = u[{i}]" for i, name in enumerate(inputs)]
    for stage, (row, abscissa) in enumerate(zip(tableau.a, tableau.c, strict=True)):
        at = [f"x{i}" + _increment(row, i) for i in range(n)]
        time = "t" if abscissa == 0.0 else f"t + {abscissa!r}*h"
        lines.append(f"    k{stage} = rhs({', '.join([time, *at, arguments])})")
    lines += [f"    x[{i}] = x{i}" + _increment(tableau.b, i) for i in range(n)]
    lines.append(f"    x[{n}] = x[{n}]" + _increment(tableau.b, n))
    if projects:
        lines.append("    project(t + h, x, c)")
    decorator = '@njit("void(f8, f8[::1], f8[::1], f8[::1], f8)", cache=True, error_model="numpy")\n'
    return decorator + f"def step_{tableau.name}(t, x, u, c, h):\n" + "\n".join(lines) + "\n"


def advance_source(tableau: Tableau) -> str:
    """Generated `advance_<name>(k, n, step_ns, x, u, c)`: n steps from step k on, plant time k * step_ns / 1e9.

    It returns whether the state is still finite.
    """
    decorator = '@njit("b1(i8, i8, i8, f8[::1], f8[::1], f8[::1])", cache=True, error_model="numpy")\n'
    return decorator + (
        f"def advance_{tableau.name}(k, n, step_ns, x, u, c):\n"
        "    h = step_ns / 1e9\n"
        "    for i in range(k, k + n):\n"
        f"        step_{tableau.name}(i * step_ns / 1e9, x, u, c, h)\n"
        "    total = 0.0\n"
        "    for i in range(len(x)):\n"
        "        total += x[i]\n"
        "    return isfinite(total)\n"
    )


def _increment(weights: Sequence[float], i: int) -> str:
    terms = [(weight, f"k{stage}[{i}]") for stage, weight in enumerate(weights) if weight != 0.0]
    if not terms:
        return ""
    text = " + ".join(name if weight == 1.0 else f"{weight!r}*{name}" for weight, name in terms)
    return f" + h*({text})"
