"""A picture of chosen quantities of a run: an axis for each group of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from servonode.arrays import Array
from servonode.errors import StatementError, did_you_mean
from servonode.mechanics.description import Quantity
from servonode.record.run import Run
from servonode.views.palette import GOAL, PALETTE
from servonode.views.panels import GOAL_DASHES, tracked_columns
from servonode.views.sheet import PRINT
from servonode.views.symbols import mathtext, titles
from servonode.views.symbols import plain as characters
from servonode.views.titles import Head

PANEL = (7.0, 2.1)  # in; of each axis
ACROSS = PANEL[0] - 0.9  # in; of such an axis beside its ticks
HIGHEST, LOWEST = 4.6, 1.6  # in; of an axis whose two directions have one unit
MOST = 1e100  # beyond it the arithmetic of axes may overflow
GOAL_LOOK: Any = {"color": GOAL, "linewidth": 1.0, "linestyle": GOAL_DASHES, "zorder": 2.5}


@mpl.rc_context(PRINT)
def quantity_figure(run: Run, groups: Sequence[str], against: str) -> Figure:
    """A figure with an axis for each group of quantities, over a common horizontal axis; goals are dashed.

    What has the unit of the horizontal axis, other than time, is drawn to the same scale.
    """
    known = _Quantities.of(run)
    named = [[name.strip() for name in str(group).split(",")] for group in groups]
    for name in (against, *(name for group in named for name in group)):
        largest = np.max(np.abs(known.values(name)), initial=0.0, where=np.isfinite(known.values(name)))
        if largest > MOST:
            raise StatementError(f"{name} reaches {largest:.3g}, which no axis can hold; choose other quantities")
    heights = [known.height(names, against) for names in named]
    figure = Figure(figsize=(PANEL[0], sum(heights) + 0.5), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(named), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axis, names in zip(axes, named, strict=True):
        known.draw(axis, names, against)
    axes[-1].set_xlabel(known.title([against]))
    return figure


@mpl.rc_context(PRINT)
def columns_figure(columns: Mapping[str, Array]) -> Figure:
    """A figure with an axis for each column over the time `t`, of whatever machine they are."""
    names = [name for name in columns if name != "t"]
    rows = -(-len(names) // 2)
    figure = Figure(figsize=(PANEL[0], 1.3 * rows + 0.5), layout=ConstrainedLayoutEngine())
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 2, sharex=True, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        axis.plot(columns["t"], columns[name], color=PALETTE[0])
        axis.set_title(name.replace("$", r"\$"), loc="left")
    for axis in axes[-2:]:
        axis.set_xlabel("t [s]")
    return figure


@dataclass(frozen=True)
class _Quantities:
    """What can be plotted of a run: its columns, outputs and targets by name, what each of them is, and the columns
    of goals by the names of what has one.
    """

    columns: dict[str, Array]
    known: dict[str, Quantity]
    goals: dict[str, str]

    @classmethod
    def of(cls, run: Run) -> Self:
        description, control = run.closed_loop.machine.description, run.closed_loop.control
        columns = {**run.columns, **run.state, **run.outputs}
        columns |= {f"target_{name}": values for name, values in run.targets.items()} | tracked_columns(run)
        tracked = run.closed_loop.tracked
        columns |= {
            each.residual: columns[f"output_{each.residual}"] for each in tracked if each.residual not in columns
        }
        goals = {each.column: f"goal_{each.residual}" for each in tracked if each.column}
        goals |= {each.residual: f"goal_{each.residual}" for each in tracked if each.residual not in goals}
        units = {each.name: each.unit for each in run.closed_loop.residuals}
        known = {name: Quantity(name, "", run.units.get(name, units.get(_split(name)[1], "1"))) for name in columns}
        stated = [*description.state, *description.inputs, *description.outputs]
        stated += [*control.law.description.states, *control.law.description.watches] if control else []
        stated += [Quantity("t", "time", "s"), Quantity("energy", "energy", "J")]
        return cls(columns, known | {each.name: each for each in stated}, goals)

    def draw(self, axis: Axes, names: Sequence[str], against: str) -> None:
        """Draw a group of quantities, and their goals with one entry in the legend."""
        across, colours = self.values(against), cycle(PALETTE)
        plane = against in self.goals and self._is_plane(names, against)
        lines = []
        for name in names:
            look: Any = GOAL_LOOK if _split(name)[0] in ("target", "goal") else {"color": next(colours)}
            lines += axis.plot(across, self.values(name), label=self.symbol(name), **look)
        goals = [self.goals[name] for name in names if name in self.goals and self.goals[name] not in names]
        wanted = self.values(self.goals[against]) if plane else across
        dashed = [axis.plot(wanted, self.values(name), label="goal", **GOAL_LOOK)[0] for name in goals]
        axis.ticklabel_format(useOffset=False)
        if against == "t":
            axis.margins(x=0)
        elif self._is_plane(names, against):
            axis.set_aspect("equal", adjustable="datalim")
        shown = [*lines, *dashed[:1]]
        symbols = [str(line.get_label()) for line in shown] if len(shown) > 1 else []
        Head.of(self.title(names), symbols, ACROSS).draw(axis, shown)

    def height(self, names: Sequence[str], against: str) -> float:
        """The height [in] of the axis of a group."""
        if not self._is_plane(names, against):
            return PANEL[1]
        sides = [
            np.ptp(each[np.isfinite(each)]) if np.isfinite(each).any() else 0.0
            for each in map(self.values, (against, *names))
        ]
        ratio = max(sides[1:]) / sides[0] if sides[0] > 0 else 1.0
        return float(np.clip(ACROSS * ratio, LOWEST, HIGHEST))

    def _is_plane(self, names: Sequence[str], against: str) -> bool:
        """Whether both directions of an axis have one unit of length or angle, not time."""
        units = {self.known[name].unit for name in (against, *names)}
        return len(units) == 1 and not units & {"s", "1"}

    def values(self, name: str) -> Array:
        """A column. StatementError where there is none of this name."""
        if name not in self.columns:
            near = did_you_mean(name, self.columns, most=3)
            raise StatementError(f"{name!r} is not a quantity of this run; {near}choose from {', '.join(self.columns)}")
        return self.columns[name]

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
