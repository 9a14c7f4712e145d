"""A picture of chosen quantities of a run: an axis for each group of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine

from servonode.arrays import Array
from servonode.errors import StatementError
from servonode.mechanics.description import Quantity
from servonode.record.run import Run
from servonode.views.palette import GOAL, PALETTE
from servonode.views.panels import GOAL_DASHES
from servonode.views.picture import Picture
from servonode.views.sheet import PRINT
from servonode.views.symbols import mathtext, titles
from servonode.views.symbols import plain as characters
from servonode.views.titles import Head, size_of, wrapped

PANEL = (7.0, 2.1)  # in; of each axis
TICKS = 0.9  # in; beside an axis
LOWEST_PANEL = 1.2  # in; of such an axis in a narrow figure
HIGHEST, LOWEST = 4.6, 1.6  # in; of an axis whose two directions have one unit
MOST = 1e100  # beyond it the arithmetic of axes may overflow
GOAL_LOOK: Any = {"color": GOAL, "linestyle": GOAL_DASHES, "zorder": 2.5}


def quantity_figure(run: Run, groups: Sequence[Sequence[str]], against: str, **look: Any) -> Figure:
    """A figure with an axis for each group of quantities, over a common horizontal axis; goals are dashed.

    What has the unit of the horizontal axis, other than time, is drawn to the same scale. All of it looks as
    matplotlib's rcParams say.
    """
    known = _Quantities.of(run, (against, *chain(*groups)))
    width = float(mpl.rcParams["figure.figsize"][0])
    heights = [known.height(names, against, width) for names in groups]
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Picture(figsize=(width, sum(heights) + 0.5), layout=layout)
    axes = figure.subplots(len(groups), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axis, names in zip(axes, groups, strict=True):
        shown = known.draw(axis, names, against, look)
        symbols = [str(line.get_label()) for line in shown] if len(shown) > 1 else []
        colour = mpl.rcParams["axes.labelcolor"]
        Head.of(known.title(names), symbols, width - TICKS, size=_label_size(), colour=colour).draw(axis, shown)
    axes[-1].set_xlabel(known.title([against]))
    return figure


def draw_quantities(run: Run, groups: Sequence[Sequence[str]], against: str, axes: Sequence[Any], **look: Any) -> None:
    """Draw each group into an axis of somebody's own figure, all of them into a single one; labels say what they are.

    Raises:
        StatementError: there are neither one axis nor as many as groups, or as `_Quantities.of`.
    """
    if len(axes) not in (1, len(groups)) or not all(hasattr(axis, "set_xlabel") for axis in axes):
        text = f"ax= has {len(axes)} axes for {len(groups)} groups of quantities; give one of matplotlib, or as many"
        raise StatementError(text)
    known = _Quantities.of(run, (against, *chain(*groups)))
    for axis, names in zip(axes, groups if len(axes) > 1 else [[*chain(*groups)]], strict=True):
        known.draw(axis, names, against, look)
        axis.set_ylabel("\n".join(wrapped(known.title(names), size_of(axis)[1], _label_size())))
        if axis.xaxis.get_tick_params().get("labelbottom", True):  # not above an axis that shares it
            axis.set_xlabel(known.title([against]))
        if len(axis.get_legend_handles_labels()[0]) > 1:
            axis.legend()


def _label_size() -> float:
    """The size of labels [pt], as matplotlib's rcParams say."""
    return float(FontProperties(size=mpl.rcParams["axes.labelsize"]).get_size_in_points())


