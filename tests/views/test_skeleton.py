"""Machines that are trees are drawn by themselves: in a plane or in space, with inertias and paths of their ends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import ClosedLoop, each_place_once
from servonode.errors import ModelError
from servonode.mechanics.description import Quantity
from servonode.plants.skeleton import places
from servonode.views.panel_specs import by_unit
from servonode.views.report import report_figure
from servonode.views.scene import Scene
from servonode.views.shapes import wanted_in_space, wanted_paths
from servonode.views.view_checks import check_view

ARM = """
import numpy as np
from servonode.mechanics import Model, coordinate, frame, hinge, link, parameter, slide, tree


def model():
    q = [coordinate(f"q{i}", "angle", "rad") for i in range(3)]
    m = parameter("m", "mass", "kg", default=2.0, above=0)
    rod = np.diag([0.02, 0.02, 0.005])
    axes = AXES
    links = [
        link("base", joints=(hinge(q[0], axes[0]),), position=(0, 0, 0.1), mass=2, inertia=np.diag([0.01] * 3)),
        link("upper", "base", joints=(hinge(q[1], axes[1]),), position=(0, 0, 0.2), mass=m, inertia=rod),
        link("fore", "upper", joints=(hinge(q[2], axes[2]),), position=(0.5, 0, 0), mass=1, inertia=rod),
    ]
    frames = [frame("tool", "fore", (0.4, 0, 0)), frame("same", "fore", (0.4, 0, 0)), frame("stand", "", (1, 1, 1))]
    return Model(name="arm", description="arm", parameters=(m,), tree=tree(links, frames=frames))
