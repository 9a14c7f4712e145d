"""Goals of frames: planar arms against closed forms, orientations from far away, redundant arms, what is refused."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import servonode
from servonode.errors import ServonodeError
from tests.helpers.arms import launch, seven, six, three, two, wrist
from tests.helpers.refusals import refusal

RATE = 4.0
GAINS = {"gains": {"lambda": RATE}}
START = {"q1": 0.3, "q2": 0.9}
BENT = {"q1": 0.3, "q2": 0.9, "q3": 0.5}
CIRCLE = {"tool": {"x": "0.5 + 0.1*cos(t)", "z": "0.3 + 0.1*sin(t)"}}


def follow(machine: Any, start: Any, controller: Any, duration: float = 1.0) -> Any:
    return servonode.simulate(launch(machine, start, {**GAINS, **controller}, duration), control="continuous")


def left_of_decay(run: Any, name: str) -> Any:
    """What a residual has beside [f0 + (f0' + rate f0) t] exp(-rate t)."""
    t, f = run.t, run.residual[name]
    basis = np.array([np.exp(-RATE * t), t * np.exp(-RATE * t)]).T
    coefficients = np.linalg.lstsq(basis, f, rcond=None)[0]
    return np.abs(basis @ coefficients - f).max()


def refused(controller: Any, machine: Any = two, start: Any = START) -> str:
    return refusal(ServonodeError, servonode.load, launch(machine, start, controller))


def test_planar_arm_follows_a_circle_stated_in_either_way() -> None:
    stated = {"residuals": {"x": "tool.x - 0.5 - 0.1*cos(t)", "z": "tool.z - 0.3 - 0.1*sin(t)"}}
    runs = [follow(two, START, {"goal": CIRCLE}), follow(two, START, stated)]
    assert runs[0].units["residual_tool_x"] == runs[1].units["residual_x"] == "m"
    q1, q2, t = runs[0].state["q1"], runs[0].state["q2"], runs[0].t
    by_hand = 0.5 * np.cos(q1) + 0.4 * np.cos(q1 + q2) - 0.5 - 0.1 * np.cos(t)
    assert_allclose(runs[0].residual["tool_x"], by_hand, atol=1e-12)
    assert_allclose(runs[1].residual["x"], by_hand, atol=1e-9)
    assert max(left_of_decay(runs[0], name) for name in ("tool_x", "tool_z")) < 1e-10


def test_a_goal_relative_to_a_link_is_in_its_axes() -> None:
    goal = {"tool": {"x": "0.3*cos(t)", "relative_to": "link2"}, "link2": {"z": 0.3}}
    found = servonode.load(launch(three, BENT, {"goal": goal, "posture": {}})).law(0.0, BENT)
    assert set(found) == {"U1", "U2", "U3"}
    law = servonode.load(launch(three, BENT, {"goal": goal, "posture": {}})).residuals(0.0, BENT)
    assert law["tool_x"] == pytest.approx(0.4 + 0.3 * np.cos(0.5) - 0.3)
    assert law["link2_z"] == pytest.approx(0.5 * np.sin(0.3) - 0.3)


def test_orientation_in_a_plane_has_one_residual() -> None:
    goal = {"tool": {"x": 0.6, "orientation": [0, -1.0, 0]}}
    loop = servonode.load(launch(two, START, {"goal": goal}))
    assert loop.residuals(0.0, START)["tool_ry"] == pytest.approx(4 * np.tan((1.0 - 1.2) / 4))


def test_an_axis_relative_to_a_link_has_the_turns_that_the_joints_between_make() -> None:
    goal = {"link2": {"axis_z": [0, 0, 1], "relative_to": "link1"}}
    controller = {"goal": goal, "residuals": {"q1": "q1", "q3": "q3"}}
    start = {"q1": 0.5, "q2": 0.3, "q3": 0.0}
    found = servonode.load(launch(wrist, start, controller)).residuals(0.0, start)
    assert found == {"q1": 0.5, "q3": 0.0, "link2_ry": pytest.approx(2 * np.tan(0.15))}


@pytest.mark.parametrize(
    "wanted",
    [[0.0, 0.0, 3.05], [np.cos(1.525), 0.0, 0.0, 2 * np.sin(1.525)]],
    ids=["angles", "quaternion of length > 1"],
)
def test_orientation_from_175_degrees_away_decays(wanted: list[float]) -> None:
    if len(wanted) == 4:
        wanted[0] *= 2
    run = follow(wrist, {"q1": 0.0, "q2": 0.05, "q3": -0.03}, {"goal": {"tool": {"orientation": wanted}}}, 2.0)
    error = np.array([run.residual[f"tool_r{letter}"] for letter in "xyz"])
    sizes = np.linalg.norm(error, axis=0)
    assert np.degrees(4 * np.arctan(sizes[0] / 4)) == pytest.approx(175, abs=1)
    assert max(left_of_decay(run, f"tool_r{letter}") for letter in "xyz") < 1e-10
    assert_allclose(error / sizes, np.tile(error[:, :1] / sizes[0], len(sizes)), atol=1e-9)  # along one axis
    assert sizes[-1] < (1 + RATE * 2.0) * np.exp(-RATE * 2.0) * sizes[0] * 1.0001


def test_exactly_half_a_turn_is_refused_with_the_remedy() -> None:
    text = refused({"goal": {"tool": {"orientation": [0, 0, np.pi]}}}, wrist, {"q1": 0.0})
    assert "tool is half a turn away from the orientation that [controller.goal.tool] wants" in text
    assert "start closer to it" in text


def test_axis_that_is_to_stay_level() -> None:
    goal = {"tool": {"axis_z": [0, 0, -1]}}
    start = {"q1": 0.4, "q2": 2.0, "q3": 0.3}
    run = follow(wrist, start, {"goal": goal, "posture": {"joints": {"q1": 0.2}, "rate": 6.0}}, 3.0)
    assert set(run.residual) == {"tool_rx", "tool_ry"}
    assert max(left_of_decay(run, name) for name in run.residual) < 1e-10
    assert abs(run.residual["tool_rx"][-1]) < 1e-4
    assert run.state["q1"][-1] == pytest.approx(0.2, abs=1e-3)


def test_a_posture_takes_nothing_from_the_goal_and_is_reached_where_it_is_free() -> None:
    free = follow(three, BENT, {"goal": CIRCLE, "posture": {}}, 2.0)
    postured = follow(three, BENT, {"goal": CIRCLE, "posture": {"joints": {"q1": 0.9}, "rate": 3.0}}, 2.0)
    for name in ("tool_x", "tool_z"):
        assert_allclose(postured.residual[name], free.residual[name], atol=1e-9)
        assert left_of_decay(postured, name) < 1e-9
    assert abs(postured.state["q1"][-1] - free.state["q1"][-1]) > 0.1


def test_a_posture_is_the_nearest_acceleration_in_the_mass_matrix() -> None:
    """Gauss: v' least in (v' - wanted)^T M (v' - wanted) among those that serve the residuals."""
    loop = servonode.load(
        launch(three, BENT, {"goal": CIRCLE, "posture": {"joints": {"q2": 0.4}, "rate": 3.0}, **GAINS})
    )
    state = {**BENT, "q1_dot": 0.2, "q2_dot": -0.5, "q3_dot": 0.3}
    rates = loop.derivatives(0.0, state, loop.law(0.0, state))
    found = np.array([rates[f"q{i}_dot"] for i in (1, 2, 3)])
    v = np.array([0.2, -0.5, 0.3])
    wanted = -2 * 3.0 * v - np.array([0, 9.0 * (0.9 - 0.4), 0])
    zero = {f"U{i}": 0.0 for i in (1, 2, 3)}
    still = loop.derivatives(0.0, state, zero)
    columns = [loop.derivatives(0.0, state, {**zero, f"U{i}": 1.0}) for i in (1, 2, 3)]
    inverse = np.array([[each[f"q{i}_dot"] - still[f"q{i}_dot"] for each in columns] for i in (1, 2, 3)])
    angles = np.cumsum([0.3, 0.9, 0.5])
    steps = np.array([0.5, 0.4, 0.3]) * [-np.sin(angles), np.cos(angles)]
    J = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    free = np.linalg.svd(J)[2][2]  # along it the residuals do not move
    assert free @ np.linalg.solve(inverse, found - wanted) == pytest.approx(0.0, abs=1e-9)


def test_the_equations_that_are_shown_have_the_posture() -> None:
    shown = str(servonode.load(launch(three, BENT, {"goal": CIRCLE, "posture": {}})).show())
    assert "B_r tau = M_r d + J^T (J M_r^-1 J^T)^-1 (z - J d)" in shown
    assert "d = p + M_r^-1 h_r" in shown


def test_a_posture_may_move_and_have_settings() -> None:
    posture = {"joints": {"q1": "0.3 + turn*t"}, "rate": 8.0}
    controller = {"goal": {"tool": {"x": "0.5 + 0.1*cos(t)"}}, "posture": posture, "settings": {"turn": 0.1}}
    run = follow(three, BENT, controller, 2.0)
    assert abs(run.state["q1"][-1] - 0.5) < 0.02


@pytest.mark.parametrize("more", [{"posture": {}}, {"weights": {"U1": 1.0}}], ids=["posture", "least norm"])
def test_a_straight_arm_is_singular_and_damping_gives_finite_torques(more: Any) -> None:
    straight, goal = {"q1": 0.0, "q2": 0.0, "q3": 0.0}, {"tool": {"x": "1.1 - 0.1*t", "z": "0.1*t"}}
    assert "lost rank" in refused({"goal": goal, **more}, three, straight)
    law = servonode.load(launch(three, BENT, {"goal": goal, "damping": 0.01, **more}))
    torques = np.array(list(law.law(0.0, straight).values()))
    assert np.isfinite(torques).all()
    assert np.abs(torques).max() < 1e4
    exact = servonode.load(launch(three, BENT, {"goal": goal, **more}))  # away from it damping changes nothing
    assert law.law(0.0, BENT) == pytest.approx(exact.law(0.0, BENT), rel=1e-9)


def test_near_a_stretched_arm_damping_bounds_the_torques_without_a_jump() -> None:
    """The exact ones grow as one over the elbow's angle; away from it both are the same."""
    goal = {"goal": {"tool": {"x": 0.6, "z": 0.4}}}
    exact, damped = (servonode.load(launch(two, START, goal | more)) for more in ({}, {"damping": 0.01}))
    angles = np.geomspace(1e-6, 0.5, 200)
    torques = np.array([damped.law(0.0, {"q1": 0.3, "q2": q2})["U1"] for q2 in angles])
    assert abs(exact.law(0.0, {"q1": 0.3, "q2": 1e-3})["U1"]) > 1e6
    assert np.abs(torques).max() < 1e5
    assert np.abs(np.diff(torques)).max() < 0.1 * np.abs(torques).max()
    assert damped.law(0.0, START) == exact.law(0.0, START)


def test_a_posture_too_fast_for_the_period_is_refused() -> None:
    text = refused({"goal": CIRCLE, "posture": {"rate": 600.0}}, three, BENT)
    assert "posture: lambda T = 1.2 at a period of 0.002 s" in text
    assert "above 0.8 of the limit; lower the convergence rate" in text


@pytest.mark.parametrize(
    ("controller", "said"),
    [
        ({"residuals": {"x": "tol.x", "z": "tool.z"}}, "[controller] residuals.x: unknown frame 'tol'"),
        ({"goal": {"tol": {"x": 1}}}, "goal.tol: machine planar has no frame 'tol'; did you mean tool? choose"),
        ({"goal": {"tool": {"x": 1, "relative_to": "lnk1"}}}, "relative_to: machine planar has no frame 'lnk1'"),
        ({"goal": {"tool": {}}}, "goal.tool: states nothing; give position, x, y, z, orientation or axis_z"),
        ({"goal": {"com": {"orientation": [0, 0, 0]}}}, "goal.com: no motion of the machine turns it"),
        ({"goal": {"tool": {"position": [1, 2]}}}, "goal.tool.position: 2 entries; give 3: x, y, z"),
        ({"goal": {"tool": {"position": [1, 2, 3], "z": 1}}}, "there are both position and z"),
        ({"goal": {"tool": {"position": [1, "u", 3]}}}, "goal.tool.position: unknown name 'u'"),
        ({"goal": {"tool": {"orientation": [1, 2]}}}, "give 3: roll, pitch, yaw, or the 4 of a quaternion"),
        ({"goal": {"tool": {"orientation": [0, 0, 0, 0]}}}, "goal.tool.orientation: the quaternion is 0"),
        ({"goal": {"tool": {"axis_z": [0, 0, 0]}}}, "goal.tool.axis_z: is 0, which is no direction"),
        ({"goal": {"tool": {"axis_z": [0, 0, 1], "orientation": [0, 0, 0]}}}, "there are both orientation and axis_z"),
        ({"goal": {"tool": {"z": 1, "y": "abs(t)"}}}, "goal.tool.y: abs has no derivative"),
        ({"goal": {"tool": {"up": 1}}}, "[controller.goal.tool] up: unknown key"),
        ({"goal": {"tool": {"x": 1}}}, "1 servo-constraint"),
        ({"goal": CIRCLE, "posture": {}}, "leave nothing free that a posture could move"),
        ({"goal": {"tool": {"x": 1}}, "posture": {"joints": {"q9": 1}}}, "joints.q9: machine planar has no joint"),
        ({"goal": {"tool": {"x": 1}}, "posture": {"joints": {"q1": "q2"}}}, "it contains q2, which moves by forces"),
        ({"goal": {"tool": {"x": 1}}, "posture": {"rate": 0}}, "[controller.posture] rate: 0 is not a number > 0"),
        ({"goal": {"tool": {"x": 1}}, "posture": {}, "weights": {"U1": 1}}, "there are both weights and a posture"),
        ({"program": "open_loop", "goal": CIRCLE}, "there are both a program and goal"),
        ({"program": "open_loop", "posture": {}}, "there are both a program and posture"),
        ({"posture": {}}, "name a program, or give residuals"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_key(controller: Any, said: str) -> None:
    text = refused(controller)
    assert said in text
    assert "\n" not in text


def test_a_machine_without_a_tree_has_no_frames() -> None:
    text = refused({"goal": {"tool": {"x": 1}}}, "diff_drive_trailer", {})
    assert "machine diff_drive_trailer has no frame 'tool'; its file or its Model(tree=...) has none" in text


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "more"), [(six, {}), (seven, {"posture": {"joints": {"q3": 0.4}}})])
def test_spatial_arm_follows_position_and_orientation_from_far_away(machine: Any, more: Any) -> None:
    start = {f"q{i}": value for i, value in enumerate([0.3, 0.5, 0.6, 0.2, 1.0, 0.1, 0.2][: 6 + bool(more)], 1)}
    goal = {"tool": {"position": ["0.4 + 0.1*cos(t)", "0.1*sin(t)", "0.5"], "orientation": [3.0, "0.2*sin(t)", 0.3]}}
    run = follow(machine, start, {"goal": goal, **more}, 4.0)
    turned = np.linalg.norm([run.residual[f"tool_r{letter}"][0] for letter in "xyz"])
    assert turned > 2.0
    assert max(left_of_decay(run, name) for name in run.residual) < 1e-9
    assert max(abs(each[-1]) for each in run.residual.values()) < 1e-5 * 4
