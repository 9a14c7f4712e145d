"""The pendulum sphero's programs as runs: printed states and ranges, decay, internal damping, limits, faults."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.record.run import Run
from tests.helpers import sphero_sheet
from tests.helpers.packaged import load_machine

Agree = Callable[[Any, str], None]
EXACT = {"kappa": 0.0}
NO_LIMIT = {"kappa": 0.0, "a_lim": 1e9, "Q_max": 1e9}
MU, ML, A, OMEGA_0, D0, G = 11 / 3, 0.08, 0.0176, 11.838194843, 0.0056, 0.47


def launch(program: str, **settings: Any) -> dict[str, Any]:
    """A launch file as a mapping; the standard target where the program has one."""
    return {
        "run": {"duration": 130.0},
        "plant": {"machine": "pendulum_sphero", "step": 0.001},
        "controller": {"program": program, "period": 0.01, "settings": settings},
        "target": sphero_sheet.TARGET if program in ("pursuit", "cascade", "trajectory") else {},
    }


def exactly(file: dict[str, Any], duration: float, atol: float = 1e-13, **overrides: Any) -> Run:
    run: Run = servonode.simulate(
        file, control="continuous", rtol=1e-13, atol=atol, run__duration=duration, **overrides
    )
    assert run.fault is None
    return run


def sampled(file: dict[str, Any], duration: float, **overrides: Any) -> Run:
    run: Run = servonode.simulate(file, run__duration=duration, **overrides)
    return run


def vector(run: Run, name: str, size: int = 3) -> Any:
    return np.array([run.state[f"{name}_{k}"] for k in range(size)])


def speed(run: Run) -> Any:
    """v_x, v_y (2, rows)."""
    omega = vector(run, "omega")
    return 0.15 * np.array([omega[1], -omega[0]])


def distance(run: Run) -> Any:
    goal = run.targets
    return np.hypot(goal["x"] - run.state["X"], goal["y"] - run.state["Y"])


def tilt(run: Run) -> Any:
    """[degrees]."""
    return np.degrees(run.outputs["theta"])


def ranges(values: Any) -> list[float]:
    return [float(np.min(values)), float(np.max(values))]


@cache
def standard(kind: str) -> Run:
    """The standard pursuit over 130 s: "exact", or sampled with 10 ms by a rule, "late" one period late."""
    if kind == "exact":
        return exactly(launch("pursuit", **EXACT), 130.0, every=10)
    delay = {"controller__delay": 1} if kind == "late" else {}
    rule = "spin" if kind == "spin" else "min_norm"
    run = sampled(launch("pursuit", rule=rule), 130.0, every=10, **delay)
    assert run.fault is None
    assert all(each["instants"] == 0 for each in run.limits.values())
    return run


# printed states


S3 = """6.236870047, 0.7094235079, -0.03253013077, -0.01709709635, -0.9993245118, -1.676816332, 0.9109459457,
0.001057473342, -0.008854577571, -0.00646401167, -0.0004095123604, -0.3894317915, 0.4207651259, -0.7582800103,
-0.3103401594"""
S4 = """2.283792905, -0.7167437701, 0.0145460478, 0.02423674339, -0.9996004165, 0.7319158702, 3.322987499,
0.001339180322, 0.01005263926, 0.007794460049, -0.000578674407, -0.1385937254, 0.1978682872, 0.9689290656,
0.05306963363"""


def test_the_pursuit_passes_the_printed_states(agree_in_print: Agree) -> None:
    run = exactly(launch("pursuit", **EXACT), 20.0, atol=1e-15, every=1000)
    agree_in_print([column[-1] for column in run.state.values()], S3)
    run = sampled(launch("pursuit"), 10.0, plant__step=0.0005)
    agree_in_print([column[-1] for column in run.state.values()], S4)


@pytest.mark.slow
def test_the_pursuit_s_path_is_that_of_a_point_whatever_the_masses(agree_in_print: Agree) -> None:
    """The solution of r' = W; the last time is 40 pi, the end of the target's period."""
    times = [20.0, 100.0, 40 * np.pi]
    W = sphero_sheet.pursuit_path(1.0, 2.0)
    path = solve_ivp(W, (0.0, times[-1]), [0.0, 0.0], "DOP853", times, rtol=1e-13, atol=1e-13).y
    printed = ["6.236870047, 0.7094235079", "-3.736791341, 5.257891235", "0.003083827689, -0.3724227749"]
    step = 0.125663706
    runs = [exactly(launch("pursuit", **EXACT), t, every=1000) for t in times[:2]]
    runs.append(exactly(launch("pursuit", **EXACT), 1000 * step, plant__step=step, controller__period=step, every=100))
    for t, run, r, text in zip(times, runs, path.T, printed, strict=True):
        late = (t - run.t[-1]) * speed(run)[:, -1]  # a whole number of steps ends 0.14 us before 40 pi
        end = np.array([run.state["X"][-1], run.state["Y"][-1]]) + late
        agree_in_print(end, text)
        assert_allclose(end, r, rtol=0, atol=1e-11)


def test_other_masses_take_the_same_path() -> None:
    heavy = {"M": 1.7, "m": 2.4, "C3": 0.02, "I": 0.03, "c_j": 0.01, "c_r": 0.004}
    run = exactly(launch("pursuit", **EXACT), 20.0, every=1000, plant__parameters=heavy)
    assert [run.state["X"][-1], run.state["Y"][-1]] == pytest.approx([6.236870047, 0.7094235079], abs=1e-9)


# ranges


def test_the_exact_pursuit_has_the_printed_ranges(agree_in_print: Agree) -> None:
    run = standard("exact")
    outputs = run.outputs
    assert np.hypot(*run.residual.values()).max() < 1e-10
    agree_in_print(ranges(distance(run)), "2.0000, 2.5310")
    agree_in_print(ranges(distance(run)[run.t >= 60.0]), "2.0085, 2.5310")
    agree_in_print(ranges(run.state["X"]), "-3.992, 8.206")
    agree_in_print(ranges(run.state["Y"]), "-0.836, 11.250")
    assert np.hypot(*speed(run)).max() <= 0.5310
    accelerations = np.hypot(*np.gradient(speed(run), run.t, axis=1)).max()
    assert accelerations == pytest.approx(0.0959, abs=0.6e-4)
    agree_in_print(tilt(run).max(), "3.303")
    assert np.linalg.norm(run.inputs, axis=0).max() <= 0.0528
    assert np.abs(run.input["Q_z"]).max() <= 4.8e-5
    assert max(np.abs(outputs["s"]).max(), np.abs(run.state["omega_2"]).max()) < 1.4e-3
    agree_in_print((np.hypot(outputs["N_x"], outputs["N_y"]) / outputs["N_z"]).max(), "0.0098")
    power = (run.inputs * (vector(run, "Omega") - vector(run, "omega"))).sum(axis=0)
    agree_in_print(ranges(power), "-0.060, 0.106")
    run = standard("exact")
    kept = ML / A * 0.0288 * run.outputs["s"] - 0.015 / 0.15 * run.state["omega_2"]
    assert np.abs(kept).max() < 1e-12
    assert np.abs(run.state["omega_2"]).max() > 1e-4


def test_the_sampled_pursuit_has_the_same_ranges_to_three_digits(agree_in_print: Agree) -> None:
    run, exact = standard("min_norm"), standard("exact")
    for of in (distance, lambda each: each.state["X"], lambda each: each.state["Y"]):
        assert_allclose(ranges(of(run)), ranges(of(exact)), rtol=1e-3)
    assert np.linalg.norm(run.inputs, axis=0).max() == pytest.approx(0.0527, abs=1e-4)
    assert tilt(run).max() <= 3.302


@pytest.mark.parametrize(
    ("kind", "residual", "spin"),
    [
        ("min_norm", 5.3e-4, "0.018"),
        pytest.param("late", 5.9e-4, "0.053", marks=pytest.mark.slow),
        pytest.param("spin", 5.3e-4, "0", marks=pytest.mark.slow),
    ],
)
def test_sampled_the_residual_and_the_shell_s_spin_are_the_printed_ones(
    kind: str, residual: float, spin: str, agree_in_print: Agree
) -> None:
    """The residual is what damping leaves; by the least torque the shell spins up, the rule spin keeps it from that."""
    run = standard(kind)
    worst = np.hypot(*[run.residual[name] for name in ("v_x", "v_y")]).max()
    assert 0.95 * residual < worst <= residual
    agree_in_print(np.abs(run.state["omega_2"]).max(), spin)
    if kind == "spin":
        assert np.all(run.state["omega_2"] == 0.0)
        assert np.abs(run.outputs["s"]).max() < 3e-4


@pytest.mark.slow
def test_the_bound_of_the_residual_by_the_damping_holds() -> None:
    run = exactly(launch("pursuit"), 130.0, every=10)
    n_dot = np.cross(vector(run, "Omega"), vector(run, "n"), axis=0)[:2]
    worst, bound = np.hypot(*run.residual.values()).max(), 0.05 * np.hypot(*n_dot).max() / 2.0
    assert 0.5 * bound < worst < bound


def test_sampling_is_of_first_order() -> None:
    periods = (0.02, 0.01, 0.005, 0.0025)
    runs = [
        sampled(launch("pursuit"), 10.0, controller__period=each, plant__step=0.0005, every=1000) for each in periods
    ]
    ends = np.array([[run.state["X"][-1], run.state["Y"][-1]] for run in runs])
    differences = np.abs(np.diff(ends, axis=0)).max(axis=1)
    assert_allclose(1e5 * differences, [2.9, 1.5, 0.7], rtol=0, atol=0.06)


@pytest.mark.slow
def test_twelve_minutes_at_20_ms_hold_norms_and_integrals() -> None:
    run = sampled(launch("pursuit", rule="spin"), 760.0, controller__period=0.02, every=20)
    assert run.fault is None
    for name, size in (("n", 3), ("q", 4)):
        assert_allclose(np.linalg.norm(vector(run, name, size), axis=0), 1.0, rtol=0, atol=1e-14)
    assert np.all(run.state["omega_2"] == 0.0)
    assert np.abs(run.outputs["s"]).max() < 3e-4
    assert run.energy_error < 1e-12
    settled = run.t > 60.0
    assert ranges(distance(run)[settled]) == pytest.approx([2.0088, 2.5307], abs=1e-4)
    assert tilt(run).max() < 3.303


# what the residuals leave free


@pytest.mark.slow
def test_without_damping_the_sampled_pursuit_runs_over_and_its_distance_hides_it() -> None:
    exact = standard("exact")
    run = sampled(launch("pursuit", **NO_LIMIT), 60.0, every=10, plant__safety__faults=False)
    assert run.fault is None
    angle, off = tilt(run), np.abs(distance(run) - distance(exact)[: len(run.t)])
    assert run.t[angle > 10][0] == pytest.approx(34.0, abs=0.1)
    assert run.t[angle > 85][0] == pytest.approx(54.3, abs=0.1)
    assert off[run.t < 46.4].max() < 4e-4
    assert off[run.t < 54.3].max() < 1.1e-3
    bounded = {**NO_LIMIT, "Q_max": 1.2}  # ends it sooner
    run = sampled(launch("pursuit", **bounded), 50.0, every=10, plant__safety__faults=False)
    assert run.t[tilt(run) > 85][0] == pytest.approx(46.4, abs=0.1)


def swinging(duration: float, settings: dict[str, Any], **overrides: Any) -> tuple[Run, Any]:
    """A robot that should stand still, its pendulum 0.1 mrad off; the amplitude."""
    still = {"target__x": "2", "target__y": "0", "plant__initial": {"n": [1e-4, 0.0, -1.0]}}
    file = launch("pursuit", rho0=2.0, **settings)
    run: Run = servonode.simulate(file, run__duration=duration, every=1, **still, **overrides)
    return run, np.hypot(run.state["n_0"], run.state["Omega_1"] / OMEGA_0)


def growth(run: Run, amplitude: Any, times: tuple[float, float]) -> float:
    """Mean rate [1/s] between the largest amplitudes in half a second after two times."""
    top = [amplitude[(run.t >= t) & (run.t < t + 0.54)].max() for t in times]
    return float(np.log(top[1] / top[0]) / (times[1] - times[0]))


def test_the_pendulum_swings_with_the_printed_frequency() -> None:
    run, amplitude = swinging(20.0, EXACT, control="continuous")
    x, y = run.state["n_0"], run.state["Omega_1"] / OMEGA_0
    phase = np.unwrap(np.arctan2(y, x))
    assert abs(phase[-1] - phase[0]) / 20.0 == pytest.approx(OMEGA_0, rel=1e-6)
    assert np.ptp(amplitude) < 1e-8


def test_internal_damping_damps_it_at_the_printed_rate() -> None:
    """D0 xi'' + m g l xi = G a with a = -lambda v - kappa xi': small swings and the velocity with them."""
    start = {"n": [1e-4, 0.0, -1.0]}
    run = exactly(launch("stop"), 4.0, atol=1e-15, plant__initial=start, every=1)
    push = np.array([0.0, -0.05, -2.0])  # a of xi, xi', v
    M = np.array([[0, 1, 0], G / D0 * push - [ML * 9.81 / D0, 0, 0], push])
    motion = np.array([expm(M * t)[:, 0] for t in run.t[::50]]).T * run.state["n_0"][0]
    assert_allclose(run.state["n_0"][::50], motion[0], rtol=0, atol=1e-10)
    assert_allclose(speed(run)[0][::50], motion[2], rtol=0, atol=1e-10)
    pair = np.linalg.eigvals(M)
    assert -pair[np.abs(pair.imag) > 1].real.max() == pytest.approx(G * 0.05 / (2 * D0), rel=0.05)


