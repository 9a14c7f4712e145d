"""The shapes of a robot's file as triangles: where MuJoCo has them, few enough, and nothing of a harmful mesh."""

import struct
from pathlib import Path

import numpy as np
import pytest

from servonode.arrays import Array
from servonode.wings.robots import solids as module
from servonode.wings.robots.solids import fewer, solids
from tests.helpers.extras import needs_mujoco
from tests.helpers.robots import SHAPES

needs_mujoco()


def stl(file: Path, triangles: Array) -> str:
    rows = [bytes(12) + each.astype("<f4").tobytes() + b"\0\0" for each in triangles]
    file.write_bytes(bytes(80) + struct.pack("<I", len(rows)) + b"".join(rows))
    return file.name


def ball(n: int) -> Array:
    """A ball of radius 1 as 4 n^2 triangles (k, 3, 3)."""
    up, turn = np.meshgrid(np.linspace(0, np.pi, n + 1), np.linspace(0, 2 * np.pi, 2 * n + 1), indexing="ij")
    points = np.stack([np.sin(up) * np.cos(turn), np.sin(up) * np.sin(turn), np.cos(up)], axis=-1)
    a, b, c, d = (points[i : n + i, k : 2 * n + k].reshape(-1, 3) for i, k in ((0, 0), (1, 0), (1, 1), (0, 1)))
    return np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def meshed(folder: Path, mesh: str) -> Path:
    file = folder / "robot.xml"
    shape = f'<asset><mesh name="part" file="{mesh}"/></asset><worldbody><body name="upper"><joint name="a"/>'
    more = '<inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/><geom type="mesh" mesh="part"/></body></worldbody>'
    file.write_text(f"<mujoco>{shape}{more}</mujoco>")
    return file


def test_shapes_stand_where_mujoco_has_them_and_what_is_only_seen_comes_first(tmp_path: Path) -> None:
    import mujoco

    (tmp_path / "robot.xml").write_text(SHAPES)
    found, lines = solids(tmp_path / "robot.xml")
    assert lines == ['mesh "absent" of 1 shapes: left out, for absent.stl is not there']
    assert [each.frame for each in found] == ["world", "upper", "fore"]
    model = mujoco.MjModel.from_xml_string(
        SHAPES.replace('<mesh name="absent" file="absent.stl"/>', "").replace('<geom type="mesh" mesh="absent"/>', "")
    )
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    points = {each.frame: data.body(each.frame).xpos + each.points for each in found}  # all joints are at zero
    box = points["world"] - [2, 0, 0]  # its corners, and the middles of top and bottom
    np.testing.assert_allclose(sorted(np.abs(box).tolist()), [[0, 0, 0.3]] * 2 + [[0.1, 0.2, 0.3]] * 8, atol=1e-12)
    turn = data.geom_xmat[2].reshape(3, 3)
    wedge = data.geom_xpos[2] + model.mesh_vert @ turn.T
    assert sorted((np.round(points["upper"][:4], 6) + 0.0).tolist()) == sorted((np.round(wedge, 6) + 0.0).tolist())
    ends = np.array([[0, 0, 1], [0.3, 0.3, 1.2]])
    along = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
    low, high = ((points["upper"][4:] - ends[0]) @ along).min(), ((points["upper"][4:] - ends[1]) @ along).max()
    assert (low, high) == (pytest.approx(-0.05, rel=0.01), pytest.approx(0.05, rel=0.01))
    local = (points["fore"] - data.geom_xpos[4]) @ data.geom_xmat[4].reshape(3, 3)
    assert np.abs(local[:, 2]).max() == pytest.approx(0.1)
    assert np.hypot(*local[:, :2].T).max() == pytest.approx(0.05)


def test_of_a_urdf_what_is_only_seen_is_drawn_where_nothing_touches(tmp_path: Path) -> None:
    def link(name: str, *shapes: tuple[str, str]) -> str:
        stated = "".join(f"<{kind}><geometry>{shape}</geometry></{kind}>" for kind, shape in shapes)
        return f'<link name="{name}">{stated}</link>'

    joint = '<joint name="{0}" type="revolute"><parent link="base"/><child link="{0}"/><limit upper="1"/></joint>'
    small, large = '<box size="1 1 1"/>', '<box size="2 2 2"/>'
    absent = '<mesh filename="package://robot/absent.dae"/>'
    links = (
        link("base", ("visual", small)),
        link("upper", ("visual", large), ("collision", small), ("visual", absent)),
        link("fore", ("visual", absent)),
    )
    file = tmp_path / "robot.urdf"
    file.write_text(f'<robot name="robot">{"".join(links)}{joint.format("upper")}{joint.format("fore")}</robot>')
    found, lines = solids(file)
    assert {each.frame: np.abs(each.points).max().round(9) for each in found} == {"base": 0.5, "upper": 0.5}
    assert lines == ['mesh "absent" of 1 shapes: left out, for package://robot/absent.dae is not there']


def test_a_fine_mesh_becomes_few_triangles_of_the_same_form(tmp_path: Path) -> None:
    (solid,), lines = solids(meshed(tmp_path, stl(tmp_path / "part.stl", ball(100))))
    assert lines == []
    assert module.MOST / 4 < len(solid.triangles) <= module.MOST
    assert solid.triangles.max() < len(solid.points)
    np.testing.assert_allclose(np.linalg.norm(solid.points, axis=1), 1.0, atol=0.01)
    corners = solid.points[solid.triangles]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2
    assert area == pytest.approx(4 * np.pi, rel=0.02)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_points_that_coincide_or_lie_far_apart_are_no_endless_loop(size: float) -> None:
    points = size * ball(20).reshape(-1, 3)
    few, triangles = fewer(points, np.arange(len(points)).reshape(-1, 3), 10)
    assert len(triangles) <= 10
    assert few[triangles].shape == (len(triangles), 3, 3)


def test_meshes_that_cannot_be_read_are_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    part = tmp_path / "part.stl"
    part.write_bytes(b"solid nothing")
    found, lines = solids(meshed(tmp_path, part.name))
    assert (found, len(lines)) == ([], 1)
    assert lines[0].startswith('mesh "part": left out, ')
    stl(part, np.full((8, 3, 3), np.nan))
    assert solids(meshed(tmp_path, part.name))[0] == []
    stl(part, ball(5))
    assert len(solids(meshed(tmp_path, part.name))[0]) == 1
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    assert "all meshes together have more than 1000 bytes" in solids(meshed(tmp_path, part.name))[1][0]
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_there_are_never_more_triangles_than_a_page_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 320)
    monkeypatch.setattr(module, "MOST_SHAPES", 20)
    shapes = "".join(f'<geom type="sphere" size="0.1" pos="0 0 {i}"/>' for i in range(25))
    inertial = '<inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>'
    body = f'<body name="upper"><joint name="a"/>{inertial}{shapes}</body>'
    (tmp_path / "robot.xml").write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    (solid,), lines = solids(tmp_path / "robot.xml")
    assert len(solid.triangles) <= module.MOST
    assert lines == ["5 shapes: left out, 20 are drawn"]
