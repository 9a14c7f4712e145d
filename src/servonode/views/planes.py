"""A machine's path in a plane, with the path that it is to follow and outlines at a few instants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, Self

import numpy as np

from servonode.arrays import Array
from servonode.plants.view import View
from servonode.views.forbidden import WORD, Forbidden, shade, shaded
from servonode.views.palette import FORBIDDEN, GOAL, INK, PALETTE
from servonode.views.scene import FEWEST, Arrows, Scene, apart, digits_of, draw_shapes, spread, time_text, well_spread
from servonode.views.shapes import box_of, wanted_paths
from servonode.views.sheet import Plane, label_axes
from servonode.views.titles import KEY, SIZE, Head, size_of, text_width

LONGEST = 0.12  # of the longest arrow to the extent of what it is drawn on
WIDER = 1.25  # of a plane with its arrows to the same without them, at most
GROWN = 1.5  # of a plane that reaches to a wanted path to the same without it, at most
EDGE = 0.02  # of the room beyond the nearest point of such a path to the larger side
APART = 0.06  # of two numbers to the extent of what they are drawn on
AROUND, AROUND_TIMES = 0.05, 0.065  # of the room around what is drawn to its larger side, for numbers and for times
MANY = 3  # numbers that follow each other and are written with their first and last alone
FLATTEST, TALLEST = 8.0, 0.45  # width over height of a plane at most and at least
NUMBER: Any = {"fontsize": SIZE, "color": INK, "ha": "center", "va": "center", "zorder": 6}
FARTHER = (0.0, 8.0, 16.0, 28.0)  # pt; from where it stands usually, where there is no room
ALOOF = 2.0  # pt; of a number from others
ASIDE = (np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.0, -1.0]))
DASHED: Any = {"color": GOAL, "linewidth": 1.0, "linestyle": (0, (4, 2.5)), "zorder": 2.5}


@dataclass(frozen=True)
class Map(Plane):
    """A plane with the paths of machine and goal and outlines at a few instants, and the region [m] that it shows."""

    scene: Scene  # at the instants whose outlines are drawn
    numbers: Mapping[int, str]  # what stands beside which instant
    view: View
    arrows: Arrows
    low: Array
    high: Array
    wanted: Mapping[str, Array]  # the fixed paths that are asked for, as far as they are seen here
    far: tuple[str, ...] = ()  # names of those that are too far away to be seen
    forbidden: Forbidden | None = None

    @classmethod
    def of(cls, scene: Scene, view: View, numbered: bool) -> Self:
        """What a run has in this view; numbered: the scene's instants are those of strips, with their numbers."""
        if numbered:
            numbers = {i: str(n + 1) for n, i in enumerate(scene.instants)}
            scene = replace(scene, instants=apart(scene, view))
        else:
            scene = spread(scene, FEWEST) if view.projection is not None else well_spread(scene, view)
            numbers = {i: time_text(float(scene.run.t[i]), digits_of(scene)) for i in scene.instants}
        shown = [scene.shapes(i, view) for i in scene.instants]
        lines = [line for each in shown for line in (*each.lines, *(each.guides if view.projection is None else ()))]
        lines += shown[-1].inertias if shown else []
        lines += [*(scene.path(view, pair).T for pair in view.trails.values()), *goal_path(scene, view)]
        arrows, low, high = _with_arrows(scene, view, box_of(lines), AROUND if numbered else AROUND_TIMES)
        low, high, paths = _with_paths(scene, view, low, high)
        seen = _seen(paths, low, high)
        far, forbidden = () if seen else tuple(paths), Forbidden(scene.run.closed_loop, view)
        return cls(scene, numbers, view, arrows, low, high, seen, far, forbidden if forbidden else None)

    def head(self, width: float) -> Head:
        """What stands above an axis of this width [in]."""
        names = [*self.view.trails, *self.wanted, *(["target"] if len(goal_path(self.scene, self.view)) else [])]
        names += [self._forbidden_word] if self.forbidden else []
        right = self.arrows.key_width(width / float(self.high[0] - self.low[0]))
        far = [f"{name} beyond the picture" for name in self.far]
        title = ", ".join([*([self.view.title] if self.view.title else []), *far]) or (" " if right else "")
        return Head.of(title, [*names, *self.arrows.names], width, right)

    def draw(self, axis: Any) -> None:
        """Draw it into an axis, which may be somewhat wider or higher than it wants."""
        width, height = size_of(axis)
        middle, per_m = (self.low + self.high) / 2, min(np.array([width, height]) / (self.high - self.low))
        half = np.array([width, height]) / per_m / 2
        axis.set_xlim(middle[0] - half[0], middle[0] + half[0])
        axis.set_ylim(middle[1] - half[1], middle[1] + half[1])
        axis.set_aspect("equal", adjustable="box")
        handles = [*self._draw_paths(axis), *self._draw_forbidden(axis, middle - half, middle + half)]
        for number, i in enumerate(self.scene.instants):
            shade = 0.35 + 0.65 * number / max(len(self.scene.instants) - 1, 1)
            shapes = self.scene.shapes(i, self.view)
            if self.view.projection is not None and i != self.scene.instants[-1]:
                shapes = replace(shapes, guides=[], inertias=[])  # in space they move along, and would hide one another
            draw_shapes(axis, shapes, linewidth=0.8, alpha=shade)
        self._draw_numbers(axis, per_m)
        head = self.head(width)
        above = (head.height - KEY) / height
        handles += self.arrows.draw(axis, [np.zeros(2)] * len(self.scene.instants), width, above)
        head.draw(axis, handles, self.arrows.key_width(per_m))
        rounded_ticks(axis)
        label_axes(axis, *self.view.axes)

    @property
    def _forbidden_word(self) -> str:
        """What the legend calls what is forbidden: at the end of the run, where it moves."""
        end = f" at {time_text(float(self.scene.run.t[-1]), 2)}"
        return f"{WORD}{end if self.forbidden and self.forbidden.moves else ''}"

    def _draw_forbidden(self, axis: Any, low: Array, high: Array) -> list[Any]:
        if self.forbidden is None:
            return []
        shade(shaded(axis, self.view), self.view, self.forbidden.areas(float(self.scene.run.goal_t[-1]), low, high))
        return [axis.plot([], [], color=FORBIDDEN, linewidth=5.0, solid_capstyle="butt", label=self._forbidden_word)[0]]

    def _draw_paths(self, axis: Any) -> list[Any]:
        """Paths of the machine, then what it is to follow."""
        drawn = [
            axis.plot(*self.scene.path(self.view, pair), color=color, linewidth=1.2, label=label, zorder=2)[0]
            for color, (label, pair) in zip(cycle(PALETTE), self.view.trails.items(), strict=False)
        ]
        for name, line in self.wanted.items():
            drawn.append(axis.plot(*line.T, label=name, marker="x" if len(line) == 1 else None, **DASHED)[0])
        for goal in goal_path(self.scene, self.view):
            drawn.append(axis.plot(*goal.T, label="target", **DASHED)[0])
            axis.plot(*goal[self.scene.instants].T, "o", color=GOAL, markersize=3, zorder=4)
            for pair in list(self.view.trails.values())[:1]:
                for i in self.scene.instants:
                    axis.plot(
                        *np.array([self.scene.path(self.view, pair)[:, i], goal[i]]).T,
                        color=GOAL,
                        linewidth=0.4,
                        alpha=0.6,
                    )
        return drawn

    def _draw_numbers(self, axis: Any, per_m: float) -> None:
        """Number the instants beside the path, but for those that stand where the number of another one does."""
        from matplotlib.patheffects import withStroke
        from matplotlib.transforms import Bbox

        points, taken = per_m * 72, list[Any]()  # pt in a metre; boxes of numbers
        page = Bbox(np.sort(np.array([axis.get_xlim(), axis.get_ylim()])).T * points)
        limbs = self._limbs(points)
        path = self._marked()
        for i, number in self._named(path).items():
            found = self._place(path, i, number, points, page, taken, limbs)
            if found is None:
                continue
            if i not in self.scene.instants:
                axis.plot(*path[i], "o", color=INK, markersize=2, zorder=4)
            text = axis.annotate(number, path[i], found[0], textcoords="offset points", **NUMBER)
            text.set_path_effects([withStroke(linewidth=2.0, foreground="w")])
            taken.append(found[1].padded(ALOOF))

    def _marked(self) -> Array:
        """The path (rows, 2) beside which instants are numbered: the first trail, or the places of the outline."""
        for pair in self.view.trails.values():
            return self.scene.path(self.view, pair).T
        places = np.full((len(self.scene.run.t), 2), np.nan)
        for i in self.scene.instants:
            lines = [line for line in self.scene.shapes(i, self.view).lines if len(line)]
            if lines:
                low, high = box_of(lines)
                places[i] = (low[0] + high[0]) / 2, low[1]
        return places

    def _place(
        self, path: Array, i: int, number: str, points: float, page: Any, taken: Sequence[Any], limbs: Sequence[Any]
    ) -> tuple[Array, Any] | None:  # fmt: skip
        """Where a number stands from the path [pt], with its box; None where there is no room.

        Clear of the outline and of other numbers, if possible of other bodies and limbs too, and nearer to its own
        place.
        """
        from matplotlib.transforms import Bbox

        half, at, across = np.array([text_width(number) * 36, SIZE / 2]), path[i] * points, self._normal(path, i)
        ways = (across, -across, *ASIDE)
        own = self._bodies_at(i, path[i])
        reach = [max((float(((line - path[i]) @ way).max()) for line in own), default=0.0) for way in ways]
        clear_of = [far * points + 3 + float(np.hypot(*(half * way))) for far, way in zip(reach, ways, strict=True)]
        tried = [way * least + more * way for more in FARTHER for way, least in zip(ways, clear_of, strict=True)]
        boxes = [(way, Bbox([at + way - half, at + way + half])) for way in tried]
        inside = [each for each in boxes if page.contains(*each[1].min) and page.contains(*each[1].max)]
        free = [each for each in inside if not _covers(each[1], taken)]
        others = [other for other in self.scene.instants if other != i]
        outlines = [line for other in others for line in self._bodies_at(other, path[other])]
        bodies = [Bbox(points * np.array([line.min(axis=0), line.max(axis=0)])) for line in outlines]
        clear = [each for each in free if not _covers(each[1], bodies)]
        clear = [each for each in clear if _is_nearest(at, at + each[0], path[others] * points)]
        clear = [each for each in clear if not any(limb.intersects_bbox(each[1], False) for limb in limbs)] or clear
        return next(iter(clear or free), None)

    def _named(self, path: Array) -> dict[int, str]:
        """What stands beside which instant; one that comes back to the place of another is named there too, "1, 7"."""
        least = APART * float(max(self.high - self.low))
        places, found = {i: place for place, i in enumerate(self.numbers)}, dict[int, list[int]]()
        known = [i for i in self.numbers if np.isfinite(path[i]).all()]
        for i in sorted(known, key=lambda i: i not in self.scene.instants):
            distances = {at: float(np.abs(path[at] - path[i]).max()) for at in found}
            nearest = min(distances, key=lambda at: distances[at], default=i)
            if distances.get(nearest, np.inf) < least:
                found[nearest].append(places[i])
            else:
                found[i] = [places[i]]
        return {at: listed(sorted(each), list(self.numbers.values())) for at, each in found.items()}

    def _normal(self, path: Array, i: int) -> Array:
        """A unit vector across the path, outwards, or to the other side where an arrow points outwards."""
        steps = path[min(i + 1, len(path) - 1) :] - path[i]
        back = path[i] - path[: max(i, 1)][::-1]
        moved = [*steps[np.hypot(*steps.T) > 1e-9][:1], *back[np.hypot(*back.T) > 1e-9][:1]]
        across = np.array([-moved[0][1], moved[0][0]]) / np.hypot(*moved[0]) if moved else np.array([0.0, 1.0])
        outwards = float(across @ (path[i] - np.nanmean(path, axis=0)))
        size = float(max(self.high - self.low))
        across = across if outwards > 1e-3 * size or (abs(outwards) <= 1e-3 * size and across[1] >= 0) else -across
        seen = self.arrows.at[self.scene.instants.index(i)] if i in self.scene.instants else {}
        pull = sum((vector / self.arrows.scale for _, vector in seen.values()), np.zeros(2))
        return -across if float(across @ pull) > 0.02 * size else across

    def _bodies_at(self, i: int, at: Array) -> list[Array]:
        """The outlines of an instant that are nearer to a place than their own size, not those at the end of a rope."""
        if i not in self.scene.instants:
            return []
        lines = self.scene.shapes(i, self.view).lines
        return [line for line in lines if len(line) != 2 and np.isfinite(line).all() and _is_at(line, at)]

    def _limbs(self, points: float) -> list[Any]:
        """The machine's paths [pt] and, of a view in space, whose machine is a skeleton, the lines of all instants."""
        from matplotlib.path import Path

        lines = [self.scene.path(self.view, pair).T for pair in self.view.trails.values()]
        if self.view.projection is not None:
            lines += [line for i in self.scene.instants for line in self.scene.shapes(i, self.view).lines]
        return [Path(points * line) for line in lines if len(line) > 1 and np.isfinite(line).all()]


