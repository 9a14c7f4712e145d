"""Ball on a turntable as runs: launch files, the paper's angles and bypasses, initial conditions, refusals."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.cli.main import main
from servonode.closed_loop.launch_file import LaunchError
from servonode.record.run import Run
from tests.helpers import ball_sheet
from tests.helpers.ball_sheet import S1, S2, S3, S4, AngleRun, Ball, prints

Agree = Callable[[Any, str], None]
NO_K = (0.0, 0.0, 0.0, 0.0)


def source(k1: float) -> tuple[float, float, float, float]:
    """The matrix K of the paper."""
    return (k1, -1.0, -1.0, -1.0)


def launch(case: Ball, duration: float, step: float = 0.01, **plant: Any) -> dict[str, Any]:
    """A launch file as a mapping; `plant` adds to its section."""
    values: dict[str, Any] = {"Omega": case.Omega, "g_x": case.G[0], "g_y": case.G[1]} | plant.pop("parameters", {})
    x, y = case.r0
    initial = {"x": x, "y": y, "omega": list(case.omega0)} | plant.pop("initial", {})
    machine = {"machine": "ball_on_turntable", "step": step, "parameters": values, "initial": initial}
    return {"run": {"duration": duration}, "plant": machine | plant}


def in_angles(K: Any, bypass: str = "none", step: float = 0.001, **window: float) -> dict[str, Any]:
    """The paper's run S1 in its three angles with Euler's method."""
    parameters = dict(zip(("k1", "k2", "k3", "k4"), K, strict=True)) | window
    settings = {"scheme": "angles", "bypass": bypass}
    return launch(S1, 8.0, step, integrator="euler", settings=settings, parameters=parameters)


def attitude(run: Run, row: int = -1) -> Any:
    values = run.outputs if "alpha" in run.state else run.state
    q = np.array([values[f"q_{i}"][row] for i in range(4)])
    return q / np.linalg.norm(q)


def slip(run: Run) -> Any:
    """Size of the slip at every row [m/s]."""
    return np.hypot(run.residual["slip_x"], run.residual["slip_y"])


def far(run: Run, case: Ball) -> float:
    """Distance of the end from the exact place [m]."""
    end = np.array([run.state["x"][-1], run.state["y"][-1]])
    return float(np.hypot(*(end - case.place(run.t[-1])[:2])))


def turned(run: Run, case: Ball) -> float:
    """Angle of the end's attitude from the exact one."""
    return ball_sheet.between(attitude(run), case.attitude([run.t[-1]])[:, 0])


@cache
def bypassed(bypass: str, K: tuple[float, ...], epsilon: float = 0.05, delta: float = 0.87) -> Run:
    window = {} if bypass == "none" else {"epsilon": epsilon, "delta": delta}
    run: Run = servonode.simulate(in_angles(K, bypass, **window), every=1)
    assert run.fault is None
    assert len(run.t) == 8001
    return run


def by_hand(bypass: str, K: tuple[float, ...], epsilon: float = 0.05, delta: float = 0.87) -> AngleRun:
    ways = {"none": None, "skip": ball_sheet.skip, "split": ball_sheet.split}
    return ball_sheet.euler_angles(S1, 1e-3, 8000, K, ways[bypass], epsilon, delta)


# launch files


PRINTED = [
    ("ball_source", S1, 8, "7.998101108, 1.721570506, 0.9708122713, 0.3285171745, 0.4712929363, 1.142969322"),
    ("ball_circle", S2, 10, "-5.859356704, 0.9822028983, -0.2806293995, -0.9598162012, -4.899540503, 0.7015734988"),
    ("ball_circle", S2, 50, "-3.018005711, 3.461454909, -0.9889871167, -0.1480016316, -2.870004079, 2.472467792"),
    ("ball_centred", S3, 10, "-0.9598162012, 0.2806293995, -0.0801798284, -0.2742332003, -0.6855830009, 0.2004495711"),
    ("ball_tilted", S4, 10, "-14.43355258, -10.29004348, -0.6314161489, -3.409586453, -11.02396613, -10.92145963"),
]


@pytest.mark.parametrize(("name", "case", "t", "printed"), PRINTED)
def test_a_launch_file_passes_its_printed_state(
    agree_in_print: Agree, name: str, case: Ball, t: float, printed: str
) -> None:
    run = servonode.simulate(name, run__duration=t)
    assert run.fault is None
    assert not run.warnings
    agree_in_print([column[-1] for column in run.state.values()][:6], printed)
    assert max(run.residual_max.values()) < 1e-13
    assert turned(run, case) < 1e-5