def test_zero_order_hold_excites_it_at_the_printed_rate(agree_in_print: Agree) -> None:
    agree_in_print((OMEGA_0**2 - 7.03562364**2) / 2 * 0.005, "0.23")
    run, amplitude = swinging(20.0, EXACT)
    agree_in_print(growth(run, amplitude, (5.0, 15.0)), "0.22")


@pytest.mark.slow
def test_swing_decays_where_damping_outweighs_the_sampling() -> None:
    least = ML / MU * 7.03562364**2 * 0.005
    rates = [growth(*swinging(20.0, {"kappa": share * least}), (5.0, 15.0)) for share in (0.9, 1.1)]
    assert rates[0] > 0 > rates[1]


def test_a_pendulum_with_A_below_m_l_R_runs_away_under_the_exact_law() -> None:
    """The law by hand, for servonode refuses it."""
    machine = load_machine("pendulum_sphero", sphero_sheet.POINT, {})
    x, step, angle = machine.state({}), 0.0005, 0.0
    for k in range(1300):
        law, t = sphero_sheet.Law(machine.parameters, x[:15]), k * step
        rates = machine.derivatives
        torque = law.torque(law.pursuit(sphero_sheet.standard_target(t), 1.0, 2.0, 2.0), "min_norm")
        half = x + step / 2 * rates(t, x, torque)
        law = sphero_sheet.Law(machine.parameters, half[:15])
        torque = law.torque(law.pursuit(sphero_sheet.standard_target(t + step / 2), 1.0, 2.0, 2.0), "min_norm")
        x = x + step * rates(t + step / 2, half, torque)
        angle = np.degrees(np.arccos(-x[4]))
        if angle > 36.0:
            break
    assert angle > 36.0
    assert k * step == pytest.approx(0.61, abs=0.005)


