"""What the views of a picture are drawn from: a run's values, and what its views draw at a few instants of it.

These are spread over time, with a fault, and their outlines do not cover each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from servonode.arrays import Array
from servonode.plants.view import View
from servonode.record.run import Run
from servonode.views.palette import ARROWS, BODY, GUIDE, INK
from servonode.views.shapes import UNSEEN, Instant, Shapes, is_closed, is_seen, longest_arrow, round_size
from servonode.views.titles import SIZE, text_width

SNAPSHOTS = 9  # instants at which the outline is drawn
MAGNIFIED, READABLE = (5.0, 2.0), np.radians(30.0)  # factors of a lean, and how far it may lean when it is drawn
# a lean below this all the time, or this part of the largest, counts as no lean
STRAIGHT, NEARLY = np.radians(0.05), 0.02
WIDE = 2.2  # width over height from which a path wants the whole width of the picture
SIDE_BY_SIDE, MOSTLY = (7, 6, 8), 0.75  # snapshots of strips: the first number of which this part is apart in a plane
MOST, FEWEST = 9, 4  # of a plane without strips
PIECES, ROWS = 24, 5  # of the time, in which a machine moves or not; rows of each that are looked at
RESTING = 1 / 3  # of the pieces, from which fewer snapshots are spent on them,
RARE = 1 / 4  # in this part
NEAR = 0.7  # of the largest lean, from which one that is shown will do
KEY_GAP = 0.06  # in; between the arrow that states the scale and its words
THICK = 0.017  # in; of an arrow's shaft
TIP: dict[str, float] = {"headwidth": 3.6, "headlength": 4.2, "headaxislength": 3.8}  # in widths of the shaft


@dataclass(frozen=True)
class Scene:
    """Values of a run. known: states, inputs and outputs of every row; goals: targets; instants: rows that are shown;
    fault: the one of them at which a fault was met. beyond: the row from which a fault condition of the machine is met
    to the end, such as that it has fallen, so that its model may not describe it; None where it is not met there.
    """

    run: Run
    known: dict[str, Array]
    goals: dict[str, Array]
    instants: list[int]
    fault: set[int]
    beyond: int | None
    _drawn: dict[tuple[int, int], tuple[View, Shapes]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, run: Run) -> Self:
        """The scene of a run; its instants are spread evenly over time, both ends included, and a fault is one too."""
        fault = {int(np.argmin(np.abs(run.t - run.fault["t"])))} if run.fault else set()
        known = {**run.state, **run.outputs, **run.input}
        scene = cls(run, known, run.targets, [], fault, first_beyond(run))
        instants = {int(i) for i in np.linspace(0, scene.last, SNAPSHOTS)}
        return replace(scene, instants=sorted(instants | fault))

    @property
    def last(self) -> int:
        """The last row at which the machine is shown."""
        return len(self.run.t) - 1 if self.beyond is None else max(self.beyond, *self.fault, 0)

    @property
    def beyond_name(self) -> str:
        """The name of the fault condition that is met to the end; empty without one."""
        if self.beyond is None:
            return ""
        machine = self.run.closed_loop.machine
        violated = machine.fault(float(self.run.t[-1]), kernel_state(self.run, -1))
        return violated.name if violated else ""

    def instant(self, i: int) -> Instant:
        """The machine at row i."""
        values = {name: float(column[i]) for name, column in self.known.items()}
        return Instant.of(self.run.closed_loop.source, self.run.closed_loop.machine, float(self.run.t[i]), values)

    def shapes(self, i: int, view: View) -> Shapes:
        """What a view draws at row i; it is asked once."""
        if (i, id(view)) not in self._drawn:
            self._drawn[i, id(view)] = view, Shapes.of(view, self.instant(i))
        return self._drawn[i, id(view)][1]

    def largest(self, views: Sequence[View]) -> float:
        """The length of the longest arrow of the views, which have one unit; 0 where all are rounding errors."""
        longest = longest_arrow(self.shapes(i, view) for view in views for i in self.instants)
        machine = self.run.closed_loop.machine
        return longest if any(is_seen(longest, machine, self.known, view.arrow_unit) for view in views) else 0.0

    def views(self) -> tuple[View, ...]:
        """The machine's views with leans as they can be seen; strips in which nothing ever leans are left out."""
        views = self.run.closed_loop.views
        shown = [self.instant(i) for i in self.instants]
        return readable(views, [max((abs(at.given(each.lean)) for at in shown), default=0.0) if each.lean else None
                                for each in views])  # fmt: skip

    def path(self, view: View, names: tuple[str, ...]) -> Array:
        """The path (2, rows) of the values of a trail."""
        return view.path(self.known, names).T


