"""The connection between two relays: who may connect, what is bounded, and how it comes back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servonode.bus.envelope import Topic
from tests.helpers.tunnels import Ends


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = Ends(tmp_path)
    yield made
    made.close()


def test_a_send_to_whoever_does_not_read_does_not_block(ends: Ends) -> None:
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    begin = time.monotonic()
    for _ in range(3000):
        ends.desk.tunnel.send(b"", Topic("plant", "state", b"x" * 10_000))
    assert time.monotonic() - begin < 2.0
    assert ends.desk.tunnel.counts["dropped"] > 1000


def test_a_wake_up_is_never_lost(ends: Ends) -> None:
    """A descriptor of libzmq tells of an arrival once, and a send may use that up: no answer waits for a pause."""
    ends.trust("observe")
    assert ends.until(lambda: ends.robot.came, "one")
    peer, robot, desk = ends.robot.came[0][0], ends.robot, ends.desk
    slow = 0
    for number in range(300):
        robot.came.clear()
        desk.came.clear()
        desk.say(f"{number}")
        while not robot.came:
            begin = time.monotonic()
            robot.work(0.5)
            slow += time.monotonic() - begin > 0.4
        robot.say("a", "b", peer=peer)
        while len(desk.came) < 2:
            begin = time.monotonic()
            desk.work(0.5)
            desk.say("more") if number % 3 == 0 else None
            slow += time.monotonic() - begin > 0.4
    assert slow == 0
