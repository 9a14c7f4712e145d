"""The robot with trailer as runs: the sheet's printed states, ranges and laws of nature, the zero-order hold."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.record.run import Run

Agree = Callable[[Any, str], None]
STATES = ("X", "Y", "psi", "phi", "V", "Omega", "theta1", "theta2")
WRONG = {
    "plant__initial": {"psi": 1.0, "V": 0.3, "Omega": -0.2},
    "controller__settings": {"a": 1.0, "rho0": 2.0},
}


def exact(launch: str, **options: Any) -> Run:
    run: Run = servonode.simulate(launch, control="continuous", rtol=1e-13, atol=1e-13, **options)
    return run


@cache
def whole(launch: str) -> Run:
    """The run to its end, a row every 50 ms."""
    return exact(launch, every=50)


def pursued(variant: str, rate: float) -> dict[str, Any]:
    return {"controller__settings__variant": variant, "controller__gains": {"lambda": rate}}


# the first four numbers are X, Y, psi, phi; "5" and "-0.4" are exact values
PURSUIT = "2.283660956, -0.7162080403, -0.2165074826, -0.05098495363, 0.5103804465, 0.08742894779, 32.54352496, "
PURSUIT += "31.38881839"
PRINTED: list[tuple[str, float, dict[str, Any], str]] = [
    ("trailer_open_loop", 10.0, {}, "7.747870639, 2.265676658, 0.3961714094, -0.01788905940, 1.222945370, "
     "0.01891360789, 107.0633284, 109.1762426"),
    ("trailer_coast", 5.0, {}, "1.817483285, 1.769904614, 0.9948208579, -0.09181604148, 0.5293836356, 0.01449962972, "
     "32.2946412, 37.60035244"),
    *(("trailer_pursuit", 10.0, pursued(*each), PURSUIT)
      for each in (("finite", 2.0), ("finite", 0.5), ("differential", 2.0), ("plain", 0.0), ("literal", 0.0))),
    ("trailer_pursuit", 4.0, WRONG, "0.184827247, 0.03891792339, -0.2592950532, 1.128561442, 0.1486932278, "
     "-0.08193642224"),
    ("trailer_look_ahead", 10.0, {}, "2.736526299, -0.2349383465, -0.4986150646, 0.1504938326, 0.3259894348, "
     "0.09550322295"),
    ("trailer_reverse", 10.0, {}, "-3.700209348, -0.01418507360, -0.002845861143, -0.001411881955, -0.4, "
     "-0.003397332288"),
]  # fmt: skip
PRINTED_ON_THE_WAY = [
    ("trailer_pursuit", 50.0, "6.781752326, 8.168214733, 2.696202692, -0.4155788303, 0.04024835118, 0.00950181717"),
    ("trailer_pursuit", 100.0, "-3.736791341, 5.257891235, 5.205911309, -0.4164229489, 0.05027255848, 0.01869368449"),
    ("trailer_hitch_turning", 50.0, "0.1458649517, 3.558640331, -8.049434624, 5, 0.4452696665, 0.3269798919"),
    ("trailer_hitch_turning", 200.0, "13.52131058, 2.946632123, -22.49831381, 20, 0.4403682113, -0.5020320671"),
    ("trailer_hitch_swing", 200.0, "23.91642546, -0.8040278913, -2.537454464, 0.7170255232, 0.4194610280, "
     "-0.3076976296"),
]  # fmt: skip


def agree_with_states(agree: Agree, run: Run, row: int, printed: str) -> None:
    for name, text in zip(STATES, printed.split(","), strict=False):
        if len(text.strip().lstrip("-").replace(".", "")) < 6:
            assert run.state[name][row] == pytest.approx(float(text), abs=1e-9)
        else:
            agree(run.state[name][row], text)


@pytest.mark.parametrize(("launch", "t", "changes", "printed"), PRINTED)
def test_the_printed_state_is_reached(
    launch: str, t: float, changes: dict[str, Any], printed: str, agree_in_print: Agree
) -> None:
    agree_with_states(agree_in_print, exact(launch, run__duration=t, **changes), -1, printed)


@pytest.mark.parametrize(("launch", "t", "printed"), PRINTED_ON_THE_WAY)
def test_the_printed_state_is_passed(launch: str, t: float, printed: str, agree_in_print: Agree) -> None:
    run = whole(launch)
    agree_with_states(agree_in_print, run, int(np.argmin(np.abs(run.t - t))), printed)


def test_printed_energies_inputs_and_outputs(agree_in_print: Agree) -> None:
    run = exact("trailer_open_loop", run__duration=10.0)
    agree_in_print(run.final()["energy"], "6.0565624225")
    agree_in_print(list(run.final()["input"].values()), "0.02, 0.03")
    for energy in exact("trailer_coast", run__duration=5.0, every=500).energy:
        agree_in_print(energy, "1.13301813299")
    run = exact("trailer_pursuit", run__duration=10.0)
    agree_in_print(list(run.final()["input"].values()), "-0.009081440435, 0.01730277322")
    run = exact("trailer_reverse", run__duration=10.0)
    agree_in_print([run.outputs["Y2"][-1]], "-0.009927343364")


def assert_ranges(run: Run, printed: dict[str, tuple[float, float]], tolerance: float) -> None:
    columns = {**run.state, **run.input, **run.outputs, **run.targets}
    for name, extremes in printed.items():
        assert_allclose((columns[name].min(), columns[name].max()), extremes, rtol=0, atol=tolerance, err_msg=name)


FIGURES: dict[str, dict[str, tuple[float, float]]] = {
    "trailer_pursuit": {  # sheet section 7, figures 2 and 3
        "x": (-4.8245, 8.8245), "y": (-1.3068, 12.0000), "X": (-3.9916, 8.2060), "Y": (-0.8361, 11.2504),
        "psi": (-0.3616, 6.4676), "phi": (-0.4242, 0.2342), "V": (0.0, 0.5310), "Omega": (-0.0986, 0.1421),
        "theta1_dot": (0.0, 6.8053), "theta2_dot": (-0.0526, 7.3686),
        "U1": (-0.0247, 0.0284), "U2": (-0.0178, 0.0289),
    },
    "trailer_hitch_turning": {
        "X": (-0.2833, 14.9332), "Y": (-2.5685, 8.1768), "psi": (-24.4760, 0), "V": (0.4, 0.450003),
    },
    "trailer_hitch_swing": {
        "X": (-0.3965, 24.5166), "Y": (-3.1992, 5.3490), "psi": (-6.1859, 0.0968), "V": (0.4, 0.422800),
    },
}  # fmt: skip


@pytest.mark.parametrize("launch", FIGURES)
def test_figures_2_to_5_have_the_printed_ranges(launch: str) -> None:
    # rows stand 0.05 s apart: an extreme between two rows is missed by less than 1e-4
    assert_ranges(whole(launch), FIGURES[launch], 1e-4 if launch == "trailer_pursuit" else 2e-4)


@pytest.mark.parametrize(
    ("amplitude", "ranges"),
    [
        ("pi/2", {"X": (-6.0522, 1.6702), "Y": (-6.6407, 0.7920), "psi": (-10.5528, 0.1943), "V": (0.4, 0.450003)}),
        ("pi/3", {"X": (-0.2580, 22.6379), "Y": (-23.4130, 0), "psi": (-7.9868, 0.1292), "V": (0.4, 0.435766)}),
        ("pi/6", {"X": (-10.7912, 3.1405), "Y": (-12.9640, 0.8020), "psi": (-4.2014, 0.0645), "V": (0.4, 0.410926)}),
    ],
)
def test_other_amplitudes_of_figure_5_have_the_printed_ranges(amplitude: str, ranges: Any) -> None:
    run: Run = servonode.simulate(
        "trailer_hitch_swing", control="continuous", every=50, controller__settings__g=f"{amplitude}*sin(0.1*t)"
    )
    assert_ranges(run, ranges, 2e-4)


@pytest.mark.parametrize("launch", ["trailer_hitch_turning", "trailer_hitch_swing"])
def test_in_figures_4_and_5_speed_times_root_Delta_is_constant(launch: str) -> None:
    run = whole(launch)
    Q = run.state["V"] * np.sqrt(8.09955555556 - 1.7 * np.sin(run.state["phi"]) ** 2)
    assert np.ptp(Q) / Q[0] < 1e-11  # the sheet's bound


# a zero-order hold


def heading_error(run: Run) -> float:
    """Largest |e| in 100-125 s, from the states themselves."""
    error = run.state["psi"] - np.arctan2(run.targets["y"] - run.state["Y"], run.targets["x"] - run.state["X"])
    error = (error + np.pi) % (2 * np.pi) - np.pi
    return float(np.max(np.abs(error[(run.t >= 100) & (run.t <= 125)])))


def held(variant: str, period: float, delay: int = 0) -> float:
    return heading_error(
        servonode.simulate(
            "trailer_pursuit", every=5, controller__period=period, controller__delay=delay,
            controller__settings__variant=variant,
        )
    )  # fmt: skip


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
    errors = [held(variant, period) for period in (0.02, 0.01, 0.005)]
    assert_allclose([errors[0], errors[2]], [coarse, fine], rtol=0.05)
    assert_allclose(errors[1], [errors[0] / 2, errors[2] * 2], rtol=0.05)


def test_a_command_one_period_late_makes_the_heading_error_three_times_as_large() -> None:
    # a held command is half a period old on average, a late one three halves
    assert held("finite", 0.01, 1) == pytest.approx(3 * held("finite", 0.01), rel=0.05)


@pytest.mark.parametrize(
    ("variant", "yaw_rate", "printed"),
    [
        ("literal", 0.02, "0.629, 1.121"),
        ("plain", 0.02, "0.5, 1.3"),
        ("differential", 0.02, "0.11, 0.11"),
        ("literal", 0.0, "0.336, 0.717"),
        ("plain", 0.0, "0.1, 0.1"),
        ("differential", 0.0, "0.1, 0.1"),
        ("finite", 0.02, "0.000000000000, 0.000000000000"),
    ],
)
def test_heading_error_left_by_each_variant_is_the_printed_one(
    variant: str, yaw_rate: float, printed: str, agree_in_print: Agree
) -> None:
    file = {
        "run": {"duration": 60.0},
        "plant": {"machine": "diff_drive_trailer", "initial": {"psi": 0.1, "Omega": yaw_rate}},
        "controller": {"program": "pursuit", "settings": {"variant": variant, "a": 1.0, "rho0": 2.0}},
        "target": {"x": "2 + 0.3*t", "y": "0"},
    }
    run = servonode.simulate(file, control="continuous", every=20_000, rtol=1e-12, atol=1e-12)
    error = run.state["psi"] - np.arctan2(-run.state["Y"], run.targets["x"] - run.state["X"])
    agree_in_print(error[[1, 3]], printed)


def test_the_differential_law_leaves_the_heading_error_it_comes_to() -> None:
    off = {"X": -1.0, "psi": 0.9, "phi": 0.4, "V": 0.5, "Omega": -0.3}
    settings = {"plant__initial": off, "controller__settings__rho0": 2.0}
    run = exact("trailer_pursuit", run__duration=8.0, every=50, **pursued("differential", 2.0), **settings)
    error = run.state["psi"] - np.arctan2(run.targets["y"] - run.state["Y"], run.targets["x"] - run.state["X"])
    rate = run.residual["heading"][0]
    assert abs(rate) > 0.1
    assert_allclose(error, error[0] + rate * (1 - np.exp(-2 * run.t)) / 2, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("variant", "rate"), [("differential", 2.0), ("plain", 0.0), ("literal", 0.0)])
def test_from_a_start_on_the_program_all_variants_drive_one_figure(variant: str, rate: float) -> None:
    run = exact("trailer_pursuit", every=50, **pursued(variant, rate))
    for name in STATES[:6]:
        assert_allclose(run.state[name], whole("trailer_pursuit").state[name], rtol=0, atol=1e-10, err_msg=name)


# the continuous mode


def test_the_continuous_mode_records_the_same_columns_on_the_same_grid() -> None:
    continuous, sampled = (
        servonode.simulate("trailer_pursuit", control=control, run__duration=1.237)
        for control in ("continuous", "sampled")
    )
    np.testing.assert_array_equal(continuous.k, sampled.k)
    assert continuous.final().keys() == sampled.final().keys()
    for name in ("state", "input", "residual", "output"):
        assert continuous.final()[name].keys() == sampled.final()[name].keys()
    assert continuous.energy_error < 1e-11


def test_limits_clip_the_continuous_law_too() -> None:
    run = servonode.simulate(
        "trailer_pursuit", control="continuous", every=100, run__duration=5.0, plant__actuator__limit=0.01
    )
    assert max(np.max(np.abs(each)) for each in run.input.values()) == 0.01


# starts on the program, escapes, backing up


def test_a_start_on_the_program_has_no_residual_or_is_refused() -> None:
    run = servonode.simulate("trailer_hitch_swing", run__duration=0.01)
    assert run.residual["phi"][0] == pytest.approx(0.0, abs=1e-12)
    assert run.state["Omega"][0] == pytest.approx(-0.1 * np.pi / 4, abs=1e-12)
    assert run.state["V"][0] == 0.4
    initial = {"plant__initial": {"on_program": True, **dict.fromkeys(("phi", "Omega"), 0.3)}}
    with pytest.raises(LaunchError, match="no initial state on the program was found with phi, Omega given"):
        servonode.check("trailer_hitch_swing", **initial)


def test_the_escape_of_opposed_torques_ends_the_run_with_its_reason() -> None:
    run = servonode.simulate("trailer_hitch_turning", run__duration=30.0, plant__parameters__d1=0.3)
    assert run.fault is not None
    assert "escapes in finite time" in run.fault["text"]
    assert 16.9 < run.fault["t"] < 17.5126  # the speed limit stops it just before the escape


def test_backing_without_control_the_hitch_error_grows_by_e_a_metre() -> None:
    run = servonode.simulate(
        "trailer_coast", control="continuous", run__duration=5.0, plant__initial={"phi": 0.01, "V": -0.4}
    )
    travelled = -run.state["X"][-1]
    growth = np.tan(run.state["phi"][-1] / 2) / np.tan(0.005)
    assert np.log(growth) == pytest.approx(travelled, abs=1e-9)  # b = 1 m


def test_the_backing_trailer_circles_with_the_hitch_angle_of_the_radius() -> None:
    run = exact("trailer_reverse_circle", run__duration=120.0, every=1000)
    X, Y, _, phi = (run.state[name][-1] for name in STATES[:4])
    assert np.tan(phi) == pytest.approx(-1.0 / 2.0, abs=1e-8)  # tan phi = -b kappa
    outputs = run.outputs
    assert np.hypot(outputs["X2"][-1], outputs["Y2"][-1]) == pytest.approx(2.0, abs=1e-8)
    assert np.hypot(X, Y) == pytest.approx(np.sqrt(5.0), abs=1e-8)


def test_far_from_the_line_the_offset_decays_as_a_double_root() -> None:
    run = exact("trailer_reverse", run__duration=40.0, every=50)
    offset, z = run.outputs["Y2"], 0.4 * run.t
    late = z > 6.0  # the residual and the transients in speed are gone
    scaled = offset[late] * np.exp(z[late])
    slope, start = np.polyfit(z[late], scaled, 1)
    assert np.abs(scaled - (slope * z[late] + start)).max() < 0.02 * np.abs(scaled).max()  # small-angle remainder
