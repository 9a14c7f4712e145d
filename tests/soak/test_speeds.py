"""The promises with a machine whose drives take speeds, behind a link which sends and receives real messages."""

from tests.soak.suite import Driver, safety_suite


class Speeds(Driver):
    name = "speeds"
    settings = (
        'plant.driver="loopback"', 'plant.command="velocity"', "plant.actuator.bandwidth=200",
        "plant.safety.speed_limit=50", "plant.link.delay=0.0005",
    )  # fmt: skip


TestSpeeds = safety_suite(Speeds())
