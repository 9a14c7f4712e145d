"""Any relative degree and dynamic extension: cranes, quadrotor, elastic arms, snakeboard against inversions by hand."""

from collections.abc import Callable
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose
from scipy.linalg import expm

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.closed_loop.run import Run

Array = Any
Launch = Callable[..., Path]
MACHINES = Path(__file__).parents[1] / "closed_loop" / "textbook"
T = sympy.Symbol("t")
REST = "({0}**5*(126 - 420*{0} + 540*{0}**2 - 315*{0}**3 + 70*{0}**4))"  # from 0 to 1, four derivatives 0 at both ends


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """Writes a launch file of a machine in textbook/ with residuals and targets."""
    folder = tmp_path_factory.mktemp("extension")

    def write(
        machine: str, residuals: dict[str, str], target: dict[str, str], more: str = "", duration: float = 2.0,
        initial: str = "on_program = true",
    ) -> Path:  # fmt: skip
        text = f'[run]\nduration = {duration}\n[plant]\nmachine = "{MACHINES}/{machine}"\nstep = 0.001\n'
        text += f"[plant.initial]\n{initial}\n[controller]\nperiod = 0.005\n[controller.residuals]\n"
        text += "".join(f'{name} = "{each}"\n' for name, each in residuals.items()) + "[target]\n"
        text += "".join(f'{name} = "{each}"\n' for name, each in target.items()) + more
        file = folder / "extended.toml"
        file.write_text(text)
        return file

    return write


CRANE = {"load_x": "s + l*sin(theta) - X", "load_z": "l*cos(theta) - Z"}


def continuous(file: Path, **overrides: Any) -> Run:
    return servonode.simulate(file, control="continuous", rtol=1e-11, atol=1e-11, **overrides)


def derivatives(text: str, order: int, t: Array) -> list[Array]:
    """A function of time with its derivatives, by sympy."""
    f = sympy.sympify(text, {"t": T})
    return [np.broadcast_to(sympy.lambdify(T, f.diff(T, n), "numpy")(t), t.shape) for n in range(order + 1)]


def test_the_planar_crane_follows_the_flat_inversion_by_hand_over_an_obstacle(launch: Launch) -> None:
    """Blajer and Kolodziejczyk's task: rest to rest, the load lifted over an obstacle. tan theta = -X''/(g - Z'')."""
    s = REST.format("(t/4)")
    X, Z = f"5*{s}", f"4 - 4*{s}*(1 - {s})"
    run = continuous(launch("crane.py:model", CRANE, {"X": X, "Z": Z}, duration=4.0))
    t, g = run.t, 9.81
    (x, _, ax, jx, sx), (z, dz, az, jz, sz) = (derivatives(each, 4, t) for each in (X, Z))
    theta = np.arctan2(-ax, g - az)
    # tan theta = p, p' and p'' by hand
    p, q = -ax, g - az
    dp, dq, ddp, ddq = -jx, -jz, -sx, -sz
    slope = (dp * q - p * dq) / (p * p + q * q)
    bend = ((ddp * q - p * ddq) * (p * p + q * q) - (dp * q - p * dq) * 2 * (p * dp + q * dq)) / (p * p + q * q) ** 2
    l = z / np.cos(theta)  # noqa: E741
    trolley = x - z * np.tan(theta)
    tan, sec2 = np.tan(theta), 1 / np.cos(theta) ** 2
    trolley_dd = ax - az * tan - 2 * dz * sec2 * slope - z * (2 * sec2 * tan * slope**2 + sec2 * bend)
    l_dd = az / np.cos(theta) + 2 * dz * np.sin(theta) * sec2 * slope
    l_dd += z * ((sec2 / np.cos(theta) * (1 + np.sin(theta) ** 2)) * slope**2 + np.sin(theta) * sec2 * bend)
    tension = 100.0 * (g - az) / np.cos(theta)
    F = 10.0 * trolley_dd - tension * np.sin(theta)
    M_w = 0.1 / 0.1 * l_dd - 0.1 * tension
    load = np.abs([run.residual["load_x"], run.residual["load_z"]])
    assert load.max() < 1e-9
    for name, expected in (("theta", theta), ("l", l), ("s", trolley)):
        assert_allclose(run.state[name], expected, atol=1e-9)
    assert_allclose(run.input["F"], F, atol=1e-6)
    assert_allclose(run.input["M_w"], M_w, atol=1e-6)
    assert abs(run.state["s"][-1] - 5.0) < 1e-9
    assert abs(run.state["theta_dot"][-1]) < 1e-9


