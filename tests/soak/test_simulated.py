"""The promises with a simulated machine."""

from tests.soak.suite import Driver, safety_suite


class Simulated(Driver):
    name = "simulated"


TestSimulated = safety_suite(Simulated())