# circle, coasting


def test_a_steady_circle_has_the_printed_lean_and_torque(agree_in_print: Agree) -> None:
    m_g_l, mlR, R, V, s = ML * 9.81, ML * 0.15, 0.15, 0.8, 0.3
    W = V / 1.5

    def balance(phi: float) -> float:
        pull = m_g_l + mlR * W**2 - A * W**2 * np.cos(phi) - 0.0288 * s * W
        return float(pull * np.sin(phi) - (MU * R - ML * np.cos(phi)) * V**2 / 1.5)

    lean = brentq(balance, 0.0, 1.0, xtol=1e-15)
    agree_in_print(np.degrees(lean), "15.01047514")
    n = np.array([0.0, np.sin(lean), -np.cos(lean)])  # below the centre (0, 1.5), leaning to it
    spin = s * n + np.cross(n, np.cross([0, 0, W], n))
    start = {"n": n.tolist(), "omega": [0.0, V / R, 0.0], "Omega": spin.tolist()}
    for rule in ("min_norm", "spin"):
        run = exactly(launch("circle", V="0.8", rule=rule, **EXACT), 5.0, every=50, plant__initial=start)
        assert_allclose(np.radians(tilt(run)), lean, rtol=0, atol=1e-12)
        torque = np.linalg.norm(run.inputs, axis=0)
        assert np.ptp(torque) < 1e-12
        agree_in_print(torque[-1], "0.2337826282")
        assert np.abs(vector(run, "n")[:2].T @ np.ones(2)).max() < 1.5 * np.sin(lean)
        tangent = np.array([1.5 - run.state["Y"], run.state["X"]]) / 1.5
        assert_allclose((tangent * run.inputs[:2]).sum(axis=0) ** 2, torque**2, rtol=0, atol=1e-12)


