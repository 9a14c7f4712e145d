"""The views of a report picture: the machine's path in a plane, and instants of it side by side."""

from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.plants.view import View
from servonode.views.panels import PALETTE
from servonode.views.scene import Scene

Array = npt.NDArray[np.float64]
Size = tuple[float, float]  # roughly that of an axis, [in]
INK, GOAL, GUIDE = "#1b2733", "#d1495b", "#a9b4be"
ARROWS = ("#e0701a", "#3a9d5d", "#5c4d7d")
LONGEST, LONGEST_IN_STRIP = 0.1, 0.6  # of the longest arrow to the extent of what it is drawn on
UNSEEN = 1e-3  # of an arrow to the largest one, below which it is not drawn
APART = 0.03  # of two numbers to the extent of what they are drawn on
KEY = 0.65  # in; of the label of the arrows' scale
ROOM = 1.12  # of a snapshot in a strip to what is drawn in it
NUMBER: Any = {"fontsize": 7.5, "color": INK, "bbox": {"facecolor": "w", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}}


def draw_map(axis: Any, scene: Scene, view: View, size: Size, numbered: bool) -> None:
    """Paths of machine and goal, with the machine's outline at a few instants, later ones darker."""
    _draw_paths(axis, scene, view)
    arrows = []
    for number, i in enumerate(scene.instants):
        shade = 0.35 + 0.65 * number / max(len(scene.instants) - 1, 1)
        for line in scene.lines(i, view.guides):
            draw_line(axis, line, color=GUIDE, linewidth=0.6, zorder=1)
        for line in scene.lines(i, view.outline):
            draw_line(axis, line, color=INK, linewidth=0.9, alpha=shade, zorder=3)
        arrows.append(scene.arrows(i, view))
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel(view.axes[0])
    axis.set_ylabel(view.axes[1])
    extent = _largest([axis.dataLim.width, axis.dataLim.height])
    if numbered and view.trails:
        _draw_numbers(axis, scene.path(next(iter(view.trails.values())))[:, scene.instants].T, APART * extent)
    largest = scene.largest([view])
    drawn = _draw_arrows(axis, arrows, view, largest, LONGEST * extent, size)
    _entitle(axis, view, KEY / size[0] + LONGEST if drawn else 0.0)


def _draw_numbers(axis: Any, places: Array, apart: float) -> None:
    """Number the instants as in the strips, but for those that stand where another one does."""
    for i, place in enumerate(places):
        if np.isfinite(place).all() and (np.abs(places[:i] - place).max(axis=1, initial=0.0) >= apart).all():
            axis.annotate(str(i + 1), place, (5, 5), textcoords="offset points", zorder=6, **NUMBER)


def _draw_paths(axis: Any, scene: Scene, view: View) -> None:
    for color, (label, pair) in zip(PALETTE, view.trails.items(), strict=False):
        axis.plot(*scene.path(pair), color=color, label=label, zorder=2)
    if not view.goal or not set(view.goal) <= scene.goals.keys():
        return
    goal = np.array([scene.goals[name] for name in view.goal])
    axis.plot(*goal, color=GOAL, linewidth=1.0, linestyle="--", label="target", zorder=1)
    axis.plot(*goal[:, scene.instants], "o", color=GOAL, markersize=4, zorder=4)
    for pair in list(view.trails.values())[:1]:
        for i in scene.instants:
            axis.plot(*np.array([scene.path(pair)[:, i], goal[:, i]]).T, color=GOAL, linewidth=0.5, alpha=0.6)


@dataclass(frozen=True)
class Strip:
    """Snapshots that are drawn side by side.

    largest: of the arrows; longest: how long that one is drawn [m]. half: from the middle to the side [m]; bottom,
    top [m].
    """

    guides: list[list[Array]]
    lines: list[list[Array]]
    arrows: list[dict[str, Array]]
    largest: float
    longest: float
    half: float
    bottom: float
    top: float

    @classmethod
    def of(cls, scene: Scene, view: View, largest: float) -> Self:
        """The snapshots of a run, with the room that they need; an arrow of the largest size is the longest."""
        guides = [scene.lines(i, view.guides) for i in scene.instants]
        lines = [scene.lines(i, view.outline) for i in scene.instants]
        arrows = [scene.arrows(i, view) for i in scene.instants]
        drawn = np.concatenate([np.zeros((1, 2)), *(line for each in (*guides, *lines) for line in each)])
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        longest = LONGEST_IN_STRIP * _largest(np.ptp(drawn, axis=0))
        scale = longest / largest if largest else 0.0
        tips = [foot + part * scale * vector for each in arrows for foot, vector in each.values() for part in (0, 1)]
        drawn = np.vstack([drawn, *tips])
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        half = ROOM * _largest(np.abs(drawn[:, 0]))
        bottom, top = drawn[:, 1].min(), drawn[:, 1].max()
        return cls(guides, lines, arrows, largest, longest, half, float(bottom), float(top))

    def height(self, width: float) -> float:
        """The height that it would like for a width, in the same unit."""
        return width * ROOM * (self.top - self.bottom) / (2 * self.half * len(self.lines))


