"""The promises with the robot in C of examples/, on tcp."""

from tests.helpers.external_c import external_c
from tests.soak.suite import safety_suite
from tests.soak.test_external import External


class ExternalC(External):
    name = "external_c"

    def program(self) -> list[str]:
        return [external_c()]


TestExternalC = safety_suite(ExternalC())
