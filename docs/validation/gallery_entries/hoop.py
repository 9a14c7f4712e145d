"""The hoop on a curved profile: the figures and claims of Matrosov, Morozov and Pesterev 2021."""

from functools import cache, partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

from gallery_entries.frame import (
    BLUE,
    HEADS,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    TIME,
    Array,
    Content,
    Table,
    above,
    below,
    curve,
    decades,
    fixed,
    number,
    panel,
    plane,
    power,
    run,
    sheet,
)
from servonode.record.run import Run
from servonode.views.symbols import unit_text

NAMES = ("contact", "energy", "slip", "tangency")
COLOUR = dict(zip(NAMES, (BLUE, ORANGE, PURPLE, SKY), strict=True))


def rolls(rate: float, step: float, duration: float, every: int, method: str = "rk2", **options: Any) -> Run:
    """A run of the default hoop, or of another launch file of it."""
    return run(
        options.pop("launch", "hoop_rolls"),
        plant__integrator=method,
        plant__step=step,
        plant__parameters__lambda=rate,
        run__duration=duration,
        every=every,
        **options,
    )


def largest(result: Run) -> float:
    return max(float(np.abs(result.residual[name]).max()) for name in NAMES)


# the size of the residuals


def sizes() -> Content:
    """How the residuals depend on the rate, the method and the step."""
    rates = [10.0**i for i in range(6)]
    by_rate = {rate: rolls(rate, 1e-5, 10.0, 20) for rate in rates}
    found = [largest(result) for result in by_rate.values()]
    midpoint = largest(rolls(1e3, 1e-5, 10.0, 20))
    fine = largest(rolls(1e3, 1e-6, 5.0, 100))
    rows = [
        ("λ from 1 to 10⁵ 1/s", "below 10⁻⁷", f"{number(min(found), 2)} to {number(max(found), 2)}"),
        ("λ = 10³ 1/s", "a minimum below 7·10⁻⁹", number(midpoint, 3)),
        ("step 10⁻⁶ s", "below 5·10⁻¹²", f"{number(fine, 2)}, {fixed(midpoint / fine, 0)} times less"),
        ("the largest is that of", "slip, f3", biggest(by_rate[1e3])),
    ]
    table = Table(("largest residual in 10 s, step 10⁻⁵ s", "the paper", "computed"), rows)
    return Content({"hoop_claims": partial(draw_sizes, by_rate)}, [table])


def sized(words: str, result: Run, names: tuple[str, ...] = NAMES) -> str:
    """What a logarithmic axis shows of these residuals, with their units."""
    units = {each.name: each.unit for each in result.closed_loop.residuals}
    return words + unit_text(", ".join(dict.fromkeys(units[name] for name in names if units[name] != "1")))


def biggest(result: Run) -> str:
    """The name of the largest residual."""
    name = max(NAMES, key=lambda each: float(np.abs(result.residual[each]).max()))
    return f"{name}, f{NAMES.index(name) + 1}"


def draw_sizes(by_rate: dict[float, Run]) -> Figure:
    figure, ((axis,),) = sheet(height=2.3)
    axis.set_xscale("log")
    for name in NAMES:
        values = [float(np.abs(each.residual[name]).max()) for each in by_rate.values()]
        axis.plot(list(by_rate), values, "o-", color=COLOUR[name], label=name, markersize=4)
    title = sized("largest size of each residual in 10 s", next(iter(by_rate.values())))
    decades(axis, title, -14, -7, "rate λ [1/s]")
    return figure


# figures 2, 3, 4


def decay() -> Content:
    """Figure 2: residuals of the initial state decay."""
    runs = {rate: rolls(rate, 1e-5, 2.0, 10, launch="hoop_decay") for rate in (10.0, 100.0)}
    rows = []
    for rate, result in runs.items():
        measured = {name: slope(result, name, 0.2 / rate, 6.0 / rate) for name in NAMES[1:]}
        text = ", ".join(fixed(each, 2) for each in measured.values())
        rows.append((f"λ = {rate:g} 1/s: decay of f2, f3, f4 [1/s]", "exponential", text))
    return Content({"hoop_figure_2": partial(draw_decay, runs)}, [Table(HEADS, rows)])