def test_the_loads_error_decays_as_the_matrix_exponential(launch: Launch) -> None:
    """Off the program: f and its derivatives obey (d/dt + lambda)^4 f = 0 from whatever they are at the start."""
    initial = "s = 0.3\nl = 4.0\ntheta = 0.1\ns_dot = -0.2\nl_dot = 0.1"
    target = {"X": "0.5*sin(t)", "Z": "3.8 + 0.3*cos(t)"}
    gains = "[controller.gains]\nlambda_load_x = 3.0\nlambda_load_z = 2.0\n"
    loop = servonode.load(launch("crane.py:model", CRANE, target, gains, initial=initial))
    closed_loop = loop.closed_loop
    assert closed_loop.control is not None
    run, law = loop.simulate(control="continuous", rtol=1e-11, atol=1e-11), closed_loop.control.law
    start = law.chains(0.0, closed_loop.start, closed_loop.goal(0.0))
    for f, rate, name in zip(start, (3.0, 2.0), CRANE, strict=True):
        A = np.diag(np.ones(3), 1)
        A[3] = [-comb(4, j) * rate ** (4 - j) for j in range(4)]
        expected = [(expm(A * t) @ f)[0] for t in run.t]
        assert abs(f[0]) > 0.1
        assert_allclose(run.residual[name], expected, atol=1e-9)


def test_fused_nodes_and_the_law_in_c_agree(launch: Launch, tmp_path: Path) -> None:
    file = launch("crane.py:model", CRANE, {"X": "sin(t)", "Z": "4 - 0.2*sin(t)**2"}, duration=0.5)
    fused = servonode.simulate(file)
    nodes = servonode.load(file).simulate(loop="nodes")
    for name, values in fused.columns.items():
        assert np.array_equal(values, nodes.columns[name]), name
    report = servonode.check(file)
    assert report.verdict == "yes"
    assert report.extension["steps"] == [
        "F and M_w reach load_x and load_z too early: M_w is demanded through 2 integrators"
    ]
    assert report.extension["left_free"] == 0
    assert [each["relative_degree"] for each in report.residuals.values()] == [4, 4]
    shown = servonode.load(file).show()
    assert "(d/dt + 2)^4 f1 = 0" in shown
    assert "demanded_M_w_dot" in servonode.load(file).show("c")


@pytest.mark.slow
def test_the_crane_in_space_follows_the_flat_inversion_by_hand(launch: Launch) -> None:
    """The rope has the direction of the load's a - g: tan beta cos-free forms of the planar crane's."""
    residuals = {
        "load_x": "x + l*sin(alpha) - X",
        "load_y": "y + l*cos(alpha)*sin(beta) - Y",
        "load_z": "l*cos(alpha)*cos(beta) - Z",
    }
    target = {"X": "2*tanh(t - 1)", "Y": "sin(t)", "Z": "4 - sin(t)**2"}
    run = continuous(launch("crane_3d.py:model", residuals, target))
    (X, _, ax), (Y, _, ay), (Z, _, az) = (derivatives(each, 2, run.t) for each in target.values())
    beta = np.arctan2(-ay, 9.81 - az)
    alpha = np.arctan2(-ax, np.hypot(ay, 9.81 - az))
    length = Z / (np.cos(alpha) * np.cos(beta))
    assert np.abs(list(run.residual.values())).max() < 1e-9
    assert_allclose(run.state["alpha"], alpha, atol=1e-9)
    assert_allclose(run.state["beta"], beta, atol=1e-9)
    assert_allclose(run.state["x"], X - length * np.sin(alpha), atol=1e-9)
    assert_allclose(run.state["y"], Y - length * np.cos(alpha) * np.sin(beta), atol=1e-9)


def test_the_quadrotor_follows_the_flat_inversion_by_hand(launch: Launch) -> None:
    target = {"X": "2*sin(t)", "Z": "cos(t)"}
    run = continuous(launch("quadrotor.py:model", {"px": "x - X", "pz": "z - Z"}, target))
    (_, _, ax, jx, sx), (_, _, az, jz, sz) = (derivatives(each, 4, run.t) for each in target.values())
    p, q = -ax, az + 9.81  # tan theta = p/q
    rate = (-jx * q - p * jz) / (p * p + q * q)
    bend = ((-sx * q - p * sz) - rate * 2 * (p * -jx + q * jz)) / (p * p + q * q)
    assert np.abs(list(run.residual.values())).max() < 1e-9
    assert_allclose(run.state["theta"], np.arctan2(p, q), atol=1e-9)
    assert_allclose(run.input["T"], 0.5 * np.hypot(p, q), atol=1e-9)
    assert_allclose(run.input["tau"], 0.01 * bend, atol=1e-9)