ROLLING = {"n": [0.0, 0.6, -0.8], "omega": [1.0, 2.0, 3.0], "Omega": [0.0, 0.5, 1.0]}


@pytest.mark.parametrize("kappa", [0.0, 0.05])
@pytest.mark.parametrize("control", ["continuous", "sampled"])
def test_along_a_constant_heading_the_robot_coasts(kappa: float, control: Any) -> None:
    file = launch("bilimovich", g_B="0.4", kappa=kappa, a_lim=1e9)
    run = servonode.simulate(file, control=control, every=20, run__duration=2.0, plant__initial=ROLLING)
    n_dot = np.cross(vector(run, "Omega"), vector(run, "n"), axis=0)[:2]
    p = MU * speed(run) + ML * n_dot
    assert np.ptp(p[0] - 0.4 * p[1]) < 1e-8  # of RK4 with 1 ms where it is sampled
    assert np.all(run.state["omega_2"] == 3.0)
    assert np.all(run.input["Q_z"] == 0.0)


@pytest.mark.slow
def test_sampled_the_bilimovich_program_needs_the_damping_too() -> None:
    runs = [
        sampled(launch("bilimovich", g_B="0.4", kappa=kappa), 60.0, plant__initial=ROLLING) for kappa in (0.0, 0.05)
    ]
    assert runs[0].fault is not None
    assert runs[0].fault["name"] == "tilt"
    assert runs[1].fault is None
    assert tilt(runs[1])[-1] < 1.0


