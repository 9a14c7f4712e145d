"""The snowboarder's programs as runs: printed states, closed forms, orders, zero-order hold, refusals, launch files."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.record.run import Run

STATES = ("x0", "y0", "phi0", "theta", "sigma", "v", "omega", "theta_dot", "sigma_dot")
ON: dict[str, Any] = {"x0": 0.0, "y0": 0.0, "v": 5.0, "on_program": True}
PUSHED: dict[str, Any] = {
    "phi0": float(np.arctan(0.3)) + 0.05,
    "theta": -0.05,
    "sigma": 0.1,
    "v": 5.0,
    "theta_dot": 0.1,
    "sigma_dot": -0.1,
}
S8 = {"kappa0": 0.0, "kappa1": 0.12, "Lambda": 40.0, "chi0": 0.3, "c_n": 0.4, "V_d": 7.0, "Omega_d": 1.0}
TIGHT = {"rtol": 1e-13, "atol": 1e-13}


def launch(
    program: str = "slalom",
    settings: dict[str, Any] | None = None,
    initial: dict[str, Any] = ON,
    duration: float = 8.0,
    **more: Any,
) -> dict[str, Any]:
    """A launch as a mapping; `more`: plant settings `gravity`, `input_set`, and `parameters`,
    `step`, `period`, `gains`.
    """
    chosen = {name: more.pop(name) for name in ("gravity", "input_set") if name in more}
    plant = {"machine": "snowboarder", "step": more.pop("step", 0.001), "initial": initial, "settings": chosen}
    plant["parameters"] = more.pop("parameters", {})
    controller = {"program": program, "period": 0.01, "settings": settings or {}, **more}
    return {"run": {"duration": duration, "mode": "lockstep"}, "plant": plant, "controller": controller}


def exact(*arguments: Any, every: int | None = None, **more: Any) -> Run:
    run: Run = servonode.simulate(launch(*arguments, **more), control="continuous", every=every, **TIGHT)
    return run


def offset(run: Run) -> Any:
    """y0 - f of the default path [m]."""
    return run.state["y0"] - 1.5 * np.sin(0.2 * run.state["x0"])


# printed runs


@pytest.fixture(scope="module")
def figures() -> Run:
    """Figures 2 to 4: the paper's slalom, a row a millisecond."""
    return exact("slalom", {"actuation": "ideal"}, every=1)


CARVED = {"delta": 0.0, "V0": 5.0}
INTO_THE_CURVE = {"phi0": 0.3, "sigma": 0.2, "v": 6.0, "omega": 0.7}
# program, its settings, start, duration, gravity: the end
ENDS: list[tuple[str, dict[str, Any], dict[str, Any], float, str, str]] = [
    ("slalom", {"actuation": "ideal"}, ON, 8.0, "full", "83.8080553002, -1.30384872926, -0.147247558720, "
     "0.0494403564897, 0, 16.6990592232, 0.842953093993, -0.287165778942, 0"),
    ("slalom", {"actuation": "ideal"}, ON, 8.0, "paper", "83.6795769574, -1.28436436029, -0.153748978398, "
     "0.0516573406643, 0, 16.6746660883, 0.826694524254, -0.282182896925, 0"),
    *(("slalom", {}, ON, 8.0, gravity, "83.8488696322, -1.30985884838, -0.145159294578, 0.0487291743474, 0, "
       "16.7126287995, 0.848309060350, -0.288812698913, 0") for gravity in ("full", "paper")),
    ("slalom", {"c_y": 0.0}, PUSHED, 6.0, "full", "55.0257344018, -1.38329470029, 0.00287172608876, "
     "-0.000957244660739, 0, 13.9288733356, 0.835683771789, -0.278563554519, 0"),
    ("slalom", {"c_y": 0.5}, PUSHED, 6.0, "full", "55.0911820234, -1.49961483782, 0.00679794850075, -0.0022660177397, "
     "0, 13.936953466, 0.835944539883, -0.278661057275, 0"),
    ("carve", CARVED, ON, 8.0, "full", "85.7271809136, -1.48668838637, -0.0398575172172, 0, 0.618748338884, "
     "17.3035829085, 1.02655166038, 0, 0.336259468131"),
    ("curve", S8 | {"n0": 0.2}, INTO_THE_CURVE, 5.0, "full", "37.2819313206, 13.0027736005, 0.873755043755, 0, "
     "0.430562788828, 12.4792403486, 0.98873414571, 0, -0.585348783007"),
]  # fmt: skip


