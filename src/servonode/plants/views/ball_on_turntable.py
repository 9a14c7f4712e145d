"""The ball on its plate, and the ball by itself, from above."""

import numpy as np

from servonode.plants.view import Points, Values, View, circle, turned_by

PLATE = 4.0  # radius of the drawn plate in ball radii
FORCE = "friction of the plate"


def _turned(values: Values) -> Points:
    """The ball's axes (3, 3) as columns."""
    return turned_by([values[f"q_{i}"] for i in range(4)])


def _marks(values: Values) -> list[Points]:
    """What is painted on a ball of radius 1, as seen from above: two great circles, and its pole, a dot."""
    axes, angle = _turned(values), np.linspace(0.0, 2 * np.pi, 97)
    circles = [axes[:, [i, j]] @ np.array([np.cos(angle), np.sin(angle)]) for i, j in ((0, 1), (0, 2))]
    pole = axes[:, 2]
    return [*(each for circle in circles for each in _upper(circle)), *([pole[None, :2]] if pole[2] > 0 else [])]


def _upper(circle: Points) -> list[Points]:
    """The pieces (n, 2) of a closed curve (3, n) whose z is positive."""
    seen = np.flatnonzero(circle[2] >= 0)
    pieces = np.split(seen, np.flatnonzero(np.diff(seen) > 1) + 1)
    return [circle[:2, each].T for each in pieces if len(each) > 1]


def outline(values: Values, parameters: Values) -> list[Points]:
    """Polylines (n, 2) [m] of the ball from above and of what is painted on its upper half."""
    centre, a = np.array([values["x"], values["y"]]), parameters["a"]
    return [circle(centre, a), *(centre + a * each for each in _marks(values))]


def _frames(values: Values, parameters: Values) -> dict[str, Points]:
    """The ball at its centre, and the plate, which turns."""
    centre = np.array([values["x"], values["y"], parameters["a"]])
    c, s = np.cos(values["turn"]), np.sin(values["turn"])
    plate = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0]])
    return {"ball": np.column_stack([_turned(values), centre]), "plate": plate}


def _plate_guides(values: Values, parameters: Values) -> list[Points]:
    """A circle of the plate, its axis, and a mark on it that turns."""
    radius, at = PLATE * parameters["a"], values["turn"]
    mark = np.array([[0.85], [1.0]]) * np.array([np.cos(at), np.sin(at)])
    axis = 0.05 * radius * np.array([[-1.0, 0.0], [1.0, 0.0]])
    return [circle(np.zeros(2), radius), radius * mark, axis, axis[:, ::-1]]


def _friction(values: Values, _parameters: Values) -> dict[str, tuple[Points, Points]]:
    return {FORCE: (np.array([values["x"], values["y"]]), np.array([values["F_x"], values["F_y"]]))}


def _close(values: Values, parameters: Values) -> list[Points]:
    a = parameters["a"]
    return [circle(np.zeros(2), a), *(a * each for each in _marks(values))]


def _place(values: Values, _parameters: Values) -> str:
    return f"x {values['x']:.2f}, y {values['y']:.2f}".replace("-", "\u2212")


VIEW = (
    View(title="from above", trails={"centre of the ball": ("x", "y")}, outline=outline, guides=_plate_guides,
         arrows=_friction, frames=_frames),
    View(title="the ball from above", outline=_close, strip=True, caption=_place),
)  # fmt: skip
