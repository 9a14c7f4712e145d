"""The sphero from above, its direction n, and its shell upright."""

from collections.abc import Callable

import numpy as np

from servonode.plants.view import Points, Values, View, circle


def outline(values: Values, parameters: Values) -> list[Points]:
    """Polylines (n, 2) [m] of the shell and of the line along n from its centre to its surface, from above."""
    centre, R = np.array([values["X"], values["Y"]]), parameters["R"]
    return [circle(centre, R), centre + R * np.array([[0.0, 0.0], _lean(values)])]


def _lean(values: Values) -> Points:
    """The horizontal part of n."""
    return np.array([values["n_0"], values["n_1"]])


def _friction(values: Values, _parameters: Values) -> dict[str, tuple[Points, Points]]:
    return {FRICTION: (np.array([values["X"], values["Y"]]), np.array([values["N_x"], values["N_y"]]))}


def _direction(values: Values, _parameters: Values) -> list[Points]:
    """n from above: its tip, a dot, and the line to it from where it hangs."""
    return [_lean(values)[None], np.array([[0.0, 0.0], _lean(values)])]


def _push(values: Values, _parameters: Values) -> dict[str, tuple[Points, Points]]:
    """What the drive's torque does to the tip of n: Q x n [N m], its horizontal part."""
    n, Q = (np.array([values[name] for name in names]) for names in (("n_0", "n_1", "n_2"), ("Q_x", "Q_y", "Q_z")))
    return {"push of the drive, Q x n": (n[:2], np.cross(Q, n)[:2])}


def _ahead(values: Values) -> Points:
    """Unit vector (2,) along which it rolls; at rest along which it leans, else along which it is pushed, else x."""
    for x, y in (("v_x", "v_y"), ("n_0", "n_1"), ("N_x", "N_y")):
        size = np.hypot(values[x], values[y])
        if size > 1e-6:
            return np.array([values[x] / size, values[y] / size])
    return np.array([1.0, 0.0])


def _right(values: Values) -> Points:
    """Unit vector (2,) to the right of the way ahead."""
    x, y = _ahead(values)
    return np.array([y, -x])


def _upright(title: str, across: Callable[[Values], Points]) -> View:
    """The shell, the line along n and the pendulum's centre of mass, a dot, in a vertical plane at true angles."""

    def shell(values: Values, parameters: Values) -> list[Points]:
        R, centre = parameters["R"], np.array([0.0, parameters["R"]])
        n = np.array([across(values) @ _lean(values), values["n_2"]])
        return [circle(centre, R), np.array([centre, centre + R * n]), (centre + parameters["l"] * n)[None]]

    def guides(_values: Values, parameters: Values) -> list[Points]:
        R = parameters["R"]
        return [R * np.array([[-1.3, 0.0], [1.3, 0.0]]), R * np.array([[0.0, 0.0], [0.0, 1.0]])]

    def friction(values: Values, _parameters: Values) -> dict[str, tuple[Points, Points]]:
        force = across(values) @ np.array([values["N_x"], values["N_y"]])
        return {FRICTION: (np.zeros(2), np.array([force, 0.0]))}

    def caption(values: Values, _parameters: Values) -> str:
        angle = np.degrees(np.arctan2(across(values) @ _lean(values), -values["n_2"]))
        return f"{round(float(angle), 1) + 0.0:+.1f}°"

    axes = ("", "height [m]")
    return View(shell, title=title, axes=axes, guides=guides, arrows=friction, strip=True, caption=caption)


FRICTION = "friction of the floor"
VIEW = (
    View(title="from above", trails={"robot": ("X", "Y")}, goal=("x", "y"), outline=outline, arrows=_friction),
    View(
        title="direction n from above",
        trails={"n": ("n_0", "n_1")},
        axes=("n_0", "n_1"),
        outline=_direction,
        arrows=_push,
        arrow_unit="N m",
    ),
    _upright("from its right, the way ahead to the right", _ahead),
    _upright("from behind, the way ahead into the picture", _right),
)