def first_beyond(run: Run) -> int | None:
    """The row from which a fault condition of the machine is met to the end; None where it is not met there."""
    machine, last = run.closed_loop.machine, len(run.t) - 1
    row = last
    while row >= 0 and machine.fault(float(run.t[row]), kernel_state(run, row)):
        row -= 1
    return None if row == last else row + 1


def kernel_state(run: Run, row: int) -> Array:
    """The state of the machine at a row, as its kernel takes it; without the work."""
    return np.array([*(column[row] for column in run.state.values()), 0.0])


def readable(views: Sequence[View], leans: Sequence[float | None]) -> tuple[View, ...]:
    """The views with leans magnified alike where all are small. leans: largest of each view [rad], None without any.

    A view that is without a lean all the time is left out where another one has some.
    """
    largest = max((each for each in leans if each is not None), default=0.0)
    return tuple(magnified(view, largest) for view, shown in zip(views, leaning(leans), strict=True) if shown)


def leaning(leans: Sequence[float | None]) -> list[bool]:
    """Which views are shown: those without a lean [rad] (None), of the others those that lean; all where none does."""
    largest = max((each for each in leans if each is not None), default=0.0)
    least = max(STRAIGHT, NEARLY * largest)
    return [largest <= STRAIGHT or each is None or each > least for each in leans]


def magnified(view: View, lean: float) -> View:
    """The view with its lean magnified as the largest lean [rad] of a run allows."""
    factor = magnification(lean)
    return view.magnified(factor) if view.magnified and factor > 1.0 else view


def magnification(lean: float) -> float:
    """By how much a lean [rad] is magnified so that it can be seen, 1 where it is large enough or none at all."""
    fit = [factor for factor in MAGNIFIED if factor * lean <= READABLE]
    return fit[0] if fit and lean > STRAIGHT else 1.0


def spread(scene: Scene, count: int, moves: npt.NDArray[np.bool_] | None = None) -> Scene:
    """The scene at `count` instants that are spread evenly over time, both ends included; a fault is one too.

    moves: for each of equal pieces of the time, whether the machine moves; it is shown rarely where it rests.
    """
    rows = np.linspace(0, scene.last, count)
    if moves is not None and np.mean(~moves) > RESTING:
        passed = np.append(0.0, np.cumsum(np.where(moves, 1.0, RARE)))
        shown = np.interp(np.linspace(0, passed[-1], count), passed, np.linspace(0, 1, len(passed)))
        rows = shown * scene.last
    return replace(scene, instants=sorted({int(i) for i in rows} | scene.fault))