def test_papers_run_passes_its_singularity_untouched() -> None:
    run = servonode.simulate("ball_source", every=1)
    D = servonode.simulate("ball_source", every=1, plant__step=0.001).outputs["D"]
    assert prints(D.min(), "0.01037")
    assert far(run, S1) < 2e-14
    assert prints(turned(run, S1), "7e-11")


def test_the_tilted_plate_s_circle_drifts_sideways() -> None:
    run = servonode.simulate("ball_tilted")
    outputs = run.outputs
    assert_allclose(outputs["c_x"], outputs["c_x"][0], rtol=0, atol=1e-9)
    assert_allclose(np.diff(outputs["c_y"]) / np.diff(run.t), -1.25, rtol=1e-8)


def test_while_the_plate_speeds_up_the_angular_momentum_stays() -> None:
    run = servonode.simulate("ball_speeding_up")
    outputs = run.outputs
    for name in ("L_x", "L_y"):
        assert_allclose(outputs[name], outputs[name][0], rtol=0, atol=1e-12)
    rate = 0.2 + 0.04 * run.t
    assert_allclose(outputs["turn"], 0.2 * run.t + 0.02 * run.t**2, rtol=1e-12)
    s, state = 2 / 7, run.state
    for left in (state["x_dot"] + s * rate * state["y"], state["y_dot"] - s * rate * state["x"]):
        assert_allclose(left, left[0], rtol=0, atol=1e-8)
    assert max(run.residual_max.values()) < 1e-8
    assert run.energy_error < 1e-6


def test_a_start_by_omega_or_velocities_alone_is_on_the_constraint() -> None:
    for case in (S1, S2, S3, S4):
        run = servonode.simulate(launch(case, 0.01))
        assert [run.state[name][0] for name in ("x_dot", "y_dot")] == pytest.approx(case.v0.tolist(), abs=1e-15)
        assert slip(run)[0] < 1e-15
    file = launch(S2, 0.01, initial={"x_dot": 0.3, "y_dot": -0.4})
    del file["plant"]["initial"]["omega"]
    run = servonode.simulate(file)
    assert [run.state[f"omega_{i}"][0] for i in range(3)] == pytest.approx([1.0 + 0.4, 0.3, 0.0], abs=1e-15)
    assert slip(run)[0] < 1e-15
    run = servonode.simulate("ball_speeding_up", run__duration=0.01)
    assert [run.state["x_dot"][0], run.state["y_dot"][0]] == pytest.approx([0.3, 0.2], abs=1e-15)


# starts that slip

OFF: dict[str, Any] = {"x_dot": 0.6, "y_dot": 1.0}


def test_the_slip_of_a_start_dies_out_by_k() -> None:
    run = servonode.simulate("ball_off_constraint", every=1, run__duration=2.0)
    assert run.residual["slip_x"][0] == 0.6
    assert_allclose(run.residual["slip_x"], 0.6 * np.exp(-5 * run.t), rtol=1e-6, atol=1e-15)
    outputs = run.outputs
    assert outputs["c_y"][-1] - outputs["c_y"][0] == pytest.approx(-0.6, abs=1e-4)  # s f / Omega_*, for good


def test_the_impulse_and_k_lead_to_circles_of_one_centre(caplog: pytest.LogCaptureFixture) -> None:
    """Both keep the angular momentum about the contact, which without slip determines the centre."""
    ends = [servonode.simulate(name).outputs for name in ("ball_off_constraint", "ball_projected")]
    assert "changes the path permanently" in caplog.text
    assert "impulse of friction" in caplog.text
    for name in ("c_x", "c_y", "L_x", "L_y"):
        assert ends[0][name][-1] == pytest.approx(ends[1][name][-1], abs=1e-9)
    assert abs(ends[0]["speed"][-1] - ends[1]["speed"][-1]) > 1e-3


def test_a_projected_start_is_the_printed_impulse() -> None:
    run = servonode.simulate("ball_projected", run__duration=0.01)
    s, m, a, J, f1 = 2 / 7, 1.0, 1.0, 0.4, 0.6
    found = [run.state[name][0] for name in ("x_dot", "y_dot", "omega_0", "omega_1", "omega_2")]
    assert found == pytest.approx([0.6 - s * f1, 1.0, 0.0, a * m * s / J * f1, 0.5], abs=1e-15)
    assert slip(run)[0] < 1e-15


