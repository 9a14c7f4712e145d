"""A figure of the window's size on a canvas without a display."""

import time

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from servonode.views.animation import SIZE


class Headless(FigureCanvasAgg):
    """A canvas whose event loop only sleeps."""

    def start_event_loop(self, timeout: float = 0) -> None:
        time.sleep(timeout)


def headless_figure() -> Figure:
    figure = Figure(figsize=SIZE, dpi=100)
    Headless(figure)
    return figure
