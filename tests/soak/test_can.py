"""The promises with firmware on a CAN bus, whose frames are those of firmware/can.c: the robot of `make robot`."""

import pytest

from tests.helpers.firmware import Can
from tests.soak.suite import safety_suite

pytest.importorskip("can", reason='needs python-can: pip install "servonode[can]"')

TestCan = safety_suite(Can())
