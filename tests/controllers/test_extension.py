"""Any relative degree and dynamic extension: cranes, quadrotor, elastic arms, snakeboard against inversions by hand."""

import io
import runpy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from click.testing import CliRunner
from numpy.polynomial import Polynomial
from numpy.testing import assert_allclose
from scipy.linalg import expm

import servonode
from servonode.analysis.check import structure
from servonode.cli.main import main
from servonode.closed_loop.launch_error import ProgramRefused
from servonode.closed_loop.launch_file import LaunchError
from servonode.controllers import Program, residual, target
from servonode.controllers.engine.law_description import describe_extension
from servonode.controllers.engine.law_source import law_source
from servonode.controllers.engine.layout import CROSSED as CROSSES
from servonode.controllers.engine.layout import GOOD
from servonode.controllers.engine.servo import derive_servo
from servonode.definitions import progress
from servonode.mechanics import Model, body, coordinate, first_order, input_, parameter, vector, velocity
from servonode.mechanics.derive import derive
from servonode.nodes.answerer import Answerer, ReceivedGoals
from servonode.record.run import Run
from tests.mechanics.test_independent import four_bar

Array = Any
TESTS = Path(__file__).parents[1]
EXAMPLES, TEXTBOOK = TESTS.parent / "examples", TESTS / "closed_loop" / "textbook"
T = sympy.Symbol("t")
REST = "({0}**5*(126 - 420*{0} + 540*{0}**2 - 315*{0}**3 + 70*{0}**4))"  # from 0 to 1, four derivatives 0 at both ends


def machine_of(name: str, coordinates: Any, kinetic: Any, inputs: Any, **more: Any) -> Model:
    return Model(name, name, kinetic, coordinates=coordinates, inputs=inputs, **more)


def beam() -> Model:
    """A heavy ball, small and without rotation, on a beam (J. Hauser, S. Sastry, P. Kokotovic, 1992)."""
    r, theta = coordinate("r", "position of the ball", "m"), coordinate("theta", "angle of the beam", "rad")
    kinetic = (r.rate**2 + (1 + r**2) * theta.rate**2) / 2
    tau = input_("tau", "torque", "N m")
    return machine_of("beam", (r, theta), kinetic, {tau: theta.rate}, potential=9.81 * r * sympy.sin(theta))


def crank() -> Model:
    """A crank, which a force turns by its lever: W = cos(q)."""
    q, F = coordinate("q", "angle", "rad"), input_("F", "force", "N")
    return machine_of("crank", (q,), q.rate**2 / 2, {F: sympy.cos(q) * q.rate})


def pvtol(coupled: bool = True) -> Model:
    """An aircraft with vertical take-off in a vertical plane: its torque also pushes it sideways, by epsilon."""
    x, z, theta = coordinate("x", "place", "m"), coordinate("z", "height", "m"), coordinate("theta", "tilt", "rad")
    epsilon = parameter("epsilon", "sideways push of the torque", "1/m", default=0.0)
    gone = parameter("gone", "another parameter that is 0", "N", default=0.0)
    T, tau = input_("T", "thrust", "N"), input_("tau", "torque", "N m")
    c, s = sympy.cos(theta), sympy.sin(theta)
    inputs = {
        T: z.rate * c - x.rate * s,
        tau: theta.rate + (epsilon * (x.rate * c + z.rate * s) if coupled else 0),
    }
    kinetic, weight = (x.rate**2 + z.rate**2 + theta.rate**2) / 2, 9.81 + gone
    return machine_of("pvtol", (x, z, theta), kinetic, inputs, potential=weight * z, parameters=(epsilon, gone))


def loose() -> Model:
    """Two masses that nothing connects."""
    a, b, F = coordinate("a", "driven", "m"), coordinate("b", "loose", "m"), input_("F", "force", "N")
    return machine_of("loose", (a, b), (a.rate**2 + b.rate**2) / 2, {F: a.rate})


def twins() -> Model:
    """An arm at p on a spring, whose other end at q two motors turn."""
    q, p = coordinate("q", "motors", "rad"), coordinate("p", "arm", "rad")
    one, other = input_("one", "torque", "N m"), input_("other", "torque", "N m")
    kinetic = (q.rate**2 + p.rate**2) / 2
    return machine_of("twins", (q, p), kinetic, {one: q.rate, other: q.rate}, potential=25 * (q - p) ** 2)


