"""Makers' robots have the mass matrix, bias and accelerations of Pinocchio and MuJoCo."""

import numpy as np
import pytest

from servonode.mechanics.derive import derive
from tests.helpers import makers_robots as makers

STATES, TOLERANCE = 1000, 1e-10  # relative to the largest entry
UNEVEN = {"tiago"}  # its last joint has 4e-6 kg m^2, of which MuJoCo's mass matrix, with entries of 18, has 12 digits


@pytest.mark.slow
@pytest.mark.skipif(not makers.available(), reason="needs mujoco and the dependency group robots")
@pytest.mark.parametrize("robot", makers.ROBOTS)
def test_a_makers_robot_has_the_equations_of_pinocchio_and_mujoco(robot: str) -> None:
    equations = derive(makers.model_of(robot))
    own, names = makers.Own(equations), makers.joints_of(equations.model)
    oracles = [makers.Pinocchio(robot, names), makers.Mujoco(robot, names)]
    rng = np.random.default_rng(0)
    largest = np.zeros(3)
    for _ in range(STATES):
        state = makers.random_state(equations.model, rng)
        found = own.terms(state)
        for oracle in oracles:
            errors = makers.errors(found, oracle.terms(state))
            if robot in UNEVEN and isinstance(oracle, makers.Mujoco):
                errors[2] = 0.0
            largest = np.maximum(largest, errors)
    assert largest.max() < TOLERANCE