def slope(result: Run, name: str, begin: float, end: float) -> float:
    """The rate [1/s] of an exponential through a residual's size in a time."""
    shown = (result.t >= begin) & (result.t <= end)
    return float(-np.polyfit(result.t[shown], np.log(np.abs(result.residual[name][shown])), 1)[0])


def draw_decay(runs: dict[float, Run]) -> Figure:
    figure, (axes,) = sheet(1, 2, height=2.4, sharey=True)
    for axis, (rate, result) in zip(axes, runs.items(), strict=True):
        for name in NAMES:
            values = above(np.abs(result.residual[name]), 1e-12)
            axis.plot(result.t, values, color=COLOUR[name], label=name, linewidth=1.1)
        axis.plot(result.t, 1e-2 * np.exp(-rate * result.t), ":", color=INK)
        decades(axis, f"λ = {rate:g} 1/s", -11, -1, TIME, every=2, inside="upper right" if axis is axes[1] else "none")
    axes[0].set_ylabel(sized("size of the residuals", next(iter(runs.values()))))
    return figure


def late() -> Content:
    """Figure 3: residuals after a hundred time units."""
    result = rolls(1e3, 1e-5, 101.0, 100)
    shown = result.t >= 86.0
    rows = [
        (f"f{i + 1}, {name}", "below 7·10⁻⁹", number(float(np.abs(result.residual[name][shown]).max()), 2))
        for i, name in enumerate(NAMES)
    ]
    table = Table(("largest from 86 s to 101 s", "the paper", "computed"), rows)
    return Content({"hoop_figure_3": partial(draw_late, result, shown)}, [table])


def draw_late(result: Run, shown: Any) -> Figure:
    figure, axes = sheet(4, 1, height=4.0, sharex=True)
    units = {each.name: each.unit for each in result.closed_loop.residuals}
    for i, (axis, name) in enumerate(zip(axes[:, 0], NAMES, strict=True)):
        axis.plot(result.t[shown], 1e9 * result.residual[name][shown], color=COLOUR[name], linewidth=0.9)
        unit = f" {units[name]}" if units[name] != "1" else ""
        panel(axis, f"{name} f{'₁₂₃₄'[i]} [10⁻⁹{unit}]", TIME if name == NAMES[-1] else "")
        axis.set_xlim(86.0, 101.0)
    return figure


def unstabilised() -> Content:
    """Figure 4: without stabilisation."""
    pushed = run("hoop_drift", every=2)
    push = {name: float(pushed.state[name][0]) for name in ("x_dot", "z_dot")}
    little = {name: value * 1e-6 / 0.15 for name, value in push.items()}
    still = run("hoop_drift", every=2, plant__initial=little)
    held = run("hoop_drift", every=2, plant__parameters__lambda=10.0)

    def off(result: Run) -> float:
        return float(np.abs(result.residual["contact"]).max())

    rows = [
        ("λ = 0, a push of 0.15 m/s", "leaves the profile", number(off(pushed), 2)),
        ("λ = 0, of 10⁻⁶ m/s", "leaves the profile", number(off(still), 1)),
        ("λ = 10 1/s, of 0.15 m/s, at the end", "", below(abs(float(held.residual["contact"][-1])))),
    ]
    table = Table(("largest f1 in two round trips [m]", "the paper", "computed"), rows)
    return Content({"hoop_figure_4": partial(draw_unstabilised, pushed, held)}, [table])


def draw_unstabilised(pushed: Run, held: Run) -> Figure:
    figure, ((left, right),) = sheet(1, 2, height=2.4, width_ratios=(1.55, 1.0))
    x = np.linspace(-1.05, 1.05, 200)
    left.plot(x, profile(x)[0], color=INK, linewidth=0.8, label="profile")
    left.plot(held.state["x"], held.state["z"], color=BLUE, label="λ = 10 1/s")
    left.plot(pushed.state["x"], pushed.state["z"], color=ORANGE, label="λ = 0", linewidth=1.1)
    plane(left, "centre", ylabel="z [m]")
    right.plot(pushed.t, above(np.abs(pushed.residual["contact"]), 1e-9), color=ORANGE)
    right.plot(held.t, above(np.abs(held.residual["contact"]), 1e-9), color=BLUE)
    decades(right, sized("size of the contact's residual |f₁|", held, ("contact",)), -9, 1, TIME, every=2)
    return figure


