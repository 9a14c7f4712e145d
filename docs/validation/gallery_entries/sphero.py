"""The pendulum sphero: pursuit and Bilimovich constraint, after papers of which only abstracts were had."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from gallery_entries.frame import (
    BLUE,
    INK,
    ORANGE,
    RED,
    SIZE,
    TIME,
    Array,
    Content,
    Table,
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


def tilt(result: Run) -> Array:
    """Tilt of the pendulum [degrees]."""
    return np.asarray(np.degrees(result.outputs["theta"]))


def distance(result: Run) -> Array:
    """Distance from the shell's centre to the target [m]."""
    target, state = result.targets, result.state
    return np.asarray(np.hypot(target["x"] - state["X"], target["y"] - state["Y"]))


def pursuit() -> Content:
    """The standard pursuit, continuous and sampled, and another robot on the same path."""
    ideal = exact("sphero_pursuit", controller__settings__kappa=0.0)
    sampled, other = run("sphero_pursuit"), run("sphero_cascade")
    heavy = exact("sphero_pursuit", controller__settings__kappa=0.0, plant__parameters={"M": 2.0, "m": 1.5})
    apart = np.hypot(heavy.state["X"] - ideal.state["X"], heavy.state["Y"] - ideal.state["Y"]).max()
    torques = [np.linalg.norm(each.inputs, axis=0).max() for each in (ideal, sampled)]
    kept = max(np.abs(each).max() for each in ideal.residual.values())
    rows = [
        ("distance, target slower than 0.6 m/s [m]", "1.4 to 2.6", span(distance(ideal)), span(distance(sampled))),
        ("largest residual [m/s]", "0", below(kept), number(max(sampled.residual_max.values()), 2)),
        ("largest tilt [°]", "", fixed(tilt(ideal).max(), 3), fixed(tilt(sampled).max(), 3)),
        ("largest torque [N m]", "", *(fixed(each, 4) for each in torques)),
        ("path with other masses, apart [m]", "", below(apart), ""),
    ]
    heads = ("", "the paper", "continuous, `kappa = 0`", "held for 10 ms")
    return Content({"sphero_pursuit": partial(draw_pursuit, sampled, other)}, [Table(heads, rows)])


def draw_pursuit(result: Run, other: Run) -> Figure:
    figure, axes = mosaic(("pl", "pd", "pt"), height=3.6, width_ratios=(1.25, 1.0))
    axis, state, target = axes["p"], result.state, result.targets
    axis.plot(target["x"], target["y"], "--", color=RED, linewidth=1.0, label="target")
    axis.plot(state["X"], state["Y"], color=BLUE, label="shell's centre")
    axis.quiver(
        *(state[name][::200] for name in ("X", "Y", "n_0", "n_1")),
        color=INK, width=0.005, angles="xy", scale_units="xy", scale=np.radians(2.0), zorder=4,
    )  # fmt: skip
    axis.plot([], [], color=INK, label="lean, 1 m for 2°")
    plane(axis)
    for each, colour, name in ((result, BLUE, "sphero_pursuit"), (other, ORANGE, "sphero_cascade")):
        axes["l"].plot(each.t, tilt(each), color=colour, label=name.removeprefix("sphero_"))
    panel(axes["l"], "lean θ [°]", extra=(0.0,))
    axes["l"].tick_params(labelbottom=False)
    curve(axes["d"], result.t, distance(result), "distance to the target [m]")
    curve(axes["t"], result.t, np.linalg.norm(result.inputs, axis=0), "size of the torque |Q| [N m]", TIME, (0.0,))
    return figure


def undamped() -> Content:
    """The exact law with a torque that is held: the pendulum is swung up."""
    bad = run("sphero_pursuit", controller__settings__kappa=0.0)
    good = run("sphero_pursuit")
    return Content({"sphero_undamped": partial(draw_undamped, bad, good)}, [])


def draw_undamped(bad: Run, good: Run) -> Figure:
    figure, ((axis,),) = sheet(height=2.1)
    until = bad.t <= (bad.fault["t"] if bad.fault else np.inf)
    axis.plot(bad.t[until], np.maximum(tilt(bad)[until], 1e-2), color=ORANGE, linewidth=0.8, label="κ = 0")
    axis.plot(good.t, np.maximum(tilt(good), 1e-2), color=BLUE, label="κ = 0.05 m/s")
    axis.axhline(75.0, color=INK, linestyle=":", linewidth=1.0)
    axis.text(118.0, 62.0, "fault: 75°", fontsize=SIZE, color=INK, ha="right", va="top")
    decades(axis, "lean of the pendulum θ [°]", -2, 2, TIME)
    return figure


def bilimovich() -> Content:
    """The Bilimovich constraint: the heading is prescribed, the robot coasts."""
    result = exact("sphero_bilimovich", controller__settings__kappa=0.0)
    constant = exact("sphero_bilimovich", controller__settings__kappa=0.0, controller__settings__g_B="0.4")
    (residual,) = result.residual.values()
    state = result.state
    shell = sum(result.input[f"Q_{name}"] * state[f"omega_{i}"] for i, name in enumerate("xyz"))
    momentum = along(constant)
    rows = [
        ("$\\omega_x - g_B\\omega_y$", "0", f"{below(np.abs(residual).max())} rad/s"),
        ("power of the torque on the shell", "0", f"{below(np.abs(shell).max())} W"),
        ("constant $g_B$: $p_x - g_Bp_y$", "conserved", f"to {below(np.ptp(momentum) / np.abs(momentum).max())} of it"),
        ("constant $g_B$: $\\omega_z$", "conserved", f"to {below(np.ptp(constant.state['omega_2']))} rad/s"),
    ]
    heads = ("", "theory", "computed")
    return Content({"sphero_bilimovich": partial(draw_bilimovich, result)}, [Table(heads, rows)])


def along(result: Run) -> Array:
    """The momentum that a constant Bilimovich constraint leaves alone [kg m/s]."""
    p, state, out = result.closed_loop.machine.parameters, result.state, result.outputs
    mu, ml = p["M"] + p["m"] + p["I"] / p["R"] ** 2, p["m"] * p["l"]
    rate_x = state["Omega_1"] * state["n_2"] - state["Omega_2"] * state["n_1"]
    rate_y = state["Omega_2"] * state["n_0"] - state["Omega_0"] * state["n_2"]
    return np.asarray(mu * out["v_x"] + ml * rate_x - 0.4 * (mu * out["v_y"] + ml * rate_y))


def draw_bilimovich(result: Run) -> Figure:
    figure, axes = mosaic(("pp", "sh"), height=2.7, height_ratios=(0.62, 1.0))
    state, out = result.state, result.outputs
    axes["p"].plot(state["X"], state["Y"], color=BLUE)
    plane(axes["p"], "path of the shell's centre")
    axes["p"].locator_params(axis="y", nbins=3)
    curve(axes["s"], result.t, np.hypot(out["v_x"], out["v_y"]), "speed v [m/s]", TIME, (0.0, 0.5))
    curve(axes["h"], result.t, -np.arctan2(state["omega_0"], state["omega_1"]), "heading [rad]", TIME)
    return figure


ENTRIES = {"sphero_pursuit": pursuit, "sphero_undamped": undamped, "sphero_bilimovich": bilimovich}