@dataclass(frozen=True)
class Motion:
    """What a machine does at rows that are spread evenly: sizes (leans, rows) of the leans that its views show [rad],
    and its paths (2 paths, rows).
    """

    rows: npt.NDArray[np.intp]
    leans: Array
    paths: Array

    @classmethod
    def of(cls, scene: Scene, views: Sequence[View]) -> "Motion | None":
        """That of a run; None where no view shows a lean."""
        leans = [view.lean for view in views if view.lean]
        if not leans or scene.last < PIECES * ROWS:
            return None
        rows = np.linspace(0, scene.last, PIECES * ROWS + 1).astype(int)
        seen = [scene.instant(int(i)) for i in rows]
        sizes = np.abs([[each.given(lean) for each in seen] for lean in leans])
        paths = [scene.path(view, pair)[:, rows] for view in views for pair in view.trails.values()]
        places = np.nan_to_num(np.concatenate(paths or [np.zeros((0, len(rows)))]), posinf=0.0, neginf=0.0)
        return cls(rows, np.minimum(np.nan_to_num(sizes), np.pi / 2), places)

    def moves(self) -> npt.NDArray[np.bool_]:
        """For each of equal pieces of the time whether a lean or a path changes by a visible part."""
        least = np.full(len(self.leans), max(STRAIGHT, NEARLY * float(self.leans.max())))
        least = np.append(least, NEARLY * np.ptp(self.paths, axis=1))
        values = np.concatenate([self.leans, self.paths])
        parts = [values[:, i : i + ROWS + 1] for i in range(0, PIECES * ROWS, ROWS)]
        return np.array([bool((np.ptp(part, axis=1) > least).any()) for part in parts])

    def with_largest(self, scene: Scene) -> Scene:
        """The scene with the largest lean in place of the instant next to it, where it shows none almost as large."""
        largest = self.leans.max(axis=0)
        shown = largest[np.searchsorted(self.rows, scene.instants).clip(max=len(self.rows) - 1)]
        if shown.max() >= NEAR * largest.max() or largest.max() < STRAIGHT:
            return scene
        at = int(self.rows[np.argmax(largest)])
        kept = scene.fault | {scene.instants[0], scene.instants[-1]}
        others = [i for i in scene.instants if i not in kept]
        moved = min(others, key=lambda i: abs(i - at), default=at)
        return replace(scene, instants=sorted({*scene.instants, at} - {moved} | {at}))


def side_by_side(scene: Scene, views: Sequence[View]) -> Scene:
    """The scene at the instants of its strips: not at the same place of a motion that comes again and again."""
    planes = [view for view in views if not view.strip]
    motion = Motion.of(scene, views)
    tried = [spread(scene, count, motion.moves() if motion else None) for count in SIDE_BY_SIDE]
    tried = [motion.with_largest(each) for each in tried] if motion else tried
    shown = [sum(len(apart(each, view)) for view in planes[:1]) for each in tried]
    good = (each for each, count in zip(tried, shown, strict=True) if count >= MOSTLY * len(each.instants))
    return next(good, tried[0])


def well_spread(scene: Scene, view: View) -> Scene:
    """The scene at as many evenly spread instants as have outlines apart, and of these the ones that have."""
    tried = [spread(scene, count) for count in range(FEWEST, MOST + 1)]
    kept = [(apart(each, view), -len(each.instants), each) for each in tried]
    instants, _, best = max(kept, key=lambda each: (len(each[0]), each[1]))
    return replace(best, instants=instants)


def apart(scene: Scene, view: View) -> list[int]:
    """The instants whose outlines do not cover each other: fault, start and end first, then in the order of time."""
    if not scene.instants:
        return []
    first = [*sorted(scene.fault), scene.instants[0], scene.instants[-1]]
    kept: dict[int, list[Any]] = {}
    for i in dict.fromkeys([*first, *scene.instants]):
        bodies = _bodies(scene.shapes(i, view).lines)
        if not any(one.intersects_path(other) for each in kept.values() for one in bodies for other in each):
            kept[i] = bodies
    return sorted(kept)


def _bodies(lines: Sequence[Array]) -> list[Any]:
    """The areas of an outline: its lines of three points or more; a pole or a dot covers nothing."""
    from matplotlib.path import Path

    return [Path(line) for line in lines if len(line) > 2 and np.isfinite(line).all()]


