"""The ball on a turntable: figures 2 to 4 of Kaspirovich and Mukharlyamov, and the errors behind them."""

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
    decades,
    fixed,
    mosaic,
    number,
    panel,
    plane,
    run,
    sheet,
)
from servonode.record.run import Run
from servonode.views.titles import SIZE

SHARE = 2 / 7  # of a solid ball: rate of its circle to that of the plate


def rate(result: Run) -> float:
    """The plate's rate [rad/s]."""
    return float(result.closed_loop.machine.parameters["Omega"])


@cache
def motion(Omega: float, x0: float, spin: tuple[float, float, float]) -> Any:
    """The exact motion from (x0, 0): a function of time that gives place (2,), velocity (2,), angular velocity (3,)."""
    velocity = np.array([spin[1], -spin[0] + Omega * x0])
    turning = SHARE * Omega
    centre = np.array([x0 - velocity[1] / turning, velocity[0] / turning])

    def at(t: float) -> tuple[Array, Array, Array]:
        c, s = np.cos(turning * t), np.sin(turning * t)
        turn = np.array([[c, -s], [s, c]])
        place, v = centre + turn @ (np.array([x0, 0.0]) - centre), turn @ velocity
        return place, v, np.array([Omega * place[0] - v[1], v[0] + Omega * place[1], spin[2]])

    return at


