"""The views of a machine that states its drawing by expressions: what its numbers are, as polylines and arrows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from servonode.arrays import Array
from servonode.errors import ModelError
from servonode.mechanics.description import CAPTION_FIELD, DrawnShape, DrawnView
from servonode.mechanics.machine import Machine
from servonode.plants.skeleton import columns_of_traces, places
from servonode.plants.view import Points, Values, View, shown_larger, signed

UNIT = "N"  # of arrows where none are stated


@dataclass(frozen=True)
class Drawn:
    """One view of a machine's drawing, its lean so many times as large: the functions of a `View`."""

    machine: Machine
    described: DrawnView
    factor: float = 1.0

    def view(self) -> View:
        """The view of which this has the functions."""
        d = self.described
        arrows, trails, poses = (
            [each for each in d.shapes if each.kind == kind] for kind in ("arrow", "trail", "pose")
        )
        thin = any(each.thin for each in d.shapes)
        return View(
            outline=partial(self._lines, thin=False),
            trails={each.name: each.columns for each in trails},
            goal=d.goal,
            axes=d.axes,
            title=shown_larger(d.title, d.magnified, self.factor),
            guides=partial(self._lines, thin=True) if thin else None,
            arrows=self._arrows if arrows else None,
            arrow_unit=arrows[0].unit if arrows else UNIT,
            strip=d.strip,
            caption=self._caption if d.caption else None,
            lean=self._lean if d.lean_at >= 0 else None,
            magnified=self._magnified if d.magnified else None,
            projection=None if d.projection is None else np.array(d.projection),
            frames=self._frames if poses else None,
        )

    def _magnified(self, factor: float) -> View:
        return replace(self, factor=factor).view()

    def _numbers(self, values: Values) -> Array:
        described = self.machine.description
        x = np.array([*(values[name] for name in described.state_names), 0.0])
        u = np.array([values[name] for name in described.input_names])
        return self.machine.drawing(values["t"], x, u, self.factor)

    def _rows(self, values: Values, *kinds: str) -> Iterator[tuple[DrawnShape, Points]]:
        numbers = self._numbers(values)
        for each in self.described.shapes:
            if each.kind in kinds:
                yield each, numbers[each.at : each.at + each.rows * each.size].reshape(each.rows, each.size)

    def _lines(self, values: Values, _parameters: Values, thin: bool) -> list[Points]:
        found = []
        for each, rows in self._rows(values, "line", "circle"):
            if each.thin is thin:
                hides = each.size == 3 and self.described.projection is None
                found += _above(_polyline(each, rows)) if hides else [_polyline(each, rows)]
        return found

    def _arrows(self, values: Values, _parameters: Values) -> dict[str, tuple[Points, Points]]:
        return {each.name: (rows[0], rows[1]) for each, rows in self._rows(values, "arrow")}

    def _frames(self, values: Values, _parameters: Values) -> dict[str, Points]:
        return {each.name: rows if len(rows) > 1 else rows[0] for each, rows in self._rows(values, "pose")}

    def _lean(self, values: Values, _parameters: Values) -> float:
        return float(self._numbers(values)[self.described.lean_at])

    def _caption(self, values: Values, _parameters: Values) -> str:
        rest = iter(self._numbers(values)[self.described.caption_at :].tolist())
        return CAPTION_FIELD.sub(lambda place: signed(next(rest), int(place[2]), plus=place[1]), self.described.caption)


def _polyline(shape: DrawnShape, rows: Points) -> Points:
    if shape.kind == "line":
        return rows
    angle = np.linspace(0.0, 2 * np.pi, shape.corners + 1)
    points: Points = rows[0] + np.column_stack([np.cos(angle), np.sin(angle)]) @ rows[1:]
    return points


def _above(line: Points) -> list[Points]:
    """The pieces (n, 2) of a polyline (n, 3) whose third number is not below zero; a dot is seen above it."""
    if len(line) == 1:
        return [line[:, :2]] if line[0, 2] > 0 else []
    seen = np.flatnonzero(line[:, 2] >= 0)
    pieces = np.split(seen, np.flatnonzero(np.diff(seen) > 1) + 1)
    return [line[each, :2] for each in pieces if len(each) > 1]


def drawn_views(machine: Machine, stated: Sequence[View], file: str) -> tuple[View, ...]:
    """The views of a machine: those of its drawing, with what the views of its file state beside it.

    Raises:
        ModelError: a view of the file has no outline, and there is no drawing beside which it stands.
    """
    drawing = machine.description.drawing
    if all(each.outline for each in stated) and stated:
        return tuple(stated)
    found = [Drawn(machine, each).view() for each in drawing]
    for i, each in enumerate(stated):
        if i >= len(found):
            text = f"{file}: VIEW{f'[{i}]' if i else ''} has no outline"
            raise ModelError(f"{text}; give it outline=, or the machine a view of its drawing= for it")
        more = {f.name: getattr(each, f.name) for f in fields(View) if getattr(each, f.name) is not None}
        given = {name: value for name, value in more.items() if name in BESIDE}
        found[i] = replace(found[i], **given)
    return tuple(found)


def drawing_behind(view: View) -> Drawn | None:
    """What of a machine's drawing a view shows; None: its outline is a function of the machine's file."""
    of = getattr(getattr(view.outline, "func", None), "__self__", None)
    return of if isinstance(of, Drawn) else None


BESIDE = ("outline", "guides", "arrows", "caption", "paths", "inertias", "frames")  # of a VIEW, beside a drawing


def path_columns(machine: Machine, traced: Sequence[str]) -> list[str]:
    """The columns of paths that are not recorded: of these frames and links, and of the drawing."""
    return list(
        dict.fromkeys([*columns_of_traces(traced), *(name for each in _trails(machine) for name in each.columns)])
    )


def path_values(machine: Machine, traced: Sequence[str], t: Array, x: Array) -> Array:
    """The values (n, columns) of `path_columns` at kernel states (n, n_x)."""
    names = path_columns(machine, traced)
    found = np.zeros((len(t), len(names)))
    for i in range(len(t) if traced else 0):
        found[i, : 3 * len(traced)] = places(machine, traced, float(t[i]), x[i]).ravel()
    if trails := _trails(machine):
        numbers = machine.drawing_of_rows(t, x, np.zeros((len(t), machine.n_inputs)))
        for each in trails:
            for i, name in enumerate(each.columns):
                found[:, names.index(name)] = numbers[:, each.at + i]
    return found


def _trails(machine: Machine) -> list[DrawnShape]:
    drawing = machine.description.drawing
    return [each for view in drawing for each in view.shapes if each.kind == "trail" and not each.recorded]
