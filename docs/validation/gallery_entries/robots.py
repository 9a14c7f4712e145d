"""Several robots in one launch: no paper's figures, but what the launch files show."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from gallery_entries.frame import (
    BLUE,
    ORANGE,
    TIME,
    Content,
    Entry,
    Picture,
    Source,
    panel,
    plane,
    sheet,
)
from servonode.closed_loop.fleet import read_fleet, resolve_fleet
from servonode.record.run import Run
from servonode.simulation.simulate_fleet import simulate_fleet

SOURCE = Source(
    "robots",
    "Several robots in one launch",
    "No publication.",
    "Two launch files whose second robot has the state of the first as its goal.",
)


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
    names = " and ".join(runs)
    picture = Picture(name, f"Paths of {names}, and the distance between them.", lambda: draw(runs))
    return Content((picture,), ())


def convoy() -> Content:
    """Two robots with trailers."""
    return followed("trailer_convoy")


def chase() -> Content:
    """A sphero behind a robot with trailer."""
    return followed("sphero_chase")


ENTRIES = (
    Entry(
        "trailer_convoy",
        "robots",
        "A convoy of two robots with trailers",
        ("trailer_convoy",),
        ("servonode run trailer_convoy", "servonode simulate trailer_convoy"),
        "The leader pursues the five-cusped target, and the follower pursues the leader, 2 m behind it at rest.",
        convoy,
    ),
    Entry(
        "sphero_chase",
        "robots",
        "A sphero that chases the robot with trailer",
        ("sphero_chase",),
        ("servonode run sphero_chase", "servonode simulate sphero_chase"),
        "Two different machines: the ball rolls after the robot's axle.",
        chase,
    ),
)
