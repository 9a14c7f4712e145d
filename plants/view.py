"""How a machine is drawn: which values are its paths, and its outline at an instant. No plotting library here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Values = Mapping[str, float]
Points = npt.NDArray[np.float64]
Outline = Callable[[Values, Values], list[Points]]
Arrows = Callable[[Values, Values], Mapping[str, tuple[Points, Points]]]
Caption = Callable[[Values, Values], str]


@dataclass(frozen=True)
class View:
    """A machine seen in a plane. A machine has one as its `VIEW`, or a tuple of several.

    Its functions are called as f(values, parameters), both by name; values are the states, inputs and outputs of one
    instant.

    outline: polylines (n, 2) [m]; one of a single point is a dot. trails: legend name -> names of the two values that
    make a path [m]. goal: the targets' names that make the goal's path, if there is one. axes: labels. title: what it
    shows, and whence. guides: polylines (n, 2) [m] that are drawn thin, such as a floor. arrows: legend name -> foot
    (2,) [m] and vector (2,) [arrow_unit]. All arrows of a view have one scale, which the picture states; strips with
    the same unit share what is longest.

    strip: instead of one plane, the instants stand side by side, each with its time; the outline is then relative to
    the machine. caption: a few words below each of them.
    """

    outline: Outline
    trails: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    goal: tuple[str, str] | None = None
    axes: tuple[str, str] = ("x [m]", "y [m]")
    title: str = ""
    guides: Outline | None = None
    arrows: Arrows | None = None
    arrow_unit: str = "N"
    strip: bool = False
    caption: Caption | None = None


def circle(centre: Points, radius: float) -> Points:
    """A closed polyline (49, 2) around a centre (2,)."""
    angle = np.linspace(0.0, 2 * np.pi, 49)
    points: Points = centre + radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return points