def equal(machine: Model) -> Program:
    """Both motors give half."""
    one, other = machine.inputs
    return Program("equal", "", [residual("arm", machine["p"], "angle", "rad", rate=3.0)], relations=(one - other,))


def least(machine: Model) -> Program:
    """The motors share the torque."""
    return Program("least", "", [residual("arm", machine["p"], "angle", "rad", rate=3.0)], least_norm=True)


def stated(
    machine: Any, residuals: dict[str, str] | None, duration: float = 0.1, program: Any = None, **more: Any
) -> dict[str, Any]:
    """A launch file; `more`: sections, and `controller`, further keys of that one."""
    controller = {"residuals": residuals} if residuals else {"program": program}
    controller |= more.pop("controller", {})
    plant = {"machine": machine} | more.pop("plant", {})
    return {"run": {"duration": duration}, "plant": plant, "controller": controller, **more}


def launch(
    machine: str, residuals: dict[str, str], target: dict[str, str], duration: float = 2.0,
    initial: dict[str, Any] | None = None, gains: dict[str, Any] | None = None, **controller: Any,
) -> dict[str, Any]:  # fmt: skip
    """A launch file of a machine in examples/, or of any file, from a start on the program where none is given."""
    controller |= {"period": 0.005, "gains": {"lambda": 2.0} if gains is None else gains}
    plant = {"step": 0.001, "initial": initial or {"on_program": True}}
    return stated(f"{EXAMPLES / machine}", residuals, duration, plant=plant, controller=controller, target=target)


def refusal_of(launch: dict[str, Any]) -> str:
    (found,) = [each for each in servonode.check(launch).findings if each.level == "refuse"]
    return f"{found.subject}: {found.text}"


ON_PROGRAM = {"initial": {"on_program": True}}
CROSSED = "lost rank (the determinant of W has changed its sign since the last control instant"
CRANE = {"load_x": "x - X", "load_z": "z - Z"}
ARM = {"angle": "p - A"}


def continuous(file: dict[str, Any], **overrides: Any) -> Run:
    return servonode.simulate(file, control="continuous", rtol=1e-11, atol=1e-11, **overrides)


def derivatives(text: str, order: int, t: Array) -> list[Array]:
    """A function of time with its derivatives, by sympy."""
    f = sympy.sympify(text, {"t": T})
    return [np.broadcast_to(sympy.lambdify(T, f.diff(T, n), "numpy")(t), t.shape) for n in range(order + 1)]


@pytest.mark.slow
def test_planar_crane_follows_the_flat_inversion_by_hand() -> None:
    """Blajer and Kolodziejczyk's task: rest to rest, the load lifted over an obstacle.

    tan theta = -x''/(g - z''), where z is the depth of the load below the rail.
    """
    s = REST.format("(t/4)")
    X, depth = f"5*{s}", f"4 - 4*{s}*(1 - {s})"
    run = continuous(launch("crane/crane.py:model", CRANE, {"X": X, "Z": f"5 - ({depth})"}, duration=4.0))
    t, g = run.t, 9.81
    (x, _, ax, jx, sx), (z, dz, az, jz, sz) = (derivatives(each, 4, t) for each in (X, depth))
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


