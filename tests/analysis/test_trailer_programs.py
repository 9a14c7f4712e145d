"""The robot with trailer's programs as launch files: the sheet's printed runs, ranges, and laws of nature."""

from typing import Any

import numpy as np
import pytest

import servonode
from servonode.closed_loop.launch_file import LaunchError

STATES = ("X", "Y", "psi", "phi", "V", "Omega")


def end(launch: str, **overrides: Any) -> Any:
    run = servonode.simulate(launch, control="continuous", rtol=1e-13, atol=1e-13, **overrides)
    return run, [float(run.state[name][-1]) for name in STATES]


@pytest.mark.parametrize(
    ("launch", "t", "printed"),
    [
        (
            "trailer_hitch_turning",
            50.0,
            "0.1458649517, 3.558640331, -8.049434624, 5, 0.4452696665, 0.3269798919",
        ),
        (
            "trailer_hitch_turning",
            200.0,
            "13.52131058, 2.946632123, -22.49831381, 20, 0.4403682113, -0.5020320671",
        ),
        (
            "trailer_hitch_swing",
            200.0,
            "23.91642546, -0.8040278913, -2.537454464, 0.7170255232, 0.4194610280, -0.3076976296",
        ),
        (
            "trailer_look_ahead",
            10.0,
            "2.736526299, -0.2349383465, -0.4986150646, 0.1504938326, 0.3259894348, 0.09550322295",
        ),
        (
            "trailer_reverse",
            10.0,
            "-3.700209348, -0.01418507360, -0.002845861143, -0.001411881955, -0.4, -0.003397332288",
        ),
    ],
)
def test_the_printed_run_is_reached(launch: str, t: float, printed: str, agree_in_print: Any) -> None:
    _, state = end(launch, run__duration=t)
    # "5" and "-0.4" are exact values: compare them as such, the others in print
    texts = printed.split(",")
    for value, text in zip(state, texts, strict=True):
        if len(text.strip().lstrip("-").replace(".", "")) < 6:
            assert value == pytest.approx(float(text), abs=1e-9)
        else:
            agree_in_print([value], text)


def test_the_backing_trailer_ends_on_the_line_by_the_printed_offset(agree_in_print: Any) -> None:
    run, _ = end("trailer_reverse", run__duration=10.0)
    agree_in_print([run.outputs()["Y2"][-1]], "-0.009927343364")


@pytest.mark.parametrize(
    ("launch", "ranges"),
    [
        (
            "trailer_hitch_turning",
            {"X": (-0.2833, 14.9332), "Y": (-2.5685, 8.1768), "psi": (-24.4760, 0), "V": (0.4, 0.450003)},
        ),
        (
            "trailer_hitch_swing",
            {"X": (-0.3965, 24.5166), "Y": (-3.1992, 5.3490), "psi": (-6.1859, 0.0968), "V": (0.4, 0.422800)},
        ),
    ],
)
def test_figures_4_and_5_have_the_printed_ranges(launch: str, ranges: dict[str, tuple[float, float]]) -> None:
    run, _ = end(launch, every=50)
    for name, (low, high) in ranges.items():
        # rows stand 0.05 s apart: an extreme between two rows is missed by less than 1e-4
        assert run.state[name].min() == pytest.approx(low, abs=2e-4)
        assert run.state[name].max() == pytest.approx(high, abs=2e-4)


@pytest.mark.parametrize("launch", ["trailer_hitch_turning", "trailer_hitch_swing"])
def test_in_figures_4_and_5_speed_times_root_Delta_is_constant(launch: str) -> None:
    run, _ = end(launch, every=1000)
    M0, J2 = 8.09955555556, -1.7
    Q = run.state["V"] * np.sqrt(J2 * np.sin(run.state["phi"]) ** 2 + M0)
    assert np.ptp(Q) / Q[0] < 1e-11  # the sheet's bound


def test_a_start_on_the_program_has_no_residual() -> None:
    run = servonode.simulate("trailer_hitch_swing", run__duration=0.01)
    assert run.residual["phi"][0] == pytest.approx(0.0, abs=1e-12)
    assert run.state["Omega"][0] == pytest.approx(-0.1 * np.pi / 4, abs=1e-12)
    assert run.state["V"][0] == 0.4