# the motion itself


def profile(x: Array) -> tuple[Array, Array, Array]:
    """Height, slope and second derivative of the default profile."""
    a, b = 0.13, 0.5
    return (
        x**4 + a * x**3 - b * x**2 - a * x - (1 - b),
        4 * x**3 + 3 * a * x**2 - 2 * b * x - a,
        12 * x**2 + 6 * a * x - 2 * b,
    )


@cache
def reference(end: float) -> dict[str, float]:
    """The state at a time, from contact abscissa and speed alone: no constraint, nothing singular."""
    r, g = 0.01, 9.81

    def rates(_t: float, y: Array) -> Array:
        p1, p2 = profile(y[0])[1:]
        W = np.sqrt(1 + p1**2)
        return np.array([y[1] / ((1 - r * p2 / W**3) * W), -g / 2 * p1 / W, -y[1] / r])

    q, _, theta = solve_ivp(rates, (0.0, end), [1.0, 0.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    height, p1 = (float(each) for each in profile(q)[:2])
    alpha = np.arctan2(-1.0, p1)
    return {"x": float(q - r * np.cos(alpha)), "z": float(height - r * np.sin(alpha)), "theta": float(theta)}


def trajectory() -> Content:
    """Positions against the second set of equations, at the paper's turning points and without."""
    standard = rolls(10.0, 1e-4, 10.0, 10, "rk4")
    cases = [
        ("RK4, λ = 10 1/s, step 10⁻³ s", "rk4", 10.0, 1e-3),
        ("RK4, λ = 10 1/s, step 10⁻⁴ s", "rk4", 10.0, 1e-4),
        ("midpoint, λ = 10³ 1/s, step 10⁻⁵ s", "rk2", 1e3, 1e-5),
    ]
    rows = []
    for text, method, rate, step in cases:
        found = [distance(rolls(rate, step, 101.0, round(0.1 / step), method, **how)) for how in ({}, ENERGY_ROW)]
        rows.append((text, rough(found[0]), rough(found[1], rounding=True)))
    heads = ("x off after 101 s [m]", "`blended`", "`energy`")
    return Content({"hoop_motion": partial(draw_trajectory, standard)}, [Table(heads, rows)])


ENERGY_ROW: dict[str, Any] = {"plant__settings__turning": "energy"}


def rough(value: float, rounding: bool = False) -> str:
    """An error with two digits; where rounding decides them only its power of ten."""
    return power(int(np.floor(np.log10(value)))) if rounding else number(value, 2) if value > 5e-11 else below(value)


def distance(result: Run) -> float:
    """How far x is off at the end [m]."""
    return abs(float(result.state["x"][-1]) - reference(float(result.t[-1]))["x"])


def draw_trajectory(result: Run) -> Figure:
    figure, axes = sheet(3, 1, height=3.5, sharex=True)
    out = result.outputs
    axes[0, 0].plot(result.t, out["n"], color=BLUE, label="normal n")
    axes[0, 0].plot(result.t, out["F_t"], color=ORANGE, label="tangential $F_t$")
    panel(axes[0, 0], "force of the profile [N]")
    curve(axes[1, 0], result.t, out["friction_needed"], "friction coefficient that rolling needs", extra=(0.0,))
    curve(axes[2, 0], result.t, -0.01 * result.state["theta_dot"], "speed of the centre [m/s]", TIME)
    return figure


COMMAND = "servonode simulate hoop_rolls --set plant.integrator=rk2 --set plant.step=1e-5"
ENTRIES = {
    "hoop_claims": sizes,
    "hoop_figure_2": decay,
    "hoop_figure_3": late,
    "hoop_figure_4": unstabilised,
    "hoop_motion": trajectory,
}
