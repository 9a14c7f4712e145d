"""The promises with a machine that MuJoCo moves."""

import pytest

from tests.helpers.extras import needs_mujoco
from tests.safety.suite import Driver, safety_suite

pytestmark = pytest.mark.slow  # two at a time in CI


class Mujoco(Driver):
    name = "mujoco"
    launch = "trailer_pursuit_mujoco"


needs_mujoco()
TestMujoco = safety_suite(Mujoco())