def test_a_start_on_the_program_that_cannot_be_is_refused() -> None:
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
    run, state = end("trailer_reverse_circle", run__duration=120.0)
    assert np.tan(state[3]) == pytest.approx(-1.0 / 2.0, abs=1e-8)  # tan phi = -b kappa
    outputs = run.outputs()
    assert np.hypot(outputs["X2"][-1], outputs["Y2"][-1]) == pytest.approx(2.0, abs=1e-8)
    assert np.hypot(state[0], state[1]) == pytest.approx(np.sqrt(5.0), abs=1e-8)


def test_far_from_the_line_the_offset_decays_as_a_double_root() -> None:
    run, _ = end("trailer_reverse", run__duration=40.0)
    offset, z = run.outputs()["Y2"], 0.4 * run.t
    late = z > 6.0  # the residual and the transients in speed are gone
    scaled = offset[late] * np.exp(z[late])
    slope, start = np.polyfit(z[late], scaled, 1)
    assert np.abs(scaled - (slope * z[late] + start)).max() < 0.02 * np.abs(scaled).max()  # small-angle remainder


@pytest.mark.parametrize(
    ("launch", "initial", "settings"),
    [
        ("trailer_look_ahead", {"X": 0.2, "psi": 0.3, "V": 0.1}, {}),
        ("trailer_reverse", {"Y": 1.0, "psi": 0.2, "phi": 0.3, "V": -0.3}, {}),
        ("trailer_circle", {"X": -1.0, "Y": 1.5, "V": 0.5, "phi": 0.2}, {}),
        ("trailer_rates", {"V": 0.3, "Omega": -0.2}, {}),
        ("trailer_hitch_speed", {"V": -0.3, "phi": 0.2, "Omega": 0.1}, {}),
        *[
            ("trailer_hitch_swing", {"V": 0.4, "phi": 0.2, "Omega": 0.1}, {"completion": completion})
            for completion in ("opposed", "least_norm", "one_motor")
        ],
        ("trailer_hitch_swing", {"V": 0.4, "phi": 0.6, "Omega": 0.1}, {"completion": "yaw_rate", "g": "0.5"}),
    ],
)
def test_residuals_of_every_law_decay_as_stated(launch: str, initial: dict[str, float], settings: Any) -> None:
    """f0 exp(-lambda t) for relative degree 1, [f0 + (f0' + lambda f0) t] exp(-lambda t) for 2, from any start."""
    more = {f"controller__settings__{key}": value for key, value in settings.items()}
    run = servonode.simulate(
        launch, control="continuous", run__duration=3.0, plant__initial=initial, rtol=1e-13, atol=1e-13, **more
    )  # fmt: skip
    control = run.closed_loop.control
    law, start = control.law, run.closed_loop.start
    answer = law.evaluate(0.0, start, run.closed_loop.goal(0.0))
    for i, (name, relative_degree) in enumerate(zip(run.residual, law.description.relative_degrees, strict=True)):
        f0, rate0 = answer.residuals[i], answer.rates[i]
        rate = control.gains.K0[i, i] if relative_degree == 1 else control.gains.K1[i, i] / 2
        slope = 0.0 if relative_degree == 1 else rate0 + rate * f0
        expected = (f0 + slope * run.t) * np.exp(-rate * run.t)
        assert run.residual[name] == pytest.approx(expected, abs=1e-10)  # dense output of the integrator


@pytest.mark.parametrize(
    ("amplitude", "ranges"),
    [
        ("pi/2", {"X": (-6.0522, 1.6702), "Y": (-6.6407, 0.7920), "psi": (-10.5528, 0.1943), "V": (0.4, 0.450003)}),
        ("pi/3", {"X": (-0.2580, 22.6379), "Y": (-23.4130, 0), "psi": (-7.9868, 0.1292), "V": (0.4, 0.435766)}),
        ("pi/6", {"X": (-10.7912, 3.1405), "Y": (-12.9640, 0.8020), "psi": (-4.2014, 0.0645), "V": (0.4, 0.410926)}),
    ],
)
def test_other_amplitudes_of_figure_5_have_the_printed_ranges(amplitude: str, ranges: Any) -> None:
    run, _ = end("trailer_hitch_swing", every=50, controller__settings__g=f"{amplitude}*sin(0.1*t)")
    for name, (low, high) in ranges.items():
        assert run.state[name].min() == pytest.approx(low, abs=2e-4)
        assert run.state[name].max() == pytest.approx(high, abs=2e-4)
