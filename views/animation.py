"""The animation of a machine: its views and panels up to the present, redrawn into one figure.

It knows no window and no bus. A window on a run shows it live, a movie frame by frame, tests on a canvas without a
display: any canvas of matplotlib that is drawn by Agg will do.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.closed_loop.run import Run
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource
from servonode.views.animated_axes import TRAIL, Box, PanelPart, Part, ViewPart, Words
from servonode.views.decimation import Decimation
from servonode.views.panel_choice import chosen_panels, usual_panels
from servonode.views.panels import PanelSpec
from servonode.views.report import STYLE
from servonode.views.scene import Instant
from servonode.views.static_views import GOAL, INK

Array = npt.NDArray[np.float64]
SIZE = (13.0, 7.8)  # in; of a window
HEADER, FOOTER = 0.42, 0.26  # in; the lines above and below
VIEW_EDGES = (0.72, 0.12, 0.48, 0.62)  # in; left, right, below, above the axis of the first view
NEXT_EDGES = (0.72, 0.12, 0.48, 0.72)  # in; of the others, whose words may take several lines
PANEL_EDGES = (0.85, 0.2, 0.05, 0.2)  # in; of a panel
TIME = 0.4  # in; below the last panel, for the time
BELOW_FIRST = 0.75  # height of the second row of views to that of the first
COLUMN = 7  # panels above each other at most
INSTANTS = 60  # of a run, at which the outline counts for the limits of the whole


class Animation:
    """Views and panels of a machine in a figure; `show` draws their state at the last of the given rows."""

    def __init__(
        self,
        figure: Any,
        source: MachineSource,
        machine: Machine,
        *,
        panels: Sequence[PanelSpec],
        span: float | None = None,
        goal_names: Sequence[str] = (),
        footer: str = "",
        words_every: int = 1,
    ) -> None:
        """An animation without data.

        Args:
            figure: an empty matplotlib Figure; without a canvas it gets one without a display.
            panels: what the axes beside the machine show.
            span: plant time [s] that panels and trails reach back; None: all of it.
            goal_names: targets of which there are columns `target_NAME`.
            footer: the text at the bottom.
            words_every: frames after which captions are updated; texts are slow to draw.
        """
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        if not hasattr(figure.canvas, "copy_from_bbox"):
            FigureCanvasAgg(figure)
        self.figure, self._source, self._machine, self._span = figure, source, machine, span
        self._known = [
            each.name
            for each in (*machine.description.state, *machine.description.outputs, *machine.description.inputs)
        ]
        with mpl.rc_context(STYLE):
            self.views = [ViewPart(figure.add_subplot(), view, machine, goal_names) for view in source.views()]
            self.panels = [PanelPart(figure.add_subplot(), spec, span) for spec in panels]
            self._words = Words(figure, 0.01, fontsize=11, ha="left")
            self._footer = figure.text(0.01, 0.0, footer, fontsize=8.5, color="#5b6873", va="center")
        self._size: tuple[float, float] | None = None  # pixels, as laid out
        self._stale = True  # everything must be drawn anew
        self._ink: Any = None
        self.changed: Any = None  # box around the pixels that the last `show` drew; None: it drew nothing
        self._frames, self._words_every = 0, words_every
        self._connection = figure.canvas.mpl_connect("draw_event", self._on_draw)

    @classmethod
    def of_closed_loop(
        cls,
        figure: Any,
        closed_loop: ClosedLoop,
        fields: Sequence[str] | None = None,
        span: float | None = None,
        timing: bool = False,
        footer: str = "",
        words_every: int = 1,
    ) -> Self:
        """The animation of a launch file's run.

        fields: instead of the usual panels one for each "NAME,NAME". timing: a panel of times, as of a run on
        processes; its columns are those of TIMING.

        Raises:
            FieldError: a name in `fields` is not a column.
        """
        panels = chosen_panels(closed_loop, fields, timing) if fields else usual_panels(closed_loop, timing)
        return cls(
            figure, closed_loop.source, closed_loop.machine,
            panels=panels, span=span, goal_names=closed_loop.targets.names, footer=footer,
            words_every=words_every,
        )  # fmt: skip

    @property
    def _parts(self) -> list[Part]:
        captions = [view.words for view in self.views if view.words]
        return [self._words, *self.views, *captions, *self.panels]

    def title(self, text: str, alarm: bool = False) -> bool:
        """Set the first line, in red for an alarm; whether it has changed. The next `show` draws it."""
        return self._words.say(text, GOAL if alarm else INK)

    def show(self, t: Array, columns: Mapping[str, Array]) -> bool:
        """Draw the history up to now; the last entry is the present. The canvas's pixels are then this picture.

        t: plant time [s], increasing; empty: only the title is drawn anew. columns: states, inputs and outputs by
        name, targets as `target_NAME`, residuals as `residual_NAME`, each as long as t; not a number where nothing is
        known.

        True: something more than the moving artists was drawn, because limits or the size changed.
        """
        self._lay_out_if_resized()
        if len(t):
            self._update(t, columns)
        return self._render()

    def fix_limits(self, t: Array, columns: Mapping[str, Array]) -> None:
        """Take limits and scales from the columns of a whole run and keep them, so that nothing jumps."""
        self._lay_out_if_resized()
        rows = sorted({int(i) for i in np.linspace(0, len(t) - 1, INSTANTS)})
        instants = [self._instant(t, columns, i) for i in rows]
        for view in self.views:
            view.fix(columns, instants)
        for panel in self.panels:
            panel.fix(t, columns)

    def forget(self) -> None:
        """Drop all data of the run shown before: another one begins."""
        for view in self.views:
            view.forget()

    def detach(self) -> None:
        """Remove everything from the figure."""
        self.figure.canvas.mpl_disconnect(self._connection)
        self.figure.clear()

    def _update(self, t: Array, columns: Mapping[str, Array]) -> None:
        begin = int(np.searchsorted(t, t[-1] - self._span)) if self._span else 0
        t = t[begin:]
        shown = {name: column[begin:] for name, column in columns.items()}
        span = self._span or float(t[-1] - t[0])
        instant = self._instant(t, shown, -1)
        path = Decimation.of(t, span, TRAIL)
        for view in self.views:
            view.update(shown, instant, path, self._frames % self._words_every == 0)
        self._frames += 1
        width = max((panel.axis.bbox.width for panel in self.panels), default=1.0)
        curve = Decimation.of(t, span, max(int(width / 1.5), 50))
        for panel in self.panels:
            panel.update(t, shown, curve)

    def _instant(self, t: Array, columns: Mapping[str, Array], row: int) -> Instant:
        values = {name: float(columns[name][row]) for name in self._known}
        return Instant.of(self._source, self._machine, float(t[row]), values)

    # how it is drawn

    def _render(self) -> bool:
        """Redraw the canvas where it has changed; True if more than the moving artists was drawn."""
        if self._stale:
            self._draw_all()
            self.changed = self.figure.bbox
            return True
        return self._draw_parts([part for part in self._parts if part.stale])

    def _draw_parts(self, anew: Sequence[Part]) -> bool:
        """Redraw these parts as a whole, of the others what moves; whether there are any of these."""
        from matplotlib.transforms import Bbox

        from servonode.views.agg_fast import FastRenderer

        self._ink = FastRenderer.of(self.figure.canvas, self._ink)
        if anew:
            import matplotlib as mpl

            with mpl.rc_context(STYLE):
                for part in anew:
                    part.draw_background(self.figure, self._ink)
        moved = [part for part in self._parts if part.moved]
        for part in moved:
            part.draw(self._ink)
        boxes = [*(part.box for part in moved), *(part.pixels(self.figure) for part in anew)]
        self.changed = Bbox.union(boxes) if boxes else None
        return bool(anew)

    def _draw_all(self) -> None:
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            self.figure.canvas.draw()  # `_on_draw` adds the artists

    def _on_draw(self, _: Any) -> None:
        """The whole figure was drawn without the artists, by us or by the toolkit."""
        canvas = self.figure.canvas
        if canvas.is_saving() or self._size != tuple(self.figure.bbox.size):
            self._stale = True  # other pixels than those of the window
            return
        self._stale = False
        for part in self._parts:
            part.renewed = True
        self._draw_parts(self._parts)  # with the ink of every frame, so that no pixel jumps with the next

    # where everything stands

    def _lay_out_if_resized(self) -> None:
        size = tuple(self.figure.bbox.size)
        if size == self._size:
            return
        self._size, self._stale = size, True
        width, height = (side / self.figure.dpi for side in size)
        places = _places(width, height, len(self.views), len(self.panels))
        self._words.move(
            (0.0, 1 - HEADER / height, 1.0, HEADER / height), (0.0, 1 - HEADER / height, 1, HEADER / height)
        )
        self._footer.set_y(FOOTER / 2 / height)
        for part, (cell, edges) in zip((*self.views, *self.panels), places, strict=True):
            part.move(_share(cell, width, height), _share(_within(cell, edges), width, height))
        for panel in self._bottoms():
            panel.label_time()
        for panel in self.panels:
            panel.axis.tick_params(labelbottom=panel in self._bottoms())

    def _bottoms(self) -> list[PanelPart]:
        """The last panel of each column."""
        sizes = _columns(len(self.panels), bool(self.views))
        return [self.panels[sum(sizes[: i + 1]) - 1] for i in range(len(sizes)) if self.panels]


def columns_of(run: Run) -> dict[str, Array]:
    """The columns of a run as `Animation.show` takes them, of every row."""
    targets = {f"target_{name}": values for name, values in run.targets().items()}
    residuals = {f"residual_{name}": values for name, values in run.residual.items()}
    return {**run.state, **run.outputs(), **run.input, **targets, **residuals}


Edges = tuple[float, float, float, float]


def _places(width: float, height: float, views: int, panels: int) -> list[tuple[Box, Edges]]:
    """The cell [in] of every view and every panel, with the room [in] around its axis."""
    top, bottom = height - HEADER, FOOTER
    left = 0.0 if not views else width if not panels else width * (0.55 if panels <= COLUMN else 0.45)
    places: list[tuple[Box, Edges]] = []
    if views:
        first = (top - bottom) * (1.0 if views == 1 else 1 / (1 + BELOW_FIRST))
        places.append(((0.0, top - first, left, first), VIEW_EDGES))
        rest = views - 1
        places += [((i * left / rest, bottom, left / rest, top - first - bottom), NEXT_EDGES) for i in range(rest)]
    sizes = _columns(panels, bool(views))
    across = (width - left) / max(len(sizes), 1)
    for column, n in enumerate(sizes):
        each = (top - bottom - TIME) / max(n, 1)
        for row in range(n):
            last = row == n - 1
            x, y = left + column * across, top - (row + 1) * each
            cell = (x, bottom, across, each + TIME) if last else (x, y, across, each)
            places.append((cell, (*PANEL_EDGES[:2], PANEL_EDGES[2] + (TIME if last else 0.0), PANEL_EDGES[3])))
    return places


def _columns(panels: int, beside: bool) -> list[int]:
    """How many panels stand above each other in each column."""
    several = panels > COLUMN if beside else panels > 1
    return [panels - panels // 2, panels // 2] if several else [panels]


def _within(cell: Box, edges: Edges) -> Box:
    """The axis's rectangle in its cell [in], never without area."""
    x, y, width, height = cell
    left, right, below, above = edges
    return (x + left, y + below, max(width - left - right, 0.1), max(height - below - above, 0.1))


def _share(box: Box, width: float, height: float) -> Box:
    return (box[0] / width, box[1] / height, box[2] / width, box[3] / height)
