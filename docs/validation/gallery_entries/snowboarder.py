"""The snowboarder: figures 2 to 4 of Kaspirovich and Mukharlyamov, and what their text leaves out."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import servonode
from gallery_entries.frame import (
    BLUE,
    GREY,
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
    below,
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

SOURCE = Source(
    "snowboarder",
    "Snowboarder",
    "I. E. Kaspirovich, R. G. Mukharlyamov, *Stabilization and control of the simplest model of a snowboarder* (in "
    "Russian), Peoples' Friendship University of Russia.",
    """
Figures 2 to 4 are here in shape only: the paper gives no masses, lengths, slope, path, gains, start, time span or
method, so no number can be compared. [Errata](errata.md#snowboarder).
""",
)
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
    claims = Table(
        ("", "the paper", "this run"),
        [
            (
                "the body rocks in step with the path",
                "stated",
                f"largest elevation where `y0` is {fixed(wave(result)[np.argmax(out['psi1'])], 2)} m: "
                "in phase with the heading, a quarter wave ahead of the path",
            ),
            ("the force along x0 is a muscle's", "stated", f"{span(force['F_t'], 2)} N from outside; a rider has none"),
        ],
    )
    caption = (
        "Figures 2 to 4, in shape: path, elevation and azimuth over time; the waves get shorter as the speed grows"
    )
    picture = Picture("snowboarder_slalom", caption, partial(draw_slalom, result))
    return Content([picture], [claims])


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
    needed = needed_moment(paper, upright)
    falls = run("snowboarder_falls")
    rows = [
        (
            "released upright, acceleration of the board [m/s²]",
            fixed(rates[0]["v"], 3),
            fixed(rates[1]["v"], 3),
        ),
        ("the same, of the pitch [rad/s²]", fixed(rates[0]["theta_dot"], 3), fixed(rates[1]["theta_dot"], 3)),
        ("moment that a straight run needs [N m]", fixed(needed, 2), fixed(needed_moment(full, upright), 2)),
    ]
    caption = "Nobody balances: pitch and lean of a body that falls, with the full weight, and with the paper's"
    other = run("snowboarder_falls", plant__settings__gravity="paper")
    heads = ("", "the paper's potential", "full weight")
    return Content(
        [Picture("snowboarder_weight", caption, partial(draw_weight, falls, other))],
        [Table(heads, rows)],
    )


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

    caption = "The joint's moment and the centre of pressure, upright and leaning; dotted: the edges of the board"
    return Content(
        [Picture("snowboarder_carve", caption, partial(draw_pose, upright, out, carve, carved))],
        [],
    )


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
        (0.02, 0.0, "relative"), (0.01, 0.0, "relative"), (0.005, 0.0, "relative"), (0.01, 0.5, "relative"),
        (0.01, 0.0, "total"), (0.01, 0.5, "total"),
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
    heads = ("period [s]", "`c_y` [1/m]", "inputs", "largest f1", "largest offset [m]")
    wrong = {c_y: wrong_start(c_y) for c_y in (0.0, 0.5)}
    left = {c_y: float((each.state["y0"] - wave(each))[-1]) for c_y, each in wrong.items()}
    starts = Table(
        ("a wrong start, continuous: offset after 6 s", "this run"),
        [
            ("`c_y` = 0, the paper's", f"{fixed(left[0.0], 12)} m"),
            ("`c_y` = 0.5 1/m", f"{below(left[0.5])} m"),
        ],
    )
    caption = "Offset from the path: held torques without and with `c_y` (left), after a wrong start (right)"
    return Content(
        [Picture("snowboarder_offset", caption, partial(draw_offsets, shown, wrong))], [Table(heads, rows), starts]
    )


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
    colours = dict(zip(shown, (GREY, ORANGE, GREY, PURPLE, SKY, BLUE), strict=True))
    for name, result in list(shown.items())[1:2] + list(shown.items())[3:]:
        off = result.state["y0"] - wave(result)
        left.plot(
            result.t,
            off,
            color=colours[name],
            label=name.removeprefix("10 ms, ").replace("c_y", "$c_y$").replace(", ", "/m, "),
        )
    panel(left, "torques held for 10 ms", TIME, inside="upper left")
    left.set_ylabel("offset from the path y₀ − f(x₀) [m]")
    for c_y, result in wrong.items():
        colour = BLUE if c_y else ORANGE
        right.plot(result.t, result.state["y0"] - wave(result), color=colour, label=f"$c_y$ = {c_y:g}/m")
    panel(right, "wrong start", TIME, extra=(0.0,))
    return figure


ENTRIES = (
    Entry(
        "snowboarder_slalom",
        "snowboarder",
        "Figures 2 to 4: the slalom",
        ("snowboarder_slalom", "snowboarder_slalom_lockstep", "snowboarder_literal"),
        (
            "servonode simulate snowboarder_slalom --control continuous --set plant.settings.input_set=relative "
            "--set controller.settings.actuation=ideal --set controller.settings.c_y=0 --report slalom.png",
        ),
        """
The board follows a sine down the slope; the body rocks fore and aft in the board's plane. Ideal servo-constraints, 8 s.
""",
        slalom,
        """
The paper's curves in size. Its angles mean nothing with the body upright, five times in this run; here they are
outputs. `snowboarder_literal` has its constraints word for word.
""",
    ),
    Entry(
        "snowboarder_weight",
        "snowboarder",
        "The body's weight, which the paper leaves out",
        ("snowboarder_falls",),
        (
            "servonode simulate snowboarder_falls --report falls.png",
            "servonode simulate snowboarder_falls --set plant.settings.gravity=paper --report paper.png",
        ),
        """
The paper's potential energy has no weight at the body, so nothing topples it, and the weight pulls at the joint
instead. Both are there: `gravity = "full"` and `"paper"`.
""",
        weight,
        """
A run with the kinetic energy as printed: beyond the upright the body has a negative inertia.
""",
    ),
    Entry(
        "snowboarder_carve",
        "snowboarder",
        "Upright in the turns, and leaning into them",
        ("snowboarder_carve", "snowboarder_slalom", "snowboarder_too_weak"),
        ("servonode run snowboarder_carve",),
        """
The paper's body never leans into a turn. The load of joint and board without a lean, and with one that balances the
turn:
""",
        pose,
    ),
    Entry(
        "snowboarder_offset",
        "snowboarder",
        "The direction of the path is held, and not the path",
        ("snowboarder_slalom",),
        ("servonode simulate snowboarder_slalom --set controller.settings.c_y=0 --set controller.period=0.02 --json",),
        """
tan phi0 = f'(x0) compares directions: an offset stays. Feedback of it (`c_y`) and `input_set = "total"` help.
""",
        offsets,
        "A figure of the paper: it shows no wrong start and no held torques.",
    ),
)
