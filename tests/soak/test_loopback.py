"""The promises with a simulated machine behind a link, which sends and receives real messages."""

from tests.soak.suite import Driver, safety_suite


class Loopback(Driver):
    name = "loopback"
    settings = ('plant.driver="loopback"', "plant.link.delay=0.0005", "plant.link.jitter=0.0005")


TestLoopback = safety_suite(Loopback())
