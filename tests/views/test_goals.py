"""Goals beside outputs: dashed in every kind of picture, the most important panels, equal scales in a plane."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import servonode
from servonode.errors import StatementError
from servonode.record.run import Run
from servonode.views.animation import Animation
from servonode.views.live_run import Feed
from servonode.views.palette import GOAL
from servonode.views.panel_specs import FEWEST, MOST, PanelSpec, most_important
from servonode.views.panels import Panel, columns_of, room_note, shown_panels
from servonode.views.planes import goal_path
from servonode.views.report import report_figure
from servonode.views.scene import Scene
from tests.helpers.drawn_cart import CONTROL, LAUNCH, viewed_cart
from tests.helpers.talk import Talk


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with viewed_cart(tmp_path_factory.mktemp("goals"), LAUNCH + CONTROL, "position") as viewed:
        yield viewed("None")


def dashed(axis: Any) -> list[Any]:
    return [line for line in axis.lines if line.get_color() == GOAL and line.get_linestyle() == "--"]


def test_the_first_panel_of_a_report_has_the_goal_dashed_beside_the_output(cart: Run) -> None:
    axis = report_figure(cart, "cart").axes[0]
    assert axis.get_title(loc="left") == "position $x$ [m]"
    (goal,) = dashed(axis)
    np.testing.assert_allclose(goal.get_ydata(), np.sin(cart.t), atol=1e-12)
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["$x$", "goal"]


def test_a_view_without_goal_has_the_path_of_the_goals_of_its_trail() -> None:
    scene = Scene.of(servonode.simulate("examples/quadrotor/quadrotor.toml", run__duration=1.0))
    (view,) = scene.views()
    (stated,) = goal_path(scene, view)
    (found,) = goal_path(scene, replace(view, goal=None))
    np.testing.assert_allclose(found, stated, atol=1e-12)
    assert np.ptp(stated, axis=0).max() > 0.1
    other = replace(view, goal=None, trails={"tilt": ("x", "theta")})
    assert goal_path(scene, other) == []


def test_run_plot_draws_the_goal_of_a_state_and_of_a_residual(cart: Run) -> None:
    figure = cart.plot("x", "a", "x_dot")
    assert [len(dashed(axis)) for axis in figure.axes] == [1, 1, 0]
    for axis in figure.axes[:2]:
        np.testing.assert_allclose(dashed(axis)[0].get_ydata(), np.sin(cart.t), atol=1e-12)
    (goal,) = dashed(cart.plot("x", against="x_dot").axes[0])
    np.testing.assert_array_equal(goal.get_xdata(), cart.state["x_dot"])


def test_the_window_has_the_goal(cart: Run) -> None:
    picture = Animation(Figure(), cart.closed_loop)
    picture.show(cart.t, columns_of(cart))
    np.testing.assert_allclose(picture.panels[0]._lines[-1].get_ydata()[-1], np.sin(cart.t[-1]), atol=1e-6)


def test_a_live_goal_is_that_of_the_published_targets() -> None:
    loop = servonode.load("trailer_pursuit").closed_loop
    feed, talk = Feed(loop, 1.0), Talk(loop)
    feed.take(talk.state(0))
    assert np.isnan(feed.ring.columns["goal_speed"][-1])  # no target has come
    for message in (talk.target(10), talk.state(20)):
        feed.take(message)
    a, rho0 = (loop.control.law.parameters[name] for name in ("a", "rho0"))  # type: ignore[union-attr]
    X, Y = (feed.ring.columns[name][-1] for name in "XY")
    wanted = a * (np.hypot(10 - X, -10 - Y) - rho0)
    assert feed.ring.columns["goal_speed"][-1] == pytest.approx(wanted)
    assert feed.ring.columns["output_speed"][-1] == feed.ring.columns["V"][-1]


def test_a_goal_that_is_older_than_a_period_of_its_target_is_a_gap() -> None:
    loop = servonode.load("trailer_pursuit").closed_loop
    feed, talk, period = Feed(loop, 1.0), Talk(loop), loop.launch.steps_per_period
    assert period is not None
    found = []
    for message in (talk.target(0), talk.state(period), talk.state(2 * period), talk.target(3 * period)):
        feed.take(message)
    feed.take(talk.state(3 * period))
    for name in ("goal_speed", "target_x"):
        found.append(np.isnan(feed.ring.columns[name]).tolist())
    assert found == [[False, True, False]] * 2


@pytest.mark.slow
def test_what_a_picture_has_no_room_for_is_named() -> None:
    specs = [PanelSpec(f"w{i}", {"a": "a"}, title=f"w{i} [m]", maths=f"w{i} [m]") for i in range(MOST)]
    panels = [Panel(each, {"a": np.ones(3)}, {"a": 0.0}) for each in specs]
    kept, left = shown_panels(panels, 2)
    assert len(kept) == MOST - 2
    assert room_note(left) == "Not drawn here: w6 [m]; w7 [m]."
    assert room_note([]) == ""
    assert len(report_figure(servonode.simulate("sphero_pursuit", every=50), "pursuit").axes) == MOST


def test_goals_come_before_inputs_and_these_before_residuals() -> None:
    specs = [PanelSpec(str(kind), {}, kind=kind) for kind in (4, 4, 0, 1, 2, 4, 0)]
    assert [each.kind for each in most_important(specs, 4)] == [0, 1, 2, 0]
    assert len(most_important(specs, 0)) == FEWEST


def test_a_plane_has_equal_scales_and_other_axes_do_not() -> None:
    run = servonode.simulate("trailer_circle", run__duration=5.0)
    plane = run.plot("Y", against="X")
    plane.draw_without_rendering()
    axis = plane.axes[0]
    (x0, y0), (x1, y1) = axis.transData.transform([(0.0, 0.0), (1.0, 1.0)])
    assert x1 - x0 == pytest.approx(y1 - y0, rel=1e-6)
    assert run.plot("V", against="X").axes[0].get_aspect() == "auto"
    assert run.plot("V").axes[0].get_aspect() == "auto"


def test_values_that_no_axis_can_hold_are_refused_with_their_size() -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=0.1)
    run.state["phi"][5] = 1e308
    with pytest.raises(StatementError, match=r"phi reaches 1e\+308, which no axis can hold; choose other"):
        run.plot("phi", against="psi")
