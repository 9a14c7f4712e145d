"""What other tools are told of a run: joints, frames, twist, goals, lines, stamps, events."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import servonode
from servonode.arrays import Array
from servonode.bus import Message
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.errors import ModelError
from servonode.record.bag import Bag
from servonode.simulation.rows_of_messages import runs_in
from servonode.views.live_run import LiveRun
from servonode.views.view_checks import check_view
from servonode.wings.neighbours.bridged import LiveMoments
from servonode.wings.neighbours.foxglove_messages import values, values_schema
from servonode.wings.neighbours.moments import Event, Layout, Moment, Moments, gears
from servonode.wings.neighbours.recorded import moments_of_bag
from servonode.wings.neighbours.ros2_messages import messages
from tests.helpers.drawn_cart import viewed_cart
from tests.helpers.extras import MUJOCO, NO_MUJOCO
from tests.helpers.recorded import recording
from tests.helpers.robots import ARM
from tests.helpers.talk import Talk

FIVE = ("trailer_pursuit", "sphero_pursuit", "hoop_rolls", "ball_circle", "snowboarder_slalom")
EXAMPLES = Path(__file__).parents[3] / "examples"
HELD = "[run]\nduration = 1.0\n[plant]\nmachine = 'arm.urdf'\n"


def row_of(closed_loop: ClosedLoop, x: Array | None = None, u: float = 0.0, t: float = 0.0) -> dict[str, float]:
    """The row of a state, by default the start, with the same value for all inputs."""
    described = closed_loop.machine.description
    states = dict(zip(described.state_names, (closed_loop.start if x is None else x).tolist(), strict=False))
    return {"t": t, **states, **dict.fromkeys(described.input_names, u)}


def near_start(closed_loop: ClosedLoop, rng: np.random.Generator) -> Array:
    """A state near the start that its constraints allow, as far as projection brings it there."""
    x = closed_loop.start.copy()
    x[:-1] += 0.1 * rng.standard_normal(len(x) - 1)
    return closed_loop.machine.projected(0.0, x)


def loop(launch: str | Path, **settings: Any) -> ClosedLoop:
    return servonode.load(launch, **settings).closed_loop


@pytest.fixture(scope="module")
def lockstep(tmp_path_factory: pytest.TempPathFactory) -> Bag:
    return recording(tmp_path_factory.mktemp("lockstep"), "trailer_pursuit_lockstep", "run.duration=2")


@pytest.fixture(scope="module")
def moments(lockstep: Bag) -> list[Moment]:
    return list(moments_of_bag(lockstep, lockstep.closed_loop()))


def test_positions_and_inputs_are_those_of_the_run_to_the_bit(lockstep: Bag, moments: list[Moment]) -> None:
    made = lockstep.closed_loop()
    run, layout = runs_in(lockstep, made)[-1], Layout.of(made)
    assert layout.joints == ("X", "Y", "psi", "phi", "theta1", "theta2")
    rows = np.searchsorted(run.t, [each.t for each in moments])
    for i, each in zip(rows, moments, strict=True):
        assert each.t == run.t[i]
        assert each.positions.tolist() == [run.state[name][i] for name in layout.joints]
        assert each.inputs == {name: run.input[name][i] for name in run.input}
        assert each.goals == {name: run.targets[name][i] for name in run.targets}
        assert each.outputs == {name: run.outputs[name][i] for name in layout.outputs}


def test_of_a_recording_in_lockstep_a_second_of_plant_time_is_one_of_the_clock(moments: list[Moment]) -> None:
    assert len(moments) == 201
    t = np.array([each.t for each in moments])
    np.testing.assert_allclose(np.diff(t), 0.01, atol=1e-12)
    assert {each.stamp_ns - moments[0].stamp_ns for each in moments} == {round(1e9 * at) for at in t}


def test_margins_of_what_is_kept_are_those_of_the_run(tmp_path: Path) -> None:
    bag = recording(tmp_path, "trailer_pursuit_lockstep", "run.duration=0.5", 'controller.keep.slow="0.05 - V"')
    closed_loop = bag.closed_loop()
    (run,) = runs_in(bag, closed_loop)
    layout, found = Layout.of(closed_loop), list(moments_of_bag(bag, closed_loop, paced=False))
    assert layout.margins == {"slow": "m/s"}
    assert [each.margins["slow"] for each in found] == [run["margin_slow"][run.t == each.t][0] for each in found]
    assert values(layout, found[0])["margin"] == {"slow": 0.05}
    assert values_schema(layout)["properties"]["margin"]["properties"]["slow"]["description"] == "m/s"
    assert "/margin/slow" in [name for name, *_ in messages(layout, found[0])]


def test_the_rate_bounds_how_many_rows_are_taken_and_the_last_one_is_among_them(lockstep: Bag) -> None:
    taken = list(moments_of_bag(lockstep, lockstep.closed_loop(), rate=7.0))
    assert len(taken) == 15
    assert taken[-1].t == 2.0


def test_events_are_told_once_and_lifecycle_and_fault_follow_them(moments: list[Moment]) -> None:
    told = [event for each in moments for event in each.events]
    assert Event("info", "plant: lifecycle active") in told
    assert len(set(told)) == len(told)
    assert (moments[0].lifecycle, moments[-1].lifecycle) == ("inactive", "finished")
    assert {each.fault for each in moments} == {""}


def test_stamps_in_real_time_are_those_of_the_states_and_never_decrease(tmp_path: Path) -> None:
    bag = recording(tmp_path, "trailer_pursuit", "run.duration=1", "run.speed=2")
    found = list(moments_of_bag(bag, bag.closed_loop()))
    stamps = np.array([each.stamp_ns for each in found])
    assert (np.diff(stamps) >= 0).all()
    sent = {message["t"]: mono + bag.wall_less_mono for mono, _, message in bag.messages(("plant/state",))}
    off = [each.stamp_ns - sent[each.t] for each in found if each.t in sent]
    assert len(off) > 50
    assert np.abs(off).max() < 1000  # ns: rounding of the interpolation


def test_a_live_goal_has_the_values_that_were_published(tmp_path: Path) -> None:
    bag = recording(tmp_path, str(EXAMPLES / "goals" / "teleop.toml"), "run.duration=1", "run.speed=2")
    made = bag.closed_loop()
    found = list(moments_of_bag(bag, made))
    names = [each.name for each in made.live]
    assert names
    published = [message["target"] for _, _, message in bag.messages(("target/target",))]
    for name in names:
        assert {each.goals[name] for each in found if np.isfinite(each.goals[name])} <= {e[name] for e in published}
        assert np.isfinite(found[-1].goals[name])


@pytest.mark.parametrize("launch", FIVE)
def test_frames_turn_and_their_twist_is_their_motion(launch: str) -> None:
    made = loop(launch)
    moments, x = Moments(made), near_start(made, np.random.default_rng(4))
    found = moments.moment(row_of(made, x), 0)
    layout = moments.layout
    assert layout.base == layout.frames[0]
    assert found.base is not None
    assert len(found.poses) == len(layout.frames) > 0
    h = 1e-5
    rates = made.machine.derivatives(0.0, x, np.zeros(made.machine.n_inputs))
    moved = [moments.moment(row_of(made, x + s * h * rates, t=s * h), 0).poses[0] for s in (-1, 1)]
    R = found.poses[0][:, :3]
    size = np.linalg.norm(found.poses[:, :, 0], axis=1)  # of a quaternion that is not of length 1
    np.testing.assert_allclose(np.einsum("nji,njk->nik", found.poses[:, :, :3], found.poses[:, :, :3]),
                               np.eye(3) * (size**2)[:, None, None], atol=1e-9)  # fmt: skip
    np.testing.assert_allclose(found.base.twist[:3], R.T @ (moved[1] - moved[0])[:, 3] / (2 * h), atol=1e-6)


def test_the_trailer_robot_has_closed_forms() -> None:
    made = loop("trailer_pursuit")
    b = made.machine.parameters["b"]
    x = made.machine.state({"X": 1.0, "Y": 2.0, "psi": 0.3, "phi": -0.5, "V": 0.7, "Omega": -0.4,
                            "theta1": 0.0, "theta2": 0.0})  # fmt: skip
    found = Moments(made).moment(row_of(made, x) | {"U1": 0.25, "U2": -0.5, "target_x": 3.0, "target_y": 4.0}, 0)
    robot, trailer = found.poses
    c, s = np.cos(0.3), np.sin(0.3)
    np.testing.assert_allclose(robot, [[c, -s, 0, 1], [s, c, 0, 2], [0, 0, 1, 0]], atol=1e-15)
    heading = 0.3 - 0.5
    np.testing.assert_allclose(trailer[:2, 3], [1 - b * np.cos(heading), 2 - b * np.sin(heading)], atol=1e-15)
    assert found.base is not None
    np.testing.assert_allclose(found.base.twist, [0.7, 0, 0, 0, 0, -0.4], atol=1e-8)
    np.testing.assert_allclose(found.efforts, [np.nan] * 4 + [0.25, -0.5], rtol=1e-12)
    assert found.points["x_y"].tolist() == [3.0, 4.0, 0.0]
    assert all(line.shape[1] == 3 and not line[:, 2].any() for line in found.lines)


def test_the_hoop_stands_upright_and_turns_about_the_axis_towards_the_eye() -> None:
    made = loop("hoop_rolls")
    x = near_start(made, np.random.default_rng(5))
    values = row_of(made, x)
    found = Moments(made).moment(values, 0)
    assert not any(line[:, 1].any() for line in found.lines)
    theta = values["theta"]
    np.testing.assert_allclose(found.poses[0] @ [1, 0, 0, 0], [np.cos(theta), 0, np.sin(theta)], atol=1e-15)
    assert found.poses[0][:, 3].tolist() == [values["x"], 0, values["z"]]


def test_the_snowboarders_body_points_where_its_angles_say() -> None:
    made = loop("snowboarder_slalom")
    values = row_of(made, near_start(made, np.random.default_rng(6)))
    body = Moments(made).moment(values, 0).poses[1]
    phi, theta, sigma = (values[name] for name in ("phi0", "theta", "sigma"))
    along, left, up = np.cos(sigma) * np.sin(theta), np.sin(sigma), np.cos(sigma) * np.cos(theta)
    c, s = np.cos(phi), np.sin(phi)
    np.testing.assert_allclose(body[:, 2], [c * along - s * left, s * along + c * left, up], atol=1e-15)
    assert np.linalg.det(body[:, :3]) == pytest.approx(1.0)


@pytest.mark.skipif(not MUJOCO, reason=NO_MUJOCO)
def test_frames_of_a_file_stand_where_mujoco_has_them_under_the_files_names(tmp_path: Path) -> None:
    import mujoco

    (tmp_path / "arm.urdf").write_text(ARM)
    (tmp_path / "arm.toml").write_text(HELD)
    made = loop(tmp_path / "arm.toml")
    layout = Layout.of(made)
    assert layout.joints == ("pan", "left-lift")
    assert set(layout.frames) == {"upper", "fore", "base", "tool"}
    assert layout.base is None
    row = row_of(made) | {"pan": 0.7, "left_lift": -0.4}
    poses = dict(zip(layout.frames, Moments(made).moment(row, 0).poses, strict=True))
    spec = mujoco.MjSpec.from_string(ARM)
    spec.compiler.fusestatic = False
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:] = 0.7, -0.4
    mujoco.mj_kinematics(model, data)
    for name in ("upper", "fore", "tool"):
        body = data.body(name)
        np.testing.assert_allclose(poses[name][:, :3], body.xmat.reshape(3, 3), atol=1e-12)
        np.testing.assert_allclose(poses[name][:, 3], body.xpos, atol=1e-12)
    np.testing.assert_allclose(poses["base"], np.eye(3, 4), atol=1e-15)


@pytest.mark.skipif(not MUJOCO, reason=NO_MUJOCO)
def test_motors_of_a_file_act_on_their_joints(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(ARM)
    (tmp_path / "arm.toml").write_text(HELD)
    made = loop(tmp_path / "arm.toml")
    moment = Moments(made).moment(row_of(made) | {"pan_torque": 2.0, "left_lift_torque": -3.0}, 0)
    assert moment.efforts == pytest.approx([2.0, -3.0], rel=1e-12)


def test_an_input_that_acts_on_two_joints_is_the_effort_of_neither() -> None:
    made = loop("sphero_pursuit")
    assert gears(made.machine, [0, 1]) == []


def test_a_machine_without_frames_has_its_lines_alone(tmp_path: Path) -> None:
    with viewed_cart(tmp_path) as viewed:
        run = viewed("View(outline=outline, trails=TRAIL)")
        moments = Moments(run.closed_loop)
        assert moments.layout.frames == ()
        found = moments.moment(row_of(run.closed_loop), 0)
        assert found.poses.shape == (0, 3, 4)
        assert found.base is None
        assert found.lines


def test_a_frame_of_another_shape_is_refused(tmp_path: Path) -> None:
    text = r"VIEW's frame 'cart' is of shape \(2,\); give \(x, y, angle\), or rotation and place as \(3, 4\)"
    view = "View(outline=outline, frames=lambda s, p: {'cart': (1, 2)})"
    with viewed_cart(tmp_path) as viewed, pytest.raises(ModelError, match=text):
        check_view(viewed(view).closed_loop)


def test_live_moments_are_the_newest_and_keep_the_last_residuals() -> None:
    made = loop("trailer_pursuit")
    source, talk = LiveRun("given"), Talk(made)
    source.begin(made)
    live = LiveMoments(source)

    def give(*messages: Message) -> None:
        assert source.feed is not None
        for message in messages:
            source.feed.take(message)
        live.take(messages)

    assert live.newest() is None
    give(talk.status(0), talk.target(0), talk.state(0), talk.report(0))
    first = live.newest()
    assert first is not None
    assert live.newest() is None
    give(talk.state(10), talk.status(11, "fault", "watchdog"), talk.target(40), talk.state(40))
    second = live.newest()
    assert second is not None
    assert (second.t, second.stamp_ns - first.stamp_ns) == (0.04, 40_000_000)
    assert second.residuals == {"speed": 1e-3, "heading": -2e-3}
    assert second.goals == {"x": 40.0, "y": -40.0}
    assert (second.lifecycle, second.fault) == ("fault", "watchdog")
    assert Event("error", "plant: fault watchdog") in second.events


def test_live_rows_have_margins_and_what_acts_as_the_newest_report_has_them() -> None:
    made = loop("trailer_pursuit", keep={"slow": "0.05 - V"})
    source, talk = LiveRun("given"), Talk(made)
    source.begin(made)
    assert source.feed is not None
    report = structs.replace(talk.report(0), margin={"slow": 0.03}, active={"slow": 1.0}, keeping=1)
    for message in (talk.target(0), talk.state(0), report, talk.target(40), talk.state(40)):
        source.feed.take(message)
    row = {name: column[-1] for name, column in source.feed.ring.columns.items()}
    assert (row["margin_slow"], row["active_slow"], row["keeping"]) == (0.03, 1.0, 1.0)
