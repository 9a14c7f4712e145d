"""Fast drawing on Agg for animations: curves and shapes without matplotlib's artists, texts rendered once and copied.

Saved to a file, an artist of these is drawn like any other of matplotlib. By `FastRenderer`, thirty times a second, its
vertices go to the renderer as they are: in pixels, and with a pen that was made once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, IdentityTransform

Array = npt.NDArray[np.float64]
STAMPS = 512  # rendered texts that are kept
PARTS = 4  # of a pixel: the horizontal resolution at which texts are placed
MARGIN = 4  # pixels around a text before it is trimmed
NOWHERE: Any = IdentityTransform()  # vertices are pixels already
AGG: Any = RendererAgg


class FastRenderer(RendererAgg):
    """Draws onto the pixels of a canvas. A text that was drawn before is copied, at whole pixels in height."""

    def __init__(self, renderer: RendererAgg) -> None:
        self.__dict__ |= renderer.__dict__  # the same pixels, not others
        self.pens: dict[Any, Any] = {}  # by artist
        self.maps: dict[Any, Map] = {}  # by axes, as they were when they were drawn
        self._advances: dict[Any, float] = {}  # of texts [pixels]
        self._stamps: dict[Any, tuple[Any, int, int]] = {}

    @classmethod
    def of(cls, canvas: Any, before: Self | None = None) -> Self:
        """The renderer of a canvas: the one made before, unless the canvas has a new buffer."""
        renderer = canvas.get_renderer()
        return before if before is not None and before._renderer is renderer._renderer else cls(renderer)

    def draw_text(
        self, gc: Any, x: Any, y: Any, s: Any, prop: Any, angle: Any, ismath: Any = False, mtext: Any = None
    ) -> None:
        """Copy a text to (x, y) [pixels, from above]; it is rendered when it is new."""
        column, part = divmod(round(PARTS * x), PARTS)
        key = (s, part, prop.copy(), angle, ismath, gc.get_rgb())
        stamp = self._stamps.get(key)
        if stamp is None:
            if len(self._stamps) >= STAMPS:
                self._stamps.clear()
            stamp = self._stamps[key] = self._set(gc, part / PARTS, s, prop, angle, ismath, mtext)
        image, left, below = stamp
        if len(image):
            self.draw_image(gc, column + left, round(self.height - y) - below, image)

    def advance(self, text: str, prop: Any) -> float:
        """The advance width of a text [pixels]: where the next text begins."""
        key = (text, prop.copy())
        if key not in self._advances:
            if len(self._advances) >= STAMPS:
                self._advances.clear()
            self._advances[key] = self.extent(f"|{text}|", prop)[0] - self.extent("||", prop)[0]
        return self._advances[key]

    def extent(self, text: str, prop: Any, ismath: Any = False) -> tuple[float, float, float]:
        """Width, height, and height below the baseline [pixels]."""
        width, height, below = self.get_text_width_height_descent(text, prop, ismath)  # type: ignore[no-untyped-call]
        return float(width), float(height), float(below)

    def _set(self, gc: Any, x: float, s: Any, prop: Any, angle: Any, ismath: Any, mtext: Any) -> tuple[Any, int, int]:
        """Pixels (rows from below, columns, 4) of words, and where their lower left corner is from x = 0."""
        width, height, _ = self.extent(s, prop, ismath)
        reach = int(np.hypot(width, 2 * height)) + MARGIN  # from the origin in any direction
        rise = reach if angle else int(2 * height) + MARGIN
        apart: Any = AGG(2 * reach, 2 * rise, self.dpi)
        apart.draw_text(gc, reach + x, rise, s, prop, angle, ismath, mtext)
        pixels = np.asarray(apart.buffer_rgba())[::-1]
        rows, columns = np.nonzero(pixels[..., 3])
        if not len(rows):
            return pixels[:0], 0, 0
        bottom, left = int(rows.min()), int(columns.min())
        image = np.ascontiguousarray(pixels[bottom : rows.max() + 1, left : columns.max() + 1])
        return image, left - reach, rise - bottom


@dataclass(frozen=True)
class Map:
    """From the coordinates of axes to pixels: factor and offset (2,), of the logarithm where the axis has one."""

    factor: Array
    offset: Array
    logarithmic: bool

    @classmethod
    def of(cls, axes: Any) -> Self:
        """The transformation of the axes as they are now."""
        (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
        logarithmic = axes.get_yscale() == "log"
        if logarithmic:
            y0, y1 = np.log10(y0), np.log10(y1)
        left, bottom, width, height = axes.bbox.bounds
        factor = np.array([width / (x1 - x0), height / (y1 - y0)])
        return cls(factor, np.array([left - factor[0] * x0, bottom - factor[1] * y0]), logarithmic)

    def path(self, points: Array) -> Path:
        """Points (n, 2) as a path in pixels."""
        return Path(points * self.factor + self.offset)

    def curve(self, x: Any, y: Any) -> Path:
        """Points as a path in pixels."""
        vertices = np.empty((len(x), 2))
        vertices[:, 0], vertices[:, 1] = x, np.log10(y) if self.logarithmic else y
        vertices *= self.factor
        vertices += self.offset
        return Path(vertices)


class Curve(Line2D):
    """A line in data coordinates, or markers without a line."""

    def draw(self, renderer: Any) -> None:
        if not is_fast(renderer):
            super().draw(renderer)
            return
        x, y = np.asarray(self.get_xdata(orig=True)), np.asarray(self.get_ydata(orig=True))
        if not len(x) or not self.get_visible():
            return
        path = renderer.maps[self.axes].curve(x, y)
        pen = renderer.pens.get(self) or self._pen(renderer)
        if self.get_marker() in ("None", None, ""):
            renderer.draw_path(pen, path, NOWHERE)
        else:
            marker = self._marker_of(renderer)
            renderer.draw_markers(pen, *marker, path, NOWHERE, to_rgb(self.get_color()))

    def _marker_of(self, renderer: Any) -> tuple[Path, Any]:
        """A circle of the marker's size."""
        return Path.unit_circle(), Affine2D().scale(renderer.points_to_pixels(self.get_markersize()) / 2)

    def _pen(self, renderer: Any) -> Any:
        pen = pen_of(renderer, self, self.get_color(), self.get_linewidth())
        if self.get_marker() in ("None", None, ""):
            pen.set_joinstyle(self.get_solid_joinstyle())
            pen.set_capstyle(self.get_dash_capstyle() if self.is_dashed() else self.get_solid_capstyle())
            offset, lengths = self._dash_pattern  # type: ignore[attr-defined]
            pen.set_dashes(offset, lengths)
        else:
            pen.set_linewidth(self.get_markeredgewidth())
            pen.set_snap(False)
        return pen