@mpl.rc_context(PRINT)
def columns_figure(columns: Mapping[str, Array]) -> Figure:
    """A figure with an axis for each column over the time `t`, of whatever machine they are."""
    names = [name for name in columns if name != "t"]
    rows = -(-len(names) // 2)
    figure = Picture(figsize=(PANEL[0], 1.3 * rows + 0.5), layout=ConstrainedLayoutEngine())
    axes = figure.subplots(rows, 2, sharex=True, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        axis.plot(columns["t"], columns[name], color=PALETTE[0])
        axis.set_title(name.replace("$", r"\$"), loc="left")
    for axis in axes[-2:]:
        axis.set_xlabel("t [s]")
    return figure


@dataclass(frozen=True)
class _Quantities:
    """What can be plotted of a run by name, what each of them is, and the names of goals by that of what has one."""

    columns: Mapping[str, Array]
    known: Mapping[str, Quantity]
    goals: dict[str, str]

    @classmethod
    def of(cls, run: Run, names: Sequence[str]) -> Self:
        """Those of a run. StatementError where one of these names is none of them, or beyond what an axis can hold."""
        tracked = run.closed_loop.tracked
        goals = {each.column: f"goal_{each.residual}" for each in tracked if each.column}
        goals |= {each.residual: f"goal_{each.residual}" for each in tracked if each.residual not in goals}
        columns = run.quantity_columns
        for name in names:
            values = columns[name]
            largest = np.max(np.abs(values), initial=0.0, where=np.isfinite(values))
            if largest > MOST:
                raise StatementError(f"{name} reaches {largest:.3g}, which no axis can hold; choose other quantities")
        return cls(columns, run.quantities, goals)

    def draw(self, axis: Axes, names: Sequence[str], against: str, look: Mapping[str, Any]) -> list[Any]:
        """Draw a group of quantities, and their goals with one entry in the legend: the lines that it has."""
        across = self.columns[against]
        plane = against in self.goals and self._is_plane(names, against)
        lines = []
        for name in names:
            is_goal = _split(name)[0] in ("target", "goal")
            lines += axis.plot(
                across, self.columns[name], **{"label": self.symbol(name), **(GOAL_LOOK if is_goal else {}), **look}
            )
        goals = [self.goals[name] for name in names if name in self.goals and self.goals[name] not in names]
        wanted = self.columns[self.goals[against]] if plane else across
        dashed = [axis.plot(wanted, self.columns[name], label="goal", **GOAL_LOOK)[0] for name in goals]
        for line in dashed:
            if any(each.get_label() == "goal" and each is not line for each in axis.lines):
                line.set_label("_goal")
        axis.ticklabel_format(useOffset=False)
        if against == "t":
            axis.margins(x=0)
        elif self._is_plane(names, against):
            axis.set_aspect("equal", adjustable="datalim")
        return [*lines, *dashed[:1]]

    def height(self, names: Sequence[str], against: str, width: float) -> float:
        """The height [in] of the axis of a group in a figure of this width."""
        if not self._is_plane(names, against):
            return max(PANEL[1] * width / PANEL[0], LOWEST_PANEL)
        columns = [self.columns[name] for name in (against, *names)]
        sides = [np.ptp(each[np.isfinite(each)]) if np.isfinite(each).any() else 0.0 for each in columns]
        ratio = max(sides[1:]) / sides[0] if sides[0] > 0 else 1.0
        return float(np.clip((width - TICKS) * ratio, LOWEST, HIGHEST))

    def _is_plane(self, names: Sequence[str], against: str) -> bool:
        """Whether both directions of an axis have one unit of length or angle, not time."""
        units = {self.known[name].unit for name in (against, *names)}
        return len(units) == 1 and not units & {"s", "1"}

    def title(self, names: Sequence[str]) -> str:
        """Words, symbol and unit of a single quantity; words and units of several, which the legend names."""
        return titles([self._shown_quantity(name) for name in names])[0]

    def symbol(self, name: str) -> str:
        """The symbol of a quantity; of a residual or a target it is a word and the symbol of its own name."""
        word, own = _split(name)
        return f"{word} {mathtext(own)}" if word else mathtext(own)

    def _shown_quantity(self, name: str) -> Quantity:
        """What a quantity is; a residual or a target is called by its own name."""
        word, own = _split(name)
        return Quantity(name, f"{word} {characters(own)}", self.known[name].unit) if word else self.known[name]


WORDS = ("residual", "target", "output", "goal")


def _split(name: str) -> tuple[str, str]:
    """`residual_phi` -> residual, phi; `phi` -> "", phi."""
    word, _, own = name.partition("_")
    return (word, own) if word in WORDS and own else ("", name)
