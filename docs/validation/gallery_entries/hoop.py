"""The hoop on a curved profile: the figures and claims of Matrosov, Morozov and Pesterev 2021."""

from functools import cache, partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

from gallery_entries.frame import (
    BLUE,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    TIME,
    Array,
    Content,
    Entry,
    Picture,
    Source,
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

SOURCE = Source(
    "hoop",
    "Hoop on a profile",
    "I. V. Matrosov, Yu. V. Morozov, A. V. Pesterev, *Numerical integration of rolling equations using approaches of "
    "control theory* (in Russian), Izvestiya RAN, Teoriya i sistemy upravleniya, 2021, no. 2, pp. 3-13.",
    """
Figures 2 to 4 and the claims about residuals are here; we had the text and not the curves. The paper gives neither
gravity, start, the kind of its two-stage method nor initial residuals. We take 9.81 m/s², with which the residuals
have the paper's size, a start at rest at x = 1, and the midpoint method. [Errata](errata.md#hoop-on-a-profile).
""",
)
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
    methods = {name: largest(rolls(1e3, 1e-5, 10.0, 20, name)) for name in ("rk2", "ralston", "heun")}
    fine = largest(rolls(1e3, 1e-6, 5.0, 100))
    rows = [
        (
            "largest residual, λ from 1 to 10⁵, step 10⁻⁵ s",
            "below 10⁻⁷",
            f"{number(min(found), 2)} to {number(max(found), 2)}",
        ),
        (
            "at λ = 10³, midpoint",
            "a minimum below 7·10⁻⁹",
            number(methods["rk2"], 3),
        ),
        ("the same, Ralston", "", number(methods["ralston"], 2)),
        ("the same, Heun", "", number(methods["heun"], 3)),
        ("step 10⁻⁶ s", "below 5·10⁻¹²", number(fine, 2)),
        ("which is how many times less", "1000", fixed(methods["rk2"] / fine, 0)),
        ("the largest residual is that of", "slip, f3", biggest(by_rate[1e3])),
    ]
    caption = "The largest of each residual in 10 s, midpoint method, step 10⁻⁵ s, over the rate λ"
    table = Table(("", "the paper", "this run"), rows)
    return Content([Picture("hoop_claims", caption, partial(draw_sizes, by_rate))], [table])


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
        rows.append((f"λ = {rate:g}: rates of f2, f3, f4 [1/s]", "exponential", text))
    caption = "Figure 2: residuals of a wrong start for λ = 10 and 100 1/s; dotted: exp(−λ t)"
    return Content(
        [Picture("hoop_figure_2", caption, partial(draw_decay, runs))],
        [Table(("", "the paper", "this run"), rows)],
    )


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
    caption = "Figure 3: residuals from 86 s to 101 s, λ = 10³ 1/s, step 10⁻⁵ s; spikes once per valley"
    return Content(
        [Picture("hoop_figure_3", caption, partial(draw_late, result, shown))],
        [Table(("largest from 86 s to 101 s", "the paper", "this run"), rows)],
    )


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
        (
            "λ = 0, h changes by 0.15 m/s at the start: largest f1 in two round trips",
            "the hoop leaves the profile in two round trips",
            number(off(pushed), 2),
        ),
        ("λ = 0, by 10⁻⁶ m/s", "the same", number(off(still), 1)),
        (
            "λ = 10, by 0.15 m/s: f1 at the end",
            "",
            below(abs(float(held.residual["contact"][-1]))),
        ),
    ]
    caption = "Figure 4: path of the centre in two round trips, without stabilisation and with it"
    return Content(
        [Picture("hoop_figure_4", caption, partial(draw_unstabilised, pushed, held))],
        [Table(("", "the paper", "this run"), rows)],
    )


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
        ("RK4, λ = 10, step 10⁻³ s", "rk4", 10.0, 1e-3),
        ("RK4, λ = 10, step 10⁻⁴ s", "rk4", 10.0, 1e-4),
        ("midpoint, λ = 10³, step 10⁻⁵ s", "rk2", 1e3, 1e-5),
    ]
    rows = []
    for text, method, rate, step in cases:
        found = [distance(rolls(rate, step, 101.0, round(0.1 / step), method, **how)) for how in ({}, ENERGY_ROW)]
        rows.append((text, rough(found[0]), rough(found[1], rounding=True)))
    heads = ("x off by, after 101 s [m]", "`blended`", "the paper's row, its power of ten")
    caption = "The standard run: forces of the profile, the friction that rolling needs, and the speed"
    return Content(
        [Picture("hoop_motion", caption, partial(draw_trajectory, standard))],
        [Table(heads, rows)],
    )


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
ENTRIES = (
    Entry(
        "hoop_claims",
        "hoop",
        "How large the residuals are",
        ("hoop_rolls",),
        (f"{COMMAND} --set plant.parameters.lambda=1000 --every 20 --json",),
        "The largest residual of a run of 10 s, over the rate λ and the step, which the paper varies.",
        sizes,
        """
"Below 5·10⁻¹²", and a minimum at λ = 10³: a method of second order makes its error a hundred times smaller with a
tenth of the step, and its residual does not depend on λ. The slip has not the largest residual at any gravity.
""",
    ),
    Entry(
        "hoop_figure_2",
        "hoop",
        "Figure 2: residuals of the initial state decay",
        ("hoop_decay",),
        (
            "servonode simulate hoop_decay --report decay.png",
            "servonode simulate hoop_decay --set plant.parameters.lambda=100 --json",
        ),
        """
A start off the profile, with slip and a wrong energy: f2, f3, f4 fall as exp(−λ t). Midpoint method, step 10⁻⁵ s.
""",
        decay,
        "The curves' heights: the paper does not give its initial residuals. Slopes compare.",
    ),
    Entry(
        "hoop_figure_3",
        "hoop",
        "Figure 3: residuals after thirty round trips",
        ("hoop_source",),
        ("servonode simulate hoop_source --every 100 --report late.png",),
        "The residuals do not grow: 10.1 million steps of the midpoint method.",
        late,
    ),
    Entry(
        "hoop_figure_4",
        "hoop",
        "Figure 4: without stabilisation",
        ("hoop_drift",),
        ("servonode simulate hoop_drift --report drift.png",),
        "With λ = 0 a residual of the start stays, and one in the contact's rate grows in proportion to time.",
        unstabilised,
        """
A hoop that leaves the profile from a start that is nearly right: it takes a velocity away from the profile.
""",
    ),
    Entry(
        "hoop_motion",
        "hoop",
        "The motion itself, and the turning points",
        ("hoop_rolls", "hoop_energy_row"),
        ("servonode run hoop_rolls", "servonode simulate hoop_energy_row --json"),
        """
Small residuals do not prove a right trajectory. Where the hoop turns, the paper's energy row divides by its rate of
turning, and residuals become forces. `turning = "blended"`, the default, states there that the force acts at the
contact point.
""",
        trajectory,
        """
A trajectory of the paper: it gives none. Rounding decides the errors of its row beyond their power of ten.
""",
    ),
)