def test_the_impulse_ends_the_slip_of_any_ball(rng: np.random.Generator) -> None:
    for _ in range(5):
        m, a, J = rng.uniform(0.4, 2, 3)
        case = Ball(float(rng.uniform(-2, 2)), tuple(rng.uniform(-1, 1, 2)), tuple(rng.uniform(-1, 1, 3)))
        slipping = dict(zip(("x_dot", "y_dot"), rng.uniform(-1, 1, 2).tolist(), strict=True))
        file = launch(case, 0.01, parameters={"m": float(m), "a": float(a), "J": float(J)},
                      initial=slipping | {"off_constraint": "project"})  # fmt: skip
        run = servonode.simulate(file)
        assert slip(run)[0] < 1e-14
        L = run.outputs  # the impulse acts in the contact
        omega = case.omega0
        assert L["L_x"][0] == pytest.approx(J * omega[0] - m * a * slipping["y_dot"], abs=1e-14)
        assert L["L_y"][0] == pytest.approx(J * omega[1] + m * a * slipping["x_dot"], abs=1e-14)


def test_with_k_zero_a_slip_stays(caplog: pytest.LogCaptureFixture) -> None:
    zero = dict(zip(("k1", "k2", "k3", "k4"), NO_K, strict=True))
    file = launch(S2, 5.0, parameters=zero, initial=OFF | {"off_constraint": "stabilise"})
    run = servonode.simulate(file)
    assert_allclose(run.residual["slip_x"], 0.6, rtol=0, atol=1e-12)
    assert "not stabilised" in caplog.text
    assert "f1 = 0.6" in caplog.text


def test_of_a_k_that_varies_only_the_start_is_judged_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    servonode.load(launch(S2, 1.0, parameters={"k1": -5.0, "k4": -6.0}))
    assert "t = 0" not in caplog.text
    servonode.load(launch(S2, 1.0, parameters={"k1": "-5 + t", "k4": "-5 - t"}))
    assert "k1, k4 vary: K was judged at t = 0 only" in caplog.text
    zero = {"k1": "-t", "k4": "-t"}
    caplog.clear()
    servonode.load(launch(S2, 1.0, parameters=zero))
    assert "K was judged at t = 0 only" in caplog.text
    assert "not stabilised" not in caplog.text
    assert "eigenvalues" in refused(launch(S2, 1.0, parameters={"k1": "5 - t"}))


# the paper's angles


def test_with_a_coarse_step_the_angles_blow_up() -> None:
    run = servonode.simulate(in_angles(NO_K, step=0.01), every=1)
    assert run.fault is not None
    assert run.fault["name"] == "diverged"
    assert 3.05 < run.fault["t"] < 3.25
    reference = ball_sheet.euler_angles(S1, 1e-2, 800, NO_K)
    assert reference.t[-1] == pytest.approx(3.1, abs=0.05)
    large = np.abs(np.array(list(run.state.values()))).max(axis=0)
    assert run.t[np.argmax(large > 1e3)] == pytest.approx(3.07, abs=0.011)


# bypass, K, delta: printed errors of position and attitude, largest slip
BYPASS_TABLE = [
    ("none", NO_K, 0.87, "1.2e-4", "5.4e-3", "1.05e-2"),
    ("none", source(-50.0), 0.87, "2.8e-3", "4.8e-3", "1.16e-2"),
    ("skip", source(-12.5), 0.87, "2.76", "2.84", "2.38"),
    ("skip", source(-50.0), 0.87, "2.78", "2.80", "2.38"),
    ("split", source(-50.0), 0.87, "3.02", "2.91", "2.59"),
    ("split", source(-50.0), 0.051, "0.12", "0.57", "0.086"),
    ("skip", NO_K, 0.87, "1.2e-4", "2.04", "2.38"),
]


@pytest.mark.parametrize(("bypass", "K", "delta", "place", "angle", "largest"), BYPASS_TABLE)
def test_run_in_angles_is_that_by_hand_with_the_printed_errors(
    bypass: str, K: Any, delta: float, place: str, angle: str, largest: str
) -> None:
    run, reference = bypassed(bypass, K, delta=delta), by_hand(bypass, K, delta=delta)
    assert_allclose(np.array(list(run.state.values())).T, reference.z, rtol=0, atol=1e-9)
    assert_allclose(slip(run), reference.slip, rtol=0, atol=1e-9)
    found = far(run, S1), turned(run, S1), float(slip(run).max())
    assert [prints(*each) for each in zip(found, (place, angle, largest), strict=True)] == [True] * 3, found


