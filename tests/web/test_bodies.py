"""The page draws a robot with the shapes of its file: what it is told of them, and what it shows."""

from pathlib import Path

import numpy as np
import pytest

import servonode
from servonode.closed_loop.closed_loop import ClosedLoop
from servonode.views.shown_run import ShownRun
from servonode.web.bodies import Bodies
from servonode.web.frames import Frames
from tests.helpers.extras import needs_mujoco
from tests.helpers.pages import PageProcess, begun, browser, needs_browser
from tests.helpers.robots import SHAPES
from tests.helpers.runs import START_S, Runs, eventually
from tests.helpers.talk import Talk
from tests.web.test_frames import said

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

    source = ShownRun("given")
    source.closed_loop, source.alive = made, True
    frames, talk = Frames(source), Talk(made)
    layout = said(frames)["layout"]
    assert [len(each["points"]) % 3 for each in layout["bodies"]] == [0, 0, 0]
    assert max(layout["bodies"][1]["triangles"]) < len(layout["bodies"][1]["points"]) / 3
    assert layout["unseen"] == 'mesh "absent" of 1 shapes: left out, for absent.stl is not there'
    frames.take(talk.state(0))
    said(frames)  # the run has begun: its layout, too
    frames.take(talk.state(1))
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


PICTURE = "return document.querySelector('.machine canvas').toDataURL()"
PAINTED = """const { canvas, pen } = page.views[0], pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
const known = new Set(theme.bodies.map((each) => each.match(/\\d+/g).join()));
let count = 0;
for (let i = 0; i < pixels.length; i += 4) count += known.has(pixels.slice(i, i + 3).join()) ? 1 : 0;
return count"""


@needs_browser
@pytest.mark.slow
def test_browser_shows_and_turns_the_bodies_of_a_robot(runs: Runs, tmp_path: Path) -> None:
    loop(tmp_path)
    run = begun(runs, str(tmp_path / "robot.toml"), "plant.initial.a=0.5")
    with PageProcess(tmp_path, run.name) as page, browser() as chromium:
        chromium.get(page.link.url)
        assert eventually(lambda: chromium.execute_script("return page.columns.count") > 5, START_S), page.stderr
        assert eventually(lambda: chromium.execute_script(PAINTED) > 1000)
        chromium.execute_script("page.draw = () => page.connection.drawn()")  # the robot stands still
        before = chromium.execute_script(PICTURE)
        chromium.execute_script("page.views[0].turn(1.0, 0.2)")
        assert chromium.execute_script(PICTURE) != before
        assert chromium.execute_script(PAINTED) > 1000
        assert chromium.find_element("css selector", ".machine p").text.startswith('Not drawn: mesh "absent"')
        assert [each for each in chromium.get_log("browser") if each["level"] == "SEVERE"] == []
