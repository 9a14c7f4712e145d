"""Which instants a report shows, and what it draws where the machine is beyond its model."""

from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import servonode
from servonode.views.panels import panels_of, shown_panels
from servonode.views.scene import RARE, Motion, Scene, side_by_side, spread
from tests.helpers.report_pages import reported

PIECES = 24


def scene_of(launch: str, **options: Any) -> Scene:
    return Scene.of(servonode.simulate(launch, **options))


def shown(scene: Scene) -> list[float]:
    """The times [s] of the snapshots."""
    return [float(scene.run.t[i]) for i in side_by_side(scene, scene.run.closed_loop.views).instants]


def test_snapshots_show_a_machine_mostly_while_it_moves() -> None:
    times = shown(scene_of("sphero_stop"))
    assert (times[0], times[-1]) == (0.0, 6.0)
    assert sum(t < 3.0 for t in times) >= 5


def test_a_machine_that_goes_on_moving_is_shown_evenly_over_time() -> None:
    times = shown(scene_of("snowboarder_carve"))
    np.testing.assert_allclose(np.diff(times), times[-1] / (len(times) - 1), atol=0.02)


def test_a_piece_in_which_a_machine_rests_counts_less() -> None:
    scene = scene_of("trailer_coast", run__duration=2.0)
    last = len(scene.run.t) - 1
    moves = np.arange(PIECES) < PIECES // 2
    rows = np.array(spread(scene, 11, moves).instants) / last
    assert (rows[0], rows[-1]) == (0.0, 1.0)
    assert sum(rows < 0.5) == pytest.approx(11 / (1 + RARE), abs=1)
    assert spread(scene, 11, np.full(PIECES, True)) == spread(scene, 11)


def test_the_largest_lean_is_shown_in_place_of_another_instant() -> None:
    scene = scene_of("sphero_line")
    views = scene.run.closed_loop.views
    leans = np.abs([[each.given(view.lean) for i in range(len(scene.run.t)) for each in [scene.instant(i)]]
                    for view in views if view.lean])  # fmt: skip
    shown = side_by_side(scene, views)
    assert np.degrees(leans.max()) > 20
    assert leans[:, shown.instants].max() > 0.7 * leans.max()
    assert len(shown.instants) <= 8
    assert (shown.instants[0], shown.instants[-1]) == (0, len(scene.run.t) - 1)


def test_fallen_snowboarder_is_not_drawn_below_the_snow() -> None:
    run, figure = reported("snowboarder_turns_back")
    scene = Scene.of(run)
    assert scene.beyond is not None
    up = run.outputs["E_n"]
    assert (up[scene.beyond :] < 0.1).all()
    assert up[scene.beyond - 1] >= 0.1
    assert scene.beyond_name == "fallen"
    assert max(scene.instants) == scene.beyond
    for view in scene.views():
        if view.strip:
            assert min(line[:, 1].min() for i in scene.instants for line in scene.shapes(i, view).lines) >= 0
    said = [text.get_text() for text in figure.texts]
    assert f"Fault at 1.03 s: law (dotted line), fallen from {run.t[scene.beyond]:.2f} s on (shaded)" in said
    shades = [each.get_x() for axis in figure.axes for each in axis.patches if isinstance(each, Rectangle)]
    assert len(shades) == len(shown_panels(panels_of(run, scene.known), len(scene.views()))[0])
    np.testing.assert_allclose(shades, run.t[scene.beyond])


@pytest.mark.parametrize("launch", ["sphero_runs_over", "trailer_coast"])
def test_machine_within_its_model_is_shown_to_the_end(launch: str) -> None:
    scene = scene_of(launch)
    assert scene.beyond is None
    assert scene.beyond_name == ""
    assert scene.instants[-1] == len(scene.run.t) - 1
    without_lean = all(view.lean is None for view in scene.views())
    assert (Motion.of(scene, scene.views()) is None) == without_lean == (launch == "trailer_coast")
