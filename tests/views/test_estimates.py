"""What a report shows of an estimate."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import servonode
from servonode.views.curves import Curve, Curves
from servonode.views.palette import INK
from servonode.views.panels import estimate_columns, running_ratio
from servonode.views.report import report_figure


@pytest.fixture(scope="module")
def run() -> Any:
    return servonode.simulate("trailer_estimated", run__duration=4.0)


def test_estimate_errors_exist_only_with_an_estimate(run: Any) -> None:
    found = estimate_columns(run)
    rows = int(len(run.t) / 40)
    middle, half = len(run.t) // 2, rows // 2
    part = slice(middle - half, middle - half + rows)
    error = run.estimate.state["phi"][part] - run.state["phi"][part]
    np.testing.assert_allclose(found["error_phi"][middle], np.sqrt(np.mean(error**2)))
    np.testing.assert_allclose(found["expected_V"][middle], np.sqrt(np.mean(run.estimate.std["V"][part] ** 2)))
    assert {name.removeprefix("error_") for name in found if name.startswith("error_")} == set(run.state)
    assert estimate_columns(servonode.simulate("trailer_coast", run__duration=1.0)) == {}


def test_a_running_ratio_is_the_ratio_of_sums_over_its_rows(run: Any) -> None:
    squares, numbers = np.array([1.0, np.nan, 3.0, 8.0, 5.0]), np.array([1.0, 2.0, 1.0, 4.0, 0.0])
    np.testing.assert_allclose(running_ratio(squares, numbers, 3), [1.0, 2.0, 11 / 5, 11 / 5, 8 / 4])
    np.testing.assert_allclose(running_ratio(squares, numbers, 1)[[0, 2, 3]], [1.0, 3.0, 2.0])
    assert np.isnan(running_ratio(squares, numbers, 1)[[1, 4]]).all()
    whole = running_ratio(run.estimate.nees, run.estimate.dimensions, 4 * len(run.t))
    np.testing.assert_allclose(whole, run.estimate.nees_mean)  # as the summary says


def test_estimate_errors_are_drawn_with_expected_ones_by_unit(run: Any) -> None:
    figure = report_figure(run, "trailer_estimated")
    axes = {axis.get_title(loc="left").replace("\n", " "): axis for axis in figure.axes}
    errors = {title: axis for title, axis in axes.items() if title.startswith("RMS error of ")}
    assert len(errors) == 2  # what there is no room for is named below
    assert any("$V$, dashed: σ [m/s]" in each.get_text().replace("\n", " ") for each in figure.texts)
    (place,) = (axis for title, axis in errors.items() if title.endswith("dashed: σ [m]"))
    found = estimate_columns(run)
    for line, word in zip(place.lines, ("expected_X", "error_X", "expected_Y", "error_Y"), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), found[word])
    assert any(title.startswith("squared errors per dimension") for title in axes)
    assert any("Pale areas" in text.get_text() for text in figure.texts) == any(
        axis.collections for axis in figure.axes
    )


def test_means_are_drawn_as_they_are_however_often_they_turn() -> None:
    t = np.linspace(0, 10, 10_001)
    turning = 1e-3 * np.abs(np.sin(2 * np.pi * t)) + 1e-9
    for curve in (Curve("V", turning, INK, expected=0 * t + 1e-3), Curve("NIS", turning, INK)):
        figure = Figure()
        axis = figure.add_subplot()
        Curves.of(t, [curve], True).draw(axis)
        np.testing.assert_array_equal(axis.lines[-1].get_ydata(), turning)
    assert Curves.of(t, [Curve("V", turning, INK)], True).peaks  # of a residual its peaks