def _with_arrows(
    scene: Scene, view: View, box: tuple[Array, Array], room: float
) -> tuple[Arrows, Array, Array]:  # fmt: skip
    """The arrows of a view and the corners of its plane; they are shorter where they would make it much larger."""
    longest, largest = LONGEST * float(max(box[1] - box[0])), scene.largest([view])
    without = np.subtract(*framed(*box, room)[::-1])
    for part in (1.0, 0.8, 0.6, 0.5, 0.4, 0.3):
        arrows = Arrows.of(scene, view, largest, part * longest)
        low, high = framed(*box_of([np.array(box), *arrows.tips]), room)
        if (high - low <= WIDER * without).all():
            break
    return arrows, low, high


def _with_paths(scene: Scene, view: View, low: Array, high: Array) -> tuple[Array, Array, dict[str, Array]]:
    """The corners of a plane and the wanted paths; one that shows none of them grows to where one is nearest."""
    loop, size = scene.run.closed_loop, float(max(high - low))
    paths = wanted_paths(loop, view, low, high)
    if not paths or _seen(paths, low, high):
        return low, high, paths
    points = np.concatenate([np.zeros((0, 2)), *wanted_paths(loop, view, low - size, high + size).values()])
    points = points[np.isfinite(points).all(axis=1)]  # a path may have gaps
    if not len(points):
        return low, high, paths
    off = np.maximum(np.maximum(low - points, points - high), 0.0).max(axis=1)
    nearest = points[np.argmin(off)]
    lower, higher = framed(np.minimum(low, nearest), np.maximum(high, nearest), EDGE)
    if max(higher - lower) > GROWN * size:
        return low, high, paths
    return lower, higher, wanted_paths(loop, view, lower, higher)


