"""The promises with the robot in C of examples/, on tcp."""

import pytest

from tests.helpers.external_c import external_c
from tests.safety.suite import safety_suite
from tests.safety.test_external import External

pytestmark = pytest.mark.slow  # two at a time in CI


class ExternalC(External):
    name = "external_c"

    def program(self) -> list[str]:
        return [external_c()]


TestExternalC = safety_suite(ExternalC())