def draw_strip(axis: Any, scene: Scene, view: View, strip: Strip, size: Size) -> None:
    """The snapshots side by side at true scale, each above its number, time and caption."""
    apart = max(2 * strip.half, ROOM * (strip.top - strip.bottom) * size[0] / size[1] / len(scene.instants))
    middles = apart * np.arange(len(scene.instants))
    arrows = []
    for number, middle in enumerate(middles):
        at = np.array([middle, 0.0])
        for line in strip.guides[number]:
            draw_line(axis, line + at, color=GUIDE, linewidth=0.7, zorder=1)
        for line in strip.lines[number]:
            draw_line(axis, line + at, color=INK, linewidth=1.2, zorder=3)
        arrows.append({name: each + np.array([at, 0.0 * at]) for name, each in strip.arrows[number].items()})
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.0)
    edge = (ROOM - 1) / 2 * (strip.top - strip.bottom)
    corners = [(middles[0] - apart / 2, strip.bottom - edge), (middles[-1] + apart / 2, strip.top + edge)]
    axis.update_datalim(corners)
    axis.set_xticks(middles, [_below(scene, view, number) for number in range(len(middles))])
    axis.grid(visible=False, axis="x")
    axis.set_ylabel(view.axes[1])
    drawn = _draw_arrows(axis, arrows, view, strip.largest, strip.longest, size)
    _entitle(axis, view, KEY / size[0] + strip.longest / (apart * len(middles)) if drawn else 0.0)


def _below(scene: Scene, view: View, number: int) -> str:
    """What stands below a snapshot of a strip."""
    i = scene.instants[number]
    time = f"{number + 1}:  {scene.run.t[i]:.2f} s{', fault' if i in scene.fault else ''}"
    return f"{time}\n{scene.at(i, view.caption)}" if view.caption else time


def draw_line(axis: Any, line: Array, **look: Any) -> None:
    """A polyline; a single point is a dot."""
    dot = {"marker": "o", "markersize": 4.5, "linestyle": "none"} if len(line) == 1 else {}
    axis.plot(line[:, 0], line[:, 1], **look, **dot)


def _draw_arrows(
    axis: Any, snapshots: list[dict[str, Array]], view: View, largest: float, longest: float, size: Size
) -> bool:  # fmt: skip
    """The arrows of all snapshots, one of the largest size as long as said [m], and the scale by one of a round size.

    What nowhere has a length to be seen is not drawn. True where something is.
    """
    least = UNSEEN * largest if largest else np.inf
    seen = [{name: each[name] for name in each if least < np.hypot(*each[name][1]) < np.inf} for each in snapshots]
    names = list(dict.fromkeys(name for each in seen for name in each))
    if not names:
        return False
    scale = largest / longest
    for color, name in zip(cycle(ARROWS), names, strict=False):
        feet, vectors = np.array([each[name] for each in seen if name in each]).transpose(1, 2, 0)
        look: Any = {"color": color, "angles": "xy", "scale_units": "xy", "units": "dots", "width": 1.8, "zorder": 5}
        key = axis.quiver(*feet, *vectors, scale=scale, minlength=0, **look)
        axis.update_datalim((feet + vectors / scale).T)
        axis.plot([], [], color=color, linewidth=2.0, label=name)
    known = round_size(0.7 * largest)
    at, text = (1 - KEY / size[0], 1 + 0.13 / size[1]), f"{known:g} {view.arrow_unit}"
    axis.quiverkey(key, *at, known, text, labelpos="E", color=INK, labelsep=0.05, fontproperties={"size": 8})
    return True


def _entitle(axis: Any, view: View, right: float) -> None:
    """Title and legend above the axis, where they cover nothing; right of them is room, a part of the axis's width."""
    if view.title:
        axis.set_title(view.title, loc="left", fontsize=9, color=INK)
    handles, names = axis.get_legend_handles_labels()
    if handles:
        place: Any = {"loc": "lower right", "bbox_to_anchor": (1 - right, 0.99)}
        axis.legend(handles, names, ncols=len(names), fontsize=8, borderpad=0.2, **place)


def _largest(sizes: Any) -> float:
    """The largest of the sizes that are finite and above zero, 1 without any: something to divide by."""
    found = [float(each) for each in sizes if np.isfinite(each) and each > 0]
    return max(found, default=1.0)


def round_size(size: float) -> float:
    """1, 2 or 5 times a power of ten, at most the size."""
    power = 10.0 ** np.floor(np.log10(size))
    return float(max(each * power for each in (1, 2, 5) if each * power <= size))