@cache
def printed_run(row: int) -> Run:
    program, settings, initial, duration, gravity, _ = ENDS[row]
    return exact(program, settings, initial, duration, gravity=gravity)


@pytest.mark.parametrize("row", range(len(ENDS)))
def test_a_run_ends_in_the_printed_state(row: int, agree_in_print: Any) -> None:
    """To all digits, and to 1e-9 where an exact 0 is printed."""
    run = printed_run(row)
    assert run.fault is None
    for name, text in zip(STATES, ENDS[row][-1].split(","), strict=True):
        value = float(run.state[name][-1])
        if text.strip() == "0":
            assert value == pytest.approx(0.0, abs=1e-9)
        else:
            agree_in_print(value, text)


def test_the_ideal_slalom_begins_with_the_printed_accelerations_and_inputs(figures: Run, agree_in_print: Any) -> None:
    inputs = np.array([column[0] for column in figures.input.values()])
    assert inputs[0] == pytest.approx(0.0, abs=1e-12)
    agree_in_print(inputs[1:], "-3.16290780066, 63.1995897486, 28.4444104853")
    machine = figures.closed_loop.machine
    rates = machine.derivatives(0.0, figures.closed_loop.start, inputs)
    agree_in_print(rates[5:8], "1.32849163346, -0.25250399798, 0.0917431192661")
    assert rates[8] == pytest.approx(0.0, abs=1e-12)
    # the multipliers lambda: row by row N_s = lambda_1/cos^2 phi0, M_sigma = lambda_2, M_theta = lambda_3
    agree_in_print(inputs[1] * np.cos(figures.state["phi0"][0]) ** 2, "-2.90175027584")


def test_printed_energies_and_offsets(figures: Run, agree_in_print: Any) -> None:
    agree_in_print(figures.energy[0], "1566.86876745")
    assert_allclose(printed_run(1).energy, 950.0, rtol=0, atol=1e-9)
    agree_in_print(printed_run(2).energy[-1], "1577.6876906")
    assert offset(printed_run(4))[-1] == pytest.approx(0.116636574335, abs=1e-12)
    assert offset(printed_run(5))[-1] == pytest.approx(3e-12, abs=1e-12)  # its pull finds back to the path
    curve = printed_run(7).program_state
    agree_in_print(curve["s"][-1], "45.4089843369")
    assert curve["n"][-1] == pytest.approx(1.323e-8, abs=0.6e-11)


def test_the_physical_slalom_is_the_same_motion_in_either_gravity(agree_in_print: Any) -> None:
    full, paper = printed_run(2), printed_run(3)
    for run in (full, paper):
        assert_allclose(run.input["F_t"], 0.0, rtol=0, atol=1e-10)
    for name in STATES:
        assert_allclose(full.state[name], paper.state[name], rtol=0, atol=1e-10)
    agree_in_print([u[0] for u in list(paper.input.values())[1:]], "-0.51346267762, 90.2126264727, 1.90575026475")
    for name in ("N_s", "M_theta", "M_sigma"):
        assert np.max(np.abs(full.input[name] - paper.input[name])) > 1.0


def test_the_carving_run_stays_within_the_printed_ranges() -> None:
    run = printed_run(6)
    outputs = run.outputs
    assert 59.4 < np.max(np.abs(run.input["M_sigma"])) <= 59.5  # printed as a bound
    assert np.max(np.abs(outputs["c_b"])) == pytest.approx(0.110, abs=0.0005)
    assert (run.state["sigma"].min(), run.state["sigma"].max()) == pytest.approx((-0.590, 0.619), abs=0.0005)
    assert (outputs["N"].min(), outputs["N"].max()) == pytest.approx((490, 973), abs=0.5)
    upright = exact("slalom", {"delta": 0.0})  # on the same path
    assert np.max(np.abs(upright.input["M_sigma"])) == pytest.approx(881, abs=0.5)
    run = servonode.simulate(launch("carve", {"delta": 0.0}, duration=0.01))
    assert run.closed_loop.control.law.parameters["V0"] == 5.0


