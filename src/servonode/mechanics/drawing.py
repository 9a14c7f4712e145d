"""How a machine is drawn: lines, circles, paths and arrows, by expressions of its symbols.

`Model(..., drawing=[line((0, 0), (l*sin(th), -l*cos(th))), ...])`. The numbers of all shapes are computed by one
function of the machine's kernel; what they are is in the machine's description. `polygon(...).at((x, y), psi)` is one
that stands in a body's axes.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import sympy

from servonode.definitions.source_location import Place, here
from servonode.errors import ModelError, short
from servonode.mechanics.description import CAPTION_FIELD, IN_SPACE, DrawnShape, DrawnView
from servonode.mechanics.emit import Name
from servonode.mechanics.stated import Change, Stated, mapped
from servonode.mechanics.switches import settled
from servonode.mechanics.symbols import check_texts, refuse_uncompilable

Expr = Any
Point = tuple[Expr, ...]
Kind = Literal["line", "circle", "trail", "arrow", "pose"]
magnification = Name("magnification", real=True)  # by how much a view's lean is enlarged, where it is small; else 1
CORNERS = 48  # of a circle
FLAT, STRIP, SPACE = ("x [m]", "y [m]"), ("", "height [m]"), ("[m]", "[m]")  # labels of axes


@dataclass(frozen=True)
class Shape(Stated):
    """A shape by rows of expressions; see the functions that make them."""

    kind: Kind
    rows: tuple[Point, ...]
    thin: bool = False
    name: str = ""
    unit: str = ""
    corners: int = 0
    place: Place = field(default_factory=here)

    def mapped(self, change: Change) -> Self:
        return replace(self, rows=mapped(self.rows, change))

    def at(self, point: Any, turned: Any = 0) -> Self:
        """The shape with its origin moved to a point, and turned about it: by an angle [rad], in space to the axes x, y
        and z of a body, three triples or the columns of a matrix.
        """
        to, what = _point("at()'s point", point), f"at() of a {self.kind}"
        if self.size != len(to):
            raise ModelError(f"{what} whose points are not of {len(to)} numbers; give a point of as many", here())
        if _is_point(turned):
            columns = _axes(what, to, turned)
        elif len(to) == 2:
            (angle, _) = _point("at()'s angle", (turned, 0))
            columns = [(sympy.cos(angle), sympy.sin(angle)), (-sympy.sin(angle), sympy.cos(angle))]
        elif turned != 0:
            text = f"{what}: an angle turns it in a plane; in space give the body's axes, three triples"
            raise ModelError(text, here())
        else:
            columns = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
        moved = 1 if self.kind in ("circle", "arrow") else len(self.rows)  # what follows are directions
        turn = sympy.Matrix(columns).T
        rows = (turn * sympy.Matrix(row) + int(i < moved) * sympy.Matrix(to) for i, row in enumerate(self.rows))
        return replace(self, rows=tuple(map(tuple, rows)))

    @property
    def entries(self) -> list[Expr]:
        """Its expressions, row by row."""
        return [entry for row in self.rows for entry in row]

    def is_recorded(self, columns: Mapping[Expr, str]) -> bool:
        """Whether all of them are states or outputs, by their names."""
        return all(entry in columns for entry in self.entries)

    @property
    def size(self) -> int:
        """How many numbers its points have; 0 of a pose, which is in every view the same."""
        return 0 if self.kind == "pose" else len(self.rows[0])


@dataclass(frozen=True)
class Picture(Stated):
    """One view of a machine; see `view`."""

    shapes: tuple[Shape, ...]
    title: str = ""
    axes: tuple[str, str] | None = None
    goal: tuple[str, ...] | None = None
    strip: bool = False
    caption: str = ""
    caption_values: Point = ()
    lean: Expr | None = None
    magnified: str = ""
    projection: tuple[tuple[float, ...], ...] | None = None
    place: Place = field(default_factory=here)

    def mapped(self, change: Change) -> Self:
        values, lean = mapped((self.caption_values, self.lean), change)
        return replace(self, shapes=mapped(self.shapes, change), caption_values=values, lean=lean)

    @property
    def in_space(self) -> bool:
        """Whether all its points are triples."""
        return {each.size for each in self.shapes} - {0} == {3}

    def parts(self, columns: Mapping[Expr, str]) -> Iterator[tuple[str, str, Expr, Place]]:
        """As `Model.parts`: `trails` are those that are not recorded, see `drawn`."""
        for each in self.shapes:
            word = "drawing" if each.kind != "trail" or each.is_recorded(columns) else "trails"
            yield from ((word, f"the drawing's {each.kind}", entry, each.place) for entry in each.entries)
        yield from (("drawing", "the drawing's caption", each, self.place) for each in self.caption_values)
        yield from (("drawing", "the drawing's lean", each, self.place) for each in (self.lean,) if each is not None)


def line(*points: Any, thin: bool = False) -> Shape:
    """A polyline [m]; of a single point a dot. thin: as what does not belong to the body, such as a floor."""
    return _shape("line", points, thin=thin)


def polygon(*points: Any, thin: bool = False) -> Shape:
    """A closed polyline [m], the edge of a body."""
    if len(points) < 3:
        raise ModelError(f"polygon() has {len(points)} points; give three or more", here())
    return _shape("line", (*points, points[0]), thin=thin)


def dot(point: Any) -> Shape:
    """A point [m] that is marked, such as a centre of mass."""
    return _shape("line", (point,))


def circle(
    centre: Any, radius: Any, *, thin: bool = False, across: Any = None, up: Any = None, corners: int = CORNERS
) -> Shape:  # fmt: skip
    """A circle [m] of a centre and a radius; in space it is spanned by two unit vectors, x and y where none are given.

    corners: of the polyline that is drawn.
    """
    size = len(_point("circle()'s centre", centre))
    unit = sympy.eye(size)
    spans = [_point("circle()'s span", e if e is not None else unit[:, i]) for i, e in enumerate((across, up))]
    (r, _) = _point("circle()'s radius", (radius, 0))
    if not isinstance(corners, int) or corners < 3:
        raise ModelError(f"circle(): corners={corners!r} is no whole number from 3 on; give one", here())
    rows = (centre, *(tuple(r * e for e in span) for span in spans))
    return replace(_shape("circle", rows, thin=thin), corners=corners)


def trail(point: Any, name: str = "path") -> Shape:
    """The path of a point [m], with its name in the legend."""
    return _shape("trail", (point,), name=name)


def arrow(foot: Any, vector: Any, *, name: str, unit: str = "N") -> Shape:
    """A vector, such as a force, at its foot [m], with its name in the legend. The arrows of a view have one unit."""
    return _shape("arrow", (foot, vector), name=name, unit=unit)


def pose(name: str, point: Any, turned: Any) -> Shape:
    """Where a body of the machine is, for other tools such as rerun: pictures do not show it.

    turned: the angle [rad] in the view's plane; of a point in space the body's axes x, y and z, three triples or the
    columns of a matrix.
    """
    place = _point("pose()'s point", point)
    if _is_point(turned):
        return _shape("pose", tuple(zip(*_axes("pose()", place, turned), place, strict=True)), name=name)
    if len(place) != 2:
        text = "pose() with one angle is in a plane; give its point as (x, y), or the body's three axes"
        raise ModelError(text, here())
    (angle, _) = _point("pose()'s angle", (turned, 0))
    return _shape("pose", ((*place, angle),), name=name)


def _axes(what: str, point: Point, turned: Any) -> list[Point]:
    """The axes x, y, z of a body in space, of which a matrix has the columns."""
    if len(np.shape(turned)) == 2 and not isinstance(turned, list | tuple):
        turned = list(zip(*np.array(turned), strict=True))
    if len(turned) != 3 or len(point) != 3:
        text = f"{what}: three axes turn it in space about a point (x, y, z)"
        raise ModelError(f"{text}; give three triples for the axes, in a plane one angle", here())
    return [_point(f"{what}: an axis", each, (3,)) for each in turned]


def view(
    *shapes: Any, title: str = "", axes: Sequence[str] | None = None, goal: Sequence[str] | None = None,
    strip: bool = False, caption: Sequence[Any] | str = "", lean: Any = None, magnified: str = "",
    projection: Any = None,
) -> Picture:  # fmt: skip
    """Shapes that are drawn in one view; `drawing=` lists views where a machine has several.

    Points are pairs (x, y). With triples alone it is drawn in space, seen from above the ground at 60° beside y, or as
    the two directions across and up of `projection` say. Beside pairs the third number of a triple is its height over
    the plane; what is below is hidden.

    title: what it shows, and whence. axes: two labels. goal: names of the targets that are the wanted position of its
    first trail. strip: instead of one plane, instants side by side; the shapes are then relative to the machine.
    caption: below each of them, ("{:.2f} m/s", v): a text with places for numbers. lean: the angle [rad] that a strip
    shows; where it is small, `magnification` in the shapes is more than 1, the title says so, and `magnified` of what.
    """
    check_texts("view()", title=title, magnified=magnified)
    for i, each in enumerate(shapes):
        if not isinstance(each, Shape):
            text = f"view(): argument {i + 1}, {short(each)}, is no shape; make it by line, polygon, circle, dot, trail"
            raise ModelError(f"{text}, arrow or pose", here())
    template, *values = (caption,) if isinstance(caption, str) else tuple(caption) or ("",)
    check_texts("view()", caption=template)
    if len(CAPTION_FIELD.findall(template)) != len(values) or re.search("[{}]", CAPTION_FIELD.sub("", template)):
        text = f"view(): caption={short(caption)} has not a place such as {{:.2f}} or {{:+.1f}} for each of its numbers"
        raise ModelError(f'{text}; write it as ("{{:.2f}} m/s", v)', here())
    angle = None if lean is None else _point("view()'s lean", (lean, 0))[0]
    stated = None if projection is None else _directions(projection)
    found = Picture(tuple(shapes), title, _names("axes", axes, 2), None, bool(strip), template,
                    _point("view()'s caption", values, (len(values),)), angle, magnified, stated)  # fmt: skip
    sizes = {each.size for each in shapes if each.kind in ("trail", "arrow")} - {3 if found.in_space else 2}
    if sizes:
        text = "view() has points (x, y) beside a trail or an arrow in space"
        raise ModelError(f"{text}; give that in the same two numbers, or all points as (x, y, z)", here())
    if len(units := {each.unit for each in shapes if each.kind == "arrow"}) > 1:
        text = f"view() has arrows in {' and '.join(sorted(units))}; give them one unit, or two views"
        raise ModelError(text, here())
    return replace(found, goal=_names("goal", goal, 3 if found.in_space else 2))


def _names(word: str, given: Any, n: int) -> Any:
    if given is None or (
        isinstance(given, tuple | list) and len(given) == n and all(isinstance(e, str) for e in given)
    ):
        return given and tuple(given)
    raise ModelError(f"view(): {word}={short(given)} is not {n} texts; give so many", here())


def _directions(given: Any) -> tuple[tuple[float, ...], ...]:
    try:
        found = np.asarray(given, float)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape != (2, 3) or not np.isfinite(found).all():
        text = f"view(): projection={short(given)} is not two triples of numbers"
        raise ModelError(f"{text}; give the directions across and up, ((1, 0, 0), (0, 0, 1))", here())
    return tuple(map(tuple, found.tolist()))


def _shape(kind: Kind, points: Any, name: str = "", unit: str = "", thin: bool = False) -> Shape:
    place, sizes = here(), None if kind != "pose" else (3, 4)
    check_texts(f"{kind}()", name=name, unit=unit)
    rows = tuple(_point(f"{kind}()'s point {i}", each, sizes or (2, 3)) for i, each in enumerate(points, 1))
    if not rows or len({*map(len, rows)}) > 1:
        text = f"{kind}() has {'points of two and of three numbers' if rows else 'no points'}"
        raise ModelError(f"{text}; write it as {kind}((0, 0), (x, y))", place)
    return Shape(kind, rows, bool(thin), name, unit, place=place)


def _is_point(given: Any) -> bool:
    return not isinstance(given, str) and isinstance(given, Sequence | sympy.MatrixBase | np.ndarray)


def _point(what: str, given: Any, sizes: tuple[int, ...] = (2, 3)) -> Point:
    """The expressions of a point.

    Raises:
        ModelError: it has another size, or one of them cannot be compiled.
    """
    if not _is_point(given) or len(given) not in sizes:
        raise ModelError(f"{what} is {short(given)}; give (x, y), or (x, y, z) in space", here())
    for each in given:
        refuse_uncompilable(what, each, here(), switches=True)
    return tuple(map(settled, given))


def pictures(given: Any, place: Place, what: str) -> tuple[Picture, ...]:
    """The views of the argument `drawing` of a machine: those stated, shapes by themselves in one where the first
    of them stands.

    Views that differ in their shapes alone are one, as those of machines that are put together.

    Raises:
        ModelError: it contains something else.
    """
    wrong = [given] if isinstance(given, Shape | Picture | str) or not isinstance(given, Sequence) else [
        each for each in given if not isinstance(each, Shape | Picture)]  # fmt: skip
    if wrong:
        text = f"{what}: drawing= has {short(wrong[0])}; give a list of shapes, [line((0, 0), (x, y)), ...]"
        raise ModelError(f"{text}, or of views", place.argument("drawing"))
    alone = tuple(each for each in given if isinstance(each, Shape))
    stated = [
        view(*alone) if isinstance(each, Shape) else each
        for each in given
        if not any(each is other for other in alone[1:])
    ]
    found: list[Picture] = []
    for each in stated:
        same = replace(each, goal=None, shapes=(), place=place)
        at = next((i for i, other in enumerate(found) if replace(other, goal=None, shapes=(), place=place) == same
                   and other.in_space == each.in_space), None)  # fmt: skip
        if at is None:
            found.append(each)
        else:
            found[at] = replace(found[at], shapes=(*found[at].shapes, *each.shapes), goal=found[at].goal or each.goal)
    return tuple(found)


def drawn(views: Sequence[Picture], columns: Mapping[Expr, str]) -> tuple[tuple[DrawnView, ...], list[Expr]]:
    """What the numbers of a drawing are, and their expressions, one behind the other.

    columns: the names of states and outputs, whose paths are drawn from what is recorded.
    """
    described, numbers = list[DrawnView](), list[Expr]()
    for each in views:
        shapes, names = list[DrawnShape](), list[str]()
        for shape in each.shapes:
            name, own, recorded = shape.name, tuple[str, ...](), shape.is_recorded(columns)
            if shape.kind == "trail":
                names.append(name)
                name += f" {names.count(name)}" if names.count(name) > 1 else ""
                own = tuple(columns[each] if recorded else f"{name}.{axis}" for each, axis in zip(shape.rows[0], "xyz"))  # noqa: B905
            shapes.append(
                DrawnShape(shape.kind, len(numbers), len(shape.rows), len(shape.rows[0]), shape.thin, name, shape.unit,
                           shape.corners, own, recorded and bool(own))
            )  # fmt: skip
            numbers += shape.entries
        axes = each.axes or (SPACE if each.in_space else STRIP if each.strip else FLAT)
        projection = (each.projection or IN_SPACE) if each.in_space else None
        caption_at, lean_at = len(numbers), len(numbers) + len(each.caption_values)
        numbers += [*each.caption_values, *([] if each.lean is None else [each.lean])]
        described.append(
            DrawnView(tuple(shapes), each.title, axes, each.goal, each.strip, projection, each.caption, caption_at,
                      -1 if each.lean is None else lean_at, each.magnified)
        )  # fmt: skip
    return tuple(described), numbers


_FIELDS: dict[
    str, tuple[Callable[..., Shape], dict[str, bool]]
] = {  # by kind; of its other keys, which are expressions
    "line": (line, {"thin": False}),
    "polygon": (polygon, {"thin": False}),
    "dot": (dot, {}),
    "circle": (circle, {"radius": True, "thin": False, "across": True, "up": True, "corners": False}),
    "trail": (trail, {"name": False}),
    "arrow": (arrow, {"vector": True, "name": False, "unit": False}),
    "pose": (pose, {"point": True, "turned": True}),
}
_VIEW = ("title", "axes", "goal", "strip", "projection", "magnified")


def drawing_of(tables: Any, parse: Callable[[str | float], Expr]) -> list[Shape | Picture]:
    """A drawing from tables, as a launch file has them: [{line = [["0", "0"], ["x", "y"]]}, {circle = ["x", "y"],
    radius = "r"}, ...]; a view is {view = [...], title = "..."}.

    parse: makes an expression of a text or number.

    Raises:
        ModelError: a table is no shape, without a place; what `parse` raises.
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise ModelError(f"drawing is {short(tables)}; give a list of shapes, [{{line = [...]}}, ...]")
    return [_of_table(each, parse) for each in tables]


