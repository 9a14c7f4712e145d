"""The printed numbers of the model sheet through `servonode.simulate`, and how a zero-order hold disturbs them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.record.run import Run

Agree = Callable[[Any, str], None]
VARIANTS = ("finite", "differential", "plain", "literal")


def exact(launch: str, duration: float, **options: Any) -> Run:
    run: Run = servonode.simulate(launch, control="continuous", run__duration=duration, **options)
    return run


def end(run: Run, count: int = 8) -> list[float]:
    return list(run.final()["state"].values())[:count]


def test_open_loop_ends_in_the_printed_state(agree_in_print: Agree) -> None:
    run = exact("trailer_open_loop", 10.0)
    printed = "7.747870639, 2.265676658, 0.3961714094, -0.01788905940, 1.222945370, 0.01891360789"
    agree_in_print(end(run), printed + ", 107.0633284, 109.1762426")
    agree_in_print(run.final()["energy"], "6.0565624225")
    agree_in_print(list(run.final()["input"].values()), "0.02, 0.03")


def test_coasting_ends_in_the_printed_state_with_the_printed_energy(agree_in_print: Agree) -> None:
    run = exact("trailer_coast", 5.0, rtol=1e-13, atol=1e-13)
    printed = "1.817483285, 1.769904614, 0.9948208579, -0.09181604148, 0.5293836356, 0.01449962972"
    agree_in_print(end(run), printed + ", 32.2946412, 37.60035244")
    for energy in run.energy[::50]:
        agree_in_print(energy, "1.13301813299")


@pytest.mark.parametrize("rates", [2.0, 0.5])
def test_pursuit_passes_the_printed_states_whatever_its_rates(agree_in_print: Agree, rates: float) -> None:
    options = {"controller__gains": {"lambda": rates}}
    run = exact("trailer_pursuit", 10.0, **options)
    printed = "2.283660956, -0.7162080403, -0.2165074826, -0.05098495363, 0.5103804465, 0.08742894779"
    agree_in_print(end(run), printed + ", 32.54352496, 31.38881839")
    agree_in_print(list(run.final()["input"].values()), "-0.009081440435, 0.01730277322")
    printed = "6.781752326, 8.168214733, 2.696202692, -0.4155788303, 0.04024835118, 0.00950181717"
    agree_in_print(end(exact("trailer_pursuit", 50.0, **options), 6), printed)
    printed = "-3.736791341, 5.257891235, 5.205911309, -0.4164229489, 0.05027255848, 0.01869368449"
    agree_in_print(end(exact("trailer_pursuit", 100.0, **options), 6), printed)


def test_pursuit_from_a_wrong_start_passes_the_printed_state(agree_in_print: Agree) -> None:
    start = {"psi": 1.0, "V": 0.3, "Omega": -0.2}
    run = exact("trailer_pursuit", 4.0, plant__initial=start, controller__settings={"a": 1.0, "rho0": 2.0})
    agree_in_print(end(run, 6), "0.184827247, 0.03891792339, -0.2592950532, 1.128561442, 0.1486932278, -0.08193642224")


def test_from_a_wrong_start_the_residuals_decay_as_stated() -> None:
    start = {"psi": 1.0, "V": 0.3, "Omega": -0.2}
    run = exact("trailer_pursuit", 4.0, plant__initial=start, controller__settings={"a": 1.0, "rho0": 2.0})
    speed, heading = run.residual["speed"], run.residual["heading"]
    assert_allclose(speed, speed[0] * np.exp(-2 * run.t), rtol=0, atol=1e-11)
    # e' = Omega - (v_n - V sin e) / rho at the start: the target stands, rho = 2, e = 1
    slope = -0.2 + 0.3 * np.sin(1.0) / 2
    assert_allclose(heading, (1 + (slope + 2) * run.t) * np.exp(-2 * run.t), rtol=0, atol=1e-11)


def test_all_variants_give_the_same_figure_from_an_exact_start() -> None:
    options: dict[str, Any] = {"every": 100, "rtol": 1e-13, "atol": 1e-13}
    runs = [exact("trailer_pursuit", 125.664, controller__settings__variant=each, **options) for each in VARIANTS]
    for run in runs[1:]:
        for name, column in run.state.items():
            assert_allclose(column, runs[0].state[name], rtol=0, atol=3e-10 if name.startswith("theta") else 1e-10)


def test_the_figure_has_the_printed_ranges() -> None:
    # sheet section 7, figures 2 and 3
    run = exact("trailer_pursuit", 125.664, every=20)
    columns = {**run.state, **run.input, **run.outputs(), **run.targets()}
    printed = {
        "x": (-4.8245, 8.8245), "y": (-1.3068, 12.0000), "X": (-3.9916, 8.2060), "Y": (-0.8361, 11.2504),
        "psi": (-0.3616, 6.4676), "phi": (-0.4242, 0.2342), "V": (0.0, 0.5310), "Omega": (-0.0986, 0.1421),
        "theta1_dot": (0.0, 6.8053), "theta2_dot": (-0.0526, 7.3686),
        "U1": (-0.0247, 0.0284), "U2": (-0.0178, 0.0289),
    }  # fmt: skip
    for name, (least, most) in printed.items():
        assert_allclose((columns[name].min(), columns[name].max()), (least, most), rtol=0, atol=1.0e-4, err_msg=name)


def heading_error(run: Run) -> float:
    """Largest |e| in 100-125 s, from the states themselves."""
    error = run.state["psi"] - np.arctan2(run.targets()["y"] - run.state["Y"], run.targets()["x"] - run.state["X"])
    error = (error + np.pi) % (2 * np.pi) - np.pi
    return float(np.max(np.abs(error[(run.t >= 100) & (run.t <= 125)])))


@pytest.mark.parametrize(
    ("variant", "coarse", "fine"),
    [
        ("finite", 4.9e-5, 1.2e-5),
        ("literal", 9.1e-3, 2.3e-3),
        ("plain", 9.6e-2, 2.4e-2),
        ("differential", 7.3e-4, 1.8e-4),
    ],
)
def test_the_steady_heading_error_is_proportional_to_the_period(variant: str, coarse: float, fine: float) -> None:
    # sheet 3.2, third and fourth row of the table: zero-order hold of 20 ms and 5 ms
    def held(period: float) -> float:
        settings = {"variant": variant}
        run: Run = servonode.simulate(
            "trailer_pursuit", controller__period=period, controller__settings=settings, every=5
        )
        return heading_error(run)

    errors = [held(period) for period in (0.02, 0.01, 0.005)]
    assert_allclose([errors[0], errors[2]], [coarse, fine], rtol=0.05)
    assert_allclose(errors[1], [errors[0] / 2, errors[2] * 2], rtol=0.05)


def test_a_command_one_period_late_makes_the_heading_error_three_times_as_large() -> None:
    # a held command is half a period old on average, a late one three halves
    late: Run = servonode.simulate("trailer_pursuit", controller__delay=1, every=5)
    prompt: Run = servonode.simulate("trailer_pursuit", every=5)
    assert heading_error(prompt) == pytest.approx(2.5e-5, rel=0.05)
    assert heading_error(late) == pytest.approx(3 * heading_error(prompt), rel=0.05)


def test_the_continuous_mode_records_the_same_columns_on_the_same_grid() -> None:
    continuous, sampled = exact("trailer_pursuit", 1.237), servonode.simulate("trailer_pursuit", run__duration=1.237)
    np.testing.assert_array_equal(continuous.k, sampled.k)
    assert continuous.final().keys() == sampled.final().keys()
    for name in ("state", "input", "residual", "output"):
        assert continuous.final()[name].keys() == sampled.final()[name].keys()
    assert continuous.energy_error < 1e-11


def test_limits_clip_the_continuous_law_too() -> None:
    run = exact("trailer_pursuit", 5.0, plant__actuator__limit=0.01)
    assert max(np.max(np.abs(each)) for each in run.input.values()) == 0.01
