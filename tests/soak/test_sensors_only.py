"""The promises with firmware that sends readings alone: encoders and gyroscope on a pseudo-terminal."""

from tests.helpers.firmware import Sensing
from tests.soak.suite import safety_suite

TestSensorsOnly = safety_suite(Sensing())
