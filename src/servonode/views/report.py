"""The report picture: the machine's views, and what it did over time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import matplotlib as mpl
import numpy as np

from servonode.controllers import InlineProgram
from servonode.plants.view import View
from servonode.record.run import Run
from servonode.views import limits
from servonode.views.acts import handles, lifted, strip_of
from servonode.views.curves import Curves
from servonode.views.palette import FAULT, FORBIDDEN, INK, SHADE, WARNING
from servonode.views.panels import Panel, panels_of, room_note, shown_panels, zero_note
from servonode.views.planes import Map
from servonode.views.scene import Arrows, Scene, digits_of, draw_shapes, side_by_side, time_text
from servonode.views.shapes import Shapes, box_of
from servonode.views.sheet import FULL, PRINT, TICKS, Placed, Row, figure_of, label_axes, placed_rows, save, wide
from servonode.views.titles import KEY, LINE, Head, readable, shortened, size_of, text_width

BANDS = "Pale areas reach from the lowest to the highest value, their lines are means."
PEAKS = "Peak magnitudes: the largest values between the zero crossings, joined."
CONTROLS = {"sampled": "simulated", "continuous": "simulated, control without a period", "recorded": "recorded"}
WARNINGS = 4  # in the head of a picture
STRIP_HEIGHT = (0.6, 1.5)  # in; of a strip at least and at most
LONGEST_IN_STRIP = 0.6  # of the longest arrow to the extent of what it is drawn on
REACH = 3.0  # of arrows to the size of what they act on, above which it could not be seen beside them
TICK = 0.17  # in; between two numbers of the height
APART = 0.12  # in; between two captions
ROOM = 1.12  # of a snapshot in a strip to what is drawn in it


def write_report(run: Run, name: str, file: Path) -> None:
    """Draw the report picture of a run into `file` (PNG or another format that matplotlib knows by its ending)."""
    save(report_figure(run, name), file)


@mpl.rc_context(PRINT)
def report_figure(run: Run, name: str) -> Any:
    """The report picture as a matplotlib Figure, 17 cm wide; all its text has 8 pt at least."""
    scene = Scene.of(run)
    panels = panels_of(run, scene.known)
    kept, left = shown_panels(panels, len(scene.views()))
    fault = run.fault["t"] if run.fault else None
    shown = [
        (each, Curves.of(run.t, each.curves(), each.spec.logarithmic, each.floor, bool(run.fault), fault))
        for each in kept
    ]
    rows = _rows(scene, [_placed(scene, panel, drawn) for panel, drawn in shown])
    notes = [_source(run, name), zero_note(panels), room_note(left)]
    notes += [BANDS] if any(any(drawn.bands) for _, drawn in shown) else []
    notes += [PEAKS] if any(drawn.peaks for _, drawn in shown) else []
    remarks = [(text, FAULT) for text in _fault(scene)] + [(text, WARNING) for text in warnings_shown(run)]
    return figure_of(rows, _title(run), " ".join(filter(None, notes)), remarks)


def _rows(scene: Scene, panels: Sequence[Placed]) -> list[Row]:
    """From top to bottom: planes by their shape, snapshots, panels; a single plane has panels beside it."""
    views = scene.run.closed_loop.views
    numbered = any(view.strip for view in views)
    scene = side_by_side(scene, views) if numbered else scene
    strips, planes = ([view for view in scene.views() if view.strip is wanted] for wanted in (True, False))
    return placed_rows([Map.of(scene, view, numbered) for view in planes], panels, _strip_rows(scene, strips))


def _strip_rows(scene: Scene, views: Sequence[View]) -> list[Row]:
    """The strips; arrows of one unit have one size for what is longest."""
    views = [_with_clear_arrows(scene, view) for view in views]
    rows = []
    for view in views:
        alike = [each for each in views if each.arrow_unit == view.arrow_unit]
        strip = Strip.of(scene, view, scene.largest(alike))
        height = min(max(strip.height(FULL), STRIP_HEIGHT[0]), STRIP_HEIGHT[1])
        rows.append(wide(strip.draw, height, strip.head(FULL, height).height, TICKS + LINE * strip.below))
    return rows


def _with_clear_arrows(scene: Scene, view: View) -> View:
    """The view, without its arrows where the machine could not be seen beside them; its title says so."""
    if Strip.of(scene, view, scene.largest([view])).clear:
        return view
    return replace(view, arrows=None, title=f"{view.title}, forces not drawn")


def _placed(scene: Scene, panel: Panel, drawn: Curves) -> Placed:
    """A panel of the run, with a line where a fault was met, and a shade from where the machine is beyond its model."""
    run = scene.run
    names = [each.name for each in drawn.curves if not each.name.startswith("_")]
    names = names if len(panel.columns) > 1 or panel.goals else []
    title, acts = drawn.entitled(panel.title), panel.acts
    words = acts.words() if acts else []

    def draw(axis: Any, head: Head) -> None:
        power = drawn.draw(axis)
        if power:
            axis.annotate(
                f"$10^{{{power}}}$", (0.0, 1.0), (-4, 3), "axes fraction", textcoords="offset points", ha="right"
            )
        if scene.beyond is not None:
            axis.axvspan(run.t[scene.beyond], run.t[-1], color=SHADE, linewidth=0, zorder=0)
        if run.fault:
            axis.axvline(run.fault["t"], color=INK, linewidth=0.8, linestyle=":", zorder=1)
        if acts:
            axis.axhspan(drawn.between.low, 0.0, color=FORBIDDEN, linewidth=0, zorder=0.5)
            corners, colours = acts.bars(run.t, size_of(axis)[1])
            strip_of(axis).set(verts=corners, facecolor=colours)
        lines = [line for line in axis.lines if not line.get_label().startswith("_")] if names else []
        head.draw(axis, [*lines, *handles(words)])

    def above(width: float) -> Head:
        head = Head.of(title, [*names, *words], width)
        return lifted(head, len(acts.active)) if acts else head

    return Placed(above, draw, drawn.brief)


def _title(run: Run) -> str:
    law = run.closed_loop.control
    program = law.law.description.name if law and not isinstance(law.source, InlineProgram) else ""
    program = program.replace("_", " ") if program.isidentifier() else program  # else a file of the user
    words = run.closed_loop.machine.description.description or run.closed_loop.machine.description.name
    return f"{words[:1].upper()}{words[1:]}{f', program {program}' if program else ''}"


def _source(run: Run, name: str) -> str:
    """The name of the run, and how it was controlled, for the foot of a picture."""
    period = run.closed_loop.launch.controller.period if run.closed_loop.launch.controller else None
    sampled = f", a command every {period * 1e3:g} ms" if period and run.control != "continuous" else ""
    return f"{name}: {CONTROLS.get(run.control, run.control)}{sampled}."


def warnings_shown(run: Run) -> list[str]:
    """The run's warnings for the head of a picture, which has room for a few."""
    more = len(run.warnings) - WARNINGS
    texts = [f"Warning: {each}" for each in run.warnings[:WARNINGS]]
    return texts + ([f"{more} more warnings in the run's summary"] if more > 0 else [])


def _fault(scene: Scene) -> list[str]:
    """The fault that ended the run, and from when on a fault condition was met to the end; empty without both."""
    run = scene.run
    texts = [f"fault at {run.fault['t']:.2f} s: {run.fault['name']} (dotted line)"] if run.fault else []
    if scene.beyond is not None and scene.beyond < len(run.t) - 1:
        texts.append(f"{scene.beyond_name} from {run.t[scene.beyond]:.2f} s on (shaded)")
    text = ", ".join(texts)
    return [text[:1].upper() + text[1:]] if text else []


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

    def draw(self, axis: Any) -> None:
        """The snapshots side by side at true scale, each above its number, time and caption."""
        width, height = size_of(axis)
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
