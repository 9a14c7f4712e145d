"""Report pictures as tests look at them: laid out, with all words on the page and nothing that covers anything."""

from functools import cache
from typing import Any

import servonode
from servonode.record.run import Run
from servonode.views.report import report_figure


def laid_out(run: Run, name: str) -> Any:
    """The report picture of a run, at 100 pixels per inch."""
    figure = report_figure(run, name)
    figure.set_dpi(100)
    figure.draw_without_rendering()
    return figure


def reported(launch: str, duration: float | None = None) -> tuple[Run, Any]:
    """The run of a packaged launch file and its report picture, both made once."""
    return _reported(launch, duration)


@cache
def _reported(launch: str, duration: float | None) -> tuple[Run, Any]:
    run = servonode.simulate(launch, every=5, **({"run__duration": duration} if duration else {}))
    return run, laid_out(run, launch)


def check_page(figure: Any) -> None:
    """Assert that all axes with their words are on the page, and none is on another one."""
    renderer, page = figure.canvas.get_renderer(), figure.bbox
    boxes = [axis.get_tightbbox(renderer) for axis in figure.axes]
    for i, box in enumerate(boxes):
        assert page.x0 - 1 <= box.x0
        assert box.x1 <= page.x1 + 4
        assert page.y0 - 1 <= box.y0
        assert box.y1 <= page.y1 + 1
        for other in boxes[:i]:
            width, height = min(box.x1, other.x1) - max(box.x0, other.x0), min(box.y1, other.y1) - max(box.y0, other.y0)
            assert width <= 1 or height <= 1, (width, height)
