"""The picture of a goal's speeds: the largest inputs over their limits, and the speed beyond which one is reached."""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.views.margins import ticks_at
from servonode.views.palette import GOAL, SHADE, SOURCES
from servonode.views.sheet import FULL, PRINT, figure_of, label_axes, wide
from servonode.views.symbols import mathtext
from servonode.views.titles import Head

HEIGHT = 2.6  # in; of the axis
MARGIN = 1.02  # factor beside the slowest and the fastest speed that is shown
DIGITS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # with which ticks begin
MARKS = "osD^v<>p"  # one for each input, so that they differ without colours


@mpl.rc_context(PRINT)
def speeds_figure(
    title: str, speeds: Array, shares: Mapping[str, Array], holds: npt.NDArray[np.bool_], largest: float, note: str
) -> Any:
    """The share of its limit that each input reaches, over the speed of the goal, as a matplotlib Figure.

    holds: at which speeds limits and goal hold, whose marks are filled. largest: the largest of them; 0: none is.
    """
    names = [*(mathtext(each) for each in shares), "limit", "limits or goal do not hold"]
    head = Head.of("largest magnitude of each input, as share of its limit", names, FULL)

    def draw(axis: Any) -> None:
        lines = [_draw_input(axis, i, speeds, each, holds) for i, each in enumerate(shares.values())]
        limit = axis.axhline(100.0, color=GOAL, linestyle="--", linewidth=1.0)
        end = float(speeds[-1])
        beyond = axis.axvspan(largest or float(speeds[0]) / MARGIN, end * MARGIN, color=SHADE, zorder=0)
        beyond.set_visible(largest < end)
        axis.set_xscale("log")
        axis.set_xlim(float(speeds[0]) / MARGIN, end * MARGIN)
        axis.set_ylim(0.0, 108.0)
        ticks_at(axis, [d * 10.0**e for e in range(-3, 5) for d in DIGITS if speeds[0] <= d * 10.0**e <= speeds[-1]])
        label_axes(axis, "speed of the goal, times the launch file's", "share of limit [%]")
        head.draw(axis, [*lines, limit, beyond])

    return figure_of([wide(draw, HEIGHT, head.height)], title, note)


def _draw_input(axis: Any, i: int, speeds: Array, shares: Array, holds: npt.NDArray[np.bool_]) -> Any:
    """The curve of an input, its marks filled where all holds."""
    colour, mark = SOURCES[i % len(SOURCES)], MARKS[i % len(MARKS)]
    (line,) = axis.plot(speeds, 100 * shares, color=colour, marker=mark, markersize=3.5)
    axis.plot(speeds[~holds], 100 * shares[~holds], color=colour, marker=mark, markersize=3.5, mfc="white", ls="none")
    return line
