"""What the page and the HTML report show as the other pictures do: goals, estimates, views in space, measures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servonode
from servonode.record.bag import read_bag
from servonode.simulation.rows_of_messages import runs_in
from servonode.views import summary
from servonode.views.panels import columns_of, estimate_columns, panels_of
from servonode.views.scene import Scene
from servonode.views.shapes import wanted_paths
from servonode.wings.web.frames import layout_of
from servonode.wings.web.html_report import Motion, html_report, recorded_views, tables
from servonode.wings.web.view_data import LiveLines, lines_around, live_panel, run_panel, view_layout
from tests.bags.test_bags import changed
from tests.bags.test_distrusted_bags import ENDINGS, with_ending
from tests.helpers.drawn_cart import CONTROL, LAUNCH, viewed_cart
from tests.helpers.recorded import recorded
from tests.views.test_skeleton import TARGETS, arm, loop


@pytest.fixture(scope="module")
def run() -> Any:
    return servonode.simulate("trailer_estimated", run__duration=4.0)


def test_html_report_dashes_what_its_titles_call_dashed(run: Any) -> None:
    panels = [each for each in panels_of(run, {**run.state, **run.outputs, **run.input}) if each.seen]
    dashed = [each for each in panels if "dashed" in each.words]
    assert dashed
    assert estimate_columns(run).keys() <= columns_of(run).keys()
    for panel in panels:
        shown = run_panel(panel)
        beside = [each for each in shown["curves"] if "dash" in each and each["color"] != "goal"]
        assert [each["column"] for each in beside] == [f"expected_{name}" for name in panel.seen if panel in dashed]
        for each in beside:
            alike = {curve["column"]: curve["color"] for curve in shown["curves"]}
            assert alike[each["column"].replace("expected", "error")] == each["color"]
            assert shown["limits"][0] <= np.nanmax(columns_of(run)[each["column"]]) <= shown["limits"][1]


def test_html_and_page_have_the_goal(tmp_path: Path) -> None:
    with viewed_cart(tmp_path, LAUNCH + CONTROL, "position") as viewed:
        cart = viewed("None")
        first = panels_of(cart, {**cart.state, **cart.outputs, **cart.input})[0]
        for spec in (run_panel(first), live_panel(first.spec)):
            assert spec["curves"][1] == {"name": "goal", "column": "goal_a", "color": "goal", "dash": [5, 3]}
        assert "goal_a" in html_report(cart, "cart")


@pytest.mark.slow
def test_page_gets_points_in_space_with_their_projection(tmp_path: Path) -> None:
    run = arm(tmp_path)
    layout = view_layout(run.closed_loop.views[0], [])
    assert np.shape(layout["projection"]) == (2, 3)
    assert layout["trails"][0]["columns"] == ["tool.x", "tool.y", "tool.z"]
    assert '"projection":[[' in html_report(run, "arm").replace(" ", "")


def test_the_page_draws_the_wanted_path_of_a_tool(tmp_path: Path) -> None:
    made = loop(tmp_path, 'position = ["0.6 + 0.1*sin(t)", "0.2*t", 0.4]', run__duration=1.0)
    (view,) = made.views
    (flat,) = wanted_paths(made, view, np.zeros(2), np.ones(2)).values()
    (line,) = lines_around(made, view, flat.min(axis=0), flat.max(axis=0))
    assert (line["name"], len(line["points"][0])) == ("tool wanted", 3)


def test_targets_that_are_the_wanted_position_are_the_target_of_the_page(tmp_path: Path) -> None:
    made = loop(tmp_path, 'position = ["a", "b", "c"]', TARGETS)
    layout = layout_of(made, "arm")["views"][0]
    assert (layout["goal"], layout["click"]) == (["target_a", "target_b", "target_c"], [])


def test_a_new_measure_of_a_run_is_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    run = servonode.simulate("trailer_pursuit", run__duration=2.0)
    distance = summary.Measure("distance", lambda run: float(np.hypot(run.state["X"][-1], 3)), "m", "distance")
    monkeypatch.setattr(summary, "MEASURES", (*summary.MEASURES, distance))
    row, pages = ("distance", f"{run.final()['distance']:.4g} m"), tables(run, "run", None)
    assert any(f">{text}<" in page for page in pages for text in row)


@pytest.mark.parametrize("ending", ENDINGS)
def test_statistics_that_lack_something_are_in_the_report_without_it(tmp_path: Path, ending: Any) -> None:
    whole = recorded(tmp_path / "a.mcap", "trailer_pursuit_lockstep", "run.duration=0.5")
    bag = read_bag(changed(whole, tmp_path / "strange.mcap", with_ending(ending)))
    (run,) = runs_in(bag, bag.closed_loop())
    assert tables(run, "r", None)


KEEPS = {"box": "min(5 - X, Y + 3)", "turn": "1.5 - abs(psi)", "ring": "sqrt((X - 2 + t)**2 + Y**2) - 0.5"}


def kept(**keeps: str) -> Any:
    return servonode.simulate("trailer_pursuit", duration=1.0, values={"controller.keep": keeps})


def test_page_and_html_have_what_tells_when_margins_act_and_zero_in_their_limits() -> None:
    run = kept(**KEEPS)
    panels = [each for each in panels_of(run, {**run.state, **run.outputs, **run.input}) if each.spec.active]
    for panel in panels:
        drawn = run_panel(panel)
        assert drawn["acts"] == live_panel(panel.spec)["acts"] == [f"active_{name}" for name in panel.columns]
        assert drawn["limits"][0] < 0 < drawn["limits"][1]
        assert {*drawn["acts"], "keeping"} <= columns_of(run).keys()


def test_forbidden_sets_stand_beside_wanted_paths_and_move_with_the_time() -> None:
    run, still = kept(**KEEPS), kept(box=KEEPS["box"])
    columns = columns_of(run) | {"t": run.t}
    for each, moves in ((run, True), (still, False)):
        scene, motion = Scene.of(each), Motion.of(each.t)
        (view,) = recorded_views(scene, motion, columns_of(each))
        (line,) = view["wanted"]
        assert (line["name"], line["points"], bool(line["areas"])) == ("forbidden", [], not moves)
        assert all(("areas" in shapes) is moves for shapes in view["shapes"])
        live = LiveLines(each.closed_loop, scene.views()[0])
        assert live.follow(columns, scene.shapes(0, scene.views()[0]))
        assert [line["name"] for line in live.lines] == ["forbidden"]
        later = {name: values[:50] for name, values in columns.items()}
        assert live.follow(later, scene.shapes(0, scene.views()[0])) is moves
