"""The promises with firmware on a CAN bus, whose frames are those of firmware/can.c: the robot of `make robot`."""

import pytest

from tests.helpers.firmware import Can
from tests.safety.suite import safety_suite

pytest.importorskip("can", reason='needs python-can: pip install "servonode[can]"')
pytestmark = pytest.mark.slow  # all but the wire is that of the serial driver

TestCan = safety_suite(Can())