SAMPLED = "83.8722350555, -0.506232685486, -0.130863151532, 0.0484403089079, -0.00594303893222, "
SAMPLED += "16.7211913218, 0.889184178825, -0.295769746527, -0.00867252390282"


def test_the_sampled_slalom_ends_near_the_printed_state() -> None:
    run = servonode.simulate(launch("slalom", step=0.0005))
    # what the plant's steps leave
    assert_allclose([run.state[name][-1] for name in STATES], [float(text) for text in SAMPLED.split(",")], atol=1e-9)


def test_with_exact_motion_between_samples_the_slalom_ends_in_the_printed_state(
    flow: Callable[..., Any], agree_in_print: Any
) -> None:
    run = servonode.simulate(launch("slalom", duration=0.01))
    machine, law, x = run.closed_loop.machine, run.closed_loop.control.law, run.closed_loop.start.copy()
    for _ in range(800):
        answer = law.evaluate(0.0, x, np.zeros(0))
        assert answer.status == 0
        x = flow(machine, x, 0.01, answer.inputs)[:, 0]
    *printed, last = SAMPLED.split(",")
    agree_in_print(x[:8], ",".join(printed))
    assert x[8] == pytest.approx(float(last), abs=3e-14)  # 800 solves' rounding, more than half of its last digit


# the start on the program


@pytest.mark.parametrize("x0", [0.0, 6.5])
def test_a_start_on_the_slalom_is_the_closed_form(x0: float) -> None:
    y0 = 1.5 * float(np.sin(0.2 * x0))
    run = servonode.simulate(launch("slalom", {"c_y": 0.5}, ON | {"x0": x0, "y0": y0}, 0.01))
    slope, bend = 0.3 * np.cos(0.2 * x0), -0.06 * np.sin(0.2 * x0)
    pitch_slope = 0.02 * np.sin(0.2 * x0)
    expected = [x0, y0, np.arctan(slope), -0.1 * np.cos(0.2 * x0), 0.0, 5.0]
    expected += [5 * bend / (1 + slope**2) ** 1.5, pitch_slope * 5 / np.sqrt(1 + slope**2), 0.0]
    assert_allclose([run.state[name][0] for name in STATES], expected, rtol=0, atol=1e-12)


def test_a_start_on_the_curve_is_the_closed_form() -> None:
    run = servonode.simulate(launch("curve", S8 | {"s0": 12.0, "theta_c": 0.1}, {"v": 5.0, "on_program": True}, 0.01))
    wave = 2 * np.pi / 40
    kappa, chi = 0.12 * np.cos(12 * wave), 0.3 + 0.12 / wave * np.sin(12 * wave)
    g, alpha = 9.81, 0.15
    upright = g * np.cos(alpha) + 1.2
    load = (kappa * 49 + g * np.sin(alpha) * np.sin(chi)) / upright
    rate = (-0.12 * wave * np.sin(12 * wave) * 49 + g * np.sin(alpha) * np.cos(chi) * kappa) / upright
    expected = [0, 0, chi, 0.1, np.arctan(load), 5.0, kappa * 5, 0.0, rate / (1 + load**2) * 5]
    assert_allclose([run.state[name][0] for name in STATES], expected, rtol=0, atol=1e-12)


# closed forms


def test_with_drag_the_straight_run_is_a_hyperbolic_tangent() -> None:
    c_2 = 0.5
    run = exact("slalom", {"path": "line", "delta": 0.0}, ON | {"v": 0.0}, 10.0, parameters={"c2": c_2})
    pull = 9.81 * np.sin(0.15)
    v_T = np.sqrt(76 * pull / c_2)
    assert_allclose(run.state["v"], v_T * np.tanh(pull * run.t / v_T), rtol=0, atol=1e-10)


def test_plumb_on_a_slanting_line_no_moment_is_needed() -> None:
    lean = float(np.arctan(np.tan(0.15) * np.sin(0.6)))
    settings = {"path": "line", "chi0": 0.6, "delta": 0.0, "sigma_c": lean}
    run = exact("slalom", settings, ON, 3.0)
    for column in run.input.values():
        assert_allclose(column, 0.0, rtol=0, atol=1e-9)
    assert_allclose(run.state["v"], 5 + 9.81 * np.sin(0.15) * np.cos(0.6) * run.t, rtol=0, atol=1e-10)


