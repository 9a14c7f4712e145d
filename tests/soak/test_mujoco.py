"""The promises with a machine that MuJoCo moves."""

from tests.helpers.extras import needs_mujoco
from tests.soak.suite import Driver, safety_suite


class Mujoco(Driver):
    name = "mujoco"
    launch = "trailer_pursuit_mujoco"


needs_mujoco()
TestMujoco = safety_suite(Mujoco())
