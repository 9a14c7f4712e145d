"""docs/notebooks/*.py, each run as a whole: what their cells find is what their texts say."""

import ast
import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy
from matplotlib.figure import Figure

import servonode

NOTEBOOKS = {path.stem: path for path in sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.py"))}

EACH = ["sleigh", pytest.param("rolling", marks=pytest.mark.slow)]  # that of the arm has a run in real time: soak


@cache
def run(name: str) -> dict[str, Any]:
    """All names of a notebook after its last cell."""
    return runpy.run_path(str(NOTEBOOKS[name]))


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


def test_there_are_three() -> None:
    assert list(NOTEBOOKS) == ["arm", "rolling", "sleigh"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_is_a_notebook_in_percent_format_without_asserts(name: str) -> None:
    text = NOTEBOOKS[name].read_text("utf-8")
    assert text.count("\n# %%\n") >= 8
    assert text.count("\n# %% [markdown]\n") >= 6
    assert "assert" not in text


@pytest.mark.parametrize("name", EACH)
def test_its_figures_have_axes_with_finite_curves_and_labels(name: str) -> None:
    figures = [each for each in run(name).values() if isinstance(each, Figure)]
    assert figures
    for axis in (axis for figure in figures for axis in figure.axes):
        assert axis.lines
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert all(np.isfinite(line.get_ydata()).all() for line in axis.lines)


class TestSleigh:
    def test_the_equations_are_chaplygins(self, names: dict[str, Any]) -> None:
        m, mu, a, b = (names["equations"].model[name] for name in ("m", "mu", "a", "b"))
        assert sympy.expand(names["chaplygin"] + (m * a - mu * b) * names["omega"] ** 2) == 0
        assert names["servo"].relative_degrees == (2,)

    def test_the_continuous_residual_follows_its_closed_form(self, names: dict[str, Any]) -> None:
        assert names["errors"]["continuous"] < 1e-10
        assert 1e-3 < names["errors"]["sampled"] < 1e-2
        assert names["sampled"].energy_error < 1e-9

    def test_zero_order_hold_residual_is_proportional_to_the_period(self, names: dict[str, Any]) -> None:
        assert names["order"] == pytest.approx(1.0, abs=0.02)

    def test_the_sleigh_speeds_up_ever_more_like_the_cube_root_of_time(self, names: dict[str, Any]) -> None:
        early, middle, late = names["exponents"].values()
        assert early > middle > late > 1 / 3
        assert late == pytest.approx(1 / 3, abs=0.05)
        assert names["run"].state["v"][-1] > 100 * names["loop"].start["v"]

    def test_the_figure_has_three_axes_with_curves(self, names: dict[str, Any]) -> None:
        assert [len(axis.lines) for axis in names["figure"].axes] == [1, 2, 1]


@pytest.mark.slow  # many runs
class TestRolling:
    def test_the_bracket_is_sideways_and_independent(self, names: dict[str, Any]) -> None:
        psi = names["psi"]
        assert list(names["bracket"]) == [sympy.sin(psi), -sympy.cos(psi), 0]
        assert abs(names["independent"]) == 1

    def test_going_round_moves_sideways_by_the_square_of_the_step(self, names: dict[str, Any]) -> None:
        assert names["sideways_order"] == pytest.approx(2.0, abs=0.02)
        assert names["ends"][:, 1] == pytest.approx(-(names["steps"] ** 2), rel=0.03)

    def test_degrees_of_freedom_are_counted(self, names: dict[str, Any]) -> None:
        assert (len(names["coordinates"]), names["rank"], len(names["velocities"])) == (6, 4, 2)

    def test_residuals_decay_by_the_formula(self, names: dict[str, Any]) -> None:
        assert names["relative_degrees"] == (1, 2)
        assert max(names["errors"].values()) < 1e-10

    def test_what_is_left_free_is_stable_forward_and_unstable_backward(self, names: dict[str, Any]) -> None:
        assert abs(names["pulled"].state["phi"][-1]) < 1e-3
        assert names["pushed"].state["phi"][-1] > 2.5
        assert max(np.abs(names["pushed"].residual["heading"])) < 1e-3
        assert names["growth"] == pytest.approx(0.3, rel=1e-3)
        assert abs(names["trailer_heading"][-1]) < 1e-4

    def test_zero_order_hold_error_is_proportional_to_the_period(self, names: dict[str, Any]) -> None:
        assert names["hold_order"] == pytest.approx(1.0, abs=0.02)
        assert names["report"].verdict == "no"

    def test_the_solutions_of_the_exercises_are_right(self, names: dict[str, Any]) -> None:
        x, y = names["x"], names["y"]
        assert sympy.expand(names["potential"] - (y - x**2 / 2)) == 0
        assert names["car_rank"] == 4
        (slow, weak), (_, middle), (fast, strong) = names["gains"].values()
        assert fast < 1e-10 < 1e-3 < slow
        assert weak < middle < strong
        assert names["line"].outputs["Y2"][0] == pytest.approx(1.0)
        assert abs(names["line"].outputs["Y2"][-1]) < 1e-5
        assert (names["line"].state["V"] < 0).all()

    def test_the_questions_are_answered(self, names: dict[str, Any]) -> None:
        asked = re.findall(r"`forward\.law\((.+?)\)`", NOTEBOOKS["rolling"].read_text())
        assert len(asked) == 1
        t, state = ast.literal_eval(f"({asked[0]})")
        assert max(map(abs, names["forward"].residuals(t, state).values())) < 1e-12
        assert max(map(abs, names["forward"].law(t, state).values())) < 1e-12

    def test_a_shorter_period_allows_the_rate_that_was_refused(self, names: dict[str, Any]) -> None:
        verdicts = {
            period: servonode.check(names["FORWARD"], controller__gains__lambda=120.0, controller__period=period)
            for period in (0.01, 0.005)
        }
        assert [report.verdict for report in verdicts.values()] == ["no", "yes"]
        assert any("slip" in each.text for each in verdicts[0.005].findings if each.level == "warn")
