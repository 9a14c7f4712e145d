"""Stabilisation of constraints: the statements of Gorshkov, tried on the look-ahead point of the robot with trailer."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import expm

import servonode
from gallery_entries.frame import (
    BLUE,
    INK,
    ORANGE,
    TIME,
    Array,
    Content,
    Entry,
    Picture,
    Source,
    Table,
    below,
    decades,
    exact,
    fixed,
    sheet,
)
from servonode.record.run import Run

SOURCE = Source(
    "theory",
    "Stabilised constraints",
    "E. A. Gorshkov, *Research of stability of integral variety for perturbation of constraints with constant "
    "coefficients* (in Russian), Peoples' Friendship University of Russia, received June 2008. Compare "
    "J. Baumgarte, *Stabilization of constraints and integrals of motion in dynamical systems*, Comp. Meth. Appl. "
    "Mech. Eng. 1, 1972, pp. 1-16.",
    """
It has no figure of a motion that we know of; its statements can be tested. Runs are `trailer_look_ahead` begun 0.3 m
beside its wave: two residuals of relative degree 2, f'' = −K1 f' − K0 f.
""",
)
K1, K0 = [[2.0, -5.0], [5.0, 2.0]], [[1.0, -6.0], [1.0, 1.0]]
INERTIA, DISSIPATION, STIFFNESS = [[2.0, 0.5], [0.5, 1.0]], [[1.0, 0.2], [0.2, 1.5]], [[3.0, 1.0], [1.0, 2.0]]
START: dict[str, Any] = {"plant__initial": {"Y": 0.3}}


def roots(k1: Any, k0: Any) -> Array:
    """Eigenvalues of f'' = -k1 f' - k0 f, by their real parts, the largest first [1/s]."""
    k1, k0 = np.atleast_2d(k1), np.atleast_2d(k0)
    n = len(k0)
    system = np.block([[np.zeros((n, n)), np.eye(n)], [-k0, -k1]])
    found = np.linalg.eigvals(system)
    return np.asarray(found[np.argsort(-found.real)])


def look_ahead(**gains: Any) -> Run:
    return exact("trailer_look_ahead", controller__gains=gains, **START)


def residuals(result: Run) -> Array:
    """The residuals (2, rows) [m]."""
    return np.array(list(result.residual.values()))


def rates(result: Run) -> Array:
    """Their rates (2, rows) [m/s], from the motion: velocity of the point less that of the target."""
    state, L, t = result.state, 0.3, result.t
    ahead, left = (np.cos(state["psi"]), np.sin(state["psi"])), (-np.sin(state["psi"]), np.cos(state["psi"]))
    point = [state["V"] * a + L * state["Omega"] * b for a, b in zip(ahead, left, strict=True)]
    return np.array([point[0] - 0.3, point[1] - 0.2 * np.cos(0.4 * t)])


def exchange() -> Content:
    """The characteristic equation with its two gains exchanged."""
    result = look_ahead(K0=K0, K1=K1)
    f, df = residuals(result), rates(result)
    system = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.array(K0), -np.array(K1)]])
    begin = np.array([*f[:, 0], *df[:, 0]])
    closed = np.array([expm(system * t) @ begin for t in result.t[::50]]).T
    off = np.abs(closed[:2] - f[:, ::50]).max()
    late = (result.t > 15.0) & (result.t < 35.0)
    slope = np.polyfit(result.t[late], np.log(np.hypot(*f)[late]), 1)[0]
    report = servonode.check("trailer_look_ahead", controller__gains={"K0": K1, "K1": K0})
    printed, right = roots(K0, K1), roots(K1, K0)
    twice, wrong = roots(10.0, 25.0), roots(25.0, 10.0)
    rows = [
        ("λ = 5, K1 = 10, K0 = 25: roots as printed [1/s]", "−0.41, −24.6", ", ".join(fixed(x.real, 2) for x in wrong)),
        ("the same, right", "−5, −5", ", ".join(fixed(x.real, 2) for x in twice)),
        ("the matrices below: largest real part as printed [1/s]", "0.629: unstable", fixed(printed[0].real, 3)),
        ("the same, right", "−0.215: stable", fixed(right[0].real, 3)),
        ("decay of the residuals in the run, 15 s to 35 s [1/s]", "", fixed(slope, 3)),
        ("residuals less the matrix exponential", "0", f"{below(off)} m"),
        ("K0 and K1 exchanged in the launch file", "", f"verdict *{report.verdict}*: {refusals(report)}"),
    ]
    caption = "Residuals with the gains that the printed equation calls unstable, and their slowest root"
    return Content(
        [Picture("theory_exchange", caption, partial(draw_exchange, result, float(right[0].real)))],
        [Table(("", "by hand", "computed"), rows)],
    )


