"""The animation of a machine: its views and panels up to the present, redrawn into one figure.

It knows no window and no bus. A window on a run shows it live, a movie frame by frame, tests on a canvas without a
display: any canvas of matplotlib that is drawn by Agg will do.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.view import View
from servonode.views.animated_axes import Box, PanelPart, Part, TextPart
from servonode.views.animated_view import TRAIL, ViewPart
from servonode.views.curves import Decimation
from servonode.views.palette import GOAL, INK
from servonode.views.panel_specs import MOST, PanelSpec, chosen_panels, usual_panels
from servonode.views.scene import WIDE, leaning, magnification
from servonode.views.shapes import Instant, wanted_paths
from servonode.views.sheet import STYLE

SIZE = (13.0, 7.8)  # in; of a window
INSTANTS = 60  # of a run, at which the outline counts for the limits of the whole
HEADER, FOOTER, NO_FOOTER = 0.42, 0.26, 0.06  # in; the lines above and below
VIEW_EDGES = (0.72, 0.12, 0.48, 0.46)  # in; left, right, below, above the axis of the first view
UNTITLED = 0.2  # in; less above it where it has no title
NEXT_EDGES = (0.72, 0.1, 0.42, 0.68)  # in; of the others, whose words may take several lines
PANEL_EDGES = (0.7, 0.2, 0.07, 0.02)  # in; of a panel, whose head stands above it
TIME = 0.4  # in; below the last panel, for the time
SHARE = 0.57  # of the width for the views beside panels
FIRST = 0.58  # of the height for the first of several views
BROAD, FLATTEST = 0.5, 0.28  # of the height for a view across the whole width, at most and at least
LOW, SLIM = 0.95, 2.1  # in; panels below such a view are rather in more columns than lower, but not slimmer
COLUMN = 7  # panels above each other at most
Edges = tuple[float, float, float, float]  # in; left, right, below, above


class Animation:
    """Views and panels of a machine in a figure; `show` draws their state at the last of the given rows.

    Beside its parts it keeps how they are laid out, and what of the canvas must be drawn anew: both depend on the size
    of the figure, which a user may change between any two frames.
    """

    def __init__(
        self,
        figure: Any,
        closed_loop: ClosedLoop,
        fields: Sequence[str] | None = None,
        span: float | None = None,
        timing: bool = False,
        footer: str = "",
        words_every: int = 1,
        views: Sequence[View] | None = None,
    ) -> None:
        """An animation without data, of a launch file's run.

        Args:
            figure: an empty matplotlib Figure; without a canvas it gets one without a display.
            closed_loop: of which run.
            fields: instead of the usual panels one for each "NAME,NAME".
            span: plant time [s] that panels and trails reach back; None: all of it.
            timing: a panel of times, as of a run on processes; its columns are those of TIMING.
            footer: the text at the bottom.
            words_every: frames after which captions are updated; texts are slow to draw.
            views: these alone, without panels.

        Raises:
            FieldError: a name in `fields` is not a column.
        """
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        panels = list[PanelSpec]()
        if fields:
            panels = chosen_panels(closed_loop, fields, timing)
        elif views is None:
            panels = usual_panels(closed_loop, timing, MOST - len(closed_loop.views))
        if not hasattr(figure.canvas, "copy_from_bbox"):
            FigureCanvasAgg(figure)
        self.figure, self._closed_loop, self._span = figure, closed_loop, span
        described = closed_loop.machine.description
        self._known = [each.name for each in (*described.state, *described.outputs, *described.inputs)]
        with mpl.rc_context(STYLE):
            self.views = [
                ViewPart(figure.add_subplot(), closed_loop, view, partial(wanted_paths, closed_loop, view))
                for view in (closed_loop.views if views is None else views)
            ]
            self.panels = [PanelPart(figure.add_subplot(), spec, span) for spec in panels]
            self._title = TextPart(figure, 0.01, fontsize=11, ha="left")
            self._bottom = FOOTER if footer else NO_FOOTER
            self._footer = figure.text(0.01, 0.0, footer, fontsize=8.5, color="#5b6873", va="center")
        self._plain = [view.view for view in self.views]  # without leans magnified
        self._lean, self._factor = 0.0, 1.0  # rad, the largest so far; times which it is shown
        self._broad: float | None = None  # of the height for the first view across the whole width; None: beside panels
        self._size: tuple[float, float, float] | None = None  # pixels, and pixels per in, as laid out
        self._stale = True  # everything must be drawn anew
        self._background: Any = None  # pixels of all axes, without what moves
        self._frames, self._words_every = 0, words_every
        self._connection = figure.canvas.mpl_connect("draw_event", self._on_draw)

    @property
    def _parts(self) -> list[Part]:
        captions = [view.caption for view in self.views if view.caption]
        return [self._title, *self.views, *captions, *self.panels]

    def title(self, text: str, alarm: bool = False) -> bool:
        """Set the first line, in red for an alarm; whether it has changed. The next `show` draws it."""
        return self._title.set_text(text, GOAL if alarm else INK)

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
        """Take limits and scales from the columns of a whole run and keep them, so that nothing jumps.

        Panels in which all is zero, and strips in which nothing leans while something does in another, are taken out.
        """
        self._lay_out_if_resized()
        rows = sorted({int(i) for i in np.linspace(0, len(t) - 1, INSTANTS)})
        instants = [self._instant(t, columns, i) for i in rows]
        self._keep(instants, columns)
        self._magnify(instants)
        for view in self.views:
            view.fix(columns, instants)
        self._widen()
        for panel in self.panels:
            panel.fix(t, columns)

    def begin_run(self) -> None:
        """Drop what was measured in the run shown before: another one begins."""
        self._lean = 0.0
        for view in self.views:
            view.clear_scale()

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
        if not any(view.fixed for view in self.views):
            self._magnify([instant])
        path = Decimation.of(t, span, TRAIL)
        for view in self.views:
            view.update(shown, instant, path, self._frames % self._words_every == 0)
        self._frames += 1
        width = max((panel.axis.bbox.width for panel in self.panels), default=1.0)
        curve = Decimation.of(t, span, max(int(width / 1.5), 50))
        for panel in self.panels:
            panel.update(t, shown, curve)

    def _magnify(self, instants: Sequence[Instant]) -> None:
        """Show leans so large that they can be seen: by a factor that only falls while a run goes on."""
        leans = [abs(each.given(view.lean)) for view in self._plain if view.lean for each in instants]
        self._lean = max(self._lean, *leans, 0.0) if leans else 0.0
        factor = magnification(self._lean)
        if factor != self._factor:
            self._factor = factor
            for part, view in zip(self.views, self._plain, strict=True):
                part.set_view(view.magnified(factor) if view.magnified and factor > 1.0 else view)

    def _keep(self, instants: Sequence[Instant], columns: Mapping[str, Array]) -> None:
        """Take out what shows nothing in a whole run."""
        leans = [max(abs(each.given(view.lean)) for each in instants) if view.lean else None for view in self._plain]
        kept = [*leaning(leans), *(not panel.is_zero(columns) for panel in self.panels)]
        for part, keep in zip((*self.views, *self.panels), kept, strict=True):
            if not keep:
                part.remove()
        n = len(self.views)
        self._plain = [view for view, keep in zip(self._plain, kept[:n], strict=True) if keep]
        self.views = [part for part, keep in zip(self.views, kept[:n], strict=True) if keep]
        self.panels = [part for part, keep in zip(self.panels, kept[n:], strict=True) if keep]
        self._size = None
        self._lay_out_if_resized()

    def _widen(self) -> None:
        """Give the first view the whole width where what it shows is much wider than high, and panels besides."""
        if not (self.views and self.panels):
            return
        across, up = self.views[0].extent
        if across < WIDE * up:
            return
        width, height = self.figure.get_size_inches()
        needed = up / across * (width - sum(VIEW_EDGES[:2])) + sum(VIEW_EDGES[2:])
        self._broad = float(np.clip(needed / (height - HEADER - self._bottom), FLATTEST, BROAD))
        self._size = None
        self._lay_out_if_resized()

    def _instant(self, t: Array, columns: Mapping[str, Array], row: int) -> Instant:
        values = {name: float(columns[name][row]) for name in self._known}
        return Instant.of(self._closed_loop.source, self._closed_loop.machine, float(t[row]), values)

    # how it is drawn

    def _render(self) -> bool:
        """Redraw the canvas; True if more than the moving artists was drawn."""
        import matplotlib as mpl

        if self._stale:
            with mpl.rc_context(STYLE):
                self.figure.canvas.draw()  # `_on_draw` adds the artists
            return True
        stale = [part for part in self._parts if part.stale]
        self.figure.canvas.get_renderer().restore_region(self._background)
        self._draw(stale)
        return bool(stale)

    def _draw(self, stale: Sequence[Part]) -> None:
        """Draw the axes of these parts anew, each in its rectangle, then the artists of all."""
        import matplotlib as mpl

        renderer = self.figure.canvas.get_renderer()
        if stale:
            with mpl.rc_context(STYLE):
                for part in stale:
                    part.draw_axis(self.figure, renderer)
            self._background = renderer.copy_from_bbox(self.figure.bbox)
        for part in self._parts:
            for artist in part.artists:
                artist.draw(renderer)

    def _on_draw(self, _: Any) -> None:
        """The whole figure was drawn without the artists, by us or by the toolkit."""
        canvas = self.figure.canvas
        if canvas.is_saving() or self._size != self._present_size:
            self._stale = True  # other pixels than those of the window
            return
        self._stale = False
        self._draw(self._parts)  # in their rectangles, as in every later frame

    # where everything stands

    @property
    def _present_size(self) -> tuple[float, float, float]:
        """Width and height [pixels], and pixels per in: a window on another screen may change that alone."""
        width, height = self.figure.bbox.size
        return float(width), float(height), float(self.figure.dpi)

    def _lay_out_if_resized(self) -> None:
        size = self._present_size
        if size == self._size:
            return
        self._size, self._stale = size, True
        width, height = (side / size[2] for side in size[:2])
        titled = bool(self.views and self.views[0].view.title)
        size_in, counts = (width, height), (len(self.views), len(self.panels))
        columns, places = laid_out(size_in, counts, self._bottom, titled, self._broad)
        self._title.move(
            (0.0, 1 - HEADER / height, 1.0, HEADER / height), (0.0, 1 - HEADER / height, 1, HEADER / height)
        )
        self._footer.set_y(FOOTER / 2 / height)
        for part, (cell, edges) in zip((*self.views, *self.panels), places, strict=True):
            if isinstance(part, PanelPart):
                edges = (*edges[:3], PANEL_EDGES[3] + part.head(within(cell, edges)[2]).height)
            part.move(share(cell, width, height), share(within(cell, edges), width, height))
        last = [end - 1 for end in accumulate(columns)]  # of each column
        for i, panel in enumerate(self.panels):
            panel.axis.tick_params(labelbottom=i in last)
            panel.axis.set_xlabel("" if i not in last else "time before now [s]" if self._span else "t [s]")


def laid_out(
    size: tuple[float, float], counts: tuple[int, int], bottom: float, titled: bool, broad: float | None
) -> tuple[list[int], list[tuple[Box, Edges]]]:
    """How many panels stand above each other in each column of a figure of this size [in], and the cell [in] of each of
    so many views and panels with the room [in] around its axis.

    bottom: what is kept free for a footer. titled: whether the first view has a title. broad: of the height for the
    first view across the whole width; None: it stands beside the panels.
    """
    (width, height), (views, panels) = size, counts
    whole = height - HEADER - bottom
    below = whole * (1 - (broad if broad is not None else 1.0 if views == 1 else FIRST))  # the first view
    if broad is None:
        left = width * (0.0 if not views else 1.0 if not panels else SHARE if panels <= COLUMN else 0.45)
        n_columns, top = 2 if panels > (COLUMN if views else 1) else 1, bottom + whole
    else:
        left, top = width * 0.46 if views > 1 else 0.0, bottom + below
        most = max(int((width - left) / SLIM), 1)
        n_columns = min(math.ceil(panels / max(int((below - TIME) / LOW), 1)), most)
    found = list[tuple[Box, Edges]]()
    if views:
        edges = (*VIEW_EDGES[:3], VIEW_EDGES[3] - (0.0 if titled else UNTITLED))
        found.append(((0.0, bottom + below, left if broad is None else width, whole - below), edges))
    each = left / max(views - 1, 1)
    found += [((i * each, bottom, each, below), NEXT_EDGES) for i in range(views - 1)]
    columns = [n for i in range(n_columns) if (n := panels // n_columns + (i < panels % n_columns))]
    across = (width - left) / max(len(columns), 1)
    for column, n in enumerate(columns):
        high = (top - bottom - TIME) / n
        for row in range(n):
            time = TIME if row == n - 1 else 0.0
            cell = (left + column * across, top - (row + 1) * high - time, across, high + time)
            found.append((cell, (*PANEL_EDGES[:2], PANEL_EDGES[2] + time, PANEL_EDGES[3])))
    return columns, found


def within(cell: Box, edges: Edges) -> Box:
    """The axis's rectangle in its cell [in], never without area."""
    x, y, width, height = cell
    left, right, below, above = edges
    return (x + left, y + below, max(width - left - right, 0.1), max(height - below - above, 0.1))


def share(box: Box, width: float, height: float) -> Box:
    return (box[0] / width, box[1] / height, box[2] / width, box[3] / height)