def test_the_curve_without_curvature_traverses_plumb() -> None:
    settings = {"chi0": float(np.pi / 2), "c_n": 0.4, "V_d": 1.0}
    run = exact("curve", settings, {"v": 5.0, "on_program": True}, 3.0)
    assert_allclose(run.state["sigma"], 0.15, rtol=0, atol=1e-12)
    assert_allclose(run.state["v"], 5.0, rtol=0, atol=1e-10)
    assert_allclose(run.outputs["R"], 76 * 9.81 * np.sin(0.15), rtol=1e-10)


def effective_mass(x: Any) -> Any:
    """m_eff [kg] of the default slalom: the kinetic energy is m_eff x0'^2/2."""
    f1, f2 = 0.3 * np.cos(0.2 * x), -0.06 * np.sin(0.2 * x)
    pitch, slope = -0.1 * np.cos(0.2 * x), 0.02 * np.sin(0.2 * x)
    steep = 1 + f1**2
    turning = (1.28 + 75.6 * np.sin(pitch) ** 2) * (f2 / steep) ** 2
    return 76 * steep + turning + 75.6 * slope**2 + 126 * np.sqrt(steep) * slope * np.cos(pitch)


def height_energy(x: Any) -> Any:
    """The potential energy [J] on the default slalom."""
    f1, pitch, g, alpha = 0.3 * np.cos(0.2 * x), -0.1 * np.cos(0.2 * x), 9.81, 0.15
    along = np.sin(alpha) * np.sin(pitch) / np.sqrt(1 + f1**2)
    return -76 * g * np.sin(alpha) * x - 63 * g * (along - np.cos(alpha) * np.cos(pitch))


def test_ideal_actuation_keeps_the_energy_and_its_quadrature_takes_eight_seconds(figures: Run) -> None:
    assert_allclose(figures.energy, figures.energy[0], rtol=0, atol=1e-9)
    x = figures.state["x0"]
    x_rate = figures.state["v"] * np.cos(figures.state["phi0"])
    assert_allclose(effective_mass(x) * x_rate**2 / 2 + height_energy(x), figures.energy, rtol=0, atol=1e-8)
    speed = 5 / np.sqrt(1.09)
    total = effective_mass(0.0) * speed**2 / 2 + height_energy(0.0)

    def slowness(x: float) -> float:
        return float(np.sqrt(effective_mass(x) / 2 / (total - height_energy(x))))

    time, _ = quad(slowness, 0, 83.80805530, epsabs=1e-12, epsrel=1e-12, limit=200)
    assert time == pytest.approx(8.0, abs=0.6e-9)


# figures 2 to 4


def test_figures_2_to_4_have_the_printed_ranges_and_times(figures: Run, agree_in_print: Any) -> None:
    columns = {**figures.state, **figures.input, **figures.outputs}
    agree_in_print(columns["x0"][-1], "83.808")
    printed = {
        "y0": ("-1.5", "1.5"), "psi1": ("1.4708", "1.6708"), "phi0": ("-0.29146", "0.29146"),
        "F_t": ("-3.12", "2.48"), "N_s": ("-41.7", "49.6"),
        "M_theta": ("-83.6", "79.4"), "M_sigma": ("-893.7", "844.2"), "N": ("731.5", "743.1"),
    }  # fmt: skip
    for name, (least, most) in printed.items():
        agree_in_print(columns[name].min(), least)
        agree_in_print(columns[name].max(), most)
    assert (columns["R"].min(), columns["R"].max()) == pytest.approx((-1063, 1029), abs=0.5)
    assert_allclose(offset(figures), 0.0, rtol=0, atol=1e-10)
    assert_allclose(columns["v"][[0, -1]], [5.0, 16.70], rtol=0, atol=0.005)
    theta, t = figures.state["theta"], figures.t
    before = np.flatnonzero(theta[:-1] * theta[1:] < 0)
    share = theta[before] / (theta[before] - theta[before + 1])
    agree_in_print(t[before] + share * 0.001, "1.3604, 3.2883, 4.7780, 6.0374, 7.1486")


# integration with fixed steps


