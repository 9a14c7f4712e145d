"""docs/notebooks/arm.py, which has a run in real time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.test_notebook import run

NOTEBOOKS = {path.stem: path for path in sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.py"))}


@pytest.fixture(scope="module", autouse=True)
def _without_windows() -> Iterator[None]:
    before = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    run.cache_clear()
    plt.switch_backend(before)


@pytest.fixture
def names(request: pytest.FixtureRequest) -> dict[str, Any]:
    """All names of the notebook that a class of tests is named after."""
    return run(request.cls.__name__.removeprefix("Test").lower())


@pytest.mark.parametrize("name", ["arm"])
def test_its_figures_have_axes_with_finite_curves_and_labels(name: str) -> None:
    figures = [each for each in run(name).values() if isinstance(each, Figure)]
    assert figures
    for axis in (axis for figure in figures for axis in figure.axes):
        assert axis.lines
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert all(np.isfinite(line.get_ydata()).all() for line in axis.lines)


class TestArm:
    def test_the_mass_matrix_is_the_textbooks(self, names: dict[str, Any]) -> None:
        assert names["differences"] == [0, 0, 0]
        assert names["servo"].relative_degrees == (2, 2)

    def test_the_stretched_arm_is_singular(self, names: dict[str, Any]) -> None:
        far, near, nearest = names["conditions"].values()
        assert far < near < nearest
        assert nearest > 50

    def test_check_passes_and_warns_of_gravity(self, names: dict[str, Any]) -> None:
        assert names["report"].verdict == "yes"
        assert "safe action" in [each.subject for each in names["report"].findings if each.level == "warn"]

    def test_the_error_is_the_matrix_exponentials(self, names: dict[str, Any]) -> None:
        assert names["errors"]["continuous"] < 1e-11
        assert 1e-3 < names["errors"]["sampled"] < 1e-2
        assert names["order"] == pytest.approx(1.0, abs=0.05)

    def test_lockstep_is_the_simulation_and_real_time_is_near_it(self, names: dict[str, Any]) -> None:
        assert names["gaps"]["lockstep"] == 0.0
        assert names["gaps"]["realtime"] < 0.1
        assert names["runs"]["realtime"].t[-1] == 4.0
