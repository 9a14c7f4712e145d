"""Common parts of the snowboarder's programs: actuation, paths, the pitch program (docs/systems/snowboarder.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sympy import Abs, Matrix, Rational, cos, diff, sin, tan

from servonode.controllers.engine.program import Residual, residual
from servonode.mechanics import Model, ModelError, condition, parameter
from servonode.mechanics.symbols import Parameter

Expr = Any
RATE = 5.0  # default rate of all residuals, 1/s


def refuse_absolute(machine: Model) -> None:
    """The programs want forces that a rider has, and the input set "absolute" has none.

    Raises:
        ModelError: the machine has that input set.
    """
    if "F_t" not in {u.name for u in machine.inputs}:
        raise ModelError(
            'no program of snowboarder works with input_set = "absolute": it has no thrust F_t to set to zero, and is '
            'singular upright; set input_set = "relative" or "total" in [plant.settings]'
        )


def completed(
    machine: Model, actuation: str, residuals: Sequence[Residual], states: Mapping[Any, Expr] | None = None
) -> dict[str, Any]:
    """The arguments of Program that complete three residuals: no thrust, or reactions along their gradients.

    `states` are the program's own with their rates.
    """
    if actuation == "ideal":
        return {"residuals": residuals, "ideal": True, "guards": []}
    moved = driven_mass(machine, residuals, states or {})
    enough = condition(
        moved >= (machine["m0"] + machine["m1"]) / 10,
        "without thrust the body's motion nearly stops to be driven by gravity (m_ph < 0.1 M): the program moves the "
        "body against the blade too fast; choose smaller waves, a smaller delta or lean",
    )
    return {"residuals": residuals, "relations": (machine["F_t"],), "guards": [enough]}


def driven_mass(machine: Model, residuals: Sequence[Residual], states: Mapping[Any, Expr]) -> Expr:
    """m_ph [kg]: momentum along the blade per forward speed, in the motion that three residuals leave free."""
    v, *others = machine.velocities
    moving = {**{q: machine.rates[q.rate] for q in machine.coordinates}, **states}
    rows = []
    for each in residuals:
        rate = sum(diff(each.expression, s) * moves for s, moves in moving.items())
        rows.append([diff(rate, u) for u in machine.velocities])
    forward, turning = Matrix([row[0] for row in rows]), Matrix([row[1:] for row in rows])
    # what the other velocities do per forward speed; by Cramer's rule, for elimination may meet a pivot of zero
    along = -turning.adjugate() * forward / turning.det(method="berkowitz")
    momentum = diff(machine.kinetic.xreplace(machine.rates), v)
    return momentum.xreplace({v: 1, **dict(zip(others, along, strict=True))})


@dataclass(frozen=True)
class Path:
    """A path y0 = f(x0); `k` is its wave number, 0 for a straight one. `start` gives parameters their value."""

    f: Expr
    k: Expr
    parameters: tuple[Parameter, ...]
    start: dict[Parameter, Expr] = field(default_factory=dict)
    pitch: Expr = 0  # the wanted pitch


def path_with_pitch(machine: Model, kind: str) -> Path:
    """The path "sine" or "line" with the pitch program Theta(x0) on it."""
    x = machine["x0"]
    theta_c = parameter("theta_c", "mean pitch", "rad", default=0.0)
    delta = parameter("delta", "amplitude of the pitch program", "rad", default=0.1)
    text = "wave number of the pitch program"
    if kind == "line":
        y_c = parameter("y_c", "where the line begins: its y0 at x0 = 0", "m", default=0.0)
        chi0 = parameter("chi0", "direction of the line from the fall line", "rad", default=0.0)
        k_theta = parameter("k_theta", text, "rad/m", default=0.2)
        wave, own, k, start = y_c + x * tan(chi0), (y_c, chi0), 0, {}
    else:
        A = parameter("A", "amplitude of the path", "m", default=1.5)
        k = parameter("k", "wave number of the path", "rad/m", default=0.2, above=0)
        k_theta = parameter("k_theta", f"{text}; default k", "rad/m")
        wave, own, start = A * sin(k * x), (A, k), {k_theta: k}
    pitch = theta_c - delta * cos(k_theta * x)
    return Path(wave, k, (*own, theta_c, delta, k_theta), start, pitch)


def path_heading(machine: Model, f: Expr, c_y: Expr = 0) -> Residual:
    """f1: the tangent of the heading less the path's slope, and c_y times the offset from the path."""
    x, y, phi = machine["x0"], machine["y0"], machine["phi0"]
    slope = diff(f, x)
    return residual(
        "heading",
        tan(phi) - slope + c_y * (y - f),
        "tangent of the heading less the path's slope, and c_y times the offset",
        rate=RATE,
    )


def graph_guard(machine: Model) -> Any:
    """The graph's programs know headings down the slope only."""
    return condition(
        Rational(7, 5) > Abs(machine["phi0"]),
        "the heading has left (-1.4, 1.4), beyond which the path is no graph y0 = f(x0); take the program curve, a "
        "smaller A*k, or start nearer to the path",
    )


def body_residuals(machine: Model, lean: Expr, pitch: Expr) -> tuple[Residual, Residual]:
    """f2 and f3: lean and pitch less their wanted values."""
    return (
        residual("lean", machine["sigma"] - lean, "lean less its reference", "rad", rate=RATE, output=machine["sigma"]),
        residual(
            "pitch", machine["theta"] - pitch, "pitch less its reference", "rad", rate=RATE, output=machine["theta"]
        ),
    )


def offset_pull() -> Parameter:
    """c_y."""
    text = "pull towards the path per metre of offset; 0 holds its direction only"
    pull: Parameter = parameter("c_y", text, "1/m", default=0.0, at_least=0)
    return pull