@pytest.mark.slow
def test_the_planar_crane_has_the_inputs_of_a_published_task() -> None:
    """R. Altmann and J. Heiland (2017): rest to rest from (0, 4) to (5, 1) in 3 s, and their closed form of the inputs.

    Their multiplier is half the tension by the length; z is the depth, the winch has turned by beta, and
    s = x + z x''/(g - z''), F = m_t s'' - 2 (x - s) S/(2 l), M = J beta'' - r S.
    """
    share = REST.format("(t/3)")
    X, depth = f"5*{share}", f"4 - 3*{share}"
    run = continuous(launch("crane/crane.py:model", CRANE, {"X": X, "Z": f"5 - ({depth})"}, duration=3.0))
    x, z = (sympy.sympify(each, {"t": T}) for each in (X, depth))
    trolley = x + z * x.diff(T, 2) / (9.81 - z.diff(T, 2))
    rope = sympy.sqrt((x - trolley) ** 2 + z**2)
    multiplier = 100 * (9.81 - z.diff(T, 2)) / (2 * z)
    F = 10 * trolley.diff(T, 2) - 2 * (x - trolley) * multiplier
    M_w = (rope / 0.1).diff(T, 2) / 10 - 2 * 0.1 * rope * multiplier
    for name, known, size in (("F", F, 509.3), ("M_w", M_w, 145.8)):
        found = run.input[name]
        assert_allclose(found, sympy.lambdify(T, known, "numpy")(run.t), atol=1e-6)
        assert np.abs(found).max() == pytest.approx(size, abs=0.05)


def test_the_loads_error_decays_as_the_matrix_exponential() -> None:
    """Off the program: f and its derivatives obey (d/dt + lambda)^4 f = 0 from whatever they are at the start."""
    initial = {"s": 0.3, "l": 4.0, "theta": 0.1, "s_dot": -0.2, "l_dot": 0.1}
    target = {"X": "0.5*sin(t)", "Z": "1.2 - 0.3*cos(t)"}
    gains = {"lambda_load_x": 3.0, "lambda_load_z": 2.0}
    loop = servonode.load(launch("crane/crane.py:model", CRANE, target, gains=gains, initial=initial))
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
    again = servonode.load(launch("crane/crane.py:model", CRANE, target, initial=initial)).closed_loop
    assert again.control is not None
    again.control.law.stabilise(dict(zip(CRANE, (3.0, 2.0), strict=True)))
    at = 0.0, closed_loop.start, closed_loop.goal(0.0)
    assert again.control.law.evaluate(*at).inputs.tolist() == law.evaluate(*at).inputs.tolist()


def test_fused_nodes_and_the_law_in_c_agree() -> None:
    file = launch("crane/crane.py:model", CRANE, {"X": "sin(t)", "Z": "1 + 0.2*sin(t)**2"}, duration=0.5)
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
def test_the_crane_in_space_follows_the_flat_inversion_by_hand() -> None:
    """The rope has the direction of the load's a - g: tan beta cos-free forms of the planar crane's."""
    residuals = {"load_x": "x - X", "load_y": "y - Y", "load_z": "z - Z"}
    target = {"X": "2*tanh(t - 1)", "Y": "sin(t)", "Z": "1 + sin(t)**2"}
    run = continuous(launch("crane_3d/crane_3d.py:model", residuals, target))
    depth = f"5 - ({target['Z']})"
    (X, _, ax), (Y, _, ay), (Z, _, az) = (derivatives(each, 2, run.t) for each in (target["X"], target["Y"], depth))
    beta = np.arctan2(-ay, 9.81 - az)
    alpha = np.arctan2(-ax, np.hypot(ay, 9.81 - az))
    length = Z / (np.cos(alpha) * np.cos(beta))
    assert np.abs(list(run.residual.values())).max() < 1e-9
    assert_allclose(run.state["alpha"], alpha, atol=1e-9)
    assert_allclose(run.state["beta"], beta, atol=1e-9)
    assert_allclose(run.state["s_x"], X - length * np.sin(alpha), atol=1e-9)
    assert_allclose(run.state["s_y"], Y - length * np.cos(alpha) * np.sin(beta), atol=1e-9)


def test_the_quadrotor_follows_the_flat_inversion_by_hand() -> None:
    target = {"X": "2*sin(t)", "Z": "cos(t)"}
    run = continuous(launch("quadrotor/quadrotor.py:model", {"px": "x - X", "pz": "z - Z"}, target))
    (_, _, ax, jx, sx), (_, _, az, jz, sz) = (derivatives(each, 4, run.t) for each in target.values())
    p, q = -ax, az + 9.81  # tan theta = p/q
    rate = (-jx * q - p * jz) / (p * p + q * q)
    bend = ((-sx * q - p * sz) - rate * 2 * (p * -jx + q * jz)) / (p * p + q * q)
    assert np.abs(list(run.residual.values())).max() < 1e-9
    assert_allclose(run.state["theta"], np.arctan2(p, q), atol=1e-9)
    assert_allclose(run.input["T"], 0.5 * np.hypot(p, q), atol=1e-9)
    assert_allclose(run.input["tau"], 0.01 * bend, atol=1e-9)


