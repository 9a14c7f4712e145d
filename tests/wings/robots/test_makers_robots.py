"""Robots as their makers describe them (package example-robot-data), against Pinocchio and MuJoCo."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from servonode.plants import MachineSource
from servonode.wings.robots.definition import RobotDefinition
from servonode.wings.robots.read import mass_matrix, read
from tests.helpers.extras import needs_mujoco

needs_mujoco()
STATES = 20
ARMS = ("ur_description/urdf/ur5_robot.urdf", "z1_description/urdf/z1.urdf", "kinova_description/robots/kinova.urdf")
ALL = (
    *ARMS,
    "panda_description/urdf/panda.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
    "solo_description/robots/solo12.urdf",
    "anymal_b_simple_description/robots/anymal.urdf",
    "talos_data/robots/talos_reduced.urdf",
    "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "icub_description/robots/icub.urdf",
)


def robots_folder() -> Path:
    """The folder of the package's robots; the test is skipped without it."""
    reason = "needs Pinocchio and example-robot-data: uv sync --group robots"
    pytest.importorskip("pinocchio", reason=reason)
    try:
        data = distribution("example-robot-data")
    except PackageNotFoundError:
        pytest.skip(reason)
    return Path(str(data.locate_file("cmeel.prefix/share/example-robot-data/robots")))


class Fixed:
    """Stands for a random generator that gives the angles of joints."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def uniform(self, low: float, high: float) -> float:  # noqa: ARG002
        return self._values.pop(0)


def pinocchio_state(
    model: Any, names: list[str], q: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Pinocchio's positions and velocities of joints by name, and where each velocity stands."""
    where = [model.joints[model.getJointId(name)] for name in names]
    configuration, velocity = np.zeros(model.nq), np.zeros(model.nv)
    for each, angle, rate in zip(where, q, v, strict=True):
        circle = each.nq == 2  # a joint without limits: cosine and sine
        configuration[each.idx_q : each.idx_q + each.nq] = [np.cos(angle), np.sin(angle)] if circle else [angle]
        velocity[each.idx_v] = rate
    return configuration, velocity, [each.idx_v for each in where]


@pytest.mark.parametrize("name", ALL)
def test_the_inertias_of_makers_robots_are_those_of_pinocchio(name: str) -> None:
    folder = robots_folder()
    import pinocchio

    robot = read(folder / name)
    names = [each.name for each in robot.joints]
    model = pinocchio.buildModelFromUrdf(str(folder / name))
    model.armature[:] = 0
    data, rng = model.createData(), np.random.default_rng(0)
    plain = replace(robot, bodies=tuple(
        replace(body, joints=tuple(replace(each, armature=0.0) for each in body.joints)) for body in robot.bodies
    ))  # fmt: skip
    for _ in range(STATES):
        q = rng.uniform(-1, 1, len(names))
        at, _, order = pinocchio_state(model, names, q, q)
        M = pinocchio.crba(model, data, at)
        M = np.triu(M) + np.triu(M, 1).T
        found = mass_matrix(plain, Fixed(q.tolist()))  # type: ignore[arg-type]
        assert_allclose(found, M[np.ix_(order, order)], rtol=1e-10, atol=1e-10 * np.max(np.abs(M)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ARMS)
def test_the_equations_of_makers_arms_are_those_of_pinocchio(name: str) -> None:
    folder = robots_folder()
    import pinocchio

    machine = MachineSource(RobotDefinition(name, folder / name)).load({})
    losses = {each: 0.0 for each in machine.parameters if each.endswith(("_friction", "_damping"))}
    machine = machine.with_parameters(losses)  # which Pinocchio's bias lacks
    names = [each.name for each in read(folder / name).joints]
    model = pinocchio.buildModelFromUrdf(str(folder / name))
    data, rng = model.createData(), np.random.default_rng(0)
    for _ in range(STATES):
        q, v = rng.uniform(-1, 1, len(names)), rng.uniform(-1, 1, len(names))
        at, rates, order = pinocchio_state(model, names, q, v)
        M = pinocchio.crba(model, data, at)
        M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
        found = machine.matrices(0.0, np.concatenate([q, v, [0.0]]))
        bias = pinocchio.nonLinearEffects(model, data, at, rates)[order]
        assert_allclose(found.M, M, rtol=1e-10, atol=1e-10 * np.max(np.abs(M)))
        assert_allclose(found.h, bias, rtol=1e-10, atol=1e-10 * np.max(np.abs(bias)))
