"""The snowboarder from above, from behind and from the right."""

from functools import partial

import numpy as np

from servonode.plants.view import Points, Values, View, Wanted, leaning_by, line_through, shown_larger

CURVE = 4000  # points of a curve that is integrated


def outline(values: Values, parameters: Values) -> list[Points]:
    """Polylines (n, 2) [m] of the board, its nose pointed, and of the body projected onto the slope, from above."""
    half, width, height = parameters["l0"] / 2, parameters["half_width"], parameters["l1"]
    nose, tail = half - width, -half
    board = np.array([[tail, -width], [nose, -width], [half, 0.0], [nose, width], [tail, width], [tail, -width]])
    body = height * np.array([[0.0, 0.0], _direction(values)[:2]])
    t, b = _axes(values["phi0"])
    return [line @ np.array([t, b]) + np.array([values["x0"], values["y0"]]) for line in (board, body)]


def _axes(phi0: float) -> tuple[Points, Points]:
    """The blade's axes t and b in the slope's axes x0, y0."""
    return np.array([np.cos(phi0), np.sin(phi0)]), np.array([-np.sin(phi0), np.cos(phi0)])


def _direction(values: Values) -> Points:
    """The body's direction in the blade's axes: E_t, E_b, E_n."""
    theta, sigma = values["theta"], values["sigma"]
    return np.array([np.cos(sigma) * np.sin(theta), np.sin(sigma), np.cos(sigma) * np.cos(theta)])


def _frames(values: Values, _parameters: Values) -> dict[str, Points]:
    """The board, and the body, whose z axis is along its direction; their axes are those of the blade when upright."""
    (t, b), e = _axes(values["phi0"]), _direction(values)
    board = np.array([[*t, 0.0], [*b, 0.0], [0.0, 0.0, 1.0]]).T
    c, s = np.cos(values["theta"]), np.sin(values["theta"])
    body = np.column_stack([[c, 0.0, -s], np.cross(e, [c, 0.0, -s]), e])
    place = np.array([values["x0"], values["y0"], 0.0])
    return {"board": np.column_stack([board, place]), "body": np.column_stack([board @ body, place])}


def _along(values: Values, parameters: Values) -> float:
    """The force along the blade [N], thrust less drag."""
    v = values["v"]
    return values["F_t"] - parameters["c1"] * v - parameters["c2"] * abs(v) * v


def _forces(values: Values, parameters: Values) -> dict[str, tuple[Points, Points]]:
    centre, (t, b) = np.array([values["x0"], values["y0"]]), _axes(values["phi0"])
    return {
        "lateral force R of the snow": (centre, values["R"] * b),
        "thrust less drag": (centre, _along(values, parameters) * t),
    }


def _upright(
    title: str, across: tuple[float, float], half: str, angle: tuple[str, str], factor: float = 1.0
) -> View:  # fmt: skip
    """Board, body and its centre of mass, a dot, projected along the slope; `across` is to the right, in t and b. What
    lies to the right is drawn `factor` times as far, force and pressure as well.
    """

    def rider(values: Values, parameters: Values) -> list[Points]:
        E = _direction(values)
        body = parameters["l1"] * np.array([factor * np.dot(across, E[:2]), E[2]])
        board = parameters[half] / (2 if half == "l0" else 1)
        return [np.array([[-board, 0.0], [board, 0.0]]), np.array([0 * body, body]), parameters["n1"] * body[None]]

    def guides(_values: Values, parameters: Values) -> list[Points]:
        return [np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [0.0, parameters["l1"]]])]

    def forces(values: Values, parameters: Values) -> dict[str, tuple[Points, Points]]:
        foot = np.array([factor * np.dot(across, (values["c_t"], values["c_b"])), 0.0])
        sideways = np.dot(across, (_along(values, parameters), values["R"]))
        return {FORCE: (foot, np.array([factor * sideways, values["N"]]))}

    def lean(values: Values, _parameters: Values) -> float:
        return values[angle[1]]

    def caption(values: Values, _parameters: Values) -> str:
        return leaning_by(angle[0], values[angle[1]])

    return View(
        rider,
        title=shown_larger(title, "sideways", factor),
        axes=("", "height [m]"),
        guides=guides,
        arrows=forces,
        strip=True,
        caption=caption,
        lean=lean,
        magnified=partial(_upright, title, across, half, angle),
    )


def wanted(asked: Wanted) -> dict[str, Points]:
    """The slalom, line or curve that the packaged programs ask of the blade."""
    if asked.program == "curve":
        return {"wanted curve": _curve(asked)}
    if asked.program not in ("slalom", "carve", "literal"):
        return {}
    settings = asked.settings
    if settings.get("path") == "line":
        along = np.array([np.cos(settings["chi0"]), np.sin(settings["chi0"])])
        return {"wanted line": line_through(np.array([0.0, settings["y_c"]]), along, asked.low, asked.high)}
    x = np.linspace(asked.low[0], asked.high[0], 400)
    return {"wanted slalom": np.column_stack([x, settings["A"] * np.sin(settings["k"] * x)])}


def _curve(asked: Wanted) -> Points:
    """The curve of given curvature from where the run starts, until it leaves the region."""
    kappa0, kappa1, Lambda, chi0, s0, n0 = (
        float(asked.settings[name]) for name in ("kappa0", "kappa1", "Lambda", "chi0", "s0", "n0")
    )
    s = s0 + np.linspace(0.0, 4 * float(np.hypot(*(asked.high - asked.low))), CURVE)
    chi = chi0 + kappa0 * s + kappa1 * Lambda / (2 * np.pi) * np.sin(2 * np.pi * s / Lambda)
    across = n0 * np.array([-np.sin(chi[0]), np.cos(chi[0])])
    ahead = np.column_stack([np.cos(chi), np.sin(chi)])
    steps = (ahead[1:] + ahead[:-1]) / 2 * np.diff(s)[:, None]
    start = np.array([asked.start["x0"], asked.start["y0"]]) - across
    points: Points = start + np.vstack([np.zeros(2), np.cumsum(steps, axis=0)])
    edge = 0.05 * (asked.high - asked.low)  # the run may start on the region's side
    outside = np.any((points < asked.low - edge) | (points > asked.high + edge), axis=1)
    return points[: int(np.argmax(outside))] if outside.any() else points


FORCE = "force on the board at the snow's centre of pressure"
VIEW = (
    View(
        title="from above",
        trails={"blade": ("x0", "y0")},
        axes=("x₀ [m], down the slope", "y₀ [m]"),
        outline=outline,
        arrows=_forces,
        paths=wanted,
        frames=_frames,
    ),
    _upright("from behind, the slope level", (0.0, -1.0), "half_width", ("lean", "sigma")),
    _upright("from its right, the slope level", (1.0, 0.0), "l0", ("pitch", "theta")),
)