def test_elastic_arm_of_relative_degree_4_needs_no_integrator() -> None:
    """q = p + (I p'' + W sin p)/k, tau = J q'' + k (q - p)."""
    run = continuous(launch("elastic_arm/arm.py:model", ARM, {"A": "sin(2*t)"}))
    a, da, dda, _, d4a = derivatives("sin(2*t)", 4, run.t)
    I, J, k, W = 0.3, 0.05, 50.0, 5.0  # noqa: E741
    q = a + (I * dda + W * np.sin(a)) / k
    q_dd = dda + (I * d4a + W * (np.cos(a) * dda - np.sin(a) * da**2)) / k
    assert not run.program_state
    assert np.abs(run.residual["angle"]).max() < 1e-9
    assert_allclose(run.state["q"], q, atol=1e-9)
    assert_allclose(run.input["tau"], J * q_dd + k * (q - a), atol=1e-7)


@pytest.mark.slow
def test_stable_inversion_of_the_elastic_arm_is_the_flat_inversion() -> None:
    """Nothing is left free, and the law that follows takes fewer derivatives of the target than the servo law."""
    file = launch("elastic_arm/arm.py:model", ARM, {"A": "sin(2*t)"}, gains={}, inversion={})
    file["plant"] |= {"parameters": {"I": 0.5, "J": 0.02}}
    a, _, dda = derivatives("sin(2*t)", 2, (run := continuous(file)).t)
    assert np.abs(run.residual["angle"]).max() < 1e-8
    assert_allclose(run.state["q"], a + (0.5 * dda + 5.0 * np.sin(a)) / 50.0, atol=1e-8)
    assert any("the goal leaves nothing free" in each.text for each in servonode.check(file).findings)


def test_damping_that_keeps_integrators_away_is_named() -> None:
    file = launch("elastic_arm/arm.py:model", ARM, {"A": "sin(2*t)"}, initial={"p": 0.0})
    with pytest.raises(LaunchError, match=r"with controller.damping no integrators are looked for .* leave it out"):
        servonode.simulate(file, controller__damping=1e-3)


@pytest.mark.slow
def test_elastic_arm_of_two_links_follows_its_inversion() -> None:
    target = {"A": "sin(2*t)", "B": "0.5*cos(3*t)"}
    run = continuous(
        launch(f"{TEXTBOOK}/elastic_arm.py:two", {"first": "theta_1 - A", "second": "theta_2 - B"}, target)
    )
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
def test_the_snakeboard_follows_a_place_while_its_path_is_bent() -> None:
    """Heading and steering follow from the path: theta from its tangent, tan phi = l times its curvature."""
    angle = "0.5*t + 0.05*t**2"
    target = {"X": f"2*sin({angle})", "Y": f"3 - 3*cos({angle})"}
    file = launch("snakeboard/snakeboard.py:model", {"px": "x - X", "py": "y - Y"}, target)
    run = continuous(file)
    (_, dx, ax), (_, dy, ay) = (derivatives(each, 2, run.t) for each in target.values())
    speed = np.hypot(dx, dy)
    assert np.abs(list(run.residual.values())).max() < 1e-9
    assert_allclose(run.state["v"], speed, atol=1e-9)
    assert_allclose(run.state["theta"], np.arctan2(dy, dx), atol=1e-9)
    assert_allclose(np.tan(run.state["phi"]), 0.2 * (dx * ay - dy * ax) / speed**3, atol=1e-9)
    assert servonode.check(file).extension["left_free"] == 2