@cache
def attitude(Omega: float, x0: float, spin: tuple[float, float, float], t: float) -> Array:
    """The quaternion at time t, integrated with the exact angular velocity."""
    at = motion(Omega, x0, spin)

    def rates(time: float, q: Array) -> Array:
        w = at(time)[2]
        return 0.5 * np.array([-w @ q[1:], *(w * q[0] + np.cross(w, q[1:]))])

    q = solve_ivp(rates, (0.0, t), [1.0, 0.0, 0.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    return np.asarray(q / np.linalg.norm(q))


SOURCE_CASE = (0.1, 0.0, (-0.1, 1.02, 0.0))


def errors(result: Run) -> tuple[float, float, float]:
    """Of the place [m] and the attitude [rad] at the end, and the largest slip [m/s] of all rows."""
    values = {**result.state, **result.outputs}
    place = motion(*SOURCE_CASE)(float(result.t[-1]))[0]
    off = float(np.hypot(values["x"][-1] - place[0], values["y"][-1] - place[1]))
    q, right = np.array([values[f"q_{i}"][-1] for i in range(4)]), attitude(*SOURCE_CASE, float(result.t[-1]))
    turned = 4 * np.arcsin(min(np.linalg.norm(q - right), np.linalg.norm(q + right)) / 2)
    return off, float(turned), float(np.nanmax(slip(result, values)))


def slip(result: Run, values: dict[str, Array]) -> Array:
    """The velocity of the ball against the plate in the contact [m/s]."""
    Omega = rate(result)
    f1 = values["x_dot"] - values["omega_1"] + Omega * values["y"]
    f2 = values["y_dot"] + values["omega_0"] - Omega * values["x"]
    return np.hypot(f1, f2)


def shown(value: float) -> str:
    """An error with its certain digits, or the power of ten of what is rounding."""
    digits = 3 if value >= 1e-2 else 2 if value > 2e-11 else 1
    return number(value, digits) if value > 1e-12 else below(value)


def row(name: str, result: Run) -> tuple[str, ...]:
    return (name, *(shown(each) for each in errors(result)))


ERRORS = ("", "centre [m]", "attitude [rad]", "slip [m/s]")


def angles(bypass: str, k1: float = -50.0, **options: Any) -> Run:
    """A run in the paper's angles, Euler, a row for each step."""
    name = {"none": "ball_angles"}.get(bypass, f"ball_{bypass}")
    return run(name, every=1, **({"plant__parameters__k1": k1} | options))


def free(bypass: str) -> Run:
    """The same without stabilisation of the slip."""
    return angles(bypass, 0.0, **{f"plant__parameters__k{i}": 0.0 for i in (2, 3, 4)})


def small_split() -> Run:
    return angles("split", plant__parameters__delta=0.051)


def figures() -> Content:
    """Figures 2 to 4."""
    skip, split, small, unheld = angles("skip"), angles("split"), small_split(), free("skip")
    jump = float(skip.t[1:][np.abs(np.diff(skip.state["beta"])) > 0.4][0])
    rows = [
        ("figure 2, skip: β jumps at [s]", "2.95", fixed(jump, 3)),
        ("by [rad]", "0.87", fixed(height(skip), 3)),
        ("figure 4, split: β jumps by [rad]", "hardly", f"{fixed(height(split), 3)}"),
        ("figure 3, skip: off the exact path before the jump [m]", "close", shown(apart(skip, 0.0, jump - 0.01))),
        ("at the end", "close", fixed(errors(skip)[0], 2)),
        ("at the end, $K = 0$", "", shown(errors(unheld)[0])),
        ("at the end, split by 0.051", "", fixed(errors(small)[0], 2)),
        ("the path", "part of an ellipse", f"a circle to {below(roundness())} m"),
    ]
    draw = partial(draw_figures, {"skip": skip, "split": split, "split by 0.051": small, "no bypass": angles("none")})
    return Content({"ball_source": draw}, [Table(HEADS, rows)])


def height(result: Run) -> float:
    """The largest step of beta from row to row [rad]."""
    return float(np.abs(np.diff(result.state["beta"])).max())


def apart(result: Run, begin: float, end: float) -> float:
    """The largest distance from the exact path in a time [m]."""
    at, rows = motion(*SOURCE_CASE), np.flatnonzero((result.t >= begin) & (result.t <= end))
    places = np.array([at(float(result.t[i]))[0] for i in rows])
    return float(np.hypot(result.state["x"][rows] - places[:, 0], result.state["y"][rows] - places[:, 1]).max())


def roundness() -> float:
    """How far the quaternion run's distance to its circle's centre changes [m]."""
    result = run("ball_source")
    out = result.outputs
    centre = np.array([out["c_x"][0], out["c_y"][0]])
    return float(np.ptp(np.hypot(result.state["x"] - centre[0], result.state["y"] - centre[1])))


def draw_figures(runs: dict[str, Run]) -> Figure:
    figure, axes = mosaic(("bb", "pp"), height=4.1, height_ratios=(1.0, 1.35))
    for (name, result), colour in zip(runs.items(), (ORANGE, PURPLE, BLUE, SKY), strict=True):
        axes["b"].plot(result.t, result.state["beta"], color=colour, label=name, linewidth=1.1)
        axes["p"].plot(result.state["x"], result.state["y"], color=colour, linewidth=1.1)
    panel(axes["b"], "angle β [rad]; dotted: singular, π/2", TIME)
    axes["b"].axhline(np.pi / 2, color=INK, linestyle=":", linewidth=0.9)
    exact_path = np.array([motion(*SOURCE_CASE)(t)[0] for t in np.linspace(0.0, 8.0, 50)])
    axes["p"].plot(*exact_path.T, "--", color=INK, linewidth=0.9, label="exact")
    plane(axes["p"], "path of the centre")
    return figure


def table_of_errors() -> Content:
    """Angles with and without bypass against quaternions."""
    blown = run("ball_angles", plant__step=0.01, every=1)
    speed = np.hypot(blown.state["x_dot"], blown.state["y_dot"])
    size = np.max(np.abs([blown.state[f"{name}_dot"] for name in ("alpha", "beta", "gamma")]), axis=0)
    wild = ~(size < 1e3) | ~(speed < 1e3)
    when = f"blows up at {fixed(float(blown.t[np.argmax(wild)]), 2)} s" if wild.any() else "does not blow up"
    quaternion = {
        (method, step): run("ball_source", plant__integrator=method, plant__step=step, every=1)
        for method, step in (("euler", 1e-3), ("rk4", 0.01))
    }
    rows = [
        ("angles, Euler 10 ms", when, "", ""),
        row("angles, Euler 1 ms", angles("none")),
        row("skip", angles("skip")),
        row("skip, $K = 0$", free("skip")),
        row("split", angles("split")),
        row("quaternion, Euler 1 ms", quaternion["euler", 1e-3]),
        row("quaternion, RK4 10 ms", quaternion["rk4", 0.01]),
    ]
    draw = partial(draw_errors, {"skip": angles("skip"), "skip, K = 0": free("skip"), "no bypass": angles("none")})
    return Content({"ball_errors": draw}, [Table(ERRORS, rows)])


def draw_errors(runs: dict[str, Run]) -> Figure:
    figure, ((left, right),) = sheet(1, 2, height=2.4)
    at = motion(*SOURCE_CASE)
    for (name, result), colour in zip(runs.items(), (ORANGE, PURPLE, BLUE), strict=True):
        t = result.t[::10]
        places = np.array([at(float(each))[0] for each in t]).T
        off = np.hypot(result.state["x"][::10] - places[0], result.state["y"][::10] - places[1])
        left.plot(t, above(off, 1e-7), color=colour)
        values = {**result.state, **result.outputs}
        right.plot(t, above(slip(result, values)[::10], 1e-7), color=colour, label=name)
    decades(left, "distance from the exact path [m]", -7, 1, TIME, every=2, inside="none")
    decades(right, "slip [m/s]", -7, 1, TIME, every=2, inside="none")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=SIZE, frameon=False)
    return figure


def circle() -> Content:
    """The same ball on a faster plate: orders of the methods, and the invariants."""
    fine = run("ball_circle", run__duration=50.0, plant__integrator="rk4", plant__step=0.01, every=1)
    out = fine.outputs
    kept = [
        ("speed", f"to {below(np.ptp(out['speed']))} m/s"),
        ("centre of the circle", f"({fixed(out['c_x'][-1], 9)}, {fixed(out['c_y'][-1], 9)}) m"),
        ("`L_x`, `L_y`", f"to {below(max(np.ptp(out['L_x']), np.ptp(out['L_y'])))}"),
        ("`E_moving`", f"to {below(np.ptp(out['E_moving']))} J"),
    ]
    tilted = run("ball_tilted")
    heads = ("constant on a level plate at a constant rate", "RK4 10 ms, 50 s")
    return Content({"ball_circle": partial(draw_circle, fine, tilted)}, [Table(heads, kept)])


def draw_circle(level: Run, tilted: Run) -> Figure:
    figure, ((left, right),) = sheet(1, 2, height=2.2, width_ratios=(1.0, 2.1))
    left.plot(level.state["x"], level.state["y"], color=BLUE)
    left.plot([0.0], [0.0], "+", color=INK, label="axis of the plate")
    plane(left, "level")
    right.plot(tilted.state["y"], tilted.state["x"], color=BLUE)
    right.plot([0.0], [0.0], "+", color=INK)
    plane(right, "tilted", xlabel="y [m], across the slope", ylabel="x [m]")
    right.invert_xaxis()
    return figure


ENTRIES = {"ball_source": figures, "ball_errors": table_of_errors, "ball_circle": circle}
