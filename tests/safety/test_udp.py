"""The promises with firmware that speaks UDP: the robot that `make robot` builds."""

import pytest

from tests.helpers.firmware import Udp
from tests.safety.suite import safety_suite

pytestmark = pytest.mark.slow  # all but the wire is that of the serial driver

TestUdp = safety_suite(Udp())
