"""The views of a machine: the values of its paths, and its outline at an instant. No plotting library is used here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Values = Mapping[str, float]
Points = npt.NDArray[np.float64]
Outline = Callable[[Values, Values], list[Points]]
Arrows = Callable[[Values, Values], Mapping[str, tuple[Points, Points]]]
Caption = Callable[[Values, Values], str]
Frames = Callable[[Values, Values], Mapping[str, Any]]


@dataclass(frozen=True)
class Wanted:
    """What a program asks of a machine, so that a view can draw the path that it asks for.

    program: its name. settings: its options and parameters by name, defaults included; of a vector `point_0`,
    `point_1`. start: states, by name, at the start. low, high: corners (2,) [m] of the region that is drawn.
    """

    program: str
    settings: Mapping[str, Any]
    start: Values
    low: Points
    high: Points


Paths = Callable[[Wanted], Mapping[str, Points]]
Lean = Callable[[Values, Values], float]


@dataclass(frozen=True)
class View:
    """A view of a machine in a plane. The machine's file has one as `VIEW`, or a tuple of several.

    A `Model` states its drawing by expressions (`drawing=`), which needs no VIEW; one without an outline adds to that
    what is no expression, such as the `paths` that programs ask for: the first VIEW to the first view of the drawing.

    It has a field for each thing that a picture may show; most machines state a few of them.

    Its functions are called as f(values, parameters), both by name; the values are the states, inputs and outputs at
    one instant.

    outline: polylines (n, 2) [m]; a polyline of one point is a dot. trails: legend name -> names of the two values that
    make a path [m]. goal: the targets' names that make the goal's path; without it and `paths` a report draws that of
    the residuals' goals, if their outputs are the two values of a trail. axes: labels. title: what it shows, and
    whence. guides: polylines (n, 2) [m] that are drawn thin, such as a floor. arrows: legend name -> foot (2,) [m] and
    vector (2,) [arrow_unit]. All arrows of a view have one scale, which the picture states; strips with the same unit
    share what is longest.

    strip: instead of one plane, the instants stand side by side, each with its time; the outline is then relative to
    the machine. caption: a few words below each of them.

    paths: of a program, legend name -> polyline (n, 2) [m] of the path that it asks for, {} where it asks for none; an
    endless one is drawn as far as the region goes.

    projection: (2, 3), the directions across and up of a picture of what moves in space, in the ground's axes; lines,
    guides, arrows and paths are then of points (n, 3), trails and goal name three values.

    inertias: polylines as the guides, which belong to the machine: they are in the picture as a whole, and bodies with
    their own shapes are drawn instead of them.

    frames: of the bodies, name -> (x, y, angle) in the view's plane, or the matrix (3, 4) of rotation and place
    in the ground's axes. Pictures do not show them, other tools do; the first is the one that travels.

    lean: the angle [rad] that a strip shows. magnified: of a factor -> the same view with its lean that many times as
    large, its title says so; a picture asks for it where the lean is too small to be seen.
    """

    outline: Outline | None = None
    trails: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    goal: tuple[str, ...] | None = None
    axes: tuple[str, str] = ("x [m]", "y [m]")
    title: str = ""
    guides: Outline | None = None
    arrows: Arrows | None = None
    arrow_unit: str = "N"
    strip: bool = False
    caption: Caption | None = None
    paths: Paths | None = None
    lean: Lean | None = None
    magnified: Callable[[float], "View"] | None = None
    projection: Points | None = None
    inertias: Outline | None = None
    frames: Frames | None = None

    @property
    def size(self) -> int:
        """How many numbers a point has."""
        return 2 if self.projection is None else 3

    def flat(self, points: Points) -> Points:
        """Points (n, 2) of the picture from those that the view gives, (n, size)."""
        return points if self.projection is None else points @ self.projection.T

    def path(self, columns: Mapping[str, Points], names: tuple[str, ...]) -> Points:
        """The path (n, 2) of the values of a trail or goal."""
        return self.flat(np.column_stack([columns[name] for name in names]))

    @property
    def plane(self) -> Points:
        """The view's directions (3, 3) across, up and to the eye in the ground's axes; upright if the second is z."""
        upright = self.axes[1].startswith("z")
        return np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]] if upright else np.eye(3), float)

    def in_space(self, points: Points) -> Points:
        """Points (n, 3) in the ground's axes from those that the view gives, (n, size)."""
        return points if self.projection is not None else points @ self.plane[:2]

    def poses(self, values: Values, parameters: Values) -> dict[str, Points]:
        """Rotation and place (3, 4) of each of its frames in the ground's axes."""
        given = self.frames(values, parameters) if self.frames else {}
        return {name: self._pose(np.asarray(stated, float)) for name, stated in given.items()}

    def _pose(self, stated: Points) -> Points:
        if stated.shape == (3, 4):
            return stated
        x, y, angle = stated
        c, s = np.cos(angle), np.sin(angle)
        turned = self.plane.T @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ self.plane
        return np.column_stack([turned, np.array([x, y]) @ self.plane[:2]])


def circle(centre: Points, radius: float, n: int = 49) -> Points:
    """A closed polyline (n, 2) around a centre (2,)."""
    angle = np.linspace(0.0, 2 * np.pi, n)
    points: Points = centre + radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return points


def turned_by(quaternion: Sequence[float]) -> Points:
    """The axes (3, 3), as columns, that a quaternion (w, x, y, z) turns the ground's axes into."""
    w, x, y, z = quaternion
    return np.array([
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ])  # fmt: skip


def signed(value: float, digits: int, plus: str = "+") -> str:
    """A number with its sign and so many digits after the point; what is rounded to zero has that of `plus`."""
    return f"{round(value, digits) + 0.0:{plus}.{digits}f}".replace("-", "\u2212")


def leaning_by(word: str, angle: float) -> str:
    """The caption of a lean of this name [rad]: its word, and its true size in degrees."""
    return f"{word} {signed(float(np.degrees(angle)), 1)}°"


def shown_larger(title: str, what: str, factor: float) -> str:
    """The title of a view that shows something so many times as large; a factor of 1 is not named."""
    return title if factor == 1.0 else f"{title}, {what} shown x{factor:g}"


def line_or_circle(asked: Wanted, path: str, direction: float) -> dict[str, Points]:
    """The path of a program that follows either, through or about its point (2,), the line along a direction [rad]."""
    point = np.array([asked.settings["point_0"], asked.settings["point_1"]])
    if path == "circle":
        return {"wanted circle": circle(point, asked.settings["radius"], 181)}
    along = np.array([np.cos(direction), np.sin(direction)])
    return {"wanted line": line_through(point, along, asked.low, asked.high)}


def line_through(point: Points, direction: Points, low: Points, high: Points) -> Points:
    """The ends (2, 2) of a line through a point (2,) along a direction (2,) in a region; (0, 2) where it misses it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.sort(np.array([low - point, high - point]) / direction, axis=0)
    crossed = direction != 0.0
    inside = bool(np.all(crossed | ((low <= point) & (point <= high))))
    first, last = reach[0, crossed].max(initial=-np.inf), reach[1, crossed].min(initial=np.inf)
    ends = np.array([first, last]) if inside and first < last and crossed.any() else np.zeros(0)
    points: Points = point + ends[:, None] * direction
    return points
