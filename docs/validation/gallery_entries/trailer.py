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
    span,
)
from servonode.record.run import Run

SOURCE = Source(
    "trailer",
    "Robot with trailer: Mikishanina 2024",
    "E. A. Mikishanina, *Principles for implementing servo-constraints in nonholonomic mechanical systems* (in "
    "Russian), Tomsk State University Journal of Mathematics and Mechanics, 2024, no. 89, pp. 103-118, "
    "doi 10.17223/19988621/89/8.",
    """
Figures 2 and 3 (pursuit) and 4 and 5 (hitch program) show motions; all four are here. Its table gives all parameters,
and they are the defaults of `diff_drive_trailer`. (Two of them, the inertias of a wheel, are ten times too small for
the wheel that the table describes: a slipped decimal, kept so that the figures compare.) What the paper prints wrongly
is corrected in [the errata](../systems/errata.md#robot-with-trailer). Only its text was available, so its curves
could not be measured.
"Reference" below is an independent calculation without servonode, from equations that were derived twice.
""",
)
PERIOD = 40 * np.pi  # s of the pursuit's target
CUSP = 8 * np.pi
TURN = 20 * np.pi  # s of the hitch programs
VARIANTS = ("literal", "plain", "differential", "finite")
REFERENCE = ("", "reference", "this run")


def rates(result: Run) -> tuple[Array, Array]:
    """The wheel rates [rad/s], left and right."""
    outputs = result.outputs()
    return outputs["theta1_dot"], outputs["theta2_dot"]


def ranges(columns: dict[str, Array], expected: dict[str, str]) -> Table:
    """Ranges of values beside those expected, with as many decimals as these have."""
    decimals = {
        name: max(len(each.partition(".")[2]) for each in text.split(" to ")) for name, text in expected.items()
    }
    return Table(REFERENCE, [(name, text, span(columns[name], decimals[name])) for name, text in expected.items()])


# figures 2 and 3


def pursuit() -> Content:
    """The pursuit of a target on a five-cusped curve."""
    result = exact("trailer_pursuit")
    state, target = result.state, result.targets()
    theta1, theta2 = rates(result)
    distance = np.hypot(target["x"] - state["X"], target["y"] - state["Y"])
    columns = {
        "target `x` [m]": target["x"],
        "target `y` [m]": target["y"],
        "`X` [m]": state["X"],
        "`Y` [m]": state["Y"],
        "heading `psi`": state["psi"],
        "hitch angle `phi`": state["phi"],
        "speed `V` [m/s]": state["V"],
        "yaw rate `Omega` [rad/s]": state["Omega"],
        "distance to the target [m]": distance,
        "left wheel [rad/s]": theta1,
        "right wheel [rad/s]": theta2,
        "left torque `U1` [N m]": result.input["U1"],
        "right torque `U2` [N m]": result.input["U2"],
    }
    expected = {
        "target `x` [m]": "−4.8245 to 8.8245",
        "target `y` [m]": "−1.3068 to 12.0000",
        "`X` [m]": "−3.9916 to 8.2060",
        "`Y` [m]": "−0.8361 to 11.2504",
        "heading `psi`": "−0.3616 to 6.4676",
        "hitch angle `phi`": "−0.4242 to 0.2342",
        "speed `V` [m/s]": "0.0000 to 0.5310",
        "yaw rate `Omega` [rad/s]": "−0.0986 to 0.1421",
        "distance to the target [m]": "2.0000 to 2.5310",
        "left wheel [rad/s]": "0.0000 to 6.8053",
        "right wheel [rad/s]": "−0.0526 to 7.3686",
        "left torque `U1` [N m]": "−0.0247 to 0.0284",
        "right torque `U2` [N m]": "−0.0178 to 0.0289",
    }
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
    return Content(
        [Picture("trailer_pursuit", caption, partial(draw_pursuit, result))], [claims, ranges(columns, expected)]
    )


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
    state, outputs, target = result.state, result.outputs(), result.targets()
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
    state, target = result.state, result.targets()
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
        ("wrong start, continuous, after 20 s: reference", "0.629", "0.5", "0.11", "below 10⁻¹²"),
        ("this run", *at(20.0)),
        ("after 60 s: reference", "1.121", "1.3", "0.11", "below 10⁻¹²"),
        ("this run", *at(60.0)),
        ("exact start, held 20 ms, largest in 100 s to 125 s: reference", "9.1·10⁻³", "0.096", "7.3·10⁻⁴", "4.9·10⁻⁵"),
        ("this run", *late(0.02)),
        ("held 5 ms: reference", "2.3·10⁻³", "0.024", "1.8·10⁻⁴", "1.2·10⁻⁵"),
        ("this run", *late(0.005)),
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
    V, state = result.state["V"], result.state
    claims = Table(
        ("", "the paper", "this run"),
        [
            ("V √Δ, for d1 = 0", "constant", f"constant to {below(speed_check(result))}"),
            (
                "for d1 > 0",
                "the speed grows without bound; it does not say that this takes a finite time",
                f"d1 = 0.3: infinite at {escape_time('0.1*t', 'trailer_hitch_turning', 17.5)} s (reference: 17.51 s)",
            ),
            ("path", "a chain of loops", f"each period advances ({fixed(X, 4)}, {fixed(Y, 4)}) m"),
            ("heading per period 20π s", "", f"{fixed(psi / np.pi, 4)} π"),
            ("share of a period with the left wheel faster", "", f"{100 * left_faster:.0f} %"),
        ],
    )
    columns = {
        "`X` [m]": state["X"],
        "`Y` [m]": state["Y"],
        "heading `psi`": state["psi"],
        "speed `V` [m/s]": V,
        "yaw rate `Omega` [rad/s]": state["Omega"],
        "left wheel [rad/s]": theta1,
        "right wheel [rad/s]": theta2,
    }
    expected = {
        "`X` [m]": "−0.2833 to 14.9332",
        "`Y` [m]": "−2.5685 to 8.1768",
        "heading `psi`": "−24.4760 to 0.0000",
        "speed `V` [m/s]": "0.400000 to 0.450003",
        "yaw rate `Omega` [rad/s]": "−0.550003 to 0.350003",
        "left wheel [rad/s]": "5.0650 to 7.4667",
        "right wheel [rad/s]": "4.5316 to 6.9334",
    }
    caption = "Figure 4: the path for g = 0.1 t, the wheel rates and the speed"
    return Content(
        [Picture("trailer_hitch_turning", caption, partial(draw_hitch, result))], [claims, ranges(columns, expected)]
    )


