"""A machine is drawn by expressions of its symbols: what is drawn of them, and which are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from sympy import Piecewise, cos, pi, sin

from servonode.definitions.references import reference_to
from servonode.errors import ModelError
from servonode.mechanics import (
    Model,
    arrow,
    circle,
    coordinate,
    dot,
    input_,
    line,
    magnification,
    output,
    parameter,
    polygon,
    pose,
    together,
    trail,
    view,
)
from servonode.mechanics.drawing import drawing_of
from servonode.mechanics.machine import Machine
from servonode.plants import MachineSource, find_machine
from servonode.plants.drawn import drawn_views, path_columns, path_values
from servonode.plants.view import View
from tests.helpers.outlines import drawing, outline

assert_allclose: Any = np.testing.assert_allclose
x, y, th = (coordinate(name, name, unit) for name, unit in (("x", "m"), ("y", "m"), ("th", "rad")))
m, L = parameter("m", "mass", "kg", default=2.0), parameter("L", "length", "m", default=0.5)
F = input_("F", "force", "N")
SQUARE = polygon((0, 0), (L, 0), (L, L), (0, L))
SLED: dict[str, Any] = {
    "name": "sled", "description": "a sled", "coordinates": (x, y, th), "parameters": (m, L),
    "kinetic": m * (x.rate**2 + y.rate**2 + th.rate**2) / 2, "inputs": {F: x.rate},
    "outputs": (output("a", "acceleration", x.acceleration, "m/s^2"),),
}  # fmt: skip


def sled(*shapes: Any) -> Machine:
    """The machine with a drawing, derived and compiled."""
    return loaded(Model(**SLED, drawing=list(shapes)))


def loaded(model: Model) -> Machine:
    return MachineSource(find_machine(reference_to(model), Path())).load({})


def test_shapes_are_drawn_by_what_their_expressions_say() -> None:
    machine = sled(line((0, 0), (x, L * cos(th))), circle((x, y), L), dot((x, 1)), SQUARE.at((x, y), th))
    straight, ring, point, square = outline(machine, {"x": 3.0, "y": 1.0, "th": np.pi / 2})
    assert_allclose(straight, [[0, 0], [3, 0]], atol=1e-15)
    assert ring.shape == (49, 2)
    assert_allclose(np.hypot(*(ring - [3, 1]).T), 0.5)
    assert_allclose(point, [[3, 1]])
    assert_allclose(square, [[3, 1], [3, 1.5], [2.5, 1.5], [2.5, 1], [3, 1]])


def test_an_arrow_may_contain_inputs_outputs_and_accelerations() -> None:
    a = SLED["outputs"][0]
    machine = sled(arrow((x, y), (F, 0), name="pull"), arrow((0, 0), (m * a, 2 * x.acceleration), name="inertia"))
    (view_,), given = drawing(machine, x=1.0, F=6.0)
    assert view_.arrows is not None
    found = view_.arrows(given, {})
    assert_allclose(found["pull"], [[1, 0], [6, 0]])
    assert_allclose(found["inertia"], [[0, 0], [6, 6]])


def test_a_path_of_states_and_outputs_is_what_is_recorded_and_others_are_computed() -> None:
    machine = sled(
        trail((x, y), "sled"), trail((x + L * cos(th), sympy.Integer(2)), "tip"), trail((x, 1)), trail((y, 1))
    )
    (drawn,) = machine.description.drawing
    assert [each.columns for each in drawn.shapes] == [
        ("x", "y"), ("tip.x", "tip.y"), ("path.x", "path.y"), ("path 2.x", "path 2.y"),
    ]  # fmt: skip
    states = np.random.default_rng(1).uniform(-1, 1, (5, 7))
    names, values = path_columns(machine, ()), path_values(machine, (), np.zeros(5), states)
    assert names == ["tip.x", "tip.y", "path.x", "path.y", "path 2.x", "path 2.y"]
    assert_allclose(values[:, 0], states[:, 0] + 0.5 * np.cos(states[:, 2]))
    assert_allclose(values[:, 1], 2.0)


def test_points_of_three_numbers_are_drawn_in_space_or_hidden_below_a_plane() -> None:
    machine = sled(
        view(
            line((0, 0, 0), (x, y, L)),
            circle((x, y, 1), L, across=(0, 1, 0), up=(0, 0, 1)),
            pose("b", (x, y, 0), sympy.eye(3)),
        ),
        view(circle((0, 0), L), dot((x, y, th)), circle((0, 0, 0), L, up=(0, 0, 1)), title="from above"),
    )
    (space, above), given = drawing(machine, x=1.0, y=2.0, th=-1.0)
    assert space.projection is not None
    assert space.axes == ("[m]", "[m]")
    assert space.outline is not None
    ring = space.outline(given, {})[1]
    assert_allclose(np.linalg.norm(ring - [1, 2, 1], axis=1), 0.5)
    assert np.ptp(ring[:, 0]) == 0
    assert_allclose(space.poses(given, {})["b"], [[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 0]])
    assert above.projection is None
    assert [each.shape for each in outline(machine, {"th": -1.0}, 1)] == [(49, 2), (25, 2)]  # the dot is below
    assert [each.shape for each in outline(machine, {"th": 1.0}, 1)] == [(49, 2), (1, 2), (25, 2)]


def test_a_strip_has_its_caption_and_its_lean_magnified() -> None:
    shown = Piecewise((th, th > 0), (-th, True))
    machine = sled(
        view(line((0, 0), (sin(magnification * th), 1)), strip=True, title="tilt", lean=th, magnified="tilt",
             caption=("{:+.1f}° at {:.2f} m", shown * 180 / pi, x))
    )  # fmt: skip
    (plain,), given = drawing(machine, th=-0.1, x=-0.001)
    assert plain.caption is not None
    assert plain.magnified is not None
    assert plain.caption(given, {}) == "+5.7° at 0.00 m"
    large = plain.magnified(5.0)
    assert large.title == "tilt, tilt shown x5"
    assert large.outline is not None
    assert_allclose(large.outline(given, {}), [[[0, 0], [np.sin(-0.5), 1]]])


def test_a_view_of_the_file_adds_what_is_no_expression() -> None:
    machine = sled(line((0, 0), (x, y)))
    (found,) = drawn_views(machine, (View(guides=lambda _, __: [np.zeros((2, 2))]),), "sled.py")
    assert found.outline is not None
    assert found.guides is not None
    with pytest.raises(ModelError, match=r"sled.py: VIEW\[1\] has no outline"):
        drawn_views(machine, (View(), View()), "sled.py")
    own = View(lambda _, __: [])
    assert drawn_views(machine, (own,), "sled.py") == (own,)


def test_machines_put_together_are_drawn_together() -> None:
    one = Model(**SLED, drawing=[line((0, 0), (x, y)), trail((x, y), "sled")])
    pair = together("pair", "two sleds", left=one, right=one).coupled(drawing=[dot((0, 1))])
    machine = loaded(pair)
    (drawn,) = machine.description.drawing
    assert [each.name for each in drawn.shapes if each.kind == "trail"] == ["left_sled", "right_sled"]
    assert [len(each) for each in outline(machine, {"left_x": 1.0, "right_x": 2.0})] == [2, 2, 1]
    assert_allclose(outline(machine, {"right_x": 2.0})[1], [[0, 0], [2, 0]])


def test_tables_make_the_same_drawing() -> None:
    names = {"x": x, "y": y, "th": th, "L": L, "F": F}
    tables: list[dict[str, Any]] = [
        {"line": [["0", 0], ["x", "L*cos(th)"]]},
        {"polygon": [["0", "0"], ["L", "0"], ["0", "L"]], "thin": True, "at": ["x", "y"], "turned": "th"},
        {"circle": ["x", "y"], "radius": "L"},
        {"trail": ["x", "y"], "name": "sled"},
        {"arrow": ["x", "y"], "vector": ["F", "0"], "name": "pull"},
        {"pose": "body", "point": ["x", "y"], "turned": "th"},
        {"view": [{"dot": ["0", "y"]}], "title": "close", "strip": True, "caption": ["{:.1f} m", "x"], "lean": "th"},
    ]
    made = drawing_of(tables, lambda text: sympy.sympify(text, names))
    wanted = [
        line((0, 0), (x, L * cos(th))), polygon((0, 0), (L, 0), (0, L), thin=True).at((x, y), th), circle((x, y), L),
        trail((x, y), "sled"), arrow((x, y), (F, 0), name="pull"), pose("body", (x, y), th),
        view(dot((0, y)), title="close", strip=True, caption=("{:.1f} m", x), lean=th),
    ]  # fmt: skip
    drawn = [Model(**SLED, drawing=each).drawn for each in (made, wanted)]
    assert drawn[0] == drawn[1]


NOT_DRAWN: dict[str, tuple[Callable[[], Any], str]] = {
    "a text": (lambda: line((0, 0), ("x", 0)), "'x' is not an expression"),
    "one number": (lambda: line((0, 0), 3), r"line\(\)'s point 2 is 3; give \(x, y\), or \(x, y, z\)"),
    "four numbers": (lambda: dot((0, 0, 0, 0)), r"give \(x, y\)"),
    "not a number": (lambda: dot((0, sympy.nan)), "no finite real value"),
    "pairs and triples": (lambda: line((0, 0), (0, 0, 0)), "points of two and of three numbers"),
    "two corners": (lambda: polygon((0, 0), (1, 1)), "has 2 points; give three"),
    "no shape": (lambda: view((0, 0)), r"argument 1, \(0, 0\), is no shape"),
    "half a caption": (lambda: view(caption=("{:.1f} {}", x)), "has not a place"),
    "two units": (lambda: view(*(arrow((0, 0), (x, y), name=u, unit=u) for u in ("N", "m"))), "arrows in N and m"),
    "one label": (lambda: view(axes=("x",)), "axes=.* is not 2 texts"),
    "a flat arrow": (lambda: view(dot((0, 0)), arrow((0, 0, 0), (x, y, 0), name="F")), "beside a trail or an arrow"),
    "no directions": (lambda: view(projection=((1, 0), (0, 1))), "not two triples of numbers"),
    "an axis in a plane": (lambda: SQUARE.at((x, y), [(1, 0, 0)] * 3), "three axes turn it in space"),
    "an angle in space": (lambda: dot((0, 0, 0)).at((x, y, 0), th), "an angle turns it in a plane"),
    "a pose with axes": (lambda: pose("b", (x, y), [(1, 0, 0)] * 3), "three axes turn it in space"),
    "a newline": (lambda: trail((x, y), "a\nb"), "name="),
    "a mapping": (lambda: Model(**SLED, drawing={}), r"drawing= has \{\}; give a list of shapes"),
    "one shape": (lambda: Model(**SLED, drawing=SQUARE), "give a list of shapes"),
    "no key": (lambda: drawing_of([{"lines": 1}], sympy.sympify), "with one of line, polygon"),
    "a stranger": (lambda: drawing_of([{"dot": [0, 0], "size": 1}], sympy.sympify), "'size' is no key of a dot"),
    "no radius": (lambda: drawing_of([{"circle": [0, 0]}], sympy.sympify), "a circle needs radius"),
    "no points": (lambda: drawing_of([{"line": "x"}], sympy.sympify), "is no list of points"),
}


@pytest.mark.parametrize("what", NOT_DRAWN)
def test_what_is_no_shape_is_refused_where_it_stands(what: str) -> None:
    make, says = NOT_DRAWN[what]
    with pytest.raises(ModelError, match=says) as refused:
        make()
    assert "drawing_of" in str(make.__code__.co_names) or Path(__file__).name in str(refused.value)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        (dot((coordinate("w", "w", "m"), 0)), "the drawing's line contains 'w', which the model does not list"),
        (trail((x, F), "t"), "the drawing's trail contains F, which is not known there"),
    ],
)
def test_unknown_symbols_of_a_drawing_are_refused_with_their_line(shape: Any, says: str) -> None:
    with pytest.raises(ModelError, match=f"{Path(__file__).name} line .*{says}"):
        sled(shape)
