"""What planes and strips share: a machine's shapes at one instant, arrows with their scale, what they take up."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import numpy as np

from servonode.arrays import Array
from servonode.plants.view import View
from servonode.views.palette import ARROWS, BODY, GUIDE, INK
from servonode.views.scene import Scene
from servonode.views.shapes import UNSEEN, Shapes, is_closed, round_size
from servonode.views.titles import SIZE, text_width

KEY_GAP = 0.06  # in; between the arrow that states the scale and its words
THICK = 0.017  # in; of an arrow's shaft
TIP: dict[str, float] = {"headwidth": 3.6, "headlength": 4.2, "headaxislength": 3.8}  # in widths of the shaft


@dataclass(frozen=True)
class Arrows:
    """The arrows of a view at its instants: those that can be seen, and the scale [unit per m] that all have."""

    at: list[dict[str, Array]]
    names: tuple[str, ...]
    scale: float
    unit: str
    known: float  # size of the arrow that states the scale

    @classmethod
    def of(cls, scene: Scene, view: View, largest: float, longest: float) -> Self:
        """What nowhere has a length to be seen is left out; one of the largest size is drawn as long as said [m]."""
        least = UNSEEN * largest if largest else np.inf
        found = [scene.shapes(i, view).arrows for i in scene.instants]
        seen = [{name: each[name] for name in each if least < np.hypot(*each[name][1]) < np.inf} for each in found]
        names = tuple(dict.fromkeys(name for each in seen for name in each))
        known = round_size(0.7 * largest) if names else 0.0
        return cls(seen, names, largest / longest if names else 1.0, view.arrow_unit, known)

    @property
    def tips(self) -> list[Array]:
        """Both ends of all arrows, (2, 2) each."""
        return [np.array([foot, foot + vector / self.scale]) for each in self.at for foot, vector in each.values()]

    @property
    def text(self) -> str:
        return f"{self.known:g} {self.unit}"

    def key_width(self, per_m: float) -> float:
        """The room [in] that stating the scale takes, at so many inches per metre."""
        return self.known / self.scale * per_m + KEY_GAP + text_width(self.text) + 0.08 if self.names else 0.0

    def draw(self, axis: Any, shifts: Sequence[Array], width: float, above: float) -> list[Any]:
        """Draw them, each instant shifted, with the scale at the right end of the title; handles for the legend.

        width: of the axis [in]; above: of the key, over its height.
        """
        handles, drawn = [], None
        for color, name in zip(cycle(ARROWS), self.names, strict=False):
            feet = np.array([each[name][0] + at for each, at in zip(self.at, shifts, strict=True) if name in each]).T
            vectors = np.array([each[name][1] for each in self.at if name in each]).T
            look: Any = {"color": color, "angles": "xy", "scale_units": "xy", "units": "inches", "zorder": 5}
            drawn = axis.quiver(*feet, *vectors, scale=self.scale, minlength=0, width=THICK, **TIP, **look)
            handles.append(axis.plot([], [], color=color, linewidth=2.0, label=name)[0])
        if drawn is not None:
            at = (1 - (text_width(self.text) + KEY_GAP) / width, 1 + above)
            words: Any = {"labelpos": "E", "color": INK, "labelsep": KEY_GAP, "fontproperties": {"size": SIZE}}
            axis.quiverkey(drawn, *at, self.known, self.text, **words)
        return handles


def draw_shapes(axis: Any, shapes: Shapes, at: Array | float = 0.0, **look: Any) -> None:
    """Guides, inertias, bodies and lines, shifted by this; look: of the lines of the machine."""
    for line in filter(is_closed, shapes.lines):
        axis.fill(*(line + at).T, color=BODY, linewidth=0, zorder=1.6, alpha=look.get("alpha"))  # hides no path
    for line in shapes.thin:
        draw_line(axis, line + at, color=GUIDE, linewidth=0.6, zorder=1.7)
    for line in shapes.lines:
        draw_line(axis, line + at, color=INK, zorder=3, **look)


def draw_line(axis: Any, line: Array, **look: Any) -> None:
    """A polyline; a single point is a dot."""
    dot = {"marker": "o", "markersize": 3, "linestyle": "none"} if len(line) == 1 else {}
    axis.plot(line[:, 0], line[:, 1], **look, **dot)