AMPLITUDES = {"π/2": "pi/2", "π/3": "pi/3", "π/4": "pi/4", "π/6": "pi/6"}
SWING_REFERENCE = {
    "π/2": ("−6.0522 to 1.6702", "−6.6407 to 0.7920", "−10.5528 to 0.1943", "0.450003"),
    "π/3": ("−0.2580 to 22.6379", "−23.4130 to 0.0000", "−7.9868 to 0.1292", "0.435766"),
    "π/4": ("−0.3965 to 24.5166", "−3.1992 to 5.3490", "−6.1859 to 0.0968", "0.422800"),
    "π/6": ("−10.7912 to 3.1405", "−12.9640 to 0.8020", "−4.2014 to 0.0645", "0.410926"),
}


def swing() -> Content:
    """Figure 5: the hitch swings; the amplitude is lost in the paper."""
    runs = {name: hitch(f"{text}*sin(0.1*t)") for name, text in AMPLITUDES.items()}
    rows = []
    for name, result in runs.items():
        state = result.state
        found = (span(state["X"]), span(state["Y"]), span(state["psi"]), fixed(state["V"].max(), 6))
        rows += [(f"{name}: reference", *SWING_REFERENCE[name]), ("this run", *found)]
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
                f"d1 = 0.3: infinite at {escape_time('pi/4*sin(0.1*t)', 'trailer_hitch_swing', 49.27)} s "
                "(reference: 49.28 s)",
            ),
        ],
    )
    caption = "Figure 5 for g = π/4 sin 0.1 t: path, wheel rates, speed"
    family = "The path for four amplitudes of the swing"
    pictures = [
        Picture("trailer_hitch_swing", caption, partial(draw_hitch, runs["π/4"])),
        Picture("trailer_hitch_amplitudes", family, partial(draw_family, runs)),
    ]
    return Content(pictures, [claims, Table(("amplitude", "`X` [m]", "`Y` [m]", "`psi`", "largest `V` [m/s]"), rows)])


def draw_hitch(result: Run) -> Figure:
    """Path, wheel rates and speed; the path stands beside the curves, above them where it is wide."""
    state, outputs = result.state, result.outputs()
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
A target runs along a closed epicycloid with five cusps, and stops for an instant at each. The robot starts at rest, 2 m
away, points at the target and drives the faster the farther the target is beyond those 2 m. Numbers are for one period
of the target, 40π s, continuous.
""",
        pursuit,
        """
The paper prints the target with 0.31 where 0.3 t is meant, and gives no place for the robot at the start. Only 0.3 t
closes the curve and puts a cusp at t = 0, from which a start at rest is possible. The origin, 2 m from the target, is
the natural reading of the second.
""",
    ),
    Entry(
        "trailer_plain_laws",
        "trailer",
        "Why the printed laws are not used as they are",
        ("trailer_pursuit",),
        ("servonode simulate trailer_pursuit --set controller.settings.variant=plain --set controller.period=0.02",),
        """
The paper replaces the finite constraint "the heading points at the target" by its derivative, and this once more by
its own: the laws are exact on exact data, and keep or integrate every error otherwise. Four variants of the pursuit:
`literal` is the torque as printed, `plain` asks for a second derivative of zero, `differential` for a derivative that
vanishes, `finite` stabilises the constraint itself and is what servonode takes. The wrong start is a heading of 0.1 rad
and a yaw rate of 0.02 rad/s, towards a target that runs straight away at 0.3 m/s.
""",
        plain_laws,
        """
The paper shows no run from a wrong start and none with held torques, so there is no figure of its own to compare with;
these runs refute its remark that a finite program may always be replaced by its derivative.
""",
    ),
    Entry(
        "trailer_hitch_turning",
        "trailer",
        "Figure 4: the hitch turns steadily",
        ("trailer_hitch_turning",),
        ("servonode run trailer_hitch_turning",),
        """
Opposed torques keep the hitch angle at g = 0.1 t; the speed is not prescribed. With the robot's centre of mass on its
axle (d1 = 0) the speed follows from V √Δ = const. 200 s, continuous.
""",
        turning,
        """
The paper's table has the robot's centre of mass 0.3 m ahead of its axle. With that there is no such figure: the speed
becomes infinite within one turn of the hitch. So it is drawn for d1 = 0. Where an extreme differs from the reference by
one in the last digit, ours lies further out: the rows are closer, every 10 ms.
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
The same with g = g0 sin 0.1 t: a loop left and a loop right in each period, and no net turn. 200 s, continuous.
""",
        swing,
        """
The amplitude g0 is unreadable in the paper: "π" over a lost number. We take π/4, with which the trailer stays well
behind the robot; with π/2 it would stand across, where a real one touches the robot. The text does not decide it, so
the other candidates are drawn as well. As above, d1 = 0.
""",
    ),
)
