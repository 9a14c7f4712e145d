"""Where a law keeps a machine out, in the plane or space of a view: the places at which what is kept would be below 0.

Such a place is that of a trail whose values are two states, whatever function of them is kept; and that of any trail,
frame or link whose distance from a fixed point, line or plane is kept.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from servonode.arrays import Array
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.plants.drawn import path_columns, path_values
from servonode.plants.view import View, circle
from servonode.views.palette import EDGE

FINE, COARSE = 120, 48  # pieces of the larger side of a region in which h is evaluated; the same where it moves
STATES, SEED, SPREAD = 6, 1, 0.4  # random states about the start, by which it is found of what h is a function
STEP, ALIKE = 1e-6, 1e-5  # of a difference quotient, and what rounding may make of it
FEW = 32  # pieces, of which an area has fewer that is looked at closer
INSTANTS = 5  # of the run, at which it is looked whether h moves
STRAIGHT = 1e-6  # of the size of a ring, by which a point may be off a line that is one
LARGE = 1e9  # m; beyond it nothing is drawn
PALE = {2: 0.4, 3: 0.15}  # opacity, by how many numbers a point has: in space areas lie before each other
WORD = "forbidden"  # in legends
Area = list[Array]  # rings (n, size) of points of a view: the outer one, then those of holes


@dataclass(frozen=True)
class Fixed:
    """What is kept as the distance from a point or a plane: |p - at| - far, or p * at - far where it is flat; `sign`
    -1: the distance is to stay smaller.
    """

    at: Array
    far: float
    flat: bool
    sign: float = 1.0

    def h(self, points: Array) -> Array:
        """What is kept, at points (..., size)."""
        if self.flat:
            return points @ self.at - self.far
        distance: Array = np.linalg.norm(points - self.at, axis=-1)
        return self.sign * (distance - self.far)

    def in_space(self, projection: Array, low: Array, high: Array) -> Area:
        """What of it is seen in the region between two corners (2,) of a view in space."""
        across, up = projection
        eye, size = np.cross(across, up), float(np.max(high - low))
        middle = np.array([across, up]).T @ (low + high) / 2
        square = size * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
        if not self.flat:
            ring = self.at + circle(np.zeros(2), self.far) @ projection
            return [ring] if self.sign > 0 else [self.at + 2 * square @ projection, ring]
        foot = middle - (middle @ self.at - self.far) * self.at
        if abs(self.at @ eye) < ALIKE:  # seen from the side
            beside = np.array([np.cross(eye, self.at), self.at])
            return [foot + (square - [0, size]) @ beside]
        aside = np.cross(self.at, eye if abs(self.at @ eye) < 0.9 else across)
        aside /= np.linalg.norm(aside)
        return [foot + square / 2 @ np.array([aside, np.cross(self.at, aside)])]


class Forbidden:
    """The forbidden sets of a view of a closed loop. moves: whether time or goals move them."""

    def __init__(self, closed_loop: ClosedLoop, view: View) -> None:
        self._loop, self._view, self.moves = closed_loop, view, False
        self._pairs, self._fixed = dict[int, tuple[int, int]](), dict[int, Fixed]()  # of faces
        if closed_loop.control is None or view.strip or not closed_loop.control.law.description.keeps:
            return
        law, machine = closed_loop.control.law, closed_loop.machine
        self._margins = law.kept[2, [k for k, _ in law.description.faces]]
        rng, n = np.random.default_rng(SEED), machine.n_state
        states = np.tile(closed_loop.start, (STATES, 1))
        states[:, :n] += SPREAD * rng.uniform(-1, 1, (STATES, n))
        faces = [i for i, (_, degree) in enumerate(law.description.faces) if degree]
        times = np.linspace(0.0, closed_loop.launch.duration_ns / 1e9, INSTANTS).tolist()
        with np.errstate(all="ignore"):
            moving = np.ptp([self._h(t, states[0]) for t in times], axis=0) != 0.0
            for names in view.trails.values():
                self._find_pairs(faces, names, states)
            rest = [i for i in faces if i not in self._pairs and not moving[i]]
            if rest:
                self._find_fixed(rest, states)
        self.moves = any(moving[i] for i in self._pairs)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._pairs or self._fixed)

    @property
    def in_space(self) -> bool:
        """Whether they are balls and sheets in space."""
        return self._view.size == 3

    def _h(self, t: float, x: Array, y: Array | None = None) -> Array:
        """What is kept by each face at a state."""
        control = self._loop.known_control
        rows = control.law.keep_rows(t, x, control.goal(t) if y is None else y)
        found: Array = rows[:, 0] + self._margins
        return found

    def _find_pairs(self, faces: list[int], names: tuple[str, ...], states: Array) -> None:
        """The faces that depend on two states alone, those that a trail in the plane draws."""
        known, control = self._loop.machine.description.state_names, self._loop.known_control
        if self._view.size != 2 or not {*names} <= {*known}:
            return
        pair, others, y = [known.index(name) for name in names], states.copy(), control.goal(0.0)
        others[:, pair] = states[0, pair]
        changed = y.copy()
        changed[control.law.goal_layout.kept] += SPREAD
        alone = np.ptp([*(self._h(0.0, x, y) for x in others), self._h(0.0, others[0], changed)], axis=0)
        spread = np.ptp([self._h(0.0, x, y) for x in states], axis=0)
        self._pairs |= {
            i: (pair[0], pair[1]) for i in faces if i not in self._pairs and alone[i] <= ALIKE**2 * spread[i] > 0
        }

    def _find_fixed(self, faces: list[int], states: Array) -> None:
        """The faces that are the distance of a place from something fixed."""
        n, found = self._loop.machine.n_state, []
        for x in states:
            ends = [self._both(x + sign * STEP * np.eye(len(x))[i]) for i in range(n) for sign in (1, -1)]
            pairs = zip(ends[::2], ends[1::2], strict=True)
            slopes = [[(a - b) / (2 * STEP) for a, b in zip(*each, strict=True)] for each in pairs]
            found.append((self._both(x), slopes))
        for i in faces:
            for k in range(len(found[0][0][1])):
                points = np.array([at[1][k] for at, _ in found])
                h = np.array([at[0][i] for at, _ in found])
                G = [_slope(np.array([e[1][k] for e in s]), np.array([e[0][i] for e in s])) for _, s in found]
                fixed = _fixed(points, h, np.array(G))
                if fixed is not None:
                    self._fixed[i] = fixed
                    break

    def _both(self, x: Array) -> tuple[Array, Array]:
        """What each face keeps, and the places (n, size) of trails, frames and links."""
        machine, loop, now = self._loop.machine, self._loop, np.zeros(1)
        values = dict(zip(machine.description.state_names, x, strict=False))
        values |= machine.outputs(0.0, x, np.zeros(machine.n_inputs))
        names = path_columns(machine, loop.traced)
        values |= zip(names, path_values(machine, loop.traced, now, x[None])[0], strict=True)
        trails = [[values[name] for name in each] for each in self._view.trails.values() if {*each} <= {*values}]
        if machine.description.skeleton and self._view.size == 3:
            trails += machine.poses(0.0, x)[:, :3].tolist()
        return self._h(0.0, x), np.array(trails).reshape(-1, self._view.size)

    def areas(self, t: float, low: Array, high: Array, pieces: int = FINE) -> list[Area]:
        """The polygons of the forbidden sets at a goal time [s], in the region between two corners (2,) [m].

        pieces: of its larger side, in which h is evaluated where it does not move.
        """
        if not self or not (np.abs([low, high]) < LARGE).all():
            return []
        if self._view.projection is not None:
            eye = np.cross(*self._view.projection)
            seen = [each for each in self._fixed.values() if not each.flat or abs(each.at @ eye) < 1.0 - ALIKE]
            return [each.in_space(self._view.projection, low, high) for each in seen]  # no sheet that lies before all
        step = float(np.max(high - low)) / (COARSE if self.moves else pieces)
        found = list[Area]()
        for area in self._polygons(t, low, high, step):
            ends = np.min(area[0], axis=0) - step, np.max(area[0], axis=0) + step
            size = float(np.max(ends[1] - ends[0]))
            small = size < FEW * step and (ends[0] > low).all() and (ends[1] < high).all()
            found += self._polygons(t, *ends, size / FEW) if small else [area]
        return found

    def _polygons(self, t: float, low: Array, high: Array, step: float) -> list[Area]:
        """The polygons in a region, whose edges are straight within such steps [m]."""
        from contourpy import contour_generator

        across, up = (np.linspace(a, b, max(int((b - a) / step), 2) + 1) for a, b in zip(low, high, strict=True))
        with np.errstate(all="ignore"):
            h = np.ma.masked_invalid(self._on_grid(t, np.stack(np.meshgrid(across, up), axis=-1)))
        contours: Any = contour_generator(across, up, h, fill_type="OuterOffset")
        found = zip(*contours.filled(-1e300, 0.0), strict=True)
        return [[_corners(ring) for ring in np.split(points, offsets[1:-1])] for points, offsets in found]

    def _on_grid(self, t: float, points: Array) -> Array:
        """The least of what faces keep, at points (..., 2)."""
        control, x = self._loop.known_control, self._loop.start.copy()
        fields = [each.h(points) for each in self._fixed.values()]
        y, rows_at, size = control.goal(t), control.law.keep_rows, points.shape[:-1]
        for pair in dict.fromkeys(self._pairs.values()):
            mine, found = [i for i, each in self._pairs.items() if each == pair], []
            for x[pair[0]], x[pair[1]] in points.reshape(-1, 2).tolist():
                found.append(rows_at(t, x, y)[:, 0])
            fields.append((np.array(found)[:, mine] + self._margins[mine]).min(axis=1).reshape(size))
        least: Array = np.min(fields, axis=0)
        return least


def _corners(ring: Array) -> Array:
    """A ring without points on a line between their neighbours."""
    ring = ring[np.append(True, np.diff(ring, axis=0).any(axis=1))]
    (dx, dy), size = np.diff(ring, axis=0).T, float(np.ptp(ring))
    bends = np.abs(dx[:-1] * dy[1:] - dy[:-1] * dx[1:]) > STRAIGHT * size * np.hypot(dx[:-1], dy[:-1])
    bent: Array = ring[np.concatenate([[True], bends, [True]])]
    return bent


def _slope(places: Array, values: Array) -> Array:
    """The slope (size,) of values by places, of slopes (n, size), (n,) by the states; NaN where it does not exist."""
    found: Array = np.asarray(np.linalg.lstsq(places, values, rcond=ALIKE)[0], float)
    error = np.abs(places @ found - values).max()
    return found if error <= ALIKE * np.abs(values).max() > 0 else np.full_like(found, np.nan)


def _fixed(points: Array, h: Array, slopes: Array) -> Fixed | None:
    """What h is the distance from, by its values (n,) and slopes (n, size) at points; None where it is no distance."""
    if not (np.isfinite(slopes).all() and np.isfinite(points).all()):
        return None
    scale = ALIKE * (1 + np.abs(points).max() + np.abs(h).max())
    size = float(np.linalg.norm(slopes[0]))
    if np.ptp(slopes, axis=0).max() <= ALIKE * size:
        normal = slopes[0] / size
        return Fixed(normal, float(np.mean(points @ normal - h / size)), True)
    if np.abs(np.linalg.norm(slopes, axis=1) - 1).max() > ALIKE:
        return None
    n, size_ = slopes.shape  # points - h slopes = at + far slopes
    A = np.concatenate([np.tile(np.eye(size_), (n, 1)), slopes.reshape(-1, 1)], axis=1)
    known = (points - h[:, None] * slopes).ravel()
    *at, far = np.linalg.lstsq(A, known, rcond=None)[0]
    if np.abs(A @ [*at, far] - known).max() > scale:
        return None
    return Fixed(np.array(at), float(abs(far)), False, float(np.sign(far)))


def shade(collection: Any, view: View, areas: list[Area]) -> None:
    """Make these areas those of a collection of matplotlib."""
    from matplotlib.path import Path

    rings = [[Path(view.flat(ring), closed=True) for ring in area] for area in areas]
    collection.set_paths([Path.make_compound_path(*each) for each in rings])


def shaded(axis: Any, view: View) -> Any:
    """What of an axis shows areas, without any yet: a collection of matplotlib."""
    from matplotlib.collections import PathCollection

    made = PathCollection(
        [], facecolors=[(EDGE, PALE[view.size])], edgecolors=EDGE, linewidths=0.6, zorder=0.6, label=WORD
    )
    return axis.add_collection(made, autolim=False)
