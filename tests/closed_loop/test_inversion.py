"""Stable inversion against computations of its own: Fourier series and convolutions, equations derived by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

import servonode
from servonode.closed_loop.launch_file import LaunchError
from servonode.controllers.inversion.summary import Inverted
from servonode.loop import Loop
from servonode.mechanics import Model, coordinate, input_

Array = Any
EXAMPLES = Path(__file__).parents[2] / "examples"
SEGWAY = EXAMPLES / "segway" / "place.toml"
CART = EXAMPLES / "inverted_pendulum" / "cart.toml"
M, I, l, m, J, r, b, g = 40.0, 3.0, 0.6, 6.0, 0.1, 0.2, 0.5, 9.81  # noqa: E741  (of segway.py)
w = m + J / r**2


def inverted(loop: Loop) -> Inverted:
    control = loop.closed_loop.control
    assert control is not None
    assert control.inversion is not None
    return control.inversion


def step(t: Array) -> tuple[Array, Array, Array]:
    """X = 1 + tanh(1.5 (t - 5)) with X' and X''."""
    s = np.tanh(1.5 * (t - 5))
    return 1 + s, 1.5 * (1 - s**2), -2 * 1.5**2 * s * (1 - s**2)


def swing(t: Array) -> tuple[Array, Array, Array]:
    """X = 0.3 sin(2 t) with X' and X''."""
    return 0.3 * np.sin(2 * t), 0.6 * np.cos(2 * t), -1.2 * np.sin(2 * t)


def leaning(goal: Callable[[Array], Any], first: float, period: float, n: int = 4096) -> tuple[Array, ...]:
    """Times, lean, its rate and the torque of the Segway: the periodic solution of its internal dynamics.

    Torque and friction act between wheels and body, so r times the equation of the place plus that of the lean is free
    of them; what is left is solved for the lean by a Fourier series, its nonlinear part iterated.
    """
    t = first + period * np.arange(n) / n
    k = 2 * np.pi * np.fft.rfftfreq(n, period / n)
    _, X_dot, X_ddot = goal(t)
    stiffness = M * g * l / (M * l**2 + I + r * M * l)
    theta, rate = np.zeros((2, n))
    for _ in range(200):
        inertia = M * l**2 + I + r * M * l * np.cos(theta)
        pull = M * g * l * np.sin(theta) + r * M * l * rate**2 * np.sin(theta)
        acceleration = (pull - (r * (M + w) + M * l * np.cos(theta)) * X_ddot) / inertia
        series = -np.fft.rfft(acceleration - stiffness * theta) / (k**2 + stiffness)
        theta, rate = np.fft.irfft(series, n), np.fft.irfft(1j * k * series, n)
    along = (M + w) * X_ddot + M * l * (acceleration * np.cos(theta) - rate**2 * np.sin(theta))
    return t, theta, rate, r * along + b * (X_dot / r - rate)


@pytest.fixture(scope="module")
def segway() -> Loop:
    return servonode.load(SEGWAY)


def on_nodes(t: Array, values: Array, nodes: Array) -> Array:
    """Values on an even grid at other times, by their trigonometric polynomial."""
    n, period = len(t), (t[1] - t[0]) * len(t)
    series = np.fft.rfft(values) / n
    phases = np.exp(2j * np.pi * np.outer((nodes - t[0]) / period, np.arange(len(series))))
    weights = np.where(np.arange(len(series)) == 0, 1.0, 2.0)
    return (phases @ (weights * series)).real


def between(loop: Loop, first: float, last: float) -> tuple[Array, Array, Array]:
    """Nodes, states and inputs of the bounded solution within some time."""
    found = inverted(loop).found
    inside = (found.t > first) & (found.t < last)
    return found.t[inside], found.x[inside], found.u[inside]


