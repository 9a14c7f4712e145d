"""The promises with each driver."""

from tests.helpers.drivers import Driver, External, Loopback, Mujoco, Wheels
from tests.helpers.extras import MUJOCO
from tests.helpers.firmware import Can, Sensing, Serial, Udp
from tests.soak.suite import safety_suite


class Simulated(Driver):
    name = "simulated"


class Speeds(Driver):
    """A machine whose drives take speeds, behind a link which sends and receives real messages."""

    name = "speeds"
    settings = (
        'plant.driver="loopback"', 'plant.command="velocity"', "plant.actuator.bandwidth=200",
        "plant.safety.speed_limit=50", "plant.link.delay=0.0005",
    )  # fmt: skip


class WithLaw(Serial):
    """The robot on a pseudo-terminal, whose own law acts."""

    settings = (*Serial.settings, "plant.device.law=true")


class InC(External):
    name = "external_c"

    def __init__(self) -> None:
        super().__init__("c")


DRIVERS = (Simulated, Loopback, Speeds, Mujoco, External, InC, Udp, Serial, Can, Sensing, WithLaw, Wheels)
for each in DRIVERS if MUJOCO else (each for each in DRIVERS if each is not Mujoco):
    globals()[f"Test{each.__name__}"] = safety_suite(each())
