"""The snowboarder: figures 2 to 4 of Kaspirovich and Mukharlyamov, and what their text leaves out."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import servonode
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
    curve,
    exact,
    fixed,
    number,
    panel,
    run,
    sheet,
    span,
)
from servonode.record.run import Run

IDEAL: dict[str, Any] = {
    "plant__settings__input_set": "relative",
    "controller__settings__actuation": "ideal",
    "controller__settings__c_y": 0.0,
}


def wave(result: Run) -> Array:
    """The path's y at the place of the board [m]."""
    return np.asarray(1.5 * np.sin(0.2 * result.state["x0"]))


def slalom() -> Content:
    """Figures 2 to 4."""
    result = exact("snowboarder_slalom", every=4, **IDEAL)
    out, force = result.outputs, result.input
    rows = [
        (
            "largest elevation of the body",
            "in step with the path",
            f"at `y0` = {fixed(wave(result)[np.argmax(out['psi1'])], 2)} m",
        ),
        ("force along $x_0$", "a muscle's", f"{span(force['F_t'], 2)} N from outside"),
    ]
    return Content({"snowboarder_slalom": partial(draw_slalom, result)}, [Table(HEADS, rows)])


def draw_slalom(result: Run) -> Figure:
    figure, axes = sheet(3, 1, height=3.5, sharex=True)
    state, out = result.state, result.outputs
    curves = (
        (state["y0"], "place across the slope y₀ [m]"),
        (out["psi1"], "elevation of the body ψ₁ [rad]; dotted: upright, π/2"),
        (state["phi0"], "heading of the board φ₀, the body's azimuth φ₁ [rad]"),
    )
    for axis, (values, title) in zip(axes[:, 0], curves, strict=True):
        curve(axis, result.t, values, title, TIME if axis is axes[-1, 0] else "")
    axes[1, 0].axhline(np.pi / 2, color=INK, linestyle=":", linewidth=0.9)
    return figure


# what the paper leaves out


def weight() -> Content:
    """The weight of the body, which the paper's potential energy leaves out."""
    paper = servonode.load("snowboarder_falls", plant__settings__gravity="paper")
    full = servonode.load("snowboarder_falls")
    upright = {"v": 0.0, "sigma": 0.0, "theta": 0.0}
    rates = [loop.derivatives(0.0, upright) for loop in (paper, full)]
    falls = run("snowboarder_falls")
    rows = [
        ("released upright: $v'$ [m/s²]", *(fixed(each["v"], 3) for each in rates)),
        ("$\\theta''$ [rad/s²]", *(fixed(each["theta_dot"], 3) for each in rates)),
        ("straight run: $M_\\theta$ [N m]", *(fixed(needed_moment(each, upright), 2) for each in (paper, full))),
    ]
    other = run("snowboarder_falls", plant__settings__gravity="paper")
    heads = ("", '`"paper"`', '`"full"`')
    return Content({"snowboarder_weight": partial(draw_weight, falls, other)}, [Table(heads, rows)])


def needed_moment(loop: Any, state: dict[str, float]) -> float:
    """The moment M_theta [N m] that keeps the pitch: linear in the moment, so by two evaluations."""
    zero, one = (loop.derivatives(0.0, state, {"M_theta": value})["theta_dot"] for value in (0.0, 1.0))
    return float(-zero / (one - zero))


def draw_weight(full: Run, paper: Run) -> Figure:
    figure, ((left, right),) = sheet(1, 2, height=2.0, sharey=True)
    for axis, result, title in ((left, full, "full weight"), (right, paper, "the paper's potential energy")):
        axis.plot(result.t, result.state["theta"], color=BLUE, label="pitch θ")
        axis.plot(result.t, result.state["sigma"], color=ORANGE, label="lean σ")
        panel(axis, title, TIME, extra=(-2.25, 1.0), inside="lower left" if axis is left else "none")
    left.set_ylabel("angle of the body [rad]")
    return figure