def stepped(run: Run, h: float, rule: str) -> Any:
    """State at the end with the law inside a fixed-step rule, and the residuals there."""
    machine, control = run.closed_loop.machine, run.closed_loop.control
    law, y = control.law, np.zeros(control.law.goal_layout.size)
    x = run.closed_loop.start.copy()

    def rate(x: Any) -> Any:
        answer = law.evaluate(0.0, x, y)
        assert answer.status == 0
        return machine.derivatives(0.0, x, answer.inputs)

    for _ in range(round(8.0 / h)):
        k1 = rate(x)
        if rule == "euler":
            x = x + h * k1
            continue
        k2 = rate(x + h / 2 * k1)
        k3 = rate(x + h / 2 * k2)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + h * k3))
    answer = law.evaluate(0.0, x, y)
    return x, abs(float(answer.residuals[0]))


def short(**more: Any) -> Run:
    run: Run = servonode.simulate(launch("slalom", {"actuation": "ideal"}, duration=0.01, **more))
    return run


@pytest.mark.parametrize(("h", "error", "digit"), [(0.08, 9.0e-5, 1e-6), (0.04, 5.1e-6, 1e-7), (0.02, 3.3e-7, 1e-8),
                                                   (0.01, 2.1e-8, 1e-9)])  # fmt: skip
def test_the_closed_loop_has_order_four(figures: Run, h: float, error: float, digit: float) -> None:
    x, _ = stepped(short(), h, "rk4")
    exact_end = np.array([figures.state[name][-1] for name in STATES])
    assert np.max(np.abs(x[:9] - exact_end)) == pytest.approx(error, abs=0.6 * digit)


@pytest.mark.parametrize(
    ("h", "rate", "rule", "printed", "digit"),
    [
        (0.02, 0.0, "euler", 0.0427, 0.6e-4),
        (0.02, 5.0, "euler", 0.0099, 0.6e-4),
        (0.005, 0.0, "euler", 0.0107, 0.6e-4),
        (0.005, 5.0, "euler", 0.0024, 0.6e-4),
        (0.01, 0.0, "rk4", 0.0, 2e-8),  # a good step hardly drifts without stabilisation
    ],
)
def test_stabilisation_pays_for_a_low_order_step(
    h: float, rate: float, rule: str, printed: float, digit: float
) -> None:
    assert stepped(short(gains={"lambda": rate}), h, rule)[1] == pytest.approx(printed, abs=digit)


# the zero-order hold


@pytest.mark.parametrize(
    ("period", "c_y", "input_set", "heading", "aside"),
    [
        (0.02, 0.0, "relative", "0.0517", "1.618"),
        (0.01, 0.0, "relative", "0.0266", "0.807"),
        (0.005, 0.0, "relative", "0.0135", "0.403"),
        (0.01, 0.5, "relative", "0.0268", "0.0500"),
        (0.01, 0.0, "total", "0.00128", "0.0097"),
        (0.01, 0.5, "total", "0.00126", "0.0023"),
    ],
)
def test_zero_order_hold_leaves_the_printed_residual_and_offset(
    period: float, c_y: float, input_set: str, heading: str, aside: str, agree_in_print: Any
) -> None:
    run = servonode.simulate(
        launch("slalom", {"c_y": c_y}, period=period, step=period / 20, input_set=input_set), every=1
    )
    f1 = np.tan(run.state["phi0"]) - 0.3 * np.cos(0.2 * run.state["x0"]) + c_y * offset(run)
    agree_in_print(np.max(np.abs(f1)), heading)
    agree_in_print(np.max(np.abs(offset(run))), aside)


def test_four_plant_steps_a_period_are_enough() -> None:
    coarse, fine = (
        servonode.simulate(launch("slalom", {"c_y": 0.5}, input_set="total", step=step)) for step in (0.0025, 0.0005)
    )
    for name in STATES:
        assert_allclose(coarse.state[name], fine.state[name], rtol=0, atol=1e-7)


# refusals