def test_the_bounded_solution_of_the_segway_is_that_of_a_fourier_series(segway: Loop) -> None:
    t, theta, rate, torque = leaning(step, -15.0, 40.0)
    nodes, x, u = between(segway, -1.0, 11.0)
    assert np.max(np.abs(x[:, 0] - step(nodes)[0])) < 1e-11
    assert np.max(np.abs(x[:, 1] - on_nodes(t, theta, nodes))) < 1e-11
    assert np.max(np.abs(x[:, 3] - on_nodes(t, rate, nodes))) < 1e-11
    assert np.max(np.abs(u[:, 0] - on_nodes(t, torque, nodes))) < 1e-9  # of 14 N m


@pytest.mark.slow
def test_a_periodic_goal_has_a_periodic_solution() -> None:
    loop = servonode.load(SEGWAY, target__X="0.3*sin(2*t)", run__duration=4.0)
    t, theta, rate, torque = leaning(swing, 0.0, np.pi, 256)
    nodes, x, u = between(loop, 0.0, 4.0)
    assert np.max(np.abs(x[:, 1] - on_nodes(t, theta, nodes))) < 1e-9
    assert np.max(np.abs(x[:, 3] - on_nodes(t, rate, nodes))) < 1e-9
    assert np.max(np.abs(u[:, 0] - on_nodes(t, torque, nodes))) < 1e-8
    assert inverted(loop).summary.goal_moves is None


@pytest.mark.slow
def test_the_machine_follows_its_goal_exactly_under_the_continuous_law(segway: Loop) -> None:
    run = segway.simulate(control="continuous", initial={"on_program": True})
    assert np.max(np.abs(run.residual["place"])) < 1e-9


@pytest.mark.slow
def test_sampled_law_misses_its_goal_by_the_period_squared() -> None:
    worst = []
    for period in (0.02, 0.01):
        run = servonode.simulate(SEGWAY, controller__period=period, plant__initial__on_program=True)
        worst.append(np.max(np.abs(run.residual["place"])))
    assert worst[1] < 2e-4
    assert worst[0] / worst[1] == pytest.approx(4.0, abs=0.5)


def test_the_feedback_brings_the_machine_back_from_beside_the_solution(segway: Loop) -> None:
    run = segway.simulate(initial={"theta": 0.1, "x": -0.2})
    error = np.abs(run.residual["place"])
    assert error[0] == pytest.approx(0.2, abs=1e-3)
    assert error[-1] < 1e-3
    assert np.max(np.abs(run.state["theta"])) < 0.5


def test_check_tells_eigenvalues_tails_and_what_moves_before_the_goal(segway: Loop) -> None:
    found = {each.subject: each for each in segway.check().findings}
    stiffness = M * g * l / (M * l**2 + I + r * M * l)
    assert f"zero dynamics -{stiffness**0.5:.4g}, {stiffness**0.5:.4g} 1/s (unstable" in found["inversion"].text
    summary, solution = inverted(segway).summary, inverted(segway).found
    assert solution.before == pytest.approx(np.log(1e10) / stiffness**0.5, rel=1e-6)
    assert summary.goal_moves is not None
    assert 0.3 < summary.lead < 1.0
    assert f"the machine {summary.lead:.3g} s before it" in found["pre-actuation"].text
    lean = solution.x[solution.t <= summary.goal_moves, 1]
    assert summary.preactuation["theta"] == np.max(np.abs(lean))


def refusal(**overrides: Any) -> str:
    """The line of a launch file that is refused."""
    with pytest.raises(LaunchError) as caught:
        servonode.load(overrides.pop("launch", SEGWAY), **overrides)
    return str(caught.value)


def test_a_zero_dynamics_on_the_imaginary_axis_is_refused() -> None:
    text = refusal(plant__initial__theta=np.pi)
    swinging = (M * g * l / (M * l**2 + I - r * M * l)) ** 0.5
    assert "[controller.inversion]: the zero dynamics is not hyperbolic" in text
    assert f"eigenvalue 0 + {swinging:.4g}i 1/s" in text or f"eigenvalue 0 - {swinging:.4g}i 1/s" in text
    assert "add friction" in text


