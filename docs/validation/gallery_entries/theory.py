"""Stabilisation of constraints: the statements of Gorshkov, tried on the look-ahead point of the robot with trailer."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import expm

import servonode
from gallery_entries.frame import (
    BLUE,
    HEADS,
    INK,
    ORANGE,
    TIME,
    Array,
    Content,
    Table,
    below,
    decades,
    exact,
    fixed,
    sheet,
)
from servonode.record.run import Run

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
    report = servonode.check("trailer_look_ahead", controller__gains={"K0": K1, "K1": K0})
    printed, right = roots(K0, K1), roots(K1, K0)
    rows = [
        ("largest real part of the roots as printed [1/s]", "0.629, unstable", fixed(printed[0].real, 3)),
        ("of the right ones", "−0.215, stable", fixed(right[0].real, 3)),
        ("residuals less the matrix exponential", "", f"{below(off)} m"),
        ("the same gains exchanged in the launch file", "", f"verdict {report.verdict}: {refusals(report)}"),
    ]
    draw = partial(draw_exchange, result, float(right[0].real))
    return Content({"theory_exchange": draw}, [Table(("", "by hand", "computed"), rows)])


def refusals(report: Any) -> str:
    return "; ".join(each.text.split(":")[0] for each in report.findings if each.level == "refuse")


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
        ("$\\frac12f'^Taf' + \\frac12f^Tkf$", "never rises", rises(energy)),
        ("the same and what $c$ has taken", "constant", f"to {below(np.ptp(energy + spent) / energy[0])} of it"),
        ("largest real part of the roots [1/s]", "negative", fixed(float(largest), 3)),
    ]
    return Content({"theory_lyapunov": partial(draw_lyapunov, result.t, energy)}, [Table(HEADS, rows)])


def rises(energy: Array) -> str:
    """Whether a falling quantity ever rises, by more than rounding does."""
    rise = float(np.diff(energy).max())
    falls = rise <= 1e-15 * energy[0]
    return "never rises" if falls else f"rises from row to row, by {below(rise)} at most"


def draw_lyapunov(t: Array, energy: Array) -> Figure:
    figure, ((axis,),) = sheet(height=1.9)
    axis.plot(t, energy, color=BLUE)
    decades(axis, "energy of the constraints, ½ f'ᵀ a f' + ½ fᵀ k f [m²/s²]", -10, 0, TIME, every=2)
    return figure


ENTRIES = {"theory_exchange": exchange, "theory_lyapunov": lyapunov}
