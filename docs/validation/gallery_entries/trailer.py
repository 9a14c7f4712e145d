"""The robot with trailer: figures 2 to 5 of Mikishanina 2024."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

from gallery_entries.frame import (
    BLUE,
    HEADS,
    INK,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    TIME,
    Array,
    Content,
    Table,
    above,
    below,
    curve,
    decades,
    exact,
    fixed,
    mosaic,
    number,
    panel,
    plane,
    run,
    sheet,
)
from servonode.record.run import Run

PERIOD = 40 * np.pi  # s of the pursuit's target
CUSP = 8 * np.pi
TURN = 20 * np.pi  # s of the hitch programs
VARIANTS = ("literal", "plain", "differential", "finite")


def rates(result: Run) -> tuple[Array, Array]:
    """The wheel rates [rad/s], left and right."""
    outputs = result.outputs
    return outputs["theta1_dot"], outputs["theta2_dot"]


# figures 2 and 3


def pursuit() -> Content:
    """The pursuit of a target on a five-cusped curve."""
    result = exact("trailer_pursuit")
    state, target = result.state, result.targets
    distance = np.hypot(target["x"] - state["X"], target["y"] - state["Y"])
    kept = max(largest(result, name) for name in ("speed", "heading"))
    rows = [
        (
            "distance less $\\rho_0$, for a target slower than 0.6 m/s",
            "at most 0.6 m",
            f"{fixed(np.abs(distance - 2.0).max(), 4)} m",
        ),
        ("largest residual", "zero", f"{below(kept)} m/s, rad"),
        ("repeats every 8π s from 16π s on", "drawn", f"`V` to {below(repeats(result))} m/s"),
    ]
    return Content({"trailer_pursuit": partial(draw_pursuit, result)}, [Table(HEADS, rows)])


def largest(result: Run, name: str) -> float:
    return float(np.abs(result.residual[name]).max())


def repeats(result: Run) -> float:
    """The largest change of V from one cusp to the next, from 16 pi s on [m/s]."""
    t, V = result.t, CubicSpline(result.t, result.state["V"])
    later = t[(t >= 16 * np.pi) & (t <= PERIOD - CUSP)]
    return float(np.abs(V(later + CUSP) - V(later)).max())


def draw_pursuit(result: Run) -> Figure:
    figure, axes = mosaic(("pv", "pw", "ph", "pd"), height=3.6, width_ratios=(1.25, 1.0))
    state, outputs, target = result.state, result.outputs, result.targets
    axis = axes["p"]
    axis.plot(target["x"], target["y"], "--", color=RED, linewidth=1.0, label="target")
    axis.plot(state["X"], state["Y"], color=BLUE, label="robot's axle")
    axis.plot(outputs["X2"], outputs["Y2"], color=ORANGE, label="trailer's axle")
    for i in np.linspace(0, len(result.t) - 1, 21).astype(int)[:-1]:
        axis.plot([state["X"][i], outputs["X2"][i]], [state["Y"][i], outputs["Y2"][i]], color=INK, linewidth=0.9)
        axis.plot([state["X"][i], target["x"][i]], [state["Y"][i], target["y"][i]], color=RED, linewidth=0.4)
    plane(axis)
    draw_wheels(axes["w"], result)
    axes["w"].tick_params(labelbottom=False)
    curve(axes["v"], result.t, state["V"], "speed V [m/s]")
    curve(axes["h"], result.t, state["phi"], "hitch angle φ [rad]")
    away = np.hypot(target["x"] - state["X"], target["y"] - state["Y"])
    curve(axes["d"], result.t, away, "distance to the target [m]", TIME)
    return figure


def draw_wheels(axis: Any, result: Run, xlabel: str = "") -> None:
    """The rates of both wheels over time."""
    left, right = rates(result)
    axis.plot(result.t, left, color=BLUE, label="left")
    axis.plot(result.t, right, color=ORANGE, label="right")
    panel(axis, "wheel rates [rad/s]", xlabel)


# the plain laws


def wrong_start(variant: str) -> Run:
    """The pursuit of a target that runs straight away, from a start 0.1 rad beside."""
    return exact(
        "trailer_pursuit",
        run__duration=60.0,
        target__x="2 + 0.3*t",
        target__y="0",
        plant__initial={"psi": 0.1, "Omega": 0.02},
        controller__settings__variant=variant,
    )


def held(variant: str) -> Run:
    """The pursuit from its exact start, with torques held for 20 ms."""
    return run("trailer_pursuit", controller__period=0.02, controller__settings__variant=variant)


def heading_error(result: Run) -> Array:
    """Heading less bearing of the target [rad]."""
    state, target = result.state, result.targets
    error = state["psi"] - np.arctan2(target["y"] - state["Y"], target["x"] - state["X"])
    return np.asarray((error + np.pi) % (2 * np.pi) - np.pi)


def late_error(result: Run) -> float:
    return float(np.abs(heading_error(result)[result.t >= 100.0]).max())


def plain_laws() -> Content:
    """Four variants of the pursuit: what a law does that keeps its errors."""
    starts = {name: wrong_start(name) for name in VARIANTS}
    sampled = {name: held(name) for name in VARIANTS}
    at_20_s = [float(np.interp(20.0, each.t, heading_error(each))) for each in starts.values()]
    rows = [
        ("wrong start, after 20 s", *(fixed(each, 3) if abs(each) > 1e-3 else below(each) for each in at_20_s)),
        ("held 20 ms, largest from 100 s on", *(number(late_error(each), 2) for each in sampled.values())),
    ]
    heads = ("heading error [rad]", *(f"`{name}`" for name in VARIANTS))
    draw = partial(draw_plain, starts, sampled)
    return Content({"trailer_plain_laws": draw}, [Table(heads, rows)])


def draw_plain(starts: dict[str, Run], sampled: dict[str, Run]) -> Figure:
    figure, ((left, right),) = sheet(1, 2, height=2.4, sharey=True)
    colours = dict(zip(VARIANTS, (ORANGE, PURPLE, SKY, BLUE), strict=True))
    for axis, runs in ((left, starts), (right, sampled)):
        for name, result in runs.items():
            axis.plot(
                result.t, above(np.abs(heading_error(result)), 1e-7), color=colours[name], label=name, linewidth=1.1
            )
    decades(left, "wrong start", -7, 1, TIME, every=2, inside="center right")
    decades(right, "exact start, torques held for 20 ms", -7, 1, TIME, every=2, inside="none")
    left.set_ylabel("size of the heading error [rad]")
    return figure


# figures 4 and 5


def hitch(g: str = "", launch: str = "trailer_hitch_swing") -> Run:
    """A hitch program with opposed torques."""
    return exact(launch, controller__settings__g=g) if g else exact(launch)


def delta(result: Run) -> Array:
    """The determinant Delta [kg m^2] of every row."""
    p = result.closed_loop.machine.parameters
    J2, M0 = p["I2"] - p["m2"] * p["b"] ** 2, p["m1"] + p["m2"] + 2 * p["m_k"] + 2 * p["Iky"] / p["r"] ** 2
    return np.asarray(J2 * np.sin(result.state["phi"]) ** 2 + M0 * p["b"] ** 2)


def speed_check(result: Run) -> float:
    """The largest relative change of V sqrt(Delta)."""
    kept = result.state["V"] * np.sqrt(delta(result))
    return float(np.abs(kept / kept[0] - 1).max())


def advance(result: Run) -> tuple[float, float, float]:
    """What X, Y, psi gain over the second period."""
    names = ("X", "Y", "psi")
    return tuple(float(np.diff(np.interp([TURN, 2 * TURN], result.t, result.state[n]))[0]) for n in names)  # type: ignore[return-value]


def escape(g: str, launch: str, stop: float) -> tuple[str, str, str]:
    """A row on when the speed of the default machine escapes: V is 1 / (t - t_e) times a constant just before."""
    options: dict[str, Any] = {"plant__parameters__d1": 0.3, "controller__settings__V_max": 1e9}
    result = exact(launch, run__duration=stop, plant__step=1e-5, every=1000, **options, controller__settings__g=g)
    V, t = result.state["V"], result.t
    (i,) = np.flatnonzero(V[-1] / 2 > V)[-1:]
    zero = t[-1] - (t[-1] - t[i]) / (1 / V[-1] - 1 / V[i]) / V[-1]
    return "speed, `d1 = 0.3`", "grows without bound", f"infinite at {fixed(float(zero), 2)} s"


def turning() -> Content:
    """Figure 4: the hitch turns steadily."""
    result = hitch(launch="trailer_hitch_turning")
    X, Y, _ = advance(result)
    rows = [
        ("$V\\sqrt\\Delta$, `d1 = 0`", "constant", f"to {below(speed_check(result))}"),
        ("path", "a chain of loops", f"({fixed(X, 4)}, {fixed(Y, 4)}) m further each period"),
        escape("0.1*t", "trailer_hitch_turning", 17.5),
    ]
    return Content({"trailer_hitch_turning": partial(draw_hitch, result)}, [Table(HEADS, rows)])


AMPLITUDES = {"π/2": "pi/2", "π/3": "pi/3", "π/4": "pi/4", "π/6": "pi/6"}


def swing() -> Content:
    """Figure 5: the hitch swings; the amplitude is lost in the paper."""
    runs = {name: hitch(f"{text}*sin(0.1*t)") for name, text in AMPLITUDES.items()}
    rows = [
        ("$V\\sqrt\\Delta$, `d1 = 0`", "constant", f"to {below(max(map(speed_check, runs.values())))}"),
        ("net turn per period", "none", f"{below(advance(runs['π/4'])[2])} rad"),
        escape("pi/4*sin(0.1*t)", "trailer_hitch_swing", 49.27),
    ]
    pictures = {
        "trailer_hitch_swing": partial(draw_hitch, runs["π/4"]),
        "trailer_hitch_amplitudes": partial(draw_family, runs),
    }
    return Content(pictures, [Table(HEADS, rows)])


def draw_hitch(result: Run) -> Figure:
    """Path, wheel rates and speed; the path stands beside the curves, above them where it is wide."""
    state, outputs = result.state, result.outputs
    if np.ptp(state["X"]) > 2 * np.ptp(state["Y"]):
        figure, axes = mosaic(("pp", "wv"), height=4.3, height_ratios=(1.75, 1.0))
    else:
        figure, axes = mosaic(("pw", "pv"), height=3.0, width_ratios=(1.3, 1.0))
    axis = axes["p"]
    axis.plot(state["X"], state["Y"], color=BLUE, label="robot's axle")
    axis.plot(outputs["X2"], outputs["Y2"], color=ORANGE, linewidth=0.9, label="trailer's axle")
    axis.plot(*(state[name][:1] for name in ("X", "Y")), "o", color=INK, markersize=4, label="start")
    plane(axis)
    draw_wheels(axes["w"], result, TIME)
    curve(axes["v"], result.t, state["V"], "speed V [m/s]", TIME)
    return figure


def draw_family(runs: dict[str, Run]) -> Figure:
    shapes = [float(np.ptp(each.state["X"]) / np.ptp(each.state["Y"])) for each in runs.values()]
    figure, axes = sheet(1, len(runs), height=1.4, width_ratios=shapes)
    for axis, (name, result) in zip(axes[0], runs.items(), strict=True):
        axis.plot(result.state["X"], result.state["Y"], color=BLUE, linewidth=1.0)
        axis.plot(result.state["X"][:1], result.state["Y"][:1], "o", color=INK, markersize=4)
        plane(axis, f"amplitude {name}", ylabel="y [m]" if axis is axes[0][0] else "")
        axis.locator_params(nbins=4)
    return figure


ENTRIES = {
    "trailer_pursuit": pursuit,
    "trailer_plain_laws": plain_laws,
    "trailer_hitch_turning": turning,
    "trailer_hitch_swing": swing,
}