def test_a_goal_that_needs_more_than_the_motors_give_is_refused() -> None:
    text = refusal(plant__safety__limit=10.0)
    assert "the bounded solution needs tau = 14.33 at t = 4.5" in text
    assert "its limit is 10; give a slower or smaller goal" in text


@pytest.mark.slow
def test_a_feedback_that_a_delay_makes_unstable_is_refused() -> None:
    assert "unstable with a delay of 30 periods" in refusal(controller__delay=30)


def test_weights_are_of_states_and_inputs_and_above_zero() -> None:
    text = refusal(controller__inversion={"weights": {"foo": 1.0}})
    assert text.endswith("[controller.inversion.weights] foo: unknown name; choose tau, theta, theta_dot, x or x_dot")
    text = refusal(controller__inversion={"weights": {"x": 0.0}})
    assert text.endswith("[controller.inversion.weights] x: 0 is not a weight; give a number above 0")


@pytest.mark.slow
def test_a_program_that_states_its_inputs_has_nothing_to_invert() -> None:
    program = {"program": "open_loop", "inversion": {}}
    launch = {"run": {"duration": 1.0}, "plant": {"machine": f"{SEGWAY.parent}/segway.py:model"}, "controller": program}
    assert "program open_loop gives its inputs directly, there is nothing to invert" in refusal(launch=launch)


@pytest.mark.slow
def test_a_goal_of_higher_relative_degree_is_refused() -> None:
    text = refusal(launch=CART, controller__residuals={"bob": "x + l*sin(theta) - X"})
    assert "[controller.inversion]: at the initial state the servo-constraint bob lost rank" in text


@pytest.mark.slow
def test_a_goal_that_leaves_nothing_free_has_the_solution_of_its_flat_output() -> None:
    """Elastic arm: p = 0.8 sin 2t gives the spring, the spring the motor's angle, both the torque, by hand."""
    loop = servonode.load(EXAMPLES / "elastic_arm" / "arm.toml", controller__inversion={"tolerance": 1e-10})
    t, x, u = between(loop, 0.0, 10.0)
    motor, arm, k, weight = 0.05, 0.3, 50.0, 5.0
    s, c = 0.8 * np.sin(2 * t), 0.8 * np.cos(2 * t)
    p = [s, 2 * c, -4 * s, -8 * c, 16 * s]
    twist = (arm * p[2] + weight * np.sin(p[0])) / k
    twist_ddot = (arm * p[4] + weight * (np.cos(p[0]) * p[2] - np.sin(p[0]) * p[1] ** 2)) / k
    q_dot = p[1] + (arm * p[3] + weight * np.cos(p[0]) * p[1]) / k
    by_hand = np.column_stack([p[0] + twist, p[0], q_dot, p[1]])
    assert np.max(np.abs(x[:, :4] - by_hand)) < 1e-9
    assert np.max(np.abs(u[:, 0] - (motor * (p[2] + twist_ddot) + k * twist))) < 1e-7  # k times the motor's error
    run = loop.simulate(initial={"on_program": False, "p": 0.05})
    assert np.max(np.abs(run.residual["arm"][-1000:])) < 1e-4


def test_a_goal_that_cannot_be_reached_is_refused_at_once() -> None:
    file = EXAMPLES / "elastic_arm" / "arm.toml"
    text = refusal(launch=file, controller__inversion={}, controller__residuals={"arm": "sin(p) - 1.2*exp(-(t-5)**2)"})
    assert "no bounded solution was found to an error of 1e-10: the motion from the left end cannot be integr" in text


def test_the_c_export_says_that_it_has_no_table(segway: Loop) -> None:
    with pytest.raises(LaunchError, match="the bounded solution is a table of the run"):
        segway.show("c")


