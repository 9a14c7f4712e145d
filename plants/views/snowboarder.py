"""The snowboarder from above, from behind and from the right."""

import numpy as np

from servonode.plants.view import Points, Values, View


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


def _upright(title: str, across: tuple[float, float], half: str, angle: tuple[str, str]) -> View:
    """Board, body and its centre of mass, a dot, projected along the slope; `across` is to the right, in t and b."""

    def rider(values: Values, parameters: Values) -> list[Points]:
        E = _direction(values)
        body = parameters["l1"] * np.array([np.dot(across, E[:2]), E[2]])
        board = parameters[half] / (2 if half == "l0" else 1)
        return [np.array([[-board, 0.0], [board, 0.0]]), np.array([0 * body, body]), parameters["n1"] * body[None]]

    def guides(_values: Values, parameters: Values) -> list[Points]:
        return [np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [0.0, parameters["l1"]]])]

    def forces(values: Values, parameters: Values) -> dict[str, tuple[Points, Points]]:
        foot = np.array([np.dot(across, (values["c_t"], values["c_b"])), 0.0])
        force = np.array([np.dot(across, (_along(values, parameters), values["R"])), values["N"]])
        return {"force on the board at the snow's centre of pressure": (foot, force)}

    def caption(values: Values, _parameters: Values) -> str:
        word, name = angle
        return f"{word} {round(float(np.degrees(values[name])), 1) + 0.0:+.1f}°"

    return View(rider, title=title, axes=("", "height [m]"), guides=guides, arrows=forces, strip=True, caption=caption)


VIEW = (
    View(
        title="from above",
        trails={"blade": ("x0", "y0")},
        axes=("x0 [m], down the slope", "y0 [m]"),
        outline=outline,
        arrows=_forces,
    ),
    _upright("from behind, the slope level", (0.0, -1.0), "half_width", ("lean", "sigma")),
    _upright("from its right, the slope level", (1.0, 0.0), "l0", ("pitch", "theta")),
)
