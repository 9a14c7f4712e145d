"""Several robots in one launch: the paths of two, and the distance between them."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from gallery_entries.frame import (
    BLUE,
    ORANGE,
    TIME,
    Content,
    panel,
    plane,
    sheet,
)
from servonode.closed_loop.fleet import read_fleet, resolve_fleet
from servonode.record.run import Run
from servonode.simulation.simulate_fleet import simulate_fleet


def draw(runs: Mapping[str, Run]) -> Figure:
    """The paths of two robots, and the distance between them."""
    figure, ((paths, apart),) = sheet(columns=2, height=3.0)
    for (name, run), colour in zip(runs.items(), (BLUE, ORANGE), strict=True):
        paths.plot(run.state["X"], run.state["Y"], color=colour, label=name)
    plane(paths)
    first = next(iter(runs.values()))
    apart.plot(first.t, distance(runs), color=BLUE)
    panel(apart, "distance [m]", TIME)
    return figure


def distance(runs: Mapping[str, Run]) -> np.ndarray:
    """The distance between two robots [m]."""
    one, two = runs.values()
    return np.hypot(one.state["X"] - two.state["X"], one.state["Y"] - two.state["Y"])


def followed(name: str) -> Content:
    """The runs of a launch file with two robots."""
    fleet = read_fleet(name)
    assert fleet is not None
    loops = resolve_fleet(fleet)
    runs = simulate_fleet(loops, dict.fromkeys(loops, 100))
    return Content({name: lambda: draw(runs)}, ())


def convoy() -> Content:
    """Two robots with trailers."""
    return followed("trailer_convoy")


def chase() -> Content:
    """A sphero behind a robot with trailer."""
    return followed("sphero_chase")


ENTRIES = {"trailer_convoy": convoy, "sphero_chase": chase}