def pose() -> Content:
    """Upright against leaning into the turns."""
    options: dict[str, Any] = {"controller__settings__delta": 0.0, "plant__settings__input_set": "relative"}
    upright = exact("snowboarder_slalom", **options)
    carve = exact("snowboarder_carve", **options)
    out, carved = upright.outputs, carve.outputs

    return Content({"snowboarder_carve": partial(draw_pose, upright, out, carve, carved)}, [])


def draw_pose(upright: Run, out: dict[str, Array], carve: Run, carved: dict[str, Array]) -> Figure:
    figure, axes = sheet(2, 1, height=3.0, sharex=True)
    for result, values, colour, name in ((upright, out, ORANGE, "upright"), (carve, carved, BLUE, "leaning")):
        axes[0, 0].plot(result.t, result.input["M_sigma"], color=colour, label=name)
        axes[1, 0].plot(result.t, values["c_b"], color=colour)
    panel(axes[0, 0], "moment of the joint $M_\\sigma$ [N m]")
    panel(axes[1, 0], "centre of pressure $c_b$, to the left of the board's middle [m]; dotted: its edges", TIME)
    for edge in (-0.13, 0.13):
        axes[1, 0].axhline(edge, color=INK, linestyle=":", linewidth=0.9)
    return figure


def offsets() -> Content:
    """The direction of the path is held, not the path."""
    rows, shown = [], {}
    cases = (
        (0.02, 0.0, "relative"), (0.01, 0.0, "relative"), (0.01, 0.5, "relative"), (0.01, 0.0, "total"),
        (0.01, 0.5, "total"),
    )  # fmt: skip
    for period, c_y, inputs in cases:
        result = run(
            "snowboarder_slalom",
            controller__period=period,
            controller__settings__c_y=c_y,
            plant__settings__input_set=inputs,
            every=5,
        )
        shown[f"{period * 1e3:g} ms, c_y = {c_y:g}, {inputs}"] = result
        off = number(np.abs(result.state["y0"] - wave(result)).max(), 3)
        rows.append((f"{period:g}", f"{c_y:g}", f"`{inputs}`", number(result.residual_max["heading"], 3), off))
    heads = ("period [s]", "`c_y` [1/m]", "inputs", "largest `heading`", "largest offset [m]")
    wrong = {c_y: wrong_start(c_y) for c_y in (0.0, 0.5)}
    return Content({"snowboarder_offset": partial(draw_offsets, shown, wrong)}, [Table(heads, rows)])


def wrong_start(c_y: float) -> Run:
    """The slalom from a start on which a bit of everything is wrong."""
    start = on_program()
    for name, more in {"phi0": 0.05, "theta": 0.05, "sigma": 0.1, "theta_dot": 0.1, "sigma_dot": -0.1}.items():
        start[name] += more
    return exact(
        "snowboarder_slalom",
        run__duration=6.0,
        controller__settings__c_y=c_y,
        plant__settings__input_set="relative",
        plant__initial={**start, "on_program": False},
    )


def on_program() -> dict[str, float]:
    """The initial state on the program."""
    return dict(servonode.load("snowboarder_slalom", controller__settings__c_y=0.0).start)


def draw_offsets(shown: dict[str, Run], wrong: dict[float, Run]) -> Figure:
    figure, ((left, right),) = sheet(1, 2, height=2.5)
    at_10_ms = list(shown.items())[1:]
    for (name, result), colour in zip(at_10_ms, (ORANGE, PURPLE, SKY, BLUE), strict=True):
        off = result.state["y0"] - wave(result)
        left.plot(
            result.t,
            off,
            color=colour,
            label=name.removeprefix("10 ms, ").replace("c_y", "$c_y$").replace(", ", "/m, "),
        )
    panel(left, "torques held for 10 ms", TIME, inside="upper left")
    left.set_ylabel("offset from the path y₀ − f(x₀) [m]")
    for c_y, result in wrong.items():
        colour = BLUE if c_y else ORANGE
        right.plot(result.t, result.state["y0"] - wave(result), color=colour, label=f"$c_y$ = {c_y:g}/m")
    panel(right, "wrong start", TIME, extra=(0.0,))
    return figure


ENTRIES = {
    "snowboarder_slalom": slalom,
    "snowboarder_weight": weight,
    "snowboarder_carve": pose,
    "snowboarder_offset": offsets,
}