def test_with_k_zero_the_skip_leaves_the_path_exact_and_the_slip_for_ever() -> None:
    run, plain = bypassed("skip", NO_K), bypassed("none", NO_K)
    # the force without K contains no angle: the centre does not know of the jump
    for name in ("x", "y"):
        assert_allclose(run.state[name], plain.state[name], rtol=0, atol=1e-12)
    after = slip(run)[run.t > 2.95]
    assert after.min() > 2.3
    assert after.max() < 2.4


def apart(run: Run) -> Any:
    """Distance from the exact path [m]."""
    exact = S1.place(run.t)
    return np.hypot(run.state["x"] - exact[0], run.state["y"] - exact[1])


SKIPPED = 2946  # the row after the skip


def test_figure_2_a_skip_is_a_step_of_delta_in_beta(agree_in_print: Agree) -> None:
    run = bypassed("skip", source(-50.0))
    beta = run.state["beta"]
    at = int(np.argmax(np.abs(np.diff(beta))))
    agree_in_print([run.t[at + 1]], "2.946")
    assert beta[at + 1] - beta[at] == pytest.approx(0.87, abs=1e-12)
    assert np.delete(np.abs(np.diff(beta)), at).max() < 0.002
    for name in ("alpha", "gamma", "x", "y"):
        assert abs(run.state[name][at + 1] - run.state[name][at]) < 0.01
    # at fixed rates it alters the attitude by twice delta
    assert ball_sheet.between(attitude(run, at), attitude(run, at + 1)) == pytest.approx(2 * 0.87, abs=0.01)


def test_figure_3_the_slip_of_a_skip_is_removed_by_moving_the_path() -> None:
    run = bypassed("skip", source(-50.0))
    assert slip(run)[-1] < 0.02
    large = apart(run)
    assert large[run.t < 2.9].max() < 6e-5
    assert large[SKIPPED] == pytest.approx(5e-5, abs=1e-5)
    assert large[-1] > 2.7
    assert apart(bypassed("split", source(-50.0), delta=0.051))[-1] < 0.13
    assert apart(bypassed("skip", NO_K))[-1] < 1.3e-4


def test_figure_4_the_step_of_a_split_is_small_only_with_a_small_jump() -> None:
    for delta, step in ((0.051, 0.101), (0.87, 0.92)):
        beta = bypassed("split", source(-50.0), delta=delta).state["beta"]
        assert np.abs(np.diff(beta)).max() == pytest.approx(step, abs=0.001)  # out of the window's near side
        assert beta[SKIPPED] == pytest.approx(np.pi / 2 + delta, abs=1e-12)


def test_a_larger_k1_moves_one_eigenvalue_only() -> None:
    for k1, printed in ((-12.5, ("-12.59", "-0.914")), (-50.0, ("-50.02", "-0.980"))):
        found = sorted(np.linalg.eigvals([[k1, -1.0], [-1.0, -1.0]]).real)
        assert all(prints(value, text) for value, text in zip(found, printed, strict=True))
    runs = [bypassed("skip", source(k1)) for k1 in (-12.5, -50.0)]
    assert abs(far(runs[0], S1) - far(runs[1], S1)) < 0.03


def test_beta_turns_back_and_gamma_swings_by_nearly_half_a_turn() -> None:
    run = bypassed("none", source(-50.0))
    beta, gamma = run.state["beta"], run.state["gamma"]
    top = int(np.argmax(beta))
    assert run.t[top] == pytest.approx(3.038, abs=0.005)
    assert beta[top] < np.pi / 2
    swing = gamma[np.abs(run.t - 3.5) < 1e-6][0] - gamma[np.abs(run.t - 2.6) < 1e-6][0]
    assert 0.85 * np.pi < swing < np.pi
    fine = servonode.simulate(in_angles(source(-50.0), step=2e-5), every=5)
    rate = np.abs(fine.state["gamma_dot"]).max()
    assert rate == pytest.approx(np.linalg.norm(S1.omega(3.038)) / (2 * 0.01037), rel=0.02)