def test_the_elastic_arm_of_relative_degree_four_needs_no_integrator(launch: Launch) -> None:
    """phi = theta + (I theta'' + w sin theta)/k, tau = J phi'' + k (phi - theta)."""
    run = continuous(launch("elastic_arm.py:one", {"angle": "theta - A"}, {"A": "sin(2*t)"}))
    a, da, dda, _, d4a = derivatives("sin(2*t)", 4, run.t)
    I, J, k, w = 0.5, 0.02, 50.0, 5.0  # noqa: E741
    phi = a + (I * dda + w * np.sin(a)) / k
    phi_dd = dda + (I * d4a + w * (np.cos(a) * dda - np.sin(a) * da**2)) / k
    assert not run.program_state
    assert np.abs(run.residual["angle"]).max() < 1e-9
    assert_allclose(run.state["phi"], phi, atol=1e-9)
    assert_allclose(run.input["tau"], J * phi_dd + k * (phi - a), atol=1e-7)


@pytest.mark.slow
def test_stable_inversion_of_the_elastic_arm_is_the_flat_inversion(launch: Launch) -> None:
    """Nothing is left free, and the law that follows takes fewer derivatives of the target than the servo law."""
    file = launch("elastic_arm.py:one", {"angle": "theta - A"}, {"A": "sin(2*t)"}, "[controller.inversion]\n")
    a, _, dda = derivatives("sin(2*t)", 2, (run := continuous(file)).t)
    assert np.abs(run.residual["angle"]).max() < 1e-8
    assert_allclose(run.state["phi"], a + (0.5 * dda + 5.0 * np.sin(a)) / 50.0, atol=1e-8)
    assert any("the goal leaves nothing free" in each.text for each in servonode.check(file).findings)


def test_damping_that_keeps_integrators_away_is_named(launch: Launch) -> None:
    file = launch("elastic_arm.py:one", {"angle": "theta - A"}, {"A": "sin(2*t)"}, initial="theta = 0.0")
    with pytest.raises(LaunchError, match=r"with controller.damping no integrators are looked for .* leave it out"):
        servonode.simulate(file, controller__damping=1e-3)


@pytest.mark.slow
def test_two_links_with_elastic_joints_follow_their_motors_inversion(launch: Launch) -> None:
    target = {"A": "sin(2*t)", "B": "0.5*cos(3*t)"}
    run = continuous(launch("elastic_arm.py:two", {"first": "theta_1 - A", "second": "theta_2 - B"}, target))
    (a, da, dda), (b, db, ddb) = (derivatives(each, 2, run.t) for each in target.values())
    L, g, k = 0.5, 9.81, 80.0
    second = L * L * ddb + L * L * (np.cos(a - b) * dda - np.sin(a - b) * da**2) + g * L * np.sin(b)
    first = 2 * L * L * dda + L * L * (np.cos(a - b) * ddb + np.sin(a - b) * db**2) + 2 * g * L * np.sin(a)
    twist_2 = second / k
    twist_1 = (first + second) / k
    assert np.abs(list(run.residual.values())).max() < 1e-9
    assert_allclose(run.state["phi_2"], b - a + twist_2, atol=1e-9)
    assert_allclose(run.state["phi_1"], a + twist_1, atol=1e-9)


@pytest.mark.slow
def test_the_snakeboard_follows_a_place_while_its_path_is_bent(launch: Launch) -> None:
    """Heading and steering follow from the path: theta from its tangent, tan phi = l times its curvature."""
    angle = "0.5*t + 0.05*t**2"
    target = {"X": f"2*sin({angle})", "Y": f"3 - 3*cos({angle})"}
    run = continuous(launch("snakeboard.py:model", {"px": "x - X", "py": "y - Y"}, target))
    (_, dx, ax), (_, dy, ay) = (derivatives(each, 2, run.t) for each in target.values())
    speed = np.hypot(dx, dy)
    assert np.abs(list(run.residual.values())).max() < 1e-9
    assert_allclose(run.state["v"], speed, atol=1e-9)
    assert_allclose(run.state["theta"], np.arctan2(dy, dx), atol=1e-9)
    assert_allclose(np.tan(run.state["phi"]), 0.2 * (dx * ay - dy * ax) / speed**3, atol=1e-9)
    assert (
        servonode.check(launch("snakeboard.py:model", {"px": "x - X", "py": "y - Y"}, target)).extension["left_free"]
        == 2
    )


