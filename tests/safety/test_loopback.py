"""The promises with a simulated machine behind a link, which sends and receives real messages."""

import pytest

from tests.safety.suite import Driver, safety_suite


class Loopback(Driver):
    name = "loopback"
    settings = ('plant.driver="loopback"', "plant.link.delay=0.0005", "plant.link.jitter=0.0005")


pytestmark = pytest.mark.slow  # its messages are those of an external plant, its machine is the simulated one

TestLoopback = safety_suite(Loopback())