def _seen(paths: Mapping[str, Array], low: Array, high: Array) -> dict[str, Array]:
    """The paths of which a point is within the corners."""
    return {name: line for name, line in paths.items() if ((line >= low) & (line <= high)).all(axis=1).any()}


def listed(places: Sequence[int], names: Sequence[str]) -> str:
    """The names at these places with commas between them, but three and more that follow each other as "3–7"."""
    parts = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    shown: list[list[str]] = [[str(names[i]) for i in part] for part in parts]
    return ", ".join(f"{each[0]}–{each[-1]}" if len(each) >= MANY else ", ".join(each) for each in shown)


def _is_at(line: Array, at: Array) -> bool:
    """Whether a body is nearer to a point than its own size."""
    return bool(np.abs(line - at).max(axis=1).min() <= np.ptp(line, axis=0).max())


def _is_nearest(at: Array, number: Array, others: Array) -> bool:
    """Whether a number is nearer to its place than to others (n, 2)."""
    return bool((np.hypot(*(others - number).T) > np.hypot(*(at - number))).all())


def _covers(box: Any, others: Sequence[Any]) -> bool:
    """Whether a box covers one of others."""
    return any(box.fully_overlaps(other) for other in others)


def rounded_ticks(axis: Any) -> None:
    """Ticks at 1, 2, 5 of a power of ten, which have few digits, as many as the axis has room for."""
    from matplotlib.ticker import MaxNLocator

    width, height = size_of(axis)

    axis.xaxis.set_major_locator(MaxNLocator(max(int(width / 0.5), 3), steps=[1, 2, 5, 10]))
    axis.yaxis.set_major_locator(MaxNLocator(max(int(height / 0.3), 3), steps=[1, 2, 5, 10]))
    axis.ticklabel_format(style="sci", scilimits=(-3, 5), useMathText=True)  # else long numbers push the labels off
    axis.yaxis.get_offset_text().set(ha="right", fontsize=SIZE)  # beside the legend
    axis.xaxis.get_offset_text().set_fontsize(SIZE)


def framed(low: Array, high: Array, room: float) -> tuple[Array, Array]:
    """Corners with room around them, in parts of the larger side, neither too flat nor too tall."""
    more = room * float(max(high - low))
    width, height = high - low + 2 * more
    grow = np.array([max(height * TALLEST - width, 0.0), max(width / FLATTEST - height, 0.0)]) / 2
    return low - more - grow, high + more + grow


def goal_path(scene: Scene, view: View) -> list[Array]:
    """The target's path (rows, 2), if there is one; else that of the goals whose outputs are a trail's values."""
    known: Mapping[str, Array] = scene.goals
    goal = view.goal if view.goal and set(view.goal) <= known.keys() else None
    if goal is None and view.paths is None:
        known = scene.run.tracked_columns
        names = {each.column: f"goal_{each.residual}" for each in scene.run.closed_loop.tracked if each.column}
        goal = next((tuple(names[each] for each in pair) for pair in view.trails.values() if {*pair} <= {*names}), None)
    if goal is None:
        return []
    path = view.path(known, goal)
    return [path] if np.isfinite(path).any() else []