# limits, faults, refusals


@pytest.mark.parametrize(("a_lim", "highest"), [(None, "49.3"), (1.0281, "75.0"), (1.2186, "115"), (1.21862, "180")])
def test_a_sudden_step_tips_the_pendulum_to_the_printed_tilt(
    a_lim: float | None, highest: str, agree_in_print: Agree
) -> None:
    settings = {**NO_LIMIT, "a_lim": a_lim} if a_lim else {"kappa": 0.0, "Q_max": 1e9}
    far = {"target__x": "1e6", "target__y": "0", "plant__safety__faults": False}
    run = exactly(launch("pursuit", rho0=1.0, **settings), 2.0 if highest != "180" else 3.2, every=1, **far)
    agree_in_print(tilt(run).max(), highest)
    assert run.limits["acceleration"]["first"] == 0.0


@pytest.mark.slow
def test_only_small_accelerations_may_be_reversed_at_once() -> None:
    def highest(share: float) -> float:
        worst = 0.0
        for turn in np.arange(1.0, 1.6, 0.1):
            V = f"1000*tanh(200*({turn:.2f} - t))"
            file = launch("line", V=V, a_lim=share * 1.4422474862)
            worst = max(worst, tilt(sampled(file, 2.5, every=5, plant__safety__faults=False)).max())
        return worst

    assert highest(0.3) < 75.0 < highest(0.5)


def test_a_demand_above_its_limit_raises_the_flag_and_no_fault() -> None:
    run = sampled(launch("pursuit", rho0=2.0), 20.0, target__x="8 + 0.3*t", target__y="0", every=1)
    assert run.fault is None
    assert run.limits["acceleration"]["first"] == 0.0
    assert run.limits["acceleration"]["instants"] > 100
    acts = run.scale["acceleration"] < 1.0
    assert acts.any()
    assert not acts[-1]
    assert np.abs(run.residual["v_x"][-1]) < 1e-3


def test_without_limits_a_demand_far_above_the_largest_tilts_the_pendulum_over() -> None:
    run = servonode.simulate("sphero_runs_over")
    assert run.fault is not None
    assert run.fault["name"] == "tilt"
    assert "tilt above 75 degrees" in run.fault["text"]
    after = run.t > run.fault["t"] + 0.01
    assert run.t[-1] == pytest.approx(run.fault["t"] + 5.0, abs=0.011)  # the brake's time
    assert np.diff(run.energy[after]).max() < 1e-9
    assert tilt(run)[-1] < 10.0


def test_a_cascade_pursues_with_a_pendulum_that_pursuit_refuses(agree_in_print: Agree) -> None:
    run = servonode.simulate("sphero_cascade")
    assert run.fault is None
    agree_in_print(ranges(distance(run)), "2.00, 2.53")
    assert tilt(run).max() == pytest.approx(1.0, abs=0.05)
    with pytest.raises(LaunchError, match='take program = "cascade"'):
        servonode.simulate("sphero_refused")


def test_a_start_inside_the_least_distance_is_refused_or_stopped() -> None:
    with pytest.raises(LaunchError, match="nearer than h"):
        servonode.simulate(launch("pursuit"), run__duration=1.0, target__x="0.1", target__y="0")
    run = sampled(launch("pursuit", rho0=1.0), 10.0, target__x="2 - 1.5*t", target__y="0")
    assert run.fault is not None
    assert "nearer than h" in run.fault["text"]


@pytest.mark.parametrize(("file", "limited"), [("sphero_line", True), ("sphero_circle", False)])
def test_a_packaged_launch_file_warns_of_the_limit_that_acted(file: str, limited: bool) -> None:
    run = servonode.simulate(file)
    assert run.fault is None
    assert {each.name for each in run.warnings} == ({"demand_limit"} if limited else set())
    assert any(each["instants"] for each in run.limits.values()) == limited
    assert max(abs(values[-1]) for values in run.residual.values()) < 0.02
