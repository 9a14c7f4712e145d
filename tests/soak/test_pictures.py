"""Report pictures of all packaged launch files: text that can be read, and nothing that covers anything."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from servonode.closed_loop.launch_file import packaged
from servonode.views.palette import GOAL, INK
from servonode.views.sheet import WIDTH
from servonode.views.titles import SIZE
from tests.helpers.report_pages import check_page, reported

SHORT = 1.0  # s of a packaged run that nothing else looks at


def picture(launch: str) -> Any:
    """The report picture of a packaged launch file."""
    return reported(launch)[1]


# whole pictures


def words(figure: Any) -> list[Text]:
    """All text that is drawn."""
    return [each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()]


WANTED = {  # one launch file of each machine, drawn at once, and the name of what its plane shows dashed
    "ball_tilted": "", "hoop_bowl": "", "snowboarder_curve": "wanted curve", "sphero_circle": "wanted circle",
    "trailer_pursuit": "target", "trailer_line": "wanted line",
}  # fmt: skip

REFUSED = ("refused", "too_curved")

LIKE_ANOTHER = ("tap", "lockstep", "external", "loopback", "serial", "udp", "mujoco")


@pytest.mark.parametrize("launch", [each for each in packaged() if not each.endswith(REFUSED + LIKE_ANOTHER)])
def test_pictures_of_packaged_launch_files_have_no_overlaps(launch: str) -> None:
    _, figure = reported(launch, None if launch in WANTED else SHORT)
    assert figure.get_figwidth() == WIDTH == pytest.approx(17 / 2.54, abs=0.02)
    check_page(figure)
    assert min(text.get_fontsize() for text in words(figure)) >= SIZE == 8.0
    for axis in figure.axes:
        check_legend(axis, figure.canvas.get_renderer())
    if name := WANTED.get(launch):
        (line,) = [line for line in figure.axes[0].lines if line.get_label() == name]
        assert line.get_color() == GOAL
        assert name in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    if launch in ("ball_tilted", "sphero_circle", "trailer_line"):
        check_plane(figure.axes[0])


def check_plane(axis: Any) -> None:
    """It has the shape of what is drawn in it."""
    drawn = [line.get_xydata() for line in axis.lines if line.get_linestyle() == "-" and len(line.get_xydata())]
    points = np.concatenate(drawn)
    points = points[np.isfinite(points).all(axis=1)]
    box, (x0, x1), (y0, y1) = axis.get_window_extent(), axis.get_xlim(), axis.get_ylim()
    assert min(np.ptp(points, axis=0) / (x1 - x0, y1 - y0)) > 0.55
    assert (x1 - x0) / box.width == pytest.approx((y1 - y0) / box.height, rel=1e-6)


def check_legend(axis: Any, renderer: Any) -> None:
    """It stands above the axis, in which every curve stays, and beside or below the title."""
    legend = axis.get_legend()
    if legend is None:
        return
    box = legend.get_window_extent(renderer)
    assert box.y0 >= axis.bbox.y1
    for line in axis.lines:
        assert line.get_clip_on()
        points = axis.transData.transform(line.get_xydata()) if len(line.get_xydata()) else np.zeros((0, 2))
        inside = points[np.isfinite(points).all(axis=1) & (points[:, 1] <= axis.bbox.y1)]
        assert not any(box.contains(x, y) for x, y in inside)
    title = axis.get_title(loc="left")
    if title.strip():
        lines = title.count("\n") + 1
        beside = axis._left_title.get_window_extent(renderer)
        right_of_it = box.x0 >= beside.x1 - 1 or lines > 1
        assert right_of_it or box.y1 <= beside.y0 + 5


def test_snapshots_and_their_times_do_not_cover_each_other() -> None:
    from matplotlib.path import Path

    outlines = [line for line in picture("trailer_line").axes[0].lines if line.get_color() == INK]
    shades: dict[float, list[Any]] = {}
    for line in outlines:
        if len(line.get_xdata()) > 2:
            shades.setdefault(line.get_alpha(), []).append(Path(line.get_xydata()))
    assert len(shades) >= 5
    for one, other in combinations(shades.values(), 2):
        assert not any(a.intersects_path(b) for a in one for b in other)

    figure = picture("trailer_hitch_swing")
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts if text.get_text().endswith(" s")]
    assert len(boxes) >= 6
    assert not any(box.overlaps(other) for box, other in combinations(boxes, 2))
