"""The sphero from above, its direction n, and its shell upright."""

from collections.abc import Callable
from functools import partial

import numpy as np

from servonode.plants.view import (
    Points,
    Values,
    View,
    Wanted,
    circle,
    leaning_by,
    line_through,
    shown_larger,
    turned_by,
)


def outline(values: Values, parameters: Values) -> list[Points]:
    """Polylines (n, 2) [m] of the shell and of the line along n from its centre to its surface, from above."""
    centre, R = np.array([values["X"], values["Y"]]), parameters["R"]
    return [circle(centre, R), centre + R * np.array([[0.0, 0.0], _lean(values)])]


def _lean(values: Values) -> Points:
    """The horizontal part of n."""
    return np.array([values["n_0"], values["n_1"]])


def _friction(values: Values, _parameters: Values) -> dict[str, tuple[Points, Points]]:
    return {FRICTION: (np.array([values["X"], values["Y"]]), np.array([values["N_x"], values["N_y"]]))}


def _frames(values: Values, parameters: Values) -> dict[str, Points]:
    """The shell, and the pendulum: its z axis against n, which hangs down at rest, its x axis nearest to x."""
    centre = np.array([values["X"], values["Y"], parameters["R"]])
    up = -np.array([values["n_0"], values["n_1"], values["n_2"]])
    ahead = np.cross([0.0, 1.0, 0.0], up)
    ahead = ahead / np.hypot(np.hypot(*ahead[:2]), ahead[2])
    turned = turned_by([values[f"q_{i}"] for i in range(4)])
    return {
        "shell": np.column_stack([turned, centre]),
        "pendulum": np.column_stack([ahead, np.cross(up, ahead), up, centre]),
    }


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


def _leaning(values: Values, factor: float) -> Points:
    """n (3,) with its angle from where it hangs times a factor."""
    across = _lean(values)
    size = float(np.hypot(*across))
    if factor == 1.0 or size == 0.0:
        return np.array([*across, values["n_2"]])
    angle = factor * np.arctan2(size, -values["n_2"])
    return np.array([*(np.sin(angle) / size * across), -np.cos(angle)])


def _upright(title: str, across: Callable[[Values], Points], factor: float = 1.0) -> View:
    """The shell, the line along n and the pendulum's centre of mass, a dot, in a vertical plane; n leans `factor` times
    as far as it does.
    """

    def shell(values: Values, parameters: Values) -> list[Points]:
        R, centre = parameters["R"], np.array([0.0, parameters["R"]])
        leaning = _leaning(values, factor)
        n = np.array([across(values) @ leaning[:2], leaning[2]])
        return [circle(centre, R), np.array([centre, centre + R * n]), (centre + parameters["l"] * n)[None]]

    def guides(_values: Values, parameters: Values) -> list[Points]:
        R = parameters["R"]
        return [R * np.array([[-1.3, 0.0], [1.3, 0.0]]), R * np.array([[0.0, 0.0], [0.0, 1.0]])]

    def friction(values: Values, _parameters: Values) -> dict[str, tuple[Points, Points]]:
        force = across(values) @ np.array([values["N_x"], values["N_y"]])
        return {FRICTION: (np.zeros(2), np.array([force, 0.0]))}

    def lean(values: Values, _parameters: Values) -> float:
        return float(np.arctan2(across(values) @ _lean(values), -values["n_2"]))

    def caption(values: Values, parameters: Values) -> str:
        return leaning_by("lean", lean(values, parameters))

    return View(
        shell,
        title=shown_larger(title, "lean", factor),
        axes=("", "height [m]"),
        guides=guides,
        arrows=friction,
        strip=True,
        caption=caption,
        lean=lean,
        magnified=partial(_upright, title, across),
    )


def wanted(asked: Wanted) -> dict[str, Points]:
    """The line or circle on which the programs of these names keep the centre."""
    settings = asked.settings
    if asked.program not in ("line", "circle"):
        return {}
    point = np.array([settings["point_0"], settings["point_1"]])
    if asked.program == "circle":
        return {"wanted circle": circle(point, settings["radius"], 181)}
    along = np.array([settings["direction_0"], settings["direction_1"]])
    return {"wanted line": line_through(point, along, asked.low, asked.high)}


FRICTION = "friction of the floor"
VIEW = (
    View(
        title="from above",
        trails={"robot": ("X", "Y")},
        goal=("x", "y"),
        outline=outline,
        arrows=_friction,
        paths=wanted,
        frames=_frames,
    ),
    View(
        title="direction n from above",
        trails={"n": ("n_0", "n_1")},
        axes=("n₀, along x", "n₁, along y"),
        outline=_direction,
        arrows=_push,
        arrow_unit="N m",
    ),
    _upright("from its right, the way ahead to the right", _ahead),
    _upright("from behind, the way ahead into the picture", _right),
)
