"""How long what Python shows of itself takes."""

import time

import pytest

import servonode
from tests.test_from_python import shown


@pytest.fixture(scope="module")
def run() -> servonode.Run:
    return servonode.simulate("trailer_pursuit", run__duration=2.0)


@pytest.fixture(scope="module")
def loop() -> servonode.Loop:
    return servonode.load("trailer_pursuit", run__duration=2.0)


def test_everything_shows_itself_at_once(loop: servonode.Loop, run: servonode.Run) -> None:
    for each in shown(loop, run):
        begin = time.perf_counter()
        repr(each), each._repr_html_()
        assert time.perf_counter() - begin < 0.2
