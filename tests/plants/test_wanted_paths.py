"""The paths that views draw of programs: the machine ends up on them."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.plants.view import circle, line_through
from servonode.views.shapes import wanted_paths

assert_allclose: Any = np.testing.assert_allclose
FIXED = {  # launch file -> what is wanted, the trail that follows it, how near it comes [m]
    "trailer_line": ("wanted line", "trailer", 0.1),
    "trailer_circle": ("wanted circle", "trailer", 2e-3),
    "trailer_reverse": ("wanted line", "trailer", 1e-3),
    "trailer_reverse_circle": ("wanted circle", "trailer", 2e-3),
    "sphero_line": ("wanted line", "robot", 1e-3),
    "sphero_circle": ("wanted circle", "robot", 2e-3),
    "snowboarder_slalom": ("wanted slalom", "blade", 0.05),
    "snowboarder_carve": ("wanted slalom", "blade", 0.05),
    "snowboarder_literal": ("wanted slalom", "blade", 0.1),
    "snowboarder_straight": ("wanted line", "blade", 0.01),
    "snowboarder_curve": ("wanted curve", "blade", 0.02),
    "snowboarder_stops_uphill": ("wanted curve", "blade", 0.1),
}


def distance(point: Any, line: Any) -> float:
    """From a point (2,) to a polyline (n, 2)."""
    begin, along = line[:-1], np.diff(line, axis=0)
    part = np.clip(np.sum((point - begin) * along, axis=1) / np.sum(along**2, axis=1), 0.0, 1.0)
    return float(np.min(np.hypot(*(begin + part[:, None] * along - point).T)))


@pytest.mark.parametrize("launch", FIXED)
def test_the_machine_comes_to_the_wanted_path(launch: str) -> None:
    name, trail, near = FIXED[launch]
    run = servonode.simulate(launch)
    view = next(each for each in run.closed_loop.views if each.paths)
    known = {**run.state, **run.outputs}
    path = np.array([known[each] for each in view.trails[trail]])
    edge = 0.3 * float(np.max(np.ptp(path, axis=1)))
    found = wanted_paths(run.closed_loop, view, path.min(axis=1) - edge, path.max(axis=1) + edge)
    assert list(found) == [name]
    assert np.isfinite(found[name]).all()
    assert distance(path[:, -1], found[name]) < near


@pytest.mark.parametrize("launch", ["trailer_pursuit", "sphero_pursuit", "trailer_coast", "snowboarder_falls"])
def test_a_goal_that_moves_and_no_goal_have_no_wanted_path(launch: str) -> None:
    loop = servonode.load(launch)
    for view in loop.closed_loop.views:
        assert wanted_paths(loop.closed_loop, view, np.zeros(2), np.ones(2)) == {}


def test_a_line_is_cut_at_the_region_and_empty_where_it_misses_it() -> None:
    low, high = np.array([0.0, 0.0]), np.array([2.0, 1.0])
    assert_allclose(line_through(np.array([-1.0, -1.0]), np.array([3.0, 3.0]), low, high), [[0.0, 0.0], [1.0, 1.0]])
    assert_allclose(line_through(np.array([9.0, 0.5]), np.array([-1.0, 0.0]), low, high), [[2.0, 0.5], [0.0, 0.5]])
    assert len(line_through(np.array([0.0, 2.0]), np.array([1.0, 0.0]), low, high)) == 0
    assert len(line_through(np.array([5.0, 0.0]), np.array([1.0, 1.0]), low, high)) == 0


def test_a_circle_is_closed_and_has_its_radius() -> None:
    points = circle(np.array([1.0, 2.0]), 3.0, 181)
    assert points.shape == (181, 2)
    assert_allclose(np.hypot(*(points - [1.0, 2.0]).T), 3.0)
    assert_allclose(points[0], points[-1], atol=1e-12)
