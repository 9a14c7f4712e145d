"""The promises with a machine whose drives take speeds, behind a link which sends and receives real messages."""

import pytest

from tests.safety.suite import Driver, safety_suite


class Speeds(Driver):
    name = "speeds"
    settings = (
        'plant.driver="loopback"', 'plant.command="velocity"', "plant.actuator.bandwidth=200",
        "plant.safety.speed_limit=50", "plant.link.delay=0.0005",
    )  # fmt: skip


pytestmark = pytest.mark.slow  # the machine behind them is the simulated one

TestSpeeds = safety_suite(Speeds())