class Phrase(Text):
    """A line of text of which mostly digits change: each is copied by itself. Placed by the middle of its height."""

    def draw(self, renderer: Any) -> None:
        if not is_fast(renderer):
            super().draw(renderer)
            return
        prop = self.get_fontproperties()
        pieces = re.findall(r"\d|\D+", self.get_text())
        advances = [renderer.advance(piece, prop) for piece in pieces]
        x, y = self.get_transform().transform(self.get_position())
        if self.get_horizontalalignment() == "center":
            x -= sum(advances) / 2
        _, height, below = renderer.extent("lp", prop)
        baseline = renderer.height - (y - height / 2 + below)
        pen = renderer.new_gc()
        pen.set_foreground(to_rgba(self.get_color()), isRGBA=True)
        for piece, advance in zip(pieces, advances, strict=True):
            renderer.draw_text(pen, x, baseline, piece, prop, 0)
            x += advance


class Strokes(LineCollection):
    """Polylines of one colour and width in data coordinates."""

    _lines: Sequence[Array] = ()

    def put(self, lines: Sequence[Array]) -> None:
        """Replace what is drawn by these arrays, (n, 2) each."""
        self._lines = lines

    def draw(self, renderer: Any) -> None:
        if not is_fast(renderer):
            self.set_segments(self._lines)
            super().draw(renderer)
        elif self._lines:
            pen = renderer.pens.get(self) or self._pen(renderer)
            to_pixels = renderer.maps[self.axes]
            for line in self._lines:
                renderer.draw_path(pen, to_pixels.path(line), NOWHERE)

    def _pen(self, renderer: Any) -> Any:
        return pen_of(renderer, self, self.get_colors()[0], float(np.ravel(self.get_linewidth())[0]))


class Shapes(PolyCollection):
    """Filled polygons, each of its own colour, in data coordinates."""

    _shapes: Sequence[Array] = ()
    _fills: Sequence[Any] = ()

    def put(self, shapes: Sequence[Array], colors: Sequence[Any]) -> None:
        """Replace what is drawn by these arrays, (n, 2) each."""
        self._shapes, self._fills = shapes, colors

    def draw(self, renderer: Any) -> None:
        if not is_fast(renderer):
            self.set_verts(self._shapes)
            self.set_facecolor(self._fills)
            super().draw(renderer)
        elif self._shapes:
            pen = renderer.pens.get(self) or pen_of(renderer, self, "none", 0.0)
            to_pixels = renderer.maps[self.axes]
            for shape, color in zip(self._shapes, self._fills, strict=True):
                renderer.draw_path(pen, to_pixels.path(shape), NOWHERE, to_rgba(color))


def is_fast(renderer: Any) -> bool:
    """Whether the renderer is a fast one, as in the window and the movie, not that of a file."""
    return isinstance(renderer, FastRenderer)


def pen_of(renderer: FastRenderer, artist: Any, color: Any, width: float) -> Any:
    """How an artist draws, kept as long as the ink; width [points]. Nothing leaves its axes."""
    pen = renderer.pens[artist] = renderer.new_gc()
    pen.set_foreground(to_rgba(color), isRGBA=True)
    pen.set_linewidth(width)
    pen.set_clip_rectangle(artist.axes.bbox)
    return pen
