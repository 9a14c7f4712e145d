"""The page draws a robot with the shapes of its file: what it is told of them, and what it shows."""

from pathlib import Path

import numpy as np

import servonode
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.views.live_run import LiveRun
from servonode.wings.web.frames import Bodies, Frames
from tests.helpers.extras import needs_mujoco
from tests.helpers.robots import SHAPES
from tests.helpers.talk import Talk
from tests.wings.web.test_frames import said

needs_mujoco()

LAUNCH = """[run]
duration = 1.0
[plant]
machine = "robot.xml"
"""


def loop(folder: Path, text: str = SHAPES) -> ClosedLoop:
    (folder / "robot.xml").write_text(text)
    (folder / "robot.toml").write_text(LAUNCH)
    return servonode.load(folder / "robot.toml").closed_loop


def test_bodies_move_as_mujoco_moves_them_and_are_told_once(tmp_path: Path) -> None:
    import mujoco

    made = loop(tmp_path)
    bodies = Bodies(made)
    model = mujoco.MjModel.from_xml_string(
        SHAPES.replace('<mesh name="absent" file="absent.stl"/>', "").replace('<geom type="mesh" mesh="absent"/>', "")
    )
    data = mujoco.MjData(model)
    data.qpos[:] = 0.3, -0.8
    mujoco.mj_kinematics(model, data)
    poses = bodies.poses({"a": 0.3, "b": -0.8, "a_dot": 0.0, "b_dot": 0.0})
    for name, pose in zip(("world", "upper", "fore"), poses, strict=True):
        np.testing.assert_allclose(pose, [*data.body(name).xpos, *data.body(name).xmat], atol=1e-6)

    source = LiveRun("given", estimates=True)
    source.begin(made)
    source.alive = True
    frames, talk = Frames(source), Talk(made)
    layout = said(frames)["layout"]
    assert [len(each["points"]) % 3 for each in layout["bodies"]] == [0, 0, 0]
    assert max(layout["bodies"][1]["triangles"]) < len(layout["bodies"][1]["points"]) / 3
    assert layout["unseen"] == 'mesh "absent" of 1 shapes: left out, for absent.stl is not there'
    frames._feed.take(talk.state(0))
    said(frames)  # the run has begun: its layout, too
    frames._feed.take(talk.state(1))
    told = said(frames)
    assert "layout" not in told
    assert len(told["scene"]["poses"]) == 3
    assert told["scene"]["views"][0]["inertias"]


def test_a_robot_whose_file_is_gone_is_drawn_as_its_skeleton(tmp_path: Path) -> None:
    made = loop(tmp_path)
    (tmp_path / "robot.xml").unlink()
    bodies = Bodies(made)
    assert bodies.layout["bodies"] == []
    assert "robot.xml" in str(bodies.layout["unseen"])
    assert bodies.poses({}) == []
