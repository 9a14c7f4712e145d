"""Instants of a machine side by side, at true scale."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from servonode.plants.view import View
from servonode.views import limits
from servonode.views.outlines import Arrows, draw_shapes
from servonode.views.scene import Scene
from servonode.views.shapes import Shapes, box_of
from servonode.views.sheet import label_axes
from servonode.views.snapshots import digits_of, time_text
from servonode.views.titles import KEY, Head, readable, shortened, text_width

LONGEST_IN_STRIP = 0.6  # of the longest arrow to the extent of what it is drawn on
REACH = 3.0  # of arrows to the size of what they act on, above which it could not be seen beside them
TICK = 0.17  # in; between two numbers of the height
APART = 0.12  # in; between two captions
ROOM = 1.12  # of a snapshot in a strip to what is drawn in it


@dataclass(frozen=True)
class Strip:
    """Snapshots that are drawn side by side.

    half: from the middle of one to its side [m]; bottom, top [m]. clear: whether the arrows leave room for the machine.
    """

    scene: Scene
    view: View
    shapes: list[Shapes]
    arrows: Arrows
    half: float
    bottom: float
    top: float
    clear: bool

    @classmethod
    def of(cls, scene: Scene, view: View, largest: float) -> Self:
        """The snapshots of a run, with the room that they need; an arrow of the largest size is the longest."""
        shapes = [scene.shapes(i, view) for i in scene.instants]
        low, high = box_of([np.zeros((1, 2)), *(line for each in shapes for line in each.bounding(view))])
        arrows = Arrows.of(scene, view, largest, LONGEST_IN_STRIP * float(max(high - low)))
        size = float(max(high - low))
        low, high = box_of([np.array([low, high]), *arrows.tips])
        clear = float(max(high - low)) <= REACH * size
        half = ROOM * (float(max(abs(low[0]), abs(high[0]))) or 1.0)
        return cls(scene, view, shapes, arrows, half, float(low[1]), float(high[1]), clear)

    def height(self, width: float) -> float:
        """The height that it would like for a width, in the same unit."""
        return width * ROOM * (self.top - self.bottom) / (2 * self.half * len(self.shapes))

    def _between(self, width: float, height: float) -> float:
        """The distance of two snapshots [m] in an axis of this size [in]."""
        return max(2 * self.half, ROOM * (self.top - self.bottom) * width / height / len(self.shapes))

    def head(self, width: float, height: float) -> Head:
        """What stands above an axis of this size [in]."""
        right = self.arrows.key_width(width / (self._between(width, height) * len(self.shapes)))
        return Head.of(self.view.title or (" " if right else ""), self.arrows.names, width, right)

    def draw(self, axis: Any, width: float, height: float) -> None:
        """The snapshots side by side at true scale, each above its number, time and caption."""
        between, count = self._between(width, height), len(self.shapes)
        middles = between * np.arange(count)
        shifts = [np.array([middle, 0.0]) for middle in middles]
        for shapes, at in zip(self.shapes, shifts, strict=True):
            draw_shapes(axis, shapes, at, linewidth=1.0)
        per_m = width / (between * count)
        axis.set_xlim(-between / 2, between * (count - 0.5))
        middle = (self.bottom + self.top) / 2
        axis.set_ylim(middle - height / per_m / 2, middle + height / per_m / 2)
        axis.set_aspect("equal", adjustable="box")
        axis.set_xticks(middles, [self._below(i, width / count) for i in range(count)])
        low, high = axis.get_ylim()
        ticks = limits.round_limits([np.array([low, high])], max(int(height / TICK), 1))
        inside = [each for each in zip(ticks.ticks, ticks.texts(), strict=True) if low <= each[0] <= high]
        axis.set_yticks(*zip(*inside, strict=True))
        axis.grid(visible=False, axis="x")
        label_axes(axis, "", self.view.axes[1])
        head = self.head(width, height)
        handles = self.arrows.draw(axis, shifts, width, (head.height - KEY) / height)
        head.draw(axis, handles, self.arrows.key_width(per_m))

    def _below(self, number: int, width: float) -> str:
        """What stands below a snapshot; captions are broken alike where one is wider than the room [in] for it."""
        i, t = self.scene.instants[number], self.scene.run.t
        lines = [f"{number + 1}:  {time_text(float(t[i]), digits_of(self.scene))}"]
        caption = self.shapes[number].caption
        broken = any(text_width(each.caption) > width - APART for each in self.shapes)
        parts = caption.split(", " if ", " in caption else " ") if broken else [caption] * bool(caption)
        lines += [shortened(readable(each), width - 0.03) for each in parts]
        return "\n".join([*lines, *(["fault"] if i in self.scene.fault else [])])

    @property
    def below(self) -> int:
        """How many lines stand below the snapshots at most, in an axis of the full width."""
        return max(self._below(i, 6.0 / len(self.shapes)).count("\n") + 1 for i in range(len(self.shapes)))