@pytest.mark.parametrize("name", ["ball_angles", "ball_skip", "ball_split"])
def test_a_launch_file_in_angles_is_the_printed_row(name: str) -> None:
    run = servonode.simulate(name)
    bypass = name.removeprefix("ball_").replace("angles", "none")
    reference = bypassed(bypass, source(-50.0))
    assert [run.state[each][-1] for each in run.state] == [reference.state[each][-1] for each in reference.state]
    slipping = any("would slip" in each.text for each in run.warnings)
    assert slipping == (bypass != "none")


def test_angles_and_their_rates_may_be_stated_or_found_of_an_attitude(rng: np.random.Generator) -> None:
    file = in_angles(source(-50.0))
    at = np.array([0.3, 0.4, -0.5])
    spins = np.array([0.2, -0.1, 0.6])
    states = dict(zip(("alpha", "beta", "gamma", "alpha_dot", "beta_dot", "gamma_dot"), [*at, *spins], strict=True))
    file["plant"]["initial"] = {"x": 0.5, **{name: float(each) for name, each in states.items()}}
    run = servonode.simulate(file, run__duration=0.001)
    assert [run.state[name][0] for name in states] == pytest.approx(list(states.values()), abs=1e-15)
    assert slip(run)[0] < 1e-15
    l, m, n = ball_sheet.columns(*at)  # noqa: E741
    omega = n * spins[0] + m * spins[1] + l * spins[2]
    assert [run.outputs[f"omega_{i}"][0] for i in range(3)] == pytest.approx(omega.tolist(), abs=1e-15)
    for _ in range(5):
        q, omega = rng.normal(size=4), rng.normal(size=3)
        file = in_angles(source(-50.0))
        file["plant"]["initial"] = {"omega": omega.tolist(), "q": q.tolist()}
        run = servonode.simulate(file, run__duration=0.001)
        assert ball_sheet.between(attitude(run, 0), q / np.linalg.norm(q)) < 1e-14
        assert [run.outputs[f"omega_{i}"][0] for i in range(3)] == pytest.approx(omega.tolist(), abs=1e-13)


# refusals: one line, with section and key


def refused(file: Any, **overrides: Any) -> str:
    with pytest.raises(LaunchError) as caught:
        servonode.load(file, **overrides)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_an_unstable_k_says_its_eigenvalues_and_the_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused("ball_refused")
    for part in ("[plant.parameters] k2", "-11, 1 1/s", "k1 + k4 < 0 and k1 k4 > k2 k3", "36"):
        assert part in line
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "ball_refused"])
    assert ended.value.code == 2
    assert "eigenvalues" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("integrator", "largest"), [("euler", 2.0), ("rk2", 2.0), ("heun", 2.0), ("ralston", 2.0), ("rk4", 2.785)]
)
def test_a_k_too_stiff_for_the_step_is_refused(integrator: str, largest: float) -> None:
    for factor, taken in ((0.999, True), (1.001, False)):
        k = -factor * largest / 0.01
        file = launch(S2, 1.0, integrator=integrator, parameters={"k1": k, "k4": k})
        if taken:
            assert servonode.simulate(file).fault is None
        else:
            line = refused(file)
            assert integrator in line
            assert f"at most {largest:.4g} is stable" in line


def test_complex_eigenvalues_have_the_limit_of_their_direction() -> None:
    # Euler with complex eigenvalues: |1 + h k| < 1 is a circle; -5 + 20i leaves it at h = 10/425
    K = {"k1": -5.0, "k2": 20.0, "k3": -20.0, "k4": -5.0}
    assert 0.02 < 10 / 425 < 0.025
    assert servonode.load(launch(S2, 1.0, 0.02, integrator="euler", parameters=K)) is not None
    assert "at most" in refused(launch(S2, 1.0, 0.025, integrator="euler", parameters=K))


def test_the_printed_forces_of_the_angle_model_know_constants_only() -> None:
    varying = {"disturbance": {"x": 1.0}, "parameters": {"m": "1 + 0.2*t", "J": "0.4 + 0.1*t"}}
    launch = {"run": {"duration": 1.0}, "plant": {"machine": "ball_on_turntable", "initial": {"x": 1.0}, **varying}}
    assert servonode.simulate(launch).residual_max["slip_x"] < 1e-12
    for section, texts in varying.items():
        for key, text in texts.items():
            launch["plant"] = {"machine": "ball_on_turntable", "initial": {"x": 1.0}, "settings": {"scheme": "angles"}}
            launch["plant"][section] = {key: text}
            with pytest.raises(LaunchError, match='take "quaternion"') as caught:
                servonode.load(launch)
            assert (caught.value.section, caught.value.key) == (f"plant.{section}", key)
