"""The promises with firmware on a serial line, which is a pseudo-terminal: the robot that `make robot` builds."""

from tests.helpers.firmware import Serial
from tests.soak.suite import safety_suite

TestSerial = safety_suite(Serial())