def test_a_goal_that_no_integrators_reach_is_refused_in_one_line() -> None:
    file = launch(
        "crane/crane.py:model", {"here": "s - X", "there": "2*s + sin(s) - X"}, {"X": "0.1*t"}, initial={"l": 4.0}
    )
    with pytest.raises(LaunchError) as error:
        servonode.simulate(file)
    assert "here and there depend on each other, however often they are differentiated" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_singular_set_is_named_before_the_run() -> None:
    """In free fall the thrust is 0, and the tilt does not move a quadrotor."""
    file = launch("quadrotor/quadrotor.py:model", {"px": "x - X", "pz": "z - Z"}, {"X": "0*t", "Z": "-9*t**3/6"})
    report = servonode.check(file)
    assert report.verdict == "no"
    assert report.extension["determinant"] == "-demanded_T/(I*m**2)"
    found = [each.text for each in report.findings if f"px, pz {CROSSED}" in each.text]
    assert len(found) == 1
    assert found[0].startswith("ends by a fault at t = 1.09")
    file = launch("quadrotor/quadrotor.py:model", {"px": "x - X", "pz": "z - Z"}, {"X": "0*t", "Z": "-9.81*t**2/2"})
    with pytest.raises(LaunchError, match="px, pz lost rank"):
        servonode.simulate(file)


FALLS = ("quadrotor/quadrotor.py:model", {"px": "x - X", "pz": "z - Z"}, {"X": "0*t", "Z": "-9.1*t**3/6"})
NO_THRUST = 9.81 / 9.1  # s


@pytest.mark.parametrize("loop", ["fused", "nodes"])
def test_a_singular_set_between_two_instants_ends_a_run(loop: str) -> None:
    run = servonode.load(launch(*FALLS)).simulate(loop=loop)
    assert run.fault is not None
    assert run.fault["name"] == "law"
    assert 0 < run.fault["t"] - NO_THRUST < 0.005
    assert f"px, pz {CROSSED}: -demanded_T/(I*m**2) is 0)" in run.fault["text"]


def test_a_singular_set_on_the_way_ends_an_integration() -> None:
    with pytest.raises(servonode.ServonodeError) as error:
        continuous(launch(*FALLS))
    assert str(error.value).startswith(f"at t = {NO_THRUST:g} s the servo-constraints px, pz lost rank (")


@pytest.mark.parametrize("loop", ["fused", "nodes"])
def test_input_that_loses_its_effect_ends_a_run(loop: str) -> None:
    """A crank at its dead centre, which it passes at a constant speed."""
    period = {"period": 0.007}
    file = stated(crank, {"angle": "q - 1.2 - t"}, 1.0, plant=ON_PROGRAM, controller=period)
    run = servonode.load(file).simulate(loop=loop)
    assert run.fault is not None
    assert f"angle {CROSSED})" in run.fault["text"]
    assert run.fault["t"] == pytest.approx(0.007 * np.ceil((np.pi / 2 - 1.2) / 0.007))


def test_a_sign_that_was_lost_stays_lost_until_the_state_is_back() -> None:
    """The one command that says so may not arrive."""
    control = servonode.load(launch(*FALLS)).closed_loop.control
    assert control is not None
    answer, before, found = control.law.answer(), 0.0, []
    for sign in (1.0, 1.0, -1.0, -2.0, 3.0):
        answer.status = GOOD
        answer.out[control.law.answer_layout.determinant] = sign
        before = answer.compare(before)
        found.append(answer.status)
    assert found == [GOOD, GOOD, CROSSES, CROSSES, GOOD]


def test_singular_set_may_be_crossed_while_goal_time_stands() -> None:
    answerer = Answerer(servonode.load(stated(crank, {"angle": "q - 1.2 - t"})).closed_loop, ReceivedGoals((), 1))

    def status(k: int, q: float) -> int:
        return answerer.follow(k, np.array([q, 1.0, 0.0]))

    turned_by_hand = [(0, 1.2), (5, 1.56), (5, 1.58), (5, 1.57), (5, 1.58), (10, 1.58)]
    assert [status(*each) for each in turned_by_hand] == [GOOD] * len(turned_by_hand)
    assert status(15, 1.56) == CROSSES


def masses(n: int) -> Callable[[], Model]:
    """The model of n masses of 1 kg, each pushed by a force of its own."""

    def build() -> Model:
        x = [coordinate(f"x_{i}", "place", "m") for i in range(n)]
        forces = [input_(f"F_{i}", "force", "N") for i in range(n)]
        return Model(
            name="masses",
            description="masses on a line",
            coordinates=tuple(x),
            kinetic=sum(each.rate**2 for each in x) / 2,
            inputs={force: each.rate for force, each in zip(forces, x, strict=True)},
        )

    build.__name__ = f"masses_{n}"
    return build


