"""What is kept as one sees it: margins with a strip of what acts, and the sets that are forbidden in a view."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline

import servonode
from servonode.views.acts import LOW, SHORTEST, Acts, spans_of
from servonode.views.animation import Animation
from servonode.views.forbidden import Area, Fixed, Forbidden, _fixed
from servonode.views.live_run import Feed
from servonode.views.palette import FAULT, FORBIDDEN, INK, PALETTE, SHADE
from servonode.views.panel_specs import ESTIMATE, MARGIN, chosen_panels
from servonode.views.panels import columns_of, panels_of
from servonode.views.planes import Map
from servonode.views.report import report_figure
from servonode.views.scene import Scene
from tests.helpers.report_pages import check_page

KEEP: dict[str, Any] = {
    "wall": "0.05 - X",
    "post": "sqrt((X + 0.5)**2 + (Y - 0.5)**2) - 0.1",
    "side": "Y + 1",
    "turn": "1.5 - abs(psi)",
    "grip": {"expression": "5 - Lambda2", "rate": 5.0},
}
LOWER, UPPER = np.array([-1.0, -1.0]), np.array([1.0, 1.0])


def kept(duration: float = 3.0, **keeps: Any) -> servonode.Run:
    """A run of the trailer, which follows its target as far as something is kept."""
    return servonode.simulate("trailer_pursuit", duration=duration, values={"controller.keep": keeps})


@pytest.fixture(scope="module")
def run() -> servonode.Run:
    return kept(**KEEP)


def forbidden(found: list[Area], *points: tuple[float, float]) -> list[bool]:
    """Whether each of some points lies in an area, and in none of its holes."""
    rings = [ring for area in found for ring in area]
    return [sum(Outline(ring).contains_point(point) for ring in rings) % 2 == 1 for point in points]


# margins


def test_margins_of_one_unit_share_a_panel_before_the_residuals(run: servonode.Run) -> None:
    specs = [panel.spec for panel in panels_of(run, {**run.state, **run.outputs, **run.input})]
    margins = [each for each in specs if each.active]
    assert [each.curves for each in margins] == [
        {"wall": "margin_wall", "side": "margin_side"},
        {"post": "margin_post"},
        {"turn": "margin_turn"},
        {"grip": "margin_grip"},
    ]
    assert margins[0].active == {"wall": "active_wall", "side": "active_side"}
    assert [each.title for each in margins[::2]] == ["margins, kept above 0 [m]", "margin turn, kept above 0 [rad]"]
    assert specs.index(margins[-1]) + 1 == next(i for i, each in enumerate(specs) if each.label == "|residual|")


def test_the_report_shades_what_is_below_zero_and_has_a_bar_while_a_row_acts(run: servonode.Run) -> None:
    figure = report_figure(run, "kept")
    figure.set_dpi(100)
    figure.draw_without_rendering()
    check_page(figure)
    axis = next(each for each in figure.axes if each.get_title(loc="left").startswith("margins"))
    low, high = axis.get_ylim()
    assert low < 0 < high
    (below,) = axis.patches
    assert to_hex(below.get_facecolor()) == FORBIDDEN
    assert [texts.get_text() for texts in axis.get_legend().get_texts()] == ["wall", "side", "acts"]
    (bars,) = axis.collections
    colours = [to_hex(each) for each in bars.get_facecolor()]
    assert colours == [SHADE, PALETTE[0], SHADE]
    (begin, bottom), *_, (_, top) = bars.get_paths()[1].vertices[:3]
    assert begin == pytest.approx(run.t[run.kept["active_wall"] == 1][0])
    assert 1 < bottom < top


def test_a_bar_is_low_while_a_row_acts_higher_while_it_gives_way_and_dark_across_all_where_inputs_are_clipped() -> None:
    t = np.arange(5.0)
    active = {"a": np.array([0.0, 1.0, 0.0, -1.0, 0.0]), "b": np.zeros(5)}
    acts = Acts(active, np.array([0.0, 1.0, 0.0, 2.0, 3.0]))
    corners, colours = acts.bars(t, 1.0)
    assert colours == [SHADE, PALETTE[0], FAULT, SHADE, INK]
    heights = [np.ptp(each[:, 1]) for each in corners]
    assert heights[4] > heights[2] > heights[1] == pytest.approx(heights[0])
    assert [(each[0, 0], each[1, 0]) for each in corners[1:3]] == [(1.0, 2.0), (3.0, 4.0)]
    assert acts.words() == ["acts", "gives way", "clipped"]
    assert LOW < 1


@pytest.mark.parametrize(
    ("values", "spans"),
    [
        ([0, 1, 1, 0, 0], [[1, 3]]),
        ([1, np.nan, np.nan, 0, 1], [[0, 3], [4, 4 + 4 * SHORTEST]]),  # known at control instants alone
        ([np.nan] * 5, []),
        ([0, 0, 0, 0, 0], []),
        ([1, 1, 1, 1, 1], [[0, 4]]),
    ],
)
def test_a_state_holds_until_the_next_that_is_known(values: list[float], spans: list[list[float]]) -> None:
    found = spans_of(np.arange(5.0), np.array(values, float), 1)
    np.testing.assert_allclose(found, np.array(spans).reshape(-1, 2))


def test_states_that_change_too_fast_to_be_seen_are_one_bar() -> None:
    t = np.linspace(0, 1, 10_001)
    (span,) = spans_of(t, (np.arange(10_001) % 2).astype(float), 1)
    np.testing.assert_allclose(span, [1e-4, 1.0], atol=1e-2)


def test_a_window_has_the_margins_with_their_strip_and_zero_in_its_limits(run: servonode.Run) -> None:
    loop, columns = run.closed_loop, columns_of(run)
    rare = {"margin_wall", "active_wall", "margin_side", "active_side", "keeping"}
    shown = {
        name: np.where(np.arange(len(run.t)) % 7, np.nan, each) if name in rare else each
        for name, each in columns.items()
    }
    picture = Animation(Figure(figsize=(10, 6), dpi=60), loop, fields=["margin_wall,margin_side"], span=1.0)
    picture.show(run.t, shown)
    (panel,) = picture.panels
    low, high = panel.axis.get_ylim()
    assert low < 0 < high
    assert np.isfinite(panel.axis.lines[0].get_ydata()).all()  # joined over what is not known
    (bars,) = [each for each in panel.axis.collections if each in panel.artists]
    assert to_hex(bars.get_facecolor()[1]) == PALETTE[0]
    begin, end = bars.get_paths()[1].vertices[:2, 0]
    assert -1.1 <= begin < end <= 0


def test_a_run_in_progress_has_the_columns_of_its_panels(run: servonode.Run) -> None:
    assert run.kept.keys() <= {*Feed(run.closed_loop, 1.0).ring.names}


def test_a_panel_of_margins_and_others_is_a_plain_one(run: servonode.Run) -> None:
    (spec,) = chosen_panels(run.closed_loop, ["margin_wall,X"], timing=False)
    assert not spec.active
    (spec,) = chosen_panels(run.closed_loop, ["margin_wall,margin_turn"], timing=False)
    assert not spec.active


def test_where_not_all_have_room_margins_that_act_come_before_residuals(run: servonode.Run) -> None:
    panels = panels_of(run, {**run.state, **run.outputs, **run.input})
    kinds = {name: panel.spec.kind for panel in panels if panel.acts for name in panel.columns}
    assert kinds == {"wall": MARGIN, "side": MARGIN, "post": ESTIMATE, "turn": ESTIMATE, "grip": ESTIMATE}


# what is forbidden


def test_sets_in_the_plane_of_a_trail_are_drawn_and_those_of_other_states_are_not(run: servonode.Run) -> None:
    (view,) = run.closed_loop.views
    sets = Forbidden(run.closed_loop, view)
    assert sets
    assert not sets.moves
    areas = sets.areas(0.0, LOWER, UPPER)
    inside = forbidden(areas, (0.1, -0.9), (0.02, 0.9), (-0.9, 0.0), (-0.45, 0.5), (-0.35, 0.5))
    assert inside == [True, False, False, True, False]
    assert not Forbidden(kept(0.1, turn=KEEP["turn"], grip=KEEP["grip"]).closed_loop, view)
    assert not Forbidden(servonode.load("trailer_pursuit").closed_loop, view)


def test_the_edge_of_a_small_set_is_as_round_as_that_of_a_large_one() -> None:
    loop = kept(0.1, post="sqrt((X - 30)**2 + (Y - 30)**2) - 0.9").closed_loop
    ((ring,),) = Forbidden(loop, loop.views[0]).areas(0.0, np.zeros(2), np.full(2, 100.0))
    np.testing.assert_allclose(np.hypot(*(ring - 30).T), 0.9, rtol=1e-2)
    assert len(ring) > 40


def test_a_set_that_time_or_a_goal_moves_is_where_it_is_at_that_time() -> None:
    gate, target = (kept(0.1, it=text).closed_loop for text in ("0.1*t - X", "sqrt((X - x)**2 + (Y - y)**2) - 0.4"))
    sets = Forbidden(gate, gate.views[0])
    assert sets.moves
    assert [forbidden(sets.areas(t, LOWER, UPPER), (0.05, 0.9)) for t in (0.0, 1.0)] == [[True], [False]]
    sets = Forbidden(target, target.views[0])
    x, y = target.targets.table(np.array([20.0]))[0][target.targets.positions]
    near = sets.areas(20.0, np.array([x - 0.6, y - 0.6]), np.array([x + 0.6, y + 0.6]))
    assert forbidden(near, (x - 0.1, y), (x - 0.5, y)) == [True, False]


def test_what_is_not_finite_is_not_drawn() -> None:
    loop = kept(0.1, root="sqrt(X + 0.5) - 0.1").closed_loop
    areas = Forbidden(loop, loop.views[0]).areas(0.0, LOWER, UPPER)
    assert forbidden(areas, (-0.495, 0.0), (0.0, 0.0)) == [True, False]
    assert Forbidden(loop, loop.views[0]).areas(0.0, np.full(2, -1e200), np.full(2, 1e200)) == []


POINTS = np.random.default_rng(1).uniform(-1, 1, (6, 3))
CENTRE = np.array([0.2, -0.3, 2.0])
DISTANCES = np.linalg.norm(POINTS - CENTRE, axis=1)
OUTWARDS = (POINTS - CENTRE) / DISTANCES[:, None]
NORMAL = np.array([0.6, 0.0, -0.8])


@pytest.mark.parametrize(
    ("h", "slopes", "wanted"),
    [
        (DISTANCES - 0.5, OUTWARDS, Fixed(CENTRE, 0.5, False)),
        (0.5 - DISTANCES, -OUTWARDS, Fixed(CENTRE, 0.5, False, -1.0)),
        (2 * (POINTS @ NORMAL - 0.5), np.tile(2 * NORMAL, (6, 1)), Fixed(NORMAL, 0.5, True)),
        (DISTANCES**2 - 0.5, 2 * DISTANCES[:, None] * OUTWARDS, None),
        (DISTANCES - 0.5, np.full((6, 3), np.nan), None),
    ],
)
def test_a_distance_is_known_by_its_slopes(h: Any, slopes: Any, wanted: Fixed | None) -> None:
    found = _fixed(POINTS, h, slopes)
    assert (found is None) == (wanted is None)
    if found and wanted:
        np.testing.assert_allclose(found.at, wanted.at, atol=1e-9)
        assert found.far == pytest.approx(0.5)
        assert (found.flat, found.sign) == (wanted.flat, wanted.sign)
        np.testing.assert_allclose(found.h(POINTS), h / np.linalg.norm(slopes[0]), atol=1e-9)


CRANE = Path("examples/crane/crane.toml")


def test_a_place_that_is_no_state_may_have_a_distance() -> None:
    keeps = {"load": "sqrt((x - 0.5)**2 + (z - 1.6)**2) - 0.3", "swing": "0.4 - abs(theta)", "high": "z - 0.2"}
    loop = servonode.load(CRANE, values={"controller.keep": keeps}).closed_loop
    (view,) = loop.views
    areas = Forbidden(loop, view).areas(0.0, np.array([-1.0, 0.0]), np.array([1.0, 2.0]))
    assert forbidden(areas, (0.5, 1.6), (0.5, 1.25), (0.0, 0.1), (0.0, 0.3)) == [True, False, True, False]


ARM = Path("examples/arm/figure_of_eight.toml")


@pytest.mark.slow
def test_in_space_a_ball_is_a_disc_and_a_plane_a_sheet() -> None:
    keeps = {
        "ball": "distance(tool, (0.3, 0.1, 0.9)) - 0.2",
        "wall": "0.7 - tool.x",
        "reach": "1.2 - distance(tool, ground)",
    }
    loop = servonode.load(ARM, values={"controller.keep": keeps}).closed_loop
    view = loop.views[0]
    (disc,), (sheet,), (square, hole) = Forbidden(loop, view).areas(0.0, np.zeros(2), np.ones(2))
    centre = view.flat(np.array([[0.3, 0.1, 0.9]]))
    np.testing.assert_allclose(np.hypot(*(view.flat(disc) - centre).T), 0.2, rtol=1e-6)
    np.testing.assert_allclose(sheet[:, 0], 0.7, atol=1e-6)
    np.testing.assert_allclose(np.hypot(*view.flat(hole).T), 1.2, rtol=1e-6)
    assert np.abs(view.flat(square)).min() > 1.2


def test_report_and_window_draw_forbidden_sets_as_far_as_their_limits_go(run: servonode.Run) -> None:
    (view,) = run.closed_loop.views
    scene = Scene.of(run)
    assert "forbidden" in Map.of(scene, view, False).head(6.0).names
    figure = Figure()
    axis = figure.add_subplot()
    Map.of(scene, view, False).draw(axis)
    (areas,) = [each for each in axis.collections if each.get_label() == "forbidden"]
    drawn = np.concatenate([each.vertices for each in areas.get_paths()])
    assert drawn[:, 0].max() == pytest.approx(axis.get_xlim()[1])
    picture = Animation(Figure(figsize=(10, 6), dpi=60), run.closed_loop)
    picture.show(run.t, columns_of(run))
    (part,) = picture.views
    areas = next(each for each in part.artists if each.get_label() == "forbidden")
    assert np.concatenate([each.vertices for each in areas.get_paths()])[:, 0].max() == pytest.approx(
        part.axis.get_xlim()[1]
    )
    assert "forbidden" in [each.get_text() for each in part.axis.get_legend().get_texts()]