def linear() -> Model:
    """The cart with the inverted pendulum, linearised about the upright: w^2 = g/l."""
    x, theta = coordinate("x", "place", "m"), coordinate("theta", "lean", "rad")
    F = input_("F", "force", "N")
    kinetic = (x.rate**2 + 0.2 * (x.rate + 0.5 * theta.rate) ** 2) / 2
    return Model(
        name="linear_pendulum",
        description="linear inverted pendulum",
        coordinates=(x, theta),
        kinetic=kinetic,
        potential=-0.2 * g * 0.5 * theta**2 / 2,
        inputs={F: x.rate},
    )


@pytest.mark.slow
def test_a_linear_zero_dynamics_has_the_two_sided_convolution_as_its_bounded_solution() -> None:
    launch = {
        "run": {"duration": 10.0},
        "plant": {"machine": linear},
        "controller": {"residuals": {"cart": "x - X"}, "inversion": {}},
        "target": {"X": "1 + tanh(1.5*(t - 5))"},
    }
    nodes, x, _ = between(servonode.load(launch), 1.0, 9.0)
    rate = (g / 0.5) ** 0.5
    for t, theta in zip(nodes[::10], x[::10, 1], strict=True):

        def weighted(s: float, t: float = t) -> float:
            return float(np.exp(-rate * abs(t - s)) * step(np.array(s))[2] / (2 * rate * 0.5))

        parts = [quad(weighted, *ends, epsabs=1e-13, epsrel=1e-13, limit=200)[0] for ends in ((-15, t), (t, 25))]
        assert abs(theta - sum(parts)) < 1e-10


def speeding_up(t: Array) -> tuple[Array, Array, Array]:
    """X' = 0.5 + 0.5 tanh(1.5 (t - 5)) with X'', and nothing in place of X."""
    s = np.tanh(1.5 * (t - 5))
    return np.zeros(len(t)), 0.5 + 0.5 * s, 0.75 * (1 - s**2)


@pytest.mark.slow
def test_a_goal_for_the_speed_leaves_the_place_to_run_along() -> None:
    loop = servonode.load(SEGWAY.parent / "speed.toml")
    t, theta, rate, _ = leaning(speeding_up, -15.0, 40.0)
    nodes, x, _ = between(loop, 0.0, 10.0)
    assert np.max(np.abs(x[:, 1] - on_nodes(t, theta, nodes))) < 1e-9
    assert np.max(np.abs(x[:, 3] - on_nodes(t, rate, nodes))) < 1e-9
    text = next(each.text for each in loop.check().findings if each.subject == "feedback")
    assert "holds all states but x, on which nothing depends" in text
    assert np.max(np.abs(loop.simulate().residual["speed"])) < 2e-4
    line = refusal(launch=SEGWAY.parent / "speed.toml", controller__inversion={"weights": {"x": 1.0}})
    assert line.endswith("x: nothing depends on x, so the feedback leaves it out; remove its weight")


@pytest.mark.slow
def test_a_robot_backs_its_trailer_with_any_yaw_rate() -> None:
    """phi' = -V/b sin(phi) - Omega is unstable in reverse: integrated backward it gives the bounded solution."""
    loop = servonode.load(EXAMPLES / "reversing.toml")
    names = loop.closed_loop.machine.description.state_names
    nodes, x, _ = between(loop, 0.0, 20.0)
    backward = solve_ivp(
        lambda t, phi: 0.3 * np.sin(phi) - 0.2 * np.sin(0.5 * t),
        (150.0, 0.0),
        [0.0],
        method="DOP853",
        t_eval=nodes[::-1],
        rtol=1e-13,
        atol=1e-14,
    )
    assert np.max(np.abs(x[::-1, names.index("phi")] - backward.y[0])) < 1e-9
    assert inverted(loop).found.eigenvalues == pytest.approx([0.3], abs=1e-7)
    run = loop.simulate(control="continuous")
    assert max(np.max(np.abs(each)) for each in run.residual.values()) < 1e-9
    assert np.max(np.abs(run.state["phi"])) < 0.5


def test_the_nodes_have_the_bits_of_the_fused_loop(segway: Loop) -> None:
    assert segway.simulate(loop="nodes").final()["state"] == segway.simulate().final()["state"]
