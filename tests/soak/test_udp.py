"""The promises with firmware that speaks UDP: the robot that `make robot` builds."""

from tests.helpers.firmware import Udp
from tests.soak.suite import safety_suite

TestUdp = safety_suite(Udp())
