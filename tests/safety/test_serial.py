"""The promises with firmware on a serial line, which is a pseudo-terminal: the robot that `make robot` builds."""

import pytest

from tests.helpers.firmware import Serial
from tests.safety.suite import safety_suite

pytestmark = pytest.mark.slow  # two at a time in CI

TestSerial = safety_suite(Serial())
