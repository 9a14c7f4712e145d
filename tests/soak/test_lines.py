"""A serial line with a baud rate: whatever stops the robot, it comes to rest and stays there, at every rate."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.firmware import LINES, OnLine
from tests.helpers.runs import Runs, eventually, operator
from tests.soak.suite import WAITS, Stage, safety_suite

STOPS = int(os.environ.get("SERVONODE_STOPS", "4"))  # on each line, of all manners in turn
FAST, SLOW = 0.2, 0.03  # m/s
REST_S = 2.5  # after which a robot that brakes is slow: its time constant is 0.46 s
# bytes/s to and, over slow lines, from the board, with a tenth to spare: a frame of inputs or of the state each 10 ms
MOST_TRAFFIC = (60 * 100 * 1.1, 90 * 100 * 1.1)
SLOW_LINES = LINES[:2]
MANNERS = ("estop", "disarm", "cable", "board")
IDS = [line.name.replace(" ", "_") for line in LINES]


class Truth:
    """The true speed of the robot, which it writes into a file whatever its link does."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def speed(self) -> float:
        """The newest one [m/s]."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        cells = next((each.split(",") for each in reversed(lines) if each.count(",") >= 8), [])
        return float(cells[5]) if cells else 0.0


def is_slow_and_stays(truth: Truth) -> tuple[bool, float]:
    """Whether the robot comes to rest and does not begin to move again; its largest speed then [m/s]."""
    time.sleep(REST_S)
    speeds = []
    for _ in range(10):
        time.sleep(0.1)
        speeds.append(abs(truth.speed()))
    return max(speeds) < SLOW, max(speeds)


@pytest.fixture(params=LINES, ids=IDS)
def driver(request: pytest.FixtureRequest) -> OnLine:
    driver: OnLine = request.param
    return driver


def moves(run: Any, truth: Truth) -> bool:
    """Whether the robot moves; after a fault, as on a busy computer, it is armed again."""
    if run.ask("status")["lifecycle"] in ("fault", "inactive"):
        run.armed_again()
    return abs(truth.speed()) > FAST


@pytest.fixture
def truth(driver: OnLine, tmp_path: Path) -> Truth:
    """That of the robot of the next run over the line."""
    driver.words = ("--truth", str(tmp_path / "truth.csv"))
    return Truth(tmp_path / "truth.csv")


@pytest.fixture
def stage(driver: OnLine, runs: Runs) -> Iterator[Stage]:
    stage = Stage(driver, runs)
    yield stage
    stage.close()


def test_whatever_stops_the_robot_it_comes_to_rest_and_stays_there(driver: OnLine, stage: Stage, truth: Truth) -> None:
    """SERVONODE_STOPS=75 pytest -m slow tests/safety/test_lines.py -k rest -s: 300 stops in all, and their table."""
    run = stage.start(WAITS, "run.duration=3600")
    choice, largest = random.Random(STOPS), dict.fromkeys(MANNERS, 0.0)
    begun, before = time.monotonic(), np.array(driver.line.traffic())
    for number in range(STOPS):
        assert eventually(lambda: moves(run, truth), 60.0), run.ask("status")
        time.sleep(choice.uniform(0.0, 0.3))
        manner = MANNERS[number % len(MANNERS)]
        if manner in ("estop", "disarm"):
            operator(manner, run.name)
        elif manner == "cable":
            driver.line.pull()
        else:
            driver.line.pull()
            driver.firmware.kill()
            driver.firmware.restart()
            driver.line.plug()
        stopped, carried = time.monotonic(), np.array(driver.line.traffic())
        slow, speed = is_slow_and_stays(truth)
        largest[manner] = max(largest[manner], speed)
        assert slow, (manner, speed)
        assert run.popen.poll() is None, run.stderr
        if manner == "estop":
            rates = (np.array(driver.line.traffic()) - carried) / (time.monotonic() - stopped)
            assert rates[0] <= MOST_TRAFFIC[0], rates
            assert rates[1] <= MOST_TRAFFIC[1] or driver not in SLOW_LINES, rates
            stands = run.ask("status")
            assert ([each["name"] for each in stands["faults"]], stands["safe_state"]) == (["estop"], "damp")
        if manner == "cable":
            driver.line.plug()
        if manner == "estop":
            run.ask("reset_estop")
        assert eventually(run.armed_again, 20.0), run.ask("status")
    rates = (np.array(driver.line.traffic()) - before) / (time.monotonic() - begun)
    row = ", ".join(f"{name} {speed:.3g}" for name, speed in largest.items())
    print(
        f"\n{driver.name}: {STOPS} stops, speed [m/s] after 2.5 s at most: {row}; bytes/s to, from the board: {rates}"
    )


def suite_on(driver: OnLine) -> Any:
    return safety_suite(driver)


TestAt57600, TestAt115200, TestAt460800, TestAt921600 = map(suite_on, LINES)

# What strangers do to sockets on this computer is the same whatever the rate of the line: one of them is tried.
for each in (TestAt57600, TestAt460800, TestAt921600):
    for promise in [name for name in dir(each) if name.startswith("test_promise_22")]:
        setattr(each, promise, None)
