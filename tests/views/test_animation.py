"""The animation, on a canvas without a display: what is shown of a run up to now, and what is drawn anew."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

import servonode
from servonode.loop import Loop
from servonode.views.animation import Animation
from servonode.views.curves import Decimation
from servonode.views.live_run import Ring
from servonode.views.panel_specs import FieldError, chosen_panels
from servonode.views.panels import columns_of
from servonode.views.scene import magnification

assert_allclose: Any = np.testing.assert_allclose
LAUNCHES = {
    "trailer_pursuit": (
        [""],
        ["V [m/s]", "psi [rad]", "Omega [rad/s]", "phi [rad]", "[rad/s]", "[N m]", "|residual|"],
        "forward speed of O1 $V$ [m/s]",
    ),
    "sphero_pursuit": (
        ["from above", "direction n from above", "from its right, the way ahead to the right"],
        ["[m/s]", "theta [rad]", "[N m]", "|residual|"],
        "velocity of the centre along x and\u00a0y [m/s]",
    ),
    "snowboarder_carve": (
        [
            "from above",
            "from behind, the slope level, sideways shown x5",
            "from its right, the slope level, sideways shown x5",
        ],
        ["[rad]", "v [m/s]", "F_t [N]", "[N m]", "|residual|"],
        "heading, pitch and\u00a0lean [rad]",
    ),
}
SHORT = 1.0  # s


@cache
def simulated(launch: str) -> tuple[Loop, Any, dict[str, Any]]:
    """A short run of a packaged launch file: its loop, its times, its columns."""
    loop = servonode.load(launch, run__duration=SHORT)
    run = loop.simulate(every=5)
    return loop, run.t, columns_of(run)


def upto(columns: Mapping[str, Any], n: int) -> dict[str, Any]:
    return {name: values[:n] for name, values in columns.items()}


def picture_of(launch: str, **options: Any) -> tuple[Animation, Any, dict[str, Any]]:
    loop, t, columns = simulated(launch)
    return Animation(Figure(figsize=(10, 6), dpi=60), loop.closed_loop, **options), t, columns


def pixels(picture: Animation) -> Any:
    return np.asarray(picture.figure.canvas.buffer_rgba()).copy()


def in_cell(picture: Animation, part: Any, image: Any) -> Any:
    """The pixels of one part, without a border on which rounding may differ."""
    height, width = image.shape[:2]
    left, bottom, across, up = part.cell
    rows = slice(int(height * (1 - bottom - up)) + 2, int(height * (1 - bottom)) - 2)
    return image[rows, int(width * left) + 2 : int(width * (left + across)) - 2]


def inside(axis: Any, image: Any) -> Any:
    """Which pixels of the image are within the axis."""
    box, found = axis.bbox, np.zeros(image.shape[:2], bool)
    top, bottom = (round(image.shape[0] - y) for y in (box.y1, box.y0))
    found[top : bottom + 1, round(box.x0) : round(box.x1) + 1] = True
    return found


def check_equal_scales(picture: Animation) -> None:
    for view in picture.views:
        (x0, y0), (x1, y1) = view.axis.transData.transform([(0.0, 0.0), (1.0, 1.0)])
        assert_allclose(x1 - x0, y1 - y0, rtol=1e-9)


# what there is


@pytest.mark.parametrize("launch", LAUNCHES)
def test_each_machine_has_its_views_and_panels_which_move_at_equal_scales(launch: str) -> None:
    picture, t, columns = picture_of(launch, span=0.5)
    assert picture.show(t[:60], upto(columns, 60))
    titles, labels, first = LAUNCHES[launch]
    found = [view.axis.get_title(loc="left").replace("\n", " ") for view in picture.views]
    assert found[: len(titles)] == titles
    assert [panel.spec.label for panel in picture.panels] == labels
    assert picture.panels[0].axis.get_title(loc="left") == first
    assert [panel.axis.get_yscale() for panel in picture.panels] == ["linear"] * (len(labels) - 1) + ["log"]
    before = pixels(picture)
    picture.show(t, columns)
    after = pixels(picture)
    for part in (*picture.views[:1], *picture.panels):
        if part not in picture.panels or "F_t" not in part.spec.label:  # zero throughout
            assert (in_cell(picture, part, before) != in_cell(picture, part, after)).any()
    check_equal_scales(picture)


def test_picture_stands_at_the_last_row_and_its_panels_count_from_the_present() -> None:
    picture, t, columns = picture_of("trailer_pursuit", span=0.4)
    rare = np.where(np.arange(len(t)) % 20 == 0, columns["residual_speed"], np.nan)
    picture.show(t, {**columns, "residual_speed": rare})
    (view,) = picture.views
    lines = {line.get_label(): line for line in view.axis.lines}
    target = [columns["target_x"][-1], columns["target_y"][-1]]
    for name, place in (
        ("robot", [columns["X"][-1], columns["Y"][-1]]),
        ("trailer", [columns["X2"][-1], columns["Y2"][-1]]),
        ("target", target),
    ):
        assert_allclose(lines[name].get_xydata()[-1], place)
    marker = next(line for line in view.axis.lines if line.get_marker() == "o" and len(line.get_xydata()))
    assert_allclose(marker.get_xydata(), [target])

    speed, residual = picture.panels[0].axis, picture.panels[-1].axis
    assert speed.get_xlim() == (-0.4, 0.0)
    x, y = speed.lines[0].get_data()
    assert_allclose([x[0], x[-1], y[-1]], [-0.4, 0.0, columns["V"][-1]], atol=1e-9)
    assert_allclose(residual.lines[1].get_ydata()[-1], abs(columns["residual_heading"][-1]))
    shown = np.isfinite(rare) & (t >= t[-1] - 0.4)
    assert len(residual.lines[0].get_xdata()) == np.count_nonzero(shown)  # rare values are joined


# what a program asks for, leans, and what a movie leaves out


def test_wanted_path_reaches_the_limits_and_stands_in_the_legend() -> None:
    picture, t, columns = picture_of("trailer_reverse")
    picture.show(t, columns)
    (view,) = picture.views
    (line,) = [each for each in view.axis.lines if each.get_label() == "wanted line"]
    assert_allclose(line.get_xydata()[:, 1], 0.0, atol=1e-12)
    assert_allclose(sorted(line.get_xydata()[:, 0]), view.axis.get_xlim())
    assert "wanted line" in [each.get_text() for each in view.axis.get_legend().get_texts()]

    beside = view.axis.get_position().width  # a movie gives a wide path the whole width
    picture.fix_limits(t, {**columns, "X": np.linspace(0.0, -20.0, len(t))})
    assert beside < 0.55
    assert picture.views[0].axis.get_position().width > 0.85
    boxes = [part.axis.get_position() for part in (*picture.views, *picture.panels)]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.slow
def test_movie_limits_contain_a_wanted_circle_and_stay_to_the_last_row() -> None:
    picture, t, columns = picture_of("sphero_circle")
    assert np.ptp(columns["Y"]) < 0.1
    picture.fix_limits(t, columns)
    (left, right), (bottom, top) = picture.views[0].axis.get_xlim(), picture.views[0].axis.get_ylim()
    assert left < -1.5 < 1.5 < right
    assert bottom < 0.0 < 3.0 < top
    limits = [(axis.get_xlim(), axis.get_ylim()) for axis in picture.figure.axes]
    redrawn = [picture.show(t[:n], upto(columns, n)) for n in range(2, len(t), 20)]
    assert redrawn == [True] + [False] * (len(redrawn) - 1)
    assert [(axis.get_xlim(), axis.get_ylim()) for axis in picture.figure.axes] == limits
    assert picture.panels[0].axis.get_xlim() == (t[0], t[-1])


@pytest.mark.parametrize(("degrees", "factor"), [(0.0, 1.0), (0.01, 1.0), (3.3, 5.0), (6.1, 2.0), (15.1, 1.0)])
def test_a_lean_is_magnified_as_far_as_it_stays_readable(degrees: float, factor: float) -> None:
    assert magnification(np.radians(degrees)) == factor


@pytest.mark.slow
def test_a_small_lean_is_magnified_by_a_factor_that_falls_until_another_run() -> None:
    picture, t, columns = picture_of("sphero_pursuit")
    picture.show(t, columns)
    view = picture.views[2]
    assert 0.1 < np.degrees(columns["theta"][-1]) < 6.0
    assert view.view.title.endswith("lean shown x5")
    instant = picture._instant(t, columns, -1)
    drawn, true = (np.diff(instant.lines(each.outline)[1], axis=0)[0] for each in (view.view, picture._plain[2]))
    leans = [np.arctan2(n[0], -n[1]) for n in (drawn, true)]
    assert abs(leans[1]) > np.radians(0.1)
    assert_allclose(leans[0], 5 * leans[1], rtol=2e-3)
    assert view.caption is not None
    assert view.caption.text == f"lean {np.degrees(leans[1]):+.1f}°".replace("-", "\u2212")  # in words the true one

    tilted = {name: values.copy() for name, values in columns.items()}
    tilted["n_0"][-1], tilted["n_1"][-1], tilted["n_2"][-1] = np.sin(0.2), 0.0, -np.cos(0.2)
    for shown in (tilted, columns):
        picture.show(t, shown)
        assert view.view.title.endswith("lean shown x2")
    picture.begin_run()
    picture.show(t, columns)
    assert view.view.title.endswith("lean shown x5")


def test_movie_leaves_out_zero_panels_and_idle_strips() -> None:
    picture, t, columns = picture_of("snowboarder_carve")
    axes = len(picture.figure.axes)
    picture.fix_limits(t, columns)
    above, *strips = picture.views
    assert [view.view.title for view in strips] == ["from behind, the slope level, sideways shown x2"]
    assert "F_t [N]" not in [panel.spec.label for panel in picture.panels]
    assert len(picture.figure.axes) == axes - 2
    assert above._scale.largest >= np.abs(columns["R"]).max()  # the scale of the longest arrow
    assert above._names == ["lateral force R of the snow"]
    picture.show(t, columns)


# drawing


@pytest.mark.slow
def test_frame_by_parts_has_the_pixels_of_a_full_drawing() -> None:
    picture, t, columns = picture_of("sphero_pursuit", span=0.5)
    assert picture.show(t[:150], upto(columns, 150))
    for n in range(151, len(t)):
        if not picture.show(t[:n], upto(columns, n)):
            break
    else:
        pytest.fail("every frame redrew an axis")
    by_parts = pixels(picture)
    picture.figure.canvas.draw()
    assert_allclose(pixels(picture).astype(int), by_parts.astype(int), atol=0)


@pytest.mark.slow
def test_limits_follow_in_steps() -> None:
    picture, t, columns = picture_of("snowboarder_carve", span=0.5)
    redrawn = [picture.show(t[:2], upto(columns, 2))]
    redrawn += [picture.show(t[:n], upto(columns, n)) for n in range(100, len(t))]
    assert redrawn[0]
    assert sum(redrawn) < len(redrawn) / 3


@pytest.mark.slow
def test_a_title_is_drawn_alone_and_another_size_or_resolution_in_full() -> None:
    picture, t, columns = picture_of("trailer_pursuit")
    picture.show(t, columns)
    assert not picture.show(t, columns)
    before = pixels(picture)
    assert picture.title("a run")
    assert not picture.title("a run")
    assert not picture.show(t[:0], {})  # without rows only the title is drawn
    changed = np.flatnonzero((pixels(picture) != before).any(axis=(1, 2)))
    assert len(changed) > 0
    assert changed.max() < 0.42 * 60 + 1  # the first line, in pixels from above
    picture.figure.set_size_inches(7, 7)
    assert picture.show(t, columns)
    assert pixels(picture).shape[:2] == (420, 420)
    check_equal_scales(picture)
    picture.figure.set_size_inches(7 / 1.25, 7 / 1.25)  # as many pixels
    picture.figure.dpi *= 1.25
    assert picture.show(t, columns)
    assert not picture.show(t, columns)
    for size in ((1.0, 1.0), (2.0, 0.5), (0.6, 5.0)):  # hardly a window
        picture.figure.set_size_inches(*size)
        for n in (100, 150):
            picture.show(t[:n], upto(columns, n))
        assert (pixels(picture) != 255).any()


@pytest.mark.slow
def test_saved_picture_has_moving_artists_and_the_next_frame_is_whole(tmp_path: Path) -> None:
    picture, t, columns = picture_of("trailer_pursuit")
    picture.show(t, columns)
    before = pixels(picture)
    for ending in ("pdf", "svg", "png"):
        picture.figure.savefig(tmp_path / f"a.{ending}")
        assert (tmp_path / f"a.{ending}").stat().st_size > 5000
        picture.show(t, columns)
        assert_allclose(pixels(picture), before)
    saved = matplotlib.image.imread(tmp_path / "a.png")
    differs = np.abs(255.0 * saved[..., :3] - before[..., :3]) > 2
    axes = np.zeros(differs.shape[:2], bool)  # words are set a little differently, by parts of a pixel
    for axis in picture.figure.axes:
        axes |= inside(axis, before)
    assert np.mean(differs[axes]) < 1e-3  # where a curve crosses the frame of its axis, which here lies above it


# what a user may choose


def test_chosen_panels_have_columns_units_and_axes() -> None:
    loop, _, _ = simulated("sphero_pursuit")
    panels = chosen_panels(
        loop.closed_loop, ["v_x, v_y", "n[0],theta", "residual_v_x", "timing_law,timing_age"], timing=True
    )
    assert [panel.label for panel in panels] == ["[m/s]", "[1, rad]", "|residual_v_x| [m/s]", "[ms]"]
    assert [list(panel.curves.values()) for panel in panels[:2]] == [["v_x", "v_y"], ["n_0", "theta"]]
    assert [panel.logarithmic for panel in panels] == [False, False, True, True]
    assert [panel.title for panel in panels[2:]] == ["residual v_x, magnitude [m/s]", "times [ms]"]
    assert panels[0].title == "velocity of the centre along x and\u00a0y [m/s]"
    assert list(panels[3].curves) == ["law", "age"]


def test_an_unknown_name_is_told_with_the_names_there_are() -> None:
    loop, _, _ = simulated("trailer_pursuit")
    with pytest.raises(
        FieldError, match=r"^panel 'V,W': unknown name 'W'; choose from X, Y, .*, residual_speed, .*target_y$"
    ):
        chosen_panels(loop.closed_loop, ["V,W"], timing=False)
    with pytest.raises(FieldError, match="has 5 names; give at most 4"):
        chosen_panels(loop.closed_loop, ["V,V,V,V,V"], timing=False)


# rows that are kept, and rows that are drawn


def test_a_ring_keeps_the_newest_rows_in_order_and_never_grows() -> None:
    ring = Ring(["a"], 5)
    size = ring._data.nbytes
    for i in range(13):
        ring.add(np.array([i, 10.0 * i]))
        assert len(ring) == min(i + 1, 5)
        expected = np.arange(max(0, i - 4), i + 1)
        assert_allclose(ring.columns["t"], expected)
        assert_allclose(ring.columns["a"], 10.0 * expected)
    assert ring._data.nbytes == size
    assert ring.columns["a"].base is ring._data  # nothing is copied
    ring.clear()
    assert len(ring.columns["t"]) == 0


T = np.arange(0.0, 10.0, 0.001)


def test_decimation_keeps_peaks_and_shape_while_scrolling_and_leaves_out_nan() -> None:
    values = np.sin(T)
    values[4321] = 7.0
    x, y = Decimation.of(T, 10.0, 100).curve(values)
    assert len(x) <= 202
    assert y.max() == 7.0
    later = Decimation.of(T[500:], 10.0, 100).curve(values[500:])
    for shown, whole in zip(later, (x, y), strict=True):
        assert_allclose(shown[2:], whole[len(x) - len(shown) + 2 :])  # all but the piece that was cut into
    few = T[:1000]
    for shown, whole in zip(Decimation.of(few, 1.0, 500).curve(few**2), (few, few**2), strict=True):
        assert_allclose(shown, whole)
    rare = np.where(np.arange(1000) == 500, 3.0, np.nan)
    _, y = Decimation.of(few, 1.0, 100).curve(rare)
    assert_allclose(y[np.isfinite(y)], 3.0)


def test_decimated_sizes_keep_known_values_and_peaks_and_paths_their_end() -> None:
    rare = np.where(np.arange(len(T)) % 1000 == 0, -2.0, np.nan)
    x, y = Decimation.of(T, 10.0, 100).sizes(rare)
    assert_allclose(x, np.arange(10.0))
    assert_allclose(y, 2.0)
    values = np.sin(T) + 2.0
    values[4321], values[5432] = -7.0, 0.0
    x, y = Decimation.of(T, 10.0, 100).sizes(values)
    assert len(x) <= 202
    assert (y.min(), y.max()) == (pytest.approx(1.0, abs=1e-5), 7.0)
    (path,) = Decimation.of(T, 10.0, 50).path(T)
    assert len(path) <= 52
    assert (path[0], path[-1]) == (T[0], T[-1])