def refusals(report: Any) -> str:
    return "; ".join(each.text for each in report.findings if each.level == "refuse")


def draw_exchange(result: Run, slowest: float) -> Figure:
    figure, ((axis,),) = sheet(height=2.1)
    for (name, values), colour in zip(result.residual.items(), (BLUE, ORANGE), strict=True):
        axis.plot(result.t, np.abs(values), color=colour, label=name.replace("_", " along "))
    axis.plot(result.t, 0.4 * np.exp(slowest * result.t), ":", color=INK, label=f"0.4 exp(−{-slowest:.3f} t)")
    decades(axis, "size of the residuals [m]", -6, 0, TIME)
    return figure


def lyapunov() -> Content:
    """Symmetric positive inertia, dissipation and stiffness of the constraints are stable."""
    result = look_ahead(inertia=INERTIA, dissipation=DISSIPATION, stiffness=STIFFNESS)
    f, df = residuals(result), rates(result)
    a, c, k = (np.array(each) for each in (INERTIA, DISSIPATION, STIFFNESS))
    energy = 0.5 * np.einsum("it,ij,jt->t", df, a, df) + 0.5 * np.einsum("it,ij,jt->t", f, k, f)
    lost = np.einsum("it,ij,jt->t", df, c, df)
    spent = np.concatenate([[0.0], np.cumsum((lost[1:] + lost[:-1]) / 2 * np.diff(result.t))])
    largest = roots(np.linalg.solve(a, c), np.linalg.solve(a, k))[0].real
    rows = [
        ("½ f'ᵀ a f' + ½ fᵀ k f", "never rises", rises(energy)),
        ("the same plus what c has taken", "constant", f"to {below(np.ptp(energy + spent) / energy[0])} of it"),
        ("largest real part of the roots [1/s]", "negative", fixed(float(largest), 3)),
    ]
    caption = "The energy of the constraints falls, whatever the machine does"
    return Content(
        [Picture("theory_lyapunov", caption, partial(draw_lyapunov, result.t, energy))],
        [Table(("", "the paper", "this run"), rows)],
    )


def rises(energy: Array) -> str:
    """Whether a falling quantity ever rises, by more than rounding does."""
    rise = float(np.diff(energy).max())
    falls = rise <= 1e-15 * energy[0]
    return "falls from row to row, never rises" if falls else f"rises from row to row, by {below(rise)} at most"


def draw_lyapunov(t: Array, energy: Array) -> Figure:
    figure, ((axis,),) = sheet(height=1.9)
    axis.plot(t, energy, color=BLUE)
    decades(axis, "energy of the constraints, ½ f'ᵀ a f' + ½ fᵀ k f [m²/s²]", -10, 0, TIME, every=2)
    return figure


ENTRIES = (
    Entry(
        "theory_exchange",
        "theory",
        "The printed characteristic equation has its gains exchanged",
        ("trailer_look_ahead",),
        (
            "servonode check trailer_look_ahead --set controller.gains.K0=[[1.0,-6.0],[1.0,1.0]] "
            "--set controller.gains.K1=[[2.0,-5.0],[5.0,2.0]]",
        ),
        """
Equation (16) and the one after it have the letters k and b exchanged. K1 = ((2, −5), (5, 2)), K0 = ((1, −6), (1, 1)):
""",
        exchange,
    ),
    Entry(
        "theory_lyapunov",
        "theory",
        "Inertia, dissipation and stiffness of the constraints",
        ("trailer_look_ahead",),
        (
            "servonode check trailer_look_ahead --set controller.gains.inertia=[[2.0,0.5],[0.5,1.0]] "
            "--set controller.gains.dissipation=[[1.0,0.2],[0.2,1.5]] "
            "--set controller.gains.stiffness=[[3.0,1.0],[1.0,2.0]]",
        ),
        """
With an inertia a, a dissipation c and a stiffness k that are symmetric and positive definite the constraint is stable.
""",
        lyapunov,
        """
Coefficients that depend on the state: the paper's equations would need more terms.
""",
    ),
)
