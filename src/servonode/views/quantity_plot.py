"""A picture of chosen quantities of a run: an axis for each group of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from servonode.arrays import Array
from servonode.errors import StatementError, did_you_mean
from servonode.mechanics.description import Quantity
from servonode.record.run import Run
from servonode.views.sheet import PRINT
from servonode.views.symbols import mathtext, titles
from servonode.views.symbols import plain as characters
from servonode.views.titles import Head

PANEL = (7.0, 2.1)  # in; of each axis
ACROSS = PANEL[0] - 0.9  # in; of such an axis beside its ticks


def quantity_figure(run: Run, groups: Sequence[str], against: str) -> Figure:
    """A figure with an axis for each group of quantities, over a common horizontal axis."""
    known = _Quantities.of(run)
    across = known.values(against)
    named = [[name.strip() for name in group.split(",")] for group in groups]
    for name in (name for group in named for name in group):
        known.values(name)
    with mpl.rc_context():
        mpl.rcParams.update(PRINT)
        figure = Figure(figsize=(PANEL[0], PANEL[1] * len(named) + 0.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(named), 1, sharex=True, squeeze=False)[:, 0]
        for axis, names in zip(axes, named, strict=True):
            lines = [axis.plot(across, known.values(name), label=known.symbol(name))[0] for name in names]
            axis.ticklabel_format(useOffset=False)
            axis.margins(x=0)
            symbols = [line.get_label() for line in lines] if len(lines) > 1 else []
            Head.of(known.title(names), symbols, ACROSS).draw(axis, lines)
        axes[-1].set_xlabel(known.title([against]))
    return figure


@dataclass(frozen=True)
class _Quantities:
    """What can be plotted of a run: its columns, outputs and targets by name, and what each of them is."""

    columns: dict[str, Array]
    known: dict[str, Quantity]

    @classmethod
    def of(cls, run: Run) -> Self:
        description, control = run.closed_loop.machine.description, run.closed_loop.control
        columns = {**run.columns, **run.state, **run.outputs()}
        columns |= {f"target_{name}": values for name, values in run.targets().items()}
        known = {name: Quantity(name, "", run.units.get(name, "1")) for name in columns}
        stated = [*description.state, *description.inputs, *description.outputs]
        stated += [*control.law.description.states, *control.law.description.watches] if control else []
        stated += [Quantity("t", "time", "s"), Quantity("energy", "energy", "J")]
        return cls(columns, known | {each.name: each for each in stated})

    def values(self, name: str) -> Array:
        """A column. StatementError where there is none of this name."""
        if name not in self.columns:
            near = did_you_mean(name, self.columns, most=3)
            raise StatementError(f"{name!r} is not a quantity of this run; {near}choose from {', '.join(self.columns)}")
        return self.columns[name]

    def title(self, names: Sequence[str]) -> str:
        """Words, symbol and unit of a single quantity; words and units of several, which the legend names."""
        return titles([self._worded(name) for name in names])[0]

    def symbol(self, name: str) -> str:
        """The symbol of a quantity; of a residual or a target it is a word and the symbol of its own name."""
        word, own = _split(name)
        return f"{word} {mathtext(own)}" if word else mathtext(own)

    def _worded(self, name: str) -> Quantity:
        """What a quantity is; a residual or a target is worded by its own name."""
        word, own = _split(name)
        return Quantity(name, f"{word} {characters(own)}", self.known[name].unit) if word else self.known[name]


def _split(name: str) -> tuple[str, str]:
    """`residual_phi` -> residual, phi; `phi` -> "", phi."""
    word, _, own = name.partition("_")
    return (word, own) if word in ("residual", "target") and own else ("", name)