def _of_table(table: Any, parse: Callable[[str | float], Expr]) -> Any:
    kinds = [*_FIELDS, "view"]
    kind = next((each for each in kinds if isinstance(table, Mapping) and each in table), None)
    if kind is None:
        raise ModelError(f"drawing has {short(table)}; each entry is a table with one of {', '.join(kinds)}")
    of_view = dict.fromkeys((*_VIEW, "caption", "lean", kind), False)
    known = of_view if kind == "view" else {**_FIELDS[kind][1], "at": True, "turned": True, kind: kind != "pose"}
    if strange := [key for key in table if key not in known]:
        raise ModelError(f"drawing: {strange[0]!r} is no key of a {kind}; choose from {', '.join(known)}")

    def expressions(value: Any) -> Any:
        return (
            [*map(expressions, value)] if isinstance(value, Sequence) and not isinstance(value, str) else parse(value)
        )

    more = {key: expressions(value) if known[key] else value for key, value in table.items() if key != kind}
    if kind == "view":
        if "lean" in more:
            more["lean"] = parse(more["lean"])
        if isinstance(more.get("caption"), list):
            more["caption"] = [more["caption"][0], *map(parse, more["caption"][1:])]
        return view(*drawing_of(table[kind], parse), **more)
    stated = expressions(table[kind]) if known[kind] else table[kind]
    moved = {key: more.pop(key) for key in ("at", "turned") if key in more and kind != "pose"}
    make, needs = _FIELDS[kind][0], {"circle": ("radius",), "arrow": ("vector", "name"), "pose": ("point", "turned")}
    if missing := [key for key in needs.get(kind, ()) if key not in more]:
        raise ModelError(f"drawing: a {kind} needs {missing[0]}; give it")
    several = kind in ("line", "polygon")
    if several and not isinstance(stated, list):
        raise ModelError(f'drawing: {kind} = {short(table[kind])} is no list of points; write [["0", "0"], ["x", "y"]]')
    made = make(*stated, **more) if several else make(stated, **more)
    return made.at(moved.pop("at", [0] * made.size), **moved) if moved else made