def test_a_goal_that_no_integrators_reach_is_refused_in_one_line(launch: Launch) -> None:
    file = launch("crane.py:model", {"here": "s - X", "there": "2*s + sin(s) - X"}, {"X": "0.1*t"}, initial="l = 4.0")
    with pytest.raises(LaunchError) as error:
        servonode.simulate(file)
    assert "here and there depend on each other, however often they are differentiated" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_singular_set_is_named_before_the_run(launch: Launch) -> None:
    """In free fall the thrust is 0, and the tilt does not move a quadrotor."""
    file = launch("quadrotor.py:model", {"px": "x - X", "pz": "z - Z"}, {"X": "0*t", "Z": "-9*t**3/6"})
    report = servonode.check(file)
    assert report.verdict == "no"
    assert report.extension["determinant"] == "-demanded_T/(I*m**2)"
    assert any("crosses a singular set between t = 1.08" in each.text for each in report.findings)
    file = launch("quadrotor.py:model", {"px": "x - X", "pz": "z - Z"}, {"X": "0*t", "Z": "-9.81*t**2/2"})
    with pytest.raises(LaunchError, match="px, pz lost rank"):
        servonode.simulate(file)


def test_what_does_not_combine_with_integrators_is_refused_in_one_line(launch: Launch) -> None:
    gains = "[controller.gains]\nintegral = 0.1\n"
    for more, words in (
        (gains, "integral action"),
        ("[controller.gains]\nK0 = [[1, 0], [0, 1]]\n", "matrices are for 1 and 2; give convergence rates"),
    ):
        with pytest.raises(LaunchError, match=words) as error:
            servonode.simulate(launch("crane.py:model", CRANE, {"X": "sin(t)", "Z": "4"}, more))
        assert "\n" not in str(error.value)


def test_rates_of_any_degree_have_one_eigenvalue_and_sampled_limits() -> None:
    from servonode.mechanics import discrete
    from servonode.mechanics.stabilize import Gains, system_matrix

    gains = Gains.from_rates([2.0, 3.0], [4, 1])
    found = Polynomial(np.poly(system_matrix(gains))[::-1])
    assert_allclose(found.coef, (Polynomial([2.0, 1.0]) ** 4 * Polynomial([3.0, 1.0])).coef, atol=1e-12)
    assert_allclose(gains.rates, [2.0, 3.0], rtol=1e-14)
    # one period of the chain of integrators under its held demand, by the matrix exponential
    T_s, A = 0.01, np.zeros((5, 5))
    A[:4, 1:] = np.eye(4)
    A_d, B, _ = discrete.sampled(Gains.from_rates([2.0], [4]), T_s, 0.0)
    assert_allclose(np.hstack([A_d, B]), expm(A * T_s)[:4], atol=1e-16)


def test_a_set_that_no_condition_shows_is_found_between_states(tmp_path: Path) -> None:
    """A ball on a beam (J. Hauser, S. Sastry, P. Kokotovic, 1992): W of its place is in proportion to r theta'."""
    (tmp_path / "beam.py").write_text(BALL_ON_BEAM)
    start = {"r": 0.3, "theta_dot": 0.1}
    launch = {
        "run": {"duration": 0.1},
        "plant": {"machine": f"{tmp_path}/beam.py:model", "initial": start},
        "controller": {"residuals": {"place": "r - 0.3"}},
    }
    found = {each.subject: each for each in servonode.check(launch).findings}["rank"]
    assert found.level == "warn"
    assert "tau loses control of place at some states: the determinant of W changes its sign at t = 0 s, " in found.text
    assert found.text.split("t = 0 s, ")[1].split(" = 0;")[0] == "theta_dot"
    launch["plant"]["initial"] = {}
    with pytest.raises(LaunchError, match=r"servo-constraint place lost rank \(condition inf: .*theta_dot.* is 0\)"):
        servonode.simulate(launch)


BALL_ON_BEAM = '''
from sympy import sin

from servonode.mechanics import Model, coordinate, input_


def model() -> Model:
    """A heavy ball, small and without rotation, on a beam."""
    r, theta = coordinate("r", "place of the ball", "m"), coordinate("theta", "angle of the beam", "rad")
    tau = input_("tau", "torque", "N m")
    return Model(
        name="beam",
        description="ball on a beam",
        coordinates=(r, theta),
        kinetic=(r.rate**2 + (1 + r**2) * theta.rate**2) / 2,
        potential=9.81 * r * sin(theta),
        inputs={tau: theta.rate},
    )
'''