def digits_of(scene: Scene) -> int:
    """How many digits after the point the times of the instants want."""
    times = scene.run.t[scene.instants]
    if np.allclose(times, np.round(times), rtol=0.0, atol=1e-6):
        return 0
    return 1 if float(times[-1]) >= 20 else 2


def time_text(t: float, digits: int) -> str:
    """A time with its unit."""
    return f"{t:.{digits}f} s"


@dataclass(frozen=True)
class Arrows:
    """The arrows of a view at its instants: those that can be seen, and the scale [unit per m] that all have."""

    at: list[dict[str, Array]]
    names: tuple[str, ...]
    scale: float
    unit: str
    known: float  # size of the arrow that states the scale

    @classmethod
    def of(cls, scene: Scene, view: View, largest: float, longest: float) -> Self:
        """What nowhere has a length to be seen is left out; one of the largest size is drawn as long as said [m]."""
        least = UNSEEN * largest if largest else np.inf
        found = [scene.shapes(i, view).arrows for i in scene.instants]
        seen = [{name: each[name] for name in each if least < np.hypot(*each[name][1]) < np.inf} for each in found]
        names = tuple(dict.fromkeys(name for each in seen for name in each))
        known = round_size(0.7 * largest) if names else 0.0
        return cls(seen, names, largest / longest if names else 1.0, view.arrow_unit, known)

    @property
    def tips(self) -> list[Array]:
        """Both ends of all arrows, (2, 2) each."""
        return [np.array([foot, foot + vector / self.scale]) for each in self.at for foot, vector in each.values()]

    @property
    def text(self) -> str:
        return f"{self.known:g} {self.unit}"

    def key_width(self, per_m: float) -> float:
        """The room [in] that stating the scale takes, at so many inches per metre."""
        return self.known / self.scale * per_m + KEY_GAP + text_width(self.text) + 0.08 if self.names else 0.0

    def draw(self, axis: Any, shifts: Sequence[Array], width: float, above: float) -> list[Any]:
        """Draw them, each instant shifted, with the scale at the right end of the title; handles for the legend.

        width: of the axis [in]; above: of the key, over its height.
        """
        handles, drawn = [], None
        for color, name in zip(cycle(ARROWS), self.names, strict=False):
            feet = np.array([each[name][0] + at for each, at in zip(self.at, shifts, strict=True) if name in each]).T
            vectors = np.array([each[name][1] for each in self.at if name in each]).T
            look: Any = {"color": color, "angles": "xy", "scale_units": "xy", "units": "inches", "zorder": 5}
            drawn = axis.quiver(*feet, *vectors, scale=self.scale, minlength=0, width=THICK, **TIP, **look)
            handles.append(axis.plot([], [], color=color, linewidth=2.0, label=name)[0])
        if drawn is not None:
            at = (1 - (text_width(self.text) + KEY_GAP) / width, 1 + above)
            words: Any = {"labelpos": "E", "color": INK, "labelsep": KEY_GAP, "fontproperties": {"size": SIZE}}
            axis.quiverkey(drawn, *at, self.known, self.text, **words)
        return handles


def draw_shapes(axis: Any, shapes: Shapes, at: Array | float = 0.0, **look: Any) -> None:
    """Guides, inertias, bodies and lines, shifted by this; look: of the lines of the machine."""
    for line in filter(is_closed, shapes.lines):
        axis.fill(*(line + at).T, color=BODY, linewidth=0, zorder=1.6, alpha=look.get("alpha"))  # hides no path
    for line in shapes.thin:
        draw_line(axis, line + at, color=GUIDE, linewidth=0.6, zorder=1.7)
    for line in shapes.lines:
        draw_line(axis, line + at, color=INK, zorder=3, **look)


def draw_line(axis: Any, line: Array, **look: Any) -> None:
    """A polyline; a single point is a dot."""
    dot = {"marker": "o", "markersize": 3, "linestyle": "none"} if len(line) == 1 else {}
    axis.plot(line[:, 0], line[:, 1], **look, **dot)
