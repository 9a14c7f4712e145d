"""Quantities of frames: errors of rotation and their rates, distances, angles, Jacobians."""

from typing import Any

import numpy as np
import pytest
import sympy
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from servonode.mechanics import Model, ModelError, angle_between, distance, frame, rotation_error, tree
from servonode.mechanics.evaluate import at_states
from servonode.mechanics.frames import axis_error, frame_names, quantity
from tests.helpers.arms import planar, spatial
from tests.helpers.refusals import refusal

FRAMES = {"tool": ("x", "x_dot", "omega_x", "axis_z"), "com": ("x",), "ground": ("axis_z",)}
FULL = sympy.Matrix(3, 3, sympy.symbols("r:9", real=True))
AXIS = sympy.Matrix(sympy.symbols("a:3", real=True))


def values(expressions: Any, symbols: Any, numbers: Any) -> Any:
    return at_states(list(expressions), dict(zip(symbols, np.asarray(numbers, dtype=float)[:, None], strict=True)))[0]


def error(R: Any, wanted: Any) -> Any:
    return values(rotation_error(FULL, sympy.Matrix(wanted)), FULL, R.ravel())


@pytest.mark.parametrize("degrees", [0.0, 1e-6, 1.0, 90.0, 175.0, 179.9])
def test_rotation_error_is_along_the_axis_of_the_turn(degrees: float) -> None:
    n, wanted = np.array([0.48, -0.6, 0.64]), Rotation.from_euler("xyz", [0.3, -0.4, 2.0]).as_matrix()
    turn = Rotation.from_rotvec(np.radians(degrees) * n).as_matrix()
    assert_allclose(error(turn @ wanted, wanted), 4 * np.tan(np.radians(degrees) / 4) * n, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("degrees", [0.0, 60.0, 170.0, 179.0])
def test_rate_of_rotation_error_is_regular_in_all_directions_alike(degrees: float) -> None:
    R, step = Rotation.from_rotvec(np.radians(degrees) * np.array([0.48, -0.6, 0.64])), 1e-6

    def beside(w: Any) -> Any:
        return error((Rotation.from_rotvec(w) * R).as_matrix(), np.eye(3))

    rates = [(beside(step * w) - beside(-step * w)) / (2 * step) for w in np.eye(3)]
    assert_allclose(np.linalg.svd(np.array(rates))[1], 1 + np.tan(np.radians(degrees) / 4) ** 2, rtol=1e-6)


def test_second_derivatives_of_rotation_error_are_finite_at_zero() -> None:
    angle = sympy.Symbol("angle", real=True)
    turned = rotation_error(sympy.Matrix(sympy.rot_axis3(-angle)), sympy.eye(3))
    second = [each.diff(angle).diff(angle) for each in turned]
    assert_allclose(values([*(each.diff(angle) for each in turned), *second], [angle], [0.0]), [0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize("degrees", [0.0, 30.0, 170.0])
def test_axis_error_is_the_shortest_turn(degrees: float) -> None:
    wanted, n = np.array([0.0, 0.6, 0.8]), np.array([0.0, -0.8, 0.6])
    axis = Rotation.from_rotvec(np.radians(degrees) * n).as_matrix() @ wanted
    found = values(axis_error(AXIS, sympy.Matrix(wanted)), AXIS, axis)
    assert_allclose(found, 2 * np.tan(np.radians(degrees) / 2) * n, atol=1e-12)


def planar_values(texts: list[str], q: Any, rates: Any) -> Any:
    model = planar(2)
    symbols = [*model.coordinates, *(each.rate for each in model.coordinates)]
    return values([quantity(model, each) for each in texts], symbols, [*q, *rates])


def test_planar_arm_as_by_hand() -> None:
    (a, b), (da, db) = (0.3, 0.7), (-0.4, 1.1)
    elbow, tool = 0.5 * np.array([np.cos(a), np.sin(a)]), 0.4 * np.array([np.cos(a + b), np.sin(a + b)])
    x, z = elbow + tool
    x_dot, z_dot = -elbow[1] * da - tool[1] * (da + db), elbow[0] * da + tool[0] * (da + db)
    com = (1.0 * elbow / 2 + 0.8 * (elbow + tool / 2)) / 1.8
    com_dot = (1.0 * elbow[0] / 2 * da + 0.8 * (elbow[0] * da + tool[0] / 2 * (da + db))) / 1.8
    texts = ["tool.x", "tool.y", "tool.z", "tool.x_dot", "tool.z_dot", "tool.omega_y", "com.x", "com.z", "com.z_dot"]
    texts += ["distance(tool, ground)", "angle(tool.axis_x, ground.axis_x)", "distance(tool, com)"]
    texts += ["distance(tool, (0.3, -0.1, 0.5))"]
    hand = [x, 0, z, x_dot, z_dot, -(da + db), *com, com_dot]
    hand += [np.hypot(x, z), a + b, np.linalg.norm(elbow + tool - com)]
    hand += [np.linalg.norm([x - 0.3, 0.1, z - 0.5])]
    assert_allclose(planar_values(texts, (a, b), (da, db)), hand, atol=1e-14)


def test_jacobian_times_motions_is_the_velocity() -> None:
    model, rng = spatial(6), np.random.default_rng(1)
    assert model.tree is not None
    tool = model.tree["tool"]
    symbols = [*model.coordinates, *(each.rate for each in model.coordinates)]
    q, v = rng.uniform(-1, 1, (2, 6))
    found = values([*tool.jacobian, *tool.velocity, *tool.angular_velocity], symbols, [*q, *v])
    assert_allclose(found[:36].reshape(6, 6) @ v, found[36:], atol=1e-14)
    ends = [values(tool.position, symbols, [*(q + side * v), *v]) for side in (1e-6, -1e-6)]
    assert_allclose((ends[0] - ends[1]) / 2e-6, found[36:39], atol=1e-9)


def test_a_distance_and_an_angle_of_programs_are_those_of_texts() -> None:
    model = planar(2)
    assert model.tree is not None
    tool, base = model.tree["tool"], model.tree["link1"]
    assert distance(tool, base) == quantity(model, "distance(tool, link1)")
    angle = angle_between(tool.rotation[:, 0], base.rotation[:, 0])
    assert angle == quantity(model, "angle(tool.axis_x, link1.axis_x)")


def test_a_frame_with_a_name_that_each_tree_has_is_refused_where_it_is_meant() -> None:
    model = planar(2)
    assert model.tree is not None
    clash = Model(name="clash", description="", tree=tree(model.tree.links, frames=[frame("com", "link2")]))
    assert "'com' stands for the centre of mass, and is a frame" in refusal(ModelError, quantity, clash, "com.x")
    assert "com" in frame_names(clash)