"""
SPACE, PLANE = "((0, 0, 1), (0, 1, 0), (0, 1, 0))", "((0, 1, 0),) * 3"
LAUNCH = """[run]
duration = 0.2
mode = "lockstep"
[plant]
machine = "./arm.py:model"
[plant.initial]
q1 = 0.5
q2 = -0.7
"""


def arm(folder: Path, axes: str = SPACE) -> servonode.Run:
    """A run of an arm that falls."""
    (folder / "arm.py").write_text(ARM.replace("AXES", axes))
    (folder / "arm.toml").write_text(LAUNCH)
    return servonode.load(folder / "arm.toml").simulate()


def test_link_places_are_those_of_forward_kinematics(tmp_path: Path) -> None:
    machine = arm(tmp_path).closed_loop.machine
    x = machine.state({"q0": 0.3, "q1": 0.5, "q2": -0.7})
    tip = np.array([0.5 * np.cos(0.5) + 0.4 * np.cos(-0.2), 0.0, 0.3 - 0.5 * np.sin(0.5) - 0.4 * np.sin(-0.2)])
    turn = np.array([[np.cos(0.3), -np.sin(0.3), 0], [np.sin(0.3), np.cos(0.3), 0], [0, 0, 1]])
    np.testing.assert_allclose(places(machine, ["tool", "stand"], 0.0, x), [turn @ tip, [1, 1, 1]], atol=1e-15)
    pose = machine.poses(0.0, x)[1]
    np.testing.assert_allclose(pose[3:12].reshape(3, 3)[:, 0], turn @ [np.cos(0.5), 0, -np.sin(0.5)], atol=1e-15)
    np.testing.assert_allclose(pose[12:], [2.0, 0, 0, 0, 0.02, 0.02, 0.005, 0, 0, 0], atol=1e-15)
    assert machine.with_parameters({"m": 3.0}).poses(0.0, x)[1, 12] == 3.0


def test_only_ends_that_move_are_traced_and_each_place_once(tmp_path: Path) -> None:
    run = arm(tmp_path)
    assert run.closed_loop.traced == ("tool",)
    outputs = run.outputs
    expected = [places(run.closed_loop.machine, ["tool"], 0.0, x)[0] for x in run._kernel_states]
    np.testing.assert_array_equal(np.column_stack([outputs[f"tool.{axis}"] for axis in "xyz"]), expected)


def test_what_moves_in_a_plane_is_drawn_in_it_at_true_scale(tmp_path: Path) -> None:
    run = arm(tmp_path, PLANE)
    (view,) = run.closed_loop.views
    assert (view.title, view.axes) == ("from the side", ("x [m]", "z [m]"))
    shapes = Scene.of(run).shapes(0, view)
    np.testing.assert_allclose(shapes.lines[2], [[0, 0.3], [0.5 * np.cos(0.5), 0.3 - 0.5 * np.sin(0.5)]], atol=1e-12)


def test_in_space_lengths_along_the_picture_are_true(tmp_path: Path) -> None:
    run = arm(tmp_path)
    (view,) = run.closed_loop.views
    assert view.title == "in space"
    assert view.projection is not None
    np.testing.assert_allclose(view.projection @ view.projection.T, np.eye(2), atol=1e-15)
    check_view(run.closed_loop)
    assert report_figure(run, "arm").axes


def test_inertias_are_ellipsoids_of_even_density(tmp_path: Path) -> None:
    run = arm(tmp_path, PLANE)
    (view,) = run.closed_loop.views
    ring = view.inertias(Scene.of(run).instant(0).values, {})[:3] if view.inertias else []
    ball = np.linalg.norm(np.concatenate(ring) - [0, 0, 0.1], axis=1)
    np.testing.assert_allclose(ball, np.sqrt(5 / 2 * 0.01 / 2), rtol=1e-12)  # 2/5 m r^2 = 0.01


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ("projection=np.eye(3)", "a projection of shape (3, 3)"),
        ("projection=np.eye(2, 3)", "gave an array of shape (1, 2) as line 0; give points (n, 3)"),
        ("projection=np.eye(2, 3), trails={'a': ('q0', 'q1')}", "name three values"),
    ],
)
def test_views_in_space_that_cannot_be_drawn_are_refused(tmp_path: Path, stated: str, text: str) -> None:
    view = f"from servonode.plants.view import View\nVIEW = View(lambda *_: [np.zeros((1, 2))], {stated})\n"
    (tmp_path / "arm.py").write_text(ARM.replace("AXES", SPACE) + view)
    (tmp_path / "arm.toml").write_text(LAUNCH)
    with pytest.raises(ModelError) as refused:
        check_view(servonode.load(tmp_path / "arm.toml").closed_loop)
    assert text in str(refused.value)


GOAL = """[controller]
period = 0.01
[controller.goal.tool]
POSITION
"""
TARGETS = '[target]\na = "0.6 + 0.1*sin(t)"\nb = 0.0\nc = 0.4\n'


def loop(folder: Path, position: str, more: str = "", **settings: Any) -> ClosedLoop:
    """An arm with three motors whose tool has a goal."""
    text = ARM.replace("AXES", SPACE).replace("import Model", "import Model, input_")
    motors = "inputs={input_(f'u{i}', 'torque', 'N m'): q[i].rate for i in range(3)}, parameters=(m,)"
    (folder / "arm.py").write_text(text.replace("parameters=(m,)", motors))
    (folder / "arm.toml").write_text(LAUNCH + GOAL.replace("POSITION", position) + more)
    return servonode.load(folder / "arm.toml", **settings).closed_loop


def test_the_wanted_path_of_a_tool_is_drawn_in_space(tmp_path: Path) -> None:
    made = loop(tmp_path, 'position = ["0.6 + 0.1*sin(t)", "0.2*t", 0.4]', run__duration=1.0)
    (view,) = made.views
    found = wanted_in_space(made, view, np.zeros(2), np.ones(2))
    t = np.arange(0, 1, 0.01)
    wanted = np.column_stack([0.6 + 0.1 * np.sin(t), 0.2 * t, np.full(100, 0.4)])
    assert list(found) == ["tool wanted"]
    gaps = np.abs(found["tool wanted"][:, None] - wanted[None]).max(axis=2).min(axis=1)
    assert gaps.max() < 1e-12
    assert len(gaps) > 60
    (flat,) = wanted_paths(made, view, np.zeros(2), np.ones(2)).values()
    assert flat.shape == (len(gaps), 2)
    check_view(made)


def test_targets_that_are_the_wanted_position_are_drawn_as_the_target(tmp_path: Path) -> None:
    made = loop(tmp_path, 'position = ["a", "b", "c"]', TARGETS)
    assert made.views[0].goal == ("a", "b", "c")
    assert wanted_paths(made, made.views[0], np.zeros(2), np.ones(2)) == {}


def test_only_what_a_view_shows_of_a_goal_has_a_wanted_path(tmp_path: Path) -> None:
    made = loop(tmp_path, 'x = "0.6 + 0.1*sin(t)"\ny = 0.1', "[controller.posture]\n")
    assert made.views[0].title == "in space"
    assert wanted_paths(made, made.views[0], np.zeros(2), np.ones(2)) == {}
    place = loop(tmp_path, "position = [0.6, 0.1, 0.4]")
    assert [line.shape for line in wanted_paths(place, place.views[0], np.zeros(2), np.ones(2)).values()] == [(1, 2)]


def test_a_path_that_is_passed_again_is_drawn_once() -> None:
    t = np.arange(0, 50, 0.01)
    circle = np.column_stack([np.cos(3 * t), np.sin(3 * t), 0 * t])
    once = each_place_once(circle)
    drawn = once[np.isfinite(once).all(axis=1)]
    assert len(drawn) < 400
    np.testing.assert_allclose(np.hypot(*drawn[:, :2].T), 1.0)
    around = np.sort(np.arctan2(drawn[:, 1], drawn[:, 0]))
    assert np.diff(around).max() < 0.07
    assert each_place_once(np.ones((20, 3))).shape == (1, 3)
    straight = np.column_stack([t, 0 * t, 0 * t])
    assert np.isfinite(each_place_once(straight)).all()


def test_a_vector_has_a_panel_of_its_own() -> None:
    spin = [Quantity(name=f"omega_{i}", description=f"spin, entry {i}", unit="rad/s") for i in range(3)]
    rates = [Quantity(name=name, description="rate", unit="rad/s") for name in ("a_dot", "b_dot")]
    assert by_unit([*spin, *rates]) == [("omega_0", "omega_1", "omega_2"), ("a_dot", "b_dot")]
