"""The promises with a simulated machine."""

from tests.safety.suite import Driver, safety_suite


class Simulated(Driver):
    name = "simulated"


TestSimulated = safety_suite(Simulated())
