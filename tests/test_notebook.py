"""docs/notebook.py, run as a whole: what its cells find is what its text says."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.py"


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """All names of the notebook after its last cell."""
    before = mpl.get_backend()
    plt.switch_backend("Agg")
    yield runpy.run_path(str(NOTEBOOK))
    plt.close("all")
    plt.switch_backend(before)


def test_the_equations_are_chaplygins(names: dict[str, Any]) -> None:
    m, mu, a, b = (names["equations"].model[name] for name in ("m", "mu", "a", "b"))
    assert sympy.expand(names["chaplygin"] + (m * a - mu * b) * names["omega"] ** 2) == 0
    assert names["servo"].relative_degrees == (2,)


def test_the_continuous_residual_follows_its_closed_form(names: dict[str, Any]) -> None:
    assert names["errors"]["continuous"] < 1e-10
    assert 1e-3 < names["errors"]["sampled"] < 1e-2
    assert names["sampled"].energy_error < 1e-9


def test_what_the_hold_leaves_is_proportional_to_the_period(names: dict[str, Any]) -> None:
    assert names["order"] == pytest.approx(1.0, abs=0.02)


def test_the_sleigh_speeds_up_ever_more_like_the_cube_root_of_time(names: dict[str, Any]) -> None:
    early, middle, late = names["exponents"].values()
    assert early > middle > late > 1 / 3
    assert late == pytest.approx(1 / 3, abs=0.05)
    assert names["run"].state["v"][-1] > 100 * names["loop"].start["v"]


def test_the_figure_has_three_axes_with_curves(names: dict[str, Any]) -> None:
    assert [len(axis.lines) for axis in names["figure"].axes] == [1, 2, 1]
    assert all(np.isfinite(line.get_ydata()).all() for axis in names["figure"].axes for line in axis.lines)


def test_it_is_a_notebook_in_percent_format_without_asserts() -> None:
    text = NOTEBOOK.read_text("utf-8")
    assert text.count("\n# %%\n") >= 8
    assert text.count("\n# %% [markdown]\n") >= 6
    assert "assert" not in text