def mixed(model: Model) -> Program:
    """Goals of all speeds; W_ij = 0.3 + v_i where i = j, else 0.3."""
    v = [q.rate for q in model.coordinates]
    goals = [each**2 / 2 + sympy.Rational(3, 10) * sum(v) for each in v]
    return Program("mixed", "speeds", [residual(f"f_{i}", each, "mix") for i, each in enumerate(goals)])


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_sign_of_the_determinant_is_that_of_numpy(small: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    build = masses(n)
    machine = small.machine(build, {}, Path(__file__))
    law = small.law(f"mixed_{n}", build, mixed, machine, Path(__file__))
    law.stabilise({each.name: 1.0 for each in law.description.residuals})
    signs = set()
    for _ in range(50):
        x, nothing = rng.normal(size=machine.n_state), np.zeros(0)
        sign = np.sign(law.evaluate(0.0, x, nothing).determinant)
        assert sign == np.sign(np.linalg.det(law.terms(0.0, x, nothing)["W"]))
        signs.add(sign)
    assert signs == {-1.0, 1.0}


def test_what_a_goal_moves_or_what_switches_tells_no_crossing() -> None:
    """There the determinant may have another sign after a jump."""

    def tells(expression: str) -> bool:
        initial, target = {"q": 1.0, "p": 1.0}, {"A": "2 + sin(2*t)"}
        file = launch("elastic_arm/arm.py:model", {"f": expression}, target, initial=initial)
        control = servonode.load(file).closed_loop
        assert control.control is not None
        return control.control.law.description.tells_crossings

    assert tells("q**2 - A")
    assert not tells("q**2*A - 1")
    assert not tells("q*wrap(q) - A")
    assert not tells("q - A")  # it never changes


def test_a_terminal_sees_what_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("FIRST", "PERIOD"):
        monkeypatch.setattr(progress, name, 0.0)
    model = runpy.run_path(str(EXAMPLES / "crane" / "crane.py"))["model"]()
    s, l, theta = model.coordinates  # noqa: E741
    X, Z = target("X", "", "m"), target("Z", "", "m")
    places = {"load_x": s + l * sympy.sin(theta) - X, "load_z": l * sympy.cos(theta) - Z}
    rows = [residual(name, each, "place", "m") for name, each in places.items()]
    equations, stream = derive(model), Terminal()
    with progress.progress_of("the law", stream):
        law_source(derive_servo(equations, Program("load", "follow", rows, targets=(X, Z))))
    parts = ["derivative 1 of load_x", "extension 2", "derivative 4 of load_z", "text of its functions"]
    lines = [stream.getvalue().index(f"deriving the law: {each} ...") for each in parts]
    assert lines == sorted(lines)


def test_a_coupling_that_is_zero_is_named_with_its_remedy() -> None:
    launch = stated(
        pvtol, {"px": "x - X", "pz": "z - Z"}, 0.5, plant=ON_PROGRAM, controller={"period": 0.005},
        target={"X": "0.1*sin(t)", "Z": "0*t"},
    )  # fmt: skip
    with pytest.raises(LaunchError) as error:
        servonode.simulate(launch)
    text = str(error.value)
    assert "px and pz depend on each other at all 40 states tried" in text
    assert "because epsilon = 0; give it another value, or leave it out of the equations" in text
    assert "\n" not in text
    launch["plant"] |= {"parameters": {"epsilon": 0.1}}
    assert not servonode.load(launch).closed_loop.examination.refusals
    launch["plant"] = {"machine": partial(pvtol, coupled=False), **ON_PROGRAM}
    assert servonode.simulate(launch).fault is None


def test_integrators_refuse_integral_action_and_gain_matrices() -> None:
    for gains, words in (
        ({"integral": 0.1}, "integral action"),
        ({"K0": [[1, 0], [0, 1]]}, "matrices are for 1 and 2; give convergence rates"),
    ):
        with pytest.raises(LaunchError, match=words) as error:
            servonode.simulate(launch("crane/crane.py:model", CRANE, {"X": "sin(t)", "Z": "1"}, gains=gains))
        assert "\n" not in str(error.value)


def test_gains_of_any_degree_have_one_eigenvalue() -> None:
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


def test_a_set_that_no_condition_shows_is_found_between_states() -> None:
    """W of the ball's place is in proportion to r theta'."""
    launch = stated(beam, {"place": "r - 0.3"}, plant={"initial": {"r": 0.3, "theta_dot": 0.1}})
    found = {each.subject: each for each in servonode.check(launch).findings}["rank"]
    assert found.level == "warn"
    assert "tau loses control of place at some states: the determinant of W changes its sign at t = 0 s, " in found.text
    assert found.text.split("t = 0 s, ")[1].split(" = 0;")[0] == "theta_dot"
    launch["plant"]["initial"] = {}
    with pytest.raises(LaunchError, match=r"servo-constraint place lost rank \(condition inf: .*theta_dot.* is 0\)"):
        servonode.simulate(launch)


def checked(example: str) -> str:
    """What the command prints."""
    return CliRunner().invoke(main, ["check", str(EXAMPLES / example), "--set", "run.duration=0.1"]).output


@pytest.mark.parametrize(
    ("initial", "hint"), [({"r": 0.3}, "on_program = true in [plant.initial]"), ({"on_program": True}, "")]
)
def test_ball_at_rest_on_a_beam_is_refused_with_the_remedy(initial: dict[str, Any], hint: str) -> None:
    """No state of rest is better than another: the torque moves the ball's place in proportion to r theta'."""
    with pytest.raises(ProgramRefused) as refused:
        servonode.check(stated(beam, {"place": "r - 0.3 - 0.1*sin(t)"}, plant={"initial": initial}))
    known, text = structure(refused.value.law), str(refused.value)
    assert known["residuals"]["place"]["relative_degree"] == 3
    assert known["extension"]["left_free"] == 1
    assert known["extension"]["determinant"] == "2*r*theta_dot/(r**2 + 1)"
    assert "the inputs cannot move it here, nor at any state of rest: choose another output" in text
    assert "state the inputs by inputs= of a program" in text
    assert text.endswith(hint)
    assert "initial state;" not in text
    assert "keep away" not in text


def test_residual_that_no_input_moves_is_refused() -> None:
    text = refusal_of(stated(loose, {"other": "b - 0.1*t"}))
    assert "no derivative of other contains an input; in place of other choose an output" in text
    assert "one rate more" not in text


@pytest.mark.slow  # many derivatives of a trailer's places
def test_look_ahead_point_is_offered_for_the_position_of_an_axle() -> None:
    text = refusal_of(stated("diff_drive_trailer", {"one": "X - 0.1*t", "other": "2*X + sin(X) - 0.1*t"}))
    assert "they are functions of each other; leave out one of them" in text
    assert "look-ahead" not in text
    text = refusal_of(stated("diff_drive_trailer", {"x": "X - 0.1*t", "y": "Y"}, controller={"damping": 1e-3}))
    assert "for the position of an axle take a look-ahead point" in text
    assert "functions of each other" not in text


@pytest.mark.parametrize(("program", "word"), [(equal, "relations="), (least, "least_norm=True")])
def test_completed_program_is_given_no_integrators(program: Any, word: str) -> None:
    text = refusal_of(stated(twins, None, program=program))
    assert f"with {word} a residual is differentiated at most twice" in text
    assert f"give as many residuals as inputs and leave out {word}" in text
    assert "one rate more" not in text


def test_a_determinant_that_never_vanishes_is_not_printed() -> None:
    text = checked("elastic_arm/arm.toml")
    assert "nothing is left free" in text
    assert "singular" not in text


def test_determinant_is_factored_or_its_states_are_named() -> None:
    """A quadrotor's thrust; of the crane, whose entries have a hundred thousand operations, what they depend on."""
    coupled = ON_PROGRAM | {"parameters": {"epsilon": 0.1}}
    centre = {"px": "x - epsilon*sin(theta)", "pz": "z + epsilon*cos(theta)"}
    report = servonode.check(stated(pvtol, centre, plant=coupled, controller={"period": 0.005}))
    assert report.extension["determinant"] == "epsilon*theta_dot**2 - demanded_T"
    assert report.extension["depends_on"] == ["demanded_T", "theta_dot"]
    text = checked("crane/crane.toml")
    assert "singular on a set of X_ddot, Z_ddot, demanded_M_w, l, l_dot, theta, theta_dot: the run is near" in text


def motor_on(model: Model, turned: sympy.Expr) -> Model:
    """A machine whose input acts through a motor that takes 50 ms."""
    (u,) = model.inputs
    torque = first_order("torque", "of the motor", "N m")
    return replace(
        model, inputs={u: 0}, forces=((torque, turned),), first_order={torque: 20 * (u - torque)}, order=(),
        kinematics={}, velocities=(), faults=(),
    )  # fmt: skip


def test_what_is_left_free_of_a_closed_loop_counts_one_position(small: Any) -> None:
    """A four-bar has the states of its crank: the motor adds one, and a goal of the crank determines all three."""

    def build() -> Model:
        bars = four_bar()
        return motor_on(bars, bars.coordinates[0].rate)

    servo = derive_servo(derive(build()), Program("turn", "", [residual("crank", build()["a"] - 1, "angle", "rad")]))
    described = describe_extension(servo)
    assert described is not None
    assert servo.relative_degrees == (3,)
    assert described.left_free == 0


def test_what_is_left_free_of_an_attitude_counts_three_positions() -> None:
    """A body in space with a motor for each axis: ten states, with one identity between them."""
    model, q = spacecraft()
    rows = [residual(f"q_{i}", q[i], "attitude") for i in (1, 2, 3)]
    described = describe_extension(derive_servo(derive(model), Program("point", "", rows)))
    assert described is not None
    assert described.left_free == 0


def spacecraft() -> tuple[Model, Any]:
    q = vector(coordinate, "q", "attitude quaternion, scalar first", start=(1, 0, 0, 0))
    w = vector(velocity, "w", "angular velocity", "rad/s")
    of_vector = sympy.Matrix(q[1:])
    turning = sympy.Matrix([-w.dot(of_vector), *(q[0] * w + w.cross(of_vector))]) / 2
    torques = [first_order(f"torque_{i}", "of a motor", "N m") for i in range(3)]
    u = [input_(f"u_{i}", "what a motor is asked for", "N m") for i in range(3)]
    model = Model(
        name="spacecraft", description="a body in space", coordinates=tuple(q), velocities=tuple(w),
        kinematics=dict(zip(q, turning, strict=True)), identities={"norm": q.dot(q) - 1},
        bodies=(body("hull", mass=1, velocity=sympy.zeros(3, 1), inertia=1, angular_velocity=w),),
        inputs=dict.fromkeys(u, 0), forces=tuple(zip(torques, w, strict=True)),
        first_order={torque: 20 * (each - torque) for torque, each in zip(torques, u, strict=True)},
    )  # fmt: skip
    return model, q


def test_a_start_on_a_program_of_degree_ten_is_found_though_its_high_derivatives_are_large() -> None:
    x = [coordinate(f"x{i}", "", "m") for i in range(1, 6)]
    F, springs = input_("F", "", "N"), sum(25 * (b - a) ** 2 for a, b in pairwise(x))
    row = Model("row", "masses in a row", sum(a.rate**2 for a in x) / 2, coordinates=tuple(x), potential=springs,
                inputs={F: x[0].rate})  # fmt: skip
    controller = {"residuals": {"last": "x5 - 0.1*sin(2*t)"}, "gains": {"lambda": 5.0}}
    plant = {"machine": lambda: row, "initial": {"on_program": True}}
    start = servonode.load({"run": {"duration": 1.0}, "plant": plant, "controller": controller}).closed_loop.start
    assert (start[4], start[9]) == pytest.approx((0.0, 0.2), abs=1e-9)
    assert start[8] == pytest.approx(0.2 * (1 - 4 / 50), abs=1e-9)  # x4 = x5 + x5''/50
