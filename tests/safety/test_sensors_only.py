"""The promises with firmware that sends readings alone: encoders and gyroscope on a pseudo-terminal."""

import pytest

from tests.helpers.firmware import Sensing
from tests.safety.suite import safety_suite

pytestmark = pytest.mark.slow  # two at a time in CI

TestSensorsOnly = safety_suite(Sensing())