@pytest.mark.parametrize(
    ("program", "settings", "more", "text"),
    [
        ("slalom", {}, {"input_set": "absolute", "initial": {"theta": 0.1}}, 'input_set = "absolute"'),
        ("carve", {}, {"gravity": "paper"}, 'gravity = "paper"'),
        ("carve", {"x_ref": 10.0, "V0": 5.0}, {}, "no speed is left"),
        ("curve", {}, {}, "c_n: is missing"),
        ("curve", {"c_n": -0.1}, {}, "must be at least 0"),
        ("curve", {"c_n": 0.4, "kappa0": 0.5, "n0": 2.5}, {}, "centre of curvature"),
        (
            "literal",
            {"psi_c": float(np.pi / 2)},
            {"initial": {"theta": 0.1}},
            "psi_c + |delta| = 1.671 rad, must be less than pi/2 = 1.571",
        ),
        ("slalom", {}, {"initial": {"phi0": 1.45, "v": 5.0}}, "heading has left"),
        ("slalom", {"delta": 1.2, "k_theta": 1.0, "path": "line"}, {"initial": {"x0": 4.7124, "v": 5.0}}, "m_ph"),
        ("slalom", {}, {"initial": {"sigma": 1.5}}, "fallen"),
    ],
)
def test_what_cannot_go_is_refused_before_anything_moves(
    program: str, settings: dict[str, Any], more: dict[str, Any], text: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        servonode.simulate(launch(program, settings, duration=0.1, **more))
    assert text in str(caught.value)


# packaged launch files


def test_the_packaged_slalom_and_carving_run_stay_on_their_path() -> None:
    runs = [servonode.simulate(name) for name in ("snowboarder_slalom", "snowboarder_carve")]
    for run in runs:
        assert run.fault is None
        assert np.max(np.abs(offset(run))) < 0.003
    slalom, carve = runs
    assert any("sideways" in each.text for each in slalom.warnings)  # it tips
    assert not carve.warnings  # the pressure stays on the board
    assert servonode.simulate("snowboarder_slalom_lockstep").state["x0"].tolist() == slalom.state["x0"].tolist()


def test_the_packaged_straight_and_literal_runs_are_as_announced() -> None:
    straight, literal = (servonode.simulate(name) for name in ("snowboarder_straight", "snowboarder_literal"))
    aside = straight.state["y0"] - np.tan(0.6) * straight.state["x0"]
    assert abs(aside[0]) == 0.3  # it comes back to the line, and to rest
    assert abs(aside[-1]) < 0.02
    assert abs(straight.input["M_sigma"][-1]) < 0.1
    assert literal.fault is None  # the body hangs over the nose
    assert literal.outputs["psi1"].max() < np.pi / 2 - 0.2
    assert literal.residual_max["pitch"] < 2e-3


def test_the_packaged_hook_stops_uphill_and_slides_back() -> None:
    run = servonode.simulate("snowboarder_stops_uphill")
    assert run.fault is None
    assert run.state["phi0"].max() > 2.5
    assert run.state["v"][-1] < -3.0
    stop = int(np.argmin(np.abs(run.state["v"])))
    # the body leans in, so it starts slower than the board, and is up at the end: less high than v^2/(2 g sin alpha)
    assert -25 / (2 * 9.81 * np.sin(0.15)) < run.state["x0"][stop] < -5.0
    assert run.program_state["s"].max() == pytest.approx(run.program_state["s"][stop], abs=1e-3)


def test_the_packaged_steep_waves_and_weak_rider_end_by_a_fault() -> None:
    steep, weak = (servonode.simulate(name) for name in ("snowboarder_turns_back", "snowboarder_too_weak"))
    assert steep.fault is not None
    assert (steep.fault["name"], steep.fault["node"]) == ("law", "controller")
    assert "the heading has left (-1.4, 1.4)" in steep.fault["text"]
    assert abs(steep.state["phi0"][-1]) == pytest.approx(1.4, abs=0.1)
    assert weak.fault is not None
    assert weak.fault["name"] == "fallen"
    assert "fallen" in weak.fault["text"]
    assert weak.outputs["E_n"][-1] < 0.1 <= weak.outputs["E_n"][-2]
    assert np.max(np.abs(weak.input["M_sigma"])) == 150.0


def test_a_start_on_the_literal_program_from_upright_says_what_is_singular() -> None:
    said = r"on_program: no initial state .* heading, lean, pitch or their derivatives are not finite"
    with pytest.raises(LaunchError, match=said):
        servonode.simulate(launch("literal", initial={"v": np.float64(3.0), "on_program": True}, duration=0.1))
