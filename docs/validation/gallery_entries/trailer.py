"""The robot with trailer: figures 2 to 5 of Mikishanina 2024."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

from gallery_entries.frame import (
    BLUE,
    INK,
    ORANGE,
    PURPLE,
    RED,
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

SOURCE = Source(
    "trailer",
    "Robot with trailer",
    "E. A. Mikishanina, *Principles for implementing servo-constraints in nonholonomic mechanical systems* (in "
    "Russian), Tomsk State University Journal of Mathematics and Mechanics, 2024, no. 89, pp. 103-118, "
    "doi 10.17223/19988621/89/8.",
    """
Figures 2 to 5 show motions; all are here. The defaults of `diff_drive_trailer` are the paper's parameters. We read
its text alone, so its curves could not be measured. [Errata](errata.md#robot-with-trailer).
""",
)
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
    claims = Table(
        ("", "the paper", "this run"),
        [
            (
                "a target slower than v stays within v / a of the distance to keep; here v = 0.6, a = 1",
                "at most 0.6 m",
                f"{fixed(np.abs(distance - 2.0).max(), 4)} m",
            ),
            (
                "the robot may start from rest whatever the target",
                "stated; right only where the target does not move sideways at first, as here at its cusp",
                f"target's speed at the start {below(target_speed(result))} m/s",
            ),
            ("largest residual, speed", "zero", f"{below(largest(result, 'speed'))} m/s"),
            ("largest residual, heading", "zero", f"{below(largest(result, 'heading'))} rad"),
            ("from 16π s on the motion repeats every 8π s", "drawn", f"to {below(repeats(result))} m/s in `V`"),
        ],
    )
    caption = "Figures 2 and 3: the paths of target, robot and trailer over one period, and what the robot did"
    return Content([Picture("trailer_pursuit", caption, partial(draw_pursuit, result))], [claims])


def largest(result: Run, name: str) -> float:
    return float(np.abs(result.residual[name]).max())


def target_speed(result: Run) -> float:
    """Speed of the target at the start [m/s], from the launch file's expressions."""
    goal, order = result.closed_loop.goal(0.0), result.closed_loop.targets.order
    return float(np.hypot(goal[1], goal[order + 2]))


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


def held(variant: str, period: float) -> Run:
    """The pursuit from its exact start, with torques held over a period."""
    return run("trailer_pursuit", controller__period=period, controller__settings__variant=variant)


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
    sampled = {(name, period): held(name, period) for period in (0.02, 0.005) for name in VARIANTS}

    def at(seconds: float) -> list[str]:
        values = {name: float(np.interp(seconds, r.t, heading_error(r))) for name, r in starts.items()}
        return [fixed(value, 3) if abs(value) > 1e-3 else below(value) for value in values.values()]

    def late(period: float) -> list[str]:
        return [number(late_error(sampled[name, period]), 2) for name in VARIANTS]

    rows = [
        ("wrong start, continuous, after 20 s", *at(20.0)),
        ("after 60 s", *at(60.0)),
        ("exact start, held 20 ms, largest in 100 s to 125 s", *late(0.02)),
        ("held 5 ms", *late(0.005)),
    ]
    heads = ("heading error [rad]", *(f"`{name}`" for name in VARIANTS))
    caption = "Heading error after a wrong start (left), and with torques held for 20 ms from an exact start (right)"
    draw = partial(draw_plain, starts, {name: sampled[name, 0.02] for name in VARIANTS})
    return Content([Picture("trailer_plain_laws", caption, draw)], [Table(heads, rows)])


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


def escape_time(g: str, launch: str, stop: float) -> str:
    """When the speed of the default machine, d1 = 0.3, escapes [s]: V is 1 / (t - t_e) times a constant just before."""
    options: dict[str, Any] = {"plant__parameters__d1": 0.3, "controller__settings__V_max": 1e9}
    result = exact(launch, run__duration=stop, plant__step=1e-5, every=1000, **options, controller__settings__g=g)
    V, t = result.state["V"], result.t
    (i,) = np.flatnonzero(V[-1] / 2 > V)[-1:]
    zero = t[-1] - (t[-1] - t[i]) / (1 / V[-1] - 1 / V[i]) / V[-1]
    return fixed(float(zero), 2)


def turning() -> Content:
    """Figure 4: the hitch turns steadily."""
    result = hitch(launch="trailer_hitch_turning")
    theta1, theta2 = rates(result)
    X, Y, psi = advance(result)
    left_faster = float((theta1 > theta2)[result.t < TURN].mean())
    claims = Table(
        ("", "the paper", "this run"),
        [
            ("V √Δ, for d1 = 0", "constant", f"constant to {below(speed_check(result))}"),
            (
                "for d1 > 0",
                "the speed grows without bound; it does not say that this takes a finite time",
                f"d1 = 0.3: infinite at {escape_time('0.1*t', 'trailer_hitch_turning', 17.5)} s",
            ),
            ("path", "a chain of loops", f"each period advances ({fixed(X, 4)}, {fixed(Y, 4)}) m"),
            ("heading per period 20π s", "", f"{fixed(psi / np.pi, 4)} π"),
            ("share of a period with the left wheel faster", "", f"{100 * left_faster:.0f} %"),
        ],
    )
    caption = "Figure 4: the path for g = 0.1 t, the wheel rates and the speed"
    return Content([Picture("trailer_hitch_turning", caption, partial(draw_hitch, result))], [claims])


AMPLITUDES = {"π/2": "pi/2", "π/3": "pi/3", "π/4": "pi/4", "π/6": "pi/6"}


def swing() -> Content:
    """Figure 5: the hitch swings; the amplitude is lost in the paper."""
    runs = {name: hitch(f"{text}*sin(0.1*t)") for name, text in AMPLITUDES.items()}
    X, Y, psi = advance(runs["π/4"])
    claims = Table(
        ("", "the paper", "this run"),
        [
            ("V √Δ, for d1 = 0", "constant", f"constant to {below(max(map(speed_check, runs.values())))}"),
            ("net turn per period", "none", f"{below(psi)} rad for π/4"),
            ("advance per period", "", f"({fixed(X, 4)}, {fixed(Y, 4)}) m for π/4"),
            (
                "for d1 > 0",
                "the speed grows without bound",
                f"d1 = 0.3: infinite at {escape_time('pi/4*sin(0.1*t)', 'trailer_hitch_swing', 49.27)} s",
            ),
        ],
    )
    caption = "Figure 5 for g = π/4 sin 0.1 t: path, wheel rates, speed"
    family = "The path for four amplitudes of the swing"
    pictures = [
        Picture("trailer_hitch_swing", caption, partial(draw_hitch, runs["π/4"])),
        Picture("trailer_hitch_amplitudes", family, partial(draw_family, runs)),
    ]
    return Content(pictures, [claims])


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


ENTRIES = (
    Entry(
        "trailer_pursuit",
        "trailer",
        "Figures 2 and 3: pursuit of a target",
        (
            "trailer_pursuit",
            "trailer_pursuit_lockstep",
            "trailer_pursuit_external",
            "trailer_pursuit_loopback",
            "trailer_pursuit_serial",
            "trailer_pursuit_udp",
            "trailer_sweep",
        ),
        ("servonode run trailer_pursuit", "servonode simulate trailer_pursuit --control continuous --json"),
        """
A target runs along a closed epicycloid with five cusps. The robot starts at rest 2 m away, points at it and drives at
the excess distance per second. One period of the target, 40π s, continuous.
""",
        pursuit,
        """
The paper prints the target with 0.31 for 0.3 t, and no initial position of the robot; only 0.3 t closes the curve.
""",
    ),
    Entry(
        "trailer_plain_laws",
        "trailer",
        "Why the printed laws are not used as they are",
        ("trailer_pursuit",),
        ("servonode simulate trailer_pursuit --set controller.settings.variant=plain --set controller.period=0.02",),
        """
The paper replaces a finite constraint by its derivatives: right on exact data only. `literal` is the torque as
printed, `plain` asks for a second derivative of zero, `differential` for a first of zero, `finite` is servonode's.
The wrong start is 0.1 rad and 0.02 rad/s off, towards a target that runs straight away at 0.3 m/s.
""",
        plain_laws,
        """
The paper shows no such run. These refute its remark that a finite program may always be replaced by its derivative.
""",
    ),
    Entry(
        "trailer_hitch_turning",
        "trailer",
        "Figure 4: the hitch turns steadily",
        ("trailer_hitch_turning",),
        ("servonode run trailer_hitch_turning",),
        """
Opposed torques keep the hitch angle at g = 0.1 t; the speed follows from V √Δ = const for d1 = 0. 200 s, continuous.
""",
        turning,
        """
With the paper's d1 = 0.3 m the speed becomes infinite within one turn of the hitch, so d1 = 0 here.
""",
    ),
    Entry(
        "trailer_hitch_swing",
        "trailer",
        "Figure 5: the hitch swings",
        ("trailer_hitch_swing",),
        (
            "servonode run trailer_hitch_swing",
            'servonode simulate trailer_hitch_swing --set controller.settings.g="pi/6*sin(0.1*t)" --report swing.png',
        ),
        """
The same with g = g0 sin 0.1 t. 200 s, continuous.
""",
        swing,
        """
The amplitude g0 is unreadable, "π" over a lost number. We take π/4; with π/2 a real trailer touches the robot.
""",
    ),
)
